//! State directories with their operation log and stored plans, connections to operations' clusters, and a
//! process's configuration files.
//!
//! ```text
//! state_dir     folder of a process: its files and their permissions
//! log           operation log of a state directory
//! shared_log    operation log in PostgreSQL, shared with standbys
//! log_copy      copies of an operation log from a state directory to PostgreSQL and back
//! stored_plans  plans that wait for approval
//! clusters      connections to the clusters of operations
//! simulated     simulated clusters of a state directory
//! leadership    lock or Lease that names the service in charge
//! clock         check of the wall clock against earlier operations
//! operations    searches for operations, by ID or application
//! ```

pub mod clock;
pub mod clusters;
pub mod customizations;
pub mod disk;
pub mod error;
pub mod file_permissions;
pub mod files;
pub mod gates;
pub mod last_sync;
pub mod leadership;
pub mod log;
pub mod log_copy;
pub mod notices;
pub mod operations;
pub mod outage;
pub mod owned_shards;
pub mod sanitize;
pub mod shared_log;
pub mod shell_words;
pub mod simulated;
pub mod state_dir;
pub mod stored_plans;
pub mod summaries;
pub mod user;
