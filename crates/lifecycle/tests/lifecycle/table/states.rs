//! One representative of every state, reached by events.

use std::sync::Arc;

use tidegate_lifecycle::operation::{
    AppliedRef, DeadlineScope, OperationEvent, Progress, Stage, State, Verdict, WaveStep, apply,
};
use tidegate_model::{DeletePolicy, OperationPhase, Phase, Plan, Task, TaskId};

use crate::build::*;

/// Prune in the first wave.
pub const PRUNE: TaskId = TaskId(0);
/// Hook in the first wave. An older object has its name.
pub const HOOK: TaskId = TaskId(1);
/// Hook with a deadline, in the first wave.
pub const LATE_HOOK: TaskId = TaskId(2);
/// Hook with a runner, in the first wave.
pub const RUNNER: TaskId = TaskId(3);
/// Resource in the first wave that is dry-run when the wave opens.
pub const CHECKED_LATE: TaskId = TaskId(4);
/// Resource in the first wave.
pub const RESOURCE: TaskId = TaskId(5);

pub fn sample_plan() -> Plan {
    let policies = [DeletePolicy::BeforeHookCreation, DeletePolicy::HookFailed];
    let tasks: [Task; 8] = [
        prune_task(0, "Deployment/old").with_confirmation(),
        hook_task(Phase::Sync, 0, "Job/hook").with_delete_policies(&policies).with_live_object(),
        hook_task(Phase::Sync, 0, "Job/late").with_timeout(60),
        hook_task(Phase::Sync, 0, "Job/runner").with_runner("runner"),
        resource(0, "Deployment/checked-late").with_late_check(),
        resource(0, "Deployment/resource"),
        resource(1, "Deployment/next"),
        hook_task(Phase::SyncFail, 0, "Job/alert"),
    ];
    plan(tasks).with_gate(0, "gate").with_wave_timeout(0, 600)
}

/// Returns the name of a state. The match is exhaustive, as a reminder to add new states here, along with a
/// representative.
pub fn state_name(state: &State) -> String {
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
            OperationPhase::Running | OperationPhase::Terminating => {
                panic!("a finished operation must have a final phase")
            }
        },
    };
    if paused { format!("{name} paused") } else { name.to_owned() }
}

pub fn accepted_event() -> OperationEvent {
    OperationEvent::Accepted { operation: id(), request: Box::new(request()), targets: DIGEST, at: at(0) }
}

pub fn planned_event() -> OperationEvent {
    OperationEvent::Planned { plan: Arc::new(sample_plan()), bundle: DIGEST, at: at(1) }
}

pub fn paused_event() -> OperationEvent {
    OperationEvent::Paused { by: "bob".into(), reason: String::new(), at: at(5) }
}

pub fn moved_event(to: Stage) -> OperationEvent {
    OperationEvent::StageChanged { to, at: at(2) }
}

pub fn step_event(step: WaveStep) -> OperationEvent {
    moved_event(Stage::Wave { index: 0, step })
}

pub fn finished_event(phase: OperationPhase) -> OperationEvent {
    OperationEvent::Finished { phase, message: "over".into(), at: at(9) }
}

pub fn attempt_failed_event() -> OperationEvent {
    OperationEvent::AttemptFailed { message: "failed".into(), retriable: true, at: at(4) }
}

pub fn applied_event(task: TaskId) -> OperationEvent {
    let applied = AppliedRef { uid: "uid".into(), resource_version: "10".into(), generation: 1, at: at(3) };
    OperationEvent::Applied { task, applied, message: "applied".into(), done: false }
}

