//! An operation goes on where it was begun, and nowhere else.

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::manifests::{FAST, STUCK};
use crate::site::Site;

/// Begins an operation that waits, and leaves it.
fn begin(site: &Site, app: &str, args: &[&str]) -> String {
    site.write("stuck.yaml", STUCK);
    let mut all = vec!["sync", "stuck.yaml", "--app", app];
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
    begin(&site, "a", &["-n", &namespace, "--kubeconfig", file.file_name().unwrap().to_str().unwrap()]);
    let list = site.json(&["ops", "list", "-o", "json"]);
    let destination = list[0]["destination"].as_str().unwrap();
    assert!(destination.contains("engine") && destination.contains(site.control.url()), "{destination}");
    unstick(&site).await;
    site.run(&["resume", "--all"]).expect_code(0);
    assert_eq!(site.creations("Job", "before").await, 1);
}

pub async fn resume_refuses_another_server() {
    let mut site = Site::new("elsewhere").await;
    let namespace = site.namespace.clone();
    let id = begin(&site, "a", &["-n", &namespace]);
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

pub async fn resume_all_goes_on_with_simulated_and_real_operations() {
    let site = Site::new("both").await;
    let namespace = site.namespace.clone();
    begin(&site, "real", &["-n", &namespace]);
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
    assert_eq!((done.as_array().unwrap().len(), &done[0]["app"]), (1, &json!("real")), "{done}");
    let list = site.json(&["ops", "list", "-o", "json"]);
    assert!(list.as_array().unwrap().iter().all(|operation| operation["phase"] == "Succeeded"), "{list}");
}

pub async fn terminate_goes_back_to_the_cluster_as_well() {
    let site = Site::new("terminate").await;
    let namespace = site.namespace.clone();
    let id = begin(&site, "a", &["-n", &namespace]);
    let ran = site.run(&["ops", "terminate", &id]).expect_code(0);
    assert!(ran.out.contains("Failed") || ran.out.contains("terminated"), "{ran:?}");
    let list = site.json(&["ops", "list", "-o", "json"]);
    assert_ne!(list[0]["phase"], "Running", "{list}");
}
