//! Disturbances, and invariants that must hold despite them.

use std::collections::BTreeSet;

use tidegate_lifecycle::operation::{
    Command, Cursor, Driver, Input, Operation, OperationEvent, Progress, Scope, Stage, State, SyncOperation,
    TaskCommand, TaskSelector, WaveName, WaveSelector, WaveStep, apply, outstanding,
};
use tidegate_lifecycle::{MachineBatch, Outbox, Runner, RunnerStatus};
use tidegate_model::{
    Action, ObservedState, OperationPhase, Override, Phase, Plan, ResultCode, Task, TaskId,
};

use super::{Rng, SimEvent, World, label_of};
use crate::build::at;

impl World {
    pub(super) fn random_delay(&mut self) -> i64 {
        match self.disturbances.max_delay {
            0 => 0,
            slow => i64::try_from(self.disturbances.rng.below(slow + 1)).unwrap(),
        }
    }

    /// Returns an older observation of the object, if there is one.
    pub(super) fn distort(&mut self, task: TaskId, observed: ObservedState) -> ObservedState {
        let history = self.cluster.history.entry(task).or_default().clone();
        let choice = self.disturbances.rng.below(history.len() as u64 + 1);
        usize::try_from(choice).ok().and_then(|choice| history.get(choice).cloned()).unwrap_or(observed)
    }

    /// Makes random user requests, and causes crashes.
    pub(super) fn disturb(&mut self) {
        if !self.durable.is_empty() && self.disturbances.rng.chance(self.disturbances.crash_chance) {
            self.crash();
        }
        if self.disturbances.rng.chance(self.disturbances.request_chance) {
            let by = "bob".to_owned();
            let input = match self.disturbances.rng.below(8) {
                4.. => self.random_override(by),
                0 => Input::Pause { by: by.clone(), reason: "lunch".into() },
                1 => Input::ConfirmPrune { by },
                2 if self.disturbances.can_terminate => Input::Terminate { by },
                _ => Input::Unpause { by },
            };
            self.schedule(self.now, SimEvent::Input(input.clone()));
            if matches!(input, Input::Pause { .. }) {
                self.schedule(self.now + 3000, SimEvent::Input(Input::Unpause { by: "bob".into() }));
            }
        }
    }

    /// Returns a user's override of a task or a wave.
    fn random_override(&mut self, by: String) -> Input {
        let tasks = self.plan.tasks.len() as u64;
        let task =
            self.plan.task(TaskId(u32::try_from(self.disturbances.rng.below(tasks)).unwrap())).unwrap();
        let scope = match self.disturbances.rng.below(6) {
            0 => Scope::Wave(WaveSelector::Named(WaveName { phase: task.phase, wave: task.wave })),
            _ => Scope::Task(TaskSelector { phase: Some(task.phase), ..label_of(task).parse().unwrap() }),
        };
        let what = match self.disturbances.rng.below(5) {
            0 => Override::MarkDone,
            1 | 2 => Override::Skip,
            _ => Override::Retry,
        };
        Input::Override { what, scope, by, reason: "tired of waiting".into() }
    }

    /// Crashes the engine. Events that aren't durable are lost. Calls in flight may or may not reach the
    /// cluster, and their answers are lost.
    pub(super) fn crash(&mut self) {
        for (time, event) in self.queue.take_events() {
            match event {
                SimEvent::CommandArrived(command) if self.disturbances.rng.chance(50) => {
                    drop(self.execute_command(&command))
                }
                // Users' scheduled requests survive the crash.
                SimEvent::Input(input) if !matches!(input, Input::Observed { .. } | Input::Gate { .. }) => {
                    self.schedule(time, SimEvent::Input(input));
                }
                _ => {}
            }
        }
        self.log_line(format!("* crash at {}", self.now));
        self.queue.set_alarm(self.now, None, SimEvent::Alarm);
        let driver = Driver::recover(None, self.durable.iter().cloned()).expect("the log can be read");
        let is_begun = driver.sequence() > 0;
        self.event_consumer.engine_crashed(driver.state(), &self.durable);
        self.runner = Runner::from_driver(driver, Outbox::default());
        if is_begun {
            self.schedule(self.now, SimEvent::Input(Input::Resumed));
        }
    }

    pub fn crash_now(&mut self) {
        self.crash();
    }

