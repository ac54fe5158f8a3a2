//! Writes of manifests.

use serde_json::{Value, json};
use tidegate_cluster::{Propagation, WriteMode};

use super::stage::{CREATE, FORCED, RECREATE, REPLACE, SSA, Stage};

pub fn deployment(stage: &Stage, name: &str, more: Value) -> tidegate_model::Object {
    let labels = json!({"app": name});
    let mut spec = json!({
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}},
    });
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage.manifest("Deployment", name, json!({"spec": spec}))
}

pub async fn create_update_repeat(stage: &mut Stage) {
    stage.apply(&stage.config("a", json!({"x": "1", "y": "2"}))).await;
    stage.apply(&stage.config("a", json!({"x": "1", "y": "2"}))).await;
    stage.apply(&stage.config("a", json!({"x": "3", "y": "2"}))).await;
    stage.apply(&stage.config("a", json!({"x": "3"}))).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    let labelled = |labels: Value| json!({"metadata": {"labels": labels}, "data": {"x": "3"}});
    stage.apply(&stage.manifest("ConfigMap", "a", labelled(json!({"tier": "web"})))).await;
    stage.apply(&stage.manifest("ConfigMap", "a", labelled(json!({})))).await;
    stage.note_fields("ConfigMap", "a", &["/metadata/labels"]).await;
    let secret = json!({"stringData": {"key": "value"}, "type": "Opaque"});
    stage.apply(&stage.manifest("Secret", "s", secret)).await;
    stage.note_fields("Secret", "s", &["/data", "/type", "/stringData"]).await;
    // The repeated apply uses `data` instead of `stringData`. With `stringData`, servers before 1.21 count
    // the second apply as a write if it occurs in a later second.
    let secret = stage.manifest("Secret", "t", json!({"data": {"key": "dmFsdWU="}, "type": "Opaque"}));
    stage.apply(&secret).await;
    stage.apply(&secret).await;
    let service = json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}});
    stage.apply(&stage.manifest("Service", "web", service.clone())).await;
    stage.apply(&stage.manifest("Service", "web", service)).await;
    stage.note_fields("Service", "web", &["/spec/type", "/spec/ports", "/spec/sessionAffinity"]).await;
    stage.apply(&deployment(stage, "api", json!({"replicas": 0}))).await;
    // The controller also writes to the Deployment, so compare a repeated write only after the controller's
    // last one.
    let is_settled = |found: Option<&tidegate_model::Object>| {
        let conditions = found.and_then(|found| found.pointer("/status/conditions")?.as_array());
        conditions.into_iter().flatten().any(|condition| condition["reason"] == "NewReplicaSetAvailable")
    };
    stage.wait_until("Deployment", "api", "is rolled out", is_settled).await;
    stage.apply(&deployment(stage, "api", json!({"replicas": 0}))).await;
    stage
        .note_fields(
            "Deployment",
            "api",
            &["/metadata/generation", "/spec/strategy", "/spec/revisionHistoryLimit"],
        )
        .await;
    stage.apply(&deployment(stage, "api", json!({"replicas": 0, "paused": true}))).await;
    stage.note_fields("Deployment", "api", &["/metadata/generation", "/spec/paused"]).await;
}

pub async fn dry_runs(stage: &mut Stage) {
    let judge = |request: &mut tidegate_cluster::ApplyRequest| request.dry_run = true;
    stage.write(&stage.config("a", json!({"x": "1"})), SSA, judge).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    stage.apply(&stage.config("a", json!({"x": "1"}))).await;
    stage.write(&stage.config("a", json!({"x": "2"})), FORCED, judge).await;
    stage.write(&stage.config("a", json!({"x": "2"})), REPLACE, judge).await;
    stage.write(&stage.config("b", json!({"x": "2"})), REPLACE, judge).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    let wrong = stage.manifest("Service", "web", json!({"spec": {"ports": [{"port": 0}]}}));
    stage.write(&wrong, SSA, judge).await;
    stage.delete_with("ConfigMap", "a", |request| request.dry_run = true).await;
    stage.delete_with("ConfigMap", "none", |request| request.dry_run = true).await;
    stage.note_names("ConfigMap").await;
}

