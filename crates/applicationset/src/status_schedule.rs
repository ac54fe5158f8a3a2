//! Schedule for computing and writing an ApplicationSet's status. Thousands of Applications may change at
//! once, and each write of a large status costs its readers.

use std::time::Duration;

use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSet;

/// Minimum interval between computations of the status.
const COMPUTE_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval between writes of a resource's status.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Minimum interval between status writes per Application in the ApplicationSet. The total is limited to
/// `WRITE_INTERVAL_MAX`.
const WRITE_INTERVAL_PER_MEMBER: Duration = Duration::from_millis(10);
const WRITE_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Next action for the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusAction {
    /// The published and the stored ApplicationSet are up to date.
    Nothing,
    /// Publishes the ApplicationSet to queries.
    Publish,
    /// Publishes the ApplicationSet, and decides again at this time whether to write the status.
    PublishAndWait(Timestamp),
    /// Publishes the ApplicationSet and writes its status to the store.
    PublishAndWrite,
}

/// Schedule for an ApplicationSet's status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusSchedule {
    /// ApplicationSet with the status in the store, once it was written.
    persisted: Option<ApplicationSet>,
    persisted_at: Timestamp,
    /// True if a status was published but not written.
    is_unwritten: bool,
    /// Time of the last computation of the status.
    computed_at: Timestamp,
    is_ended: bool,
}

impl StatusSchedule {
    /// Ends all updates, because the ApplicationSet is deleted or about to be.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// Returns true if the ApplicationSet is deleted or about to be.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Makes the next computation due immediately.
    pub fn expedite(&mut self) {
        self.computed_at = Timestamp::default();
    }

    /// Starts a computation of the status.
    ///
    /// # Errors
    ///
    /// Returns the time of the next computation if it is too early for one.
    pub fn start_computation(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        let due_at = self.computed_at + COMPUTE_INTERVAL;
        if self.persisted.is_some() && now < due_at {
            return Err(due_at);
        }
        self.computed_at = now;
        Ok(())
    }

    /// Decides what to do with an ApplicationSet after its status was computed. `is_rollout_same` is true if
    /// the published progress of its rollout is unchanged, and `is_shared` if other clients read the stored
    /// status.
    pub fn decide(
        &mut self,
        set: &ApplicationSet,
        is_rollout_same: bool,
        is_shared: bool,
        member_count: usize,
        now: Timestamp,
    ) -> StatusAction {
        let Some(persisted) = &mut self.persisted else { return StatusAction::PublishAndWrite };
        if is_rollout_same && !self.is_unwritten && persisted == set {
            return StatusAction::Nothing;
        }
        // The status may have changed back before it was written.
        self.is_unwritten = persisted.status != set.status;
        if !self.is_unwritten {
            persisted.clone_from(set);
            return StatusAction::Publish;
        }
        let due_at = self.persisted_at + write_interval(member_count);
        if is_shared && now < due_at {
            return StatusAction::PublishAndWait(due_at);
        }
        StatusAction::PublishAndWrite
    }

    /// Records a successful write.
    pub fn finish_write(&mut self, set: &ApplicationSet, now: Timestamp) {
        (self.persisted, self.persisted_at, self.is_unwritten) = (Some(set.clone()), now, false);
    }
}

/// Returns the interval between writes. Each write of a larger status costs its readers more.
fn write_interval(member_count: usize) -> Duration {
    let count = u32::try_from(member_count).unwrap_or(u32::MAX);
    WRITE_INTERVAL_MIN.max(WRITE_INTERVAL_PER_MEMBER.saturating_mul(count)).min(WRITE_INTERVAL_MAX)
}
