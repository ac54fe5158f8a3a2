//! Manifests that server-side apply rejects, on the simulated cluster.

use serde_json::{Value, json};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, submit, wait_for_end};

/// Returns a Deployment with a container that has these environment variables.
fn deployment(image: &str, env: &Value) -> String {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "dup"},
        "spec": {
            "selector": {"matchLabels": {"a": "dup"}},
            "template": {
                "metadata": {"labels": {"a": "dup"}},
                "spec": {"containers": [{"name": "main", "image": image, "env": env}]},
            },
        },
    });
    deployment.to_string()
}

fn variable(name: &str, value: &str) -> Value {
    json!({"name": name, "value": value})
}

fn env(cluster: &FaultyCluster) -> Option<Value> {
    let found = cluster.sim.objects().into_iter().find(|object| object.name() == "dup")?;
    found.pointer("/spec/template/spec/containers/0/env").cloned()
}

/// Returns true if the object was applied on the client side, with a warning.
fn is_client_side(view: &OperationView) -> bool {
    let mut warnings = view.resources[0].warnings.iter();
    warnings.any(|warning| warning.contains("applied client-side (ServerSideApply=auto)"))
}

/// The error must contain the list, the container, the key and the remedy, and nothing may be written.
#[tokio::test(start_paused = true)]
async fn repeated_keys_are_named_with_the_way_out() {
    let repeated = json!([variable("R", "5"), variable("R", "6")]);
    for force in [false, true] {
        let cluster = FaultyCluster::reliable();
        let engine = builder(&cluster, &Log::new()).start().await.unwrap();
        let once = json!([variable("R", "5")]);
        let id = submit(&engine, &SyncSpec::new(&deployment("x:1", &once))).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        let writes = cluster.writes().len();
        let sync = SyncSpec::new(&deployment("x:2", &repeated))
            .with_request(|request| request.options.force = force);
        let id = submit(&engine, &sync).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
        let message = &view.resources[0].message;
        for word in [
            r#"containers[name="main"].env"#,
            r#"[name="R"]"#,
            "ServerSideApply=false",
            "ServerSideApply=auto",
        ] {
            assert!(message.contains(word), "{word}: {message}");
        }
        assert_eq!((env(&cluster), cluster.writes().len()), (Some(once), writes));
        engine.shutdown().await;
    }
}

/// With `auto`, the object must be applied client-side while its manifest requires it. Variables removed from
/// the manifest must be removed from the object.
#[tokio::test(start_paused = true)]
async fn repeated_keys_are_applied_on_the_client_side_with_auto() {
    let cluster = FaultyCluster::reliable();
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let (five, six, other) = (variable("R", "5"), variable("R", "6"), variable("B", "1"));
    for (image, items, falls_back) in [
        ("x:1", json!([five, six]), true),
        ("x:2", json!([five, six, other]), true),
        ("x:2", json!([six, five]), true),
        ("x:3", json!([six]), false),
    ] {
        let sync = SyncSpec::new(&deployment(image, &items))
            .with_request(|request| request.options.flags.push("ServerSideApply=auto".to_owned()));
        let id = submit(&engine, &sync).await;
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{items}: {:?}", view.resources);
        assert_eq!(is_client_side(&view), falls_back, "{items}: {:?}", view.resources);
        assert_eq!(env(&cluster), Some(items));
    }
    engine.shutdown().await;
}
