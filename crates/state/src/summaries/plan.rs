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
    /// SHA-256 hash of the complete plan, in hexadecimal. Requests accept any prefix with at least 6 digits.
    pub hash: String,
    /// Namespace of the plan's Application.
    pub namespace: String,
    /// Name of the plan's Application.
    pub name: String,
    /// Revisions that the plan deploys, comma-separated for several sources.
    pub revision: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Requester; `automated sync` for an automated sync.
    pub initiated_by: String,
    /// Reason for the operation that is waiting for the plan. Empty if no reason was given or if no operation
    /// is waiting for the plan.
    #[serde(default)]
    pub reason: String,
    /// Number of objects for each action: `create`, `apply`, `replace`, `prune` or `prune-skipped`. Hooks
    /// count as created.
    pub actions: BTreeMap<String, u64>,
    /// Approvals.
    pub approvals: Vec<PlanApproval>,
    /// User who stopped the plan's operation before it started. Absent if no user did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_by: Option<PlanApproval>,
    /// State of the plan.
    pub state: PlanState,
    /// Description of the missing approval; absent if no approval is missing.
    pub missing_approval: Option<String>,
    /// Reason why the API user may not approve the plan. Absent if the user may approve the plan, or if no
    /// approval is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_denied_reason: Option<String>,
    /// Operation that executes the plan.
    pub operation: Option<OperationId>,
}

/// State of a stored plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlanState {
    /// An operation for the Application is waiting for the plan to be approved.
    Waiting,
    /// The plan was created automatically for an operation and has been replaced with a newer plan.
    Replaced,
    /// The plan can be executed, but may require approval first.
    Stored,
    /// An operation has executed the plan, is executing it, or is about to execute it because all required
    /// approvals have been given.
    Executed,
    /// The plan was created automatically for an operation that was stopped before it started, or that became
    /// unnecessary.
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
    /// Returns the hash prefix shown to users.
    pub fn short_hash(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }

    /// Describes the actions in words, such as `2 to create, 1 to prune`.
    pub fn describe_actions(&self) -> String {
        describe_actions(&self.actions)
    }
}

/// Describes the number of objects per action: `2 to create, 1 to prune`.
pub fn describe_actions<C: fmt::Display>(actions: &BTreeMap<String, C>) -> String {
    if actions.is_empty() {
        return "nothing to do".to_owned();
    }
    let all = actions.iter().map(|(action, count)| match action.as_str() {
        "prune-skipped" => format!("{count} not pruned"),
        action => format!("{count} to {action}"),
    });
    all.collect::<Vec<_>>().join(", ")
}
