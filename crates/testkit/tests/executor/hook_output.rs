//! Output of running hooks, streamed to followers. Followers must not affect the operation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_executor::{Engine, EngineError, HookOutput, Output};
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;
use tokio::time::Instant;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, hook, submit, wait_for_end, with_time_limit,
};

/// Returns a hook with this duration and output.
fn hook_with_output(name: &str, phase: &str, duration: &str, text: &str) -> String {
    hook(name, phase, &[("sim.tidegate.dev/ready-after", duration), ("sim.tidegate.dev/logs", text)])
}

async fn collect_output(mut output: HookOutput) -> Vec<Output> {
    let mut received_output = Vec::new();
    while let Some(item) = with_time_limit(output.next()).await {
        received_output.push(item);
    }
    received_output
}

/// Returns the lines of each hook, in order.
fn lines_by_hook(output: &[Output]) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in output {
        if let Output::Line { source, text, .. } = item {
            lines.entry(source.hook.name.clone()).or_default().push(text.clone());
        }
    }
    lines
}

fn notes(output: &[Output]) -> Vec<String> {
    let notes = output.iter().filter_map(|item| match item {
        Output::Note { message, .. } => Some(message.clone()),
        _ => None,
    });
    notes.collect()
}

fn numbered_lines(count: usize) -> (String, Vec<String>) {
    let lines: Vec<String> = (0..count).map(|number| format!("line {number}")).collect();
    (lines.join("\n"), lines)
}

#[tokio::test(start_paused = true)]
async fn each_line_arrives_once_while_the_hook_runs() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let (text, expected) = numbered_lines(19);
    let began = Instant::now();
    let id = submit(&engine, &SyncSpec::new(&hook_with_output("migrate", "PreSync", "20s", &text))).await;
    let mut output = engine.follow_output(id).await.unwrap();
    let (mut received_output, mut times) = (Vec::new(), Vec::new());
    while let Some(item) = with_time_limit(output.next()).await {
        times.push(began.elapsed());
        received_output.push(item);
    }
    assert_eq!(lines_by_hook(&received_output), BTreeMap::from([("migrate".to_owned(), expected)]));
    let Output::Line { source, at, .. } = &received_output[0] else { panic!("{received_output:?}") };
    assert_eq!((source.hook.kind.as_str(), source.hook.namespace.as_str()), ("Job", "default"));
    assert!(source.pod.starts_with("migrate-") && source.container == "main", "{source:?}");
    assert!(*at > tidegate_testkit::process::START, "{at}");
    // Each line must arrive when it is written, once per second, not all of them at the end.
    for (number, at) in (1..).zip(&times) {
        let late = at.saturating_sub(Duration::from_secs(number));
        assert!(late < Duration::from_secs(2), "line {number} after {at:?}");
    }
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    // A finished operation has no output to follow, so this is an error.
    let error = engine.follow_output(id).await.err().unwrap();
    assert!(matches!(error, EngineError::AlreadyFinished { .. }), "{error}");
    let error = engine.follow_output(engine.next_id().await.unwrap()).await.err().unwrap();
    assert!(matches!(error, EngineError::UnknownOperation { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn later_hooks_are_followed_and_late_followers_get_earlier_lines() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let manifests = [
        hook_with_output("first", "PreSync", "10s", "a\nb\nc"),
        hook_with_output("beside", "PreSync", "8s", "x\ny"),
        hook_with_output("later", "PostSync", "10s", "d\ne"),
        config("settings", 0, &[]),
    ];
    let id = submit(&engine, &SyncSpec::new(&manifests.concat())).await;
    let early = tokio::spawn(collect_output(engine.follow_output(id).await.unwrap()));
    tokio::time::sleep(Duration::from_secs(9)).await;
    let late = tokio::spawn(collect_output(engine.follow_output(id).await.unwrap()));
    wait_for_end(&engine, id).await;
    let expected = [("beside", vec!["x", "y"]), ("first", vec!["a", "b", "c"]), ("later", vec!["d", "e"])];
    let expected: BTreeMap<String, Vec<String>> = expected
        .into_iter()
        .map(|(name, lines)| (name.to_owned(), lines.into_iter().map(str::to_owned).collect()))
        .collect();
    assert_eq!(lines_by_hook(&early.await.unwrap()), expected);
    let mut known = expected.clone();
    // The hook `beside` had finished before the late follower connected.
    known.remove("beside");
    assert_eq!(lines_by_hook(&late.await.unwrap()), known);
}

/// A slow reader must not block others, and must receive the number of missed lines.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_the_oldest_lines_and_gets_their_number() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let (text, expected) = numbered_lines(5000);
    let id = submit(&engine, &SyncSpec::new(&hook_with_output("chatty", "Sync", "50s", &text))).await;
    let output = engine.follow_output(id).await.unwrap();
    wait_for_end(&engine, id).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let hook_output = collect_output(output).await;
    let Output::Dropped { source, lines: left_out } = &hook_output[0] else { panic!("{:?}", hook_output[0]) };
    assert_eq!(source.hook.name, "chatty");
    let stored_lines = &lines_by_hook(&hook_output)["chatty"];
    assert_eq!(stored_lines.len() + usize::try_from(*left_out).unwrap(), 5000);
    assert!(stored_lines.len() >= 1000, "{}", stored_lines.len());
    assert_eq!(stored_lines[..], expected[5000 - stored_lines.len()..]);
    assert_eq!(hook_output.len(), stored_lines.len() + 1);
}

/// Followers that act or crash, and an unresponsive cluster, must not affect recorded events or writes.
#[tokio::test(start_paused = true)]
async fn followers_never_affect_the_operation() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Reader {
        None,
        Reading,
        Sleeping,
        Crashing,
    }
    let manifests = [
        hook_with_output("migrate", "PreSync", "7s", "a\nb\nc"),
        config("settings", 0, &[]),
        hook_with_output("smoke", "PostSync", "5s", "d\ne"),
    ]
    .concat();
    let run = async |reader: Reader, fate: CallOutcome| -> (Vec<OperationEvent>, Vec<(String, u16)>) {
        let cluster = FaultyCluster::new(SimConfig::default(), move |verb, _| match verb {
            "pods" | "follow" => fate,
            _ => CallOutcome::Answer,
        });
        let engine = builder(&cluster, &Log::new()).in_flight(1).start().await.unwrap();
        let id = submit(&engine, &SyncSpec::new(&manifests)).await;
        let mut readers = Vec::new();
        // Open more followers than the maximum number of calls in flight.
        for _ in 0..if reader == Reader::None { 0 } else { 4 } {
            let mut output = engine.follow_output(id).await.unwrap();
            readers.push(tokio::spawn(async move {
                match reader {
                    Reader::Sleeping => std::future::pending().await,
                    Reader::Crashing => drop(output.next().await),
                    _ => while output.next().await.is_some() {},
                }
            }));
        }
        if reader == Reader::Crashing {
            tokio::time::sleep(Duration::from_secs(3)).await;
            readers.iter().for_each(tokio::task::JoinHandle::abort);
        }
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded, "{reader:?} {fate:?}");
        let events = engine.stored_events(id).await.unwrap();
        (events, cluster.writes().into_iter().map(|entry| (entry.name, entry.code)).collect())
    };
    for fate in [
        CallOutcome::Answer,
        CallOutcome::Hang,
        CallOutcome::Panic,
        CallOutcome::Refuse(ErrorKind::Unavailable),
    ] {
        let (undisturbed, writes) = run(Reader::None, CallOutcome::Answer).await;
        for reader in [Reader::Reading, Reader::Sleeping, Reader::Crashing] {
            let (events, written) = run(reader, fate).await;
            assert_eq!(event_names(&events), event_names(&undisturbed), "{reader:?} {fate:?}");
            assert_eq!(written, writes, "{reader:?} {fate:?}");
        }
    }
}

