//! What the world still owes an operation: a function of state and time alone, so recovery needs no path of its own.

use tidegate_model::{Action, Task, TaskId, Timestamp};

use super::changes::are_local;
use super::command::{Command, Subject, TaskCommand};
use super::rules::{awaits_establishment, is_clearing, needs_check};
use super::state::{Calls, Header, Operation, Progress, Stage, State, TaskState, WaveStep};
use crate::machine::Owed;

/// The commands to carry out now.
pub fn pending(state: &State, now: Timestamp) -> Owed<Command> {
    let retry_at = state.header().and_then(|header| header.outage.as_ref()).map(|outage| outage.retry_at);
    let mut collected =
        Collected { commands: Vec::new(), wake_at: None, now, outage: retry_at, tries: false };
    match state {
        State::New | State::Finished(_) => {}
        State::Accepted(header) => collected.accepted(header),
        State::Running(operation) => collected.running(operation),
    }
    Owed { commands: collected.commands, wake_at: collected.wake_at }
}

/// Those about one subject.
pub(super) fn about(state: &State, subject: &Subject, now: Timestamp) -> Vec<Command> {
    let mut commands = match (state, subject) {
        (State::Running(operation), Subject::Task(id) | Subject::Runner(id, _)) if are_local(operation) => {
            let mut collected =
                Collected { commands: Vec::new(), wake_at: None, now, outage: None, tries: false };
            collected.waiting(operation, *id);
            collected.commands
        }
        _ => pending(state, now).commands,
    };
    commands.retain(|command| command.subject() == *subject);
    commands
}

/// What is owed, gathered in a walk over the tasks, and when more will be.
struct Collected {
    commands: Vec<Command>,
    wake_at: Option<Timestamp>,
    now: Timestamp,
    /// The cluster does not answer; when it is tried again.
    outage: Option<Timestamp>,
    /// One call is made to see whether it answers again. The others wait for its answer.
    tries: bool,
}

impl Collected {
    fn wake(&mut self, at: Option<Timestamp>) {
        self.wake_at = self.wake_at.into_iter().chain(at).min();
    }

    /// Whether a call may be made now; otherwise we wake when it may.
    fn may_call(&mut self, calls: Option<&Calls>) -> bool {
        match calls.and_then(|calls| calls.not_before) {
            Some(at) if at > self.now => {
                self.wake(Some(at));
                false
            }
            _ => true,
        }
    }

    /// Whether a call may be made as far as the cluster is concerned.
    fn reaches(&mut self) -> bool {
        match self.outage {
            None => true,
            Some(at) if at > self.now => {
                self.wake(Some(at));
                false
            }
            Some(_) => !std::mem::replace(&mut self.tries, true),
        }
    }

    fn accepted(&mut self, header: &Header) {
        if header.paused.is_some() {
            if header.had_claim().is_some() {
                self.claim(header);
            }
            return;
        }
        self.wake(header.request.deadline.map(|deadline| header.deadline_from + deadline));
        let (may_call, may_begin) = (self.may_call(Some(&header.calls)), header.may_begin());
        if header.claims().is_some() && (may_begin || may_call && self.reaches()) {
            self.commands.push(Command::Claim);
        }
        if may_begin && may_call && self.reaches() {
            self.commands.push(Command::Plan);
        }
    }

    /// What is held is held however the cluster answers, and while the operation is paused.
    fn claim(&mut self, header: &Header) {
        self.commands.extend(header.claims().map(|_| Command::Claim));
    }

    fn task(&mut self, operation: &Operation, task: TaskId, state: &TaskState, what: TaskCommand) {
        // A runner needs no cluster.
        let is_run = matches!(what, TaskCommand::RunHook { .. });
        if self.may_call(state.calls.as_deref()) && (is_run || self.reaches()) {
            self.commands.push(Command::Task { task, attempt: operation.attempt, what });
        }
    }

    fn running(&mut self, operation: &Operation) {
        if operation.header.paused.is_some() {
            // The world goes on while we do not: what is at work is still watched.
            self.observe_running(operation);
            self.commands.retain(|command| matches!(command, Command::Observe { .. }));
            self.claim(&operation.header);
            self.wake_at = None;
            return;
        }
        self.claim(&operation.header);
        // The deadline is of no interest once the operation is ending.
        self.wake(operation.deadline().filter(|_| !operation.is_ending()));
        match &operation.stage {
            Stage::Planned => {}
            Stage::DryRun => self.checks(operation, operation.all_tasks(), false),
            Stage::Wave { index, step } => self.wave(operation, *index, *step),
            Stage::AwaitingRetry { until } => self.wake(Some(*until)),
            Stage::Terminating => self.endings(operation, operation.all_tasks()),
            Stage::Finishing { phase, .. } => {
                self.endings(operation, operation.all_tasks());
                for (id, task, state) in operation.all_tasks() {
                    let uid = operation.hook_uid(task, state);
                    if let (true, Some(uid)) = (operation.deletes_at_end(task, state, *phase), uid) {
                        self.task(operation, id, state, TaskCommand::DeleteHook { uid: uid.to_owned() });
                    }
                }
            }
        }
    }

