//! What the engine asks of a cluster ([`Cluster`]), and a simulated Kubernetes that answers ([`sim::SimCluster`]).

mod api;
mod error;

pub use api::{
    Applied, ApplyRequest, Cluster, Deleted, DeleteRequest, Listing, LiveQuery, Propagation, WatchEvent, WatchStream,
    WriteMode,
};
pub use error::{ClusterError, ErrorKind};
