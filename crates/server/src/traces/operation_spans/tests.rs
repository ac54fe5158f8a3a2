//! Tests that compare an operation's recorded events with the resulting spans.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_lifecycle::operation::{AppliedRef, Driver, WaveName};
use tidegate_model::{DeletePolicy, Destination, Digest, Gvk, Hook, LiveRef, TaskOptions};

use super::super::otlp;
use super::*;

const ID: &str = "0198c0de-0000-7000-8000-000000000001";

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn live_ref() -> LiveRef {
    LiveRef { uid: "uid".to_owned(), resource_version: "1".to_owned(), generation: 1 }
}

fn task(at: WaveName, kind: &str, name: &str, action: Action) -> Task {
    let is_hook = kind == "Job";
    let hook = Hook { delete_policies: vec![DeletePolicy::BeforeHookCreation], timeout: None, runner: None };
    Task {
        phase: at.phase,
        wave: at.wave,
        gvk: Gvk { group: String::new(), version: "v1".to_owned(), kind: kind.to_owned() },
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        action,
        hook: is_hook.then_some(hook),
        reason: String::new(),
        manifest: None,
        live: (action == Action::Prune).then(live_ref),
        options: TaskOptions::default(),
        health_judge: None,
        images: Vec::new(),
        error: None,
    }
}

/// Returns a plan with a PreSync hook, a ConfigMap, and a wave with a server and a pruned object.
fn plan() -> Arc<Plan> {
    let mut plan = Plan::default();
    let (before, first, second) = (
        WaveName { phase: Phase::PreSync, wave: 0 },
        WaveName { phase: Phase::Sync, wave: 0 },
        WaveName { phase: Phase::Sync, wave: 1 },
    );
    for task in [
        task(before, "Job", "migrate", Action::Create),
        task(first, "ConfigMap", "settings", Action::Create),
        task(second, "Pod", "server", Action::Apply),
        task(second, "Secret", "old", Action::Prune),
    ] {
        plan.push_task(task, None, Vec::new());
    }
    Arc::new(plan)
}

fn wave_event(index: u32, step: WaveStep, millis: i64) -> OperationEvent {
    OperationEvent::StageChanged { to: Stage::Wave { index, step }, at: at(millis) }
}

fn stage_event(to: Stage, millis: i64) -> OperationEvent {
    OperationEvent::StageChanged { to, at: at(millis) }
}

fn applied_event(task: u32, done: bool, millis: i64) -> OperationEvent {
    let applied = AppliedRef {
        uid: format!("uid-{task}"),
        resource_version: "1".to_owned(),
        generation: 1,
        at: at(millis),
    };
    OperationEvent::Applied { task: TaskId(task), applied, message: "applied".to_owned(), done }
}

fn completed_event(task: u32, phase: OperationPhase, message: &str, millis: i64) -> OperationEvent {
    OperationEvent::TaskCompleted { task: TaskId(task), phase, message: message.to_owned(), at: at(millis) }
}

/// Returns events in which the server fails in the first attempt and is healthy in the second.
fn sample_events() -> Vec<OperationEvent> {
    let mut request = tidegate_model::SyncRequest::new("shop", "shop", Destination::Simulated);
    request.revision = "abc".to_owned();
    request.initiated_by = "ann".to_owned();
    let operation = ID.parse().unwrap();
    let failed = "one or more synchronization tasks completed unsuccessfully".to_owned();
    let message = "successfully synced".to_owned();
    let finishing = Stage::Finishing { phase: Succeeded, message: message.clone() };
    let health = |millis| OperationEvent::HealthRulesSet { digest: Digest([1; 32]), at: at(millis) };
    vec![
        OperationEvent::Accepted {
            operation,
            request: Box::new(request),
            targets: Digest([2; 32]),
            at: at(1_000),
        },
        OperationEvent::Planned { plan: plan(), bundle: Digest([3; 32]), at: at(2_000) },
        health(2_000),
        stage_event(Stage::DryRun, 2_000),
        wave_event(0, WaveStep::Held, 3_000),
        wave_event(0, WaveStep::Clearing, 3_000),
        OperationEvent::HookCleared { task: TaskId(0), deleting: None },
        wave_event(0, WaveStep::Applying, 3_100),
        applied_event(0, false, 3_200),
        wave_event(0, WaveStep::AwaitingHealth, 3_200),
        completed_event(0, Succeeded, "", 6_000),
        wave_event(0, WaveStep::Passed, 6_000),
        wave_event(1, WaveStep::Held, 6_100),
        wave_event(1, WaveStep::Applying, 6_100),
        applied_event(1, true, 6_300),
        wave_event(1, WaveStep::Passed, 6_400),
        wave_event(2, WaveStep::Held, 6_500),
        wave_event(2, WaveStep::Pruning, 6_600),
        OperationEvent::DeletionStarted { task: TaskId(3) },
        wave_event(2, WaveStep::Applying, 6_700),
        applied_event(2, false, 6_800),
        wave_event(2, WaveStep::AwaitingHealth, 6_800),
        OperationEvent::DeletionCompleted { task: TaskId(3) },
        completed_event(2, Failed, "no such image", 9_000),
        OperationEvent::AttemptFailed { message: failed, retriable: true, at: at(9_000) },
        stage_event(Stage::AwaitingRetry { until: at(10_000) }, 9_000),
        OperationEvent::RetryStarted { attempt: 2, at: at(10_000) },
        wave_event(2, WaveStep::Held, 10_100),
        wave_event(2, WaveStep::Applying, 10_100),
        applied_event(2, false, 10_200),
        wave_event(2, WaveStep::AwaitingHealth, 10_200),
        completed_event(2, Succeeded, "", 12_000),
        wave_event(2, WaveStep::Passed, 12_000),
        stage_event(finishing, 12_000),
        OperationEvent::Finished { phase: Succeeded, message, at: at(12_100) },
    ]
}

