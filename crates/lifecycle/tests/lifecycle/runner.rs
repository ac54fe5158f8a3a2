//! Tests of the runner: commands in flight, subscriptions, wake-ups, replies, and the end.

use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{
    Answer, CallError, Command, Driver, DryRunResponse, Input, Subject, SyncOperation,
};
use tidegate_lifecycle::{
    ALARM_INTERVAL_MIN, Arrival, Inbox, LAZY_EVENT_WAIT_MAX, Outbox, Runner, RunnerStatus,
    STATUS_EVENT_WAIT_MAX,
};
use tidegate_model::{HealthStatus, Observation, ObservedState, OperationPhase, TaskId};

use crate::build::*;

type SyncRunner = Runner<SyncOperation, Outbox<SyncOperation>>;
type SyncArrival = Arrival<SyncOperation, std::convert::Infallible>;

fn run_step(runner: &mut SyncRunner, millis: i64) -> RunnerStatus {
    runner.step(at(millis)).unwrap()
}

/// Processes an arrival, and runs steps until nothing is left to write.
fn deliver(runner: &mut SyncRunner, millis: i64, arrival: SyncArrival) -> RunnerStatus {
    runner.process(arrival, at(millis)).unwrap();
    run_steps(runner, millis)
}

fn run_steps(runner: &mut SyncRunner, millis: i64) -> RunnerStatus {
    let mut last = run_step(runner, millis);
    while runner.effects_mut().batch.take().is_some() {
        runner.process(Arrival::Persisted, at(millis)).unwrap();
        last = run_step(runner, millis);
    }
    last
}

fn take_commands(runner: &mut SyncRunner) -> Vec<Command> {
    std::mem::take(&mut runner.effects_mut().commands)
}

fn started_runner() -> SyncRunner {
    let mut runner = Runner::new(Outbox::default());
    let request =
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    deliver(&mut runner, 0, Arrival::Input(request));
    runner
}

fn answer_arrival(input: Input) -> SyncArrival {
    let subject = match &input {
        Input::Planned { .. } | Input::PlanFailed(_) => Subject::Plan,
        Input::Answer { task, .. } => Subject::Task(*task),
        other => panic!("{other:?} is not an answer"),
    };
    Arrival::Answer { subject, input }
}

/// Returns a runner that is waiting for the Deployments of its first wave. Another wave follows.
fn awaiting_runner(width: u32) -> SyncRunner {
    let mut runner = started_runner();
    let first = (0..width).map(|n| resource(0, &format!("Deployment/d{n}")));
    let plan = plan(first.chain([resource(1, "Deployment/last")]));
    deliver(
        &mut runner,
        0,
        answer_arrival(Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() }),
    );
    for round in
        [Answer::Checked(Ok(DryRunResponse::default())), Answer::Applied(Ok(Box::new(applied_object())))]
    {
        for command in take_commands(&mut runner) {
            if let Command::Task { task, attempt, .. } = command {
                let input = Input::Answer { task, attempt, answer: round.clone() };
                runner.process(answer_arrival(input), at(0)).unwrap();
            }
        }
        run_steps(&mut runner, 0);
    }
    runner
}

fn applied_object() -> tidegate_lifecycle::operation::ApplyResponse {
    tidegate_lifecycle::operation::ApplyResponse {
        uid: "uid".into(),
        resource_version: "10".into(),
        generation: 1,
        message: String::new(),
        observed: observed_state("10", HealthStatus::Progressing),
        warnings: Vec::new(),
    }
}

fn observation_arrival(task: u32, version: &str, status: HealthStatus) -> SyncArrival {
    let observation = Observation { at: at(1), seen: observed_state(version, status) };
    Arrival::Input(Input::Observed { task: TaskId(task), observation })
}

#[test]
fn a_command_is_started_once_until_it_is_answered() {
    let mut runner = started_runner();
    assert_eq!(take_commands(&mut runner), [Command::Plan]);
    run_steps(&mut runner, 10);
    assert!(take_commands(&mut runner).is_empty(), "the command is still in flight");
    deliver(&mut runner, 10, answer_arrival(Input::PlanFailed(CallError::transient("busy"))));
    assert!(take_commands(&mut runner).is_empty(), "a failed command must wait before its retry");
    deliver(&mut runner, 210, Arrival::Alarm);
    assert_eq!(take_commands(&mut runner), [Command::Plan]);
}

#[test]
fn one_alarm_covers_wake_ups_and_delayed_writes() {
    let mut runner = started_runner();
    let alarm = |runner: &mut SyncRunner| runner.effects_mut().alarm.take();
    alarm(&mut runner);
    runner.process(answer_arrival(Input::PlanFailed(CallError::transient("busy"))), at(0)).unwrap();
    run_step(&mut runner, 0);
    assert_eq!(alarm(&mut runner), Some(Some(STATUS_EVENT_WAIT_MAX)), "the first alarm is for the write");
    assert!(
        STATUS_EVENT_WAIT_MAX < Duration::from_millis(200) && STATUS_EVENT_WAIT_MAX < LAZY_EVENT_WAIT_MAX
    );
    runner.process(Arrival::Alarm, at(100)).unwrap();
    run_step(&mut runner, 100);
    assert!(runner.effects_mut().batch.take().is_some());
    assert_eq!(
        alarm(&mut runner),
        Some(Some(Duration::from_millis(100))),
        "the second alarm is for the retry"
    );
    // The clock was set back, so the alarm fires too early. It must not immediately fire again for the same
    // deadline.
    runner.process(Arrival::Alarm, at(199)).unwrap();
    run_step(&mut runner, 199);
    assert_eq!(alarm(&mut runner), Some(Some(ALARM_INTERVAL_MIN)));
}

