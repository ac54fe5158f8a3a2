//! One representative of every state, reached by facts.

use std::sync::Arc;

use tidegate_lifecycle::operation::{
    AppliedRef, DeadlineScope, Fact, Progress, Stage, State, Verdict, WaveStep, evolve,
};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, Plan, Task, TaskId};

use crate::build::*;

/// The tasks of the first wave, by position, each for other inputs.
pub const PRUNE: TaskId = TaskId(0);
pub const HOOK: TaskId = TaskId(1);
pub const LATE_HOOK: TaskId = TaskId(2);
pub const RUNNER: TaskId = TaskId(3);
pub const CHECKED_LATE: TaskId = TaskId(4);
pub const RESOURCE: TaskId = TaskId(5);

pub fn the_plan() -> Plan {
    let policies = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookFailed];
    let tasks: [Task; 8] = [
        prune(0, "Deployment/old").confirm(),
        hook(Phase::Sync, 0, "Job/hook").policies(&policies).living(),
        hook(Phase::Sync, 0, "Job/late").timeout(60),
        hook(Phase::Sync, 0, "Job/runner").runner("runner"),
        resource(0, "Deployment/checked-late").checked_late(),
        resource(0, "Deployment/resource"),
        resource(1, "Deployment/next"),
        hook(Phase::SyncFail, 0, "Job/alert"),
    ];
    plan(tasks).gated(0, "gate").wave_timeout(0, 600)
}

/// The name of a state. A new one does not compile until it is here, and then needs a representative.
pub fn place(state: &State) -> String {
    let paused = state.header().is_some_and(|header| header.paused.is_some());
    let name = match state {
        State::New => "New",
        State::Accepted(_) => "Accepted",
        State::Running(operation) => match &operation.stage {
            Stage::Planned => "Planned",
            Stage::DryRun => "DryRun",
            Stage::Wave { step, .. } => match step {
                WaveStep::Held => "Held",
                WaveStep::DryRun => "Wave DryRun",
                WaveStep::Pruning => "Pruning",
                WaveStep::AwaitingGone => "AwaitingGone",
                WaveStep::Clearing => "Clearing",
                WaveStep::Applying => "Applying",
                WaveStep::AwaitingHealth => "AwaitingHealth",
                WaveStep::Settling { .. } => "Settling",
                WaveStep::Verifying => "Verifying",
                WaveStep::Passed => "Passed",
            },
            Stage::AwaitingRetry { .. } => "AwaitingRetry",
            Stage::Terminating => "Terminating",
            Stage::Finishing { .. } => "Finishing",
        },
        State::Finished(operation) => match operation.outcome.as_ref().unwrap().phase {
            OperationPhase::Succeeded => "Succeeded",
            OperationPhase::Failed => "Failed",
            OperationPhase::Error => "Error",
            OperationPhase::Running | OperationPhase::Terminating => panic!("over, and not over"),
        },
    };
    if paused { format!("{name} paused") } else { name.to_owned() }
}

pub fn accepted() -> Fact {
    Fact::Accepted { operation: id(), request: Box::new(request()), targets: DIGEST, at: at(0) }
}

pub fn planned() -> Fact {
    Fact::Planned { plan: Arc::new(the_plan()), bundle: DIGEST, at: at(1) }
}

pub fn paused() -> Fact {
    Fact::Paused { by: "bob".into(), reason: String::new(), at: at(5) }
}

pub fn moved(to: Stage) -> Fact {
    Fact::Moved { to, at: at(2) }
}

pub fn to(step: WaveStep) -> Fact {
    moved(Stage::Wave { index: 0, step })
}

pub fn finished(phase: OperationPhase) -> Fact {
    Fact::Finished { phase, message: "over".into(), at: at(9) }
}

pub fn attempt_failed() -> Fact {
    Fact::AttemptFailed { message: "failed".into(), retriable: true, at: at(4) }
}

