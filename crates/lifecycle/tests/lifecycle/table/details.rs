//! Pairs that depend on what the answer says.

use tidegate_lifecycle::operation::{
    Answer, Applied, Command, Fact, Input, Rejection, State, Stopped, WaveStep, decide, evolve, pending,
};
use tidegate_model::{DeletePolicy, Observation, Observed, OperationPhase, Phase, TaskId};

use super::facts::{facts, kind};
use super::states::*;
use crate::build::*;
use crate::world::{Reply, World};

fn representative(name: &str) -> State {
    representatives().into_iter().find(|state| place(state) == name).unwrap()
}

fn answer(task: TaskId, attempt: u32, answer: Answer) -> Input {
    Input::Answer { task, attempt, answer }
}

/// Which facts commands must wait for. What a hook did is never lost; what a resource did is found again.
#[test]
fn facts_that_matter() {
    let lazy = "Checked CheckFailed CallFailed CallFailed:task PruneSent DeletionBegun RecreationBegun HookCleared ObjectGone HealthSeen HookReleased \
        ReasonSeen LogsKept Watching PlaceTaken Warned NamespacesSeen";
    let lazy_unless_hook = "Applied TaskCompleted TaskFailed";
    let among = |names: &str, fact: &Fact| names.split_whitespace().any(|name| name == kind(fact));
    for fact in facts() {
        let name = kind(&fact);
        assert_eq!(
            fact.is_urgent(|_| false),
            !among(lazy, &fact) && !among(lazy_unless_hook, &fact),
            "{name}"
        );
        assert_eq!(fact.is_urgent(|_| true), !among(lazy, &fact), "{name} of a hook");
    }
}

/// Whatever is at work goes on and is watched; a runner is not even called again after a crash.
#[test]
fn a_paused_operation_only_looks() {
    let mut watched = 0;
    for state in representatives().into_iter().filter(|state| place(state).ends_with("paused")) {
        for command in pending(&state, at(100_000)).commands {
            assert!(matches!(command, Command::Observe { .. }), "{command:?} in {}", place(&state));
            watched += 1;
        }
    }
    assert!(watched > 0);
}

/// A hook whose object is not there any more ended well for a person who terminates, and badly for a deadline.
#[test]
fn a_stopped_hook_that_was_not_there() {
    let stopped = |phase, message: &str| {
        answer(LATE_HOOK, 1, Answer::Stopped(Ok(Stopped { phase, message: message.into(), gone: true })))
    };
    let (succeeded, failed) = (OperationPhase::Succeeded, OperationPhase::Failed);
    for (state, input, phase, message) in [
        ("AwaitingHealth", stopped(succeeded, "Terminated"), failed, "late"),
        ("AwaitingHealth", stopped(succeeded, "well"), succeeded, "well"),
        ("AwaitingHealth", stopped(OperationPhase::Running, "still"), failed, "late"),
        ("Terminating", stopped(succeeded, "Terminated"), succeeded, "Terminated"),
        ("Terminating", stopped(failed, "bad"), failed, "bad"),
    ] {
        let facts = decide(&representative(state), &input, at(100)).unwrap();
        let expected = Fact::HookStopped { task: LATE_HOOK, phase, message: message.into(), clean: true };
        assert_eq!(facts, [expected], "{state}");
    }
}

/// A look that began before the object was made proves nothing.
#[test]
fn only_a_look_after_the_write_finds_an_object_missing() {
    let state = representative("AwaitingHealth");
    let gone = |millis, uid: Option<&str>| {
        let seen = Observed::Gone { uid: uid.map(str::to_owned) };
        decide(
            &state,
            &Input::Observed { task: RESOURCE, observation: Observation { at: at(millis), seen } },
            at(100),
        )
    };
    // Applied at 3 ms.
    assert!(matches!(gone(2, None), Err(Rejection::Stale { .. })));
    assert_eq!(gone(2, Some("another")).unwrap(), []);
    for facts in [gone(3, None).unwrap(), gone(2, Some("uid")).unwrap()] {
        assert_eq!(facts.iter().map(kind).collect::<Vec<_>>(), ["TaskFailed"]);
    }
}

#[test]
fn answers_to_an_earlier_attempt_are_stale() {
    let facts = [Fact::RetryStarted { attempt: 2, at: at(60) }, to(WaveStep::Applying)];
    let state =
        facts.iter().fold(representative("AwaitingRetry"), |state, fact| evolve(state, fact).unwrap());
    let applied = |attempt| {
        let applied = Applied {
            uid: "uid".into(),
            resource_version: "10".into(),
            generation: 1,
            message: String::new(),
            observed: Observed::Gone { uid: Some("another".into()) },
            warnings: Vec::new(),
        };
        decide(&state, &answer(RESOURCE, attempt, Answer::Applied(Ok(Box::new(applied)))), at(100))
    };
    assert!(matches!(applied(1), Err(Rejection::Stale { .. })));
    assert_eq!(applied(2).unwrap().len(), 1);
}

/// Nothing can run without its namespace, SyncFail hooks included.
#[test]
fn a_refused_namespace_starts_no_sync_fail_hooks() {
    let policies = [DeletePolicy::HookFailed];
    let mut world = World::new(
        plan([
            resource(0, "Namespace/shop"),
            resource(1, "ConfigMap/c").checked_late(),
            hook(Phase::SyncFail, 0, "Job/alert").policies(&policies).checked_late(),
        ]),
        request(),
    );
    world.fate("Namespace/shop", |fate| fate.write.push_back(Reply::No("forbidden".into())));
    crate::traces::trace(
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
