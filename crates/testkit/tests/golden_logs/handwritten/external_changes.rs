//! Operations with deleted objects, a lost namespace, changed rules, and the deletion of an application.

use tidegate_lifecycle::operation::{Loss, ObjectIdentity, OperationEvent, Stage, WaveStep};
use tidegate_model::{
    Action, Cascade, Digest, OperationPhase, Override, Phase, PlanApproval, StoredPlanRef, SyncRequest,
    TaskDependency, TaskId,
};

use super::HandwrittenOperation;
use crate::event_builders::*;

/// Returns an operation with slow prunes that ends after a successful final check.
pub fn prunes_slowly() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let skipping = |request: &mut SyncRequest| {
        plain(request);
        request.options.skip_dry_run = true;
    };
    let events = vec![
        accepted(11, skipping),
        planned(plan(vec![
            task(Phase::Sync, 0, "ConfigMap", "old", Action::Prune),
            task(Phase::Sync, 0, "ConfigMap", "older", Action::Prune),
            task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create),
        ])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Pruning, 3),
        OperationEvent::DeletionStarted { task: TaskId(0) },
        OperationEvent::ObjectDeleted { task: TaskId(1) },
        step(0, WaveStep::Applying, 4),
        applied(2, 4, true),
        step(0, WaveStep::AwaitingHealth, 4),
        OperationEvent::ReasonChanged {
            task: TaskId(0),
            reason: "waits for finalizer example.com/guard".into(),
            at: at(5),
        },
        OperationEvent::DeletionCompleted { task: TaskId(0) },
        step(0, WaveStep::Verifying, 60),
        step(0, WaveStep::Passed, 60),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 60),
        finished(succeeded, message, 60),
    ];
    HandwrittenOperation { events, snapshot_after: 10 }
}

/// Returns an operation with an unfinished prune that fails because its namespace is being deleted.
pub fn namespace_is_deleted() -> HandwrittenOperation {
    let failed = OperationPhase::Failed;
    let message = "namespace store is being deleted";
    let events = vec![
        accepted(12, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![
            task(Phase::Sync, 0, "ConfigMap", "old", Action::Prune),
            task(Phase::Sync, 0, "Deployment", "api", Action::Create),
        ])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Pruning, 3),
        OperationEvent::DeletionStarted { task: TaskId(0) },
        step(0, WaveStep::Applying, 4),
        applied(1, 4, false),
        step(0, WaveStep::AwaitingHealth, 4),
        OperationEvent::NamespaceLost { namespace: "store".into(), loss: Loss::Terminating, at: at(9) },
        OperationEvent::AttemptFailed { message: message.into(), retriable: false, at: at(9) },
        stage_changed(Stage::Finishing { phase: failed, message: message.into() }, 9),
        finished(failed, message, 9),
    ];
    HandwrittenOperation { events, snapshot_after: 9 }
}

/// Returns an operation that creates another plan because its namespace was recreated.
pub fn namespace_is_recreated() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let lost = "namespace store was deleted and made again";
    let message = "successfully synced (all tasks run)";
    let tasks = || {
        plan(vec![
            task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create),
            task(Phase::Sync, 1, "Deployment", "api", Action::Create),
        ])
    };
    let seen = |uid: &str, version: &str| {
        let identity = ObjectIdentity { uid: uid.into(), resource_version: version.into() };
        OperationEvent::NamespacesObserved { namespaces: vec![("store".into(), identity)] }
    };
    let mut events = vec![
        accepted(13, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(tasks()),
        seen("store-1", "7"),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        applied(0, 3, true),
        step(0, WaveStep::AwaitingHealth, 3),
        step(0, WaveStep::Passed, 3),
        step(1, WaveStep::Held, 3),
        step(1, WaveStep::Applying, 3),
        applied(1, 4, false),
        step(1, WaveStep::AwaitingHealth, 4),
        OperationEvent::NamespaceLost { namespace: "store".into(), loss: Loss::MadeAgain, at: at(9) },
        OperationEvent::AttemptFailed { message: lost.into(), retriable: true, at: at(9) },
        stage_changed(Stage::AwaitingRetry { until: at(14) }, 9),
        OperationEvent::ReplanStarted { attempt: 2, at: at(14) },
        planned(tasks()),
        seen("store-2", "70"),
        step(0, WaveStep::Held, 15),
        step(0, WaveStep::Applying, 15),
        applied(0, 15, true),
        step(0, WaveStep::AwaitingHealth, 15),
        step(0, WaveStep::Passed, 15),
        step(1, WaveStep::Held, 15),
        step(1, WaveStep::Applying, 15),
        applied(1, 16, true),
        step(1, WaveStep::AwaitingHealth, 16),
        step(1, WaveStep::Verifying, 16),
        step(1, WaveStep::Passed, 16),
    ];
    events.extend([
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 16),
        finished(succeeded, message, 16),
    ]);
    HandwrittenOperation { events, snapshot_after: 15 }
}

