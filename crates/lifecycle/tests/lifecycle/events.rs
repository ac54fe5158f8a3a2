//! What is told of an operation. That it is told live as the log says it, random worlds check.

use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::{
    ClaimNews, Deadline, DeadlineScope, EventKind, Fact, Loss, Narrator, Stage, Verdict, WaveName, WaveStep,
};
use tidegate_model::{
    ClaimHolder, ClaimPlace, ClaimRequest, Digest, IfTaken, OperationPhase, Override, Phase, SyncRequest,
    TaskId,
};

use crate::build::{DIGEST, at, hook, id, plan, prune, request, resource, taken_plan};

fn accepted(request: SyncRequest) -> Fact {
    Fact::Accepted { operation: id(), request: Box::new(request), targets: DIGEST, at: at(1) }
}

fn told(facts: &[Fact]) -> Vec<(u64, EventKind)> {
    let mut narrator = Narrator::default();
    let events = facts.iter().filter_map(|fact| narrator.tell(fact));
    events.map(|event| (event.sequence, event.what)).collect()
}

/// One row per fact that is told: the numbers of those that are not are left out.
#[test]
fn each_fact_of_interest_is_an_event_with_its_number() {
    let plan = plan([
        prune(0, "ConfigMap/old"),
        resource(2, "ConfigMap/new"),
        hook(Phase::PostSync, 0, "Job/after"),
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
    let words = || "words".to_owned();
    let phase = OperationPhase::Failed;
    let planned = EventKind::Planned { waves: plan.waves.len(), tasks: 3 };
    let in_wave = Some(WaveName { phase: Phase::Sync, wave: 2 });
    let passed = |scope| Fact::DeadlinePassed { scope, message: words(), at: at(1) };
    let deadline = |of| Some(EventKind::DeadlinePassed { of, message: words() });
    let task = |name| Some(EventKind::Task { object: key(name), phase, message: words() });
    let pruned = |gone| Some(EventKind::Prune { object: key("old"), gone });
    let judged_by = |rules| Fact::HealthRulesKnown { digest: Digest([rules; 32]), at: at(8) };
    let silent = |message: &str| Fact::CallFailed {
        task: Some(new),
        message: message.into(),
        retry_at: at(9),
        at: at(8),
        outage: true,
    };
    let rows = [
        (accepted(request()), Some(EventKind::Accepted)),
        (Fact::Planned { plan: Arc::new(plan), bundle: DIGEST, at: at(1) }, Some(planned)),
        (
            Fact::Moved { to: applying.clone(), at: at(2) },
            Some(EventKind::Moved { to: applying, wave: in_wave }),
        ),
        (
            Fact::Moved { to: Stage::DryRun, at: at(2) },
            Some(EventKind::Moved { to: Stage::DryRun, wave: None }),
        ),
        (
            Fact::GateAnswered { gate: "g".into(), verdict: closed.clone(), at: at(3) },
            Some(EventKind::Gate { gate: "g".into(), verdict: closed }),
        ),
        (Fact::Checked { task: new, message: words() }, None),
        (Fact::DeletionBegun { task: old }, pruned(false)),
        (Fact::ObjectGone { task: old }, pruned(true)),
        (Fact::PruneSent { task: old, gone: true }, pruned(true)),
        // An older hook object goes; that is no prune.
        (Fact::ObjectGone { task: after }, None),
        (Fact::TaskCompleted { task: new, phase, message: words(), at: at(4) }, task("new")),
        (Fact::TaskFailed { task: after, phase, message: words(), at: at(4) }, task("after")),
        (
            Fact::HookStopped { task: after, phase, message: words(), clean: true },
            Some(EventKind::HookStopped { object: key("after"), phase, message: words(), clean: true }),
        ),
        (
            Fact::Warned { task: new, warnings: vec![words()] },
            Some(EventKind::Warned { object: key("new"), warnings: vec![words()] }),
        ),
        (passed(DeadlineScope::Operation), deadline(Deadline::Operation)),
        (passed(DeadlineScope::Wave), deadline(Deadline::Wave)),
        (passed(DeadlineScope::Hook(after)), deadline(Deadline::Hook(key("after")))),
        (
            Fact::NamespaceTerminating { namespace: "shop".into(), at: at(5) },
            Some(EventKind::NamespaceTerminating { namespace: "shop".into() }),
        ),
        (
            Fact::NamespaceLost { namespace: "shop".into(), loss: Loss::Terminating, at: at(5) },
            Some(EventKind::NamespaceTerminating { namespace: "shop".into() }),
        ),
        (
            Fact::NamespaceLost { namespace: "shop".into(), loss: Loss::MadeAgain, at: at(5) },
            Some(EventKind::NamespaceLost { namespace: "shop".into(), loss: Loss::MadeAgain }),
        ),
        (Fact::NamespacesSeen { namespaces: Vec::new() }, None),
        (
            Fact::AttemptFailed { message: words(), retriable: true, at: at(6) },
            Some(EventKind::AttemptFailed { message: words(), retriable: true }),
        ),
        (Fact::RetryStarted { attempt: 2, at: at(7) }, Some(EventKind::RetryStarted { attempt: 2 })),
        (
            Fact::TerminateRequested { by: "ann".into(), at: at(8) },
            Some(EventKind::TerminateRequested { by: "ann".into() }),
        ),
        (
            Fact::Paused { by: "ann".into(), reason: "lunch".into(), at: at(8) },
            Some(EventKind::Paused { by: "ann".into(), reason: "lunch".into() }),
        ),
        (Fact::Unpaused { by: "bob".into(), at: at(8) }, Some(EventKind::Unpaused { by: "bob".into() })),
        (
            Fact::PruneConfirmed { by: "ann".into(), at: at(8) },
            Some(EventKind::PruneConfirmed { by: "ann".into() }),
        ),
        (
            Fact::Approved { wave: 0, by: "ann".into(), reason: "fine".into(), at: at(8) },
            Some(EventKind::Approved { wave: 0, by: "ann".into(), reason: "fine".into() }),
        ),
        (
            Fact::Overridden {
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
            Fact::PlanTaken { plan: Box::new(taken_plan()), at: at(8) },
            Some(EventKind::PlanTaken { plan: Box::new(taken_plan()) }),
        ),
        (judged_by(1), None),
        (judged_by(2), Some(EventKind::HealthRulesChanged { digest: Digest([2; 32]) })),
        (silent("gone"), Some(EventKind::ClusterSilent { message: "gone".into() })),
        (silent("still gone"), None),
        (Fact::Checked { task: new, message: words() }, None),
        (silent("gone again"), Some(EventKind::ClusterSilent { message: "gone again".into() })),
        (
            Fact::Watching { trouble: Some(words()), at: at(8) },
            Some(EventKind::Watching { trouble: Some(words()) }),
        ),
        (Fact::Watching { trouble: None, at: at(8) }, Some(EventKind::Watching { trouble: None })),
        (
            Fact::Finished { phase, message: words(), at: at(9) },
            Some(EventKind::Finished { phase, message: words() }),
        ),
    ];
    let facts: Vec<Fact> = rows.iter().map(|(fact, _)| fact.clone()).collect();
    let expected: Vec<(u64, EventKind)> =
        (1..).zip(rows).filter_map(|(sequence, (_, event))| Some((sequence, event?))).collect();
    assert_eq!(told(&facts), expected);
}

#[test]
fn news_of_a_claim_say_what_they_mean_for_the_operation() {
    let holder =
        ClaimHolder { operation: id().to_string(), who: "ann".into(), revision: String::new(), since: None };
    let place = ClaimPlace { namespace: "shop".into(), name: "lease".into() };
    let taken = |at_work| ClaimNews::Taken { holder: holder.clone(), at_work };
    let rows = [
        (IfTaken::Refuse, taken(false), "looking whether that is still at work"),
        (IfTaken::Refuse, taken(true), "waiting for the end of operation"),
        (IfTaken::Queue, taken(false), "waiting for the end of operation"),
        (IfTaken::Refuse, ClaimNews::Held { place, epoch: 1 }, "has the claim"),
        (
            IfTaken::Refuse,
            ClaimNews::Without { reason: "no right".into() },
            "without a claim on the application: no right",
        ),
        (
            IfTaken::Refuse,
            ClaimNews::Lost { holder: Some(holder.clone()) },
            "lost the claim on the application to operation",
        ),
        (IfTaken::Refuse, ClaimNews::Lost { holder: None }, "to an operation that is over"),
        (IfTaken::Refuse, ClaimNews::EndWanted { by: holder.clone() }, "asked to end by operation"),
    ];
    for (if_taken, news, words) in rows {
        let claim = Some(ClaimRequest { if_taken, ..ClaimRequest::default() });
        let facts =
            [accepted(SyncRequest { claim, ..request() }), Fact::Claim { news: news.clone(), at: at(2) }];
        let (_, event) = told(&facts).pop().unwrap();
        let EventKind::Claim { news: found, message } = event else { panic!("{event:?}") };
        assert_eq!(found, news);
        assert!(message.contains(words), "{message:?} instead of {words:?}");
    }
}
