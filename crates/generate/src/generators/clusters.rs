use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_model::argo::ClusterGenerator;

use crate::inputs::Cluster;
use crate::name_rules::normalize;
use crate::parameters::{ParameterSet, Parameters, from_texts};
use crate::run::{GenerateResult, GenerateRun, GeneratorPosition};
use crate::selector::Selector;

/// Name and URL of the local cluster, as in Argo CD.
const LOCAL_CLUSTER: (&str, &str) = ("in-cluster", "https://kubernetes.default.svc");

/// Returns a parameter set for each declared cluster, ordered by name, or with `flatList` a single set that
/// contains all of them.
pub(crate) fn cluster_parameters(
    run: &mut GenerateRun<'_>,
    generator: &ClusterGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let generator = run.render_part(generator, spot)?;
    let selector = generator.selector.clone().unwrap_or_default();
    let selector = Selector::new(&selector).map_err(|problem| spot.error(problem))?;
    let clusters = spot.resolve_reply(run.inputs.clusters())?;
    let steps = clusters.len().saturating_mul(selector.match_cost());
    run.take_steps(steps, spot)?;
    let mut sets = Vec::new();
    for cluster in select_clusters(&clusters, &selector) {
        let origin = format!("cluster {}", cluster.name);
        let mut parameters = parameters_of(&cluster, run.uses_go_templates());
        run.add_values(&mut parameters, &generator.values, &origin, spot)?;
        run.add_parameter_set(&mut sets, parameters, origin, spot)?;
    }
    if !generator.flat_list {
        return Ok(sets);
    }
    let all: Vec<_> = sets.into_iter().map(|set| Value::Object(set.parameters)).collect();
    let mut flat = Vec::new();
    let parameters = Parameters::from_iter([("clusters".to_owned(), Value::Array(all))]);
    run.add_parameter_set(&mut flat, parameters, "all clusters".to_owned(), spot)?;
    Ok(flat)
}

/// Returns the clusters that match the selector, without duplicate names. Without a selector, the local
/// cluster is included even if it isn't declared.
fn select_clusters(clusters: &[Cluster], selector: &Selector) -> Vec<Cluster> {
    let mut sorted: Vec<_> =
        clusters.iter().filter(|cluster| selector.matches_labels(&cluster.labels)).cloned().collect();
    let (name, server) = LOCAL_CLUSTER;
    if selector.is_empty() && clusters.iter().all(|cluster| cluster.server != server) {
        sorted.push(Cluster { name: name.to_owned(), server: server.to_owned(), ..Cluster::default() });
    }
    sorted.sort_by(|left, right| (&left.name, &left.server).cmp(&(&right.name, &right.server)));
    let mut names = BTreeSet::new();
    sorted.retain(|cluster| names.insert(cluster.name.clone()));
    sorted
}

fn parameters_of(cluster: &Cluster, of_go: bool) -> Parameters {
    let fields = [
        ("name", cluster.name.clone()),
        ("nameNormalized", normalize(&cluster.name)),
        ("server", cluster.server.clone()),
        ("project", cluster.project.clone()),
    ];
    let mut parameters = from_texts(fields);
    let metadata = [("labels", &cluster.labels), ("annotations", &cluster.annotations)];
    if of_go {
        let there: BTreeMap<_, _> = metadata.into_iter().filter(|(_, entries)| !entries.is_empty()).collect();
        if !there.is_empty() {
            parameters.insert("metadata".to_owned(), json!(there));
        }
    } else {
        for (kind, entries) in metadata {
            let entries = entries.iter();
            parameters.extend(
                entries
                    .map(|(name, value)| (format!("metadata.{kind}.{name}"), Value::String(value.clone()))),
            );
        }
    }
    parameters
}
