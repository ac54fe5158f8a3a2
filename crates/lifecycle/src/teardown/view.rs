//! Output format of teardowns. The view of a newly created teardown is its plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Requester, Timestamp};

use super::order::{Order, OrderKind};
use super::request::Approval;
use super::state::{End, Progress, State, Teardown};
use crate::fleet::{Attribution, count};

/// Status of an Application's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DeletionStatus")]
pub enum MemberStatus {
    /// The deletion hasn't reached the Application yet.
    Waiting,
    /// The Application is being deleted.
    Deleting,
    /// The Application was deleted.
    Deleted,
    /// A user skipped the Application.
    Skipped,
    /// The Application no longer belongs to the ApplicationSet, so it is kept.
    Released,
}

impl OrderKind {
    /// Returns true if the given status is the intended final status of an Application.
    pub fn is_intended_end(self, status: MemberStatus) -> bool {
        match self {
            Self::Orphan => status == MemberStatus::Released,
            _ => status == MemberStatus::Deleted,
        }
    }
}

/// Deletion of an ApplicationSet's Applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Deletion")]
pub struct TeardownView {
    /// ApplicationSet, as `namespace/name`.
    #[serde(rename = "applicationSet")]
    pub set: String,
    /// User or program that requested the deletion.
    #[serde(rename = "initiatedBy")]
    pub by: String,
    /// Reason for the request. Absent if no reason was provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Order of deletion.
    #[serde(default)]
    pub order: OrderKind,
    /// Name of the current stage.
    pub stage: String,
    /// Number of the running step in the strategy, starting at 1. Absent if no step is running, or while
    /// Tidegate deletes Applications that no step selects.
    pub step: Option<u32>,
    /// Steps, in the order of deletion.
    pub steps: Vec<StepView>,
    /// Outcome. Absent while the deletion is running.
    #[serde(rename = "outcome")]
    pub end: Option<End>,
    /// Current state, or the reason why the deletion ended.
    pub message: String,
    /// User who paused the deletion, and the reason.
    #[serde(rename = "pausedBy")]
    pub paused: Option<String>,
    /// Start time.
    pub started_at: Timestamp,
    /// End time. Absent while the deletion is running.
    pub finished_at: Option<Timestamp>,
    /// Applications, in the order of deletion.
    pub members: Vec<MemberView>,
    /// Approvals of deletions that exceeded the deletion limit, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalView>,
}

/// Approval of deletions that were blocked because they exceeded the deletion limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionsApproval")]
pub struct ApprovalView {
    /// User who approved the deletions.
    pub by: String,
    /// Reason for the approval. Absent if no reason was provided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the approval.
    pub at: Timestamp,
    /// Token that identifies the blocked deletions.
    pub token: String,
}

impl From<&Approval> for ApprovalView {
    fn from(Approval { token, said }: &Approval) -> Self {
        Self {
            by: said.by.clone(),
            reason: said.requester().reason_text(),
            at: said.at,
            token: token.clone(),
        }
    }
}

/// Step of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionStep")]
pub struct StepView {
    /// Number of the step in the strategy, starting at 1. Absent for Applications that no step selects.
    #[serde(default)]
    pub step: Option<u32>,
    /// Description of the selector.
    #[serde(rename = "selector")]
    pub selects: String,
    /// Number of Applications in the step.
    pub members: u32,
    /// Maximum number of Applications that are deleted at the same time. Absent if there is no limit.
    pub max_update: Option<u32>,
}

/// Application in an ApplicationSet's deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionMember")]
pub struct MemberView {
    /// Name of the Application.
    pub application: String,
    /// Number of the Application's step in the strategy, starting at 1. `-1` if no step selects it.
    pub step: String,
    /// Status.
    pub status: MemberStatus,
    /// Reason for the status. May be empty.
    pub message: String,
    /// Time of the Application's last status change.
    pub since: Timestamp,
}

/// Returns the JSON representation of the teardown, or `None` before it begins.
pub fn view(state: &State) -> Option<TeardownView> {
    let teardown = state.teardown()?;
    let (outcome, requester) = (teardown.outcome.as_ref(), Requester::parse(&teardown.by));
    Some(TeardownView {
        set: teardown.set.clone(),
        by: requester.name.to_owned(),
        reason: requester.reason_text(),
        order: teardown.order.kind(),
        stage: state.name(),
        step: teardown
            .current_step()
            .filter(|_| outcome.is_none())
            .and_then(|step| teardown.order.step_number(step)),
        steps: (0..teardown.order.step_count()).map(|step| step_view(teardown, step)).collect(),
        end: outcome.map(|outcome| outcome.end),
        message: status_message(teardown),
        paused: teardown.paused.as_ref().map(Attribution::display),
        started_at: teardown.started_at,
        finished_at: outcome.map(|outcome| outcome.at),
        members: member_views(teardown),
        approvals: teardown.approvals.iter().map(Into::into).collect(),
    })
}

fn step_view(teardown: &Teardown, step: u32) -> StepView {
    let budget = teardown.deletion_limit(step);
    StepView {
        step: teardown.order.step_number(step),
        selects: teardown.order.describe_selector(step),
        members: count(teardown.members_in_step(step)),
        max_update: (budget < u32::MAX).then_some(budget),
    }
}

/// Describes the current state, or the reason for the end.
pub(super) fn status_message(teardown: &Teardown) -> String {
    match (&teardown.outcome, teardown.current_step()) {
        (Some(outcome), _) => outcome.message.clone(),
        (None, Some(_)) if teardown.order == Order::Orphaned => "releasing all Applications".to_owned(),
        (None, Some(step)) => format!("deleting {}", teardown.order.step_name(step)),
        (None, None) if teardown.order == Order::Orphaned => "starting to release them".to_owned(),
        (None, None) => "starting to delete".to_owned(),
    }
}

fn member_views(teardown: &Teardown) -> Vec<MemberView> {
    let mut members: Vec<_> = teardown.members.iter().collect();
    members.sort_by_key(|(name, member)| (member.place.step, *name));
    members
        .into_iter()
        .map(|(name, member)| {
            let (status, message) = match &member.progress {
                Progress::Waiting => (MemberStatus::Waiting, String::new()),
                Progress::Condemned | Progress::Going | Progress::Confirming { .. } => {
                    (MemberStatus::Deleting, member.kept_by.clone())
                }
                Progress::Gone => (MemberStatus::Deleted, String::new()),
                Progress::Released => (
                    MemberStatus::Released,
                    "released: it no longer belongs to the ApplicationSet, and stays".to_owned(),
                ),
                Progress::Left(attribution) => {
                    (MemberStatus::Skipped, format!("skipped by {}", attribution.display()))
                }
            };
            let number = member.place.step.and_then(|step| teardown.order.step_number(step));
            let step = number.map_or_else(|| "-1".to_owned(), |number| number.to_string());
            MemberView { application: name.clone(), step, status, message, since: member.since }
        })
        .collect()
}