    /// Runs until the engine has crashed or the operation has finished. Other operations' hooks take the names
    /// of the hooks in the meantime.
    pub fn crash_with_rivals(&mut self, hooks: &[&str], seed: u64) {
        for hook in hooks {
            self.configure(hook, |fate| fate.rivals.push_back(300));
        }
        (self.disturbances.max_delay, self.disturbances.rng) = (200, Rng(seed));
        self.crash_before = Some(50 + u32::try_from(seed % 40).unwrap());
        while self.crash_before.is_some() && !self.runner.state().is_finished() {
            let now = self.now;
            self.run_until(now + 1);
            self.now = self.now.max(now + 1);
        }
    }

    /// Checks that commands wait for urgent events.
    pub(super) fn check_batch(&mut self, batch: &MachineBatch<SyncOperation>) {
        let state = self.runner.state();
        let is_hook = |id| {
            state.operation().and_then(|operation| operation.plan.task(id)).is_some_and(|task| task.is_hook())
        };
        let is_started = |event: &OperationEvent| match event {
            OperationEvent::Applied { task, .. } => {
                let is_suspension = |earlier: &OperationEvent| matches!(earlier, OperationEvent::HookSuspended { task: hook, .. } if hook == task);
                self.durable.iter().chain(&batch.events).any(is_suspension)
            }
            _ => false,
        };
        if batch.events.iter().any(|event| event.is_urgent(is_hook) && !is_started(event)) {
            let outbox = self.runner.effects();
            assert!(
                outbox.commands.is_empty()
                    && outbox.started_subscriptions.is_empty()
                    && !self.driver().can_execute(),
                "commands must wait until urgent events are durable"
            );
        }
        assert_eq!(batch.first_sequence, self.durable.len() as u64 + 1);
    }

    /// Checks the invariants between two steps.
    pub(super) fn check(&self, turn: RunnerStatus) {
        if turn == RunnerStatus::Running && self.driver().can_execute() {
            self.check_dispatch();
        }
        let Some(operation) = self.runner.state().operation() else { return };
        let mut orders: Vec<u32> =
            operation.tasks.iter().map(|task| task.order).filter(|order| *order > 0).collect();
        orders.sort_unstable();
        let dense: Vec<u32> = (1..=operation.results).collect();
        assert_eq!(orders, dense, "order numbers must not have gaps");
    }

    /// Checks that all commands that are outstanding in the current state are in flight, or active as
    /// subscriptions.
    fn check_dispatch(&self) {
        let (subscriptions, once): (Vec<_>, Vec<_>) = outstanding(self.runner.state(), at(self.now))
            .commands
            .into_iter()
            .partition(Command::is_subscription);
        let active: BTreeSet<_> = self.runner.subscriptions().cloned().collect();
        assert_eq!(active, subscriptions.into_iter().collect(), "in {}", self.runner.state().name());
        for command in once {
            assert!(
                self.runner.is_in_flight(&command.subject()),
                "{command:?} is outstanding, so it must be in flight"
            );
        }
    }

    /// Checks that a command is allowed in the stage of the machine.
    pub(super) fn check_command(&self, command: &Command) {
        let Command::Task { task, attempt, command: what } = command else { return };
        let operation = self.runner.state().operation().expect("only a planned operation may have tasks");
        assert_eq!(*attempt, operation.attempt);
        let planned = operation.plan.task(*task).unwrap();
        match &operation.stage {
            Stage::DryRun => assert_eq!(*what, TaskCommand::Check),
            Stage::Wave { index, step } => {
                let wave = operation.wave(*index).unwrap();
                assert!(wave.task_ids().any(|id| id == *task), "{command:?} in {}", operation.stage.name());
                if wave.phase == Phase::SyncFail {
                    assert!(operation.failure.is_some(), "a SyncFail wave must run only after a failure");
                } else {
                    assert!(
                        earlier_waves_passed(operation, *index),
                        "{command:?} before earlier waves passed"
                    );
                }
                let fits = match what {
                    TaskCommand::Check => *step == WaveStep::DryRun,
                    TaskCommand::Prune { .. } => {
                        *step == WaveStep::Pruning && are_dependencies_satisfied(operation, *task)
                    }
                    TaskCommand::ClearHook => {
                        matches!(step, WaveStep::Clearing | WaveStep::Applying)
                            && are_dependencies_satisfied(operation, *task)
                    }
                    TaskCommand::Apply | TaskCommand::StartHook { .. } => {
                        *step == WaveStep::Applying
                            && earlier_groups_applied(operation, *index, *task)
                            && are_dependencies_satisfied(operation, *task)
                    }
                    TaskCommand::RunHook { .. }
                    | TaskCommand::ReleaseHook { .. }
                    | TaskCommand::StopHook
                    | TaskCommand::ReadLogs => planned.is_hook(),
                    TaskCommand::DeleteHook { .. } => false,
                };
                assert!(fits, "{command:?} in {}", operation.stage.name());
            }
            Stage::Terminating => {
                let ends = TaskCommand::StopHook;
                let reads = TaskCommand::ReadLogs;
                assert!(*what == ends || *what == reads || matches!(what, TaskCommand::ReleaseHook { .. }));
            }
            Stage::Finishing { .. } => assert!(matches!(what, TaskCommand::DeleteHook { .. })),
            Stage::Planned | Stage::AwaitingRetry { .. } => {
                panic!("{command:?} in {}", operation.stage.name())
            }
        }
    }

