//! Emitted events of an operation. The tests with random worlds check that live events equal events that are
//! read from the log.

use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{
    ClaimEvent, Deadline, DeadlineScope, EventEmitter, EventKind, Loss, OperationEvent, Stage, Verdict,
    WaveName, WaveStep,
};
use tidegate_model::{
    ClaimConflictPolicy, ClaimHolder, ClaimLocation, ClaimRequest, Digest, OperationPhase, Override, Phase,
    SyncRequest, TaskId,
};

use crate::build::{DIGEST, at, hook_task, id, plan, prune_task, request, resource, stored_plan};

fn accepted_event(request: SyncRequest) -> OperationEvent {
    OperationEvent::Accepted { operation: id(), request: Box::new(request), targets: DIGEST, at: at(1) }
}

fn emitted_events(recorded: &[OperationEvent]) -> Vec<(u64, EventKind)> {
    let mut emitter = EventEmitter::default();
    let events = recorded.iter().filter_map(|event| emitter.emit(event));
    events.map(|event| (event.sequence, event.what)).collect()
}

/// Each row contains a recorded event and the emitted event, if any. Recorded events that aren't emitted
/// still use up a sequence number.
#[test]
fn relevant_events_are_emitted_with_their_sequence_number() {
    let plan = plan([
        prune_task(0, "ConfigMap/old"),
        resource(2, "ConfigMap/new"),
        hook_task(Phase::PostSync, 0, "Job/after"),
    ]);
    let keys: Vec<_> = plan.tasks.iter().map(tidegate_model::Task::key).collect();
    let key = |name: &str| keys.iter().find(|key| key.name == name).cloned().unwrap();
    let find = |name: &str| {
        let position = keys.iter().position(|key| key.name == name).unwrap();
        TaskId(u32::try_from(position).unwrap())
    };
    let (old, new, after) = (find("old"), find("new"), find("after"));
    let wave = plan.waves.iter().position(|wave| wave.wave == 2).unwrap();
    let applying = Stage::Wave { index: u32::try_from(wave).unwrap(), step: WaveStep::Applying };
    let closed = Verdict::Closed { reason: "not yet".into(), ask_again_after: Duration::from_secs(1) };
    let text = || "words".to_owned();
    let phase = OperationPhase::Failed;
    let planned = EventKind::Planned { waves: plan.waves.len(), tasks: 3 };
    let in_wave = Some(WaveName { phase: Phase::Sync, wave: 2 });
    let passed = |scope| OperationEvent::DeadlineExceeded { scope, message: text(), at: at(1) };
    let deadline = |of| Some(EventKind::DeadlineExceeded { of, message: text() });
    let task = |name| Some(EventKind::Task { object: key(name), phase, message: text() });
    let pruned = |gone| Some(EventKind::Prune { object: key("old"), gone });
    let judged_by = |rules| OperationEvent::HealthRulesSet { digest: Digest([rules; 32]), at: at(8) };
    let silent = |message: &str| OperationEvent::CallFailed {
        task: Some(new),
        message: message.into(),
        retry_at: at(9),
        at: at(8),
        outage: true,
    };
    let rows = [
        (accepted_event(request()), Some(EventKind::Accepted)),
        (OperationEvent::Planned { plan: Arc::new(plan), bundle: DIGEST, at: at(1) }, Some(planned)),
        (
            OperationEvent::StageChanged { to: applying.clone(), at: at(2) },
            Some(EventKind::StageChanged { to: applying, wave: in_wave }),
        ),
        (
            OperationEvent::StageChanged { to: Stage::DryRun, at: at(2) },
            Some(EventKind::StageChanged { to: Stage::DryRun, wave: None }),
        ),
        (
            OperationEvent::GateEvaluated { gate: "g".into(), verdict: closed.clone(), at: at(3) },
            Some(EventKind::Gate { gate: "g".into(), verdict: closed }),
        ),
        (OperationEvent::DryRunPassed { task: new, message: text() }, None),
        (OperationEvent::DeletionStarted { task: old }, pruned(false)),
        (OperationEvent::DeletionCompleted { task: old }, pruned(true)),
        (OperationEvent::ObjectDeleted { task: old }, pruned(true)),
        // The deletion of an older hook object isn't a prune.
        (OperationEvent::DeletionCompleted { task: after }, None),
        (OperationEvent::TaskCompleted { task: new, phase, message: text(), at: at(4) }, task("new")),
        (OperationEvent::TaskFailed { task: after, phase, message: text(), at: at(4) }, task("after")),
        (
            OperationEvent::HookStopped { task: after, phase, message: text(), clean: true },
            Some(EventKind::HookStopped { object: key("after"), phase, message: text(), clean: true }),
        ),
        (
            OperationEvent::WarningsReceived { task: new, warnings: vec![text()] },
            Some(EventKind::WarningsReceived { object: key("new"), warnings: vec![text()] }),
        ),
        (passed(DeadlineScope::Operation), deadline(Deadline::Operation)),
        (passed(DeadlineScope::Wave), deadline(Deadline::Wave)),
        (passed(DeadlineScope::Hook(after)), deadline(Deadline::Hook(key("after")))),
        (
            OperationEvent::NamespaceLost { namespace: "shop".into(), loss: Loss::Terminating, at: at(5) },
            Some(EventKind::NamespaceTerminating { namespace: "shop".into() }),
        ),
        (
            OperationEvent::NamespaceLost { namespace: "shop".into(), loss: Loss::MadeAgain, at: at(5) },
            Some(EventKind::NamespaceLost { namespace: "shop".into(), loss: Loss::MadeAgain }),
        ),
        (OperationEvent::NamespacesObserved { namespaces: Vec::new() }, None),
        (
            OperationEvent::AttemptFailed { message: text(), retriable: true, at: at(6) },
            Some(EventKind::AttemptFailed { message: text(), retriable: true }),
        ),
        (
            OperationEvent::RetryStarted { attempt: 2, at: at(7) },
            Some(EventKind::RetryStarted { attempt: 2 }),
        ),
        (
            OperationEvent::TerminationRequested { by: "ann".into(), at: at(8) },
            Some(EventKind::TerminationRequested { by: "ann".into() }),
        ),
        (
            OperationEvent::Paused { by: "ann".into(), reason: "lunch".into(), at: at(8) },
            Some(EventKind::Paused { by: "ann".into(), reason: "lunch".into() }),
        ),
        (
            OperationEvent::Unpaused { by: "bob".into(), at: at(8) },
            Some(EventKind::Unpaused { by: "bob".into() }),
        ),
        (
            OperationEvent::PruneConfirmed { by: "ann".into(), at: at(8) },
            Some(EventKind::PruneConfirmed { by: "ann".into() }),
        ),
        (
            OperationEvent::Approved { wave: 0, by: "ann".into(), reason: "fine".into(), at: at(8) },
            Some(EventKind::Approved { wave: 0, by: "ann".into(), reason: "fine".into() }),
        ),
        (
            OperationEvent::Overridden {
                task: after,
                what: Override::Skip,
                by: "ann".into(),
                reason: "away".into(),
                at: at(8),
            },
            Some(EventKind::Overridden {
                object: key("after"),
                what: Override::Skip,
                by: "ann".into(),
                reason: "away".into(),
            }),
        ),
        (
            OperationEvent::StoredPlanUsed { plan: Box::new(stored_plan()), at: at(8) },
            Some(EventKind::StoredPlanUsed { plan: Box::new(stored_plan()) }),
        ),
        (judged_by(1), None),
        (judged_by(2), Some(EventKind::HealthRulesChanged { digest: Digest([2; 32]) })),
        (silent("gone"), Some(EventKind::ClusterUnreachable { message: "gone".into() })),
        (silent("still gone"), None),
        (OperationEvent::DryRunPassed { task: new, message: text() }, None),
        (silent("gone again"), Some(EventKind::ClusterUnreachable { message: "gone again".into() })),
        (
            OperationEvent::WatchChanged { trouble: Some(text()), at: at(8) },
            Some(EventKind::WatchChanged { trouble: Some(text()) }),
        ),
        (
            OperationEvent::WatchChanged { trouble: None, at: at(8) },
            Some(EventKind::WatchChanged { trouble: None }),
        ),
        (
            OperationEvent::Finished { phase, message: text(), at: at(9) },
            Some(EventKind::Finished { phase, message: text() }),
        ),
    ];
    let recorded: Vec<OperationEvent> = rows.iter().map(|(event, _)| event.clone()).collect();
    let expected: Vec<(u64, EventKind)> =
        (1..).zip(rows).filter_map(|(sequence, (_, event))| Some((sequence, event?))).collect();
    assert_eq!(emitted_events(&recorded), expected);
}

