use serde_json::Value;
use tidegate_model::argo::MatrixGenerator;

use crate::error::{Place, Problem};
use crate::parameters::{ParameterSet, Parameters, fill, text};
use crate::run::{Ran, Run, Spot, Stop};

/// Each set of the first generator with each of the second, whose texts are filled by those of the first.
pub(crate) fn sets(run: &mut Run<'_>, matrix: &MatrixGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    let [first, second] = matrix.generators.as_slice() else {
        return Err(spot.wrong(Problem::Matrix { count: matrix.generators.len() }));
    };
    let firsts = run.nested(0, first, spot.outer, spot)?;
    let mut sets = Vec::new();
    let mut is_unknown = false;
    for one in firsts {
        // What is in this matrix knows the sets it is in, too.
        let mut known = one.parameters.clone();
        if let Some(outer) = spot.outer.and_then(Value::as_object) {
            fill(&mut known, outer);
        }
        let known = Value::Object(known);
        let seconds = match run.nested(1, second, Some(&known), spot) {
            // The questions of all of them are asked in the same round.
            Err(Stop::Unknown) => {
                is_unknown = true;
                continue;
            }
            seconds => seconds?,
        };
        for other in seconds {
            let origin = format!("{}, {}", one.origin, other.origin);
            let parameters = combined(&one.parameters, other.parameters, run.of_go())
                .map_err(|problem| Place::of(spot.place).element(&origin).wrong(problem))?;
            run.add(&mut sets, parameters, origin, spot)?;
        }
    }
    if is_unknown { Err(Stop::Unknown) } else { Ok(sets) }
}

/// Both sets as one: with templates of Go the first one wins, otherwise they must agree.
fn combined(first: &Parameters, mut second: Parameters, of_go: bool) -> Result<Parameters, Problem> {
    if of_go {
        let mut combined = first.clone();
        fill(&mut combined, &second);
        return Ok(combined);
    }
    for value in second.values_mut() {
        if !is_whole(value) {
            *value = Value::String(text(value));
        }
    }
    for (key, value) in first {
        let value = if is_whole(value) { value.clone() } else { Value::String(text(value)) };
        match second.get(key) {
            Some(other) if *other != value => {
                let (key, first, second) = (key.clone(), text(&value), text(other));
                return Err(Problem::Contradiction { key, first, second });
            }
            _ => second.insert(key.clone(), value),
        };
    }
    Ok(second)
}

/// Lists and objects stay what they are: as texts they would be of no use.
fn is_whole(value: &Value) -> bool {
    value.is_array() || value.is_object()
}
