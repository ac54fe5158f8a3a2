//! Schedule of an ApplicationSet's work: reconcile passes, the steps of its deletion, and lookups of its
//! rollouts and deletions in the log.
//!
//! [`ReconcileSchedule::apply`] records an input, and [`ReconcileSchedule::decide`] returns the work that is
//! due. At most one pass runs at a time. Nothing here is durable: a new schedule starts with a full pass.

use std::time::Duration;

use tidegate_model::Timestamp;

use crate::triggers::ReconcileTrigger;

/// Delay before retrying a failed call to the store or the log.
pub const RETRY_DELAY: Duration = Duration::from_secs(5);
/// Pause after a pass while Applications keep changing, as a multiple of the pass's duration. It lasts at
/// least `REST_MIN`, and at most `REST_MAX` because a pass may wait minutes for other servers.
const REST_FACTOR: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(10);
/// Delay before the next pass if no event reports the result of a write.
const EVENT_DELAY_MAX: Duration = Duration::from_secs(5);
/// Maximum time to determine the targets of a progressive sync.
const RESOLUTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay before another attempt to compare an Application's manifests with its target's.
const COMPARISON_RETRY_DELAY: Duration = Duration::from_secs(30);

/// Number of a pass. The result of an aborted pass doesn't apply to a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PassId(u64);

/// A reconcile pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Number of the pass.
    pub id: PassId,
    /// True if the pass runs the generators. Otherwise, it uses their last output.
    pub generates: bool,
    /// True if the pass must fetch new revisions from repositories.
    pub is_fresh: bool,
}

/// Input of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleInput {
    /// An Application, a rollout or a deletion has changed, or a user requested a restart.
    Triggered(ReconcileTrigger),
    /// Generator inputs have changed.
    InputsChanged,
    /// A user requested a refresh.
    Refresh,
    /// The ApplicationSet has changed, so the running pass uses an outdated one.
    AppSetChanged,
    /// The running pass must end, because it uses an outdated ApplicationSet or the ApplicationSet is gone.
    Abort,
    /// A pass has finished. The end of an aborted pass has no effect.
    PassEnded(PassId, PassEnd),
    /// A rollout or deletion can't be resumed, or may have started despite an error.
    MachineLost,
    /// The machines were looked up in the log.
    Recalled {
        /// True if the log was read and its open machines are running.
        is_complete: bool,
    },
}

/// Result of a pass, as far as it affects later passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassEnd {
    /// Duration of the pass.
    pub duration: Duration,
    /// True if at least one generator succeeded.
    pub has_output: bool,
    /// Delay before the next automatic generation.
    pub requeue_after: Option<Duration>,
    /// True if another pass is needed, because a write conflicted, failed temporarily, or hasn't shown up in
    /// an event yet.
    pub needs_another_pass: bool,
    /// True if manifests must still be compared with a target's.
    pub awaits_comparison: bool,
    /// Targets of the progressive sync.
    pub targets: TargetResolution,
}

/// Attempt of a pass to determine the targets of a progressive sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetResolution {
    /// The pass didn't determine any targets.
    Skipped,
    /// The rollout finished after the pass observed the Applications.
    Outdated,
    /// The targets are known.
    Resolved,
    /// The targets of some Applications are unknown. This is usually temporary.
    Unresolved,
    /// The progressive sync is invalid.
    Invalid,
}

/// State of an ApplicationSet that determines which work is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppSetPhase {
    /// True if the ApplicationSet is being deleted.
    pub is_deleting: bool,
    /// False if the stored ApplicationSet is invalid.
    pub is_usable: bool,
    /// True if the output of the generators is known.
    pub has_output: bool,
}

/// Work that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleEffect {
    /// Starts a pass.
    StartPass(Pass),
    /// Performs the next step of the ApplicationSet's deletion.
    ProgressDeletion,
    /// Decides again at this time.
    Wake(Timestamp),
}

/// Schedule of an ApplicationSet's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileSchedule {
    /// Kind of the next pass.
    trigger: ReconcileTrigger,
    /// True if the next pass must fetch new revisions from repositories.
    is_fresh: bool,
    running_pass: Option<Pass>,
    last_pass: PassId,
    /// End of the pause during which changes to Applications don't start a pass.
    quiet_until: Timestamp,
    /// Time of the next automatic generation.
    generate_at: Option<Timestamp>,
    /// Time of the next pass, unless an event reports a write or enables a comparison before then.
    next_pass_by: Option<Timestamp>,
    /// Start of the period in which the targets of a progressive sync couldn't be determined.
    unresolved_since: Option<Timestamp>,
    /// Time to look up the machines in the log again, if some of them couldn't be resumed.
    recall_at: Option<Timestamp>,
}

impl Default for ReconcileSchedule {
    fn default() -> Self {
        Self {
            trigger: ReconcileTrigger::Reconcile,
            is_fresh: true,
            running_pass: None,
            last_pass: PassId::default(),
            quiet_until: Timestamp::default(),
            generate_at: None,
            next_pass_by: None,
            unresolved_since: None,
            recall_at: None,
        }
    }
}

impl ReconcileSchedule {
    /// Returns the running pass. The controller aborts any other pass.
    pub fn running_pass(&self) -> Option<Pass> {
        self.running_pass
    }

    /// Returns true until all rollouts and deletions in the log are known. No new one may start.
    pub fn is_recall_pending(&self) -> bool {
        self.recall_at.is_some()
    }

    /// Returns true if the controller must look up the rollouts and deletions in the log before
    /// [`Self::decide`].
    pub fn is_recall_due(&self, now: Timestamp) -> bool {
        self.recall_at.is_some_and(|at| at <= now)
    }

