//! Transitions of the schedule: inputs, and the work that is due afterward.

use std::time::Duration;

use tidegate_applicationset::reconcile_schedule::ScheduleInput;
use tidegate_applicationset::triggers::ReconcileTrigger;

use super::{Controller, PassResult};

enum Action {
    Input(ScheduleInput),
    Complete(PassResult),
    /// Time passes.
    Elapse(u64),
    /// The ApplicationSet changes to one that is or isn't usable.
    Usable(bool),
    Delete,
    Log {
        is_readable: bool,
    },
    /// Interval between generations, in seconds.
    Interval(u64),
}

use Action::{Complete, Delete, Elapse, Input, Interval, Log, Usable};
use PassResult as Result;
use ScheduleInput::{Abort, AppSetChanged, InputsChanged, MachineLost, Refresh, Triggered};

const STATUS: Action = Input(Triggered(ReconcileTrigger::Status));
const RECONCILE: Action = Input(Triggered(ReconcileTrigger::Reconcile));
const DONE: Action = Complete(Result::Complete);
/// End of the pause after the first pass.
const REST: Action = Elapse(1000);

/// Starts a controller, and returns the work that is due after each action.
fn run(actions: &[Action]) -> Vec<String> {
    let mut controller = Controller::new();
    let mut found = vec![controller.describe()];
    for action in actions {
        match action {
            Input(input) => controller.deliver(*input),
            Complete(result) => controller.complete(*result),
            Elapse(millis) => {
                controller.now = controller.now + Duration::from_millis(*millis);
                controller.step();
            }
            Usable(is_usable) => {
                controller.phase.is_usable = *is_usable;
                controller.deliver(AppSetChanged);
            }
            Delete => {
                controller.phase.is_deleting = true;
                controller.deliver(AppSetChanged);
            }
            Log { is_readable } => controller.is_log_readable = *is_readable,
            Interval(seconds) => controller.interval = Some(Duration::from_secs(*seconds)),
        }
        found.push(controller.describe());
    }
    found
}