/// Returns the events without IDs and resource versions, which differ between runs.
fn event_names(events: &[OperationEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| format!("{event:?}").chars().take_while(|sign| sign.is_alphanumeric()).collect())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn secret_values_are_masked_in_every_line() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: the-canary-of-this-test}\n---\n";
    let text = "connecting as app:the-canary-of-this-test\nthe-canary-of-\nthis-test\nwell";
    let manifests = format!("{secret}{}", hook_with_output("migrate", "Sync", "10s", text));
    let id = submit(&engine, &SyncSpec::new(&manifests)).await;
    let output = collect_output(engine.follow_output(id).await.unwrap()).await;
    let shown = &lines_by_hook(&output)["migrate"];
    assert_eq!(shown[..], ["connecting as app:++++++++", "++++++++", "++++++++", "well"]);
    assert!(!format!("{output:?}").contains("canary"));
}

/// The number of followed containers is limited. The others must be followed after some have finished, and
/// their wait must be reported.
#[tokio::test(start_paused = true)]
async fn containers_beyond_the_limit_wait_to_be_followed() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let hooks: String = (0..20)
        .map(|number| {
            let duration = if number < 16 { "10s" } else { "60s" };
            hook_with_output(&format!("hook-{number:02}"), "Sync", duration, "begins\nends")
        })
        .collect();
    let id = submit(&engine, &SyncSpec::new(&hooks)).await;
    let output = collect_output(engine.follow_output(id).await.unwrap()).await;
    let lines = lines_by_hook(&output);
    assert_eq!(lines.len(), 20, "{lines:?}");
    assert!(lines.values().all(|lines| lines[..] == ["begins", "ends"]), "{lines:?}");
    let notes: BTreeSet<String> = notes(&output).into_iter().collect();
    assert!(
        notes.len() == 1 && notes.iter().all(|note| note.contains("the maximum number of containers")),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_logs_is_noted_once_and_the_sync_continues() {
    let run = async |manifests: &str, cluster: Arc<FaultyCluster>| {
        let engine: Engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let id = submit(&engine, &SyncSpec::new(manifests)).await;
        let output = collect_output(engine.follow_output(id).await.unwrap()).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        assert!(lines_by_hook(&output).is_empty(), "{output:?}");
        notes(&output)
    };
    let duration = [("sim.tidegate.dev/ready-after", "10s")];
    let silent = format!("{}{}", hook("a", "PreSync", &duration), hook("b", "PostSync", &duration));
    let noted = run(&silent, FaultyCluster::reliable()).await;
    assert!(noted.len() == 1 && noted[0].contains("simulated pods do not write logs"), "{noted:?}");
    // A note also explains missing permissions and a server that always fails.
    for kind in [ErrorKind::Forbidden, ErrorKind::Server] {
        let refusing = FaultyCluster::new(SimConfig::default(), move |verb, _| {
            if verb == "follow" { CallOutcome::Refuse(kind) } else { CallOutcome::Answer }
        });
        let noted = run(&hook_with_output("a", "PreSync", "10s", "a\nb"), refusing).await;
        assert!(noted.len() == 1 && noted[0].contains(&format!("injected: {kind}")), "{noted:?}");
    }
}
