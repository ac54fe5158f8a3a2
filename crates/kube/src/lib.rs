//! [`Cluster`](tidegate_cluster::Cluster) on a real Kubernetes API.
//!
//! ```text
//!   Cluster calls      cluster.rs ─► read, live, watching, apply/, delete, pods, logs, following
//!   what is served     discovery/
//!   one HTTP call      server.rs: time limit, bound of calls in flight (limit.rs), 401 once (transport.rs),
//!                      only the cluster that is meant (gate.rs)
//!   what it waits for  strain.rs
//!   what many ask      rounds.rs: once for all who wait
//!   answers            answer.rs: status and body ─► object (lean.rs) or ClusterError
//! ```
//!
//! Nothing here retries a write. Servers from Kubernetes 1.20 on are supported: what newer ones can do better is
//! asked for in a way that older ones ignore or refuse plainly.

mod answer;
mod apply;
mod cluster;
mod connect;
mod credentials;
mod declaration;
mod declared;
mod delete;
mod discovery;
mod following;
mod gate;
mod identity;
mod lean;
mod limit;
mod live;
mod patch;
mod paths;
mod place;
mod plugin;
mod pods;
mod proxy;
mod read;
mod reasons;
mod rights;
mod rounds;
mod searching;
mod selector;
mod server;
mod strain;
#[cfg(test)]
mod tests;
mod transport;
mod watching;

pub use cluster::KubeCluster;
pub use connect::connect;
pub use declaration::Declaration;
pub use declared::{Declared, connect_declared};
pub use place::{ConnectError, ConnectOptions};
pub use plugin::{ExecProvider, Plugin};
