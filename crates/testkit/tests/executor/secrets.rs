//! Values of Secrets, echoed by a server, reach nobody: no result, no event, no fact, no explanation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_executor::effects::MASK;
use tidegate_executor::{Event, HookEnd, HookRun};
use tidegate_model::OperationPhase;
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, actor, builder, config, end, hook, submit};

/// Bytes that stand nowhere else.
const CANARY: &str = "Canary-7d41\"quoted\" value";
/// The same in base64.
const ENCODED: &str = "Q2FuYXJ5LTdkNDEicXVvdGVkIiB2YWx1ZQ==";

fn manifests() -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: credentials}}\nstringData: {{password: {CANARY:?}}}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {{name: encoded}}\ndata: {{password: {ENCODED}}}\n---\n{}{}",
        config("settings", 0, &[]),
        hook("check", "PostSync", &[("tidegate.dev/hook-runner", "echo")]),
    )
}

/// What a server says that shows what it was sent, in all the ways servers do.
fn echo() -> String {
    format!("Secret is invalid: data: Invalid value: {CANARY:?}: {CANARY} ({ENCODED}), {}...", &CANARY[..16])
}

fn clean(what: &str, text: &str) {
    for part in [CANARY, "Canary-7d41", ENCODED.trim_end_matches('='), "Q2FuYXJ5LTdkNDE"] {
        assert!(!text.contains(part), "{what} shows the secret: {text}");
    }
}

async fn everything_of(fails: &'static str, expected: OperationPhase) {
    let words: &'static str = echo().leak();
    let decide = move |verb: &'static str, name: &str| {
        if verb == "apply" && name == fails { Fate::Say(words) } else { Fate::Answer }
    };
    let (cluster, log) = (Moody::new(tidegate_cluster::sim::SimConfig::default(), decide), Log::new());
    let runner = actor(|run: HookRun| drop(run.reply.send(HookEnd::Succeeded(echo())))).await;
    let told: Arc<Mutex<Vec<Event>>> = Arc::default();
    let notifier = {
        let told = Arc::clone(&told);
        actor(move |event: Event| told.lock().unwrap().push(event)).await
    };
    let engine =
        builder(&cluster, &log).hook_runner("echo", runner).notifier(notifier).start().await.unwrap();
    let mut events = engine.events_from_now().await.unwrap();
    let id = submit(&engine, &Sync::of(&manifests())).await;
    let view = end(&engine, id).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(view.phase, expected);
    let shown = format!("{view:?}");
    assert!(shown.contains(MASK), "the rest of the words stays: {shown}");
    clean("the result", &shown);
    clean("the facts", &format!("{:?}", log.facts(id).unwrap()));
    clean("the summary", &format!("{:?}", log.summaries().unwrap()));
    clean("the explanation", &format!("{:?}", engine.inspect(id).await.unwrap()));
    clean("the notifier's events", &format!("{:?}", told.lock().unwrap()));
    let mut heard = Vec::new();
    engine.shutdown().await;
    while let Some(event) = events.next().await {
        heard.push(event.unwrap());
    }
    assert!(!heard.is_empty());
    clean("the events", &format!("{heard:?}"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_quotes_a_secret_is_masked_everywhere() {
    everything_of("credentials", OperationPhase::Failed).await;
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_talks_about_a_secret_is_masked_everywhere() {
    everything_of("nothing", OperationPhase::Succeeded).await;
}
