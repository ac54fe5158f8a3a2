use serde_json::Value;
use tidegate_model::argo::MatrixGenerator;

use crate::error::{ErrorLocation, Problem};
use crate::parameters::{ParameterSet, Parameters, add_missing, to_text};
use crate::run::{GenerateResult, GenerateRun, GenerateStop, GeneratorPosition};

/// Combines each parameter set of the first generator with each of the second. The first's parameters are
/// used to render the second's templates.
pub(crate) fn matrix_parameters(
    run: &mut GenerateRun<'_>,
    matrix: &MatrixGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let [first, second] = matrix.generators.as_slice() else {
        return Err(spot.error(Problem::Matrix { count: matrix.generators.len() }));
    };
    let firsts = run.nested_parameter_sets(0, first, spot.outer_parameters, spot)?;
    let mut sets = Vec::new();
    let mut is_unknown = false;
    for one in firsts {
        // Parameters from outside the matrix are available as well.
        let mut known = one.parameters.clone();
        if let Some(outer) = spot.outer_parameters.and_then(Value::as_object) {
            add_missing(&mut known, outer);
        }
        let known = Value::Object(known);
        let seconds = match run.nested_parameter_sets(1, second, Some(&known), spot) {
            // Continue, so that the data for all parameter sets is requested in the same run.
            Err(GenerateStop::NotAvailableYet) => {
                is_unknown = true;
                continue;
            }
            seconds => seconds?,
        };
        for other in seconds {
            let origin = format!("{}, {}", one.origin, other.origin);
            let parameters = combine_parameters(&one.parameters, other.parameters, run.uses_go_templates())
                .map_err(|problem| {
                ErrorLocation::in_generator(spot.path).with_element(&origin).error(problem)
            })?;
            run.add_parameter_set(&mut sets, parameters, origin, spot)?;
        }
    }
    if is_unknown { Err(GenerateStop::NotAvailableYet) } else { Ok(sets) }
}

/// Combines two parameter sets. With Go templates, the first set wins; without, common parameters must be
/// equal.
fn combine_parameters(
    first: &Parameters,
    mut second: Parameters,
    of_go: bool,
) -> Result<Parameters, Problem> {
    if of_go {
        let mut combined = first.clone();
        add_missing(&mut combined, &second);
        return Ok(combined);
    }
    for value in second.values_mut() {
        if !is_structured(value) {
            *value = Value::String(to_text(value));
        }
    }
    for (key, value) in first {
        let value = if is_structured(value) { value.clone() } else { Value::String(to_text(value)) };
        match second.get(key) {
            Some(other) if *other != value => {
                let (key, first, second) = (key.clone(), to_text(&value), to_text(other));
                return Err(Problem::Contradiction { key, first, second });
            }
            _ => second.insert(key.clone(), value),
        };
    }
    Ok(second)
}

/// Returns true for lists and objects. As strings, they would be useless in templates, so they aren't
/// converted.
fn is_structured(value: &Value) -> bool {
    value.is_array() || value.is_object()
}
