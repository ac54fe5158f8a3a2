//! Stored plans and their approvals.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, Requester, Timestamp};

/// Recorded approval of a stored plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanApproval {
    /// Name of the approver, as provided by the caller.
    pub by: String,
    /// Reason for the approval; may be empty.
    pub reason: String,
    /// Time of the approval.
    pub at: Timestamp,
}

impl PlanApproval {
    /// Returns the approver and the reason, such as `ann (checked with the database team)`.
    pub fn approver_text(&self) -> String {
        Requester { name: &self.by, reason: &self.reason }.display()
    }

    /// Returns a description such as `approved by ann (checked with the database team)`.
    pub fn describe(&self) -> String {
        format!("approved by {}", self.approver_text())
    }
}

/// The stored plan that an operation must execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPlanRef {
    /// Hash of the entire plan, which serves as its ID.
    pub hash: Digest,
    /// Time at which the plan was computed from the cluster state.
    pub made_at: Timestamp,
    /// Approvals. Empty if the plan didn't need approval.
    pub approvals: Vec<PlanApproval>,
}

impl StoredPlanRef {
    /// Returns a description such as `plan 3f2a9c41d07b, approved by ann`.
    pub fn describe(&self) -> String {
        let approvals = self.approvals.iter().map(|approval| format!(", {}", approval.describe()));
        format!("plan {}{}", self.hash.short(), approvals.collect::<String>())
    }
}
