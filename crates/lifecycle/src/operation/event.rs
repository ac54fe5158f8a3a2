//! Operation events for programs and users, derived from recorded events.
//!
//! Each event is derived from a recorded event, along with the request and plan recorded before it, so
//! reading the log later yields the same events as subscribing to a running operation. Events are identified
//! by the sequence number of the recorded event.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Action, ClaimConflictPolicy, Digest, ObjectKey, OperationId, OperationPhase, Override, Phase, Plan,
    PlannedWave, StoredPlanRef, TaskId, Timestamp, WaveNumbers,
};

use super::recorded_event::{DeadlineScope, OperationEvent};
use super::state::{ClaimEvent, Loss, Stage, State, Verdict};

/// An event of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Operation that recorded the event.
    pub operation: OperationId,
    /// Name of the operation's application, as in the request.
    pub application: String,
    /// Sequence number of the recorded event, starting at 1. The numbers increase within an operation, but
    /// have gaps, because most recorded events are too fine-grained to emit.
    pub sequence: u64,
    /// Time on the recording engine's clock. `None` for a few kinds of events that are recorded without a
    /// time, shortly after the previous event.
    pub at: Option<Timestamp>,
    /// Content of the recorded event, with objects instead of task IDs.
    pub what: EventKind,
}

/// Kind of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// The operation was accepted.
    Accepted,
    /// The operation created a plan. If the plan is invalid, the next attempt creates a new plan.
    Planned {
        /// Number of waves.
        waves: usize,
        /// Number of tasks in all waves, including tasks for unchanged objects.
        tasks: usize,
    },
    /// The operation entered another stage.
    StageChanged {
        /// New stage.
        to: Stage,
        /// Wave of the stage. `None` for stages outside of waves.
        wave: Option<WaveName>,
    },
    /// A gate returned a verdict for the wave that is waiting for it.
    Gate {
        /// Name of the gate, such as `window:night`.
        gate: String,
        /// Verdict: open, or closed with the reason.
        verdict: Verdict,
    },
    /// A task ended.
    Task {
        /// Object of the task.
        object: ObjectKey,
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Message of the task: the cluster's message, or the health message. May be empty.
        message: String,
    },
    /// An object is being pruned or was pruned.
    Prune {
        /// Object that is no longer in the application's manifests.
        object: ObjectKey,
        /// True if the object has been deleted, false if its deletion is in progress.
        gone: bool,
    },
    /// A hook was stopped because the operation or the hook must end.
    HookStopped {
        /// Object of the hook. It may already be deleted.
        object: ObjectKey,
        /// Final phase of the hook, or `Failed` if it was still running or couldn't be stopped. During a
        /// termination, a hook without an object can also end as `Succeeded`.
        phase: OperationPhase,
        /// Health message, reason for the stop, or reason why the hook couldn't be deleted.
        message: String,
        /// True if the hook was stopped. Otherwise, it may still be running.
        clean: bool,
    },
    /// The cluster accepted a manifest with warnings.
    WarningsReceived {
        /// Object of the manifest.
        object: ObjectKey,
        /// All warnings that the cluster returned for this write or dry run.
        warnings: Vec<String>,
    },
    /// A deadline passed.
    DeadlineExceeded {
        /// Operation, wave or hook that missed its deadline.
        of: Deadline,
        /// Message with the length of the deadline.
        message: String,
    },
    /// A namespace that the operation writes to is being deleted. The current wave fails.
    NamespaceTerminating {
        /// `metadata.name` of the namespace.
        namespace: String,
    },
    /// A namespace that the operation writes to was lost. The current wave, if any, fails.
    NamespaceLost {
        /// `metadata.name` of the namespace.
        namespace: String,
        /// Reason for the loss.
        loss: Loss,
    },
    /// An attempt failed.
    AttemptFailed {
        /// Reason for the failure. If no other attempt follows, this is also the operation's final message.
        message: String,
        /// True if another attempt might succeed.
        retriable: bool,
    },
    /// Another attempt started.
    RetryStarted {
        /// Number of the attempt, 2 or higher.
        attempt: u32,
    },
    /// The claim on the application changed.
    ClaimChanged {
        /// Claim event, as reported by the claim keeper.
        news: ClaimEvent,
        /// Description of the effect on this operation.
        message: String,
    },
    /// A user terminated the operation.
    TerminationRequested {
        /// Name of the user, as provided by the caller.
        by: String,
    },
    /// A user paused the operation.
    Paused {
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// A user resumed the operation.
    Unpaused {
        /// Name of the user, as provided by the caller.
        by: String,
    },
    /// A user confirmed the prunes that were waiting for confirmation.
    PruneConfirmed {
        /// Name of the user, as provided by the caller.
        by: String,
    },
    /// A user approved a wave.
    Approved {
        /// Position of the wave in the plan, starting at 0. User interfaces start at 1.
        wave: u32,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. May be empty.
        reason: String,
    },
    /// A user skipped a task, marked it as done, or retried it.
    Overridden {
        /// Object of the task.
        object: ObjectKey,
        /// Type of override.
        what: Override,
        /// Name of the user, as provided by the caller.
        by: String,
        /// Reason. Empty only for a retry.
        reason: String,
    },
    /// The health rules for the operation's objects changed.
    HealthRulesChanged {
        /// Digest that identifies the new rules.
        digest: Digest,
    },
    /// The cluster doesn't respond. Emitted once per outage.
    ClusterUnreachable {
        /// Error message.
        message: String,
    },
    /// Watches started to fail, or work again.
    WatchChanged {
        /// Message from the cluster, or `None` when watches work again.
        trouble: Option<String>,
    },
    /// The operation has finished. No more events follow.
    Finished {
        /// `Succeeded`, `Failed` or `Error`.
        phase: OperationPhase,
        /// Final message of the operation.
        message: String,
    },
    /// The operation started to execute a stored plan.
    StoredPlanUsed {
        /// The plan and its approvals.
        plan: Box<StoredPlanRef>,
    },
}