pub async fn conflicts(stage: &mut Stage) {
    stage.apply_as("other", &stage.config("a", json!({"x": "1", "z": "9"}))).await;
    stage.apply(&stage.config("a", json!({"x": "1"}))).await;
    stage.apply(&stage.config("a", json!({"x": "2"}))).await;
    stage.apply(&stage.config("a", json!({"x": "2", "z": "2"}))).await;
    stage.write(&stage.config("a", json!({"x": "2"})), FORCED, |_| {}).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    stage.apply(&stage.config("a", json!({}))).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
}

pub async fn refusals(stage: &mut Stage) {
    let elsewhere = |rest: Value| {
        let mut value = json!({"metadata": {"namespace": "no-such-place"}});
        value.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        value
    };
    let wrong = [
        ("ConfigMap", "a", elsewhere(json!({"data": {"x": "1"}}))),
        ("ConfigMap", "a", json!({"data": {"x": 1}})),
        ("ConfigMap", "a", json!({"dta": {"x": "1"}})),
        ("ConfigMap", "Not_A_Name", json!({})),
        ("ConfigMap", "a", json!({"metadata": {"labels": {"no good": "x"}}})),
        ("Service", "web", json!({"spec": {"ports": []}})),
        ("Service", "web", json!({"spec": {"ports": [{"port": 99999}]}})),
        ("Secret", "s", json!({"data": {"key": "not base64"}})),
        ("Deployment", "api", json!({"spec": {}})),
        (
            "Deployment",
            "api",
            json!({"spec": {
                "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}},
            }}),
        ),
        (
            "Job",
            "once",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}}),
        ),
        (
            "RoleBinding",
            "b",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ""}],
            }),
        ),
    ];
    for (kind, name, rest) in wrong {
        for mode in [SSA, REPLACE] {
            // Old servers don't check replacements for unknown fields.
            if rest.get("dta").is_some() && mode == REPLACE {
                continue;
            }
            stage.write(&stage.manifest(kind, name, rest.clone()), mode, |_| {}).await;
        }
    }
    // Record only the error kind, because servers use different messages for this error.
    let containers = json!([{"name": "m", "image": "i"}]);
    let always =
        json!({"spec": {"template": {"spec": {"restartPolicy": "Always", "containers": containers}}}});
    stage.note_refusal_kind(&stage.manifest("Job", "once", always), SSA).await;
    stage.note_names("ConfigMap").await;
}

pub async fn immutable_fields(stage: &mut Stage) {
    let job = |image: &str| {
        let containers = json!([{"name": "main", "image": image}]);
        let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
        stage.manifest("Job", "once", json!({"spec": spec}))
    };
    let (first, second) = (job("one"), job("two"));
    stage.apply(&first).await;
    stage.note_refusal_kind(&second, SSA).await;
    stage.apply(&deployment(stage, "api", json!({"replicas": 0}))).await;
    let other = json!({
        "replicas": 0, "selector": {"matchLabels": {"app": "else"}},
        "template": {"metadata": {"labels": {"app": "else"}}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}},
    });
    stage.write(&deployment(stage, "api", other), FORCED, |_| {}).await;
    let fixed = |value: &str| json!({"immutable": true, "data": {"x": value}});
    stage.apply(&stage.manifest("ConfigMap", "fixed", fixed("1"))).await;
    stage.apply(&stage.manifest("ConfigMap", "fixed", fixed("2"))).await;
    stage.write(&stage.manifest("ConfigMap", "fixed", fixed("2")), REPLACE, |_| {}).await;
    let claim = |size: &str, modes: &str| {
        let spec = json!({"accessModes": [modes], "resources": {"requests": {"storage": size}}});
        json!({ "spec": spec })
    };
    stage.apply(&stage.manifest("PersistentVolumeClaim", "disk", claim("1Gi", "ReadWriteOnce"))).await;
    stage.wait_for_field("PersistentVolumeClaim", "disk", "/status/phase", &json!("Bound")).await;
    stage
        .note_refusal_kind(
            &stage.manifest("PersistentVolumeClaim", "disk", claim("1Gi", "ReadWriteMany")),
            FORCED,
        )
        .await;
}

