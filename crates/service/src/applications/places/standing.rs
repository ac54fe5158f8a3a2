//! How each cluster stands, for whoever watches the process.

use tidegate_kube::Declared;

use super::{IN_CLUSTER, IN_CLUSTER_SERVER, Places};
use crate::applications::watching::{Seen, Watchings};

/// A cluster that applications may go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStanding {
    /// Its name, as applications have it.
    pub name: String,
    /// Its address.
    pub server: String,
    /// It answered when it was asked last.
    pub is_connected: bool,
    /// Objects that applications have there, be they there or not.
    pub objects: u64,
    /// Kinds that are watched there.
    pub kinds: u64,
    /// Changes that its watches have told of since the process began.
    pub events: u64,
}

impl Places {
    /// The cluster that is served, and those that Secrets declare and nothing is wrong with.
    pub(crate) fn standing(&self, watching: &Watchings) -> Vec<ClusterStanding> {
        let stands = |name: &str, server: &str, is_connected, Seen { objects, kinds, events, .. }| {
            let (name, server) = (name.to_owned(), server.to_owned());
            ClusterStanding { name, server, is_connected, objects, kinds, events }
        };
        // Nobody asks it but by what it is asked for anyway.
        let own = watching.seen(&self.0.destination);
        let mut all = vec![stands(IN_CLUSTER, IN_CLUSTER_SERVER, !own.is_blind, own)];
        let known = self.known();
        let declared = known.declared.iter().filter(|one| one.problem.is_none());
        for Declared { name, server, .. } in declared.map(|one| &one.declared) {
            if self.is_own(server) {
                continue;
            }
            let way = known.ways.get(server);
            let current = way.filter(|way| way.failing.is_none()).and_then(|way| way.destination.as_ref());
            let last = way.and_then(|way| way.destination.as_ref());
            let seen = last.map(|last| watching.seen(last)).unwrap_or_default();
            all.push(stands(name, server, current.is_some(), seen));
        }
        all
    }
}
