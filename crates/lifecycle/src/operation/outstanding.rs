//! Outstanding commands of an operation. They depend only on the state and the time, so a restarted engine
//! computes the same commands.

use tidegate_model::{Action, Task, TaskId, Timestamp};

use super::affected_subjects::has_independent_tasks;
use super::command::{Command, Subject, TaskCommand};
use super::rules::{has_runner, is_clearing, needs_check, needs_establishment};
use super::state::{CallFailures, Header, Operation, Progress, Stage, State, TaskState, WaveStep};
use crate::machine::Outstanding;

/// Returns the commands that must be executed now.
pub fn outstanding(state: &State, now: Timestamp) -> Outstanding<Command> {
    let retry_at = state.header().and_then(|header| header.outage.as_ref()).map(|outage| outage.retry_at);
    let mut collected = CommandCollector {
        commands: Vec::new(),
        wake_at: None,
        now,
        next_probe_at: retry_at,
        has_probe: false,
    };
    match state {
        State::New | State::Finished(_) => {}
        State::Accepted(header) => collected.collect_accepted(header),
        State::Running(operation) => collected.collect_running(operation),
    }
    Outstanding { commands: collected.commands, wake_at: collected.wake_at }
}

/// Returns the time when the evidence about a dependency starts to count, while the wave is being applied.
pub(super) fn next_transition(state: &State) -> Option<Timestamp> {
    let State::Running(operation) = state else { return None };
    let Stage::Wave { step: WaveStep::Applying, index } = operation.stage else { return None };
    let has_ended = operation.wave_expired.is_some()
        || operation.failure.is_some() && !operation.is_sync_fail_wave(index);
    let (settles_at, _) = operation.cursor.settling.first()?;
    (!has_ended && operation.header.paused.is_none()).then_some(*settles_at)
}

pub(super) fn outstanding_for(state: &State, subject: &Subject, now: Timestamp) -> Vec<Command> {
    let mut commands = match (state, subject) {
        (State::Running(operation), Subject::Task(id) | Subject::Runner(id, _))
            if has_independent_tasks(operation) =>
        {
            let mut collected = CommandCollector {
                commands: Vec::new(),
                wake_at: None,
                now,
                next_probe_at: None,
                has_probe: false,
            };
            collected.collect_independent_task(operation, *id);
            collected.commands
        }
        _ => outstanding(state, now).commands,
    };
    commands.retain(|command| command.subject() == *subject);
    commands
}

/// Commands collected in one pass over the tasks, and the time of the next wake-up.
struct CommandCollector {
    commands: Vec<Command>,
    wake_at: Option<Timestamp>,
    now: Timestamp,
    /// Time of the next probe during an outage. `None` if the cluster responds.
    next_probe_at: Option<Timestamp>,
    /// True if a collected call probes the unreachable cluster. All other calls wait for its result.
    has_probe: bool,
}

