//! Handles responses from the cluster. The functions return `None` for a response that the operation isn't
//! waiting for.

use tidegate_model::{Action, OperationPhase, Task, TaskId, Timestamp};

use super::call_retry::{CallRetry, can_retry_during_outage, schedule_call_retry};
use super::observation;
use crate::operation::input::{
    Answer, ApplyResponse, CallError, ClearingResult, DryRunResponse, PruneResult, StopResult, SuspendedHook,
};
use crate::operation::recorded_event::OperationEvent;
use crate::operation::rules::{has_runner, needs_check};
use crate::operation::state::{
    AppliedRef, HOOK_TERMINATED, Header, HookLog, Occupant, Operation, Progress, Stage, TaskState, WaveStep,
};

/// A task with its state, and the time of the response.
struct TaskContext<'a> {
    operation: &'a Operation,
    id: TaskId,
    task: &'a Task,
    state: &'a TaskState,
    now: Timestamp,
}

pub(super) fn decide(
    operation: &Operation,
    id: TaskId,
    answer: &Answer,
    now: Timestamp,
) -> Option<Vec<OperationEvent>> {
    let (task, state) = operation.task(id)?;
    let subject = TaskContext { operation, id, task, state, now };
    match answer {
        Answer::Checked(result) => subject.handle_check(result),
        Answer::Pruned(result) => subject.handle_prune(result),
        Answer::Cleared(result) => subject.handle_clearing(result),
        Answer::Suspended(hook) => subject.handle_suspended(hook),
        Answer::Applied(result) => subject.handle_apply(result),
        Answer::Started(result) => subject.handle_start(result),
        Answer::Ran { success, message } => subject.handle_run(*success, message),
        Answer::Released(result) => subject.handle_release(result),
        Answer::Deleted(result) => subject.handle_deletion(result),
        Answer::Stopped(result) => subject.handle_stop(result),
        Answer::LogsRead { reason, logs } => subject.handle_logs(reason, logs),
    }
}

/// Returns true if it is too early for the next probe of an unreachable cluster.
fn is_awaiting_probe(header: &Header, now: Timestamp) -> bool {
    header.outage.as_ref().is_some_and(|outage| now < outage.retry_at)
}