/// Returns an operation that deletes and recreates an immutable object.
pub fn object_is_recreated() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let events = vec![
        accepted(14, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Replace)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        OperationEvent::RecreationStarted { task: TaskId(0), uid: "live-settings".into() },
        OperationEvent::ReasonChanged {
            task: TaskId(0),
            reason: "waits for finalizer example.com/guard".into(),
            at: at(5),
        },
        OperationEvent::DeletionCompleted { task: TaskId(0) },
        applied(0, 60, true),
        step(0, WaveStep::AwaitingHealth, 60),
        step(0, WaveStep::Verifying, 60),
        step(0, WaveStep::Passed, 60),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 60),
        finished(succeeded, message, 60),
    ];
    HandwrittenOperation { events, snapshot_after: 6 }
}

/// Returns an operation with health rules that change while it waits.
pub fn health_rules_change() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let judged = |byte, millis| OperationEvent::HealthRulesSet { digest: Digest([byte; 32]), at: at(millis) };
    let events = vec![
        accepted(15, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![task(Phase::Sync, 0, "Deployment", "api", Action::Create)])),
        judged(0x0f, 2),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        applied(0, 3, false),
        step(0, WaveStep::AwaitingHealth, 3),
        judged(0x77, 9),
        OperationEvent::TaskCompleted {
            task: TaskId(0),
            phase: succeeded,
            message: "well".into(),
            at: at(10),
        },
        step(0, WaveStep::Verifying, 10),
        step(0, WaveStep::Passed, 10),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 10),
        finished(succeeded, message, 10),
    ];
    HandwrittenOperation { events, snapshot_after: 8 }
}

/// Returns the deletion of an application.
pub fn application_is_deleted() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let prune = |wave, name| task(Phase::Sync, wave, "ConfigMap", name, Action::Prune);
    let hook_runs = |index: u32, task: u32, from: u64| {
        vec![
            step(index, WaveStep::Held, from),
            step(index, WaveStep::Clearing, from),
            OperationEvent::HookCleared { task: TaskId(task), deleting: None },
            step(index, WaveStep::Applying, from),
            applied(task, from, false),
            step(index, WaveStep::AwaitingHealth, from),
            completed(task, OperationPhase::Succeeded, "done", from + 5),
            OperationEvent::HookFinalizerRemoved { task: TaskId(task) },
        ]
    };
    let goes = |index: u32, task: u32, from: u64| {
        vec![
            step(index, WaveStep::Held, from),
            step(index, WaveStep::Pruning, from),
            OperationEvent::DeletionStarted { task: TaskId(task) },
            step(index, WaveStep::AwaitingGone, from),
            OperationEvent::DeletionCompleted { task: TaskId(task) },
            step(index, WaveStep::AwaitingHealth, from + 3),
            step(index, WaveStep::Passed, from + 3),
        ]
    };
    let plan = plan(vec![
        hook(Phase::PreDelete, "drain"),
        prune(0, "later"),
        prune(1, "earlier"),
        hook(Phase::PostDelete, "report"),
    ]);
    let mut events = vec![
        accepted(16, |request| {
            plain(request);
            request.options.skip_dry_run = true;
            request.selection.clear();
            request.deletion = Some(Cascade::Background);
        }),
        planned(plan),
    ];
    events.extend(hook_runs(0, 0, 3));
    events.push(step(0, WaveStep::Passed, 8));
    events.extend(goes(1, 1, 9));
    events.extend(goes(2, 2, 13));
    events.extend(hook_runs(3, 3, 17));
    events.extend([
        step(3, WaveStep::Verifying, 22),
        step(3, WaveStep::Passed, 22),
        stage_changed(Stage::Finishing { phase: succeeded, message: "successfully deleted".into() }, 22),
        OperationEvent::HookDeleted { task: TaskId(0), error: None },
        OperationEvent::HookDeleted { task: TaskId(3), error: None },
        finished(succeeded, "successfully deleted", 23),
    ]);
    HandwrittenOperation { events, snapshot_after: 14 }
}

