//! An operation goes on where it was begun, and nowhere else.

use serde_json::{Value, json};
use tidegate_testkit::kube::{ControlPlane, Options, User};

use crate::manifests::{FAST, STUCK};
use crate::site::{Plane, Site};

/// Waits for ever where no controller works.
const WAITING: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: server}
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

/// Begins an operation that waits, and leaves it.
fn begin(site: &Site, args: &[&str]) -> String {
    site.write("stuck.yaml", STUCK);
    let mut all = vec!["sync", "stuck.yaml", "--app", &site.namespace];
    all.extend(args);
    let mut sync = site.start(&all);
    sync.await_line("waiting for Deployment");
    sync.signal("KILL");
    sync.finish();
    site.newest()
}

/// What the wave waits for comes true.
async fn unstick(site: &Site) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/server", site.namespace);
    site.observer()
        .patch(&path, &json!({"metadata": {"annotations": {"sim.tidegate.dev/outcome": null}}}))
        .await
        .unwrap();
    site.observer().patch(&path, &json!({"spec": {"replicas": 0}})).await.unwrap();
}

pub async fn resume_goes_back_to_the_cluster_of_the_record() {
    let mut site = Site::new("back").await;
    let file = site.changed_kubeconfig("mine.yaml", |_| {});
    // Nothing but the record says where it was.
    site.bench.set("KUBECONFIG", "");
    let namespace = site.namespace.clone();
    begin(&site, &["-n", &namespace, "--kubeconfig", file.file_name().unwrap().to_str().unwrap()]);
    let list = site.json(&["ops", "list", "-o", "json"]);
    let destination = list[0]["destination"].as_str().unwrap();
    assert!(destination.contains("engine") && destination.contains(site.control.url()), "{destination}");
    unstick(&site).await;
    site.run(&["resume", "--all"]).expect_code(0);
    site.assert_created_once("Job", "before", "killed").await;
}

pub async fn resume_refuses_another_server() {
    let mut site = Site::new("elsewhere").await;
    let namespace = site.namespace.clone();
    let id = begin(&site, &["-n", &namespace]);
    let before = site.writes().await;
    // The same cluster by another name: for all we know, another one.
    let url = site.control.url().replace("127.0.0.1", "localhost");
    let moved = site
        .changed_kubeconfig("moved.yaml", |config| config["clusters"][0]["cluster"]["server"] = json!(url));
    site.bench.set("KUBECONFIG", moved);
    for args in [&["resume"][..], &["resume", &id], &["resume", &id, "--context", "observer"]] {
        let ran = site.run(args).expect_code(4);
        assert!(ran.err.contains(site.control.url()) && ran.err.contains(&url), "{args:?}: {}", ran.err);
    }
    let ran = site.run(&["resume", "--all"]).expect_code(3);
    assert!(ran.err.contains("left as it is") && ran.err.contains(&url), "{}", ran.err);
    assert_eq!(site.writes().await, before, "nothing was written there");
    // Said how to get there, it goes on; the context may have another name now.
    unstick(&site).await;
    let engine = site.control.kubeconfig(User::ENGINE);
    site.run(&["resume", &id, "--kubeconfig", engine.to_str().unwrap(), "--context", "observer"])
        .expect_code(0);
}

/// A control plane of the test's own, of which it knows which one it is.
async fn alone() -> Plane {
    let options = Options { nodes: false, controllers: false, ..Options::default() };
    let control = Plane::own(options);
    which(&control).await;
    control
}

