//! Number of status writes to the resource of an Application, according to the API server.

use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::{bench_with_crds, is_done, path, serve, wait_for_application};
use crate::kube_bench::KubeBench;

/// Number of waves. They pass within a few seconds, with two status changes each.
const WAVES: usize = 16;

fn commit_waves(bench: &KubeBench) {
    for wave in 0..WAVES {
        let name = format!("step-{wave:02}");
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave.to_string()}},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}, "annotations": {"sim.tidegate.dev/ready-after": "200ms"}},
                    "spec": {"containers": [{"name": "a", "image": "example.com/step:1"}]},
                },
            },
        });
        bench.write(&format!("repo/waves/{wave}.json"), deployment.to_string());
    }
    bench.run(&["example", "commit", "repo"]).expect_code(0);
}

fn parse_timestamp(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Returns the service's writes to the resource, in order.
async fn writes(bench: &KubeBench) -> Vec<AuditEvent> {
    let is_it =
        |event: &AuditEvent| event.resource == "applications" && event.name == "waves" && event.is_write();
    let mut all = bench.audit().await.by_user(User::ENGINE).filter(is_it).0;
    all.sort_by(|a, b| a.received_at.cmp(&b.received_at));
    all
}

pub async fn a_status_is_written_at_most_once_a_second() {
    let bench = bench_with_crds().await;
    commit_waves(&bench);
    let service = serve(&bench);
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "waves"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
            "source": {
                "repoURL": bench.path().join("repo").display().to_string(), "path": "waves", "targetRevision": "main",
            },
            "syncPolicy": {"automated": {}},
        },
    });
    bench.observer().post(&path(&bench), &application).await.unwrap();
    let app = wait_for_application(&bench, "waves", is_done).await;
    assert_eq!(
        app["status"]["operationState"]["syncResult"]["resources"].as_array().map(Vec::len),
        Some(WAVES)
    );
    let made = bench.creations("Deployment", "step-15").await;
    service.signal("TERM");
    service.finish().expect_code(0);
    assert_eq!(made, 1);
    let all = writes(&bench).await;
    let gaps: Vec<u128> = all
        .iter()
        .zip(all.iter().skip(1))
        .map(|(before, after)| {
            parse_timestamp(&after.received_at).since(parse_timestamp(&before.responded_at)).as_millis()
        })
        .collect();
    // Two writes aren't delayed: the start of an operation, which must be recorded first, and the last write
    // of a service that is stopping.
    let early = gaps.iter().filter(|gap| **gap < 990).count();
    assert!(early <= 2, "{gaps:?}: {all:#?}");
    assert!(all.len() > 1, "events arrive while it runs: {all:#?}");
    // An unchanged status is not written.
    let revision = |app: &Value| app["metadata"]["resourceVersion"].clone();
    let before = revision(&bench.observer().get(&format!("{}/waves", path(&bench))).await.unwrap());
    let service = serve(&bench);
    let ran = bench.run(&["app", "wait", "waves", "--health", "--sync"]);
    ran.expect_code(0);
    service.signal("TERM");
    service.finish().expect_code(0);
    let after = revision(&bench.observer().get(&format!("{}/waves", path(&bench))).await.unwrap());
    let more: Vec<AuditEvent> = writes(&bench).await.into_iter().skip(all.len()).collect();
    assert!(before == after && more.is_empty(), "a restarted service finds the same state: {more:#?}");
}
