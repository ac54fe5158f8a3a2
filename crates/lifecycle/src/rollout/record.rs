//! Record kinds that a rollout writes to the log, and the details that lists show.

use serde::{Deserialize, Serialize};
use tidegate_model::{Digest, LogRecord, StreamKind, StreamRecords};

use super::event::Event;
use super::state::{End, Progress, State};
use super::status::MemberStatus;
use super::view::status_message;
use crate::fleet::count;

/// Maximum number of revisions in a list entry. Each Application may have its own revisions.
const REVISIONS_MAX: usize = 5;

impl LogRecord for Event {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 28;

    fn kind(&self) -> u16 {
        match self {
            Self::Created { .. } => 1,
            Self::Moved { .. } => 2,
            Self::GateAnswered { .. } => 3,
            Self::Approved { .. } => 4,
            Self::Promoted { .. } => 5,
            Self::OperationAssigned { .. } => 6,
            Self::SyncWindowChanged { .. } => 7,
            Self::OperationStarted { .. } => 8,
            Self::CallFailed { .. } => 9,
            Self::OperationEnded { .. } => 10,
            Self::StatusObserved { .. } => 11,
            Self::OperationAdopted { .. } => 12,
            Self::BecameHealthy { .. } => 13,
            Self::HealthLost { .. } => 14,
            Self::Overdue { .. } => 15,
            Self::StopRequested { .. } => 16,
            Self::Stopped { .. } => 17,
            Self::RollbackStarted { .. } => 18,
            Self::Skipped { .. } => 19,
            Self::Retried { .. } => 20,
            Self::Removed { .. } => 21,
            Self::Added { .. } => 22,
            Self::StepFailed { .. } => 23,
            Self::Paused(_) => 24,
            Self::Resumed(_) => 25,
            Self::TerminateRequested(_) => 26,
            Self::TargetsChanged { .. } => 27,
            Self::Finished { .. } => 28,
        }
    }
}

impl LogRecord for State {
    type Earlier = Self;
}

/// Details of a rollout, as shown in lists. They outlive the rollout's events in the log, and their layout is
/// part of the on-disk format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Digest that distinguishes the rollout's targets from other targets of the ApplicationSet.
    pub targets: Digest,
    /// Outcome, if the rollout has finished.
    pub end: Option<End>,
    /// True while the rollout is paused.
    pub paused: bool,
    /// Description of the current state.
    pub message: String,
    /// Number of finished steps, and total number of steps.
    pub steps: (u32, u32),
    /// Number of Healthy Applications, and number of Applications that a step selects.
    pub members: (u32, u32),
    /// Requester. Empty if unknown.
    pub by: String,
    /// Distinct target revisions of the Applications, up to a maximum. Empty if unknown.
    pub revisions: Vec<String>,
    /// Number of selected Applications that a user skipped. Skipped Applications don't count as Healthy.
    pub skipped: u32,
}

impl Details {
    /// Returns the details of a rollout in this state, or `None` before it begins. Doesn't build a view,
    /// because this function is called for every batch.
    pub fn from_state(state: &State) -> Option<Self> {
        let rollout = state.rollout()?;
        let selected = || rollout.members.values().filter(|member| member.is_selected());
        let skipped = count(selected().filter(|member| matches!(member.progress, Progress::Skipped(_))));
        let healthy = count(selected().filter(|member| member.status() == MemberStatus::Healthy));
        let revisions = selected().flat_map(|member| &member.target.revisions);
        let revisions = revisions.fold(Vec::<String>::new(), |mut named, revision| {
            if named.len() < REVISIONS_MAX && !named.contains(revision) {
                named.push(revision.clone());
            }
            named
        });
        Some(Self {
            targets: rollout.targets,
            end: rollout.outcome.as_ref().map(|outcome| outcome.end),
            paused: rollout.paused.is_some(),
            message: status_message(rollout),
            steps: (
                count(rollout.steps.iter().filter(|step| step.passed_at.is_some())),
                count(rollout.steps.iter()),
            ),
            members: (healthy.saturating_sub(skipped), count(selected())),
            by: rollout.by.clone(),
            revisions,
            skipped,
        })
    }
}

impl LogRecord for Details {
    type Earlier = Self;
}

impl StreamRecords for Event {
    const KIND: StreamKind = StreamKind::ROLLOUT;
    type Snapshot = State;
    type Details = Details;
}
