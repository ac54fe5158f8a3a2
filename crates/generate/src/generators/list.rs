use serde_json::Value;
use tidegate_model::argo::ListGenerator;

use crate::error::{ErrorLocation, Problem};
use crate::parameters::{ParameterSet, Parameters, add_prefixed, describe_kind};
use crate::run::{GenerateResult, GenerateRun, GeneratorPosition};
use crate::yaml;

/// Returns the parameter sets of a list generator.
pub(crate) fn list_parameters(
    run: &mut GenerateRun<'_>,
    list: &ListGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let list = run.render_part(list, spot)?;
    if list.elements.is_empty() && list.elements_yaml.is_empty() && !list.rest.is_empty() {
        let fields = list.rest.keys().cloned().collect::<Vec<_>>().join(", ");
        return Err(spot.error(Problem::NoElements { fields }));
    }
    let mut sets = Vec::new();
    for (index, element) in list.elements.iter().enumerate() {
        let origin = format!("element {}", index + 1);
        let wrong =
            |problem: Problem| ErrorLocation::in_generator(spot.path).with_element(&origin).error(problem);
        let element = as_object(element, "an element").map_err(wrong)?;
        let parameters =
            if run.uses_go_templates() { element.clone() } else { as_texts(element).map_err(wrong)? };
        run.add_parameter_set(&mut sets, parameters, origin, spot)?;
    }
    let wrong = |reason: String| spot.error(Problem::ElementsYaml { reason });
    let more = match yaml::read(&list.elements_yaml).map_err(wrong)? {
        Value::Null => Vec::new(),
        Value::Array(more) => more,
        other => return Err(wrong(format!("found {}", describe_kind(&other)))),
    };
    for (index, element) in more.iter().enumerate() {
        let origin = format!("elementsYaml {}", index + 1);
        let element = as_object(element, "an element")
            .map_err(|problem| ErrorLocation::in_generator(spot.path).with_element(&origin).error(problem))?;
        run.add_parameter_set(&mut sets, element.clone(), origin, spot)?;
    }
    Ok(sets)
}

fn as_object<'v>(value: &'v Value, what: &'static str) -> Result<&'v Parameters, Problem> {
    value.as_object().ok_or_else(|| Problem::NotAnObject { what, found: describe_kind(value) })
}

/// Converts an element to parameters for `{{name}}` templates. All values, including those in `values`, must
/// be strings.
fn as_texts(element: &Parameters) -> Result<Parameters, Problem> {
    let text = |key: &str, value: &Value| match value {
        Value::String(_) => Ok(value.clone()),
        other => Err(Problem::NotAText { key: key.to_owned(), found: describe_kind(other) }),
    };
    let mut texts = Parameters::new();
    for (key, value) in element {
        match value {
            Value::Object(values) if key == "values" => {
                let values = values
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), text(&format!("values.{name}"), value)?)));
                add_prefixed(&mut texts, false, "values", values.collect::<Result<_, Problem>>()?);
            }
            value => {
                texts.insert(key.clone(), text(key, value)?);
            }
        }
    }
    Ok(texts)
}
