//! Parts that all Tidegate front ends share: the state directory and its log, the operations' clusters,
//! queries and requests for operations, and the socket on which the running process receives requests.
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
pub mod applications;
pub mod appsets;
pub mod clock;
pub mod clusters;
pub mod control;
pub mod customizations;
pub mod direct_client;
pub mod disk;
pub mod documents;
pub mod error;
mod file_permissions;
pub mod files;
pub mod gates;
pub mod generator_inputs;
pub mod last_sync;
pub mod leadership;
pub mod log;
pub mod notices;
pub mod operation_access;
pub mod operations;
pub mod outage;
pub mod queries;
mod resource_cache;
pub mod runs;
pub mod sanitize;
pub mod session;
pub mod shell_words;
mod shutdown;
pub mod simulated;
pub mod state_dir;
pub mod stored_plans;
pub mod summaries;
pub mod user;
