//! The schedule of an ApplicationSet's work: its transitions, and rules that hold for any sequence of inputs,
//! failures and restarts.

mod properties;
mod transitions;

use std::time::Duration;

use tidegate_applicationset::reconcile_schedule::{
    AppSetPhase, Pass, PassEnd, ReconcileSchedule, ScheduleEffect, ScheduleInput, TargetResolution,
};
use tidegate_applicationset::triggers::ReconcileTrigger;
use tidegate_model::Timestamp;

use crate::at;

/// Result of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassResult {
    Complete,
    /// All generators failed.
    Failed,
    /// The pass has written Applications, and their events are to come.
    Written,
    /// The rollout finished meanwhile.
    Outdated,
    Unresolved,
    Invalid,
    AwaitsComparison,
}

/// Newest changes that a pass has included, or must include, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Coverage {
    compared: u32,
    generated: u32,
    /// Generated from new revisions.
    fetched: u32,
}

/// A controller with one ApplicationSet, on virtual time.
struct Controller {
    schedule: ReconcileSchedule,
    phase: AppSetPhase,
    now: Timestamp,
    alarm: Option<Timestamp>,
    /// Running pass, and the newest change at its start.
    running: Option<(Pass, u32)>,
    is_log_readable: bool,
    /// Interval between generations.
    interval: Option<Duration>,
    last_change: u32,
    required: Coverage,
    included: Coverage,
    deletion_steps: u32,
    steps: u32,
    /// Effects of the last step.
    last_effects: Vec<ScheduleEffect>,
}

impl Controller {
    fn new() -> Self {
        let mut controller = Self {
            schedule: ReconcileSchedule::default(),
            phase: AppSetPhase { is_deleting: false, is_usable: true, has_output: false },
            now: at(0),
            alarm: None,
            running: None,
            is_log_readable: true,
            interval: None,
            last_change: 0,
            required: Coverage::default(),
            included: Coverage::default(),
            deletion_steps: 0,
            steps: 0,
            last_effects: Vec::new(),
        };
        controller.restart();
        controller
    }

    /// Replaces the process. Only the resource and the log remain.
    fn restart(&mut self) {
        self.schedule = ReconcileSchedule::default();
        (self.alarm, self.running, self.phase.has_output) = (None, None, false);
        self.included = Coverage::default();
        self.require(ReconcileTrigger::Reconcile, true);
        self.step();
    }

    /// Records a change that a later pass must include.
    fn require(&mut self, trigger: ReconcileTrigger, is_fresh: bool) {
        self.last_change += 1;
        let change = self.last_change;
        if trigger >= ReconcileTrigger::Status {
            self.required.compared = change;
        }
        if trigger == ReconcileTrigger::Reconcile {
            self.required.generated = change;
        }
        if is_fresh {
            self.required.fetched = change;
        }
    }

    /// Records a change, and delivers the input that reports it.
    fn deliver(&mut self, input: ScheduleInput) {
        match input {
            ScheduleInput::Triggered(trigger) => self.require(trigger, false),
            ScheduleInput::InputsChanged | ScheduleInput::Refresh | ScheduleInput::AppSetChanged => {
                self.require(ReconcileTrigger::Reconcile, true);
            }
            _ => {}
        }
        self.apply(input);
        self.step();
    }

    fn apply(&mut self, input: ScheduleInput) {
        self.schedule.apply(input, self.now);
        self.abort_ended_pass();
    }

    fn abort_ended_pass(&mut self) {
        let scheduled = self.schedule.running_pass();
        self.running = self.running.filter(|(pass, _)| Some(*pass) == scheduled);
    }

    /// Executes everything that the schedule decides.
    fn step(&mut self) {
        self.steps += 1;
        if self.schedule.is_recall_due(self.now) {
            self.apply(ScheduleInput::Recalled { is_complete: self.is_log_readable });
        }
        self.last_effects = self.schedule.decide(self.phase, self.now);
        self.abort_ended_pass();
        for effect in self.last_effects.clone() {
            match effect {
                ScheduleEffect::StartPass(pass) => {
                    assert_eq!(self.running, None, "one pass at a time");
                    assert!(self.phase.is_usable && !self.phase.is_deleting, "{pass:?}");
                    assert!(pass.generates || self.phase.has_output, "nothing to compare");
                    self.running = Some((pass, self.last_change));
                }
                ScheduleEffect::ProgressDeletion => {
                    assert_eq!(self.running, None, "a pass could create Applications");
                    assert!(!self.schedule.is_recall_pending(), "a machine may be running");
                    self.deletion_steps += 1;
                }
                ScheduleEffect::Wake(at) => self.alarm = Some(self.alarm.map_or(at, |alarm| alarm.min(at))),
            }
        }
        let is_running = self.running.map(|(pass, _)| pass);
        assert_eq!(is_running, self.schedule.running_pass());
    }

    /// Ends the running pass.
    fn complete(&mut self, result: PassResult) {
        let Some((pass, seen)) = self.running.take() else { return };
        self.phase.has_output = result != PassResult::Failed;
        let end = PassEnd {
            duration: Duration::from_millis(250),
            has_output: self.phase.has_output,
            requeue_after: match result {
                PassResult::Failed => Some(Duration::from_secs(180)),
                _ => self.interval,
            },
            needs_another_pass: result == PassResult::Written,
            awaits_comparison: result == PassResult::AwaitsComparison,
            targets: match result {
                PassResult::Complete | PassResult::AwaitsComparison => TargetResolution::Resolved,
                PassResult::Failed | PassResult::Written => TargetResolution::Skipped,
                PassResult::Outdated => TargetResolution::Outdated,
                PassResult::Unresolved => TargetResolution::Unresolved,
                PassResult::Invalid => TargetResolution::Invalid,
            },
        };
        self.apply(ScheduleInput::PassEnded(pass.id, end));
        if result != PassResult::Failed {
            self.included.compared = seen;
            if pass.generates {
                self.included.generated = seen;
            }
            if pass.generates && pass.is_fresh {
                self.included.fetched = seen;
            }
        }
        let needs_another = match result {
            PassResult::Written | PassResult::Outdated | PassResult::AwaitsComparison => true,
            PassResult::Unresolved => self.schedule.tolerates_unresolved_targets(self.now),
            _ => false,
        };
        if needs_another {
            self.require(ReconcileTrigger::Status, false);
        }
        self.step();
    }

    /// Advances the time to the next alarm. Returns false if no alarm is set.
    fn wake(&mut self) -> bool {
        let Some(at) = self.alarm.take() else { return false };
        self.now = self.now.max(at);
        self.step();
        true
    }

    /// Runs until nothing is left to do, with successful passes only.
    fn settle(&mut self) {
        self.interval = None;
        let start = self.steps;
        while self.running.is_some() || self.alarm.is_some() {
            assert!(self.steps - start < 40, "the controller does not become quiet");
            match self.running {
                Some(_) => self.complete(PassResult::Complete),
                None => drop(self.wake()),
            }
        }
    }

    /// Describes the effects of the last step. Times are in milliseconds.
    fn describe(&self) -> String {
        let text = |effect: &ScheduleEffect| match effect {
            ScheduleEffect::StartPass(Pass { generates: true, is_fresh: true, .. }) => "fetch".to_owned(),
            ScheduleEffect::StartPass(Pass { generates: true, .. }) => "generate".to_owned(),
            ScheduleEffect::StartPass(_) => "compare".to_owned(),
            ScheduleEffect::ProgressDeletion => "delete".to_owned(),
            ScheduleEffect::Wake(at) => format!("wait {}", at.since(self.now).as_millis()),
        };
        self.last_effects.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}
