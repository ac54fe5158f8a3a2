//! A record tells what happened, and nothing in it is anything but text.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests stop at the first surprise"
)]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::operation::{
    AppliedRef, Explanation, Fact, HookLog, HookLogView, OperationView, Stage, TakenPlanView, Verdict,
    WaveStep, WaveView,
};
use tidegate_model::{
    Action, Destination, Digest, Gvk, Health, HealthStatus, Hook, OperationId, OperationPhase, Overridden,
    Override, Phase, Plan, PlanApproval, ResourceResult, ResourceSelector, ResultCode, Severity, SyncRequest,
    Task, TaskId, Timestamp, Warning,
};

use super::story::{Story, Tone};
use super::{ExplanationDocument, Inspected, Record};

const HOSTILE: &str = "</title></style></svg></pre><script>window.hit=1</script><img src=x onerror=window.hit=1>\" onload='window.hit=1' javascript:window.hit=1 \u{202e}\u{0}&lt;";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_795_000_000_000 + seconds * 1_000)
}

fn id() -> OperationId {
    "01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap()
}

fn task(phase: Phase, wave: i64, (kind, name): (&str, &str)) -> Task {
    Task {
        phase,
        wave,
        gvk: Gvk::new("apps", "v1", kind),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        action: Action::Create,
        hook: None,
        reason: String::new(),
        manifest: None,
        live: None,
        options: tidegate_model::TaskOptions::default(),
        health_judge: None,
        images: Vec::new(),
        error: None,
    }
}

fn accepted(word: &str) -> Fact {
    let mut request = SyncRequest::new(word, word, Destination::Simulated);
    word.clone_into(&mut request.revision);
    word.clone_into(&mut request.initiated_by);
    request.sources = vec![word.to_owned()];
    request.options.flags = vec![word.to_owned()];
    request.selection = vec![ResourceSelector {
        group: word.to_owned(),
        kind: word.to_owned(),
        namespace: word.to_owned(),
        name: word.to_owned(),
    }];
    Fact::Accepted { operation: id(), request: Box::new(request), targets: Digest([0; 32]), at: at(0) }
}

fn moved(index: u32, step: WaveStep, seconds: i64) -> Fact {
    Fact::Moved { to: Stage::Wave { index, step }, at: at(seconds) }
}

/// A wave behind a gate whose object fails, and succeeds in a second attempt.
fn facts(word: &str) -> Vec<Fact> {
    let mut plan = Plan::default();
    let hook = Hook { delete_policies: Vec::new(), timeout: None, runner: Some(word.to_owned()) };
    plan.push(task(Phase::PreSync, 0, ("Job", "migrate")), None, Vec::new());
    let api =
        Task { hook: Some(hook), reason: word.to_owned(), ..task(Phase::Sync, 1, ("Deployment", word)) };
    plan.push(api, None, vec![word.to_owned()]);
    let (job, api) = (TaskId(0), TaskId(1));
    let applied = |seconds| AppliedRef {
        uid: word.to_owned(),
        resource_version: "7".to_owned(),
        generation: 2,
        at: at(seconds),
    };
    let wrote = |task, seconds| Fact::Applied {
        task,
        applied: applied(seconds),
        message: word.to_owned(),
        done: false,
    };
    let closed = Verdict::Closed { reason: word.to_owned(), ask_again_after: Duration::from_secs(1) };
    let (gate, by, reason, message) = (word.to_owned(), word.to_owned(), word.to_owned(), word.to_owned());
    vec![
        accepted(word),
        Fact::Planned { plan: Arc::new(plan), bundle: Digest([0; 32]), at: at(1) },
        moved(0, WaveStep::Applying, 1),
        wrote(job, 2),
        moved(0, WaveStep::AwaitingHealth, 2),
        Fact::TaskCompleted {
            task: job,
            phase: OperationPhase::Succeeded,
            message: message.clone(),
            at: at(12),
        },
        moved(0, WaveStep::Passed, 12),
        moved(1, WaveStep::Held, 12),
        Fact::GateAnswered { gate: gate.clone(), verdict: closed, at: at(13) },
        Fact::Approved { wave: 1, by: by.clone(), reason: reason.clone(), at: at(40) },
        Fact::GateAnswered { gate, verdict: Verdict::Open, at: at(42) },
        moved(1, WaveStep::Applying, 42),
        wrote(api, 43),
        Fact::Warned { task: api, warnings: vec![message.clone()] },
        Fact::HealthSeen {
            task: api,
            health: Health { status: HealthStatus::Degraded, message: message.clone() },
            fresh: true,
            at: at(50),
        },
        Fact::ReasonSeen { task: api, reason: reason.clone(), at: at(51) },
        Fact::LogsKept {
            task: api,
            reason: reason.clone(),
            logs: vec![HookLog { pod: word.to_owned(), container: word.to_owned(), text: word.to_owned() }],
        },
        Fact::AttemptFailed { message: message.clone(), retriable: true, at: at(60) },
        Fact::Moved { to: Stage::AwaitingRetry { until: at(70) }, at: at(60) },
        Fact::Paused { by: by.clone(), reason, at: at(62) },
        Fact::Unpaused { by, at: at(66) },
        Fact::RetryStarted { attempt: 2, at: at(70) },
        moved(1, WaveStep::Applying, 70),
        wrote(api, 71),
        Fact::TaskCompleted {
            task: api,
            phase: OperationPhase::Succeeded,
            message: String::new(),
            at: at(75),
        },
        moved(1, WaveStep::Passed, 75),
        Fact::Finished { phase: OperationPhase::Succeeded, message, at: at(76) },
    ]
}

