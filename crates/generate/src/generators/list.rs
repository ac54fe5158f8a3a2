use serde_json::Value;
use tidegate_model::argo::ListGenerator;

use crate::error::{Place, Problem};
use crate::parameters::{ParameterSet, Parameters, kind, put};
use crate::run::{Ran, Run, Spot};
use crate::yaml;

/// Sets that are written down.
pub(crate) fn sets(run: &mut Run<'_>, list: &ListGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    let list = run.filled(list, spot)?;
    if list.elements.is_empty() && list.elements_yaml.is_empty() && !list.rest.is_empty() {
        let fields = list.rest.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(spot.wrong(Problem::NoElements { fields }));
    }
    let mut sets = Vec::new();
    for (index, element) in list.elements.iter().enumerate() {
        let origin = format!("element {}", index + 1);
        let wrong = |problem: Problem| Place::of(spot.place).element(&origin).wrong(problem);
        let element = object(element, "an element").map_err(wrong)?;
        let parameters = if run.of_go() { element.clone() } else { texts(element).map_err(wrong)? };
        run.add(&mut sets, parameters, origin, spot)?;
    }
    let wrong = |reason: String| spot.wrong(Problem::ElementsYaml { reason });
    let more = match yaml::read(&list.elements_yaml).map_err(wrong)? {
        Value::Null => Vec::new(),
        Value::Array(more) => more,
        other => return Err(wrong(format!("it is {}", kind(&other)))),
    };
    for (index, element) in more.iter().enumerate() {
        let origin = format!("elementsYaml {}", index + 1);
        let element = object(element, "an element")
            .map_err(|problem| Place::of(spot.place).element(&origin).wrong(problem))?;
        run.add(&mut sets, element.clone(), origin, spot)?;
    }
    Ok(sets)
}

fn object<'v>(value: &'v Value, what: &'static str) -> Result<&'v Parameters, Problem> {
    value.as_object().ok_or_else(|| Problem::NoObject { what, found: kind(value) })
}

/// Parameters of `{{name}}` templates are texts; those in `values` too.
fn texts(element: &Parameters) -> Result<Parameters, Problem> {
    let text = |key: &str, value: &Value| match value {
        Value::String(_) => Ok(value.clone()),
        other => Err(Problem::NoText { key: key.to_owned(), found: kind(other) }),
    };
    let mut texts = Parameters::new();
    for (key, value) in element {
        match value {
            Value::Object(values) if key == "values" => {
                let values = values
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(&format!("values.{name}"), value)?)));
                put(&mut texts, false, "values", values.collect::<Result<_, Problem>>()?);
            }
            value => {
                texts.insert(key.clone(), text(key, value)?);
            }
        }
    }
    Ok(texts)
}
