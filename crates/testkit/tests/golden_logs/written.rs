//! Operations written by hand, fact by fact: between them every kind of fact.

use std::time::Duration;

use tidegate_lifecycle::operation::{ClaimNews, DeadlineScope, Fact, HookLog, Stage, Verdict, WaveStep};
use tidegate_model::{
    Action, ClaimRequest, HealthStatus, IfTaken, OperationPhase, Phase, Plan, Severity, SyncRequest, Task,
    TaskId, TaskOptions, Warning,
};

use crate::words::*;

mod departures;

/// One operation, and after how many facts its snapshot is cut.
pub struct Written {
    pub facts: Vec<Fact>,
    pub snapshot_after: usize,
}

/// Two tasks before the resources, one after them.
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
        take_over: Some("kubectl-client-side-apply".into()),
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

/// Waits for its claim, fails once, and succeeds.
fn everything() -> Written {
    use OperationPhase::{Failed, Succeeded};
    let mut facts = vec![
        accepted(1, |_| {}),
        claim(ClaimNews::Taken { holder: holder(), at_work: false }, 1),
        call_failed(None, false, 1),
        call_failed(None, true, 1),
        Fact::Paused { by: "cat".into(), reason: "lunch".into(), at: at(1) },
        Fact::Unpaused { by: "cat".into(), at: at(2) },
        claim(held(), 2),
        planned(full_plan()),
        moved(Stage::DryRun, 3),
        call_failed(Some(2), false, 3),
        checked(0),
        checked(2),
        checked(6),
        checked(7),
    ];
    facts.extend(first_attempt(Failed));
    facts.extend([
        Fact::RetryStarted { attempt: 2, at: at(50) },
        step(0, WaveStep::Clearing, 50),
        Fact::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 51),
        applied(0, 52, false),
        step(0, WaveStep::AwaitingHealth, 52),
        completed(0, Succeeded, "backup done", 60),
        Fact::HookReleased { task: TaskId(0) },
        step(0, WaveStep::Passed, 60),
    ]);
    facts.extend(second_wave(Succeeded));
    facts.extend([
        step(2, WaveStep::Held, 70),
        step(2, WaveStep::Applying, 70),
        applied(6, 71, false),
        Fact::Warned { task: TaskId(6), warnings: vec!["apps/v1 is old".into(), "no probes".into()] },
        step(2, WaveStep::AwaitingHealth, 71),
        health(6, HealthStatus::Progressing, true, 72),
        completed(6, Succeeded, "", 80),
        step(2, WaveStep::Passed, 80),
        step(3, WaveStep::Held, 80),
        step(3, WaveStep::Clearing, 80),
        Fact::HookCleared { task: TaskId(7), deleting: None },
        step(3, WaveStep::Applying, 80),
        applied(7, 81, false),
        step(3, WaveStep::AwaitingHealth, 81),
        completed(7, Succeeded, "smoke done", 85),
        Fact::HookReleased { task: TaskId(7) },
        step(3, WaveStep::Passed, 85),
        moved(
            Stage::Finishing {
                phase: Succeeded,
                message: "successfully synced (no more tasks) (retried 1 times).".into(),
            },
            85,
        ),
        Fact::HookDeleted { task: TaskId(0), error: None },
        Fact::HookDeleted { task: TaskId(7), error: Some("failed to delete resource: denied".into()) },
        finished(Succeeded, "successfully synced (no more tasks) (retried 1 times).", 86),
    ]);
    Written { facts, snapshot_after: 37 }
}

fn first_attempt(failed: OperationPhase) -> Vec<Fact> {
    vec![
        step(0, WaveStep::Held, 4),
        step(0, WaveStep::Clearing, 4),
        Fact::PlaceTaken { task: TaskId(0), by: Some(occupant()) },
        Fact::PlaceTaken { task: TaskId(0), by: None },
        Fact::HookCleared { task: TaskId(0), deleting: Some("uid-before".into()) },
        Fact::ObjectGone { task: TaskId(0) },
        Fact::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 20),
        applied(0, 20, false),
        Fact::Warned { task: TaskId(0), warnings: vec!["batch/v1 is fine".into()] },
        Fact::RunnerStarted { task: TaskId(1), at: at(20) },
        step(0, WaveStep::AwaitingHealth, 21),
        health(0, HealthStatus::Progressing, true, 22),
        Fact::ReasonSeen { task: TaskId(0), reason: "crash-looping".into(), at: at(23) },
        Fact::Watching { trouble: Some("connection refused".into()), at: at(24) },
        Fact::Watching { trouble: None, at: at(25) },
        completed(1, OperationPhase::Succeeded, "paged", 26),
        completed(0, failed, "Job has reached the specified backoff limit", 30),
        Fact::LogsKept {
            task: TaskId(0),
            reason: "exit code 3".into(),
            logs: vec![HookLog {
                pod: "backup-x".into(),
                container: "main".into(),
                text: "no disk\n".into(),
            }],
        },
        Fact::HookReleased { task: TaskId(0) },
        Fact::AttemptFailed {
            message: "one or more synchronization tasks completed unsuccessfully".into(),
            retriable: true,
            at: at(31),
        },
        moved(Stage::AwaitingRetry { until: at(50) }, 31),
    ]
}

