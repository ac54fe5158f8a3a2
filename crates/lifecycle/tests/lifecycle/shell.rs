//! The shell: what is on its way, what is kept up, when it wakes, who is answered, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{
    Answer, CallError, Command, Driver, Input, Subject, SyncOperation, Trial,
};
use tidegate_lifecycle::{Arrival, Inbox, LAZY_WAIT, Outbox, RING_AGAIN, Shell, TOLD_WAIT, Turn};
use tidegate_model::{Evidence, Health, HealthStatus, Observation, Observed, OperationPhase, TaskId};

use crate::build::*;

type SyncShell = Shell<SyncOperation, Outbox<SyncOperation>>;
type Post = Arrival<SyncOperation, std::convert::Infallible>;

fn turn(shell: &mut SyncShell, millis: i64) -> Turn {
    shell.turn(at(millis)).unwrap()
}

/// Takes something in, and takes turns until nothing is to be written.
fn take(shell: &mut SyncShell, millis: i64, arrival: Post) -> Turn {
    shell.take(arrival, at(millis)).unwrap();
    settle(shell, millis)
}

fn settle(shell: &mut SyncShell, millis: i64) -> Turn {
    let mut last = turn(shell, millis);
    while shell.hands_mut().batch.take().is_some() {
        shell.take(Arrival::Persisted, at(millis)).unwrap();
        last = turn(shell, millis);
    }
    last
}

fn commands(shell: &mut SyncShell) -> Vec<Command> {
    std::mem::take(&mut shell.hands_mut().commands)
}

fn begun() -> SyncShell {
    let mut shell = Shell::new(Outbox::default());
    let request =
        Input::Request { operation: id(), request: Box::new(request()), targets: DIGEST, plan: None };
    take(&mut shell, 0, Arrival::Input(request));
    shell
}

fn answer(input: Input) -> Post {
    let about = match &input {
        Input::Planned { .. } | Input::PlanFailed(_) => Subject::Plan,
        Input::Answer { task, .. } => Subject::Task(*task),
        other => panic!("{other:?} is no answer"),
    };
    Arrival::Answer { about, input }
}

/// A first wave of Deployments that are awaited, and another one behind it.
fn awaiting(width: u32) -> SyncShell {
    let mut shell = begun();
    let first = (0..width).map(|n| resource(0, &format!("Deployment/d{n}")));
    let plan = plan(first.chain([resource(1, "Deployment/last")]));
    take(
        &mut shell,
        0,
        answer(Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() }),
    );
    for round in [Answer::Checked(Ok(Trial::default())), Answer::Applied(Ok(Box::new(applied())))] {
        for command in commands(&mut shell) {
            if let Command::Task { task, attempt, .. } = command {
                let input = Input::Answer { task, attempt, answer: round.clone() };
                shell.take(answer(input), at(0)).unwrap();
            }
        }
        settle(&mut shell, 0);
    }
    shell
}

fn applied() -> tidegate_lifecycle::operation::Applied {
    tidegate_lifecycle::operation::Applied {
        uid: "uid".into(),
        resource_version: "10".into(),
        generation: 1,
        message: String::new(),
        observed: seen("10", HealthStatus::Progressing),
        warnings: Vec::new(),
    }
}

fn seen(version: &str, status: HealthStatus) -> Observed {
    Observed::Present {
        uid: "uid".into(),
        resource_version: version.into(),
        generation: 1,
        deleting: false,
        kept_by: String::new(),
        health: Some(Health::new(status, "")),
        unjudged: false,
        evidence: Evidence::ObservedGeneration(1),
    }
}

fn sight(task: u32, version: &str, status: HealthStatus) -> Post {
    let observation = Observation { at: at(1), seen: seen(version, status) };
    Arrival::Input(Input::Observed { task: TaskId(task), observation })
}

#[test]
fn a_command_goes_out_once_until_it_is_answered() {
    let mut shell = begun();
    assert_eq!(commands(&mut shell), [Command::Plan]);
    settle(&mut shell, 10);
    assert!(commands(&mut shell).is_empty(), "it is on its way");
    take(&mut shell, 10, answer(Input::PlanFailed(CallError::transient("busy"))));
    assert!(commands(&mut shell).is_empty(), "and waits a moment");
    take(&mut shell, 210, Arrival::Alarm);
    assert_eq!(commands(&mut shell), [Command::Plan]);
}

#[test]
fn one_alarm_for_what_is_owed_and_what_is_to_be_written() {
    let mut shell = begun();
    let alarm = |shell: &mut SyncShell| shell.hands_mut().alarm.take();
    alarm(&mut shell);
    shell.take(answer(Input::PlanFailed(CallError::transient("busy"))), at(0)).unwrap();
    turn(&mut shell, 0);
    assert_eq!(alarm(&mut shell), Some(Some(TOLD_WAIT)), "first that is written");
    assert!(TOLD_WAIT < Duration::from_millis(200) && TOLD_WAIT < LAZY_WAIT);
    shell.take(Arrival::Alarm, at(100)).unwrap();
    turn(&mut shell, 100);
    assert!(shell.hands_mut().batch.take().is_some());
    assert_eq!(alarm(&mut shell), Some(Some(Duration::from_millis(100))), "then the call is made again");
    // It rings too early by a clock that was set back: it does not ring for the same time at once.
    shell.take(Arrival::Alarm, at(199)).unwrap();
    turn(&mut shell, 199);
    assert_eq!(alarm(&mut shell), Some(Some(RING_AGAIN)));
}

