//! Result of checking the plan for an operation that is waiting for approval.

use tidegate_application::approval::PlanRequesters;
use tidegate_application::operation;
use tidegate_executor::StoredPlan;
use tidegate_model::argo::OperationRequest;
use tidegate_state::error::ServiceError;
use tidegate_state::stored_plans::StoredPlanMetadata;

use super::destinations::DestinationError;

/// Number of characters in an abbreviated commit.
const SHORT_COMMIT_CHARS: usize = 7;

/// A stored plan, as cached by the Application's actor.
#[derive(Clone, Debug)]
pub struct PendingPlan {
    pub summary: StoredPlanMetadata,
    /// Summary of the plan's actions and its revision.
    pub description: String,
    /// Revisions of the manifests, in source order.
    pub revisions: Vec<String>,
}

impl PendingPlan {
    /// Creates a pending plan from a stored plan.
    pub fn from_stored(summary: StoredPlanMetadata, plan: &StoredPlan) -> Self {
        let description = describe_plan(&summary, plan);
        Self { summary, description, revisions: operation::deployed_revisions(&plan.request) }
    }

    /// Returns the creator of this plan and the requester of an operation that executes the plan.
    pub fn requesters<'a>(&'a self, request: &'a OperationRequest) -> PlanRequesters<'a> {
        PlanRequesters::for_execution(&self.summary.by, request)
    }
}

/// Returns a plan's summary, such as `3 to create, 1 to prune, including 1 hook; revision 3f2a9c4`.
fn describe_plan(line: &StoredPlanMetadata, StoredPlan { plan, request, .. }: &StoredPlan) -> String {
    let hooks = match plan.tasks.iter().filter(|task| task.is_hook()).count() {
        0 => String::new(),
        1 => ", including 1 hook".to_owned(),
        hooks => format!(", including {hooks} hooks"),
    };
    let short = |one: &String| one.chars().take(SHORT_COMMIT_CHARS).collect::<String>();
    let revisions: Vec<String> = operation::deployed_revisions(request).iter().map(short).collect();
    format!("{}{hooks}; revision {}", line.describe_actions(), revisions.join(" "))
}

/// Result of checking the plan for an operation that is waiting for approval.
pub enum PlanCheck {
    /// The stored plan is still current.
    Current,
    /// This plan was stored and replaces any earlier plan.
    Stored(Box<PendingPlan>),
    /// No plan could be created.
    Unplanned(PlanFailure),
}

/// Reason why there is no plan.
pub enum PlanFailure {
    /// The operation can't start as requested.
    Invalid(String),
    /// The plan can't be created now.
    Unavailable(String),
}

impl From<DestinationError> for PlanFailure {
    fn from(none: DestinationError) -> Self {
        match none {
            DestinationError::Invalid(reason) => Self::Invalid(reason),
            DestinationError::Unreachable(reason) | DestinationError::Unchecked(reason) => {
                Self::Unavailable(reason)
            }
        }
    }
}

impl From<PlanFailure> for ServiceError {
    fn from(reason: PlanFailure) -> Self {
        let (PlanFailure::Invalid(reason) | PlanFailure::Unavailable(reason)) = reason;
        Self::refused(reason)
    }
}
