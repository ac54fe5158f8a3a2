use serde_json::Value;
use tidegate_model::argo::ClusterDecisionResourceGenerator;

use crate::error::{ErrorLocation, Problem};
use crate::parameters::{ParameterSet, add_prefixed, from_texts, to_text};
use crate::run::{GenerateResult, GenerateRun, GenerateStop, GeneratorPosition};

/// Returns a parameter set for each entry in the resources' status lists, except those that don't name a
/// declared cluster.
pub(crate) fn decision_parameters(
    run: &mut GenerateRun<'_>,
    generator: &ClusterDecisionResourceGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let generator = run.render_part(generator, spot)?;
    let has_selector = generator.label_selector.is_some();
    if generator.name.is_empty() != has_selector {
        return Err(spot.error(Problem::Decision));
    }
    let decisions = match spot.resolve_reply(run.inputs.decisions(&generator)) {
        // Continue, so that the clusters are requested in the same run as the resources.
        Err(GenerateStop::NotAvailableYet) => None,
        decisions => Some(decisions?),
    };
    let clusters = spot.resolve_reply(run.inputs.clusters())?;
    let decisions = decisions.ok_or(GenerateStop::NotAvailableYet)?;
    if decisions.resources.is_empty() {
        return Err(spot.error(Problem::NoDecisions));
    }
    let mut sets = Vec::new();
    for (resource, status) in &decisions.resources {
        let key = &decisions.status_list_key;
        let entries = match status.get(key) {
            Some(Value::Array(entries)) => entries.as_slice(),
            None if status.as_object().is_none_or(|status| status.is_empty()) => &[],
            _ => {
                let (resource, key) = (resource.clone(), key.clone());
                return Err(spot.error(Problem::DecisionList { resource, key }));
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            let origin = format!("{resource} {key}[{index}]");
            let Some(entry) = entry.as_object() else {
                let found = crate::parameters::describe_kind(entry);
                let problem = Problem::NotAnObject { what: "an entry in the list", found };
                return Err(ErrorLocation::in_generator(spot.path)
                    .with_element(origin)
                    .error(problem)
                    .into());
            };
            let name = entry.get(&decisions.match_key).map(to_text).unwrap_or_default();
            run.take_steps(1, spot)?;
            let Some(cluster) = clusters.iter().find(|cluster| !name.is_empty() && cluster.name == name)
            else {
                continue;
            };
            let mut parameters = from_texts(entry.iter().map(|(key, value)| (key, to_text(value))));
            parameters.insert("name".to_owned(), Value::String(cluster.name.clone()));
            parameters.insert("server".to_owned(), Value::String(cluster.server.clone()));
            let values = from_texts(generator.values.clone());
            if !values.is_empty() {
                add_prefixed(&mut parameters, run.uses_go_templates(), "values", values);
            }
            run.add_parameter_set(&mut sets, parameters, origin, spot)?;
        }
    }
    Ok(sets)
}
