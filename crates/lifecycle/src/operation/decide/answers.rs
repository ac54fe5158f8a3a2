//! What the cluster's answers mean. `None` is an answer nobody awaits.

use tidegate_model::{Action, OperationPhase, Task, TaskId, Timestamp};

use super::again::{Again, call_again, is_patient};
use super::observed;
use crate::operation::fact::Fact;
use crate::operation::input::{Answer, Applied, CallError, Clearing, Pruning, Stopped, Trial};
use crate::operation::messages;
use crate::operation::rules::{has_runner, needs_check};
use crate::operation::state::{
    AppliedRef, Header, HookLog, Occupant, Operation, Progress, Stage, TaskState, WaveStep,
};

/// One task with its state, and the moment of the answer.
struct Subject<'a> {
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
) -> Option<Vec<Fact>> {
    let (task, state) = operation.task(id)?;
    let subject = Subject { operation, id, task, state, now };
    match answer {
        Answer::Checked(result) => subject.checked(result),
        Answer::Pruned(result) => subject.pruned(result),
        Answer::Cleared(result) => subject.cleared(result),
        Answer::Applied(result) => subject.applied(result),
        Answer::Ran { success, message } => subject.ran(*success, message),
        Answer::Released(result) => subject.released(result),
        Answer::Deleted(result) => subject.deleted(result),
        Answer::Stopped(result) => subject.stopped(result),
        Answer::LogsRead { reason, logs } => subject.logs_read(reason, logs),
    }
}

/// Whether the next look at a cluster that does not answer is still to come.
fn is_waiting(header: &Header, now: Timestamp) -> bool {
    header.outage.as_ref().is_some_and(|outage| now < outage.retry_at)
}

