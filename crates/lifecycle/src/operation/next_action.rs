//! Next action for each state of an operation.

use tidegate_model::{Destination, OperationId, OperationPhase, SyncRequest, Task, Timestamp};

use super::Explanation;
use super::gates::concurrency_group;
use super::messages::{TERMINATED, describe_task, is_superseded_message};
use super::rules::needs_establishment;
use super::state::{
    Claim, GateAnswer, Header, Operation, Progress, Stage, State, TaskState, Verdict, WaveStep,
};
use crate::NextAction;

#[cfg(test)]
mod tests;

/// The event that an operation is waiting for, or its result. Each variant maps to a next action.
#[derive(Clone, Debug, PartialEq)]
enum Wait<'a> {
    /// The operation hasn't been recorded yet.
    Record,
    /// A user paused the operation.
    Unpause,
    /// Another operation holds the claim.
    OtherClaim(String),
    /// The operation is acquiring the claim.
    Claim,
    /// The operation lost the claim to another operation.
    LostClaim,
    /// The operation is being planned.
    Plan,
    /// The server is validating manifests.
    DryRun,
    /// The next wave is about to open.
    NextWave,
    /// A wave needs an approval.
    Approval,
    /// Prunes need a confirmation.
    Confirmation,
    /// A wave is soaking until this time.
    Soak(Timestamp),
    /// A concurrency group is full.
    Group(&'a str),
    /// A gate is closed.
    Gate(&'a str, &'a str),
    /// Gates haven't returned a verdict yet.
    Gates,
    /// Deletions are being requested.
    Deletions,
    /// The operation is checking which of the deleted objects are still there.
    GoneCheck,
    /// An object is being deleted.
    Gone(&'a Task),
    /// Another operation is running the same hook.
    OtherHook(&'a str),
    /// A call for an object is failing.
    Call(&'a Task),
    /// Manifests are being applied.
    Manifests,
    /// A written object hasn't been observed yet.
    Observation(&'a Task),
    /// A hook is running.
    Hook(&'a Task),
    /// An object isn't healthy.
    Health(&'a Task),
    /// The finalizer of a finished hook is being removed.
    Release(&'a Task),
    /// Health must remain stable until this time.
    Settling(Timestamp),
    /// Namespaces are being checked.
    Namespaces,
    /// The next attempt starts at this time.
    Attempt(u32, Timestamp),
    /// Running hooks are being stopped.
    Stop,
    /// Hooks are being cleaned up.
    CleanUp,
    /// The operation succeeded.
    Succeeded,
    /// The operation succeeded as a dry run.
    Checked,
    /// The operation failed.
    Failed,
    /// A user terminated the operation.
    Terminated,
    /// Another operation superseded this operation.
    Superseded,
    /// The operation deleted the application.
    Deleted,
    /// The operation failed to delete the application.
    NotDeleted,
}

impl Explanation {
    /// Sets the next action, assuming that the cluster responds.
    pub(super) fn set_action(&mut self, state: &State, now: Timestamp) {
        let wait = find_wait(state, now);
        self.action = match state.header() {
            Some(header) => wait.action(header.operation, &header.request),
            None => NextAction::wait("the operation is recorded"),
        };
        self.awaits_person = matches!(wait, Wait::Unpause | Wait::Approval | Wait::Confirmation);
    }

    /// Adds a cluster outage and, unless a user must act next, its next action. A user can act even during an
    /// outage.
    pub fn add_outage(&mut self, trouble: String) {
        self.trouble = Some(trouble);
        if !self.awaits_person {
            self.action = NextAction::wait("the cluster responds");
        }
    }
}

/// Returns the next action for an unfinished operation that no process is running.
pub fn resume_action(operation: OperationId, is_paused: bool) -> NextAction {
    let resume = format!("tidegate resume {operation}");
    if is_paused {
        let unpause = format!("tidegate ops unpause {operation}");
        let text = format!("unpause the operation with `{unpause}`, then continue it with `{resume}`");
        NextAction { command: Some(unpause), text }
    } else {
        NextAction::run(resume, "continues the operation")
    }
}

/// Returns the next action for a compacted operation, based on the phase and message in its summary.
pub fn summary_action(
    operation: OperationId,
    application: &str,
    phase: OperationPhase,
    message: &str,
) -> NextAction {
    match phase {
        OperationPhase::Succeeded => succeeded_action(),
        OperationPhase::Failed if message == TERMINATED => terminated_action(application),
        OperationPhase::Failed | OperationPhase::Error => failed_action(application),
        OperationPhase::Running | OperationPhase::Terminating => NextAction::run(
            format!("tidegate ops show {operation}"),
            "describes the damage to the operation's log; then restore the state directory from a backup, or sync again",
        ),
    }
}

fn succeeded_action() -> NextAction {
    NextAction::nothing("sync again when the manifests change")
}

fn failed_action(application: &str) -> NextAction {
    NextAction::change(format!("fix the cause, then {}", describe_new_sync(application)))
}

/// Returns the next action after a user terminated a sync. The manifests may not need a fix.
fn terminated_action(application: &str) -> NextAction {
    NextAction::change(format!("to deploy, {}", describe_new_sync(application)))
}

fn describe_new_sync(application: &str) -> String {
    // Applications outside the control plane's namespace have names in the form `NAMESPACE_NAME`.
    let name = application.replacen('_', "/", 1);
    format!(
        "sync again: `tidegate app sync {name}` for a managed Application, otherwise the original sync command"
    )
}

impl Wait<'_> {
    fn action(&self, id: OperationId, request: &SyncRequest) -> NextAction {
        let terminate = format!("`tidegate ops terminate {id}` ends the operation");
        let to = &request.destination;
        match self {
            Self::Record => NextAction::wait("the operation is recorded"),
            Self::Unpause => NextAction::run(format!("tidegate ops unpause {id}"), "continues the operation"),
            Self::OtherClaim(holder) => NextAction::wait(&format!("{holder} ends")).or(&terminate),
            Self::Claim => NextAction::wait("the operation acquires the claim"),
            Self::LostClaim => NextAction::nothing("the operation ends because another operation took its claim"),
            Self::Plan => NextAction::wait("the plan is ready"),
            Self::DryRun => NextAction::wait("the server validates the manifests"),
            Self::NextWave => NextAction::wait("the next wave opens"),
            Self::Approval => NextAction::run(format!("tidegate ops approve {id}"), "opens the wave"),
            Self::Confirmation => {
                NextAction::run(format!("tidegate ops confirm {id}"), "permits the deletions").or(&terminate)
            }
            Self::Soak(until) => NextAction::wait(&format!("the soak time ends at {until}")),
            Self::Group(group) => {
                NextAction::wait(&format!("another operation in the group {group} ends"))
            }
            Self::Gate(gate, reason) => NextAction::wait(&format!("the gate {gate} opens ({reason})")),
            Self::Gates => NextAction::wait("the gates report their results"),
            Self::Deletions => NextAction::wait("the deletions are requested"),
            Self::GoneCheck => NextAction::wait("the deleted objects no longer exist"),
            Self::Gone(task) => describe_command(task, to, "shows what blocks the deletion").or(&format!(
                "the operation continues when {} no longer exists, and {terminate}",
                describe_task(task)
            )),
            Self::OtherHook(other) => {
                NextAction::wait(&format!("operation {other} finishes running the hook")).or(&terminate)
            }
            Self::Call(task) => {
                NextAction::wait(&format!("the cluster accepts the call for {}", describe_task(task))).or(&terminate)
            }
            Self::Manifests => NextAction::wait("the wave's manifests are applied"),
            Self::Observation(task) => NextAction::wait(&format!("{} is observed", describe_task(task))),
            Self::Hook(task) => {
                let output = format!("tidegate ops output {id}");
                let effect = format!("prints the output of {}; the operation continues when the hook finishes", describe_task(task));
                NextAction::run(output, &effect).or(&terminate)
            }
            Self::Health(task) => describe_command(task, to, health_effect(to)).or(&format!(
                "if it remains unhealthy, {terminate}, and `tidegate ops skip {id} --task {object} --reason TEXT` continues without the object",
                object = format_args!("{}{}", qualified_name(task), namespace_flag(task))
            )),
            Self::Release(task) => {
                NextAction::wait(&format!("the finalizer of {} is removed", describe_task(task)))
            }
            Self::Settling(until) => {
                NextAction::wait(&format!("the wave has stayed healthy until {until}"))
            }
            Self::Namespaces => NextAction::wait("the wave's namespaces are checked"),
            Self::Attempt(attempt, at) => {
                NextAction::wait(&format!("attempt {attempt} starts at {at}")).or(&terminate)
            }
            Self::Stop => NextAction::nothing("the operation ends when its running hooks stop"),
            Self::CleanUp => NextAction::nothing("the operation ends when its hooks are cleaned up"),
            Self::Succeeded => succeeded_action(),
            Self::Checked => NextAction::change("to write the changes, request the sync without a dry run"),
            Self::Failed => failed_action(&request.application),
            Self::Terminated if request.deletion.is_some() => {
                NextAction::change("to delete the application, request the deletion again")
            }
            Self::Terminated => terminated_action(&request.application),
            Self::Superseded => NextAction::nothing("the superseding operation takes over the work"),
            Self::Deleted => NextAction::nothing("the application is deleted"),
            Self::NotDeleted => NextAction::change("fix the cause, then request the deletion again"),
        }
    }
}

/// Returns the effect of the command that shows an unhealthy object.
fn health_effect(to: &Destination) -> &'static str {
    match to {
        Destination::Simulated => "shows its health and its pods",
        Destination::Kubernetes { .. } => "shows its status and its events",
    }
}

/// Returns the command that shows an object and its events.
fn describe_command(task: &Task, to: &Destination, effect: &str) -> NextAction {
    let command = match to {
        Destination::Simulated => "tidegate sim objects".to_owned(),
        Destination::Kubernetes { .. } => {
            format!("kubectl describe {}{}", qualified_name(task), namespace_flag(task))
        }
    };
    NextAction::run(command, effect)
}

/// Returns the object's kind, group and name as kubectl expects them, such as `Deployment.apps/api`.
fn qualified_name(task: &Task) -> String {
    let (group, kind) = (&task.gvk.group, &task.gvk.kind);
    let dot = if group.is_empty() { "" } else { "." };
    format!("{kind}{dot}{group}/{}", task.name)
}

/// Returns the namespace flag for kubectl, such as ` -n shop`.
fn namespace_flag(task: &Task) -> String {
    if task.namespace.is_empty() { String::new() } else { format!(" -n {}", task.namespace) }
}

fn find_wait(state: &State, now: Timestamp) -> Wait<'_> {
    match state {
        State::New => Wait::Record,
        State::Accepted(header) if header.paused.is_some() => Wait::Unpause,
        State::Accepted(header) => accepted_wait(header),
        State::Running(operation) if operation.header.paused.is_some() => Wait::Unpause,
        State::Running(operation) => running_wait(operation, now),
        State::Finished(operation) => finished_wait(operation),
    }
}

fn accepted_wait(header: &Header) -> Wait<'_> {
    match header.claim.as_deref() {
        Some(Claim::Taken { holder, .. }) => Wait::OtherClaim(holder.to_string()),
        Some(Claim::Lost { .. }) => Wait::LostClaim,
        Some(Claim::Held { .. } | Claim::Without { .. }) => Wait::Plan,
        None if header.can_begin() => Wait::Plan,
        None => Wait::Claim,
    }
}

fn running_wait(operation: &Operation, now: Timestamp) -> Wait<'_> {
    match &operation.stage {
        Stage::Planned => Wait::NextWave,
        Stage::DryRun => Wait::DryRun,
        Stage::Wave { index, step } => wave_wait(operation, *index, *step, now),
        Stage::AwaitingRetry { until } => Wait::Attempt(operation.attempt.saturating_add(1), *until),
        Stage::Terminating => Wait::Stop,
        Stage::Finishing { .. } => Wait::CleanUp,
    }
}

fn wave_wait(operation: &Operation, index: u32, step: WaveStep, now: Timestamp) -> Wait<'_> {
    match step {
        WaveStep::Held => held_wait(operation, index, now),
        WaveStep::DryRun => Wait::DryRun,
        WaveStep::Pruning => Wait::Deletions,
        WaveStep::AwaitingGone | WaveStep::Clearing => {
            blocking_wait(operation, index, true).unwrap_or(Wait::GoneCheck)
        }
        WaveStep::Applying => {
            let mut group = operation.current_apply_group(index);
            let definition = group.find(|(_, task, state)| needs_establishment(task, state));
            let definition = definition.map(|(_, task, state)| task_wait(task, state));
            let dependency = || {
                let waits = operation.awaits_dependencies(index);
                let (_, task, state) = operation.awaited_dependencies(index).next().filter(|_| waits)?;
                Some(task_wait(task, state))
            };
            definition
                .or_else(|| blocking_wait(operation, index, false))
                .or_else(dependency)
                .unwrap_or(Wait::Manifests)
        }
        WaveStep::AwaitingHealth => {
            let since =
                |state: &TaskState| state.applied.as_ref().map_or(operation.since, |applied| applied.at);
            let first = operation.awaited_task_states(index).min_by_key(|(_, _, state)| since(state));
            first.map_or(Wait::NextWave, |(_, task, state)| task_wait(task, state))
        }
        WaveStep::Settling { until } => Wait::Settling(until),
        WaveStep::Passed => Wait::NextWave,
        WaveStep::Verifying => Wait::Namespaces,
    }
}

/// Returns the wait for an object that blocks the next step of a wave, such as an object that is being
/// deleted.
fn blocking_wait(operation: &Operation, index: u32, awaits_prunes: bool) -> Option<Wait<'_>> {
    let other = operation.wave_tasks(index).find_map(|(_, _, state)| state.occupant.as_deref());
    let is_leaving = |task: &Task, state: &TaskState| {
        matches!(state.progress, Progress::Deleting { .. }) && (awaits_prunes || !task.action.is_prune())
    };
    let mut tasks = operation.wave_tasks(index);
    let first = tasks.find(|(_, task, state)| has_failing_call(state) || is_leaving(task, state));
    let other = other.map(|other| Wait::OtherHook(&other.operation));
    other.or_else(|| first.map(|(_, task, state)| task_wait(task, state)))
}