fn record(word: &str) -> Record {
    let text = || word.to_owned();
    let operation = OperationView {
        id: id(),
        app: text(),
        initiated_by: Some(text()),
        reason: Some(text()),
        plan: Some(TakenPlanView {
            hash: text(),
            made_at: at(0),
            approvals: vec![PlanApproval { by: text(), reason: text(), at: at(0) }],
        }),
        phase: OperationPhase::Succeeded,
        message: text(),
        started_at: at(0),
        finished_at: Some(at(76)),
        retry_count: 1,
        paused_by: Some(text()),
        terminated_by: Some(text()),
        deletion: None,
        dry_run: false,
        waves: vec![WaveView {
            phase: Phase::Sync,
            wave: -1,
            state: text(),
            tasks: 2,
            applies: 2,
            prunes: 0,
            done: 2,
            skipped: 0,
            opened_at: Some(at(42)),
            applied_at: None,
            passed_at: Some(at(75)),
        }],
        resources: vec![ResourceResult {
            group: text(),
            version: text(),
            kind: text(),
            namespace: text(),
            name: text(),
            sync_phase: Phase::Sync,
            wave: 1,
            hook_type: None,
            status: Some(ResultCode::Synced),
            hook_phase: Some(OperationPhase::Succeeded),
            message: text(),
            images: vec![text()],
            order: 1,
            reason: text(),
            warnings: vec![text()],
            overridden: Some(Overridden {
                what: Override::Skip,
                by: text(),
                reason: text(),
                at: at(50),
                retries: 1,
            }),
        }],
        hook_logs: vec![HookLogView {
            group: text(),
            kind: text(),
            namespace: text(),
            name: text(),
            pod: text(),
            container: text(),
            text: text(),
        }],
        warnings: vec![Warning {
            severity: Severity::Warning,
            code: text(),
            object: None,
            origin: Some(text()),
            message: text(),
        }],
        claim: None,
        health_rules: None,
    };
    let explanation = Explanation {
        plan: None,
        position: text(),
        progress: text(),
        awaited: Vec::new(),
        deadline_in_seconds: None,
        deadline_passed_seconds: None,
        trouble: None,
        paused: None,
        rules_changed: None,
        overridden: vec![text()],
        next: None,
        awaits_attempt: false,
        at: at(80),
    };
    let explanation = ExplanationDocument::new(&operation, explanation, Some(false));
    let inspected = Inspected { operation, explanation, kept: None };
    Record { inspected, facts: facts(word), first: 1, damage: Some(text()), at: at(80) }
}

