//! An operation continues only at its original destination.

use serde_json::{Value, json};
use tidegate_testkit::kube::{ControlPlane, Options, User};

use crate::kube_bench::{KubeBench, Plane, stuck_server};
use crate::manifests::{FAST, STUCK};

/// Starts an operation that waits, then stops its process.
fn start_and_leave(bench: &KubeBench, args: &[&str]) -> String {
    bench.write("stuck.yaml", STUCK);
    let mut all = vec!["sync", "stuck.yaml", "--app", &bench.namespace];
    all.extend(args);
    let mut sync = bench.start(&all);
    sync.wait_for_line("waiting for Deployment");
    sync.signal("KILL");
    sync.finish();
    bench.newest()
}

/// Fulfills the condition of the wave.
async fn fulfill_condition(bench: &KubeBench) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/server", bench.namespace);
    bench
        .observer()
        .patch(&path, &json!({"metadata": {"annotations": {"sim.tidegate.dev/outcome": null}}}))
        .await
        .unwrap();
    bench.observer().patch(&path, &json!({"spec": {"replicas": 0}})).await.unwrap();
}

pub async fn resume_uses_the_recorded_cluster() {
    let mut bench = KubeBench::new("back").await;
    let file = bench.changed_kubeconfig("mine.yaml", |_| {});
    // Only the record contains the destination.
    bench.bench.set_variable("KUBECONFIG", "");
    let namespace = bench.namespace.clone();
    start_and_leave(&bench, &["-n", &namespace, "--kubeconfig", file.file_name().unwrap().to_str().unwrap()]);
    let list = bench.json(&["ops", "list", "-o", "json"]);
    let destination = list[0]["destination"].as_str().unwrap();
    assert!(destination.contains("engine") && destination.contains(bench.control.url()), "{destination}");
    fulfill_condition(&bench).await;
    bench.run(&["resume", "--all"]).expect_code(0);
    bench.assert_created_once("Job", "before", "killed").await;
}