fn spans_of(events: &[OperationEvent]) -> Vec<Span> {
    let driver = Driver::recover(None, events.to_vec()).unwrap();
    build_spans(driver.state(), events, Some("default"))
}

fn attribute<'a>(span: &'a Span, name: &str) -> &'a Value {
    span.attributes.iter().find(|(other, _)| *other == name).map_or(&Value::Null, |(_, value)| value)
}

/// Returns the parent, name, times, outcome and failure of each span.
fn describe_spans(spans: &[Span]) -> Vec<(String, i64, i64, String, Option<String>)> {
    let name = |span: &Span| {
        let of_wave = attribute(span, "tidegate.attempt").as_i64().map(|attempt| format!("#{attempt} "));
        let object = attribute(span, "k8s.resource.name").as_str().unwrap_or_default();
        format!("{}{} {object}", of_wave.unwrap_or_default(), span.name).trim_end().to_owned()
    };
    let whole = |span: &Span| {
        let mut path = vec![name(span)];
        let mut parent = span.parent;
        while let Some(id) = parent {
            let above = spans.iter().find(|other| other.id == id).unwrap();
            path.insert(0, name(above));
            parent = above.parent;
        }
        path.join(" / ")
    };
    let describe = |span: &Span| {
        let outcome = attribute(span, OUTCOME_ATTRIBUTE).as_str().unwrap().to_owned();
        (whole(span), span.started_at.as_millis(), span.ended_at.as_millis(), outcome, span.failure.clone())
    };
    spans.iter().map(describe).collect()
}

#[test]
fn an_operation_consists_of_phases_waves_and_tasks() {
    let made = spans_of(&sample_events());
    let failed = Some("one or more synchronization tasks completed unsuccessfully");
    let expected: [(&str, i64, i64, &str, Option<&str>); 14] = [
        ("sync", 1_000, 12_100, "Succeeded", None),
        ("sync / #1 dry run", 2_000, 3_000, "Succeeded", None),
        ("sync / #1 PreSync", 3_000, 6_100, "Succeeded", None),
        ("sync / #1 PreSync / #1 wave 0", 3_000, 6_000, "Succeeded", None),
        ("sync / #1 PreSync / #1 wave 0 / #1 hook Job migrate", 3_100, 6_000, "Succeeded", None),
        ("sync / #1 Sync", 6_100, 9_000, "Failed", failed),
        ("sync / #1 Sync / #1 wave 0", 6_100, 6_400, "Succeeded", None),
        ("sync / #1 Sync / #1 wave 0 / #1 create ConfigMap settings", 6_100, 6_300, "Succeeded", None),
        ("sync / #1 Sync / #1 wave 1", 6_500, 9_000, "Failed", failed),
        // This event doesn't have a time. The object was deleted before the next event with a time.
        ("sync / #1 Sync / #1 wave 1 / #1 prune Secret old", 6_600, 9_000, "Succeeded", None),
        ("sync / #1 Sync / #1 wave 1 / #1 apply Pod server", 6_700, 9_000, "Failed", Some("no such image")),
        ("sync / #2 Sync", 10_100, 12_000, "Succeeded", None),
        ("sync / #2 Sync / #2 wave 1", 10_100, 12_000, "Succeeded", None),
        ("sync / #2 Sync / #2 wave 1 / #2 apply Pod server", 10_100, 12_000, "Succeeded", None),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(path, begun, ended, outcome, failure)| {
            (path.to_owned(), begun, ended, outcome.to_owned(), failure.map(str::to_owned))
        })
        .collect();
    assert_eq!(describe_spans(&made), expected);
    let whole = made.first().unwrap();
    for (name, value) in [
        ("tidegate.application", json!("shop")),
        ("tidegate.project", json!("default")),
        ("tidegate.revision", json!("abc")),
        ("tidegate.initiated_by", json!("ann")),
        ("tidegate.attempts", json!(2)),
        ("tidegate.operation", json!(ID)),
    ] {
        assert_eq!(attribute(whole, name), &value, "{name}");
    }
    let happened: Vec<(&str, i64)> = whole.events.iter().map(|one| (one.name, one.at.as_millis())).collect();
    assert_eq!(happened, [("attempt-failed", 9_000), ("retry-started", 10_000)]);
    let ids: BTreeSet<String> = made.iter().map(|span| span.id.to_string()).collect();
    assert_eq!(ids.len(), made.len(), "all IDs are different");
    assert!(ids.iter().all(|id| id.len() == 16));
}

