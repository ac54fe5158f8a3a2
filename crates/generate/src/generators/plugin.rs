use serde_json::{Map, Value, json};
use tidegate_model::argo::PluginGenerator;

use crate::error::Problem;
use crate::parameters::{ParameterSet, describe_kind, flatten};
use crate::run::{GenerateResult, GenerateRun, GeneratorPosition};

/// Returns the parameter sets in a plugin's response: `{"output": {"parameters": [{…}]}}`.
pub(crate) fn plugin_parameters(
    run: &mut GenerateRun<'_>,
    plugin: &PluginGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let plugin = run.render_part(plugin, spot)?;
    let answer = spot.resolve_reply(run.inputs.plugin(&plugin))?;
    let wrong = |reason: String| spot.error(Problem::Plugin { reason });
    let parameters = answer.pointer("/output/parameters");
    let found = || parameters.map_or_else(|| "nothing".to_owned(), describe_kind);
    let objects = parameters.and_then(Value::as_array).ok_or_else(|| {
        wrong(format!("output.parameters of the response must be a list, found {}", found()))
    })?;
    let mut input = Map::new();
    input.insert("input".to_owned(), json!({ "parameters": plugin.input.parameters }));
    let input = Map::from_iter([("generator".to_owned(), Value::Object(input))]);
    let mut sets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let origin = format!("result {}", index + 1);
        let object = object.as_object().ok_or_else(|| {
            wrong(format!(
                "entry {index} of output.parameters must be an object, found {}",
                describe_kind(object)
            ))
        })?;
        let mut parameters = object.clone();
        parameters.extend(input.clone());
        let mut parameters = if run.uses_go_templates() { parameters } else { flatten(&parameters) };
        run.add_values(&mut parameters, &plugin.values, &origin, spot)?;
        run.add_parameter_set(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}
