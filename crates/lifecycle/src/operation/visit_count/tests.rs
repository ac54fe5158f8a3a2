//! Tests that the amount of work depends on the number of changes, not on the size of the wave, by counting
//! task visits rather than measuring time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::sync::Arc;

use tidegate_model::{Evidence, HealthStatus, Observation, ObservedState, TaskDependency, TaskId};

use self::build::{DIGEST, at, hook_task, id, observed_state, plan, prune_task, request, resource};
use super::count_visits;
use crate::operation::{
    Answer, ApplyResponse, ClearingResult, Command, DryRunResponse, Input, PruneResult, Stage, Subject,
    SyncOperation, TaskCommand, WaveStep,
};
use crate::{Arrival, Outbox, Runner};

#[allow(dead_code, reason = "shared with the tests from outside")]
#[path = "../../../tests/lifecycle/build.rs"]
mod build;

type SyncRunner = Runner<SyncOperation, Outbox<SyncOperation>>;

fn process(runner: &mut SyncRunner, millis: i64, arrival: Arrival<SyncOperation, std::convert::Infallible>) {
    runner.process(arrival, at(millis)).unwrap();
    settle(runner, millis);
}

fn settle(runner: &mut SyncRunner, millis: i64) {
    loop {
        runner.step(at(millis)).unwrap();
        if runner.effects_mut().batch.take().is_none() {
            return;
        }
        runner.process(Arrival::Persisted, at(millis)).unwrap();
    }
}

fn answer_for(command: &TaskCommand) -> Answer {
    match command {
        TaskCommand::Check => Answer::Checked(Ok(DryRunResponse::default())),
        TaskCommand::ClearHook => Answer::Cleared(Ok(ClearingResult::Clear)),
        TaskCommand::Apply => Answer::Applied(Ok(Box::new(ApplyResponse {
            uid: "uid".into(),
            resource_version: "10".into(),
            generation: 1,
            message: String::new(),
            observed: observed_state("10", HealthStatus::Progressing),
            warnings: Vec::new(),
        }))),
        TaskCommand::ReleaseHook { .. } => Answer::Released(Ok(())),
        TaskCommand::Prune { .. } => Answer::Pruned(Ok(PruneResult::DeletionStarted)),
        other => panic!("{other:?} is not expected"),
    }
}

/// Completes commands in flight until none are left.
fn answer_all(runner: &mut SyncRunner, millis: i64) {
    loop {
        let commands = std::mem::take(&mut runner.effects_mut().commands);
        if commands.is_empty() {
            return;
        }
        for command in commands {
            if let Command::Task { task, attempt, command: task_command } = &command {
                let input =
                    Input::Answer { task: *task, attempt: *attempt, answer: answer_for(task_command) };
                runner.process(Arrival::Answer { subject: command.subject(), input }, at(millis)).unwrap();
            }
        }
        settle(runner, millis);
    }
}

/// Creates an operation with a wave of the given size that is waiting for health, followed by another wave.
/// With `of_hooks`, the wave consists of hooks.
fn runner_awaiting_health(width: u32, of_hooks: bool) -> SyncRunner {
    let mut runner = Runner::new(Outbox::default());
    let begin = Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    process(&mut runner, 0, Arrival::Input(begin));
    let wide = (0..width).map(|n| {
        let name = format!("{}/d{n}", if of_hooks { "Job" } else { "Deployment" });
        if of_hooks { hook_task(tidegate_model::Phase::Sync, 0, &name) } else { resource(0, &name) }
    });
    let plan = Arc::new(plan(wide.chain([resource(1, "Deployment/last")])));
    let planned = Input::Planned { plan, bundle: DIGEST, namespaces: Vec::new() };
    runner.effects_mut().commands.clear();
    process(&mut runner, 0, Arrival::Answer { subject: Subject::Plan, input: planned });
    answer_all(&mut runner, 0);
    let stage = &runner.state().operation().unwrap().stage;
    assert_eq!(*stage, Stage::Wave { index: 0, step: WaveStep::AwaitingHealth });
    runner
}

/// Returns the number of visits while all tasks except one become healthy one by one. Each task gets one
/// observation without a change and one with a change. Events are written from time to time.
fn visits_until_healthy(width: u32, of_hooks: bool) -> u64 {
    let mut runner = runner_awaiting_health(width, of_hooks);
    let arrival = |task: u32, version: u64, status| {
        let observation = Observation { at: at(1), seen: observed_state(&version.to_string(), status) };
        Arrival::Input(Input::Observed { task: TaskId(task), observation })
    };
    let all_but_one = width - 1;
    count_visits(|| {
        for task in 0..all_but_one {
            let now = i64::from(task);
            process(&mut runner, now, arrival(task, 11, HealthStatus::Progressing));
            process(&mut runner, now, arrival(task, 12, HealthStatus::Healthy));
            answer_all(&mut runner, now);
            assert!(!runner.has_subscription(&Command::Observe { task: TaskId(task) }));
        }
        // The log's summary uses this message.
        let kind = if of_hooks { "completion of hook batch/Job" } else { "healthy state of apps/Deployment" };
        assert_eq!(runner.state().message(), format!("waiting for {kind}/d{all_but_one}"));
    })
}

