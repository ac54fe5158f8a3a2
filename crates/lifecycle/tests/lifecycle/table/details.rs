//! Combinations of states and inputs with outcomes that depend on the content of the input.

use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, Command, Input, OperationEvent, Rejection, State, StopResult, WaveStep, apply,
    decide, outstanding,
};
use tidegate_model::{DeletePolicy, Observation, ObservedState, OperationPhase, Phase, TaskId};

use super::events::{all_events, event_name};
use super::states::*;
use crate::build::*;
use crate::world::{Reply, World};

fn representative_named(name: &str) -> State {
    representatives().into_iter().find(|state| state_name(state) == name).unwrap()
}

fn answer_input(task: TaskId, attempt: u32, answer: Answer) -> Input {
    Input::Answer { task, attempt, answer }
}

/// Urgent events must be durable before commands run. A hook's result must never be lost, but a resource's
/// result can be observed again.
#[test]
fn urgent_events_are_marked() {
    let lazy = "DryRunPassed DryRunFailed CallFailed CallFailed:task ObjectDeleted DeletionStarted RecreationStarted HookCleared DeletionCompleted HealthChanged HookFinalizerRemoved \
        ReasonChanged LogsStored WatchChanged HookNameInUse WarningsReceived NamespacesObserved";
    let lazy_unless_hook = "Applied TaskCompleted TaskFailed";
    let among =
        |names: &str, event: &OperationEvent| names.split_whitespace().any(|name| name == event_name(event));
    for event in all_events() {
        let name = event_name(&event);
        assert_eq!(
            event.is_urgent(|_| false),
            !among(lazy, &event) && !among(lazy_unless_hook, &event),
            "{name}"
        );
        assert_eq!(event.is_urgent(|_| true), !among(lazy, &event), "{name} of a hook");
    }
}

/// A paused operation observes running tasks, but doesn't call hook runners, even after a crash.
#[test]
fn a_paused_operation_only_observes() {
    let mut watched = 0;
    for state in representatives().into_iter().filter(|state| state_name(state).ends_with("paused")) {
        for command in outstanding(&state, at(100_000)).commands {
            assert!(matches!(command, Command::Observe { .. }), "{command:?} in {}", state_name(&state));
            watched += 1;
        }
    }
    assert!(watched > 0);
}

/// A hook without an object counts as succeeded if a user terminated the operation, and as failed if a
/// deadline passed.
#[test]
fn a_stopped_hook_without_an_object_has_an_outcome() {
    let stopped = |phase, message: &str| {
        answer_input(
            LATE_HOOK,
            1,
            Answer::Stopped(Ok(StopResult { phase, message: message.into(), is_gone: true })),
        )
    };
    let (succeeded, failed) = (OperationPhase::Succeeded, OperationPhase::Failed);
    for (state, input, phase, message) in [
        ("AwaitingHealth", stopped(succeeded, "Terminated"), failed, "late"),
        ("AwaitingHealth", stopped(succeeded, "well"), succeeded, "well"),
        ("AwaitingHealth", stopped(OperationPhase::Running, "still"), failed, "late"),
        ("Terminating", stopped(succeeded, "Terminated"), succeeded, "Terminated"),
        ("Terminating", stopped(failed, "bad"), failed, "bad"),
    ] {
        let events = decide(&representative_named(state), &input, at(100)).unwrap();
        let expected =
            OperationEvent::HookStopped { task: LATE_HOOK, phase, message: message.into(), clean: true };
        assert_eq!(events, [expected], "{state}");
    }
}

/// A read that started before the object was created isn't evidence that the object is missing.
#[test]
fn only_a_read_after_the_write_proves_an_object_missing() {
    let state = representative_named("AwaitingHealth");
    let gone = |millis, uid: Option<&str>| {
        let seen = ObservedState::Gone { uid: uid.map(str::to_owned) };
        decide(
            &state,
            &Input::Observed { task: RESOURCE, observation: Observation { at: at(millis), seen } },
            at(100),
        )
    };
    // The object was applied at 3 ms.
    assert!(matches!(gone(2, None), Err(Rejection::Stale { .. })));
    assert_eq!(gone(2, Some("another")).unwrap(), []);
    for events in [gone(3, None).unwrap(), gone(2, Some("uid")).unwrap()] {
        assert_eq!(events.iter().map(event_name).collect::<Vec<_>>(), ["TaskFailed"]);
    }
}

#[test]
fn answers_to_an_earlier_attempt_are_stale() {
    let events = [
        OperationEvent::RetryStarted { attempt: 2, at: at(60) },
        step_event(WaveStep::Held),
        step_event(WaveStep::Applying),
    ];
    let state = events
        .iter()
        .fold(representative_named("AwaitingRetry"), |state, event| apply(state, event).unwrap());
    let applied = |attempt| {
        let applied = ApplyResponse {
            uid: "uid".into(),
            resource_version: "10".into(),
            generation: 1,
            message: String::new(),
            observed: ObservedState::Gone { uid: Some("another".into()) },
            warnings: Vec::new(),
        };
        decide(&state, &answer_input(RESOURCE, attempt, Answer::Applied(Ok(Box::new(applied)))), at(100))
    };
    assert!(matches!(applied(1), Err(Rejection::Stale { .. })));
    assert_eq!(applied(2).unwrap().len(), 1);
}

/// Without its namespace, no task can run, not even a SyncFail hook.
#[test]
fn a_rejected_namespace_starts_no_sync_fail_hooks() {
    let policies = [DeletePolicy::HookFailed];
    let mut world = World::new(
        plan([
            resource(0, "Namespace/shop"),
            resource(1, "ConfigMap/c").with_late_check(),
            hook_task(Phase::SyncFail, 0, "Job/alert").with_delete_policies(&policies).with_late_check(),
        ]),
        request(),
    );
    world.configure("Namespace/shop", |fate| fate.write.push_back(Reply::Rejected("forbidden".into())));
    crate::traces::assert_trace(
        world,
        "
            plan
            check Namespace/shop
            apply Namespace/shop
            # the namespace failed to apply, reason: forbidden
            = 1 Namespace/shop SyncFailed Failed: forbidden
            ",
    );
}