/// Name of a wave, based on its manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaveName {
    /// Phase of the wave, such as `PreSync` or `Sync`.
    pub phase: Phase,
    /// Number of the wave within its phase, from the `sync-wave` annotations of its objects. Deletions use
    /// the same numbers. May be negative.
    pub wave: i64,
}

impl WaveName {
    /// Returns the name of a planned wave, with the number that users see.
    pub fn from_planned(wave: &PlannedWave, numbers: &WaveNumbers) -> Self {
        Self { phase: wave.phase, wave: numbers.displayed(wave.phase, wave.wave) }
    }
}

/// Operation, wave or hook that a deadline applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deadline {
    /// The operation. The request sets the deadline, measured from the operation's start.
    Operation,
    /// The current wave. Its timeout sets the deadline, measured from its opening.
    Wave,
    /// A hook. Its deadline is measured from the time it was applied or passed to its runner.
    Hook(ObjectKey),
}

/// Converts the recorded events of one operation to emitted events, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventEmitter {
    /// Sequence number of the last recorded event, emitted or skipped.
    sequence: u64,
    info: Option<OperationInfo>,
    plan: Arc<Plan>,
    /// True if the operation already has health rules.
    has_health_rules: bool,
    /// True if the cluster didn't respond to the last call.
    is_cluster_silent: bool,
}

/// Identity of the operation.
#[derive(Clone, Debug, PartialEq)]
struct OperationInfo {
    operation: OperationId,
    application: String,
    /// True if the operation deletes the application.
    is_deletion: bool,
    /// True if the operation may wait for another operation's claim.
    waits_for_claim: bool,
}

impl EventEmitter {
    /// Creates an emitter that continues after recorded event number `sequence`. `state` is the state after
    /// that event.
    pub fn from_state(state: &State, sequence: u64) -> Self {
        let info = state.header().map(|header| OperationInfo {
            operation: header.operation,
            application: header.request.application.clone(),
            is_deletion: header.request.deletion.is_some(),
            waits_for_claim: should_wait_for_claim(header.request.claim.as_ref().map(|claim| claim.if_taken)),
        });
        let plan = state.operation().map(|operation| Arc::clone(&operation.plan)).unwrap_or_default();
        let header = state.header();
        let has_health_rules = header.is_some_and(|header| header.health_rules.is_some());
        let is_cluster_silent = header.is_some_and(|header| header.outage.is_some());
        Self { sequence, info, plan, has_health_rules, is_cluster_silent }
    }

    /// Creates an emitter that continues after recorded event number `sequence` in a compacted log. `state`
    /// is a later state, and `events` contains the events to convert.
    pub fn from_later_state(state: &State, sequence: u64, events: &[OperationEvent]) -> Self {
        let later = Self::from_state(state, sequence);
        // If `events` contains a new plan, earlier events refer to a lost plan, so those about its tasks
        // can't be emitted.
        let plans = events.iter().any(|event| matches!(event, OperationEvent::Planned { .. }));
        if plans { Self { plan: Arc::default(), ..later } } else { later }
    }