    fn checks<'a>(
        &mut self,
        operation: &Operation,
        tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>,
        at_wave: bool,
    ) {
        for (id, task, state) in tasks {
            if needs_check(task, state, at_wave) {
                self.task(operation, id, state, TaskCommand::Check);
            }
        }
    }

    /// Hooks that must be stopped, and hooks that have ended and still carry the finalizer.
    fn endings<'a>(
        &mut self,
        operation: &Operation,
        tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>,
    ) {
        for (id, task, state) in tasks {
            if operation.awaits_logs(task, state) {
                self.task(operation, id, state, TaskCommand::ReadLogs);
            } else if matches!(state.progress, Progress::Stopping { .. }) {
                self.task(operation, id, state, TaskCommand::StopHook);
            } else if let (true, Some(uid)) = (state.awaits_release(), operation.hook_uid(task, state)) {
                self.task(operation, id, state, TaskCommand::ReleaseHook { uid: uid.to_owned() });
            }
        }
    }

    fn wave(&mut self, operation: &Operation, index: u32, step: WaveStep) {
        self.wake(operation.wave_deadline().filter(|_| operation.wave_expired.is_none()));
        self.endings(operation, operation.wave_hooks(index));
        if operation.wave_expired.is_some() || operation.failure.is_some() && !operation.is_sync_fail(index) {
            return;
        }
        match step {
            WaveStep::Held => self.gates(operation, index),
            WaveStep::DryRun => self.checks(operation, operation.wave_tasks(index), true),
            WaveStep::Pruning => self.prunes(operation, index),
            WaveStep::AwaitingGone => {
                self.observe(operation.wave_tasks(index).filter(|(_, _, state)| is_deleting(state)))
            }
            WaveStep::Clearing => self.clear(operation, index),
            WaveStep::Applying => self.apply(operation, index),
            WaveStep::AwaitingHealth | WaveStep::Settling { .. } => {
                self.observe_running(operation);
                if let WaveStep::Settling { until } = step {
                    self.wake(Some(until));
                }
            }
            WaveStep::Verifying => self.commands.push(Command::LookAtNamespaces),
            WaveStep::Passed => {}
        }
        self.wake(operation.cursor_at(index).deadlines.first().map(|(deadline, _)| *deadline));
        if !operation.namespaces.is_empty() && !operation.is_sync_fail(index) {
            self.commands.push(Command::WatchNamespaces);
        }
    }

    fn gates(&mut self, operation: &Operation, index: u32) {
        // Those that are open too: they may close again before the last of the others opens.
        let ask = |gate: &String| Command::AskGate { wave: index, gate: gate.clone() };
        let asked = operation.asked_gates(index).filter(|gate| operation.is_asked_now(index, gate, self.now));
        self.commands.extend(asked.map(ask));
        self.wake(operation.soaks_until(index).filter(|until| *until > self.now));
    }

    fn prunes(&mut self, operation: &Operation, index: u32) {
        for (id, task, state) in operation.wave_tasks(index) {
            let waits = task.action == Action::Prune && state.progress == Progress::Waiting;
            if let (true, Some(live)) = (waits, &task.live) {
                self.task(operation, id, state, TaskCommand::Prune { uid: live.uid.clone() });
            }
        }
    }

    fn clear(&mut self, operation: &Operation, index: u32) {
        for (id, _, state) in operation.wave_tasks(index).filter(|(_, task, state)| is_clearing(task, state))
        {
            self.make_room(operation, id, state);
        }
    }

    fn make_room(&mut self, operation: &Operation, id: TaskId, state: &TaskState) {
        if is_deleting(state) || state.occupant.is_some() {
            self.commands.push(Command::Observe { task: id });
        } else {
            self.task(operation, id, state, TaskCommand::ClearHook);
        }
    }

    fn apply(&mut self, operation: &Operation, index: u32) {
        for (id, task, state) in operation.apply_group(index) {
            if is_clearing(task, state) {
                // It was about to be created, and its place was not clear any more.
                self.make_room(operation, id, state);
                continue;
            }
            let runner = task.hook.as_ref().and_then(|hook| hook.runner.clone());
            match (&state.progress, runner) {
                (Progress::Waiting | Progress::Ready, None) => {
                    self.task(operation, id, state, TaskCommand::Apply)
                }
                (Progress::Deleting { .. }, None) => self.commands.push(Command::Observe { task: id }),
                (_, None) if !task.is_hook() && awaits_establishment(task, state) => {
                    self.commands.push(Command::Observe { task: id });
                }
                _ => {}
            }
        }
        for (id, task, state) in operation.wave_hooks(index).filter(|(_, _, state)| is_running(state)) {
            self.run_or_observe(operation, id, task, state);
        }
    }

    fn observe_running(&mut self, operation: &Operation) {
        let Some((index, _)) = operation.current_wave() else { return };
        for (id, task, state) in operation.wave_tasks(index) {
            self.observe_one(operation, id, task, state);
        }
    }

    fn observe_one(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        if is_deleting(state) {
            self.commands.push(Command::Observe { task: id });
        } else if is_running(state) && operation.judges(task) {
            self.run_or_observe(operation, id, task, state);
        }
    }

    /// What is owed to one task of a wave that waits.
    fn waiting(&mut self, operation: &Operation, id: TaskId) {
        let Some((task, state)) = operation.task(id) else { return };
        if task.is_hook() {
            self.endings(operation, std::iter::once((id, task, state)));
        }
        self.observe_one(operation, id, task, state);
    }

    fn run_or_observe(&mut self, operation: &Operation, id: TaskId, task: &Task, state: &TaskState) {
        match task.hook.as_ref().and_then(|hook| hook.runner.clone()) {
            Some(runner) => self.task(operation, id, state, TaskCommand::RunHook { runner }),
            None => self.commands.push(Command::Observe { task: id }),
        }
    }

    fn observe<'a>(&mut self, tasks: impl Iterator<Item = (TaskId, &'a Task, &'a TaskState)>) {
        self.commands.extend(tasks.map(|(task, _, _)| Command::Observe { task }));
    }
}

fn is_deleting(state: &TaskState) -> bool {
    matches!(state.progress, Progress::Deleting { .. })
}

fn is_running(state: &TaskState) -> bool {
    state.progress == Progress::Running
}