#[test]
fn the_story_has_real_durations_waits_with_their_reasons_and_all_attempts() {
    let story = Story::of(&facts("office-hours"));
    assert!(story.is_over);
    assert_eq!((story.from(), story.at), (at(0), at(76)));
    let labels: Vec<&str> = story.waves.iter().map(|wave| wave.line.label.as_str()).collect();
    assert_eq!(labels, ["PreSync, wave 0", "Sync, wave 1"]);
    let [first, second] = &story.waves[..] else { panic!("{labels:?}") };

    // The first wave was at work from 1 to 2, and waited for its job until 12; so did the job, from when it was applied to its end.
    assert_eq!(
        (first.line.took(story.at), first.line.waited(story.at)),
        (Duration::from_secs(11), Duration::from_secs(10))
    );
    assert_eq!(first.line.spans[1].why, "waits for the health of Job shop/migrate");
    assert_eq!(first.objects[0].waited(story.at), Duration::from_secs(10));
    assert_eq!(first.objects[0].label, "Job shop/migrate");
    assert_eq!(first.objects[0].took(story.at), Duration::from_secs(10));

    // The second waited at its gate for 30 s, was at work for 18 s until the attempt failed, and again for 5 s.
    assert_eq!(second.line.waited(story.at), Duration::from_secs(30));
    assert_eq!(second.line.took(story.at), Duration::from_secs(30 + 18 + 5));
    assert_eq!(second.line.spans[0].why, "gate office-hours: office-hours");
    let attempts: Vec<u32> = second.line.spans.iter().map(|span| span.attempt).collect();
    assert_eq!(attempts, [1, 1, 2]);
    let api = &second.objects[0];
    assert_eq!(api.label, "hook Deployment shop/office-hours");
    let spans: Vec<(&str, Tone, u64)> = api
        .spans
        .iter()
        .map(|span| (span.state.as_str(), span.tone, span.to.unwrap().since(span.from).as_secs()))
        .collect();
    assert_eq!(spans, [("Applied", Tone::Wait, 7), ("Degraded", Tone::Bad, 10), ("Applied", Tone::Wait, 4)]);
    assert_eq!(api.spans[0].why, "office-hours; waits for its end");

    // How each has ended, and not the step it was at last.
    assert_eq!(
        [first.line.state(), second.line.state(), story.operation.state(), api.state()],
        ["Passed", "Passed", "Succeeded", "Succeeded"]
    );

    // The operation waited for the job, for the gate, and for its second attempt, also while somebody held it.
    assert_eq!(story.operation.waited(story.at), Duration::from_secs(10 + 30 + 10));
    assert_eq!(story.operation.took(story.at), Duration::from_secs(76));
    let paused = story.operation.spans.iter().find(|span| span.state == "Paused").unwrap();
    assert_eq!((paused.from, paused.to), (at(62), Some(at(66))));
    assert_eq!(paused.why, "held by office-hours: office-hours");
    // The page says each with its length and its reason.
    let page = record("office-hours").page();
    for told in [
        "waited 4 s (Paused): held by office-hours: office-hours",
        "waited 10 s (AwaitingHealth): waits for the health of Job shop/migrate",
        "waited 30 s (Held): gate office-hours: office-hours",
        "office-hours holds it: office-hours",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

/// What has failed was waited for until then: how long, and for what, stays told.
#[test]
fn what_fails_keeps_its_wait() {
    let mut facts = facts("gate");
    // While the job of the first wave is at work.
    facts.truncate(5);
    let message = "exit code 1".to_owned();
    facts.push(Fact::TaskFailed { task: TaskId(0), phase: OperationPhase::Failed, message, at: at(12) });
    let story = Story::of(&facts);
    let line = &story.waves[0].objects[0];
    assert_eq!((line.state(), line.is_notable()), ("Failed", true));
    assert_eq!(line.waited(at(20)), Duration::from_secs(10));
    let last = line.spans.last().unwrap();
    assert_eq!((last.state.as_str(), last.why.as_str()), ("Applied", "gate; waits for its health"));
    let marks: Vec<(&str, Tone)> = line.marks.iter().map(|mark| (mark.text.as_str(), mark.tone)).collect();
    assert_eq!(marks, [("Failed: exit code 1", Tone::Bad)]);
}

/// Nobody waits any more for what a person has passed over: it is over at that moment, and says who and why.
#[test]
fn what_people_overrule_is_over_and_says_why() {
    let overruled = |what| {
        let mut facts = facts("gate");
        // While the job of the first wave is at work.
        facts.truncate(5);
        let (by, reason) = ("ann".to_owned(), "the database is away".to_owned());
        facts.push(Fact::Overridden { task: TaskId(0), what, by, reason, at: at(9) });
        let story = Story::of(&facts);
        let line = &story.waves[0].objects[0];
        let last = line.spans.last().unwrap();
        assert_eq!(last.why, "gate; waits for its health");
        let marks: Vec<String> = line.marks.iter().map(|mark| mark.text.clone()).collect();
        (line.state().to_owned(), last.to, marks)
    };
    let why = |done: &str| format!("{done} by ann: the database is away");
    let skipped = why("skipped");
    assert_eq!(overruled(Override::Skip), ("skipped".to_owned(), Some(at(9)), vec![skipped]));
    assert_eq!(overruled(Override::MarkDone).0, "marked as done");
    let (state, to, marks) = overruled(Override::Retry);
    assert_eq!((state.as_str(), to, marks), ("Applied", None, vec![why("retried")]));
}

#[test]
fn a_story_that_begins_in_the_middle_is_told_as_far_as_it_is_known() {
    let facts = facts("gate");
    for from in 0..=facts.len() {
        let story = Story::of(&facts[from..]);
        assert!(story.operation.spans.iter().all(|span| span.to.is_none_or(|to| to >= span.from)));
        let record = Record {
            facts: facts[from..].to_vec(),
            first: u64::try_from(from).unwrap() + 1,
            ..record("shop")
        };
        let page = record.page();
        assert_eq!(page.contains("older facts are not kept any more"), from > 0);
        assert_eq!(page.contains("Nothing can be read."), from == facts.len());
        let document = serde_json::to_value(record.document()).unwrap();
        assert_eq!(document["compacted"], from);
        assert_eq!(document["request"].is_null(), from > 0);
        assert_eq!(document["plan"].is_null(), from > 1);
    }
}

/// Each tag of a page: its name, and the names of its attributes.
fn tags(page: &str) -> Vec<(String, Vec<String>)> {
    let mut tags = Vec::new();
    // The style sheet is ours and has no `<`.
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap();
        let name = tag.split_whitespace().next().unwrap().to_owned();
        let mut attributes = Vec::new();
        let mut rest = tag.strip_prefix(name.as_str()).unwrap();
        while let Some((attribute, after)) = rest.split_once("=\"") {
            attributes.push(attribute.trim().to_owned());
            rest = after.split_once('"').unwrap().1;
        }
        let rest = rest.trim();
        assert!(rest.is_empty() || name == "!doctype", "{tag}");
        tags.push((name, attributes));
    }
    tags
}

#[test]
fn hostile_texts_are_texts_in_every_field() {
    let known_tags = "!doctype html head meta title style body main h1 h2 h3 p strong dl dt dd div table thead tbody tr th td \
                      svg g text line rect path ul li pre footer";
    let known_attributes = "lang charset http-equiv content name class scope viewBox role aria-label x y x1 x2 y1 y2 width height rx d";
    let page = record(HOSTILE).page();
    for (name, attributes) in tags(&page) {
        let name = name.trim_start_matches('/');
        assert!(known_tags.split_whitespace().any(|known| known == name), "<{name}>");
        for attribute in attributes {
            assert!(
                known_attributes.split_whitespace().any(|known| known == attribute),
                "<{name} {attribute}>"
            );
        }
    }
    // It is there all the same, as a text.
    assert!(page.contains("&lt;script&gt;window.hit=1&lt;/script&gt;"));
    assert!(!page.contains(['\u{202e}', '\u{0}']));
    // The same page with harmless words has the same markup.
    let harmless = record("harmless").page();
    let names = |page: &str| tags(page).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&page), names(&harmless));
}

