//! Objects that were told to go, a namespace, rules that change, and an application that is deleted.

use tidegate_lifecycle::operation::{Fact, Identity, Loss, Stage, WaveStep};
use tidegate_model::{
    Action, Cascade, Digest, OperationPhase, Override, Phase, PlanApproval, SyncRequest, TakenPlan, TaskId,
};

use super::Written;
use crate::words::*;

/// What it prunes stays for a while, and the last look finds all well.
pub fn prunes_slowly() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let skipping = |request: &mut SyncRequest| {
        plain(request);
        request.options.skip_dry_run = true;
    };
    let facts = vec![
        accepted(11, skipping),
        planned(plan(vec![
            task(Phase::Sync, 0, "ConfigMap", "old", Action::Prune),
            task(Phase::Sync, 0, "ConfigMap", "older", Action::Prune),
            task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create),
        ])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Pruning, 3),
        Fact::DeletionBegun { task: TaskId(0) },
        Fact::PruneSent { task: TaskId(1), gone: true },
        step(0, WaveStep::Applying, 4),
        applied(2, 4, true),
        step(0, WaveStep::AwaitingHealth, 4),
        Fact::ReasonSeen {
            task: TaskId(0),
            reason: "waits for finalizer example.com/guard".into(),
            at: at(5),
        },
        Fact::ObjectGone { task: TaskId(0) },
        step(0, WaveStep::Verifying, 60),
        step(0, WaveStep::Passed, 60),
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 60),
        finished(succeeded, message, 60),
    ];
    Written { facts, snapshot_after: 10 }
}

/// What it prunes stays, its namespace goes, and so it ends.
pub fn namespace_goes() -> Written {
    let failed = OperationPhase::Failed;
    let message = "namespace store is being deleted";
    let facts = vec![
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
        Fact::DeletionBegun { task: TaskId(0) },
        step(0, WaveStep::Applying, 4),
        applied(1, 4, false),
        step(0, WaveStep::AwaitingHealth, 4),
        Fact::NamespaceTerminating { namespace: "store".into(), at: at(9) },
        Fact::AttemptFailed { message: message.into(), retriable: false, at: at(9) },
        moved(Stage::Finishing { phase: failed, message: message.into() }, 9),
        finished(failed, message, 9),
    ];
    Written { facts, snapshot_after: 9 }
}

/// Its namespace is another one when it comes back, so it plans anew.
pub fn namespace_is_made_again() -> Written {
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
        let identity = Identity { uid: uid.into(), resource_version: version.into() };
        Fact::NamespacesSeen { namespaces: vec![("store".into(), identity)] }
    };
    let mut facts = vec![
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
        Fact::NamespaceLost { namespace: "store".into(), loss: Loss::MadeAgain, at: at(9) },
        Fact::AttemptFailed { message: lost.into(), retriable: true, at: at(9) },
        moved(Stage::AwaitingRetry { until: at(14) }, 9),
        Fact::RetryPlansAnew { attempt: 2, at: at(14) },
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
    facts.extend([
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 16),
        finished(succeeded, message, 16),
    ]);
    Written { facts, snapshot_after: 15 }
}

/// It cannot be changed, so it goes and is created again.
pub fn is_created_again() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let facts = vec![
        accepted(14, |request| {
            plain(request);
            request.options.skip_dry_run = true;
        }),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Replace)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        Fact::RecreationBegun { task: TaskId(0), uid: "live-settings".into() },
        Fact::ReasonSeen {
            task: TaskId(0),
            reason: "waits for finalizer example.com/guard".into(),
            at: at(5),
        },
        Fact::ObjectGone { task: TaskId(0) },
        applied(0, 60, true),
        step(0, WaveStep::AwaitingHealth, 60),
        step(0, WaveStep::Verifying, 60),
        step(0, WaveStep::Passed, 60),
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 60),
        finished(succeeded, message, 60),
    ];
    Written { facts, snapshot_after: 6 }
}

/// The rules for health change while it waits.
pub fn is_judged_anew() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let judged = |byte, millis| Fact::HealthRulesKnown { digest: Digest([byte; 32]), at: at(millis) };
    let facts = vec![
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
        Fact::TaskCompleted { task: TaskId(0), phase: succeeded, message: "well".into(), at: at(10) },
        step(0, WaveStep::Verifying, 10),
        step(0, WaveStep::Passed, 10),
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 10),
        finished(succeeded, message, 10),
    ];
    Written { facts, snapshot_after: 8 }
}

