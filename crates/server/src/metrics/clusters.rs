//! The clusters that applications go to, as far as their watches tell.

use std::collections::BTreeMap;

use tidegate_service::applications::ClusterStanding;

use super::names::{CLUSTER_CONNECTED, CLUSTER_EVENTS, CLUSTER_INFO, CLUSTER_KINDS, CLUSTER_OBJECTS, Metric};
use super::text::Text;

/// A metric that is one number of a cluster.
type Count = (Metric, fn(&ClusterStanding) -> u64);

/// The addresses of clusters by their names and other addresses: an application may say any of them.
pub(super) struct Servers(BTreeMap<String, String>);

impl Servers {
    pub fn of(clusters: &[ClusterStanding]) -> Self {
        let named = |one: &ClusterStanding| {
            let server = one.server.clone();
            let said = one.names.iter().chain(&one.other_servers).cloned();
            said.collect::<Vec<_>>().into_iter().map(move |said| (said, server.clone()))
        };
        Self(clusters.iter().flat_map(named).collect())
    }

    /// The address of what an application says; that itself where no cluster has the name.
    pub fn address<'s>(&'s self, said: &'s str) -> &'s str {
        let of = |said: &str| self.0.get(said).map(String::as_str);
        let server = said.trim_end_matches('/');
        of(said).or_else(|| of(server)).unwrap_or(server)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_has_one_address_whatever_applications_call_it() {
        let standing = |names: &[&str], server: &str, other: &[&str]| {
            let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            ClusterStanding {
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
        let servers = Servers::of(&[
            standing(&["in-cluster", "prod-east"], own, &["https://10.0.0.1:6443"]),
            standing(&["staging"], "https://10.0.0.2:6443", &[]),
        ]);
        for (said, address) in [
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
            assert_eq!(servers.address(said), address, "{said}");
        }
    }
}