/// The UID of `kube-system`, which a new API server makes in its first moments.
async fn which(control: &ControlPlane) -> String {
    let observer = control.caller(User::OBSERVER);
    let namespace = observer.until("/api/v1/namespaces/kube-system", |found| found.is_some()).await;
    namespace.expect("it is made soon")["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// As when a cluster of one's own machine is thrown away and made again: the same URL, users and context.
pub async fn resume_refuses_another_cluster_at_the_same_url() {
    let control = alone().await;
    let site = Site::on(control.clone(), "anew").await;
    let namespace = site.namespace.clone();
    site.write("waiting.yaml", WAITING);
    let sync = ["sync", "waiting.yaml", "--app", &namespace, "-n", &namespace];
    let mut first = site.start(&sync);
    first.await_line("waiting for Deployment");
    first.signal("KILL");
    first.finish();
    let id = site.newest();
    let before = which(&control).await;

    control.make_anew().unwrap();
    assert_ne!(which(&control).await, before);
    let mark = control.mark();
    for args in [&["resume"][..], &["resume", &id], &["resume", &id, "--context", "observer"]] {
        let ran = site.run(args).expect_code(4);
        for words in ["another cluster", control.url(), "kube-system", "ops terminate"] {
            assert!(ran.err.contains(words), "{words}: {}", ran.err);
        }
    }
    let ran = site.run(&["resume", "--all"]).expect_code(3);
    assert!(ran.err.contains("left as it is") && ran.err.contains("another cluster"), "{}", ran.err);
    let writes = control.audit_since(mark).await.unwrap().of(User::ENGINE).writes();
    assert_eq!(writes.summaries(), Vec::<String>::new(), "nothing was written there");

    // What cannot go on any more can be ended, and then begun anew; nothing of the old inventory is believed.
    site.run(&["ops", "terminate", &id]).expect_code(0);
    let writes = control.audit_since(mark).await.unwrap().of(User::ENGINE).writes();
    assert_eq!(writes.summaries(), Vec::<String>::new(), "there is nothing to stop");
    assert_ne!(site.json(&["ops", "list", "-o", "json"])[0]["finishedAt"], json!(null));
    control.caller(User::OBSERVER).post("/api/v1/namespaces", &namespace_of(&namespace)).await.unwrap();
    let mut again = site.start(&sync);
    again.await_line("waiting for Deployment");
    again.signal("KILL");
    again.finish();
    control.kill_api_server();
}

fn namespace_of(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// Who has rights in one namespace only.
pub async fn who_cannot_read_which_cluster_it_is_goes_by_the_url() {
    let site = Site::new("unseen").await;
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let user = site.control.limited_user(&[(Some(&site.namespace), all)]).await.unwrap();
    let namespace = site.namespace.clone();
    // Begun by who can say it, gone on with by who cannot.
    begin(&site, &["-n", &namespace]);
    unstick(&site).await;
    site.run(&["resume", "--context", user.name()]).expect_code(0);
    let asked = site.control.audit().await.unwrap().of(&user);
    let asked = asked.only(|event| event.kind == "Namespace" && event.name == "kube-system");
    assert!(asked.0.iter().all(|event| event.code == 403) && !asked.0.is_empty(), "{asked:#?}");
}

pub async fn resume_all_goes_on_with_simulated_and_real_operations() {
    let site = Site::new("both").await;
    let namespace = site.namespace.clone();
    begin(&site, &["-n", &namespace]);
    site.write("fast.yaml", FAST);
    let mut sync = site.start(&["sync", "fast.yaml", "--app", "simulated", "--sim"]);
    sync.await_line("waiting for hook");
    sync.signal("KILL");
    sync.finish();
    unstick(&site).await;
    // Only the simulated one, then all.
    let done = site.json(&["resume", "--all", "--sim", "-o", "json"]);
    assert_eq!(done.as_array().unwrap().len(), 1, "{done}");
    let done = site.json(&["resume", "--all", "-o", "json"]);
    assert_eq!((done.as_array().unwrap().len(), &done[0]["app"]), (1, &json!(namespace)), "{done}");
    let list = site.json(&["ops", "list", "-o", "json"]);
    assert!(list.as_array().unwrap().iter().all(|operation| operation["phase"] == "Succeeded"), "{list}");
}

pub async fn terminate_goes_back_to_the_cluster_as_well() {
    let site = Site::new("terminate").await;
    let namespace = site.namespace.clone();
    let id = begin(&site, &["-n", &namespace]);
    let ran = site.run(&["ops", "terminate", &id]).expect_code(0);
    assert!(ran.out.contains("Failed") || ran.out.contains("terminated"), "{ran:?}");
    let list = site.json(&["ops", "list", "-o", "json"]);
    assert_ne!(list[0]["phase"], "Running", "{list}");
}
