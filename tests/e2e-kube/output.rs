//! Output of running hooks, from their node through the API server to the client.

use serde_json::{Value, json};
use tidegate_testkit::kube::Kubelet;

use crate::kube_bench::KubeBench;
use crate::manifests::hook;

/// Returns a migration on a node, with its own Secret, that runs until the test completes it.
fn manifests(node: &str, duration: &str) -> String {
    let node = if node.is_empty() { String::new() } else { format!("nodeName: {node}, ") };
    let job = hook("migrate", "PreSync", &format!("sim.tidegate.dev/ready-after: {duration}"));
    let job = job.replace("spec: {", &format!("spec: {{{node}"));
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: database}}
stringData: {{password: the-canary-of-this-test}}
---
{job}"
    )
}

/// Completes the pod of the migration.
async fn complete(bench: &KubeBench) {
    let observer = bench.observer();
    let pods = format!("/api/v1/namespaces/{}/pods", bench.namespace);
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

fn lines_of_migration(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("migrate | ")).collect()
}

pub async fn hook_output_is_shown_while_the_hook_runs() {
    let bench = KubeBench::new("output").await;
    let kubelet = Kubelet::start(&bench.control).await;
    let namespace = bench.namespace.as_str();
    bench.write("app.yaml", manifests(&kubelet.node, "1h"));
    kubelet.write_line(namespace, "connecting");
    let args = ["sync", "app.yaml", "--app", namespace, "-n", namespace, "--follow-hooks", "-o", "json"];
    let mut running = bench.start(&args);
    running.wait_for_line("migrate | connecting");
    // A second client connects to the running process.
    let id = bench.newest();
    let other = bench.start(&["ops", "output", &id, "-o", "json"]);
    kubelet.write_line(namespace, "as app:the-canary-of-this-test");
    running.wait_for_line("migrate | as app:++++++++");
    // The connection breaks. Lines written in the meantime arrive after the reconnection, and no line is
    // repeated.
    kubelet.cut_connections(namespace);
    let mut expected = vec!["connecting".to_owned(), "as app:++++++++".to_owned()];
    for number in 0..20 {
        kubelet.write_line(namespace, &format!("step {number}"));
        expected.push(format!("step {number}"));
    }
    running.wait_for_line("migrate | step 19");
    // Terminal control characters are escaped.
    kubelet.write_line(namespace, "\u{1b}[2Jdone");
    expected.push("\\u{1b}[2Jdone".to_owned());
    running.wait_for_line("migrate | \\u{1b}[2Jdone");
    kubelet.end_containers(namespace);
    complete(&bench).await;
    let ran = running.finish().expect_code(0);
    assert_eq!(lines_of_migration(&ran.err), expected, "{}", ran.err);
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["phase"], "Succeeded");
    assert!(!format!("{}{}", ran.err, ran.out).contains("canary"));
    let audit_events = kubelet.requested_paths(namespace);
    assert!(audit_events.iter().any(|path| path.contains("sinceTime=")), "{audit_events:#?}");
    assert!(
        audit_events.iter().all(|path| path.contains("/migrate-") && path.contains("/main?")),
        "{audit_events:#?}"
    );
    // The second client received the same lines, with the source and time of each line.
    let output: Vec<Value> =
        other.finish().expect_code(0).out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts: Vec<&str> = output.iter().map(|one| one["text"].as_str().unwrap()).collect();
    let last = expected.len() - 1;
    assert_eq!(texts[..last], expected[..last]);
    assert_eq!(texts[last], "\u{1b}[2Jdone");
    for one in &output {
        assert_eq!((one["kind"].as_str(), one["container"].as_str()), (Some("line"), Some("main")));
        assert!(one["at"].is_string() && one["hook"]["name"] == "migrate", "{one:#}");
    }
}

pub async fn missing_logs_are_noted_and_the_sync_continues() {
    let bench = KubeBench::new("silent").await;
    let namespace = bench.namespace.as_str();
    bench.write("app.yaml", manifests("", "8s"));
    let args = ["sync", "app.yaml", "--app", namespace, "-n", namespace, "--follow-hooks"];
    let ran = bench.run(&args).expect_code(0);
    let notes: Vec<&str> =
        ran.err.lines().filter(|line| line.contains("cannot follow the hook output")).collect();
    assert!(notes.len() == 1 && notes[0].contains("logs are not available"), "{}", ran.err);
    assert!(lines_of_migration(&ran.err).is_empty(), "{}", ran.err);
}