/// Returns the events after which the resource and one hook are running, a second hook must be stopped, and a
/// third hook has ended but still has its finalizer.
fn running_task_events() -> Vec<OperationEvent> {
    let cleared = |task| OperationEvent::HookCleared { task, deleting: None };
    vec![
        step_event(WaveStep::Clearing),
        cleared(HOOK),
        cleared(LATE_HOOK),
        step_event(WaveStep::Applying),
        applied_event(HOOK),
        applied_event(LATE_HOOK),
        applied_event(RESOURCE),
        OperationEvent::RunnerStarted { task: RUNNER, at: at(3) },
        OperationEvent::TaskCompleted {
            task: HOOK,
            phase: OperationPhase::Succeeded,
            message: "done".into(),
            at: at(4),
        },
        OperationEvent::DeadlineExceeded {
            scope: DeadlineScope::Hook(LATE_HOOK),
            message: "late".into(),
            at: at(4),
        },
    ]
}

pub fn fold_events(events: impl IntoIterator<Item = OperationEvent>) -> State {
    events.into_iter().fold(State::New, |state, event| apply(state, &event).unwrap())
}

/// Returns all states of a running operation.
fn running_states() -> Vec<Vec<OperationEvent>> {
    let wave = |events: Vec<OperationEvent>| [vec![step_event(WaveStep::Held)], events].concat();
    let then = |event: OperationEvent| wave([running_task_events(), vec![event]].concat());
    let terminate = OperationEvent::TerminationRequested { by: "ann".into(), at: at(6) };
    let finishing = Stage::Finishing { phase: OperationPhase::Failed, message: "failed".into() };
    vec![
        vec![],
        vec![moved_event(Stage::DryRun)],
        wave(vec![]),
        wave(vec![step_event(WaveStep::DryRun)]),
        wave(vec![step_event(WaveStep::Pruning)]),
        wave(vec![
            step_event(WaveStep::Pruning),
            OperationEvent::DeletionStarted { task: PRUNE },
            step_event(WaveStep::AwaitingGone),
        ]),
        wave(vec![step_event(WaveStep::Clearing)]),
        wave(vec![step_event(WaveStep::Applying)]),
        then(step_event(WaveStep::AwaitingHealth)),
        then(step_event(WaveStep::Settling { until: at(2000) })),
        then(step_event(WaveStep::Verifying)),
        then(step_event(WaveStep::Passed)),
        wave(vec![attempt_failed_event(), moved_event(Stage::AwaitingRetry { until: at(5000) })]),
        [then(terminate), vec![moved_event(Stage::Terminating)]].concat(),
        wave(vec![attempt_failed_event(), moved_event(finishing)]),
    ]
}

/// Returns one representative of every state. States in which the operation can be paused are also included
/// as paused.
pub fn representatives() -> Vec<State> {
    let mut all =
        vec![State::New, fold_events([accepted_event()]), fold_events([accepted_event(), paused_event()])];
    for events in running_states() {
        let state = fold_events([vec![accepted_event(), planned_event()], events].concat());
        let is_ending = matches!(state_name(&state).as_str(), "Terminating" | "Finishing");
        if !is_ending {
            all.push(apply(state.clone(), &paused_event()).unwrap());
        }
        all.push(state);
    }
    for phase in [OperationPhase::Succeeded, OperationPhase::Failed, OperationPhase::Error] {
        all.push(fold_events([accepted_event(), planned_event(), finished_event(phase)]));
    }
    all
}

#[test]
fn representatives_cover_every_state() {
    for state in representatives() {
        let Some(operation) = state.operation() else { continue };
        if ["AwaitingHealth", "Settling", "Verifying", "Passed", "Terminating"]
            .contains(&state_name(&state).as_str())
        {
            assert!(matches!(operation.tasks[LATE_HOOK.index()].progress, Progress::Stopping { .. }));
            assert!(operation.tasks[HOOK.index()].needs_release());
        }
    }
    assert!(matches!(gate_open_event(), OperationEvent::GateEvaluated { .. }));
}

pub fn gate_open_event() -> OperationEvent {
    OperationEvent::GateEvaluated { gate: "gate".into(), verdict: Verdict::Open, at: at(3) }
}
