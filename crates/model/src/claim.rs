use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// That an operation holds its application's claim while it runs: a `Lease` in the cluster, which keeps apart operations
/// from different state directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// The namespace of the Lease; `None` for the destination namespace.
    pub namespace: Option<String>,
    /// What happens when another operation has it.
    pub if_taken: IfTaken,
}

/// What an operation does when another one has the claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IfTaken {
    /// It ends, and nothing was changed.
    #[default]
    Refuse,
    /// It waits until the other one is over.
    Queue,
    /// It asks the other one to end, and waits for that.
    Supersede,
}

/// Where an operation may be ended for another sync: none of its hooks is at work there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SafePoint {
    /// An attempt has failed, and the next has not begun.
    Failed,
    /// The same, or the operation waits: for a gate, for health, for something to be gone, for its cluster.
    Waiting,
}

/// Where a claim is kept.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimPlace {
    /// Namespace of the Lease.
    pub namespace: String,
    /// `metadata.name` of the Lease.
    pub name: String,
}

impl fmt::Display for ClaimPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease {}/{}", self.namespace, self.name)
    }
}

/// An operation that has a claim, as the Lease tells; anybody may have written it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimHolder {
    /// Id of the operation, as the Lease has it.
    pub operation: String,
    /// Who works on it, and where; may be empty.
    pub who: String,
    /// Revision of its manifests; may be empty.
    pub revision: String,
    /// Since when it has the claim, by its own clock.
    pub since: Option<Timestamp>,
}

/// What an operation is called that has no id yet.
pub const UNBEGUN: &str = "another sync";

impl fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation.as_str() {
            // It has no id before the one is over whose place it takes.
            "" => f.write_str(UNBEGUN)?,
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