#[test]
fn a_page_may_show_its_own_style_and_nothing_else() {
    let page = record("shop").page();
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let digest = BASE64_STANDARD.encode(Sha256::digest(style));
    let policy = format!(
        "content=\"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'\""
    );
    assert!(page.contains(&policy), "{policy}");
    assert!(style.contains("prefers-color-scheme:dark") && style.contains("@media print"));
    for elsewhere in ["url(", "@import", "http:", "https:", "style=", "href=", "src="] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn the_document_has_request_plan_facts_and_how_it_ended() {
    let record = record("shop");
    let document = serde_json::to_value(record.document()).unwrap();
    assert_eq!(document["record"], "tidegate.dev/operation/v1");
    assert_eq!(document["tidegateVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["exportedAt"], at(80).to_string());
    assert_eq!(document["operation"]["phase"], "Succeeded");
    assert_eq!(document["request"]["initiatedBy"], "shop");
    assert_eq!(document["plan"]["waves"].as_array().unwrap().len(), 2);
    let facts = document["facts"].as_array().unwrap();
    assert_eq!(facts.len(), record.facts.len());
    assert_eq!((&facts[0]["kind"], &facts[26]["kind"]), (&"accepted".into(), &"finished".into()));
    assert_eq!(facts[9]["details"]["by"], "shop");
    assert_eq!((&document["compacted"], &document["damage"]), (&0.into(), &"shop".into()));
}

#[test]
fn the_logs_of_every_attempt_are_told() {
    let mut facts = facts("first");
    let end = facts.pop().unwrap();
    let log = |text: &str| HookLog { pod: "p".to_owned(), container: "c".to_owned(), text: text.to_owned() };
    for text in ["second, not whole", "second"] {
        facts.push(Fact::LogsKept { task: TaskId(1), reason: String::new(), logs: vec![log(text)] });
    }
    facts.push(Fact::LogsKept { task: TaskId(0), reason: String::new(), logs: vec![log("another hook")] });
    facts.push(end);
    let told = super::logs::logs(&facts);
    let told: Vec<_> =
        told.iter().map(|one| (one.attempt, one.log.name.as_str(), one.log.text.as_str())).collect();
    assert_eq!(told, [(1, "first", "first"), (2, "first", "second"), (2, "migrate", "another hook")]);
}
