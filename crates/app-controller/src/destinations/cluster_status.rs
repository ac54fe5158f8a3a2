//! Status of each cluster, for metrics.

use std::collections::BTreeMap;

use tidegate_kube::{ClusterConnection, ClusterSecret};
use tidegate_model::canonical_server;

use super::{Destinations, IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use crate::watches::{WatchMetrics, WatchRegistry};

/// Status of a cluster that Applications can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Names of the cluster. There are several if several Secrets declare it.
    pub names: Vec<String>,
    /// Server URL.
    pub server: String,
    /// Other server URLs of the same cluster.
    pub other_servers: Vec<String>,
    /// True if the cluster responded to the last check and its declaration is valid.
    pub is_connected: bool,
    /// Number of the Applications' objects, including objects that don't exist.
    pub objects: u64,
    /// Number of watched kinds.
    pub kinds: u64,
    /// Number of changes reported by the cluster's watches since the process started.
    pub events: u64,
}

impl Destinations {
    /// Returns the managed cluster and the declared clusters. Each cluster appears once.
    pub fn cluster_statuses(&self, watching: &WatchRegistry) -> Vec<ClusterStatus> {
        let stands = |name: &str, server: &str, is_connected, WatchMetrics { objects, kinds, events, .. }| {
            let (names, server) = (vec![name.to_owned()], server.to_owned());
            let other_servers = Vec::new();
            ClusterStatus { names, server, other_servers, is_connected, objects, kinds, events }
        };
        // There are no separate health checks for the managed cluster.
        let own = watching.metrics(&self.0.destination);
        let mut first = stands(IN_CLUSTER_NAME, IN_CLUSTER_SERVER, !own.is_failing, own);
        first.other_servers.extend(self.other_managed_server().map(str::to_owned));
        let (mut all, mut at) = (vec![first], BTreeMap::<String, usize>::new());
        let state = self.state();
        for ClusterSecret { connection: ClusterConnection { name, server, .. }, problem, .. } in
            &state.declared
        {
            if server.is_empty() {
                continue;
            }
            if self.is_managed_server(server) {
                // Applications can also use the name from the cluster's Secret.
                if let Some(own) = all.first_mut().filter(|own| !own.names.contains(name)) {
                    own.names.push(name.clone());
                }
                continue;
            }
            // A cluster that several Secrets declare can't be used.
            let canonical = canonical_server(server);
            if let Some(before) = at.get(&canonical).and_then(|at| all.get_mut(*at)) {
                before.names.extend((!before.names.contains(name)).then(|| name.clone()));
                before.is_connected = false;
                continue;
            }
            let connection = state.connections.get(server);
            let last = connection.and_then(|connection| connection.destination.as_ref());
            let is_connected = problem.is_none()
                && connection.is_some_and(|connection| connection.failure.is_none())
                && last.is_some();
            let metrics = last.map(|last| watching.metrics(last)).unwrap_or_default();
            at.insert(canonical, all.len());
            all.push(stands(name, server, is_connected, metrics));
        }
        all
    }
}
