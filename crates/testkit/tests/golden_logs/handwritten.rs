//! Hand-written operations that together contain every type of event.

use std::time::Duration;

use tidegate_lifecycle::operation::{
    ClaimEvent, DeadlineScope, HookLog, OperationEvent, Stage, Verdict, WaveStep,
};
use tidegate_model::{
    Action, ClaimConflictPolicy, ClaimRequest, HealthStatus, OperationPhase, Phase, Plan, Severity,
    SyncRequest, Task, TaskId, TaskOptions, Warning,
};

use crate::event_builders::*;

mod external_changes;

/// Operation, and the number of events before its snapshot.
pub struct HandwrittenOperation {
    pub events: Vec<OperationEvent>,
    pub snapshot_after: usize,
}

/// Returns a plan with two tasks before the resources, and one task after them.
fn full_plan() -> Plan {
    let mut runner = hook(Phase::PreSync, "notify");
    if let Some(hook) = &mut runner.hook {
        hook.runner = Some("pager".into());
    }
    let late = TaskOptions { dry_run_at_wave: true, awaits_kind: true, ..TaskOptions::default() };
    let all = TaskOptions {
        force: true,
        validate: false,
        server_side: false,
        dry_run_at_wave: false,
        confirm_prune: true,
        take_over: vec!["kubectl-client-side-apply".into()],
        checked: false,
        ignores_health: true,
        replace: true,
        awaits_kind: true,
        already_deleting: true,
        found_elsewhere: true,
    };
    let sync = |wave, kind, name, action| task(Phase::Sync, wave, kind, name, action);
    let mut plan = plan(vec![
        hook(Phase::PreSync, "backup"),
        runner,
        sync(-1, "ConfigMap", "settings", Action::Apply),
        Task { options: late, ..sync(-1, "Widget", "one", Action::Create) },
        Task { options: all, ..sync(-1, "ConfigMap", "old", Action::Prune) },
        sync(-1, "ConfigMap", "kept", Action::PruneSkipped),
        Task {
            health_judge: Some("slow-starter".into()),
            images: vec!["api:2".into(), "proxy:7".into()],
            ..sync(0, "Deployment", "api", Action::Replace)
        },
        hook(Phase::PostSync, "smoke"),
    ]);
    plan.waves[1].gates = vec!["approval".into(), "night-shift".into()];
    plan.waves[1].timeout = Some(Duration::from_secs(600));
    plan.warnings = vec![Warning {
        severity: Severity::Warning,
        code: "unknown-hook-type".into(),
        object: Some("Job store/backup".into()),
        origin: Some("manifests/backup.yaml:3".into()),
        message: "PreSnyc is no hook type".into(),
    }];
    plan
}

/// Returns an operation that waits for its claim, fails once, and then succeeds.
fn fails_then_succeeds() -> HandwrittenOperation {
    use OperationPhase::{Failed, Succeeded};
    let mut events = vec![
        accepted(1, |_| {}),
        claim(ClaimEvent::Taken { holder: holder(), at_work: false }, 1),
        call_failed(None, false, 1),
        call_failed(None, true, 1),
        OperationEvent::Paused { by: "cat".into(), reason: "lunch".into(), at: at(1) },
        OperationEvent::Unpaused { by: "cat".into(), at: at(2) },
        claim(claim_held(), 2),
        planned(full_plan()),
        stage_changed(Stage::DryRun, 3),
        call_failed(Some(2), false, 3),
        checked(0),
        checked(2),
        checked(6),
        checked(7),
    ];
    events.extend(first_attempt(Failed));
    events.extend([
        OperationEvent::RetryStarted { attempt: 2, at: at(50) },
        step(0, WaveStep::Held, 50),
        step(0, WaveStep::Clearing, 50),
        OperationEvent::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 51),
        applied(0, 52, false),
        step(0, WaveStep::AwaitingHealth, 52),
        completed(0, Succeeded, "backup done", 60),
        OperationEvent::HookFinalizerRemoved { task: TaskId(0) },
        step(0, WaveStep::Passed, 60),
    ]);
    events.extend(second_wave(Succeeded));
    events.extend([
        step(2, WaveStep::Held, 70),
        step(2, WaveStep::Applying, 70),
        applied(6, 71, false),
        OperationEvent::WarningsReceived {
            task: TaskId(6),
            warnings: vec!["apps/v1 is old".into(), "no probes".into()],
        },
        step(2, WaveStep::AwaitingHealth, 71),
        health(6, HealthStatus::Progressing, true, 72),
        completed(6, Succeeded, "", 80),
        step(2, WaveStep::Passed, 80),
        step(3, WaveStep::Held, 80),
        step(3, WaveStep::Clearing, 80),
        OperationEvent::HookCleared { task: TaskId(7), deleting: None },
        step(3, WaveStep::Applying, 80),
        applied(7, 81, false),
        step(3, WaveStep::AwaitingHealth, 81),
        completed(7, Succeeded, "smoke done", 85),
        OperationEvent::HookFinalizerRemoved { task: TaskId(7) },
        step(3, WaveStep::Passed, 85),
        stage_changed(
            Stage::Finishing {
                phase: Succeeded,
                message: "successfully synced (no more tasks) (retried 1 times).".into(),
            },
            85,
        ),
        OperationEvent::HookDeleted { task: TaskId(0), error: None },
        OperationEvent::HookDeleted {
            task: TaskId(7),
            error: Some("failed to delete resource: denied".into()),
        },
        finished(Succeeded, "successfully synced (no more tasks) (retried 1 times).", 86),
    ]);
    HandwrittenOperation { events, snapshot_after: 38 }
}

