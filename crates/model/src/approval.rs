//! Plans that are kept before they are carried out, and who has approved them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, Timestamp, Wisher};

/// Somebody's consent to one kept plan, for the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanApproval {
    /// The person's name, as the caller gave it.
    pub by: String,
    /// The person's words; may be empty.
    pub reason: String,
    /// When it was given.
    pub at: Timestamp,
}

impl PlanApproval {
    /// `ann (checked with the database team)`.
    pub fn who(&self) -> String {
        Wisher { by: &self.by, reason: &self.reason }.who()
    }

    /// `approved by ann (checked with the database team)`.
    pub fn words(&self) -> String {
        format!("approved by {}", self.who())
    }
}

/// The kept plan that an operation carries out, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenPlan {
    /// Hash of all that the plan says: it names the plan.
    pub hash: Digest,
    /// When it was made, from the cluster as it was then.
    pub made_at: Timestamp,
    /// Who has approved it; empty where nobody had to.
    pub approvals: Vec<PlanApproval>,
}

impl TakenPlan {
    /// `plan 3f2a9c41d07b, approved by ann`.
    pub fn words(&self) -> String {
        let approvals = self.approvals.iter().map(|approval| format!(", {}", approval.words()));
        format!("plan {}{}", self.hash.short(), approvals.collect::<String>())
    }
}