#[test]
fn subscriptions_end_when_not_outstanding_and_restart_after_failures() {
    let mut runner = awaiting_runner(3);
    let watch = |task| Command::Observe { task: TaskId(task) };
    let namespaces = Command::WatchNamespaces;
    assert_eq!(runner.effects_mut().started_subscriptions, [namespaces, watch(0), watch(1), watch(2)]);
    runner.effects_mut().started_subscriptions.clear();
    deliver(&mut runner, 10, observation_arrival(1, "11", HealthStatus::Healthy));
    assert_eq!(runner.effects_mut().ended_subscriptions, [watch(1)]);
    deliver(&mut runner, 20, Arrival::SubscriptionEnded(Subject::Task(TaskId(2))));
    assert_eq!(runner.effects_mut().started_subscriptions, [watch(2)]);
    runner.effects_mut().started_subscriptions.clear();
    deliver(&mut runner, 20, Arrival::SubscriptionEnded(Subject::Task(TaskId(1))));
    assert!(
        runner.effects_mut().started_subscriptions.is_empty(),
        "a subscription that is not outstanding must not restart"
    );
    assert!(runner.has_subscription(&watch(0)) && !runner.has_subscription(&watch(1)));
}

#[test]
fn a_request_is_answered_when_it_is_durable() {
    let mut runner = started_runner();
    let by = || "ann".to_owned();
    runner.process_request(&Input::Unpause { by: by() }, (), at(1)).unwrap();
    let refused = runner.effects_mut().answers.pop().unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "the operation is not paused, so there is nothing to unpause");
    runner.process_request(&Input::Pause { by: by(), reason: String::new() }, (), at(1)).unwrap();
    run_step(&mut runner, 1);
    assert!(runner.effects_mut().batch.is_some() && runner.effects_mut().answers.is_empty());
    run_steps(&mut runner, 1);
    assert!(matches!(runner.effects_mut().answers.as_slice(), [Ok(())]));
}

#[test]
fn a_stopping_runner_waits_for_commands_in_flight() {
    let mut runner = started_runner();
    runner.stop();
    assert_eq!(run_steps(&mut runner, 1), RunnerStatus::Running);
    let planned = Input::Planned {
        plan: Arc::new(plan([resource(0, "Deployment/d")])),
        bundle: DIGEST,
        namespaces: Vec::new(),
    };
    assert_eq!(deliver(&mut runner, 2, answer_arrival(planned)), RunnerStatus::Stopped);
    assert_eq!(take_commands(&mut runner), [Command::Plan], "a stopping runner must not start commands");
    let again = Driver::recover(None, []).unwrap();
    assert_eq!(run_steps(&mut SyncRunner::from_driver(again, Outbox::default()), 3), RunnerStatus::Running);
}

/// The recovered runner writes the summary again, because a repair of the log may have lost it.
#[test]
fn the_summary_of_a_recovered_finished_operation_is_restated() {
    let mut runner = started_runner();
    assert_eq!(
        deliver(&mut runner, 1, Arrival::Input(Input::Abort { reason: "no".into() })),
        RunnerStatus::Finished
    );
    let driver = Driver::recover(Some((2, runner.state().clone())), []).unwrap();
    let mut recovered = SyncRunner::from_driver(driver, Outbox::default());
    assert_eq!(run_step(&mut recovered, 2), RunnerStatus::Running);
    let batch = recovered.effects_mut().batch.take().unwrap();
    assert_eq!((batch.first_sequence, batch.events.len()), (3, 0));
    assert_eq!(deliver(&mut recovered, 2, Arrival::Persisted), RunnerStatus::Finished);
    let outcome = recovered.state().operation().unwrap().outcome.as_ref().unwrap();
    assert_eq!(outcome.phase, OperationPhase::Error);
}

/// Returns the versions of the observations in an inbox, in order.
fn observed_versions(inbox: &mut Inbox<SyncOperation, std::convert::Infallible>) -> Vec<String> {
    let version = |arrival| match arrival {
        Arrival::Input(Input::Observed { task, observation }) => match observation.seen {
            ObservedState::Present { resource_version, .. } => format!("{task} {resource_version}"),
            ObservedState::Gone { .. } => format!("{task} gone"),
        },
        Arrival::Answer { .. } => "answer".into(),
        _ => "other".into(),
    };
    inbox.take_all().into_iter().map(version).collect()
}

#[test]
fn an_inbox_keeps_the_newest_observation_of_each_object() {
    let mut inbox = Inbox::default();
    inbox.push(observation_arrival(1, "5", HealthStatus::Progressing));
    inbox.push(observation_arrival(2, "6", HealthStatus::Progressing));
    inbox.push(answer_arrival(Input::PlanFailed(CallError::transient("busy"))));
    inbox.push(observation_arrival(1, "7", HealthStatus::Healthy));
    // An older observation arrives later, because its read took longer.
    inbox.push(observation_arrival(1, "6", HealthStatus::Progressing));
    assert_eq!(inbox.len(), 3);
    assert_eq!(observed_versions(&mut inbox), ["task 2 6", "answer", "task 1 7"]);
    assert!(inbox.is_empty());
    for version in 0..10_000 {
        inbox.push(observation_arrival(version % 3, &version.to_string(), HealthStatus::Progressing));
        assert!(inbox.len() <= 3);
    }
    assert_eq!(observed_versions(&mut inbox), ["task 1 9997", "task 2 9998", "task 0 9999"]);
}