#[test]
fn every_input_leads_to_the_expected_work() {
    let rows: &[(&str, &[Action], &[&str])] = &[
        ("the first pass runs the generators with new revisions", &[], &["fetch"]),
        ("a quiet ApplicationSet", &[DONE, REST], &["fetch", "", ""]),
        (
            "changes are collected during the pause after a pass",
            &[DONE, STATUS, RECONCILE, STATUS, REST],
            &["fetch", "", "wait 1000", "wait 1000", "wait 1000", "generate"],
        ),
        ("a change of the status", &[DONE, REST, STATUS], &["fetch", "", "", "compare"]),
        (
            "an irrelevant change",
            &[DONE, REST, Input(Triggered(ReconcileTrigger::Ignore))],
            &["fetch", "", "", ""],
        ),
        (
            "a change during a pass",
            &[STATUS, DONE, REST, RECONCILE, STATUS, DONE, REST],
            &["fetch", "", "wait 1000", "compare", "", "", "wait 1000", "generate"],
        ),
        (
            "changed inputs wait for the end of the pause, but a user does not",
            &[DONE, Input(InputsChanged), Input(Refresh)],
            &["fetch", "", "wait 1000", "fetch"],
        ),
        ("a refresh during a pass", &[Input(Refresh), DONE, REST], &["fetch", "", "wait 1000", "fetch"]),
        (
            "a changed ApplicationSet replaces the running pass",
            &[DONE, REST, STATUS, Input(AppSetChanged), DONE, Input(AppSetChanged)],
            &["fetch", "", "", "compare", "fetch", "", "fetch"],
        ),
        (
            "an aborted pass runs again, as it was",
            &[Input(Abort), DONE, REST, STATUS, Input(Abort), DONE, REST, RECONCILE, Input(Abort)],
            &["fetch", "fetch", "", "", "compare", "compare", "", "", "generate", "generate"],
        ),
        (
            "an aborted comparison that must become a generation",
            &[DONE, REST, STATUS, RECONCILE, Input(Abort)],
            &["fetch", "", "", "compare", "", "generate"],
        ),
        (
            "the interval between generations",
            &[Interval(60), DONE, REST, STATUS, DONE, Elapse(57_000), Elapse(2000)],
            &["fetch", "fetch", "wait 60000", "wait 59000", "compare", "wait 59000", "wait 2000", "fetch"],
        ),
        (
            "a scheduled generation ends the pause",
            &[Interval(1), DONE, Elapse(900), RECONCILE, Elapse(100)],
            &["fetch", "fetch", "wait 1000", "wait 100", "wait 100", "fetch"],
        ),
        (
            "failed generators run again later",
            &[Complete(Result::Failed), REST, STATUS, Elapse(179_000)],
            &["fetch", "wait 180000", "wait 179000", "wait 179000", "fetch"],
        ),
        (
            "a failed fetch is repeated",
            &[Complete(Result::Failed), REST, RECONCILE],
            &["fetch", "wait 180000", "wait 179000", "fetch"],
        ),
        (
            "a failed comparison runs the generators",
            &[DONE, REST, STATUS, Complete(Result::Failed), Elapse(180_000)],
            &["fetch", "", "", "compare", "wait 180000", "fetch"],
        ),
        (
            "a write without an event",
            &[Complete(Result::Written), Elapse(4000), Elapse(1000), DONE],
            &["fetch", "wait 5000", "wait 1000", "compare", ""],
        ),
        (
            "a write with an event",
            &[Complete(Result::Written), STATUS, REST, DONE],
            &["fetch", "wait 5000", "wait 1000", "compare", ""],
        ),
        (
            "a rollout that finished during the pass",
            &[Complete(Result::Outdated), REST],
            &["fetch", "wait 1000", "compare"],
        ),
        (
            "unresolved targets are an error after 30 s",
            &[Complete(Result::Unresolved), Elapse(30_000), Complete(Result::Unresolved), REST],
            &["fetch", "wait 30000", "compare", "", ""],
        ),
        (
            "resolved targets end the period",
            &[Complete(Result::Unresolved), Elapse(30_000), DONE, REST, STATUS, Complete(Result::Unresolved)],
            &["fetch", "wait 30000", "compare", "", "", "compare", "wait 30000"],
        ),
        ("an invalid progressive sync", &[Complete(Result::Invalid), REST], &["fetch", "", ""]),
        (
            "manifests that could not be compared",
            &[Complete(Result::AwaitsComparison), Elapse(30_000)],
            &["fetch", "wait 30000", "compare"],
        ),
        (
            "an invalid ApplicationSet",
            &[Usable(false), REST, RECONCILE, Usable(true)],
            &["fetch", "", "", "", "fetch"],
        ),
        (
            "a lost machine is looked up, and passes continue",
            &[DONE, Input(MachineLost), REST, STATUS, DONE, Elapse(4000)],
            &["fetch", "", "wait 5000", "wait 4000", "wait 4000, compare", "wait 4000", "compare"],
        ),
        (
            "an unreadable log",
            &[
                DONE,
                Log { is_readable: false },
                Input(MachineLost),
                Elapse(5000),
                Log { is_readable: true },
                Elapse(5000),
            ],
            &["fetch", "", "", "wait 5000", "wait 5000", "wait 5000", "compare"],
        ),
        ("a deletion ends the running pass", &[Delete, STATUS], &["fetch", "delete", "delete"]),
        (
            "a deletion waits until all machines are known",
            &[Input(MachineLost), Delete, Elapse(5000)],
            &["fetch", "wait 5000", "wait 5000", "delete"],
        ),
        ("an invalid ApplicationSet is deleted", &[Usable(false), Delete], &["fetch", "", "delete"]),
    ];
    for (name, actions, expected) in rows {
        assert_eq!(run(actions), *expected, "{name}");
    }
}

#[test]
fn the_end_of_an_aborted_pass_has_no_effect() {
    let mut controller = Controller::new();
    let (aborted, _) = controller.running.unwrap();
    controller.deliver(AppSetChanged);
    let (replacement, _) = controller.running.unwrap();
    assert_ne!(aborted.id, replacement.id);
    let before = controller.schedule.clone();
    let end = super::PassEnd {
        duration: Duration::ZERO,
        has_output: true,
        requeue_after: None,
        needs_another_pass: true,
        awaits_comparison: true,
        targets: super::TargetResolution::Outdated,
    };
    controller.deliver(ScheduleInput::PassEnded(aborted.id, end));
    assert_eq!(controller.schedule, before);
}

#[test]
fn a_long_pass_is_followed_by_a_long_pause() {
    for (millis, expected) in [(0, "wait 500"), (100, "wait 500"), (600, "wait 2400"), (60_000, "wait 10000")]
    {
        let mut controller = Controller::new();
        let (pass, _) = controller.running.take().unwrap();
        controller.phase.has_output = true;
        let end = super::PassEnd {
            duration: Duration::from_millis(millis),
            has_output: true,
            requeue_after: None,
            needs_another_pass: false,
            awaits_comparison: false,
            targets: super::TargetResolution::Skipped,
        };
        controller.apply(ScheduleInput::PassEnded(pass.id, end));
        controller.deliver(Triggered(ReconcileTrigger::Status));
        assert_eq!(controller.describe(), expected, "{millis}");
    }
}
