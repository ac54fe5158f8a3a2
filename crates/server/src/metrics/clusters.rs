//! The clusters that applications go to, as far as their watches tell.

use std::collections::BTreeMap;

use tidegate_service::applications::ClusterStanding;

use super::names::{CLUSTER_CONNECTED, CLUSTER_EVENTS, CLUSTER_INFO, CLUSTER_KINDS, CLUSTER_OBJECTS, Metric};
use super::text::Text;

/// A metric that is one number of a cluster.
type Count = (Metric, fn(&ClusterStanding) -> u64);

/// The addresses of clusters by their names: an application may say either.
pub(super) struct Servers(BTreeMap<String, String>);

impl Servers {
    pub fn of(clusters: &[ClusterStanding]) -> Self {
        let named = |one: &ClusterStanding| {
            let server = one.server.clone();
            one.names.clone().into_iter().map(move |name| (name, server.clone()))
        };
        Self(clusters.iter().flat_map(named).collect())
    }

    /// The address of what an application says; that itself where no cluster has the name.
    pub fn address<'s>(&'s self, said: &'s str) -> &'s str {
        self.0.get(said).map_or(said, String::as_str)
    }
}

/// How each stands.
pub(super) fn of_clusters(text: &mut Text, all: &[ClusterStanding]) {
    let mut info = text.metric(CLUSTER_INFO);
    for one in all {
        for name in &one.names {
            info.count(&[("server", &one.server), ("name", name)], 1);
        }
    }
    let counts: [Count; 4] = [
        (CLUSTER_CONNECTED, |one| u64::from(one.is_connected)),
        (CLUSTER_OBJECTS, |one| one.objects),
        (CLUSTER_KINDS, |one| one.kinds),
        (CLUSTER_EVENTS, |one| one.events),
    ];
    for (metric, count) in counts {
        let mut samples = text.metric(metric);
        for one in all {
            samples.count(&[("server", &one.server)], count(one));
        }
    }
}
