use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Settings of the claim that an operation holds while it runs. A claim is a `Lease` in the cluster, so it
/// also blocks operations from other state directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// Namespace of the Lease. Defaults to the destination namespace.
    pub namespace: Option<String>,
    /// Policy for a claim that another operation holds.
    pub if_taken: ClaimConflictPolicy,
}

/// Policy for a claim that another operation holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimConflictPolicy {
    /// Stops without making any changes.
    #[default]
    Refuse,
    /// Waits for the other operation to finish.
    Queue,
    /// Asks the other operation to stop, and waits for it.
    Supersede,
}

/// Point at which another sync may supersede a running operation. No hooks run at these points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SafePoint {
    /// Between attempts: the last attempt has failed, and the next hasn't started.
    Failed,
    /// Between attempts, or while the operation waits for a gate, for healthy objects, for a deletion, or for
    /// its cluster.
    Waiting,
}

/// Location of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimLocation {
    /// Namespace of the Lease.
    pub namespace: String,
    /// `metadata.name` of the Lease.
    pub name: String,
}

impl fmt::Display for ClaimLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

/// Holder of a claim, as recorded in the Lease. The record is untrusted: any client with access to the Lease
/// may have written it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimHolder {
    /// ID of the operation, as recorded in the Lease.
    pub operation: String,
    /// User and machine that run the operation; may be empty.
    #[serde(rename = "identity")]
    pub who: String,
    /// Revision of the manifests; may be empty.
    pub revision: String,
    /// Time at which the operation acquired the claim, according to its own clock.
    pub since: Option<Timestamp>,
}

/// Display name of an operation without an ID.
pub const UNIDENTIFIED_OPERATION: &str = "another sync";

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation.as_str() {
            // The waiting operation has no ID until the superseded one has finished.
            "" => f.write_str(UNIDENTIFIED_OPERATION)?,
            operation => write!(f, "operation {operation}")?,
        }
        if !self.who.is_empty() {
            write!(f, " of {}", self.who)?;
        }
        if !self.revision.is_empty() {
            write!(f, " (revision {})", self.revision)?;
        }
        match self.since {
            Some(since) => write!(f, ", since {since}"),
            None => Ok(()),
        }
    }
}
