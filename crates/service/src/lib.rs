//! Components that all Tidegate front ends share: the state directory and its log, the operations' clusters,
//! queries and requests for operations, and the control socket of the running process.
//!
//! ```text
//! session           engine running in a state directory: log, clusters, control socket
//! operation_access  access to operations through the running process or, if there is none, the log
//! queries           responses to queries and requests
//! control           communication between processes
//! applications      Applications that the process compares and syncs
//! direct_client     access to a cluster's Applications without a service
//! appsets           ApplicationSets whose Applications the process generates
//! ```

pub mod application_access;
pub mod control;
pub mod direct_client;
pub mod operation_access;
pub mod queries;
pub mod runs;
pub mod session;