pub async fn generated_names(stage: &mut Stage) {
    let generated = |stage: &Stage| {
        let mut object = stage.config("", json!({"x": "1"}));
        object.metadata_mut().remove("name");
        object.metadata_mut().insert("generateName".to_owned(), "gen-".into());
        object
    };
    stage.write(&generated(stage), REPLACE, |_| {}).await;
    stage.write(&generated(stage), REPLACE, |_| {}).await;
    stage.write(&generated(stage), SSA, |_| {}).await;
}

pub async fn replacing(stage: &mut Stage) {
    stage.write(&stage.config("a", json!({"x": "1", "y": "2"})), REPLACE, |_| {}).await;
    stage.write(&stage.config("a", json!({"x": "2"})), REPLACE, |_| {}).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    stage.write(&stage.config("a", json!({"x": "2"})), REPLACE, |_| {}).await;
    let service = json!({"spec": {"ports": [{"port": 80}]}});
    stage.write(&stage.manifest("Service", "web", service), REPLACE, |_| {}).await;
    let service = json!({"spec": {"ports": [{"port": 81}]}});
    stage.write(&stage.manifest("Service", "web", service), REPLACE, |_| {}).await;
    stage.note_fields("Service", "web", &["/spec/ports/0/port"]).await;
    // The manifest contains the resource version to replace.
    let stale =
        stage.manifest("ConfigMap", "a", json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "4"}}));
    stage.write(&stale, REPLACE, |_| {}).await;
    // A replacement takes ownership only of the fields that it changes. A later apply without the other
    // fields removes them.
    stage.write(&stage.config("b", json!({"x": "1", "y": "1", "z": "1"})), SSA, |_| {}).await;
    stage.write(&stage.config("b", json!({"x": "2", "y": "1", "z": "1", "new": "1"})), REPLACE, |_| {}).await;
    stage.write(&stage.config("b", json!({"z": "1"})), FORCED, |_| {}).await;
    stage.note_fields("ConfigMap", "b", &["/data"]).await;
}

/// A creation over an existing object is refused, and leaves it unchanged.
pub async fn creating(stage: &mut Stage) {
    let judge = |request: &mut tidegate_cluster::ApplyRequest| request.dry_run = true;
    let plain = |x: &str| json!({"x": x, "y": "2"});
    stage.write(&stage.config("a", plain("1")), CREATE, judge).await;
    stage.write(&stage.config("a", plain("1")), CREATE, |_| {}).await;
    stage.write(&stage.config("a", plain("1")), CREATE, |_| {}).await;
    stage.write(&stage.config("a", plain("3")), CREATE, |_| {}).await;
    stage.write(&stage.config("a", plain("3")), CREATE, judge).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    let noted = WriteMode::Create { client_side: true };
    stage.write(&stage.config("a", plain("4")), noted, |_| {}).await;
    stage.write(&stage.config("noted", plain("4")), noted, |_| {}).await;
    let elsewhere = json!({"metadata": {"namespace": "no-such-place"}});
    stage.write(&stage.manifest("ConfigMap", "a", elsewhere), CREATE, |_| {}).await;
    stage.write(&stage.manifest("Service", "web", json!({"spec": {"ports": []}})), CREATE, |_| {}).await;
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    stage.write(&stage.manifest("ConfigMap", "held", held), CREATE, |_| {}).await;
    stage.delete("ConfigMap", "held", Propagation::Background).await;
    stage.write(&stage.config("held", plain("1")), CREATE, |_| {}).await;
    // Server-side apply can follow a creation. After taking over the fields, it removes those that the
    // manifest drops.
    stage.write(&stage.config("a", json!({"x": "5"})), SSA, |_| {}).await;
    stage.write(&stage.config("a", json!({"x": "5"})), FORCED, |_| {}).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    let take_over =
        |request: &mut tidegate_cluster::ApplyRequest| request.take_over = vec!["tidegate".to_owned()];
    stage.write(&stage.config("a", json!({"x": "5"})), FORCED, take_over).await;
    stage.note_fields("ConfigMap", "a", &["/data"]).await;
    stage.write(&stage.config("b", plain("1")), CREATE, |_| {}).await;
    stage.write(&stage.config("b", json!({"x": "6"})), FORCED, take_over).await;
    stage.note_fields("ConfigMap", "b", &["/data"]).await;
}