fn has_failing_call(state: &TaskState) -> bool {
    state.calls.as_deref().is_some_and(|calls| calls.failed > 0)
}

fn task_wait<'a>(task: &'a Task, state: &TaskState) -> Wait<'a> {
    if has_failing_call(state) {
        return Wait::Call(task);
    }
    match &state.progress {
        Progress::Waiting | Progress::Ready | Progress::Suspended { .. } => Wait::Manifests,
        Progress::Deleting { .. } => Wait::Gone(task),
        Progress::Running if state.health.is_none() => Wait::Observation(task),
        Progress::Running if task.is_hook() => Wait::Hook(task),
        Progress::Running => Wait::Health(task),
        Progress::Stopping { .. } => Wait::Stop,
        Progress::Done => Wait::Release(task),
    }
}

fn held_wait(operation: &Operation, index: u32, now: Timestamp) -> Wait<'_> {
    if operation.needs_approval(index) {
        return Wait::Approval;
    }
    if operation.unconfirmed_prunes(index).next().is_some() {
        return Wait::Confirmation;
    }
    if let Some(until) = operation.soak_end(index).filter(|until| now < *until) {
        return Wait::Soak(until);
    }
    let asked: Vec<&str> = operation.external_gates(index).map(String::as_str).collect();
    let closed =
        |answer: &'_ &GateAnswer| asked.contains(&answer.gate.as_str()) && answer.verdict != Verdict::Open;
    // Concurrency gates are queried last, so a closed gate is shown only if all other gates are open.
    let first =
        operation.gates.iter().filter(closed).min_by_key(|answer| concurrency_group(&answer.gate).is_some());
    match first.map(|answer| (concurrency_group(&answer.gate), answer.gate.as_str(), &answer.verdict)) {
        Some((Some(group), _, _)) => Wait::Group(group),
        Some((None, gate, Verdict::Closed { reason, .. })) => Wait::Gate(gate, reason),
        Some((None, _, Verdict::Open)) | None => Wait::Gates,
    }
}

fn finished_wait(operation: &Operation) -> Wait<'_> {
    let request = &operation.header.request;
    let Some(outcome) = &operation.outcome else { return Wait::Succeeded };
    let deletes = request.deletion.is_some();
    // If an operation was terminated before it was planned, only its message shows this.
    let is_terminated = outcome.message == TERMINATED
        || operation.termination.as_ref().is_some_and(|termination| termination.message == TERMINATED);
    match outcome.phase {
        OperationPhase::Succeeded if request.options.dry_run => Wait::Checked,
        OperationPhase::Succeeded if deletes => Wait::Deleted,
        OperationPhase::Succeeded => Wait::Succeeded,
        OperationPhase::Failed | OperationPhase::Error if is_superseded_message(&outcome.message) => {
            Wait::Superseded
        }
        OperationPhase::Failed | OperationPhase::Error if is_terminated => Wait::Terminated,
        OperationPhase::Failed | OperationPhase::Error if deletes => Wait::NotDeleted,
        OperationPhase::Failed | OperationPhase::Error => Wait::Failed,
        OperationPhase::Running | OperationPhase::Terminating => Wait::Stop,
    }
}