    /// Checks, for every prefix of the log, that replaying it gives the same state and the same commands.
    pub fn check_replay(&self) {
        let mut state = State::New;
        for event in &self.durable {
            state = apply(state, event).expect("the log must be readable");
            let bytes = bincode::serde::encode_to_vec(&state, bincode::config::standard()).unwrap();
            let (read, _): (State, usize) =
                bincode::serde::decode_from_slice(&bytes, bincode::config::standard()).unwrap();
            assert_eq!(outstanding(&read, at(self.now)), outstanding(&state, at(self.now)));
            assert_eq!(read, state, "encoding and decoding must not change a state");
            check_cursor(&state);
        }
        assert_eq!(state, *self.runner.state());
        for event in &self.durable {
            let text = serde_json::to_string(event).unwrap();
            assert_eq!(serde_json::from_str::<OperationEvent>(&text).unwrap(), *event);
            let bytes = bincode::serde::encode_to_vec(event, bincode::config::standard()).unwrap();
            let (read, _): (OperationEvent, usize) =
                bincode::serde::decode_from_slice(&bytes, bincode::config::standard()).unwrap();
            assert_eq!(read, *event);
        }
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }
}

/// Checks that the cursor that events updated equals the cursor computed from all tasks.
fn check_cursor(state: &State) {
    if let State::Running(operation) = state {
        assert_eq!(operation.cursor, Cursor::from_operation(operation));
    }
}

/// Returns the executed tasks that a task depends on, directly or through unchanged objects.
pub fn executed_dependencies(plan: &Plan, task: TaskId) -> Vec<TaskId> {
    let mut all = Vec::new();
    for one in plan.dependencies.iter().filter(|one| one.dependent == task) {
        match plan.task(one.dependency).unwrap().action {
            Action::Unchanged => all.extend(executed_dependencies(plan, one.dependency)),
            Action::PruneSkipped => {}
            _ => all.push(one.dependency),
        }
    }
    all
}

/// Returns true if the dependencies of a task are satisfied. A skipped manifest is satisfied once its own
/// dependencies are. A kept object never satisfies those that it depends on.
fn are_dependencies_satisfied(operation: &Operation, task: TaskId) -> bool {
    executed_dependencies(&operation.plan, task).into_iter().all(|id| {
        let state = &operation.tasks[id.index()];
        let is_prune = operation.plan.task(id).unwrap().action == Action::Prune;
        let has_ended =
            state.progress == Progress::Done && state.phase == Some(OperationPhase::Succeeded) && !state.held;
        has_ended
            && match state.status {
                Some(ResultCode::PruneSkipped | ResultCode::Skipped) if is_prune => false,
                Some(ResultCode::Skipped | ResultCode::MarkedDone) => {
                    are_dependencies_satisfied(operation, id)
                }
                _ => true,
            }
    })
}

fn earlier_groups_applied(operation: &Operation, index: u32, task: TaskId) -> bool {
    let kind = &operation.plan.task(task).unwrap().gvk.kind;
    operation
        .wave_tasks(index)
        .filter(|(id, earlier, _)| {
            *id < task
                && earlier.action.writes_manifest()
                && earlier.gvk.kind != *kind
                && executed_dependencies(&operation.plan, *id).is_empty()
        })
        .all(|(_, _, state)| {
            matches!(state.progress, Progress::Running | Progress::Stopping { .. } | Progress::Done)
        })
}

fn earlier_waves_passed(operation: &Operation, index: u32) -> bool {
    (0..index).all(|earlier| {
        let is_due = |(id, task, _): (TaskId, &Task, _)| {
            task.action != Action::Unchanged && !operation.is_overridden_as_done(id)
        };
        let is_active = operation.wave_tasks(earlier).any(is_due);
        !is_active || operation.wave_times(earlier).passed_at.is_some()
    })
}

/// Prints the transcript if the test fails.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in &self.transcript {
                println!("{line}");
            }
        }
    }
}