pub fn applied(task: TaskId) -> Fact {
    let applied = AppliedRef { uid: "uid".into(), resource_version: "10".into(), generation: 1, at: at(3) };
    Fact::Applied { task, applied, message: "applied".into(), done: false }
}

/// The resource and a hook are at work, another hook must be stopped, and one has ended and keeps its finalizer.
fn at_work() -> Vec<Fact> {
    let cleared = |task| Fact::HookCleared { task, deleting: None };
    vec![
        to(WaveStep::Clearing),
        cleared(HOOK),
        cleared(LATE_HOOK),
        to(WaveStep::Applying),
        applied(HOOK),
        applied(LATE_HOOK),
        applied(RESOURCE),
        Fact::RunnerStarted { task: RUNNER, at: at(3) },
        Fact::TaskCompleted {
            task: HOOK,
            phase: OperationPhase::Succeeded,
            message: "done".into(),
            at: at(4),
        },
        Fact::DeadlinePassed { scope: DeadlineScope::Hook(LATE_HOOK), message: "late".into(), at: at(4) },
    ]
}

pub fn fold(facts: impl IntoIterator<Item = Fact>) -> State {
    facts.into_iter().fold(State::New, |state, fact| evolve(state, &fact).unwrap())
}

/// All states that a running operation can be in.
fn running() -> Vec<Vec<Fact>> {
    let wave = |facts: Vec<Fact>| [vec![to(WaveStep::Held)], facts].concat();
    let then = |fact: Fact| wave([at_work(), vec![fact]].concat());
    let terminate = Fact::TerminateRequested { by: "ann".into(), at: at(6) };
    let finishing = Stage::Finishing { phase: OperationPhase::Failed, message: "failed".into() };
    vec![
        vec![],
        vec![moved(Stage::DryRun)],
        wave(vec![]),
        wave(vec![to(WaveStep::DryRun)]),
        wave(vec![to(WaveStep::Pruning)]),
        wave(vec![
            to(WaveStep::Pruning),
            Fact::PruneSent { task: PRUNE, gone: false },
            to(WaveStep::AwaitingGone),
        ]),
        wave(vec![to(WaveStep::Clearing)]),
        wave(vec![to(WaveStep::Applying)]),
        then(to(WaveStep::AwaitingHealth)),
        then(to(WaveStep::Settling { until: at(2000) })),
        then(to(WaveStep::Verifying)),
        then(to(WaveStep::Passed)),
        wave(vec![attempt_failed(), moved(Stage::AwaitingRetry { until: at(5000) })]),
        [then(terminate), vec![moved(Stage::Terminating)]].concat(),
        wave(vec![attempt_failed(), moved(finishing)]),
    ]
}

/// One representative of every state, paused ones where an operation can be paused.
pub fn representatives() -> Vec<State> {
    let mut all = vec![State::New, fold([accepted()]), fold([accepted(), paused()])];
    for facts in running() {
        let state = fold([vec![accepted(), planned()], facts].concat());
        let is_ending = matches!(place(&state).as_str(), "Terminating" | "Finishing");
        if !is_ending {
            all.push(evolve(state.clone(), &paused()).unwrap());
        }
        all.push(state);
    }
    for phase in [OperationPhase::Succeeded, OperationPhase::Failed, OperationPhase::Error] {
        all.push(fold([accepted(), planned(), finished(phase)]));
    }
    all
}

#[test]
fn the_representatives_are_what_they_should_be() {
    for state in representatives() {
        let Some(operation) = state.operation() else { continue };
        if ["AwaitingHealth", "Settling", "Verifying", "Passed", "Terminating"]
            .contains(&place(&state).as_str())
        {
            assert!(matches!(operation.tasks[LATE_HOOK.index()].progress, Progress::Stopping { .. }));
            assert!(operation.tasks[HOOK.index()].awaits_release());
        }
    }
    assert!(matches!(gate_open(), Fact::GateAnswered { .. }));
}

pub fn gate_open() -> Fact {
    Fact::GateAnswered { gate: "gate".into(), verdict: Verdict::Open, at: at(3) }
}