#[test]
fn the_same_log_gives_the_same_spans_and_a_partial_log_fewer() {
    let all = sample_events();
    let json = |events: &[OperationEvent]| {
        let id = ID.parse().unwrap();
        spans_of(events).iter().map(|span| otlp::encode_span(id, span)).collect::<Vec<_>>()
    };
    assert_eq!(json(&all), json(&all));
    // An open operation doesn't have spans yet. They are sent when it finishes.
    assert!(json(&all[..all.len() - 1]).is_empty());
    // Compacting the first events does not change the remaining spans.
    let driver = Driver::recover(None, all.clone()).unwrap();
    let rest = build_spans(driver.state(), &all[26..], None);
    let later = describe_spans(&spans_of(&all)).split_off(11);
    assert_eq!(describe_spans(&rest).split_off(1), later);
    assert_eq!(rest.first().unwrap().started_at, at(1_000));
}

#[test]
fn spans_follow_the_protocol() {
    let spans = spans_of(&sample_events());
    let server = spans.iter().find(|span| span.failure.as_deref() == Some("no such image")).unwrap();
    let encoded = otlp::encode_span(ID.parse().unwrap(), server);
    assert_eq!(encoded["traceId"], "0198c0de000070008000000000000001");
    assert_eq!(encoded["spanId"], server.id.to_string());
    assert_eq!(encoded["parentSpanId"], server.parent.unwrap().to_string());
    assert_eq!((&encoded["kind"], &encoded["name"]), (&json!(1), &json!("apply Pod")));
    assert_eq!(encoded["startTimeUnixNano"], "6700000000");
    assert_eq!(encoded["endTimeUnixNano"], "9000000000");
    assert_eq!(encoded["status"], json!({"code": 2, "message": "no such image"}));
    let attributes = encoded["attributes"].as_array().unwrap();
    for expected in [
        json!({"key": "tidegate.wave", "value": {"intValue": "1"}}),
        json!({"key": "tidegate.hook", "value": {"boolValue": false}}),
        json!({"key": "k8s.namespace.name", "value": {"stringValue": "shop"}}),
    ] {
        assert!(attributes.contains(&expected), "{encoded}");
    }
    let whole = otlp::encode_span(ID.parse().unwrap(), spans.first().unwrap());
    assert!(whole.get("parentSpanId").is_none() && whole.get("status").is_none(), "{whole}");
    assert_eq!(whole["events"][0]["timeUnixNano"], "9000000000");
    let request = otlp::export_request(&[("service.name".to_owned(), "gate".to_owned())], &[whole]);
    let of = &request["resourceSpans"][0];
    let service = json!({"key": "service.name", "value": {"stringValue": "gate"}});
    assert_eq!(of["resource"]["attributes"], json!([service]));
    assert_eq!(of["scopeSpans"][0]["scope"]["name"], "tidegate");
    assert_eq!(of["scopeSpans"][0]["spans"].as_array().unwrap().len(), 1);
}

#[test]
fn spans_that_end_early_are_stopped() {
    let mut events = sample_events();
    // A user terminates the operation while the hook is running, so the hook is stopped.
    events.truncate(10);
    let message = "Operation terminated".to_owned();
    events.extend([
        OperationEvent::TerminationRequested { by: "bob".to_owned(), at: at(4_000) },
        stage_event(Stage::Terminating, 4_000),
        OperationEvent::HookStopped {
            task: TaskId(0),
            phase: Failed,
            message: "terminated".to_owned(),
            clean: true,
        },
        OperationEvent::Finished { phase: Failed, message: message.clone(), at: at(5_000) },
    ]);
    let expected: Vec<(String, i64, i64, String, Option<String>)> = vec![
        ("sync".to_owned(), 1_000, 5_000, "Failed".to_owned(), Some(message)),
        ("sync / #1 dry run".to_owned(), 2_000, 3_000, "Succeeded".to_owned(), None),
        ("sync / #1 PreSync".to_owned(), 3_000, 5_000, "Stopped".to_owned(), None),
        ("sync / #1 PreSync / #1 wave 0".to_owned(), 3_000, 5_000, "Stopped".to_owned(), None),
        (
            "sync / #1 PreSync / #1 wave 0 / #1 hook Job migrate".to_owned(),
            3_100,
            5_000,
            "Failed".to_owned(),
            Some("terminated".to_owned()),
        ),
    ];
    assert_eq!(describe_spans(&spans_of(&events)), expected);
}
