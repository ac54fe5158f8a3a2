//! Components shared by the command line and the API server: sessions of a running process, queries and
//! requests for operations, and the control socket.
//!
//! ```text
//! session             engine running in a state directory: log, clusters, control socket
//! operation_access    access to operations through the running process or, if there is none, the log
//! application_access  access to Applications and ApplicationSets through the running process or the log
//! queries             responses to queries and requests
//! control             communication between processes
//! direct_client       access to a cluster's Applications without a service
//! ```

pub mod application_access;
pub mod control;
pub mod direct_client;
pub mod operation_access;
pub mod queries;
pub mod runs;
pub mod session;
pub mod shards;
