//! The record shows everything that happened, and escapes all text.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests may panic")]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};
use tidegate_lifecycle::operation::{
    AppliedRef, ExecutedPlanView, Explanation, HookLog, HookLogView, OperationEvent, OperationView, Stage,
    Verdict, WaveStep, WaveView,
};
use tidegate_model::{
    Action, Destination, Digest, Gvk, Health, HealthStatus, Hook, OperationId, OperationOutcome,
    OperationPhase, Override, OverrideRecord, Phase, Plan, PlanApproval, ResourceResult, ResourceSelector,
    ResultCode, Severity, SyncRequest, Task, TaskDependency, TaskId, Timestamp, Warning, WaveNumbers,
};

use super::timeline::{OperationTimeline, Tone};
use super::{ExplanationDocument, OperationDetails, Record};
use crate::plan::plan_document;

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

fn accepted_event(word: &str) -> OperationEvent {
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
    OperationEvent::Accepted {
        operation: id(),
        request: Box::new(request),
        targets: Digest([0; 32]),
        at: at(0),
    }
}

fn stage_event(index: u32, step: WaveStep, seconds: i64) -> OperationEvent {
    OperationEvent::StageChanged { to: Stage::Wave { index, step }, at: at(seconds) }
}

/// Returns the events of a wave with a gate. The wave's object fails in the first attempt and succeeds in the
/// second.
fn sample_events(word: &str) -> Vec<OperationEvent> {
    let mut plan = Plan::default();
    let hook = Hook { delete_policies: Vec::new(), timeout: None, runner: Some(word.to_owned()) };
    plan.push_task(task(Phase::PreSync, 0, ("Job", "migrate")), None, Vec::new());
    let api =
        Task { hook: Some(hook), reason: word.to_owned(), ..task(Phase::Sync, 1, ("Deployment", word)) };
    plan.push_task(api, None, vec![word.to_owned()]);
    let (job, api) = (TaskId(0), TaskId(1));
    let applied = |seconds| AppliedRef {
        uid: word.to_owned(),
        resource_version: "7".to_owned(),
        generation: 2,
        at: at(seconds),
    };
    let wrote = |task, seconds| OperationEvent::Applied {
        task,
        applied: applied(seconds),
        message: word.to_owned(),
        done: false,
    };
    let closed = Verdict::Closed { reason: word.to_owned(), ask_again_after: Duration::from_secs(1) };
    let (gate, by, reason, message) = (word.to_owned(), word.to_owned(), word.to_owned(), word.to_owned());
    vec![
        accepted_event(word),
        OperationEvent::Planned { plan: Arc::new(plan), bundle: Digest([0; 32]), at: at(1) },
        stage_event(0, WaveStep::Applying, 1),
        wrote(job, 2),
        stage_event(0, WaveStep::AwaitingHealth, 2),
        OperationEvent::TaskCompleted {
            task: job,
            phase: OperationPhase::Succeeded,
            message: message.clone(),
            at: at(12),
        },
        stage_event(0, WaveStep::Passed, 12),
        stage_event(1, WaveStep::Held, 12),
        OperationEvent::GateEvaluated { gate: gate.clone(), verdict: closed, at: at(13) },
        OperationEvent::Approved { wave: 1, by: by.clone(), reason: reason.clone(), at: at(40) },
        OperationEvent::GateEvaluated { gate, verdict: Verdict::Open, at: at(42) },
        stage_event(1, WaveStep::Applying, 42),
        wrote(api, 43),
        OperationEvent::WarningsReceived { task: api, warnings: vec![message.clone()] },
        OperationEvent::HealthChanged {
            task: api,
            health: Health { status: HealthStatus::Degraded, message: message.clone() },
            fresh: true,
            at: at(50),
        },
        OperationEvent::ReasonChanged { task: api, reason: reason.clone(), at: at(51) },
        OperationEvent::LogsStored {
            task: api,
            reason: reason.clone(),
            logs: vec![HookLog { pod: word.to_owned(), container: word.to_owned(), text: word.to_owned() }],
        },
        OperationEvent::AttemptFailed { message: message.clone(), retriable: true, at: at(60) },
        OperationEvent::StageChanged { to: Stage::AwaitingRetry { until: at(70) }, at: at(60) },
        OperationEvent::Paused { by: by.clone(), reason, at: at(62) },
        OperationEvent::Unpaused { by, at: at(66) },
        OperationEvent::RetryStarted { attempt: 2, at: at(70) },
        stage_event(1, WaveStep::Applying, 70),
        wrote(api, 71),
        OperationEvent::TaskCompleted {
            task: api,
            phase: OperationPhase::Succeeded,
            message: String::new(),
            at: at(75),
        },
        stage_event(1, WaveStep::Passed, 75),
        OperationEvent::Finished { phase: OperationPhase::Succeeded, message, at: at(76) },
    ]
}

