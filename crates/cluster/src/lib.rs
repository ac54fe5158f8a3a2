//! The interface to a cluster ([`Cluster`]), and a simulated Kubernetes that implements it
//! ([`sim::SimCluster`]).

mod api;
mod error;
mod layer;
mod log_line;
mod logs;
mod watcher;
mod write_check;

pub mod sim;

pub use api::{
    ApplyRequest, ApplyResult, Backpressure, Cluster, DeleteRequest, DeleteResult, Detail, FinalizerRemoval,
    IncompleteSearch, JobStart, Listing, LiveQuery, LiveResult, MissingRight, Propagation, Right, Scope,
    SearchScope, WatchEvent, WatchStream, WriteMode, field_manager,
};
pub use error::{ClusterError, ErrorKind, ImmutableField, Refusal};
pub use layer::{Call, Effect, Layer, PendingCall, Verb};
pub use log_line::{Container, LogLine, LogStart, LogStream, LogTime};
pub use logs::{follow_container, has_started};
pub use watcher::{ScopeChange, WatchBackoff, WatchProgress, list_and_watch};
pub use write_check::{check_write, with_write_check};