    /// Returns the sequence number of the last recorded event, emitted or skipped.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Converts the next recorded event to the event to emit. `None` if the recorded event isn't emitted,
    /// usually because it is too fine-grained.
    pub fn emit(&mut self, event: &OperationEvent) -> Option<Event> {
        self.sequence = self.sequence.saturating_add(1);
        match event {
            OperationEvent::Accepted { operation, request, .. } => {
                self.info = Some(OperationInfo {
                    operation: *operation,
                    application: request.application.clone(),
                    is_deletion: request.deletion.is_some(),
                    waits_for_claim: should_wait_for_claim(
                        request.claim.as_ref().map(|claim| claim.if_taken),
                    ),
                });
            }
            OperationEvent::Planned { plan, .. } => self.plan = Arc::clone(plan),
            OperationEvent::ReplanStarted { .. } => self.plan = Arc::default(),
            _ => {}
        }
        let judged = self.has_health_rules;
        self.has_health_rules |= matches!(event, OperationEvent::HealthRulesSet { .. });
        let silent = self.is_cluster_silent;
        if matches!(event, OperationEvent::CallFailed { outage: true, .. }) {
            self.is_cluster_silent = true;
        } else if event.is_cluster_answer()
            || matches!(event, OperationEvent::Planned { .. } | OperationEvent::ClaimChanged { .. })
        {
            self.is_cluster_silent = false;
        }
        let info = self.info.as_ref()?;
        let (what, at) = match event {
            OperationEvent::HealthRulesSet { .. } if !judged => return None,
            OperationEvent::CallFailed { .. } if silent => return None,
            event => self.operation_event(info, event).or_else(|| self.task_event(event))?,
        };
        let OperationInfo { operation, application, .. } = info;
        Some(Event {
            operation: *operation,
            application: application.clone(),
            sequence: self.sequence,
            at,
            what,
        })
    }

    fn operation_event(
        &self,
        info: &OperationInfo,
        event: &OperationEvent,
    ) -> Option<(EventKind, Option<Timestamp>)> {
        let (what, at) = match event {
            OperationEvent::Accepted { at, .. } => (EventKind::Accepted, at),
            OperationEvent::Planned { plan, at, .. } => {
                (EventKind::Planned { waves: plan.waves.len(), tasks: plan.tasks.len() }, at)
            }
            OperationEvent::StageChanged { to, at } => {
                (EventKind::StageChanged { to: to.clone(), wave: self.wave_name(to) }, at)
            }
            OperationEvent::GateEvaluated { gate, verdict, at } => {
                (EventKind::Gate { gate: gate.clone(), verdict: verdict.clone() }, at)
            }
            OperationEvent::DeadlineExceeded { scope, message, at } => {
                let of = match scope {
                    DeadlineScope::Operation => Deadline::Operation,
                    DeadlineScope::Wave => Deadline::Wave,
                    DeadlineScope::Hook(task) => Deadline::Hook(self.task_object(*task)?),
                };
                (EventKind::DeadlineExceeded { of, message: message.clone() }, at)
            }
            OperationEvent::NamespaceLost { namespace, loss: Loss::Terminating, at } => {
                (EventKind::NamespaceTerminating { namespace: namespace.clone() }, at)
            }
            OperationEvent::NamespaceLost { namespace, loss, at } => {
                (EventKind::NamespaceLost { namespace: namespace.clone(), loss: *loss }, at)
            }
            OperationEvent::AttemptFailed { message, retriable, at } => {
                (EventKind::AttemptFailed { message: message.clone(), retriable: *retriable }, at)
            }
            OperationEvent::RetryStarted { attempt, at } | OperationEvent::ReplanStarted { attempt, at } => {
                (EventKind::RetryStarted { attempt: *attempt }, at)
            }
            OperationEvent::ClaimChanged { news, at } => (
                EventKind::ClaimChanged {
                    news: news.clone(),
                    message: claim_message(info.waits_for_claim, news),
                },
                at,
            ),
            OperationEvent::TerminationRequested { by, at } => {
                (EventKind::TerminationRequested { by: by.clone() }, at)
            }
            OperationEvent::Paused { by, reason, at } => {
                (EventKind::Paused { by: by.clone(), reason: reason.clone() }, at)
            }
            OperationEvent::Unpaused { by, at } => (EventKind::Unpaused { by: by.clone() }, at),
            OperationEvent::PruneConfirmed { by, at } => (EventKind::PruneConfirmed { by: by.clone() }, at),
            OperationEvent::Approved { wave, by, reason, at } => {
                (EventKind::Approved { wave: *wave, by: by.clone(), reason: reason.clone() }, at)
            }
            OperationEvent::HealthRulesSet { digest, at } => {
                (EventKind::HealthRulesChanged { digest: *digest }, at)
            }
            OperationEvent::CallFailed { outage: true, message, at, .. } => {
                (EventKind::ClusterUnreachable { message: message.clone() }, at)
            }
            OperationEvent::StoredPlanUsed { plan, at } => {
                (EventKind::StoredPlanUsed { plan: plan.clone() }, at)
            }
            OperationEvent::WatchChanged { trouble, at } => {
                (EventKind::WatchChanged { trouble: trouble.clone() }, at)
            }
            OperationEvent::Finished { phase, message, at } => {
                (EventKind::Finished { phase: *phase, message: message.clone() }, at)
            }
            _ => return None,
        };
        Some((what, Some(*at)))
    }

