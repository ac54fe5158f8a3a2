//! How often what is known of an Application is written into its resource, by the word of the API server.

use serde_json::{Value, json};
use tidegate_model::Timestamp;
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::{is_done, path, serve, site, until_of};
use crate::site::Site;

/// So many waves pass in a few seconds, and each is news twice.
const WAVES: usize = 16;

fn deploys_waves(site: &Site) {
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
        site.write(&format!("repo/waves/{wave}.json"), deployment.to_string());
    }
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// What the service has written into the resource, in order.
async fn writes(site: &Site) -> Vec<AuditEvent> {
    let is_it =
        |event: &AuditEvent| event.resource == "applications" && event.name == "waves" && event.is_write();
    let mut all = site.audit().await.of(User::ENGINE).only(is_it).0;
    all.sort_by(|a, b| a.received_at.cmp(&b.received_at));
    all
}

pub async fn a_status_is_written_once_a_second_at_most() {
    let site = site().await;
    deploys_waves(&site);
    let serving = serve(&site);
    let application = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "waves"},
        "spec": {
            "project": "default",
            "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
            "source": {
                "repoURL": site.path().join("repo").display().to_string(), "path": "waves", "targetRevision": "main",
            },
            "syncPolicy": {"automated": {}},
        },
    });
    site.observer().post(&path(&site), &application).await.unwrap();
    let app = until_of(&site, "waves", is_done).await;
    assert_eq!(
        app["status"]["operationState"]["syncResult"]["resources"].as_array().map(Vec::len),
        Some(WAVES)
    );
    let made = site.creations("Deployment", "step-15").await;
    serving.signal("TERM");
    serving.finish().expect_code(0);
    assert_eq!(made, 1);
    let all = writes(&site).await;
    let gaps: Vec<u128> = all
        .iter()
        .zip(all.iter().skip(1))
        .map(|(before, after)| moment(&after.received_at).since(moment(&before.answered_at)).as_millis())
        .collect();
    // Not so long waits for nobody: that an operation begins, which has to be known before it does, and the last word of
    // a service that ends.
    let early = gaps.iter().filter(|gap| **gap < 990).count();
    assert!(early <= 2, "{gaps:?}: {all:#?}");
    assert!(all.len() > 1, "it is told while it works: {all:#?}");
    // Nothing is told of what is as it was.
    let revision = |app: &Value| app["metadata"]["resourceVersion"].clone();
    let before = revision(&site.observer().get(&format!("{}/waves", path(&site))).await.unwrap());
    let serving = serve(&site);
    let ran = site.run(&["app", "wait", "waves", "--health", "--sync"]);
    ran.expect_code(0);
    serving.signal("TERM");
    serving.finish().expect_code(0);
    let after = revision(&site.observer().get(&format!("{}/waves", path(&site))).await.unwrap());
    let more: Vec<AuditEvent> = writes(&site).await.into_iter().skip(all.len()).collect();
    assert!(before == after && more.is_empty(), "a service that begins again finds it as it was: {more:#?}");
}
