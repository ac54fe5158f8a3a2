//! How each cluster stands, for whoever watches the process.

use tidegate_kube::{Declaration, Declared};

use super::{IN_CLUSTER, IN_CLUSTER_SERVER, Places};
use crate::applications::watching::{Seen, Watchings};

/// A cluster that applications may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStanding {
    /// Its name, as applications have it; several where several Secrets declare it.
    pub names: Vec<String>,
    /// Its address.
    pub server: String,
    /// Other addresses by which applications may mean it.
    pub other_servers: Vec<String>,
    /// It answered when it was asked last, and nothing is wrong with what declares it.
    pub is_connected: bool,
    /// Objects that applications have there, be they there or not.
    pub objects: u64,
    /// Kinds that are watched there.
    pub kinds: u64,
    /// Changes that its watches have told of since the process began.
    pub events: u64,
}

impl Places {
    /// The cluster that is served, and those that Secrets declare, each once.
    pub(crate) fn standing(&self, watching: &Watchings) -> Vec<ClusterStanding> {
        let stands = |name: &str, server: &str, is_connected, Seen { objects, kinds, events, .. }| {
            let (names, server) = (vec![name.to_owned()], server.to_owned());
            let other_servers = Vec::new();
            ClusterStanding { names, server, other_servers, is_connected, objects, kinds, events }
        };
        // Nobody asks it but by what it is asked for anyway.
        let own = watching.seen(&self.0.destination);
        let mut first = stands(IN_CLUSTER, IN_CLUSTER_SERVER, !own.is_blind, own);
        first.other_servers.extend(self.other_own_server().map(str::to_owned));
        let mut all = vec![first];
        let known = self.known();
        for Declaration { declared: Declared { name, server, .. }, problem, .. } in &known.declared {
            if server.is_empty() {
                continue;
            }
            if self.is_own(server) {
                // Applications may go by the name that its Secret gives it.
                if let Some(own) = all.first_mut().filter(|own| !own.names.contains(name)) {
                    own.names.push(name.clone());
                }
                continue;
            }
            // What several Secrets declare cannot be used.
            if let Some(before) = all.iter_mut().find(|one| one.server == *server) {
                before.names.extend((!before.names.contains(name)).then(|| name.clone()));
                before.is_connected = false;
                continue;
            }
            let way = known.ways.get(server);
            let last = way.and_then(|way| way.destination.as_ref());
            let is_connected =
                problem.is_none() && way.is_some_and(|way| way.failing.is_none()) && last.is_some();
            let seen = last.map(|last| watching.seen(last)).unwrap_or_default();
            all.push(stands(name, server, is_connected, seen));
        }
        all
    }
}
