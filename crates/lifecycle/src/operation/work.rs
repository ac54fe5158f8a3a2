//! How much is looked at: work follows what happened, not the width of the wave. Counted, not timed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::cell::Cell;
use std::sync::Arc;

use tidegate_model::{Evidence, Health, HealthStatus, Observation, Observed, TaskId};

use self::build::{DIGEST, at, hook, id, plan, request, resource};
use super::{
    Answer, Applied, Clearing, Command, Input, Stage, Subject, SyncOperation, TaskCommand, Trial, WaveStep,
};
use crate::{Arrival, Outbox, Shell};

#[allow(dead_code, reason = "shared with the tests from outside")]
#[path = "../../tests/lifecycle/build.rs"]
mod build;

thread_local! {
    static VISITED: Cell<u64> = const { Cell::new(0) };
}

/// A task was looked at.
pub(super) fn visited() {
    VISITED.set(VISITED.get() + 1);
}

/// How many tasks are looked at meanwhile.
fn visits(work: impl FnOnce()) -> u64 {
    let before = VISITED.get();
    work();
    VISITED.get() - before
}

type SyncShell = Shell<SyncOperation, Outbox<SyncOperation>>;

fn take(shell: &mut SyncShell, millis: i64, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
    shell.take(arrival, at(millis)).unwrap();
    settle(shell, millis);
}

fn settle(shell: &mut SyncShell, millis: i64) {
    loop {
        shell.turn(at(millis)).unwrap();
        if shell.hands_mut().batch.take().is_none() {
            return;
        }
        shell.take(Arrival::Persisted, at(millis)).unwrap();
    }
}

fn seen(version: u64, status: HealthStatus) -> Observed {
    Observed::Present {
        uid: "uid".into(),
        resource_version: version.to_string(),
        generation: 1,
        deleting: false,
        kept_by: String::new(),
        health: Some(Health::new(status, "")),
        unjudged: false,
        evidence: Evidence::ObservedGeneration(1),
    }
}

fn answer(command: &TaskCommand) -> Answer {
    match command {
        TaskCommand::Check => Answer::Checked(Ok(Trial::default())),
        TaskCommand::ClearHook => Answer::Cleared(Ok(Clearing::Clear)),
        TaskCommand::Apply => Answer::Applied(Ok(Box::new(Applied {
            uid: "uid".into(),
            resource_version: "10".into(),
            generation: 1,
            message: String::new(),
            observed: seen(10, HealthStatus::Progressing),
            warnings: Vec::new(),
        }))),
        TaskCommand::ReleaseHook { .. } => Answer::Released(Ok(())),
        other => panic!("{other:?} is not expected"),
    }
}

/// Answers what is on its way until nothing is.
fn answer_all(shell: &mut SyncShell, millis: i64) {
    loop {
        let commands = std::mem::take(&mut shell.hands_mut().commands);
        if commands.is_empty() {
            return;
        }
        for command in commands {
            if let Command::Task { task, attempt, what } = &command {
                let input = Input::Answer { task: *task, attempt: *attempt, answer: answer(what) };
                shell.take(Arrival::Answer { about: command.subject(), input }, at(millis)).unwrap();
            }
        }
        settle(shell, millis);
    }
}

/// A wave so wide that waits for health, with another one behind it; of hooks, if that is asked for.
fn waiting(width: u32, of_hooks: bool) -> SyncShell {
    let mut shell = Shell::new(Outbox::default());
    let begin = Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    take(&mut shell, 0, Arrival::Input(begin));
    let wide = (0..width).map(|n| {
        let name = format!("{}/d{n}", if of_hooks { "Job" } else { "Deployment" });
        if of_hooks { hook(tidegate_model::Phase::Sync, 0, &name) } else { resource(0, &name) }
    });
    let plan = Arc::new(plan(wide.chain([resource(1, "Deployment/last")])));
    let planned = Input::Planned { plan, bundle: DIGEST, namespaces: Vec::new() };
    shell.hands_mut().commands.clear();
    take(&mut shell, 0, Arrival::Answer { about: Subject::Plan, input: planned });
    answer_all(&mut shell, 0);
    let stage = &shell.state().operation().unwrap().stage;
    assert_eq!(*stage, Stage::Wave { index: 0, step: WaveStep::AwaitingHealth });
    shell
}

/// Visits while all of them become well one by one, each after a sight that is no news and one that is. The facts are
/// written now and then.
fn becoming_well(width: u32, of_hooks: bool) -> u64 {
    let mut shell = waiting(width, of_hooks);
    let sight = |task: u32, version, status| {
        let observation = Observation { at: at(1), seen: seen(version, status) };
        Arrival::Input(Input::Observed { task: TaskId(task), observation })
    };
    let all_but_one = width - 1;
    visits(|| {
        for task in 0..all_but_one {
            let now = i64::from(task);
            take(&mut shell, now, sight(task, 11, HealthStatus::Progressing));
            take(&mut shell, now, sight(task, 12, HealthStatus::Healthy));
            answer_all(&mut shell, now);
            assert!(!shell.keeps_up(&Command::Observe { task: TaskId(task) }));
        }
        // What the summary in the log says of it.
        let kind = if of_hooks { "completion of hook batch/Job" } else { "healthy state of apps/Deployment" };
        assert_eq!(shell.state().message(), format!("waiting for {kind}/d{all_but_one}"));
    })
}

#[test]
fn a_wave_that_becomes_well_one_by_one_costs_linear_work() {
    for of_hooks in [false, true] {
        let (narrow, wide) = (becoming_well(250, of_hooks), becoming_well(1000, of_hooks));
        assert!(wide <= 4 * narrow + 400, "{narrow} visits for 250, {wide} for 1,000 (hooks: {of_hooks})");
        assert!(wide <= 1000 * 40, "{wide} visits for 1,000 (hooks: {of_hooks})");
    }
}