impl TaskContext<'_> {
    fn step(&self) -> Option<WaveStep> {
        self.operation.step_of_task(self.id)
    }

    /// Schedules a retry of the call, or returns the event from `otherwise` if the call won't be retried.
    fn retry_or_fail(
        &self,
        error: &CallError,
        otherwise: impl FnOnce(String) -> OperationEvent,
    ) -> Vec<OperationEvent> {
        let (header, calls) = (&self.operation.header, self.state.calls.as_deref());
        let patient = can_retry_during_outage(self.operation, self.state, self.now);
        let (task, at) = (Some(self.id), self.now);
        match schedule_call_retry(header, calls, error, patient, at) {
            // The outage is already recorded, so other calls that it fails need no events.
            Some(CallRetry { is_outage: true, .. }) if calls.is_some() && is_awaiting_probe(header, at) => {
                Vec::new()
            }
            Some(CallRetry { retry_at, is_outage: outage }) => {
                vec![OperationEvent::CallFailed {
                    task,
                    message: error.message.clone(),
                    retry_at,
                    at,
                    outage,
                }]
            }
            None => vec![otherwise(error.message.clone())],
        }
    }

    fn task_failed_event(&self, phase: OperationPhase, message: String) -> OperationEvent {
        OperationEvent::TaskFailed { task: self.id, phase, message, at: self.now }
    }

    fn handle_check(&self, result: &Result<DryRunResponse, CallError>) -> Option<Vec<OperationEvent>> {
        let at_wave = match (&self.operation.stage, self.step()) {
            (Stage::DryRun, _) => false,
            (_, Some(WaveStep::DryRun)) => true,
            _ => return None,
        };
        needs_check(self.task, self.state, at_wave).then(|| match result {
            Ok(trial) => {
                let mut events =
                    vec![OperationEvent::DryRunPassed { task: self.id, message: trial.message.clone() }];
                // Otherwise, the actual write reports the same warnings later.
                if self.operation.header.request.options.dry_run {
                    events.extend(self.warning_event(&trial.warnings));
                }
                events
            }
            Err(error) => {
                self.retry_or_fail(error, |message| OperationEvent::DryRunFailed { task: self.id, message })
            }
        })
    }

    fn handle_prune(&self, result: &Result<PruneResult, CallError>) -> Option<Vec<OperationEvent>> {
        let awaited = self.step()? == WaveStep::Pruning
            && self.task.action == Action::Prune
            && self.state.progress == Progress::Waiting;
        awaited.then(|| match result {
            Ok(PruneResult::Gone) => vec![OperationEvent::ObjectDeleted { task: self.id }],
            Ok(PruneResult::DeletionStarted) => vec![OperationEvent::DeletionStarted { task: self.id }],
            Ok(PruneResult::LeftAlone { reason }) => {
                let (phase, message) = (OperationPhase::Succeeded, reason.clone());
                vec![OperationEvent::TaskCompleted { task: self.id, phase, message, at: self.now }]
            }
            Err(error) => {
                self.retry_or_fail(error, |message| self.task_failed_event(OperationPhase::Failed, message))
            }
        })
    }

    fn handle_clearing(&self, result: &Result<ClearingResult, CallError>) -> Option<Vec<OperationEvent>> {
        if let (Ok(ClearingResult::Deleting { uid }), false) = (result, self.task.is_hook()) {
            let awaited = self.step()? == WaveStep::Applying && self.state.progress == Progress::Waiting;
            let started = OperationEvent::RecreationStarted { task: self.id, uid: uid.clone() };
            return (awaited && self.task.action.writes_manifest()).then(|| vec![started]);
        }
        let awaited = match (self.step()?, &self.state.progress) {
            (WaveStep::Clearing | WaveStep::Applying, Progress::Waiting) => self.state.occupant.is_none(),
            // The name was free, but has been taken since.
            (WaveStep::Applying, Progress::Ready) => true,
            _ => false,
        };
        let awaited = awaited && self.task.is_hook() && !has_runner(self.task);
        awaited.then(|| match result {
            Ok(ClearingResult::Clear) => vec![OperationEvent::HookCleared { task: self.id, deleting: None }],
            Ok(ClearingResult::Deleting { uid }) => {
                vec![OperationEvent::HookCleared { task: self.id, deleting: Some(uid.clone()) }]
            }
            Ok(ClearingResult::Occupied { operation, uid, resource_version }) => {
                let by = Occupant {
                    operation: operation.clone(),
                    uid: uid.clone(),
                    resource_version: resource_version.clone(),
                    since: self.now,
                };
                vec![OperationEvent::HookNameInUse { task: self.id, by: Some(by) }]
            }
            Ok(ClearingResult::Adopted(applied)) => self.applied_events(applied),
            Ok(ClearingResult::Suspended(hook)) if self.step() == Some(WaveStep::Applying) => {
                self.suspended_events(hook)
            }
            // The hook starts later. Applying its manifest then finds the same Job.
            Ok(ClearingResult::Suspended(_)) => {
                vec![OperationEvent::HookCleared { task: self.id, deleting: None }]
            }
            Err(error) => self.retry_or_fail(error, |message| {
                self.task_failed_event(OperationPhase::Error, format!("failed to delete resource: {message}"))
            }),
        })
    }

    fn handle_suspended(&self, hook: &SuspendedHook) -> Option<Vec<OperationEvent>> {
        let awaited = matches!(self.state.progress, Progress::Waiting | Progress::Ready)
            && self.step() == Some(WaveStep::Applying);
        (awaited && self.task.is_hook() && !has_runner(self.task)).then(|| self.suspended_events(hook))
    }

    fn suspended_events(&self, hook: &SuspendedHook) -> Vec<OperationEvent> {
        let SuspendedHook { uid, message, warnings } = hook;
        let suspended =
            OperationEvent::HookSuspended { task: self.id, uid: uid.clone(), message: message.clone() };
        std::iter::once(suspended).chain(self.warning_event(warnings)).collect()
    }

    fn handle_apply(&self, result: &Result<Box<ApplyResponse>, CallError>) -> Option<Vec<OperationEvent>> {
        let stopping = matches!(self.state.progress, Progress::Stopping { .. });
        let at_work = match self.state.progress {
            Progress::Waiting | Progress::Ready | Progress::Suspended { .. } => {
                self.step() == Some(WaveStep::Applying)
            }
            // The hook was being created when a deadline passed, the operation was terminated, or a user
            // skipped the hook.
            Progress::Stopping { .. } => self.state.applied.is_none(),
            _ => false,
        };
        (at_work && !has_runner(self.task) && self.task.action.writes_manifest()).then(|| match result {
            Ok(applied) => self.applied_events(applied),
            // No need to retry: stopping also finds a hook that was created despite the error.
            Err(error) if stopping && error.is_transient => Vec::new(),
            Err(error) => {
                self.retry_or_fail(error, |message| self.task_failed_event(OperationPhase::Failed, message))
            }
        })
    }

    fn handle_start(&self, result: &Result<Box<ApplyResponse>, CallError>) -> Option<Vec<OperationEvent>> {
        match (&self.state.progress, result) {
            (Progress::Suspended { .. }, _) | (Progress::Stopping { .. }, Ok(_)) => self.handle_apply(result),
            // The Job exists, so stopping the hook deletes it.
            (Progress::Stopping { .. }, Err(_)) => Some(Vec::new()),
            _ => None,
        }
    }

    /// Returns the events for a written object. The response may already contain the object's health.
    fn applied_events(&self, applied: &ApplyResponse) -> Vec<OperationEvent> {
        let reference = AppliedRef {
            uid: applied.uid.clone(),
            resource_version: applied.resource_version.clone(),
            generation: applied.generation,
            at: self.now,
        };
        let judged = observation::judge_observation(
            self.operation,
            self.id,
            self.task,
            self.state,
            &reference,
            &applied.observed,
            self.now,
        );
        let is_start = matches!(self.state.progress, Progress::Suspended { .. });
        let done = !self.task.is_hook() && judged.has_no_health;
        let mut events = vec![OperationEvent::Applied {
            task: self.id,
            applied: reference,
            // Starting a suspended Job has no message of its own.
            message: if is_start { self.state.message.clone() } else { applied.message.clone() },
            done,
        }];
        if !is_start {
            events.extend(self.warning_event(&applied.warnings));
        }
        if !done && !matches!(self.state.progress, Progress::Stopping { .. }) {
            events.extend(judged.events);
        }
        events
    }

    fn warning_event(&self, warnings: &[String]) -> Option<OperationEvent> {
        (warnings != self.state.warnings)
            .then(|| OperationEvent::WarningsReceived { task: self.id, warnings: warnings.to_vec() })
    }

    fn handle_run(&self, success: bool, message: &str) -> Option<Vec<OperationEvent>> {
        let awaited = has_runner(self.task) && self.state.progress == Progress::Running;
        let phase = if success { OperationPhase::Succeeded } else { OperationPhase::Failed };
        awaited.then(|| {
            vec![OperationEvent::TaskCompleted {
                task: self.id,
                phase,
                message: message.to_owned(),
                at: self.now,
            }]
        })
    }

    fn handle_release(&self, result: &Result<(), CallError>) -> Option<Vec<OperationEvent>> {
        self.state.needs_release().then(|| match result {
            Ok(()) => vec![OperationEvent::HookFinalizerRemoved { task: self.id }],
            Err(error) => {
                let mut events = self.retry_or_fail(error, |message| OperationEvent::TaskCompleted {
                    task: self.id,
                    phase: OperationPhase::Error,
                    message: format!("Failed to remove hook finalizer: {message}"),
                    at: self.now,
                });
                if matches!(events.first(), Some(OperationEvent::TaskCompleted { .. })) {
                    events.push(OperationEvent::HookFinalizerRemoved { task: self.id });
                }
                events
            }
        })
    }

    fn handle_deletion(&self, result: &Result<(), CallError>) -> Option<Vec<OperationEvent>> {
        let Stage::Finishing { phase, .. } = self.operation.stage else { return None };
        self.operation.should_delete_at_end(self.task, self.state, phase).then(|| match result {
            Ok(()) => vec![OperationEvent::HookDeleted { task: self.id, error: None }],
            Err(error) => self.retry_or_fail(error, |message| OperationEvent::HookDeleted {
                task: self.id,
                error: Some(format!("failed to delete resource: {message}")),
            }),
        })
    }

    fn handle_stop(&self, result: &Result<StopResult, CallError>) -> Option<Vec<OperationEvent>> {
        let Progress::Stopping { reason } = &self.state.progress else { return None };
        Some(match result {
            Ok(stopped) => vec![self.hook_stopped_event(stopped, reason)],
            Err(error) => self.retry_or_fail(error, |message| OperationEvent::HookStopped {
                task: self.id,
                phase: OperationPhase::Failed,
                message: format!("Failed to delete: {message}"),
                clean: false,
            }),
        })
    }

    fn handle_logs(&self, reason: &str, logs: &[HookLog]) -> Option<Vec<OperationEvent>> {
        self.operation.needs_logs(self.task, self.state).then(|| {
            vec![OperationEvent::LogsStored { task: self.id, reason: reason.to_owned(), logs: logs.to_vec() }]
        })
    }

    fn hook_stopped_event(&self, stopped: &StopResult, reason: &str) -> OperationEvent {
        let absent = stopped.phase == OperationPhase::Succeeded && stopped.message == HOOK_TERMINATED;
        // If a deadline stopped the hook, a missing object doesn't mean that it succeeded.
        let vanished = absent && self.state.applied.is_some() && self.operation.termination.is_none();
        let (phase, message) = match stopped.phase {
            _ if vanished => (OperationPhase::Failed, reason.to_owned()),
            OperationPhase::Running | OperationPhase::Terminating => {
                (OperationPhase::Failed, reason.to_owned())
            }
            phase => (phase, stopped.message.clone()),
        };
        OperationEvent::HookStopped { task: self.id, phase, message, clean: true }
    }
}