fn second_wave(succeeded: OperationPhase) -> Vec<Fact> {
    let closed =
        Verdict::Closed { reason: "nobody is there".into(), ask_again_after: Duration::from_secs(30) };
    vec![
        step(1, WaveStep::Held, 60),
        Fact::GateAnswered { gate: "night-shift".into(), verdict: closed, at: at(60) },
        Fact::GateAnswered { gate: "night-shift".into(), verdict: Verdict::Open, at: at(61) },
        Fact::Approved { wave: 1, by: "ann".into(), reason: "looks good".into(), at: at(61) },
        Fact::PruneConfirmed { by: "ann".into(), at: at(62) },
        step(1, WaveStep::DryRun, 62),
        checked(3),
        step(1, WaveStep::Pruning, 62),
        Fact::PruneSent { task: TaskId(4), gone: false },
        step(1, WaveStep::AwaitingGone, 63),
        Fact::ObjectGone { task: TaskId(4) },
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

/// A hook, a wave and the operation itself are late, one after the other.
fn late() -> Written {
    use OperationPhase::{Failed, Succeeded};
    let mut plan = plan(vec![
        hook(Phase::PreSync, "slow"),
        task(Phase::Sync, 0, "Deployment", "api", Action::Create),
        hook(Phase::SyncFail, "rescue"),
    ]);
    plan.waves[1].timeout = Some(Duration::from_secs(60));
    let late = |scope, message: &str, seconds| Fact::DeadlinePassed {
        scope,
        message: message.into(),
        at: at(seconds),
    };
    let stopped = |task, message: &str, clean| Fact::HookStopped {
        task: TaskId(task),
        phase: Failed,
        message: message.into(),
        clean,
    };
    let open = |index: u32, task: u32, seconds: u64| {
        [
            step(index, WaveStep::Clearing, seconds),
            Fact::HookCleared { task: TaskId(task), deleting: None },
            step(index, WaveStep::Applying, seconds),
            applied(task, seconds, false),
            step(index, WaveStep::AwaitingHealth, seconds),
        ]
    };
    let mut facts = vec![
        accepted(2, |request| {
            request.options.skip_dry_run = true;
            request.claim = None;
        }),
        planned(plan),
        step(0, WaveStep::Held, 3),
    ];
    facts.extend(open(0, 0, 4));
    facts.extend([
        late(DeadlineScope::Hook(TaskId(0)), "hook did not complete within 90 s", 94),
        Fact::LogsKept { task: TaskId(0), reason: String::new(), logs: Vec::new() },
        stopped(0, "hook did not complete within 90 s", true),
        Fact::AttemptFailed { message: "the hook was late".into(), retriable: true, at: at(95) },
        moved(Stage::AwaitingRetry { until: at(102) }, 95),
        Fact::RetryStarted { attempt: 2, at: at(102) },
    ]);
    facts.extend(open(0, 0, 103));
    facts.extend([
        completed(0, Succeeded, "done", 110),
        Fact::HookReleased { task: TaskId(0) },
        step(0, WaveStep::Passed, 110),
        step(1, WaveStep::Held, 110),
        step(1, WaveStep::Applying, 110),
        applied(1, 111, false),
        step(1, WaveStep::AwaitingHealth, 111),
        health(1, HealthStatus::Progressing, true, 112),
        late(DeadlineScope::Wave, "wave 0 of Sync did not pass within 1 min", 170),
        Fact::AttemptFailed { message: "the wave was late".into(), retriable: false, at: at(170) },
        step(2, WaveStep::Held, 170),
    ]);
    facts.extend(open(2, 2, 171));
    facts.extend([
        late(
            DeadlineScope::Operation,
            "Operation terminated, triggered by the operation deadline of 1 h",
            3_600,
        ),
        stopped(2, "Terminated", false),
        finished(OperationPhase::Error, "Operation terminated had errors", 3_601),
    ]);
    Written { facts, snapshot_after: 30 }
}

/// The server refuses a manifest in the dry run.
fn refused() -> Written {
    let config = task(Phase::Sync, 0, "ConfigMap", "broken", Action::Create);
    let facts = vec![
        accepted(3, plain),
        planned(plan(vec![config])),
        moved(Stage::DryRun, 3),
        Fact::CheckFailed { task: TaskId(0), message: "spec.data: unknown field".into() },
        Fact::AttemptFailed {
            message: "one or more objects failed to apply (dry run)".into(),
            retriable: true,
            at: at(3),
        },
        finished(OperationPhase::Failed, "one or more objects failed to apply (dry run)", 4),
    ];
    Written { facts, snapshot_after: 5 }
}

/// The server refuses a manifest when it is written.
fn denied() -> Written {
    let skipping = |request: &mut SyncRequest| {
        plain(request);
        request.options.skip_dry_run = true;
    };
    let phase = OperationPhase::Failed;
    let message = "one or more objects failed to apply, reason: denied by policy".to_owned();
    let facts = vec![
        accepted(10, skipping),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "broken", Action::Create)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        Fact::TaskFailed { task: TaskId(0), phase, message: "denied by policy".into(), at: at(4) },
        step(0, WaveStep::AwaitingHealth, 4),
        Fact::AttemptFailed { message: message.clone(), retriable: false, at: at(4) },
        moved(Stage::Finishing { phase, message: message.clone() }, 4),
        finished(phase, &message, 4),
    ];
    Written { facts, snapshot_after: 6 }
}

/// It waits for its claim, and nobody goes on.
fn awaits_claim() -> Written {
    let facts = vec![accepted(4, |_| {}), claim(ClaimNews::Taken { holder: holder(), at_work: true }, 5)];
    Written { facts, snapshot_after: 2 }
}

/// It holds its claim and waits for the place of a hook, and nobody goes on.
fn awaits_place() -> Written {
    let facts = vec![
        accepted(5, |_| {}),
        claim(held(), 1),
        planned(plan(vec![
            hook(Phase::PreSync, "backup"),
            task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create),
        ])),
        moved(Stage::DryRun, 3),
        checked(0),
        checked(1),
        step(0, WaveStep::Held, 4),
        step(0, WaveStep::Clearing, 4),
        Fact::PlaceTaken { task: TaskId(0), by: Some(occupant()) },
        Fact::Paused { by: "ann".into(), reason: "waiting for cat".into(), at: at(11) },
    ];
    Written { facts, snapshot_after: 10 }
}

