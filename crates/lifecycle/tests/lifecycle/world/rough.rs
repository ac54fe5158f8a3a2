//! Bad weather, and what must hold in any.

use std::collections::BTreeSet;

use tidegate_lifecycle::operation::{
    Command, Cursor, Driver, Fact, Input, Operation, Progress, Scope, Stage, State, SyncOperation,
    TaskCommand, TaskName, WaveChoice, WaveName, WaveStep, evolve, pending,
};
use tidegate_lifecycle::{BatchOf, Outbox, Shell, Turn};
use tidegate_model::{Action, Observed, Override, Phase, Task, TaskId};

use super::{Event, World, label};
use crate::build::at;

impl World {
    pub(super) fn delay(&mut self) -> i64 {
        match self.weather.slow {
            0 => 0,
            slow => i64::try_from(self.weather.dice.below(slow + 1)).unwrap(),
        }
    }

    /// An older sight of the object, if there is one.
    pub(super) fn blur(&mut self, task: TaskId, sight: Observed) -> Observed {
        let history = self.cluster.history.entry(task).or_default().clone();
        let choice = self.weather.dice.below(history.len() as u64 + 1);
        usize::try_from(choice).ok().and_then(|choice| history.get(choice).cloned()).unwrap_or(sight)
    }

    /// What people and power cuts do.
    pub(super) fn misfortune(&mut self) {
        if !self.durable.is_empty() && self.weather.dice.percent(self.weather.crashes) {
            self.crash();
        }
        if self.weather.dice.percent(self.weather.meddling) {
            let by = "bob".to_owned();
            let input = match self.weather.dice.below(8) {
                4.. => self.decision(by),
                0 => Input::Pause { by: by.clone(), reason: "lunch".into() },
                1 => Input::ConfirmPrune { by },
                2 if self.weather.may_terminate => Input::Terminate { by },
                _ => Input::Unpause { by },
            };
            self.schedule(self.now, Event::Input(input.clone()));
            if matches!(input, Input::Pause { .. }) {
                self.schedule(self.now + 3000, Event::Input(Input::Unpause { by: "bob".into() }));
            }
        }
    }

    /// Somebody decides about a task or a wave.
    fn decision(&mut self, by: String) -> Input {
        let tasks = self.plan.tasks.len() as u64;
        let task = self.plan.task(TaskId(u32::try_from(self.weather.dice.below(tasks)).unwrap())).unwrap();
        let scope = match self.weather.dice.below(6) {
            0 => Scope::Wave(WaveChoice::Named(WaveName { phase: task.phase, wave: task.wave })),
            _ => Scope::Task(TaskName { phase: Some(task.phase), ..label(task).parse().unwrap() }),
        };
        let what = match self.weather.dice.below(5) {
            0 => Override::MarkDone,
            1 | 2 => Override::Skip,
            _ => Override::Retry,
        };
        Input::Override { what, scope, by, reason: "tired of waiting".into() }
    }

    /// The engine dies: what is not durable never happened, calls on their way reach the cluster or do not, and their
    /// answers are lost.
    pub(super) fn crash(&mut self) {
        for ((time, _), event) in std::mem::take(&mut self.queue) {
            match event {
                Event::Reached(command) if self.weather.dice.percent(50) => drop(self.answer(&command)),
                // People and what they will do are still there.
                Event::Input(input) if !matches!(input, Input::Observed { .. } | Input::Gate { .. }) => {
                    self.schedule(time, Event::Input(input));
                }
                _ => {}
            }
        }
        self.say(format!("* crash at {}", self.now));
        self.alarms += 1;
        let driver = Driver::recover(None, self.durable.iter().cloned()).expect("the log can be read");
        let is_begun = driver.sequence() > 0;
        self.listener.crashed(driver.state(), &self.durable);
        self.shell = Shell::recovered(driver, Outbox::default());
        if is_begun {
            self.schedule(self.now, Event::Input(Input::Resumed));
        }
    }

    /// The engine dies now.
    pub fn crash_at_once(&mut self) {
        self.crash();
    }

    /// Commands wait for facts that matter.
    pub(super) fn check_batch(&mut self, batch: &BatchOf<SyncOperation>) {
        let state = self.shell.state();
        let is_hook = |id| {
            state.operation().and_then(|operation| operation.plan.task(id)).is_some_and(|task| task.is_hook())
        };
        if batch.facts.iter().any(|fact| fact.is_urgent(is_hook)) {
            let outbox = self.shell.hands();
            assert!(
                outbox.commands.is_empty() && outbox.begun.is_empty() && !self.driver().may_act(),
                "commands before their facts are durable"
            );
        }
        assert_eq!(batch.first_sequence, self.durable.len() as u64 + 1);
    }