/// Returns an operation with a user who skips a running hook, marks a future task as done, and retries a
/// refused task.
pub fn tasks_are_overridden() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let decided = |task, what, reason: &str, seconds| OperationEvent::Overridden {
        task: TaskId(task),
        what,
        by: "ann".into(),
        reason: reason.into(),
        at: at(seconds),
    };
    let sync = |wave, name| task(Phase::Sync, wave, "ConfigMap", name, Action::Create);
    let message = "successfully synced (all tasks run); skipped: hook Job store/backup; marked as done: ConfigMap \
                   store/done";
    let events = vec![
        accepted(17, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![
            hook(Phase::PreSync, "backup"),
            sync(0, "refused"),
            sync(0, "slow"),
            sync(1, "done"),
        ])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Clearing, 3),
        OperationEvent::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 3),
        applied(0, 3, false),
        step(0, WaveStep::AwaitingHealth, 3),
        decided(3, Override::MarkDone, "is there already", 4),
        decided(0, Override::Skip, "it takes too long", 9),
        OperationEvent::LogsStored { task: TaskId(0), reason: String::new(), logs: Vec::new() },
        OperationEvent::HookStopped {
            task: TaskId(0),
            phase: OperationPhase::Failed,
            message: "stopped".into(),
            clean: true,
        },
        step(0, WaveStep::Passed, 10),
        step(1, WaveStep::Held, 10),
        step(1, WaveStep::Applying, 10),
        OperationEvent::TaskFailed {
            task: TaskId(1),
            phase: OperationPhase::Failed,
            message: "denied".into(),
            at: at(11),
        },
        applied(2, 11, false),
        step(1, WaveStep::AwaitingHealth, 11),
        decided(1, Override::Retry, "", 12),
        step(1, WaveStep::Applying, 12),
        applied(1, 13, true),
        step(1, WaveStep::AwaitingHealth, 13),
        completed(2, succeeded, "", 14),
        step(1, WaveStep::Passed, 14),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 14),
        finished(succeeded, message, 14),
    ];
    HandwrittenOperation { events, snapshot_after: 20 }
}

/// Returns an operation that executes a stored and approved plan.
pub fn executes_stored_plan() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let events = vec![
        accepted(18, |_| {}),
        plan_taken(18),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        applied(0, 4, true),
        step(0, WaveStep::Passed, 4),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 4),
        finished(succeeded, message, 4),
    ];
    HandwrittenOperation { events, snapshot_after: 5 }
}

/// Returns an operation whose stored plan is outdated because the cluster has changed.
pub fn stored_plan_is_outdated() -> HandwrittenOperation {
    let message = "plan 2121 does not fit any more: ConfigMap store/settings: it was there, and is gone";
    let events = vec![accepted(19, |_| {}), plan_taken(19), finished(OperationPhase::Error, message, 2)];
    HandwrittenOperation { events, snapshot_after: 2 }
}

/// Returns an operation whose hook is a Job that starts after its UID is recorded.
pub fn job_starts_in_two_steps() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let events = vec![
        accepted(20, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![hook(Phase::PreSync, "backup")])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Clearing, 3),
        OperationEvent::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 3),
        OperationEvent::HookSuspended {
            task: TaskId(0),
            uid: "uid-0".into(),
            message: "job.batch/backup created".into(),
        },
        applied(0, 4, false),
        step(0, WaveStep::AwaitingHealth, 4),
        completed(0, succeeded, "done", 9),
        OperationEvent::HookFinalizerRemoved { task: TaskId(0) },
        step(0, WaveStep::Passed, 9),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 9),
        OperationEvent::HookDeleted { task: TaskId(0), error: None },
        finished(succeeded, message, 10),
    ];
    HandwrittenOperation { events, snapshot_after: 7 }
}

/// Returns an operation with a Deployment that is applied once another one is healthy.
pub fn awaits_dependency() -> HandwrittenOperation {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let deployment = |name| task(Phase::Sync, 0, "Deployment", name, Action::Create);
    let mut plan = plan(vec![deployment("api"), deployment("database")]);
    plan.dependencies = vec![TaskDependency { dependent: TaskId(0), dependency: TaskId(1) }];
    let events = vec![
        accepted(21, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        applied(1, 4, false),
        completed(1, succeeded, "", 6),
        applied(0, 7, false),
        step(0, WaveStep::AwaitingHealth, 7),
        step(0, WaveStep::Passed, 7),
        stage_changed(Stage::Finishing { phase: succeeded, message: message.into() }, 7),
        finished(succeeded, message, 8),
    ];
    HandwrittenOperation { events, snapshot_after: 5 }
}

fn plan_taken(number: u8) -> OperationEvent {
    let approval = |by: &str| PlanApproval { by: by.into(), reason: "looked at it".into(), at: at(0) };
    let plan = StoredPlanRef {
        hash: Digest([number; 32]),
        made_at: at(0),
        approvals: vec![approval("ann"), approval("bob")],
    };
    OperationEvent::StoredPlanUsed { plan: Box::new(plan), at: at(1) }
}