/// Returns the number of visits while dependencies become healthy one by one. Each of them releases the same
/// number of dependents, which are then applied.
fn visits_until_released(width: u32, dependents: u32) -> u64 {
    let mut runner = Runner::new(Outbox::default());
    let begin = Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    process(&mut runner, 0, Arrival::Input(begin));
    // The tasks of a group are numbered before those that depend on them.
    let tasks = (0..width * (1 + dependents)).map(|n| resource(0, &format!("Deployment/d{n}")));
    let mut plan = plan(tasks);
    plan.dependencies = (width..width * (1 + dependents))
        .map(|n| TaskDependency { dependent: TaskId(n), dependency: TaskId(n % width) })
        .collect();
    let planned = Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() };
    runner.effects_mut().commands.clear();
    process(&mut runner, 0, Arrival::Answer { subject: Subject::Plan, input: planned });
    answer_all(&mut runner, 0);
    let stage = Stage::Wave { index: 0, step: WaveStep::Applying };
    assert_eq!(runner.state().operation().unwrap().stage, stage);
    count_visits(|| {
        for task in 0..width - 1 {
            let now = i64::from(task);
            let observation = Observation { at: at(1), seen: observed_state("12", HealthStatus::Healthy) };
            let input = Input::Observed { task: TaskId(task), observation };
            process(&mut runner, now, Arrival::Input(input));
            assert_eq!(runner.effects_mut().commands.len(), usize::try_from(dependents).unwrap());
            answer_all(&mut runner, now);
            assert!(!runner.has_subscription(&Command::Observe { task: TaskId(task) }));
        }
        assert_eq!(runner.state().operation().unwrap().stage, stage);
    })
}

/// Returns the number of visits while weak evidence about dependencies arrives one by one, and then settles.
fn visits_until_settled(width: u32) -> u64 {
    let mut runner = Runner::new(Outbox::default());
    let begin = Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    process(&mut runner, 0, Arrival::Input(begin));
    let mut plan = plan((0..2 * width).map(|n| resource(0, &format!("Deployment/d{n}"))));
    plan.dependencies =
        (0..width).map(|n| TaskDependency { dependent: TaskId(width + n), dependency: TaskId(n) }).collect();
    let planned = Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() };
    runner.effects_mut().commands.clear();
    process(&mut runner, 0, Arrival::Answer { subject: Subject::Plan, input: planned });
    answer_all(&mut runner, 0);
    count_visits(|| {
        for task in 0..width {
            let mut seen = observed_state("12", HealthStatus::Healthy);
            if let ObservedState::Present { evidence, .. } = &mut seen {
                *evidence = Evidence::None;
            }
            let observation = Observation { at: at(1), seen };
            process(&mut runner, 1, Arrival::Input(Input::Observed { task: TaskId(task), observation }));
        }
        assert_eq!(runner.effects_mut().commands.len(), 0);
        settle(&mut runner, 2000);
        let released = runner.effects_mut().commands.len();
        assert_eq!(released, usize::try_from(width).unwrap());
    })
}

/// Returns the number of visits while objects are pruned one after the other.
fn visits_until_pruned(width: u32) -> u64 {
    let mut runner = Runner::new(Outbox::default());
    let begin = Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    process(&mut runner, 0, Arrival::Input(begin));
    let mut plan = plan((0..width).map(|n| prune_task(0, &format!("ConfigMap/c{n}"))));
    plan.dependencies =
        (1..width).map(|n| TaskDependency { dependent: TaskId(n), dependency: TaskId(n - 1) }).collect();
    let planned = Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() };
    runner.effects_mut().commands.clear();
    process(&mut runner, 0, Arrival::Answer { subject: Subject::Plan, input: planned });
    count_visits(|| {
        answer_all(&mut runner, 0);
        for task in 0..width - 1 {
            let seen = ObservedState::Gone { uid: None };
            let observation = Observation { at: at(1), seen };
            process(&mut runner, 1, Arrival::Input(Input::Observed { task: TaskId(task), observation }));
            answer_all(&mut runner, 1);
        }
    })
}

#[test]
fn weak_evidence_about_dependencies_costs_linear_work() {
    let (narrow, wide) = (visits_until_settled(100), visits_until_settled(400));
    assert!(wide <= 4 * narrow + 400, "{narrow} visits for 100, {wide} for 400");
}

#[test]
fn ordered_prunes_cost_linear_work() {
    let (narrow, wide) = (visits_until_pruned(100), visits_until_pruned(400));
    assert!(wide <= 4 * narrow + 400, "{narrow} visits for 100, {wide} for 400");
}

#[test]
fn a_healthy_dependency_costs_work_for_its_dependents_only() {
    let (narrow, wide) = (visits_until_released(100, 2), visits_until_released(400, 2));
    assert!(wide <= 4 * narrow + 400, "{narrow} visits for 100, {wide} for 400");
    assert!(wide <= 400 * 150, "{wide} visits for 400");
    let more = visits_until_released(100, 8);
    assert!(more <= 6 * narrow, "{narrow} visits with 2 dependents each, {more} with 8");
}

#[test]
fn tasks_that_become_healthy_one_by_one_cost_linear_work() {
    for of_hooks in [false, true] {
        let (narrow, wide) = (visits_until_healthy(250, of_hooks), visits_until_healthy(1000, of_hooks));
        assert!(wide <= 4 * narrow + 400, "{narrow} visits for 250, {wide} for 1,000 (hooks: {of_hooks})");
        assert!(wide <= 1000 * 40, "{wide} visits for 1,000 (hooks: {of_hooks})");
    }
}