fn first_attempt(failed: OperationPhase) -> Vec<OperationEvent> {
    vec![
        step(0, WaveStep::Held, 4),
        step(0, WaveStep::Clearing, 4),
        OperationEvent::HookNameInUse { task: TaskId(0), by: Some(occupant()) },
        OperationEvent::HookNameInUse { task: TaskId(0), by: None },
        OperationEvent::HookCleared { task: TaskId(0), deleting: Some("uid-before".into()) },
        OperationEvent::DeletionCompleted { task: TaskId(0) },
        OperationEvent::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 20),
        applied(0, 20, false),
        OperationEvent::WarningsReceived { task: TaskId(0), warnings: vec!["batch/v1 is fine".into()] },
        OperationEvent::RunnerStarted { task: TaskId(1), at: at(20) },
        step(0, WaveStep::AwaitingHealth, 21),
        health(0, HealthStatus::Progressing, true, 22),
        OperationEvent::ReasonChanged { task: TaskId(0), reason: "crash-looping".into(), at: at(23) },
        OperationEvent::WatchChanged { trouble: Some("connection refused".into()), at: at(24) },
        OperationEvent::WatchChanged { trouble: None, at: at(25) },
        completed(1, OperationPhase::Succeeded, "paged", 26),
        completed(0, failed, "Job has reached the specified backoff limit", 30),
        OperationEvent::LogsStored {
            task: TaskId(0),
            reason: "exit code 3".into(),
            logs: vec![HookLog {
                pod: "backup-x".into(),
                container: "main".into(),
                text: "no disk\n".into(),
            }],
        },
        OperationEvent::HookFinalizerRemoved { task: TaskId(0) },
        OperationEvent::AttemptFailed {
            message: "one or more synchronization tasks completed unsuccessfully".into(),
            retriable: true,
            at: at(31),
        },
        stage_changed(Stage::AwaitingRetry { until: at(50) }, 31),
    ]
}

fn second_wave(succeeded: OperationPhase) -> Vec<OperationEvent> {
    let closed =
        Verdict::Closed { reason: "nobody is there".into(), ask_again_after: Duration::from_secs(30) };
    vec![
        step(1, WaveStep::Held, 60),
        OperationEvent::GateEvaluated { gate: "night-shift".into(), verdict: closed, at: at(60) },
        OperationEvent::GateEvaluated { gate: "night-shift".into(), verdict: Verdict::Open, at: at(61) },
        OperationEvent::Approved { wave: 1, by: "ann".into(), reason: "looks good".into(), at: at(61) },
        OperationEvent::PruneConfirmed { by: "ann".into(), at: at(62) },
        step(1, WaveStep::DryRun, 62),
        checked(3),
        step(1, WaveStep::Pruning, 62),
        OperationEvent::DeletionStarted { task: TaskId(4) },
        step(1, WaveStep::AwaitingGone, 63),
        OperationEvent::DeletionCompleted { task: TaskId(4) },
        step(1, WaveStep::Applying, 64),
        applied(2, 64, true),
        applied(3, 64, false),
        step(1, WaveStep::AwaitingHealth, 65),
        health(3, HealthStatus::Healthy, false, 66),
        step(1, WaveStep::Settling { until: at(68) }, 66),
        completed(3, succeeded, "looked well", 68),
        step(1, WaveStep::Passed, 68),
    ]
}

