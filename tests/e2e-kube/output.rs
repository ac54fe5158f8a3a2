//! What hooks write while they run, from their node by way of the API server to whoever looks.

use serde_json::{Value, json};
use tidegate_testkit::kube::Kubelet;

use crate::site::Site;

/// A migration on a node, with a Secret of its own, that runs until it is completed here.
fn manifests(node: &str, lasts: &str) -> String {
    let node = if node.is_empty() { String::new() } else { format!("nodeName: {node}, ") };
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: database}}
stringData: {{password: the-canary-of-this-test}}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    argocd.argoproj.io/hook: PreSync
    sim.tidegate.dev/ready-after: {lasts}
spec:
  backoffLimit: 0
  template:
    spec: {{{node}restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}
"
    )
}

/// The pod of the migration has ended well.
async fn complete(site: &Site) {
    let observer = site.observer();
    let pods = format!("/api/v1/namespaces/{}/pods", site.namespace);
    let found = observer.get(&format!("{pods}?labelSelector=job-name=migrate")).await.unwrap();
    let pod = found["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let at = "2026-01-01T00:00:00Z";
    let ended =
        json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}});
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
        "name": "main", "image": "busybox", "imageID": "", "ready": false, "restartCount": 0, "state": ended,
    }]}});
    observer.patch(&format!("{pods}/{pod}/status"), &status).await.unwrap();
}

fn of_migration(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("migrate | ")).collect()
}

pub async fn what_a_hook_writes_is_shown_while_it_runs() {
    let site = Site::new("output").await;
    let kubelet = Kubelet::start(&site.control).await;
    let namespace = site.namespace.as_str();
    site.write("app.yaml", manifests(&kubelet.node, "1h"));
    kubelet.write(namespace, "connecting");
    let args = ["sync", "app.yaml", "--app", namespace, "-n", namespace, "--follow-hooks", "-o", "json"];
    let mut running = site.start(&args);
    running.await_line("migrate | connecting");
    // Somebody else looks as well, by the process at work.
    let id = site.newest();
    let other = site.start(&["ops", "output", &id, "-o", "json"]);
    kubelet.write(namespace, "as app:the-canary-of-this-test");
    running.await_line("migrate | as app:++++++++");
    // The connection breaks; what is written meanwhile comes when it is there again, and nothing comes twice.
    kubelet.cut(namespace);
    let mut expected = vec!["connecting".to_owned(), "as app:++++++++".to_owned()];
    for number in 0..20 {
        kubelet.write(namespace, &format!("step {number}"));
        expected.push(format!("step {number}"));
    }
    running.await_line("migrate | step 19");
    // What could steer a terminal is escaped.
    kubelet.write(namespace, "\u{1b}[2Jdone");
    expected.push("\\u{1b}[2Jdone".to_owned());
    running.await_line("migrate | \\u{1b}[2Jdone");
    kubelet.end(namespace);
    complete(&site).await;
    let ran = running.finish().expect_code(0);
    assert_eq!(of_migration(&ran.err), expected, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["phase"], "Succeeded");
    assert!(!format!("{}{}", ran.err, ran.out).contains("canary"));
    let asked = kubelet.asked(namespace);
    assert!(asked.iter().any(|path| path.contains("sinceTime=")), "{asked:#?}");
    assert!(asked.iter().all(|path| path.contains("/migrate-") && path.contains("/main?")), "{asked:#?}");
    // The other one was told the same, each line with where and when it was written.
    let told: Vec<Value> =
        other.finish().expect_code(0).out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&str> = told.iter().map(|one| one["text"].as_str().unwrap()).collect();
    let last = expected.len() - 1;
    assert_eq!(texts[..last], expected[..last]);
    assert_eq!(texts[last], "\u{1b}[2Jdone");
    for one in &told {
        assert_eq!((one["kind"].as_str(), one["container"].as_str()), (Some("line"), Some("main")));
        assert!(one["at"].is_string() && one["hook"]["name"] == "migrate", "{one:#}");
    }
}

pub async fn a_cluster_that_serves_no_logs_is_noted_and_the_sync_goes_on() {
    let site = Site::new("silent").await;
    let namespace = site.namespace.as_str();
    site.write("app.yaml", manifests("", "8s"));
    let args = ["sync", "app.yaml", "--app", namespace, "-n", namespace, "--follow-hooks"];
    let ran = site.run(&args).expect_code(0);
    let notes: Vec<&str> = ran.err.lines().filter(|line| line.contains("cannot be followed")).collect();
    assert!(notes.len() == 1 && notes[0].contains("no logs can be had"), "{}", ran.err);
    assert!(of_migration(&ran.err).is_empty(), "{}", ran.err);
}
