//! Record kinds that a teardown writes to the log, and the details that lists show.

use serde::{Deserialize, Serialize};
use tidegate_model::{LogRecord, StreamKind, StreamRecords};

use super::event::Event;
use super::state::{End, Progress, State};
use super::view::status_message;
use crate::fleet::count;

impl LogRecord for Event {
    type Earlier = Self;
    const HIGHEST_KIND: u16 = 18;

    fn kind(&self) -> u16 {
        match self {
            Self::Created { .. } => 1,
            Self::Moved { .. } => 2,
            Self::DeletionScheduled { .. } => 3,
            Self::DeletionStarted { .. } => 4,
            Self::DeletionBlocked { .. } => 5,
            Self::AbsenceObserved { .. } => 6,
            Self::PresenceConfirmed { .. } => 7,
            Self::Deleted { .. } => 8,
            Self::CallFailed { .. } => 9,
            Self::Skipped { .. } => 10,
            Self::Joined { .. } => 11,
            Self::DeadlinePassed { .. } => 12,
            Self::Paused(_) => 13,
            Self::Resumed(_) => 14,
            Self::TerminateRequested(_) => 15,
            Self::Finished { .. } => 16,
            Self::Approved(_) => 17,
            Self::Released { .. } => 18,
        }
    }
}

impl LogRecord for State {
    type Earlier = Self;
}

/// Details of a teardown, as shown in lists. They outlive the teardown's events in the log, and their layout
/// is part of the on-disk format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Outcome, if the teardown has finished.
    pub end: Option<End>,
    /// True while the teardown is paused.
    pub paused: bool,
    /// Description of the current state.
    pub message: String,
    /// Number of Applications that were deleted or released, and total number of Applications.
    pub members: (u32, u32),
    /// Requester. Empty if unknown.
    pub by: String,
}

impl Details {
    /// Returns the details of a teardown in this state, or `None` before it begins. Doesn't build a view,
    /// because this function is called for every batch.
    pub fn from_state(state: &State) -> Option<Self> {
        let teardown = state.teardown()?;
        let is_done = |progress: &Progress| matches!(progress, Progress::Gone | Progress::Released);
        let done = teardown.members.values().filter(|member| is_done(&member.progress));
        Some(Self {
            end: teardown.outcome.as_ref().map(|outcome| outcome.end),
            paused: teardown.paused.is_some(),
            message: status_message(teardown),
            members: (count(done), count(teardown.members.values())),
            by: teardown.by.clone(),
        })
    }
}

impl LogRecord for Details {
    type Earlier = Self;
}

impl StreamRecords for Event {
    const KIND: StreamKind = StreamKind::TEARDOWN;
    type Snapshot = State;
    type Details = Details;
}