/// Returns an operation with three exceeded deadlines: of a hook, of a wave, and of the operation itself.
fn exceeds_deadlines() -> HandwrittenOperation {
    use OperationPhase::{Failed, Succeeded};
    let mut plan = plan(vec![
        hook(Phase::PreSync, "slow"),
        task(Phase::Sync, 0, "Deployment", "api", Action::Create),
        hook(Phase::SyncFail, "rescue"),
    ]);
    plan.waves[1].timeout = Some(Duration::from_secs(60));
    let late = |scope, message: &str, seconds| OperationEvent::DeadlineExceeded {
        scope,
        message: message.into(),
        at: at(seconds),
    };
    let stopped = |task, message: &str, clean| OperationEvent::HookStopped {
        task: TaskId(task),
        phase: Failed,
        message: message.into(),
        clean,
    };
    let open = |index: u32, task: u32, seconds: u64| {
        [
            step(index, WaveStep::Clearing, seconds),
            OperationEvent::HookCleared { task: TaskId(task), deleting: None },
            step(index, WaveStep::Applying, seconds),
            applied(task, seconds, false),
            step(index, WaveStep::AwaitingHealth, seconds),
        ]
    };
    let mut events = vec![
        accepted(2, |request| {
            request.options.skip_dry_run = true;
            request.claim = None;
        }),
        planned(plan),
        step(0, WaveStep::Held, 3),
    ];
    events.extend(open(0, 0, 4));
    events.extend([
        late(DeadlineScope::Hook(TaskId(0)), "hook did not complete within 90 s", 94),
        OperationEvent::LogsStored { task: TaskId(0), reason: String::new(), logs: Vec::new() },
        stopped(0, "hook did not complete within 90 s", true),
        OperationEvent::AttemptFailed { message: "the hook was late".into(), retriable: true, at: at(95) },
        stage_changed(Stage::AwaitingRetry { until: at(102) }, 95),
        OperationEvent::RetryStarted { attempt: 2, at: at(102) },
        step(0, WaveStep::Held, 102),
    ]);
    events.extend(open(0, 0, 103));
    events.extend([
        completed(0, Succeeded, "done", 110),
        OperationEvent::HookFinalizerRemoved { task: TaskId(0) },
        step(0, WaveStep::Passed, 110),
        step(1, WaveStep::Held, 110),
        step(1, WaveStep::Applying, 110),
        applied(1, 111, false),
        step(1, WaveStep::AwaitingHealth, 111),
        health(1, HealthStatus::Progressing, true, 112),
        late(DeadlineScope::Wave, "wave 0 of Sync did not pass within 1 min", 170),
        OperationEvent::AttemptFailed { message: "the wave was late".into(), retriable: false, at: at(170) },
        step(2, WaveStep::Held, 170),
    ]);
    events.extend(open(2, 2, 171));
    events.extend([
        late(
            DeadlineScope::Operation,
            "Operation terminated, triggered by the operation deadline of 1 h",
            3_600,
        ),
        stage_changed(Stage::Terminating, 3_600),
        stopped(2, "Terminated", false),
        finished(OperationPhase::Error, "Operation terminated had errors", 3_601),
    ]);
    HandwrittenOperation { events, snapshot_after: 30 }
}

/// Returns an operation with a manifest that the server refuses in the dry run.
fn dry_run_refused() -> HandwrittenOperation {
    let config = task(Phase::Sync, 0, "ConfigMap", "broken", Action::Create);
    let events = vec![
        accepted(3, plain),
        planned(plan(vec![config])),
        stage_changed(Stage::DryRun, 3),
        OperationEvent::DryRunFailed { task: TaskId(0), message: "spec.data: unknown field".into() },
        OperationEvent::AttemptFailed {
            message: "one or more objects failed to apply (dry run)".into(),
            retriable: true,
            at: at(3),
        },
        finished(OperationPhase::Failed, "one or more objects failed to apply (dry run)", 4),
    ];
    HandwrittenOperation { events, snapshot_after: 5 }
}

/// Returns an operation with a manifest that the server refuses on the write.
fn write_refused() -> HandwrittenOperation {
    let skipping = |request: &mut SyncRequest| {
        plain(request);
        request.options.skip_dry_run = true;
    };
    let phase = OperationPhase::Failed;
    let message = "one or more objects failed to apply, reason: denied by policy".to_owned();
    let events = vec![
        accepted(10, skipping),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "broken", Action::Create)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        OperationEvent::TaskFailed { task: TaskId(0), phase, message: "denied by policy".into(), at: at(4) },
        step(0, WaveStep::AwaitingHealth, 4),
        OperationEvent::AttemptFailed { message: message.clone(), retriable: false, at: at(4) },
        stage_changed(Stage::Finishing { phase, message: message.clone() }, 4),
        finished(phase, &message, 4),
    ];
    HandwrittenOperation { events, snapshot_after: 6 }
}

