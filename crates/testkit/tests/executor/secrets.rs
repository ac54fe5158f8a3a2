//! Secret values in a server's message must not appear anywhere: in results, events or explanations.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::effects::MASK;
use tidegate_executor::{Event, HookResult, HookRun};
use tidegate_model::OperationPhase;
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, callback_actor, config, hook, submit, wait_for_end,
};

/// Secret value that occurs nowhere else.
const CANARY: &str = "Canary-7d41\"quoted\" value";
/// Base64 form of [`CANARY`].
const CANARY_BASE64: &str = "Q2FuYXJ5LTdkNDEicXVvdGVkIiB2YWx1ZQ==";

fn manifests() -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: credentials}}\nstringData: {{password: {CANARY:?}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: encoded}}\ndata: {{password: {CANARY_BASE64}}}\n---\n{}{}",
        config("settings", 0, &[]),
        hook("check", "PostSync", &[("tidegate.dev/hook-runner", "echo")]),
    )
}

/// Returns a server's message with the Secret value in all known formats.
fn echo_message() -> String {
    format!(
        "Secret is invalid: data: Invalid value: {CANARY:?}: {CANARY} ({CANARY_BASE64}), {}...",
        &CANARY[..16]
    )
}

fn assert_clean(what: &str, text: &str) {
    for part in [CANARY, "Canary-7d41", CANARY_BASE64.trim_end_matches('='), "Q2FuYXJ5LTdkNDE"] {
        assert!(!text.contains(part), "{what} contains the secret: {text}");
    }
}

async fn check_all_output(fails: &'static str, expected: OperationPhase) {
    let words: &'static str = echo_message().leak();
    let decide = move |verb: &'static str, name: &str| {
        if verb == "apply" && name == fails {
            CallOutcome::RefuseWithMessage(words)
        } else {
            CallOutcome::Answer
        }
    };
    let (cluster, log) =
        (FaultyCluster::new(tidegate_cluster::sim::SimConfig::default(), decide), Log::new());
    let runner =
        callback_actor(|run: HookRun| drop(run.reply.send(HookResult::Succeeded(echo_message())))).await;
    let received_events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let notifier = {
        let received_events = Arc::clone(&received_events);
        callback_actor(move |event: Event| received_events.lock().unwrap().push(event)).await
    };
    let engine =
        builder(&cluster, &log).hook_runner("echo", runner).notifier(notifier).start().await.unwrap();
    let mut events = engine.events_from_now().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&manifests())).await;
    let view = wait_for_end(&engine, id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(view.phase, expected);
    let shown = format!("{view:?}");
    assert!(shown.contains(MASK), "the rest of the text is unchanged: {shown}");
    assert_clean("the result", &shown);
    assert_clean("the facts", &format!("{:?}", log.recorded_events(id).unwrap()));
    assert_clean("the summary", &format!("{:?}", log.summaries().unwrap()));
    assert_clean("the explanation", &format!("{:?}", engine.inspect(id).await.unwrap()));
    assert_clean("the notifier's events", &format!("{:?}", received_events.lock().unwrap()));
    let mut received = Vec::new();
    engine.shutdown().await;
    while let Some(event) = events.next().await {
        received.push(event.unwrap());
    }
    assert!(!received.is_empty());
    assert_clean("the events", &format!("{received:?}"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_quotes_a_secret_is_masked_everywhere() {
    check_all_output("credentials", OperationPhase::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_prints_a_secret_is_masked_everywhere() {
    check_all_output("nothing", OperationPhase::Succeeded).await;
}