impl Subject<'_> {
    fn step(&self) -> Option<WaveStep> {
        self.operation.step_of(self.id)
    }

    /// The call will be made again, or the failure counts.
    fn again_or(&self, error: &CallError, otherwise: impl FnOnce(String) -> Fact) -> Vec<Fact> {
        let (header, calls) = (&self.operation.header, self.state.calls.as_deref());
        let patient = is_patient(self.operation, self.state, self.now);
        let (task, at) = (Some(self.id), self.now);
        match call_again(header, calls, error, patient, at) {
            // Known already: the many calls that meet one outage need no fact each.
            Some(Again { outage: true, .. }) if calls.is_some() && is_waiting(header, at) => Vec::new(),
            Some(Again { retry_at, outage }) => {
                vec![Fact::CallFailed { task, message: error.message.clone(), retry_at, at, outage }]
            }
            None => vec![otherwise(error.message.clone())],
        }
    }

    fn failed(&self, phase: OperationPhase, message: String) -> Fact {
        Fact::TaskFailed { task: self.id, phase, message, at: self.now }
    }

    fn checked(&self, result: &Result<Trial, CallError>) -> Option<Vec<Fact>> {
        let at_wave = match (&self.operation.stage, self.step()) {
            (Stage::DryRun, _) => false,
            (_, Some(WaveStep::DryRun)) => true,
            _ => return None,
        };
        needs_check(self.task, self.state, at_wave).then(|| match result {
            Ok(trial) => {
                let mut facts = vec![Fact::Checked { task: self.id, message: trial.message.clone() }];
                // Where more than a trial is wanted, the write will be warned of.
                if self.operation.header.request.options.dry_run {
                    facts.extend(self.warned(&trial.warnings));
                }
                facts
            }
            Err(error) => self.again_or(error, |message| Fact::CheckFailed { task: self.id, message }),
        })
    }

    fn pruned(&self, result: &Result<Pruning, CallError>) -> Option<Vec<Fact>> {
        let awaited = self.step()? == WaveStep::Pruning
            && self.task.action == Action::Prune
            && self.state.progress == Progress::Waiting;
        awaited.then(|| match result {
            Ok(Pruning::Gone) => vec![Fact::PruneSent { task: self.id, gone: true }],
            Ok(Pruning::Begun) => vec![Fact::DeletionBegun { task: self.id }],
            Ok(Pruning::Kept { reason }) => {
                let (phase, message) = (OperationPhase::Succeeded, reason.clone());
                vec![Fact::TaskCompleted { task: self.id, phase, message, at: self.now }]
            }
            Err(error) => self.again_or(error, |message| self.failed(OperationPhase::Failed, message)),
        })
    }

    fn cleared(&self, result: &Result<Clearing, CallError>) -> Option<Vec<Fact>> {
        if let (Ok(Clearing::Deleting { uid }), false) = (result, self.task.is_hook()) {
            let awaited = self.step()? == WaveStep::Applying && self.state.progress == Progress::Waiting;
            let begun = Fact::RecreationBegun { task: self.id, uid: uid.clone() };
            return (awaited && self.task.action.writes()).then(|| vec![begun]);
        }
        let awaited = match (self.step()?, &self.state.progress) {
            (WaveStep::Clearing | WaveStep::Applying, Progress::Waiting) => self.state.occupant.is_none(),
            // The place was found clear and is not any more.
            (WaveStep::Applying, Progress::Ready) => true,
            _ => false,
        };
        let awaited = awaited && self.task.is_hook() && !has_runner(self.task);
        awaited.then(|| match result {
            Ok(Clearing::Clear) => vec![Fact::HookCleared { task: self.id, deleting: None }],
            Ok(Clearing::Deleting { uid }) => {
                vec![Fact::HookCleared { task: self.id, deleting: Some(uid.clone()) }]
            }
            Ok(Clearing::Taken { operation, uid, resource_version }) => {
                let by = Occupant {
                    operation: operation.clone(),
                    uid: uid.clone(),
                    resource_version: resource_version.clone(),
                    since: self.now,
                };
                vec![Fact::PlaceTaken { task: self.id, by: Some(by) }]
            }
            Ok(Clearing::Adopted(applied)) => self.written(applied),
            Err(error) => self.again_or(error, |message| {
                self.failed(OperationPhase::Error, format!("failed to delete resource: {message}"))
            }),
        })
    }

    fn applied(&self, result: &Result<Box<Applied>, CallError>) -> Option<Vec<Fact>> {
        let stopping = matches!(self.state.progress, Progress::Stopping { .. });
        let at_work = match self.state.progress {
            Progress::Waiting | Progress::Ready => self.step() == Some(WaveStep::Applying),
            // A hook that was being created when the wave's deadline passed or the operation was terminated.
            Progress::Stopping { .. } => self.state.applied.is_none(),
            _ => false,
        };
        (at_work && !has_runner(self.task) && self.task.action.writes()).then(|| match result {
            Ok(applied) => self.written(applied),
            // It is not made again, and whether it was made is for the stopping to find out.
            Err(error) if stopping && error.transient => Vec::new(),
            Err(error) => self.again_or(error, |message| self.failed(OperationPhase::Failed, message)),
        })
    }

    /// The object is in the cluster, and its health may already be known.
    fn written(&self, applied: &Applied) -> Vec<Fact> {
        let reference = AppliedRef {
            uid: applied.uid.clone(),
            resource_version: applied.resource_version.clone(),
            generation: applied.generation,
            at: self.now,
        };
        let judged = observed::judge(
            self.operation,
            self.id,
            self.task,
            self.state,
            &reference,
            &applied.observed,
            self.now,
        );
        let done = !self.task.is_hook() && judged.is_without_health;
        let mut facts =
            vec![Fact::Applied { task: self.id, applied: reference, message: applied.message.clone(), done }];
        facts.extend(self.warned(&applied.warnings));
        if !done && !matches!(self.state.progress, Progress::Stopping { .. }) {
            facts.extend(judged.facts);
        }
        facts
    }

    fn warned(&self, warnings: &[String]) -> Option<Fact> {
        (warnings != self.state.warnings).then(|| Fact::Warned { task: self.id, warnings: warnings.to_vec() })
    }

    fn ran(&self, success: bool, message: &str) -> Option<Vec<Fact>> {
        let awaited = has_runner(self.task) && self.state.progress == Progress::Running;
        let phase = if success { OperationPhase::Succeeded } else { OperationPhase::Failed };
        awaited.then(|| {
            vec![Fact::TaskCompleted { task: self.id, phase, message: message.to_owned(), at: self.now }]
        })
    }

    fn released(&self, result: &Result<(), CallError>) -> Option<Vec<Fact>> {
        self.state.awaits_release().then(|| match result {
            Ok(()) => vec![Fact::HookReleased { task: self.id }],
            Err(error) => {
                let mut facts = self.again_or(error, |message| Fact::TaskCompleted {
                    task: self.id,
                    phase: OperationPhase::Error,
                    message: format!("Failed to remove hook finalizer: {message}"),
                    at: self.now,
                });
                if matches!(facts.first(), Some(Fact::TaskCompleted { .. })) {
                    facts.push(Fact::HookReleased { task: self.id });
                }
                facts
            }
        })
    }

    fn deleted(&self, result: &Result<(), CallError>) -> Option<Vec<Fact>> {
        let Stage::Finishing { phase, .. } = self.operation.stage else { return None };
        self.operation.deletes_at_end(self.task, self.state, phase).then(|| match result {
            Ok(()) => vec![Fact::HookDeleted { task: self.id, error: None }],
            Err(error) => self.again_or(error, |message| Fact::HookDeleted {
                task: self.id,
                error: Some(format!("failed to delete resource: {message}")),
            }),
        })
    }

    fn stopped(&self, result: &Result<Stopped, CallError>) -> Option<Vec<Fact>> {
        let Progress::Stopping { reason } = &self.state.progress else { return None };
        Some(match result {
            Ok(stopped) => vec![self.ended(stopped, reason)],
            Err(error) => self.again_or(error, |message| Fact::HookStopped {
                task: self.id,
                phase: OperationPhase::Failed,
                message: format!("Failed to delete: {message}"),
                clean: false,
            }),
        })
    }

    fn logs_read(&self, reason: &str, logs: &[HookLog]) -> Option<Vec<Fact>> {
        self.operation
            .awaits_logs(self.task, self.state)
            .then(|| vec![Fact::LogsKept { task: self.id, reason: reason.to_owned(), logs: logs.to_vec() }])
    }

    fn ended(&self, stopped: &Stopped, reason: &str) -> Fact {
        let absent =
            stopped.phase == OperationPhase::Succeeded && stopped.message == messages::HOOK_TERMINATED;
        // A deadline stops a hook that was at work; that its object has gone does not make it a success.
        let vanished = absent && self.state.applied.is_some() && self.operation.termination.is_none();
        let (phase, message) = match stopped.phase {
            _ if vanished => (OperationPhase::Failed, reason.to_owned()),
            OperationPhase::Running | OperationPhase::Terminating => {
                (OperationPhase::Failed, reason.to_owned())
            }
            phase => (phase, stopped.message.clone()),
        };
        Fact::HookStopped { task: self.id, phase, message, clean: true }
    }
}