/// Its application is deleted.
pub fn is_deleted() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let prune = |wave, name| task(Phase::Sync, wave, "ConfigMap", name, Action::Prune);
    let hook_runs = |index: u32, task: u32, from: u64| {
        vec![
            step(index, WaveStep::Held, from),
            step(index, WaveStep::Clearing, from),
            Fact::HookCleared { task: TaskId(task), deleting: None },
            step(index, WaveStep::Applying, from),
            applied(task, from, false),
            step(index, WaveStep::AwaitingHealth, from),
            completed(task, OperationPhase::Succeeded, "done", from + 5),
            Fact::HookReleased { task: TaskId(task) },
        ]
    };
    let goes = |index: u32, task: u32, from: u64| {
        vec![
            step(index, WaveStep::Held, from),
            step(index, WaveStep::Pruning, from),
            Fact::DeletionBegun { task: TaskId(task) },
            step(index, WaveStep::AwaitingGone, from),
            Fact::ObjectGone { task: TaskId(task) },
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
    let mut facts = vec![
        accepted(16, |request| {
            plain(request);
            request.options.skip_dry_run = true;
            request.selection.clear();
            request.deletion = Some(Cascade::Background);
        }),
        planned(plan),
    ];
    facts.extend(hook_runs(0, 0, 3));
    facts.push(step(0, WaveStep::Passed, 8));
    facts.extend(goes(1, 1, 9));
    facts.extend(goes(2, 2, 13));
    facts.extend(hook_runs(3, 3, 17));
    facts.extend([
        step(3, WaveStep::Verifying, 22),
        step(3, WaveStep::Passed, 22),
        moved(Stage::Finishing { phase: succeeded, message: "successfully deleted".into() }, 22),
        Fact::HookDeleted { task: TaskId(0), error: None },
        Fact::HookDeleted { task: TaskId(3), error: None },
        finished(succeeded, "successfully deleted", 23),
    ]);
    Written { facts, snapshot_after: 14 }
}

/// A person skips a hook that runs, marks a task to come as done, and has a refused one tried again.
pub fn people_decide() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let decided = |task, what, reason: &str, seconds| Fact::Overridden {
        task: TaskId(task),
        what,
        by: "ann".into(),
        reason: reason.into(),
        at: at(seconds),
    };
    let sync = |wave, name| task(Phase::Sync, wave, "ConfigMap", name, Action::Create);
    let message = "successfully synced (all tasks run); skipped: hook Job store/backup; marked as done: ConfigMap \
                   store/done";
    let facts = vec![
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
        Fact::HookCleared { task: TaskId(0), deleting: None },
        step(0, WaveStep::Applying, 3),
        applied(0, 3, false),
        step(0, WaveStep::AwaitingHealth, 3),
        decided(3, Override::MarkDone, "is there already", 4),
        decided(0, Override::Skip, "it takes too long", 9),
        Fact::LogsKept { task: TaskId(0), reason: String::new(), logs: Vec::new() },
        Fact::HookStopped {
            task: TaskId(0),
            phase: OperationPhase::Failed,
            message: "stopped".into(),
            clean: true,
        },
        step(0, WaveStep::Passed, 10),
        step(1, WaveStep::Held, 10),
        step(1, WaveStep::Applying, 10),
        Fact::TaskFailed {
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
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 14),
        finished(succeeded, message, 14),
    ];
    Written { facts, snapshot_after: 20 }
}

/// A plan that was kept and approved is carried out.
pub fn carries_out_a_kept_plan() -> Written {
    let succeeded = OperationPhase::Succeeded;
    let message = "successfully synced (all tasks run)";
    let facts = vec![
        accepted(18, |_| {}),
        taken(18),
        planned(plan(vec![task(Phase::Sync, 0, "ConfigMap", "settings", Action::Create)])),
        step(0, WaveStep::Held, 3),
        step(0, WaveStep::Applying, 3),
        applied(0, 4, true),
        step(0, WaveStep::Passed, 4),
        moved(Stage::Finishing { phase: succeeded, message: message.into() }, 4),
        finished(succeeded, message, 4),
    ];
    Written { facts, snapshot_after: 5 }
}

/// The cluster has moved since a plan was made.
pub fn kept_plan_does_not_fit() -> Written {
    let message = "plan 2121 does not fit any more: ConfigMap store/settings: it was there, and is gone";
    let facts = vec![accepted(19, |_| {}), taken(19), finished(OperationPhase::Error, message, 2)];
    Written { facts, snapshot_after: 2 }
}

fn taken(number: u8) -> Fact {
    let approval = |by: &str| PlanApproval { by: by.into(), reason: "looked at it".into(), at: at(0) };
    let plan = TakenPlan {
        hash: Digest([number; 32]),
        made_at: at(0),
        approvals: vec![approval("ann"), approval("bob")],
    };
    Fact::PlanTaken { plan: Box::new(plan), at: at(1) }
}