/// Returns an interrupted operation that waits for its claim.
fn awaits_claim() -> HandwrittenOperation {
    let events = vec![accepted(4, |_| {}), claim(ClaimEvent::Taken { holder: holder(), at_work: true }, 5)];
    HandwrittenOperation { events, snapshot_after: 2 }
}

/// Returns an interrupted operation that holds its claim and waits for another operation's hook.
fn awaits_foreign_hook() -> HandwrittenOperation {
    let events = vec![
        accepted(5, |_| {}),
        claim(claim_held(), 1),
        planned(plan(vec![
            hook(Phase::PreSync, "backup"),
            task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create),
        ])),
        stage_changed(Stage::DryRun, 3),
        checked(0),
        checked(1),
        step(0, WaveStep::Held, 4),
        step(0, WaveStep::Clearing, 4),
        OperationEvent::HookNameInUse { task: TaskId(0), by: Some(occupant()) },
        OperationEvent::Paused { by: "ann".into(), reason: "waiting for cat".into(), at: at(11) },
    ];
    HandwrittenOperation { events, snapshot_after: 10 }
}

/// Returns an operation that was refused because another one held the claim.
fn claim_refused() -> HandwrittenOperation {
    let events = vec![
        accepted(6, |request| {
            request.claim = Some(ClaimRequest { namespace: None, if_taken: ClaimConflictPolicy::Refuse });
        }),
        claim(ClaimEvent::Taken { holder: holder(), at_work: true }, 5),
        finished(OperationPhase::Error, "another operation has the claim", 5),
    ];
    HandwrittenOperation { events, snapshot_after: 2 }
}

fn start_events(number: u128) -> Vec<OperationEvent> {
    vec![
        accepted(number, |request| {
            request.claim = Some(ClaimRequest { namespace: None, if_taken: ClaimConflictPolicy::Supersede });
        }),
        claim(claim_held(), 1),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create)])),
        stage_changed(Stage::DryRun, 3),
    ]
}

fn claim_lost() -> HandwrittenOperation {
    let mut events = start_events(7);
    events.extend([
        claim(ClaimEvent::Lost { holder: Some(holder()) }, 60),
        finished(OperationPhase::Error, "its claim ran out", 60),
    ]);
    HandwrittenOperation { events, snapshot_after: 5 }
}

fn superseded() -> HandwrittenOperation {
    let mut events = start_events(8);
    events.extend([
        claim(ClaimEvent::EndWanted { by: holder() }, 60),
        stage_changed(Stage::Terminating, 60),
        finished(OperationPhase::Failed, "Operation terminated, superseded", 60),
    ]);
    HandwrittenOperation { events, snapshot_after: 6 }
}

/// Returns an operation without a claim, terminated by a user.
fn terminated() -> HandwrittenOperation {
    let mut events = start_events(9);
    events[1] = claim(ClaimEvent::Without { reason: "leases is forbidden".into() }, 1);
    events.extend([
        OperationEvent::TerminationRequested { by: "bob".into(), at: at(9) },
        stage_changed(Stage::Terminating, 9),
        finished(OperationPhase::Failed, "Operation terminated", 9),
    ]);
    HandwrittenOperation { events, snapshot_after: 6 }
}

/// Returns all operations, oldest first. Their IDs start at 1.
pub fn all() -> Vec<HandwrittenOperation> {
    vec![
        fails_then_succeeds(),
        exceeds_deadlines(),
        dry_run_refused(),
        awaits_claim(),
        awaits_foreign_hook(),
        claim_refused(),
        claim_lost(),
        superseded(),
        terminated(),
        write_refused(),
        external_changes::prunes_slowly(),
        external_changes::namespace_is_deleted(),
        external_changes::namespace_is_recreated(),
        external_changes::object_is_recreated(),
        external_changes::health_rules_change(),
        external_changes::application_is_deleted(),
        external_changes::tasks_are_overridden(),
        external_changes::executes_stored_plan(),
        external_changes::stored_plan_is_outdated(),
        external_changes::job_starts_in_two_steps(),
        external_changes::awaits_dependency(),
    ]
}
