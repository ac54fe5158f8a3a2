//! Admission webhooks, and what the server warns of.

use tidegate_model::OperationPhase;
use tidegate_testkit::kube::{ControlPlane, User};
use tidegate_testkit::recorded::Recorded as _;
use tidegate_testkit::scenario::{Sync, retries};

use crate::engine::Bench;
use crate::rough::config;
use crate::webhook::Webhook;

/// A webhook that refuses one object: the dry run says so in the webhook's words, and nothing is written.
pub async fn a_webhook_refuses() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "webhook").await;
    let webhook = Webhook::start("no configuration called b here").await;
    webhook.register(&control.caller(User::OBSERVER), &bench.namespace, "b").await;
    let (id, view) = bench.run(&Sync::of(&[config("a", 0, ""), config("b", 1, "")].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let told = view.resources.iter().find(|result| result.name == "b").unwrap();
    assert!(told.message.contains("no configuration called b here"), "{told:#?}");
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "{}", view.message);
}

/// A webhook that quotes what it refuses, in whatever encoding: the value of a Secret reaches neither the result nor the
/// log, and the rest of its words stays.
pub async fn a_webhook_echoes_a_secret() {
    let control = ControlPlane::shared();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: 'Canary <7xq1> value!'}\n---\n";
    // Each form, and what of it must not be seen: nothing that the id of an operation may have.
    for (form, canary) in [
        ("Canary <7xq1> value!", "7xq1"),
        ("Q2FuYXJ5IDw3eHExPiB2YWx1ZSE=", "Q2FuYXJ5"),
        ("Q2FuYXJ5IDw3eHExPiB2YWx1ZSE", "Q2FuYXJ5"),
        ("Canary%20%3C7xq1%3E%20value%21", "7xq1"),
        ("Canary+%3c7xq1%3e+value!", "7xq1"),
        ("43616e617279203c377871313e2076616c756521", "43616e61"),
        ("43616E617279203C377871313E2076616C756521", "43616E61"),
        (r#"\"Canary \u003c7xq1\u003e value!\""#, "7xq1"),
        (r#""Canary \x3c7xq1\x3e value!""#, "7xq1"),
        ("Canary <7xq1>\nvalue!", "7xq1"),
        ("Q2FuYXJ5IDw3\n  eHExPiB2YWx1ZSE=", "eHExPiB2"),
    ] {
        let bench = Bench::of(control, "echo").await;
        let webhook = Webhook::start(format!("refused: {form} :end")).await;
        webhook.register(&control.caller(User::OBSERVER), &bench.namespace, "b").await;
        let sync = Sync::of(&[secret.to_owned(), config("b", 1, "")].concat());
        let (id, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{form}: {}", view.message);
        let loaded = bench.log.load(id).unwrap();
        let (facts, state) = (bench.log.facts(id).unwrap(), loaded.snapshot);
        for (what, text) in [
            ("result", serde_json::to_string(&view).unwrap()),
            ("log", format!("{facts:?}")),
            ("state", format!("{state:?} {:?}", loaded.facts)),
        ] {
            assert!(!text.contains(canary), "{form}: the {what} shows it: {text}");
        }
        let told = view.resources.iter().find(|result| result.name == "b").unwrap();
        assert!(
            told.message.contains("refused: ")
                && told.message.contains("++++++++")
                && told.message.contains(":end"),
            "{form}: the rest of the words stays: {}",
            told.message
        );
    }
}

/// A webhook that never answers costs a few tries and is named; then the attempt has failed, and another one is made
/// where it was asked for.
pub async fn a_webhook_times_out() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "silent").await.patient().await;
    let webhook = Webhook::silent().await;
    webhook.register(&control.caller(User::OBSERVER), &bench.namespace, "b").await;
    let sync = Sync::of(&config("b", 0, "")).with(|request| request.retry = retries(1));
    let (id, view) = bench.run(&sync).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert_eq!(view.retry_count, 1, "{}", view.message);
    let told = view.resources.iter().find(|result| result.name == "b").unwrap();
    assert!(told.message.contains("refuse.example.com"), "{}", told.message);
    assert!(webhook.asked() <= 2 * 3, "asked {} times", webhook.asked());
    assert_eq!(bench.writes(id).await.summaries(), [""; 0]);
}

/// What the server warns of when it takes a manifest, or would take it, is kept with the result of the object, once.
pub async fn a_webhook_warns() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "warning").await;
    let words = "config maps without an owner are \"frowned upon\"";
    let webhook = Webhook::warning(words).await;
    webhook.register(&control.caller(User::OBSERVER), &bench.namespace, "b").await;
    for dry_run in [true, false] {
        let sync = Sync::of(&config("b", 0, "")).with(|request| request.options.dry_run = dry_run);
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(view.resources[0].warnings, [words], "dry run: {dry_run}");
    }
}
