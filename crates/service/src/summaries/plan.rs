//! Summaries of stored plans.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{OperationId, PlanApproval, Timestamp};

/// Summary of an Application's stored plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanSummary {
    /// SHA-256 hash of the complete plan in hexadecimal, which identifies the plan. The first 12 digits are
    /// enough for users.
    pub hash: String,
    /// Namespace of the plan's Application.
    pub namespace: String,
    /// Name of the plan's Application.
    pub name: String,
    /// Revisions that the plan deploys, comma-separated for several sources.
    pub revision: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Requester. `automated sync` for an automated sync.
    pub initiated_by: String,
    /// Reason given for the operation while it is waiting. Empty if none was given, and for a plan without an
    /// operation.
    #[serde(default)]
    pub reason: String,
    /// Number of objects by action: `create`, `apply`, `replace`, `prune`, `prune-skipped`. Hooks count as
    /// created.
    pub actions: BTreeMap<String, u64>,
    /// Approvals.
    pub approvals: Vec<PlanApproval>,
    /// Person who stopped the plan's operation before it started. Absent if no person stopped it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_by: Option<PlanApproval>,
    /// State of the plan.
    pub state: PlanState,
    /// Description of the missing approval. Absent if no approval is needed.
    pub missing_approval: Option<String>,
    /// Reason why the API user may not approve the plan. Absent if the user may approve it, and if no
    /// approval is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_denied_reason: Option<String>,
    /// Operation that executes the plan.
    pub operation: Option<OperationId>,
}

/// State of a stored plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// An operation of the Application is waiting for approval of the plan.
    Waiting,
    /// The plan was made automatically for an operation and has been replaced by a newer plan.
    Replaced,
    /// The plan can be executed, possibly after an approval.
    Stored,
    /// An operation is executing the plan, has executed it, or is about to because all approvals are given.
    Executed,
    /// The plan was made automatically for an operation that is obsolete: the operation was stopped before it
    /// started, or had nothing left to do.
    Withdrawn,
}

impl fmt::Display for PlanState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting",
            Self::Replaced => "replaced",
            Self::Stored => "stored",
            Self::Executed => "executed",
            Self::Withdrawn => "withdrawn",
        })
    }
}

impl PlanSummary {
    /// Returns the hash prefix to show to users.
    pub fn short_hash(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }

    /// Returns the actions in words: `2 to create, 1 to prune`.
    pub fn describe_actions(&self) -> String {
        describe_actions(&self.actions)
    }
}

/// Describes the number of objects per action: `2 to create, 1 to prune`.
pub(crate) fn describe_actions<C: fmt::Display>(actions: &BTreeMap<String, C>) -> String {
    if actions.is_empty() {
        return "nothing to do".to_owned();
    }
    let all = actions.iter().map(|(action, count)| match action.as_str() {
        "prune-skipped" => format!("{count} not pruned"),
        action => format!("{count} to {action}"),
    });
    all.collect::<Vec<_>>().join(", ")
}