/// Another operation had the claim.
fn claim_refused() -> Written {
    let facts = vec![
        accepted(6, |request| {
            request.claim = Some(ClaimRequest { namespace: None, if_taken: IfTaken::Refuse });
        }),
        claim(ClaimNews::Taken { holder: holder(), at_work: true }, 5),
        finished(OperationPhase::Error, "another operation has the claim", 5),
    ];
    Written { facts, snapshot_after: 2 }
}

fn begun(number: u128) -> Vec<Fact> {
    vec![
        accepted(number, |request| {
            request.claim = Some(ClaimRequest { namespace: None, if_taken: IfTaken::Supersede });
        }),
        claim(held(), 1),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create)])),
        moved(Stage::DryRun, 3),
    ]
}

fn claim_lost() -> Written {
    let mut facts = begun(7);
    facts.extend([
        claim(ClaimNews::Lost { holder: Some(holder()) }, 60),
        finished(OperationPhase::Error, "its claim ran out", 60),
    ]);
    Written { facts, snapshot_after: 5 }
}

fn superseded() -> Written {
    let mut facts = begun(8);
    facts.extend([
        claim(ClaimNews::EndWanted { by: holder() }, 60),
        finished(OperationPhase::Failed, "Operation terminated, superseded", 60),
    ]);
    Written { facts, snapshot_after: 5 }
}

/// No claim can be had, and a person ends it.
fn terminated() -> Written {
    let mut facts = begun(9);
    facts[1] = claim(ClaimNews::Without { reason: "leases is forbidden".into() }, 1);
    facts.extend([
        Fact::TerminateRequested { by: "bob".into(), at: at(9) },
        finished(OperationPhase::Failed, "Operation terminated", 9),
    ]);
    Written { facts, snapshot_after: 5 }
}

/// All of them, oldest first; the ids count from 1.
pub fn all() -> Vec<Written> {
    vec![
        everything(),
        late(),
        refused(),
        awaits_claim(),
        awaits_place(),
        claim_refused(),
        claim_lost(),
        superseded(),
        terminated(),
        denied(),
        departures::prunes_slowly(),
        departures::namespace_goes(),
        departures::namespace_is_made_again(),
        departures::is_created_again(),
        departures::is_judged_anew(),
        departures::is_deleted(),
        departures::people_decide(),
        departures::carries_out_a_kept_plan(),
        departures::kept_plan_does_not_fit(),
    ]
}