#[test]
fn claim_events_describe_their_effect_on_the_operation() {
    let holder =
        ClaimHolder { operation: id().to_string(), who: "ann".into(), revision: String::new(), since: None };
    let place = ClaimLocation { namespace: "shop".into(), name: "lease".into() };
    let taken = |at_work| ClaimEvent::Taken { holder: holder.clone(), at_work };
    let rows = [
        (ClaimConflictPolicy::Refuse, taken(false), "checking whether that operation is still running"),
        (ClaimConflictPolicy::Refuse, taken(true), "waiting for the end of operation"),
        (ClaimConflictPolicy::Queue, taken(false), "waiting for the end of operation"),
        (ClaimConflictPolicy::Refuse, ClaimEvent::Held { place, epoch: 1 }, "acquired the claim"),
        (
            ClaimConflictPolicy::Refuse,
            ClaimEvent::Without { reason: "no right".into() },
            "without a claim on the application: no right",
        ),
        (
            ClaimConflictPolicy::Refuse,
            ClaimEvent::Lost { holder: Some(holder.clone()) },
            "lost the claim on the application to operation",
        ),
        (ClaimConflictPolicy::Refuse, ClaimEvent::Lost { holder: None }, "to an operation that has ended"),
        (
            ClaimConflictPolicy::Refuse,
            ClaimEvent::EndWanted { by: holder.clone() },
            "termination requested by operation",
        ),
    ];
    for (if_taken, news, text) in rows {
        let claim = Some(ClaimRequest { if_taken, ..ClaimRequest::default() });
        let events = [
            accepted_event(SyncRequest { claim, ..request() }),
            OperationEvent::ClaimChanged { news: news.clone(), at: at(2) },
        ];
        let (_, event) = emitted_events(&events).pop().unwrap();
        let EventKind::ClaimChanged { news: found, message } = event else { panic!("{event:?}") };
        assert_eq!(found, news);
        assert!(message.contains(text), "{message:?} instead of {text:?}");
    }
}
