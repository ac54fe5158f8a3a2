use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidegate_model::argo::ClusterGenerator;

use crate::names::normalize;
use crate::parameters::{ParameterSet, Parameters, of_texts};
use crate::run::{Ran, Run, Spot};
use crate::selector::Selector;
use crate::world::Cluster;

/// The cluster that an Argo CD runs in, under the name and URL that it has there.
const LOCAL: (&str, &str) = ("in-cluster", "https://kubernetes.default.svc");

/// A set for each cluster that is declared, in the order of their names, or one for all.
pub(crate) fn sets(
    run: &mut Run<'_>,
    generator: &ClusterGenerator,
    spot: Spot<'_>,
) -> Ran<Vec<ParameterSet>> {
    let generator = run.filled(generator, spot)?;
    let selector = generator.selector.clone().unwrap_or_default();
    let selector = Selector::new(&selector).map_err(|problem| spot.wrong(problem))?;
    let clusters = spot.known(run.world.clusters())?;
    let steps = clusters.len().saturating_mul(selector.steps());
    run.steps(steps, spot)?;
    let mut sets = Vec::new();
    for cluster in chosen(&clusters, &selector) {
        let origin = format!("cluster {}", cluster.name);
        let mut parameters = parameters(&cluster, run.of_go());
        run.add_values(&mut parameters, &generator.values, &origin, spot)?;
        run.add(&mut sets, parameters, origin, spot)?;
    }
    if !generator.flat_list {
        return Ok(sets);
    }
    let all: Vec<_> = sets.into_iter().map(|set| Value::Object(set.parameters)).collect();
    let mut flat = Vec::new();
    let parameters = Parameters::from_iter([("clusters".to_owned(), Value::Array(all))]);
    run.add(&mut flat, parameters, "all clusters".to_owned(), spot)?;
    Ok(flat)
}

/// Those that match, each name once; without a selector the local one too.
fn chosen(clusters: &[Cluster], selector: &Selector) -> Vec<Cluster> {
    let mut sorted: Vec<_> =
        clusters.iter().filter(|cluster| selector.matches_labels(&cluster.labels)).cloned().collect();
    let (name, server) = LOCAL;
    if selector.is_empty() && clusters.iter().all(|cluster| cluster.server != server) {
        sorted.push(Cluster { name: name.to_owned(), server: server.to_owned(), ..Cluster::default() });
    }
    sorted.sort_by(|left, right| (&left.name, &left.server).cmp(&(&right.name, &right.server)));
    let mut names = BTreeSet::new();
    sorted.retain(|cluster| names.insert(cluster.name.clone()));
    sorted
}

fn parameters(cluster: &Cluster, of_go: bool) -> Parameters {
    let fields = [
        ("name", cluster.name.clone()),
        ("nameNormalized", normalize(&cluster.name)),
        ("server", cluster.server.clone()),
        ("project", cluster.project.clone()),
    ];
    let mut parameters = of_texts(fields);
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