impl CommandCollector {
    fn request_wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = self.wake_at.into_iter().chain(at).min();
    }

    /// Returns true if a call may be made now. Otherwise, requests a wake-up for the time of the next call.
    fn can_call(&mut self, calls: Option<&CallFailures>) -> bool {
        match calls.and_then(|calls| calls.not_before) {
            Some(at) if at > self.now => {
                self.request_wake(Some(at));
                false
            }
            _ => true,
        }
    }

    /// Returns true if the cluster responds, or if the call can be the next probe. Requests a wake-up if the
    /// probe isn't due yet.
    fn can_reach_cluster(&mut self) -> bool {
        match self.next_probe_at {
            None => true,
            Some(at) if at > self.now => {
                self.request_wake(Some(at));
                false
            }
            Some(_) => !std::mem::replace(&mut self.has_probe, true),
        }
    }

    fn collect_accepted(&mut self, header: &Header) {
        if header.paused.is_some() {
            if header.last_claim().is_some() {
                self.collect_claim(header);
            }
            return;
        }
        self.request_wake(header.request.deadline.map(|deadline| header.deadline_from + deadline));
        let (may_call, may_begin) = (self.can_call(Some(&header.calls)), header.can_begin());
        if header.claim_request().is_some() && (may_begin || may_call && self.can_reach_cluster()) {
            self.commands.push(Command::Claim);
        }
        if may_begin && may_call && self.can_reach_cluster() {
            self.commands.push(Command::Plan);
        }
    }

    /// Adds the claim command. The operation holds its claim even during a cluster outage or a pause.
    fn collect_claim(&mut self, header: &Header) {
        self.commands.extend(header.claim_request().map(|_| Command::Claim));
    }

    fn collect_task(&mut self, operation: &Operation, task: TaskId, state: &TaskState, command: TaskCommand) {
        // A hook runner doesn't need the cluster.
        let is_run = matches!(command, TaskCommand::RunHook { .. });
        if self.can_call(state.calls.as_deref()) && (is_run || self.can_reach_cluster()) {
            self.commands.push(Command::Task { task, attempt: operation.attempt, command });
        }
    }

    fn collect_running(&mut self, operation: &Operation) {
        if operation.header.paused.is_some() {
            // The cluster may change during a pause, so running tasks are still observed.
            self.observe_running(operation);
            self.commands.retain(|command| matches!(command, Command::Observe { .. }));
            self.collect_claim(&operation.header);
            self.wake_at = None;
            return;
        }
        self.collect_claim(&operation.header);
        // The deadline doesn't apply to an operation that is already ending.
        self.request_wake(operation.deadline().filter(|_| !operation.is_ending()));
        match &operation.stage {
            Stage::Planned => {}
            Stage::DryRun => self.collect_checks(operation, operation.all_tasks(), false),
            Stage::Wave { index, step } => self.collect_wave(operation, *index, *step),
            Stage::AwaitingRetry { until } => self.request_wake(Some(*until)),
            Stage::Terminating => self.collect_hook_endings(operation, operation.all_tasks()),
            Stage::Finishing { phase, .. } => {
                self.collect_hook_endings(operation, operation.all_tasks());
                for (id, task, state) in operation.all_tasks() {
                    let uid = operation.hook_uid(task, state);
                    if let (true, Some(uid)) = (operation.should_delete_at_end(task, state, *phase), uid) {
                        self.collect_task(
                            operation,
                            id,
                            state,
                            TaskCommand::DeleteHook { uid: uid.to_owned() },
                        );
                    }
                }
            }
        }
    }

    fn collect_checks<'a>(
        &mut self,
        operation: &Operation,
        tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>,
        at_wave: bool,
    ) {
        for (id, task, state) in tasks {
            if needs_check(task, state, at_wave) {
                self.collect_task(operation, id, state, TaskCommand::Check);
            }
        }
    }

    /// Adds the commands for hooks that must be stopped, or have finished but still have their finalizer.
    fn collect_hook_endings<'a>(
        &mut self,
        operation: &Operation,
        tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>,
    ) {
        for (id, task, state) in tasks {
            if operation.needs_logs(task, state) {
                self.collect_task(operation, id, state, TaskCommand::ReadLogs);
            } else if matches!(state.progress, Progress::Stopping { .. }) {
                self.collect_task(operation, id, state, TaskCommand::StopHook);
            } else if let (true, Some(uid)) = (state.needs_release(), operation.hook_uid(task, state)) {
                self.collect_task(operation, id, state, TaskCommand::ReleaseHook { uid: uid.to_owned() });
            }
        }
    }

    fn collect_wave(&mut self, operation: &Operation, index: u32, step: WaveStep) {
        self.request_wake(operation.wave_deadline().filter(|_| operation.wave_expired.is_none()));
        self.collect_hook_endings(operation, operation.wave_hooks(index));
        if operation.wave_expired.is_some()
            || operation.failure.is_some() && !operation.is_sync_fail_wave(index)
        {
            return;
        }
        match step {
            WaveStep::Held => self.collect_gates(operation, index),
            WaveStep::DryRun => self.collect_checks(operation, operation.wave_tasks(index), true),
            WaveStep::Pruning => {
                for (id, task, state) in operation.wave_tasks(index) {
                    self.collect_prune(operation, id, task, state);
                }
            }
            WaveStep::AwaitingGone => {
                self.observe_tasks(operation.wave_tasks(index).filter(|(_, _, state)| is_deleting(state)))
            }
            WaveStep::Clearing => self.collect_clearing(operation, index),
            WaveStep::Applying => self.collect_apply(operation, index),
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                self.observe_running(operation);
                if let WaveStep::Settling { until } = step {
                    self.request_wake(Some(until));
                }
            }
            WaveStep::Verifying => self.commands.push(Command::ReadNamespaces),
            WaveStep::Passed => {}
        }
        self.request_wake(operation.cursor_for_wave(index).deadlines.first().map(|(deadline, _)| *deadline));
        if !operation.namespaces.is_empty() && !operation.is_sync_fail_wave(index) {
            self.commands.push(Command::WatchNamespaces);
        }
    }

    fn collect_gates(&mut self, operation: &Operation, index: u32) {
        // Query open gates as well, because they can close again before the last gate opens.
        let ask = |gate: &String| Command::AskGate { wave: index, gate: gate.clone() };
        let asked =
            operation.external_gates(index).filter(|gate| operation.should_query_gate(index, gate, self.now));
        self.commands.extend(asked.map(ask));
        self.request_wake(operation.soak_end(index).filter(|until| *until > self.now));
    }

    fn collect_prune(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        if task.action != Action::Prune {
            return;
        }
        let is_due = operation.cursor.released_prunes.contains(&id);
        if let (true, Some(live)) = (is_due, &task.live) {
            self.collect_task(operation, id, state, TaskCommand::Prune { uid: live.uid.clone() });
        } else if is_deleting(state) && operation.graph.has_dependents(id) {
            self.commands.push(Command::Observe { task: id });
        }
    }

    fn collect_clearing(&mut self, operation: &Operation, index: u32) {
        for (id, _, state) in operation.clearing_tasks(index) {
            self.collect_place_clearing(operation, id, state);
        }
    }

    fn collect_place_clearing(&mut self, operation: &Operation, id: TaskId, state: &TaskState) {
        if is_deleting(state) || state.occupant.is_some() {
            self.commands.push(Command::Observe { task: id });
        } else {
            self.collect_task(operation, id, state, TaskCommand::ClearHook);
        }
    }

    fn collect_apply(&mut self, operation: &Operation, index: u32) {
        let cursor = operation.cursor_for_wave(index);
        for (id, task, state) in operation.current_apply_group(index).chain(operation.released_tasks(index)) {
            let is_awaited = cursor.awaited_dependencies.contains(&id);
            if !is_awaited && !task.is_hook() && needs_establishment(task, state) {
                self.commands.push(Command::Observe { task: id });
            } else {
                self.collect_write(operation, id, task, state);
            }
        }
        for (id, task, state) in operation.wave_hooks(index).filter(|(_, _, state)| is_running(state)) {
            self.run_or_observe(operation, id, task, state);
        }
        let is_resource = |(_, task, _): &(TaskId, &Task, &TaskState)| !task.is_hook();
        for (id, task, state) in operation.awaited_dependencies(index).filter(is_resource) {
            self.run_or_observe(operation, id, task, state);
        }
    }

    /// Adds the commands that write a manifest.
    fn collect_write(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        if is_clearing(task, state) {
            // The hook has dependencies, or its name was free but has been taken since.
            self.collect_place_clearing(operation, id, state);
            return;
        }
        if has_runner(task) {
            return;
        }
        match &state.progress {
            Progress::Waiting | Progress::Ready => {
                self.collect_task(operation, id, state, TaskCommand::Apply)
            }
            Progress::Suspended { uid } => {
                self.collect_task(operation, id, state, TaskCommand::StartHook { uid: uid.clone() });
            }
            Progress::Deleting { .. } => self.commands.push(Command::Observe { task: id }),
            Progress::Running | Progress::Stopping { .. } | Progress::Done => {}
        }
    }

    fn observe_running(&mut self, operation: &Operation) {
        let Some((index, _)) = operation.current_wave() else { return };
        for (id, task, state) in operation.wave_tasks(index) {
            self.observe_task(operation, id, task, state);
        }
    }

    fn observe_task(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        if is_deleting(state) {
            self.commands.push(Command::Observe { task: id });
        } else if is_running(state) && operation.is_judged_by_health(id, task) {
            self.run_or_observe(operation, id, task, state);
        }
    }

    /// Adds the commands for one task that is independent of the other tasks in its wave.
    fn collect_independent_task(&mut self, operation: &Operation, id: TaskId) {
        let Some((task, state)) = operation.task(id) else { return };
        if task.is_hook() {
            self.collect_hook_endings(operation, std::iter::once((id, task, state)));
        }
        match operation.stage {
            Stage::Wave { step: WaveStep::Pruning, .. } => self.collect_prune(operation, id, task, state),
            Stage::Wave { step: WaveStep::AwaitingGone, .. } if !is_deleting(state) => {}
            Stage::Wave { step: WaveStep::Applying, .. } => {
                if operation.cursor.released.contains(&id) {
                    self.collect_write(operation, id, task, state);
                } else if is_running(state)
                    && (task.is_hook() || operation.cursor.awaited_dependencies.contains(&id))
                {
                    self.run_or_observe(operation, id, task, state);
                }
            }
            _ => self.observe_task(operation, id, task, state),
        }
    }

    fn run_or_observe(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        match task.hook.as_ref().and_then(|hook| hook.runner.clone()) {
            Some(runner) => self.collect_task(operation, id, state, TaskCommand::RunHook { runner }),
            None => self.commands.push(Command::Observe { task: id }),
        }
    }

    fn observe_tasks<'a>(&mut self, tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>) {
        self.commands.extend(tasks.map(|(task, _, _)| Command::Observe { task }));
    }
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

fn is_running(state: &TaskState) -> bool {
    state.progress == Progress::Running
}
