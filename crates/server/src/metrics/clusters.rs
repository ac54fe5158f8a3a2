//! Metrics for destination clusters, based on their watches.

use std::collections::BTreeMap;

use tidegate_app_controller::ClusterStatus;

use super::definitions::{
    CLUSTER_CONNECTED, CLUSTER_EVENTS, CLUSTER_INFO, CLUSTER_KINDS, CLUSTER_OBJECTS, Metric,
};
use super::text_format::MetricsText;

/// A metric with one value per cluster.
type ClusterMetric = (Metric, fn(&ClusterStatus) -> u64);

/// Cluster URLs, by cluster name and by alternative URL. Applications may use any of these.
pub(super) struct ClusterAddresses(BTreeMap<String, String>);

impl ClusterAddresses {
    pub fn from_clusters(clusters: &[ClusterStatus]) -> Self {
        let named = |one: &ClusterStatus| {
            let server = one.server.clone();
            let name = one.names.iter().chain(&one.other_servers).cloned();
            name.collect::<Vec<_>>().into_iter().map(move |name| (name, server.clone()))
        };
        Self(clusters.iter().flat_map(named).collect())
    }

    /// Returns the URL of the destination called `name` or, for an unknown cluster, `name` without trailing
    /// slashes.
    pub fn resolve_address<'s>(&'s self, name: &'s str) -> &'s str {
        let of = |name: &str| self.0.get(name).map(String::as_str);
        let server = name.trim_end_matches('/');
        of(name).or_else(|| of(server)).unwrap_or(server)
    }
}

/// Writes the state of each cluster.
pub(super) fn write_cluster_metrics(text: &mut MetricsText, all: &[ClusterStatus]) {
    let mut info = text.start_metric(CLUSTER_INFO);
    for one in all {
        for name in &one.names {
            info.add_count(&[("server", &one.server), ("name", name)], 1);
        }
    }
    let counts: [ClusterMetric; 4] = [
        (CLUSTER_CONNECTED, |one| u64::from(one.is_connected)),
        (CLUSTER_OBJECTS, |one| one.objects),
        (CLUSTER_KINDS, |one| one.kinds),
        (CLUSTER_EVENTS, |one| one.events),
    ];
    for (metric, count) in counts {
        let mut samples = text.start_metric(metric);
        for one in all {
            samples.add_count(&[("server", &one.server)], count(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_has_one_address_for_all_its_names() {
        let standing = |names: &[&str], server: &str, other: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            ClusterStatus {
                names: texts(names),
                server: server.to_owned(),
                other_servers: texts(other),
                is_connected: true,
                objects: 0,
                kinds: 0,
                events: 0,
            }
        };
        let own = "https://kubernetes.default.svc";
        let servers = ClusterAddresses::from_clusters(&[
            standing(&["in-cluster", "prod-east"], own, &["https://10.0.0.1:6443"]),
            standing(&["staging"], "https://10.0.0.2:6443", &[]),
        ]);
        for (name, address) in [
            ("in-cluster", own),
            ("prod-east", own),
            (own, own),
            ("https://kubernetes.default.svc/", own),
            ("https://10.0.0.1:6443/", own),
            ("staging", "https://10.0.0.2:6443"),
            ("https://10.0.0.2:6443/", "https://10.0.0.2:6443"),
            ("nobody", "nobody"),
            ("", ""),
        ] {
            assert_eq!(servers.resolve_address(name), address, "{name}");
        }
    }
}
