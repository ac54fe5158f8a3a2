use serde_json::{Map, Value, json};
use tidegate_model::argo::PluginGenerator;

use crate::error::Problem;
use crate::parameters::{ParameterSet, flatten, kind};
use crate::run::{Ran, Run, Spot};

/// What a program answers: `{"output": {"parameters": [{…}]}}`.
pub(crate) fn sets(run: &mut Run<'_>, plugin: &PluginGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    let plugin = run.filled(plugin, spot)?;
    let answer = spot.known(run.world.plugin(&plugin))?;
    let wrong = |reason: String| spot.wrong(Problem::Plugin { reason });
    let parameters = answer.pointer("/output/parameters");
    let found = || parameters.map_or_else(|| "nothing".to_owned(), kind);
    let objects = parameters
        .and_then(Value::as_array)
        .ok_or_else(|| wrong(format!("output.parameters of its answer is {}, and no list", found())))?;
    let mut input = Map::new();
    input.insert("input".to_owned(), json!({ "parameters": plugin.input.parameters }));
    let input = Map::from_iter([("generator".to_owned(), Value::Object(input))]);
    let mut sets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        let origin = format!("answer {}", index + 1);
        let object = object
            .as_object()
            .ok_or_else(|| wrong(format!("entry {index} of output.parameters is {}", kind(object))))?;
        let mut parameters = object.clone();
        parameters.extend(input.clone());
        let mut parameters = if run.of_go() { parameters } else { flatten(&parameters) };
        run.add_values(&mut parameters, &plugin.values, &origin, spot)?;
        run.add(&mut sets, parameters, origin, spot)?;
    }
    Ok(sets)
}
