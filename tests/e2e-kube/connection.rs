//! Connections to the cluster, and errors if there is no connection.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tidegate_testkit::kube::{Options, User};

use crate::bench::{Bench, CommandOutput, Running};
use crate::kube_bench::{KubeBench, Plane, stuck_server};
use crate::manifests::CONFIG;

/// Syncs an application with a unique name.
fn sync<'a>(bench: &'a KubeBench, more: &[&'a str]) -> CommandOutput {
    bench.run(&[&["sync", "config.yaml", "--app", &bench.namespace][..], more].concat())
}

/// Returns a server that takes a while to become ready, followed by another object.
fn slow_server() -> String {
    stuck_server().replace("outcome: never-ready", "ready-after: 20s")
}

pub async fn a_missing_kubeconfig_error_says_what_to_do() {
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

pub async fn an_unknown_context_error_lists_the_existing_ones() {
    let bench = KubeBench::without_namespace("context");
    bench.write("config.yaml", CONFIG);
    let ran = sync(&bench, &["--context", "nobody"]).expect_code(2);
    for name in ["nobody", "engine", "observer"] {
        assert!(ran.err.contains(name), "{name}: {}", ran.err);
    }
    assert!(!bench.state().exists());
}

pub async fn an_unresponsive_server_is_named() {
    let bench = KubeBench::without_namespace("gone");
    bench.write("config.yaml", CONFIG);
    // Port 1 has no listener, and is never assigned to another test.
    let url = "https://127.0.0.1:1";
    let file = bench
        .changed_kubeconfig("gone.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    let ran = sync(&bench, &["--kubeconfig", file.to_str().unwrap()]).expect_code(1);
    assert!(ran.err.matches(url).count() == 1 && ran.err.contains("context engine"), "{}", ran.err);
    assert!(!bench.state().exists());
    // A server that accepts the connection but doesn't respond.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://127.0.0.1:{}", silent.local_addr().unwrap().port());
    let file = bench
        .changed_kubeconfig("silent.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    let args = ["--kubeconfig", file.to_str().unwrap(), "--request-timeout", "1s"];
    let ran = sync(&bench, &args).expect_code(1);
    assert!(ran.err.contains(&url), "{}", ran.err);
    // The cause is reported before the timeout.
    let args = ["sync", "config.yaml", "--app", &bench.namespace, "--kubeconfig", file.to_str().unwrap()];
    let mut sync = bench.start(&args);
    let line = sync.wait_for_line("the cluster has not responded for");
    assert!(reported_seconds(&line) <= 15, "{line}");
    sync.signal("KILL");
    sync.finish();
}

/// Returns the seconds in `… not responded for 7 s: …`.
fn reported_seconds(line: &str) -> u64 {
    let (_, rest) = line.split_once(" responded for ").unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// The output of the sync and `explain` must both mention the suspended server. The operation must continue
/// as soon as the server does.
pub async fn a_stalled_server_is_named_and_blocks_nothing_afterwards() {
    let control = Plane::own(Options::default());
    let bench = KubeBench::on_plane(control.clone(), "still").await;
    bench.write("slow.yaml", slow_server());
    let mut sync = bench.start(&["sync", "slow.yaml", "--app", "a", "-n", &bench.namespace]);
    sync.wait_for_line("waiting for Deployment");
    control.pause_api_server().unwrap();
    let line = sync.wait_for_line("the cluster has not responded for");
    assert!(reported_seconds(&line) <= 15, "{line}");
    let ran = bench.run(&["explain", "a"]).expect_code(0);
    assert!(ran.out.contains("the cluster has not responded for"), "{}", ran.out);
    control.resume_api_server().unwrap();
    sync.finish().expect_code(0);
}

/// Connections to a suspended server must be interruptible in every command.
pub async fn a_signal_interrupts_connections_to_a_stalled_server() {
    let control = Plane::own(Options::default());
    let bench = KubeBench::on_plane(control.clone(), "interrupted").await;
    bench.write("slow.yaml", slow_server());
    let mut sync = bench.start(&["sync", "slow.yaml", "--app", "a", "-n", &bench.namespace]);
    sync.wait_for_line("waiting for Deployment");
    sync.signal("KILL");
    sync.finish();
    control.pause_api_server().unwrap();
    for args in [&["resume", "--all"][..], &["ops", "terminate", "a"]] {
        let mut running = bench.start(args);
        running.wait_for_line("not responded");
        // `explain` also reports the cause and the process that is running.
        let explained = bench.json(&["explain", "a", "-o", "json"]);
        let trouble = explained["outage"].as_str().unwrap_or_default();
        assert!(trouble.contains("the cluster has not responded for"), "{explained}");
        assert!(reported_seconds(trouble) <= 15 && explained["isRunning"] == true, "{explained}");
        running.signal("INT");
        // The request itself would fail after 36 s.
        let status = running.wait_for_exit(Duration::from_secs(15)).expect("it keeps waiting");
        let ran = running.finish_with(status).expect_code(3);
        assert!(ran.err.contains("tidegate resume"), "{}", ran.err);
    }
    control.resume_api_server().unwrap();
    bench.run(&["resume", "--all"]).expect_code(1);
    assert_eq!(bench.json(&["ops", "list", "-o", "json"])[0]["phase"], "Failed", "the request is kept");
}

pub async fn an_untrusted_certificate_is_refused() {
    let bench = KubeBench::without_namespace("tls");
    bench.write("config.yaml", CONFIG);
    let file = bench.changed_kubeconfig("tls.yaml", |config| {
        config["clusters"][0]["cluster"].as_object_mut().unwrap().remove("certificate-authority");
    });
    let ran = sync(&bench, &["--kubeconfig", file.to_str().unwrap()]).expect_code(1);
    assert!(ran.err.contains("certificate") && ran.err.contains(bench.control.url()), "{}", ran.err);
}

pub async fn the_namespace_is_that_of_the_context() {
    let bench = KubeBench::new("context-namespace").await;
    bench.write("config.yaml", CONFIG);
    let namespace = json!(bench.namespace);
    let file = bench.changed_kubeconfig("here.yaml", |config| {
        for context in config["contexts"].as_array_mut().unwrap() {
            context["context"]["namespace"] = namespace.clone();
        }
    });
    sync(&bench, &["--kubeconfig", file.to_str().unwrap()]).expect_code(0);
    assert!(bench.object("/api/v1", "configmaps", "config").await.is_some());
    // The command line takes precedence.
    let other = bench.control.create_namespace("other").await.unwrap();
    let args = ["sync", "config.yaml", "--app", &other, "-n", &other, "--kubeconfig", file.to_str().unwrap()];
    bench.run(&args).expect_code(0);
    assert!(
        bench
            .observer()
            .find(&format!("/api/v1/namespaces/{other}/configmaps/config"))
            .await
            .unwrap()
            .is_some()
    );
}

pub async fn the_command_impersonates_another_user() {
    let bench = KubeBench::new("impersonate").await;
    bench.write("config.yaml", CONFIG);
    let args = ["-n", &bench.namespace, "--as", "robot", "--as-group", "system:masters"];
    sync(&bench, &args).expect_code(0);
    let writes = bench.writes().await;
    assert!(!writes.0.is_empty());
    assert!(writes.0.iter().all(|event| event.impersonated.as_deref() == Some("robot")), "{writes:#?}");
}

/// Without `USER`, the requester is the user name from the cluster's authentication or from the kubeconfig.
pub async fn the_cluster_names_the_requester() {
    let bench = KubeBench::new("requester").await;
    bench.write("config.yaml", CONFIG);
    let file = bench.changed_kubeconfig("renamed.yaml", |config| {
        let engine = config["current-context"].clone();
        for user in config["users"].as_array_mut().unwrap() {
            if user["name"] == engine {
                user["name"] = json!("of-the-kubeconfig");
            }
        }
        for context in config["contexts"].as_array_mut().unwrap() {
            if context["name"] == engine {
                context["context"]["user"] = json!("of-the-kubeconfig");
            }
        }
    });
    // Kubernetes 1.20 does not report the authenticated user.
    let reviews = bench.observer().find("/apis/authentication.k8s.io/v1").await.unwrap();
    let is_told = reviews.is_some_and(|all| all.to_string().contains("selfsubjectreviews"));
    let engine = if is_told { User::ENGINE.name() } else { "of-the-kubeconfig" };
    for (more, name) in [(&[][..], engine), (&["--as", "robot", "--as-group", "system:masters"], "robot")] {
        let args = ["sync", "config.yaml", "--app", &bench.namespace, "-n", &bench.namespace];
        let file = ["--kubeconfig", file.to_str().unwrap()];
        let mut command = bench.bench.command(&[&args[..], &file, more].concat());
        command.env_remove("USER").env_remove("LOGNAME");
        Running::start(command).finish().expect_code(0);
        let list = bench.json(&["ops", "list", "-o", "json"]);
        assert_eq!(list.as_array().unwrap().last().unwrap()["initiatedBy"], name, "{more:?}");
    }
}
