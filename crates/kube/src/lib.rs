//! Implementation of [`Cluster`](tidegate_cluster::Cluster) for the real Kubernetes API.
//!
//! ```text
//!   Cluster calls      cluster.rs ─► read, live, watch, apply/, delete, pods, log_stream
//!   served kinds       discovery/
//!   one HTTP call      call.rs ─► server.rs: time limit, limit of calls in flight (limit.rs), 401 once (transport.rs),
//!                      only the expected cluster (identity_gate.rs)
//!   backpressure       backpressure.rs
//!   coalesced calls    singleflight.rs: one request for all waiting callers
//!   responses          response.rs: status and body ─► object (compact.rs) or ClusterError
//! ```
//!
//! This crate never retries writes. It supports Kubernetes 1.20 and later. Older servers either ignore or
//! clearly refuse requests for newer features.

mod apply;
mod backpressure;
mod call;
mod cluster;
mod cluster_connection;
mod cluster_secret;
mod compact;
mod connect;
mod connect_options;
mod credentials;
mod delete;
mod discovery;
mod error_message;
mod exec_plugin;
mod identity;
mod identity_gate;
mod limit;
mod live;
mod log_stream;
mod patch;
mod paths;
mod pods;
mod proxy;
mod read;
mod refusal;
mod response;
mod rights;
mod rules;
mod search;
mod search_result;
mod selector;
mod server;
mod singleflight;
#[cfg(test)]
mod tests;
mod transport;
mod user_name;
mod watch;

pub use cluster::KubeCluster;
pub use cluster_connection::ClusterConnection;
pub use cluster_secret::ClusterSecret;
pub use connect::{connect, connect_to_cluster};
pub use connect_options::{ConnectError, ConnectOptions};
pub use exec_plugin::{ExecPlugin, ExecProvider};