#[test]
fn what_is_kept_up_ends_when_it_is_not_owed_any_more_and_begins_again_when_it_ended_by_itself() {
    let mut shell = awaiting(3);
    let watch = |task| Command::Observe { task: TaskId(task) };
    let namespaces = Command::WatchNamespaces;
    assert_eq!(shell.hands_mut().begun, [namespaces, watch(0), watch(1), watch(2)]);
    shell.hands_mut().begun.clear();
    take(&mut shell, 10, sight(1, "11", HealthStatus::Healthy));
    assert_eq!(shell.hands_mut().ended, [watch(1)]);
    take(&mut shell, 20, Arrival::Ended(Subject::Task(TaskId(2))));
    assert_eq!(shell.hands_mut().begun, [watch(2)]);
    shell.hands_mut().begun.clear();
    take(&mut shell, 20, Arrival::Ended(Subject::Task(TaskId(1))));
    assert!(shell.hands_mut().begun.is_empty(), "nobody waits for that one");
    assert!(shell.keeps_up(&watch(0)) && !shell.keeps_up(&watch(1)));
}

#[test]
fn a_wish_is_answered_when_it_is_durable() {
    let mut shell = begun();
    let by = || "ann".to_owned();
    shell.wish(&Input::Unpause { by: by() }, (), at(1)).unwrap();
    let refused = shell.hands_mut().answers.pop().unwrap().unwrap_err();
    assert_eq!(refused.to_string(), "operation is not paused; nothing to unpause");
    shell.wish(&Input::Pause { by: by(), reason: String::new() }, (), at(1)).unwrap();
    turn(&mut shell, 1);
    assert!(shell.hands_mut().batch.is_some() && shell.hands_mut().answers.is_empty());
    settle(&mut shell, 1);
    assert!(matches!(shell.hands_mut().answers.as_slice(), [Ok(())]));
}

#[test]
fn a_shell_that_is_to_stop_waits_for_what_is_on_its_way() {
    let mut shell = begun();
    shell.stop();
    assert_eq!(settle(&mut shell, 1), Turn::GoesOn);
    let planned = Input::Planned {
        plan: Arc::new(plan([resource(0, "Deployment/d")])),
        bundle: DIGEST,
        namespaces: Vec::new(),
    };
    assert_eq!(take(&mut shell, 2, answer(planned)), Turn::Stopped);
    assert_eq!(commands(&mut shell), [Command::Plan], "nothing more was begun");
    let again = Driver::recover(None, []).unwrap();
    assert_eq!(settle(&mut SyncShell::recovered(again, Outbox::default()), 3), Turn::GoesOn);
}

/// A repair after damage forgets how operations stood.
#[test]
fn the_end_of_a_recovered_operation_is_stated_anew() {
    let mut shell = begun();
    assert_eq!(take(&mut shell, 1, Arrival::Input(Input::Abort { reason: "no".into() })), Turn::Over);
    let driver = Driver::recover(Some((2, shell.state().clone())), []).unwrap();
    let mut recovered = SyncShell::recovered(driver, Outbox::default());
    assert_eq!(turn(&mut recovered, 2), Turn::GoesOn);
    let batch = recovered.hands_mut().batch.take().unwrap();
    assert_eq!((batch.first_sequence, batch.facts.len()), (3, 0));
    assert_eq!(take(&mut recovered, 2, Arrival::Persisted), Turn::Over);
    let outcome = recovered.state().operation().unwrap().outcome.as_ref().unwrap();
    assert_eq!(outcome.phase, OperationPhase::Error);
}

/// The versions of the sights in an inbox, in order.
fn sights(inbox: &mut Inbox<SyncOperation, std::convert::Infallible>) -> Vec<String> {
    let version = |arrival| match arrival {
        Arrival::Input(Input::Observed { task, observation }) => match observation.seen {
            Observed::Present { resource_version, .. } => format!("{task} {resource_version}"),
            Observed::Gone { .. } => format!("{task} gone"),
        },
        Arrival::Answer { .. } => "answer".into(),
        _ => "other".into(),
    };
    inbox.take().into_iter().map(version).collect()
}

#[test]
fn an_inbox_keeps_the_newest_sight_of_each_object() {
    let mut inbox = Inbox::default();
    inbox.push(sight(1, "5", HealthStatus::Progressing));
    inbox.push(sight(2, "6", HealthStatus::Progressing));
    inbox.push(answer(Input::PlanFailed(CallError::transient("busy"))));
    inbox.push(sight(1, "7", HealthStatus::Healthy));
    // A look that was on its way for longer.
    inbox.push(sight(1, "6", HealthStatus::Progressing));
    assert_eq!(inbox.len(), 3);
    assert_eq!(sights(&mut inbox), ["task 2 6", "answer", "task 1 7"]);
    assert!(inbox.is_empty());
    for version in 0..10_000 {
        inbox.push(sight(version % 3, &version.to_string(), HealthStatus::Progressing));
        assert!(inbox.len() <= 3);
    }
    assert_eq!(sights(&mut inbox), ["task 1 9997", "task 2 9998", "task 0 9999"]);
}
