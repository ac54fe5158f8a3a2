//! The way to the cluster, and what is said when there is none.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::kube::Options;

use crate::bench::{Bench, Ran};
use crate::manifests::CONFIG;
use crate::site::{Plane, Site};

/// A sync of an application that no other test has.
fn sync<'a>(site: &'a Site, more: &[&'a str]) -> Ran {
    site.run(&[&["sync", "config.yaml", "--app", &site.namespace][..], more].concat())
}

/// Takes a while to be ready, and something comes after it.
const SERVER: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, annotations: {sim.tidegate.dev/ready-after: 20s}}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      containers: [{name: main, image: nginx}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: after
  annotations: {argocd.argoproj.io/sync-wave: "1"}
"#;

pub async fn without_a_kubeconfig_it_says_what_to_do() {
    let bench = Bench::new();
    bench.write("config.yaml", CONFIG);
    let sync = ["sync", "config.yaml", "--app", "a"];
    for args in [&sync[..], &["plan", "config.yaml"]] {
        let ran = bench.run(args).expect_code(2);
        for way_out in ["--kubeconfig", "KUBECONFIG", "--sim"] {
            assert!(ran.err.contains(way_out), "{way_out}: {}", ran.err);
        }
    }
    let ran = bench.run(&[&sync[..], &["--kubeconfig", "nowhere.yaml"]].concat()).expect_code(2);
    assert!(ran.err.contains("nowhere.yaml"), "{}", ran.err);
    assert!(!bench.state().exists());
}

pub async fn an_unknown_context_is_answered_with_those_there_are() {
    let site = Site::without_namespace("context");
    site.write("config.yaml", CONFIG);
    let ran = sync(&site, &["--context", "nobody"]).expect_code(2);
    for name in ["nobody", "engine", "observer"] {
        assert!(ran.err.contains(name), "{name}: {}", ran.err);
    }
    assert!(!site.state().exists());
}

pub async fn a_server_that_does_not_answer_is_named() {
    let site = Site::without_namespace("gone");
    site.write("config.yaml", CONFIG);
    // Nobody listens on port 1, and no other test gets it.
    let url = "https://127.0.0.1:1";
    let file = site
        .changed_kubeconfig("gone.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    let ran = sync(&site, &["--kubeconfig", file.to_str().unwrap()]).expect_code(1);
    assert!(ran.err.matches(url).count() == 1 && ran.err.contains("context engine"), "{}", ran.err);
    assert!(!site.state().exists());
    // One that takes the connection and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let file = site
        .changed_kubeconfig("silent.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    let args = ["--kubeconfig", file.to_str().unwrap(), "--request-timeout", "1s"];
    let ran = sync(&site, &args).expect_code(1);
    assert!(ran.err.contains(&url), "{}", ran.err);
    // Why nothing happens is said before the time is over.
    let args = ["sync", "config.yaml", "--app", &site.namespace, "--kubeconfig", file.to_str().unwrap()];
    let mut sync = site.start(&args);
    let line = sync.await_line("the cluster has not answered for");
    assert!(seconds_told(&line) <= 15, "{line}");
    sync.signal("KILL");
    sync.finish();
}

/// The seconds in `… not answered for 7 s: …`.
fn seconds_told(line: &str) -> u64 {
    let (_, rest) = line.split_once(" answered for ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// A server that stands still is named while an operation waits, in the lines of the sync and by `explain`, and the
/// operation goes on as soon as the server does.
pub async fn a_server_that_stands_still_is_named_and_nothing_waits_afterwards() {
    let control = Plane::own(Options::default());
    let site = Site::on(control.clone(), "still").await;
    site.write("slow.yaml", SERVER);
    let mut sync = site.start(&["sync", "slow.yaml", "--app", "a", "-n", &site.namespace]);
    sync.await_line("waiting for Deployment");
    control.pause_api_server().unwrap();
    let line = sync.await_line("the cluster has not answered for");
    assert!(seconds_told(&line) <= 15, "{line}");
    let ran = site.run(&["explain", "a"]).expect_code(0);
    assert!(ran.out.contains("the cluster has not answered for"), "{}", ran.out);
    control.resume_api_server().unwrap();
    sync.finish().expect_code(0);
}

/// Whoever connects to a server that stands still can be interrupted, whatever it wants there.
pub async fn a_signal_ends_what_connects_to_a_server_that_stands_still() {
    let control = Plane::own(Options::default());
    let site = Site::on(control.clone(), "interrupted").await;
    site.write("slow.yaml", SERVER);
    let mut sync = site.start(&["sync", "slow.yaml", "--app", "a", "-n", &site.namespace]);
    sync.await_line("waiting for Deployment");
    sync.signal("KILL");
    sync.finish();
    control.pause_api_server().unwrap();
    for args in [&["resume", "--all"][..], &["ops", "terminate", "a"]] {
        let mut running = site.start(args);
        running.await_line("not answered");
        // Whoever asks why nothing goes on is told as well, and that somebody is at work.
        let explained = site.json(&["explain", "a", "-o", "json"]);
        let trouble = explained["trouble"].as_str().unwrap_or_default();
        assert!(trouble.contains("the cluster has not answered for"), "{explained}");
        assert!(seconds_told(trouble) <= 15 && explained["atWork"] == true, "{explained}");
        running.signal("INT");
        // The request itself would be given up after 36 s.
        let status = running.is_over_within(Duration::from_secs(15)).expect("it goes on waiting");
        let ran = running.finish_with(status).expect_code(3);
        assert!(ran.err.contains("tidegate resume"), "{}", ran.err);
    }
    control.resume_api_server().unwrap();
    site.run(&["resume", "--all"]).expect_code(1);
    assert_eq!(site.json(&["ops", "list", "-o", "json"])[0]["phase"], "Failed", "the wish holds");
}

pub async fn a_certificate_nobody_vouches_for_is_refused() {
    let site = Site::without_namespace("tls");
    site.write("config.yaml", CONFIG);
    let file = site.changed_kubeconfig("tls.yaml", |config| {
        config["clusters"][0]["cluster"].as_object_mut().unwrap().remove("certificate-authority");
    });
    let ran = sync(&site, &["--kubeconfig", file.to_str().unwrap()]).expect_code(1);
    assert!(ran.err.contains("certificate") && ran.err.contains(site.control.url()), "{}", ran.err);
}

pub async fn the_namespace_is_that_of_the_context() {
    let site = Site::new("context-namespace").await;
    site.write("config.yaml", CONFIG);
    let namespace = json!(site.namespace);
    let file = site.changed_kubeconfig("here.yaml", |config| {
        for context in config["contexts"].as_array_mut().unwrap() {
            context["context"]["namespace"] = namespace.clone();
        }
    });
    sync(&site, &["--kubeconfig", file.to_str().unwrap()]).expect_code(0);
    assert!(site.object("/api/v1", "configmaps", "config").await.is_some());
    // What is said on the command line counts more.
    let other = site.control.namespace("other").await.unwrap();
    let args = ["sync", "config.yaml", "--app", &other, "-n", &other, "--kubeconfig", file.to_str().unwrap()];
    site.run(&args).expect_code(0);
    assert!(
        site.observer()
            .find(&format!("/api/v1/namespaces/{other}/configmaps/config"))
            .await
            .unwrap()
            .is_some()
    );
}

pub async fn it_acts_as_somebody_else() {
    let site = Site::new("impersonate").await;
    site.write("config.yaml", CONFIG);
    let args = ["-n", &site.namespace, "--as", "robot", "--as-group", "system:masters"];
    sync(&site, &args).expect_code(0);
    let writes = site.writes().await;
    assert!(!writes.0.is_empty());
    assert!(writes.0.iter().all(|event| event.impersonated.as_deref() == Some("robot")), "{writes:#?}");
}