    fn task_event(&self, event: &OperationEvent) -> Option<(EventKind, Option<Timestamp>)> {
        Some(match event {
            OperationEvent::TaskCompleted { task, phase, message, at }
            | OperationEvent::TaskFailed { task, phase, message, at } => {
                let object = self.task_object(*task)?;
                (EventKind::Task { object, phase: *phase, message: message.clone() }, Some(*at))
            }
            OperationEvent::Overridden { task, what, by, reason, at } => {
                let (object, by, reason) = (self.task_object(*task)?, by.clone(), reason.clone());
                (EventKind::Overridden { object, what: *what, by, reason }, Some(*at))
            }
            OperationEvent::DeletionStarted { task } => (self.prune_event(*task, false)?, None),
            OperationEvent::ObjectDeleted { task } | OperationEvent::DeletionCompleted { task } => {
                (self.prune_event(*task, true)?, None)
            }
            OperationEvent::HookStopped { task, phase, message, clean } => {
                let (object, message) = (self.task_object(*task)?, message.clone());
                (EventKind::HookStopped { object, phase: *phase, message, clean: *clean }, None)
            }
            OperationEvent::WarningsReceived { task, warnings } => (
                EventKind::WarningsReceived { object: self.task_object(*task)?, warnings: warnings.clone() },
                None,
            ),
            _ => return None,
        })
    }

    fn task_object(&self, task: TaskId) -> Option<ObjectKey> {
        self.plan.task(task).map(tidegate_model::Task::key)
    }

    /// Returns a prune event, or `None` if the deletion only frees a hook's name.
    fn prune_event(&self, task: TaskId, gone: bool) -> Option<EventKind> {
        let task = self.plan.task(task).filter(|task| task.action == Action::Prune)?;
        Some(EventKind::Prune { object: task.key(), gone })
    }

    fn wave_name(&self, stage: &Stage) -> Option<WaveName> {
        let Stage::Wave { index, .. } = stage else { return None };
        let wave = self.plan.waves.get(TaskId(*index).index())?;
        let is_deletion = self.info.as_ref().is_some_and(|info| info.is_deletion);
        Some(WaveName::from_planned(wave, &self.plan.wave_numbers(is_deletion)))
    }
}

fn should_wait_for_claim(if_taken: Option<ClaimConflictPolicy>) -> bool {
    if_taken.is_some_and(|if_taken| if_taken != ClaimConflictPolicy::Refuse)
}

fn claim_message(waits: bool, news: &ClaimEvent) -> String {
    match news {
        ClaimEvent::Held { .. } => "acquired the claim on the application".to_owned(),
        ClaimEvent::Taken { holder, at_work } if waits || *at_work => {
            format!("waiting for the end of {holder}")
        }
        ClaimEvent::Taken { holder, .. } => {
            format!(
                "the application is claimed by {holder}; checking whether that operation is still running"
            )
        }
        ClaimEvent::Without { reason } => format!("continuing without a claim on the application: {reason}"),
        ClaimEvent::Lost { holder: Some(holder) } => format!("lost the claim on the application to {holder}"),
        ClaimEvent::Lost { holder: None } => {
            "lost the claim on the application to an operation that has ended".to_owned()
        }
        ClaimEvent::EndWanted { by } => format!("termination requested by {by}"),
    }
}