fn sample_record(word: &str) -> Record {
    let text = || word.to_owned();
    let operation = OperationView {
        id: id(),
        app: text(),
        initiated_by: Some(text()),
        reason: Some(text()),
        plan: Some(ExecutedPlanView {
            hash: text(),
            created_at: at(0),
            approvals: vec![PlanApproval { by: text(), reason: text(), at: at(0) }],
        }),
        phase: OperationPhase::Succeeded,
        outcome: OperationOutcome::Succeeded,
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
            overridden: Some(OverrideRecord {
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
    let explanation =
        Explanation { progress: text(), overridden: vec![text()], ..Explanation::new(&text(), at(80)) };
    let explanation = ExplanationDocument::new(&operation, explanation, Some(false));
    let details = OperationDetails { operation, explanation, summary: None };
    Record { details, events: sample_events(word), first_sequence: 1, damage: Some(text()), read_at: at(80) }
}

#[test]
fn the_timeline_has_durations_wait_reasons_and_all_attempts() {
    let story = OperationTimeline::from_events(&sample_events("office-hours"));
    assert!(story.is_over);
    assert_eq!((story.start_time(), story.latest_time), (at(0), at(76)));
    let labels: Vec<&str> = story.waves.iter().map(|wave| wave.line.label.as_str()).collect();
    assert_eq!(labels, ["PreSync, wave 0", "Sync, wave 1"]);
    let [first, second] = &story.waves[..] else { panic!("{labels:?}") };

    // The first wave worked from 1 s to 2 s, then waited for its Job until 12 s. The Job's own line runs from
    // its creation to its end.
    assert_eq!(
        (first.line.duration(story.latest_time), first.line.wait_duration(story.latest_time)),
        (Duration::from_secs(11), Duration::from_secs(10))
    );
    assert_eq!(first.line.spans[1].reason, "waiting for the health of Job shop/migrate");
    assert_eq!(first.objects[0].wait_duration(story.latest_time), Duration::from_secs(10));
    assert_eq!(first.objects[0].label, "Job shop/migrate");
    assert_eq!(first.objects[0].duration(story.latest_time), Duration::from_secs(10));

    // The second wave waited for its gate for 30 s, worked for 18 s until the attempt failed, and then worked
    // for another 5 s.
    assert_eq!(second.line.wait_duration(story.latest_time), Duration::from_secs(30));
    assert_eq!(second.line.duration(story.latest_time), Duration::from_secs(30 + 18 + 5));
    assert_eq!(second.line.spans[0].reason, "gate office-hours: office-hours");
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
    assert_eq!(api.spans[0].reason, "office-hours; waiting for the hook to finish");

    // The state is the outcome, not the last span.
    assert_eq!(
        [first.line.state(), second.line.state(), story.operation.state(), api.state()],
        ["Passed", "Passed", "Succeeded", "Succeeded"]
    );

    // The operation waited for the Job, for the gate, and for its second attempt. The pause counts as part of
    // these waits.
    assert_eq!(story.operation.wait_duration(story.latest_time), Duration::from_secs(10 + 30 + 10));
    assert_eq!(story.operation.duration(story.latest_time), Duration::from_secs(76));
    let paused = story.operation.spans.iter().find(|span| span.state == "Paused").unwrap();
    assert_eq!((paused.from, paused.to), (at(62), Some(at(66))));
    assert_eq!(paused.reason, "paused by office-hours: office-hours");
    // The page shows each wait with its duration and reason.
    let page = sample_record("office-hours").render_page();
    for told in [
        "waited 4 s (Paused): paused by office-hours: office-hours",
        "waited 10 s (AwaitingHealth): waiting for the health of Job shop/migrate",
        "waited 30 s (Held): gate office-hours: office-hours",
        "office-hours paused the operation: office-hours",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

/// An object waits for its dependencies from the start of the step until it is applied. The reason names the last
/// ones.
#[test]
fn the_timeline_shows_the_dependencies_that_each_object_waited_for() {
    let mut plan = Plan::default();
    for name in ["api", "cache", "database"] {
        plan.push_task(task(Phase::Sync, 0, ("Deployment", name)), None, Vec::new());
    }
    let (api, cache, database) = (TaskId(0), TaskId(1), TaskId(2));
    plan.dependencies =
        [cache, database].map(|dependency| TaskDependency { dependent: api, dependency }).to_vec();
    let document = serde_json::to_value(plan_document(&plan, &WaveNumbers::default(), &[])).unwrap();
    let waits: Vec<&serde_json::Value> = document["waves"][0]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|task| task.get("waitsFor"))
        .collect();
    assert_eq!(waits, [&serde_json::json!(["apps:Deployment:shop/cache", "apps:Deployment:shop/database"])]);
    let wrote = |task, seconds| OperationEvent::Applied {
        task,
        applied: AppliedRef {
            uid: String::new(),
            resource_version: String::new(),
            generation: 1,
            at: at(seconds),
        },
        message: String::new(),
        done: false,
    };
    let completed = |task, seconds| OperationEvent::TaskCompleted {
        task,
        phase: OperationPhase::Succeeded,
        message: String::new(),
        at: at(seconds),
    };
    let timeline = OperationTimeline::from_events(&[
        accepted_event("a"),
        OperationEvent::Planned { plan: Arc::new(plan), bundle: Digest([0; 32]), at: at(1) },
        stage_event(0, WaveStep::Applying, 1),
        wrote(cache, 2),
        wrote(database, 2),
        completed(cache, 5),
        completed(database, 9),
        wrote(api, 9),
        completed(api, 12),
    ]);
    let api = timeline.waves[0].objects.iter().find(|line| line.label.ends_with("api")).unwrap();
    let spans: Vec<(i64, &str, &str)> = api
        .spans
        .iter()
        .map(|span| {
            let end = span.to.unwrap().since(at(0)).as_secs();
            (i64::try_from(end).unwrap(), span.state.as_str(), span.reason.as_str())
        })
        .collect();
    assert_eq!(
        spans,
        [
            (9, "Waiting", "waiting for Deployment shop/database"),
            (12, "Applied", "waiting for the object to become healthy")
        ]
    );
    assert!(api.is_notable());
}

/// A failed object's wait keeps its duration and reason.
#[test]
fn a_failed_object_keeps_its_wait() {
    let mut events = sample_events("gate");
    // The first wave's Job is running.
    events.truncate(5);
    let message = "exit code 1".to_owned();
    events.push(OperationEvent::TaskFailed {
        task: TaskId(0),
        phase: OperationPhase::Failed,
        message,
        at: at(12),
    });
    let story = OperationTimeline::from_events(&events);
    let line = &story.waves[0].objects[0];
    assert_eq!((line.state(), line.is_notable()), ("Failed", true));
    assert_eq!(line.wait_duration(at(20)), Duration::from_secs(10));
    let last = line.spans.last().unwrap();
    assert_eq!(
        (last.state.as_str(), last.reason.as_str()),
        ("Applied", "gate; waiting for the object to become healthy")
    );
    let marks: Vec<(&str, Tone)> = line.marks.iter().map(|mark| (mark.text.as_str(), mark.tone)).collect();
    assert_eq!(marks, [("Failed: exit code 1", Tone::Bad)]);
}

/// A user's decision immediately ends the wait for an object, and the record shows the user and the reason.
#[test]
fn an_override_ends_the_wait_and_shows_who_and_why() {
    let overruled = |what| {
        let mut events = sample_events("gate");
        // The first wave's Job is running.
        events.truncate(5);
        let (by, reason) = ("ann".to_owned(), "the database is away".to_owned());
        events.push(OperationEvent::Overridden { task: TaskId(0), what, by, reason, at: at(9) });
        let story = OperationTimeline::from_events(&events);
        let line = &story.waves[0].objects[0];
        let last = line.spans.last().unwrap();
        assert_eq!(last.reason, "gate; waiting for the object to become healthy");
        let marks: Vec<String> = line.marks.iter().map(|mark| mark.text.clone()).collect();
        (line.state().to_owned(), last.to, marks)
    };
    let text = |done: &str| format!("{done} by ann: the database is away");
    let skipped = text("skipped");
    assert_eq!(overruled(Override::Skip), ("skipped".to_owned(), Some(at(9)), vec![skipped]));
    assert_eq!(overruled(Override::MarkDone).0, "marked as done");
    let (state, to, marks) = overruled(Override::Retry);
    assert_eq!((state.as_str(), to, marks), ("Applied", None, vec![text("retried")]));
}

#[test]
fn a_timeline_of_compacted_events_shows_what_is_known() {
    let events = sample_events("gate");
    for from in 0..=events.len() {
        let story = OperationTimeline::from_events(&events[from..]);
        assert!(story.operation.spans.iter().all(|span| span.to.is_none_or(|to| to >= span.from)));
        let record = Record {
            events: events[from..].to_vec(),
            first_sequence: u64::try_from(from).unwrap() + 1,
            ..sample_record("shop")
        };
        let page = record.render_page();
        assert_eq!(page.contains("older events are no longer stored"), from > 0);
        assert_eq!(page.contains("No events can be read."), from == events.len());
        let document = serde_json::to_value(record.document()).unwrap();
        assert_eq!(document["compactedEvents"], from);
        assert_eq!(document["request"].is_null(), from > 0);
        assert_eq!(document["plan"].is_null(), from > 1);
    }
}

/// Returns the name and attribute names of each tag on a page.
fn parse_tags(page: &str) -> Vec<(String, Vec<String>)> {
    let mut tags = Vec::new();
    // The built-in style sheet doesn't contain `<`.
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
fn hostile_texts_are_escaped_in_every_field() {
    let known_tags = "!doctype html head meta title style body main h1 h2 h3 p strong dl dt dd div table thead tbody tr th td \
                      svg g text line rect path ul li pre footer";
    let known_attributes = "lang charset http-equiv content name class scope viewBox role aria-label x y x1 x2 y1 y2 width height rx d";
    let page = sample_record(HOSTILE).render_page();
    for (name, attributes) in parse_tags(&page) {
        let name = name.trim_start_matches('/');
        assert!(known_tags.split_whitespace().any(|known| known == name), "<{name}>");
        for attribute in attributes {
            assert!(
                known_attributes.split_whitespace().any(|known| known == attribute),
                "<{name} {attribute}>"
            );
        }
    }
    // The injected text appears as text.
    assert!(page.contains("&lt;script&gt;window.hit=1&lt;/script&gt;"));
    assert!(!page.contains(['\u{202e}', '\u{0}']));
    // A page with harmless words has identical markup.
    let harmless = sample_record("harmless").render_page();
    let names = |page: &str| parse_tags(page).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&page), names(&harmless));
}

#[test]
fn a_page_loads_only_its_own_style() {
    let page = sample_record("shop").render_page();
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
fn the_document_has_request_plan_events_and_outcome() {
    let record = sample_record("shop");
    let document = serde_json::to_value(record.document()).unwrap();
    assert_eq!(document["record"], "tidegate.dev/operation/v1");
    assert_eq!(document["tidegateVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["exportedAt"], at(80).to_string());
    assert_eq!(document["operation"]["phase"], "Succeeded");
    assert_eq!(document["request"]["initiatedBy"], "shop");
    assert_eq!(document["plan"]["waves"].as_array().unwrap().len(), 2);
    let events = document["events"].as_array().unwrap();
    assert_eq!(events.len(), record.events.len());
    assert_eq!((&events[0]["kind"], &events[26]["kind"]), (&"accepted".into(), &"finished".into()));
    assert_eq!(events[9]["details"]["by"], "shop");
    assert_eq!((&document["compactedEvents"], &document["damage"]), (&0.into(), &"shop".into()));
}

#[test]
fn the_logs_of_every_attempt_are_included() {
    let mut events = sample_events("first");
    let end = events.pop().unwrap();
    let log = |text: &str| HookLog { pod: "p".to_owned(), container: "c".to_owned(), text: text.to_owned() };
    for text in ["second, not whole", "second"] {
        events.push(OperationEvent::LogsStored {
            task: TaskId(1),
            reason: String::new(),
            logs: vec![log(text)],
        });
    }
    events.push(OperationEvent::LogsStored {
        task: TaskId(0),
        reason: String::new(),
        logs: vec![log("another hook")],
    });
    events.push(end);
    let logs = super::logs::hook_logs(&events);
    let logs: Vec<_> =
        logs.iter().map(|one| (one.attempt, one.log.name.as_str(), one.log.text.as_str())).collect();
    assert_eq!(logs, [(1, "first", "first"), (2, "first", "second"), (2, "migrate", "another hook")]);
}
