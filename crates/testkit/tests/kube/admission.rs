//! Admission webhooks, and warnings from the server.

use tidegate_model::OperationPhase;
use tidegate_testkit::kube::{ControlPlane, User};
use tidegate_testkit::operation_events::OperationEvents as _;
use tidegate_testkit::scenario::{SyncSpec, retry_policy};

use crate::cluster_failures::config;
use crate::engine::Bench;
use crate::webhook::Webhook;

/// The dry run's result must contain the webhook's message, and the operation must not write to the cluster.
pub async fn a_webhook_refuses() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "webhook").await;
    let webhook = Webhook::refusing("no configuration called b here").await;
    webhook.register(&control.client(User::OBSERVER), &bench.namespace, "b").await;
    let (id, view) = bench.run(&SyncSpec::new(&[config("a", 0, ""), config("b", 1, "")].concat())).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let resource_result = view.resources.iter().find(|result| result.name == "b").unwrap();
    assert!(resource_result.message.contains("no configuration called b here"), "{resource_result:#?}");
    assert_eq!(bench.writes(id).await.summaries(), [""; 0], "{}", view.message);
}

/// The webhook's message contains the rejected Secret in various encodings. Neither the result nor the log
/// may contain the Secret's value, but the rest of the message must be readable.
pub async fn a_webhook_echoes_a_secret() {
    let control = ControlPlane::shared();
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: 'Canary <7xq1> value!'}\n---\n";
    // Encodings of the Secret's value, each with the part that must be hidden. These parts can't occur in an
    // operation ID.
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
        let bench = Bench::for_test(control, "echo").await;
        let webhook = Webhook::refusing(format!("refused: {form} :end")).await;
        webhook.register(&control.client(User::OBSERVER), &bench.namespace, "b").await;
        let sync = SyncSpec::new(&[secret.to_owned(), config("b", 1, "")].concat());
        let (id, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{form}: {}", view.message);
        let loaded = bench.log.load(id).unwrap();
        let (events, state) = (bench.log.recorded_events(id).unwrap(), loaded.snapshot);
        for (what, text) in [
            ("result", serde_json::to_string(&view).unwrap()),
            ("log", format!("{events:?}")),
            ("state", format!("{state:?} {:?}", loaded.events)),
        ] {
            assert!(!text.contains(canary), "{form}: the {what} contains it: {text}");
        }
        let resource_result = view.resources.iter().find(|result| result.name == "b").unwrap();
        assert!(
            resource_result.message.contains("refused: ")
                && resource_result.message.contains("++++++++")
                && resource_result.message.contains(":end"),
            "{form}: the rest of the text is unchanged: {}",
            resource_result.message
        );
    }
}

/// If a webhook doesn't respond, the operation retries a few times and reports the webhook. Then the attempt
/// fails, and another one starts if retries are configured.
pub async fn a_webhook_times_out() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "silent").await.with_command_timeouts().await;
    let webhook = Webhook::silent().await;
    webhook.register(&control.client(User::OBSERVER), &bench.namespace, "b").await;
    let sync = SyncSpec::new(&config("b", 0, "")).with_request(|request| request.retry = retry_policy(1));
    let (id, view) = bench.run(&sync).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert_eq!(view.retry_count, 1, "{}", view.message);
    let resource_result = view.resources.iter().find(|result| result.name == "b").unwrap();
    assert!(resource_result.message.contains("refuse.example.com"), "{}", resource_result.message);
    assert!(webhook.reviews() <= 2 * 3, "asked {} times", webhook.reviews());
    assert_eq!(bench.writes(id).await.summaries(), [""; 0]);
}

/// The server's warnings about a write or a dry run must appear once in the object's result.
pub async fn a_webhook_warns() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "warning").await;
    let text = "config maps without an owner are \"frowned upon\"";
    let webhook = Webhook::warning(text).await;
    webhook.register(&control.client(User::OBSERVER), &bench.namespace, "b").await;
    for dry_run in [true, false] {
        let sync =
            SyncSpec::new(&config("b", 0, "")).with_request(|request| request.options.dry_run = dry_run);
        let (_, view) = bench.run(&sync).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(view.resources[0].warnings, [text], "dry run: {dry_run}");
    }
}
