use serde_json::Value;
use tidegate_model::argo::ClusterDecisionResourceGenerator;

use crate::error::{Place, Problem};
use crate::parameters::{ParameterSet, of_texts, put, text};
use crate::run::{Ran, Run, Spot, Stop};

/// A set for each entry of the lists of the resources that names a cluster which is declared.
pub(crate) fn sets(
    run: &mut Run<'_>,
    generator: &ClusterDecisionResourceGenerator,
    spot: Spot<'_>,
) -> Ran<Vec<ParameterSet>> {
    let generator = run.filled(generator, spot)?;
    let has_selector = generator.label_selector.is_some();
    if generator.name.is_empty() != has_selector {
        return Err(spot.wrong(Problem::Decision));
    }
    let decisions = match spot.known(run.world.decisions(&generator)) {
        // The clusters are asked for in the same round.
        Err(Stop::Unknown) => None,
        decisions => Some(decisions?),
    };
    let clusters = spot.known(run.world.clusters())?;
    let decisions = decisions.ok_or(Stop::Unknown)?;
    if decisions.resources.is_empty() {
        return Err(spot.wrong(Problem::NoDecisions));
    }
    let mut sets = Vec::new();
    for (resource, status) in &decisions.resources {
        let key = &decisions.status_list_key;
        let entries = match status.get(key) {
            Some(Value::Array(entries)) => entries.as_slice(),
            None if status.as_object().is_none_or(|status| status.is_empty()) => &[],
            _ => {
                let (resource, key) = (resource.clone(), key.clone());
                return Err(spot.wrong(Problem::DecisionList { resource, key }));
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            let origin = format!("{resource} {key}[{index}]");
            let Some(entry) = entry.as_object() else {
                let found = crate::parameters::kind(entry);
                let problem = Problem::NoObject { what: "an entry of the list", found };
                return Err(Place::of(spot.place).element(origin).wrong(problem).into());
            };
            let name = entry.get(&decisions.match_key).map(text).unwrap_or_default();
            run.steps(1, spot)?;
            let Some(cluster) = clusters.iter().find(|cluster| !name.is_empty() && cluster.name == name)
            else {
                continue;
            };
            let mut parameters = of_texts(entry.iter().map(|(key, value)| (key, text(value))));
            parameters.insert("name".to_owned(), Value::String(cluster.name.clone()));
            parameters.insert("server".to_owned(), Value::String(cluster.server.clone()));
            let values = of_texts(generator.values.clone());
            if !values.is_empty() {
                put(&mut parameters, run.of_go(), "values", values);
            }
            run.add(&mut sets, parameters, origin, spot)?;
        }
    }
    Ok(sets)
}