    /// What must hold whenever the machine rests.
    pub(super) fn check(&self, turn: Turn) {
        if turn == Turn::GoesOn && self.driver().may_act() {
            self.check_dispatch();
        }
        let Some(operation) = self.shell.state().operation() else { return };
        let mut orders: Vec<u32> =
            operation.tasks.iter().map(|task| task.order).filter(|order| *order > 0).collect();
        orders.sort_unstable();
        let dense: Vec<u32> = (1..=operation.results).collect();
        assert_eq!(orders, dense, "order numbers have gaps");
    }

    /// What a look at everything finds to be owed is what is on its way and kept up.
    fn check_dispatch(&self) {
        let (standing, once): (Vec<_>, Vec<_>) =
            pending(self.shell.state(), at(self.now)).commands.into_iter().partition(Command::is_standing);
        let kept_up: BTreeSet<_> = self.shell.standing().cloned().collect();
        assert_eq!(kept_up, standing.into_iter().collect(), "in {}", self.shell.state().name());
        for command in once {
            assert!(self.shell.is_on_the_way(&command.subject()), "{command:?} is owed and not on its way");
        }
    }

    /// A command belongs to where the machine stands.
    pub(super) fn check_command(&self, command: &Command) {
        let Command::Task { task, attempt, what } = command else { return };
        let operation = self.shell.state().operation().expect("only a planned operation has tasks");
        assert_eq!(*attempt, operation.attempt);
        let planned = operation.plan.task(*task).unwrap();
        match &operation.stage {
            Stage::DryRun => assert_eq!(*what, TaskCommand::Check),
            Stage::Wave { index, step } => {
                let wave = operation.wave(*index).unwrap();
                assert!(wave.task_ids().any(|id| id == *task), "{command:?} in {}", operation.stage.name());
                if wave.phase == Phase::SyncFail {
                    assert!(operation.failure.is_some(), "a SyncFail wave without a failure");
                } else {
                    assert!(
                        earlier_waves_passed(operation, *index),
                        "{command:?} before earlier waves passed"
                    );
                }
                let fits = match what {
                    TaskCommand::Check => *step == WaveStep::DryRun,
                    TaskCommand::Prune { .. } => *step == WaveStep::Pruning,
                    TaskCommand::ClearHook => matches!(step, WaveStep::Clearing | WaveStep::Applying),
                    TaskCommand::Apply => {
                        *step == WaveStep::Applying && earlier_groups_applied(operation, *index, *task)
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

    /// Replaying the log gives the same state and the same commands, at every prefix.
    pub fn check_replay(&self) {
        let mut state = State::New;
        for fact in &self.durable {
            state = evolve(state, fact).expect("the log can be read");
            let bytes = bincode::serde::encode_to_vec(&state, bincode::config::standard()).unwrap();
            let (read, _): (State, usize) =
                bincode::serde::decode_from_slice(&bytes, bincode::config::standard()).unwrap();
            assert_eq!(pending(&read, at(self.now)), pending(&state, at(self.now)));
            assert_eq!(read, state, "a state changes on its way through bincode");
            check_cursor(&state);
        }
        assert_eq!(state, *self.shell.state());
        for fact in &self.durable {
            let text = serde_json::to_string(fact).unwrap();
            assert_eq!(serde_json::from_str::<Fact>(&text).unwrap(), *fact);
            let bytes = bincode::serde::encode_to_vec(fact, bincode::config::standard()).unwrap();
            let (read, _): (Fact, usize) =
                bincode::serde::decode_from_slice(&bytes, bincode::config::standard()).unwrap();
            assert_eq!(read, *fact);
        }
        let text = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
    }
}

/// The cursor that was moved fact by fact is the one a look at all tasks finds.
fn check_cursor(state: &State) {
    if let State::Running(operation) = state {
        assert_eq!(operation.cursor, Cursor::of(operation));
    }
}

fn earlier_groups_applied(operation: &Operation, index: u32, task: TaskId) -> bool {
    let kind = &operation.plan.task(task).unwrap().gvk.kind;
    operation
        .wave_tasks(index)
        .filter(|(id, earlier, _)| *id < task && earlier.action.writes() && earlier.gvk.kind != *kind)
        .all(|(_, _, state)| {
            matches!(state.progress, Progress::Running | Progress::Stopping { .. } | Progress::Done)
        })
}

fn earlier_waves_passed(operation: &Operation, index: u32) -> bool {
    (0..index).all(|earlier| {
        let is_due = |(id, task, _): (TaskId, &Task, _)| {
            task.action != Action::Unchanged && !operation.is_passed_over(id)
        };
        let is_active = operation.wave_tasks(earlier).any(is_due);
        !is_active || operation.times(earlier).passed_at.is_some()
    })
}

/// A failing test shows what happened.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in &self.transcript {
                println!("{line}");
            }
        }
    }
}