pub async fn resume_refuses_another_server() {
    let mut bench = KubeBench::new("elsewhere").await;
    let namespace = bench.namespace.clone();
    let id = start_and_leave(&bench, &["-n", &namespace]);
    let before = bench.writes().await;
    // The same cluster under another name, which could be a different cluster.
    let url = bench.control.url().replace("127.0.0.1", "localhost");
    let moved = bench
        .changed_kubeconfig("moved.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    bench.bench.set_variable("KUBECONFIG", moved);
    for args in [&["resume"][..], &["resume", &id], &["resume", &id, "--context", "observer"]] {
        let ran = bench.run(args).expect_code(4);
        assert!(ran.err.contains(bench.control.url()) && ran.err.contains(&url), "{args:?}: {}", ran.err);
    }
    let ran = bench.run(&["resume", "--all"]).expect_code(3);
    assert!(ran.err.contains("was not resumed") && ran.err.contains(&url), "{}", ran.err);
    assert_eq!(bench.writes().await, before, "nothing was written there");
    // With an explicit destination, the operation continues, even if the context now has another name.
    fulfill_condition(&bench).await;
    let engine = bench.control.kubeconfig(User::ENGINE);
    bench
        .run(&["resume", &id, "--kubeconfig", engine.to_str().unwrap(), "--context", "observer"])
        .expect_code(0);
}

/// Returns a control plane of its own, with a known identity.
async fn own_plane() -> Plane {
    let options = Options { has_nodes: false, has_controllers: false, ..Options::default() };
    let control = Plane::own(options);
    cluster_uid(&control).await;
    control
}

/// Returns the UID of `kube-system`, which a new API server creates shortly after its start.
async fn cluster_uid(control: &ControlPlane) -> String {
    let observer = control.client(User::OBSERVER);
    let namespace = observer.wait_until("/api/v1/namespaces/kube-system", |found| found.is_some()).await;
    namespace.expect("it is created in time")["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// This happens, for example, when a local cluster is deleted and created again with the same URL, users and
/// context.
pub async fn resume_refuses_another_cluster_at_the_same_url() {
    let control = own_plane().await;
    let bench = KubeBench::on_plane(control.clone(), "anew").await;
    let namespace = bench.namespace.clone();
    bench.write("waiting.yaml", stuck_server());
    let sync = ["sync", "waiting.yaml", "--app", &namespace, "-n", &namespace];
    let mut first = bench.start(&sync);
    first.wait_for_line("waiting for Deployment");
    first.signal("KILL");
    first.finish();
    let id = bench.newest();
    let before = cluster_uid(&control).await;

    control.replace_cluster().unwrap();
    assert_ne!(cluster_uid(&control).await, before);
    let mark = control.audit_mark();
    for args in [&["resume"][..], &["resume", &id], &["resume", &id, "--context", "observer"]] {
        let ran = bench.run(args).expect_code(4);
        for text in ["a different cluster", control.url(), "kube-system", "ops terminate"] {
            assert!(ran.err.contains(text), "{text}: {}", ran.err);
        }
    }
    let ran = bench.run(&["resume", "--all"]).expect_code(3);
    assert!(ran.err.contains("was not resumed") && ran.err.contains("a different cluster"), "{}", ran.err);
    let writes = control.audit_since(mark).await.unwrap().by_user(User::ENGINE).successful_writes();
    assert_eq!(writes.summaries(), Vec::<String>::new(), "nothing was written there");

    // A blocked operation can be terminated, and a new one can then be started. The old inventory isn't used.
    bench.run(&["ops", "terminate", &id]).expect_code(0);
    let writes = control.audit_since(mark).await.unwrap().by_user(User::ENGINE).successful_writes();
    assert_eq!(writes.summaries(), Vec::<String>::new(), "there is nothing to stop");
    assert_ne!(bench.json(&["ops", "list", "-o", "json"])[0]["finishedAt"], json!(null));
    control.client(User::OBSERVER).post("/api/v1/namespaces", &namespace_of(&namespace)).await.unwrap();
    let mut again = bench.start(&sync);
    again.wait_for_line("waiting for Deployment");
    again.signal("KILL");
    again.finish();
    control.kill_api_server();
}

fn namespace_of(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// The user has rights in only one namespace.
pub async fn without_access_to_the_cluster_identity_the_url_decides() {
    let bench = KubeBench::new("unseen").await;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let user = bench.control.create_limited_user(&[(Some(&bench.namespace), all)]).await.unwrap();
    let namespace = bench.namespace.clone();
    // The operation is started by a user who can read the identity, and resumed by a user who can't.
    start_and_leave(&bench, &["-n", &namespace]);
    fulfill_condition(&bench).await;
    bench.run(&["resume", "--context", user.name()]).expect_code(0);
    let audit_events = bench.control.audit().await.unwrap().by_user(&user);
    let audit_events = audit_events.filter(|event| event.kind == "Namespace" && event.name == "kube-system");
    assert!(
        audit_events.0.iter().all(|event| event.code == 403) && !audit_events.0.is_empty(),
        "{audit_events:#?}"
    );
}

pub async fn resume_all_continues_simulated_and_real_operations() {
    let bench = KubeBench::new("both").await;
    let namespace = bench.namespace.clone();
    start_and_leave(&bench, &["-n", &namespace]);
    bench.write("fast.yaml", FAST);
    let mut sync = bench.start(&["sync", "fast.yaml", "--app", "simulated", "--sim"]);
    sync.wait_for_line("waiting for hook");
    sync.signal("KILL");
    sync.finish();
    fulfill_condition(&bench).await;
    // Resumes only the simulated operations first, then all operations.
    let done = bench.json(&["resume", "--all", "--sim", "-o", "json"]);
    assert_eq!(done.as_array().unwrap().len(), 1, "{done}");
    let done = bench.json(&["resume", "--all", "-o", "json"]);
    assert_eq!((done.as_array().unwrap().len(), &done[0]["app"]), (1, &json!(namespace)), "{done}");
    let list = bench.json(&["ops", "list", "-o", "json"]);
    assert!(list.as_array().unwrap().iter().all(|operation| operation["phase"] == "Succeeded"), "{list}");
}

pub async fn terminate_uses_the_recorded_cluster_as_well() {
    let bench = KubeBench::new("terminate").await;
    let namespace = bench.namespace.clone();
    let id = start_and_leave(&bench, &["-n", &namespace]);
    let ran = bench.run(&["ops", "terminate", &id]).expect_code(0);
    assert!(ran.out.contains("Failed") || ran.out.contains("terminated"), "{ran:?}");
    let list = bench.json(&["ops", "list", "-o", "json"]);
    assert_ne!(list[0]["phase"], "Running", "{list}");
}