/// Writes with the expected resource version of an object.
pub async fn guarded(stage: &mut Stage) {
    let anew = WriteMode::Recreate { server_side: true };
    for (name, mode) in ["a", "b", "c", "d"].into_iter().zip([FORCED, REPLACE, RECREATE, anew]) {
        stage.apply(&stage.config(name, json!({"x": "1"}))).await;
        let first = stage.get("ConfigMap", name).await.unwrap().unwrap().resource_version().to_owned();
        stage.apply(&stage.config(name, json!({"x": "2"}))).await;
        let next = stage.get("ConfigMap", name).await.unwrap().unwrap().resource_version().to_owned();
        let next_config = stage.config(name, json!({"x": "3"}));
        // The message comes from the server only if the server detects the conflict, so record only the error
        // kind.
        stage.note_guarded_refusal_kind(&next_config, mode, &first).await;
        stage.note_fields("ConfigMap", name, &["/data"]).await;
        stage.note_guarded_refusal_kind(&next_config, mode, &next).await;
        stage.note_fields("ConfigMap", name, &["/data"]).await;
        stage
            .note_guarded_refusal_kind(&stage.config(&format!("none-{name}"), json!({"x": "1"})), mode, &next)
            .await;
    }
    // A takeover is a separate write, so combine it with an expected version.
    stage.write(&stage.config("e", json!({"x": "1", "y": "1"})), CREATE, |_| {}).await;
    let first = stage.get("ConfigMap", "e").await.unwrap().unwrap().resource_version().to_owned();
    for _ in 0..2 {
        let version = first.clone();
        let taking = move |request: &mut tidegate_cluster::ApplyRequest| {
            request.take_over = vec!["tidegate".to_owned()];
            request.resource_version = version;
        };
        stage.note_changed_refusal_kind(&stage.config("e", json!({"x": "2"})), FORCED, taking).await;
        stage.note_fields("ConfigMap", "e", &["/data"]).await;
    }
}

pub async fn recreating(stage: &mut Stage) {
    let modes =
        [RECREATE, WriteMode::Recreate { server_side: true }, WriteMode::Recreate { server_side: false }];
    for (name, mode) in ["a", "b", "c"].into_iter().zip(modes) {
        stage.write(&stage.config(name, json!({"x": "1"})), mode, |_| {}).await;
        let first = stage.get("ConfigMap", name).await.unwrap().unwrap();
        stage.write(&stage.config(name, json!({"x": "2"})), mode, |_| {}).await;
        let second = stage.get("ConfigMap", name).await.unwrap().unwrap();
        stage.note(format!("the same object: {}", first.uid() == second.uid()));
        // Whatever the manifest, a dry run can check only the deletion.
        for value in [json!("3"), json!(3)] {
            let manifest = stage.config(name, json!({"x": value}));
            stage.write(&manifest, mode, |request| request.dry_run = true).await;
        }
        stage.note_fields("ConfigMap", name, &["/data"]).await;
    }
}
