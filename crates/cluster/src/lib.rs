//! What the engine asks of a cluster ([`Cluster`]), and a simulated Kubernetes that answers ([`sim::SimCluster`]).

mod api;
mod error;
mod follow;
mod layer;
mod logs;

pub mod sim;

pub use api::{
    Applied, ApplyRequest, Cluster, DeleteRequest, Deleted, Detail, Listing, LiveAnswer, LiveQuery,
    MissingRight, Propagation, Reach, Right, Scope, Strain, Unsearched, WatchEvent, WatchStream, WriteMode,
    writer,
};
pub use error::{ClusterError, ErrorKind};
pub use follow::{Followed, Pauses, Reached, follow};
pub use layer::{Call, Effect, Layer, Verb};
pub use logs::{Container, LogLine, LogStream, LogTime, LogsFrom, follow_container, has_begun};