    /// Returns true if the last attempt to determine the targets of a progressive sync failed.
    pub fn has_unresolved_targets(&self) -> bool {
        self.unresolved_since.is_some()
    }

    /// Returns true if unresolved targets don't count as an error yet.
    pub fn tolerates_unresolved_targets(&self, now: Timestamp) -> bool {
        self.unresolved_since.is_some_and(|since| now < since + RESOLUTION_TIMEOUT)
    }

    /// Records an input. [`Self::decide`] returns the work that it makes due.
    pub fn apply(&mut self, input: ScheduleInput, now: Timestamp) {
        match input {
            ScheduleInput::Triggered(trigger) => self.trigger = self.trigger.max(trigger),
            ScheduleInput::InputsChanged => self.require_fresh_pass(),
            ScheduleInput::Refresh => {
                self.require_fresh_pass();
                self.quiet_until = Timestamp::default();
            }
            ScheduleInput::AppSetChanged => {
                self.abort_pass();
                self.require_fresh_pass();
                self.quiet_until = Timestamp::default();
            }
            ScheduleInput::Abort => self.abort_pass(),
            ScheduleInput::PassEnded(id, end) => self.finish_pass(id, end, now),
            ScheduleInput::MachineLost => self.recall_at = Some(now + RETRY_DELAY),
            ScheduleInput::Recalled { is_complete: true } => {
                self.recall_at = None;
                self.trigger = self.trigger.max(ReconcileTrigger::Status);
            }
            ScheduleInput::Recalled { is_complete: false } => self.recall_at = Some(now + RETRY_DELAY),
        }
    }

    /// Returns the work that is due. The controller executes it in order.
    pub fn decide(&mut self, phase: AppSetPhase, now: Timestamp) -> Vec<ScheduleEffect> {
        let mut effects: Vec<ScheduleEffect> = self.recall_at.map(ScheduleEffect::Wake).into_iter().collect();
        if !phase.is_deleting {
            effects.extend(self.start_pass(phase, now));
        } else if !self.is_recall_pending() {
            self.abort_pass();
            effects.push(ScheduleEffect::ProgressDeletion);
        }
        effects
    }

    fn require_fresh_pass(&mut self) {
        (self.trigger, self.is_fresh) = (ReconcileTrigger::Reconcile, true);
    }

    /// Aborts the running pass, if any, and reschedules it.
    fn abort_pass(&mut self) {
        let Some(pass) = self.running_pass.take() else { return };
        let trigger = if pass.generates { ReconcileTrigger::Reconcile } else { ReconcileTrigger::Status };
        self.trigger = self.trigger.max(trigger);
        self.is_fresh |= pass.is_fresh;
    }

    /// Starts a pass if one is due.
    fn start_pass(&mut self, phase: AppSetPhase, now: Timestamp) -> Option<ScheduleEffect> {
        if self.running_pass.is_some() || !phase.is_usable {
            return None;
        }
        if self.generate_at.is_some_and(|at| at <= now) {
            self.generate_at = None;
            self.require_fresh_pass();
            self.quiet_until = Timestamp::default();
        }
        if self.next_pass_by.is_some_and(|at| at <= now) {
            self.next_pass_by = None;
            self.trigger = self.trigger.max(ReconcileTrigger::Status);
        }
        // Nothing has been generated yet, so there is nothing to compare.
        if self.trigger == ReconcileTrigger::Status && !phase.has_output {
            self.trigger = ReconcileTrigger::Ignore;
        }
        if self.trigger == ReconcileTrigger::Ignore {
            return [self.generate_at, self.next_pass_by]
                .into_iter()
                .flatten()
                .min()
                .map(ScheduleEffect::Wake);
        }
        if now < self.quiet_until {
            return Some(ScheduleEffect::Wake(self.quiet_until));
        }
        let generates = self.trigger == ReconcileTrigger::Reconcile;
        self.last_pass = PassId(self.last_pass.0.wrapping_add(1));
        let pass = Pass { id: self.last_pass, generates, is_fresh: self.is_fresh };
        (self.trigger, self.is_fresh) = (ReconcileTrigger::Ignore, self.is_fresh && !generates);
        self.running_pass = Some(pass);
        Some(ScheduleEffect::StartPass(pass))
    }

    fn finish_pass(&mut self, id: PassId, end: PassEnd, now: Timestamp) {
        let Some(pass) = self.running_pass.take_if(|pass| pass.id == id) else { return };
        self.quiet_until = now + end.duration.saturating_mul(REST_FACTOR).clamp(REST_MIN, REST_MAX);
        // A failed pass may not have fetched anything, and without its output, only a generating pass can
        // follow.
        self.is_fresh |= pass.is_fresh && !end.has_output;
        if pass.generates || !end.has_output {
            self.generate_at = end.requeue_after.map(|after| now + after);
        }
        self.next_pass_by = end.needs_another_pass.then_some(now + EVENT_DELAY_MAX);
        match end.targets {
            TargetResolution::Skipped => {}
            TargetResolution::Outdated => self.trigger = self.trigger.max(ReconcileTrigger::Status),
            TargetResolution::Resolved => self.unresolved_since = None,
            TargetResolution::Unresolved | TargetResolution::Invalid => {
                let deadline = *self.unresolved_since.get_or_insert(now) + RESOLUTION_TIMEOUT;
                if end.targets == TargetResolution::Unresolved && now < deadline {
                    self.next_pass_by = Some(deadline);
                }
            }
        }
        if end.awaits_comparison {
            self.next_pass_by.get_or_insert(now + COMPARISON_RETRY_DELAY);
        }
    }
}
