//! Server-side apply: who owns which field.

use serde_json::{Value, json};
use tidegate_cluster::{ErrorKind, WriteMode};
use tidegate_model::Object;

use super::{REPLACE, SSA, World, assert_refused, manifest, object, request, with, workload};

const FORCE: WriteMode = WriteMode::Apply { force: true };

fn scaler(replicas: i64) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "default"}, "spec": {"replicas": replicas},
    }))
}

/// Managers of an object, with a word for how they write.
fn managers(object: &Object) -> Vec<(String, String)> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    entries.iter().map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

#[test]
fn another_owner_of_a_field_is_a_conflict_that_names_both() {
    let mut world = World::new();
    world.apply(&workload("Deployment", "api", "api:1", json!({})));
    let error = world.state.apply_as(world.now, "autoscaler", request(&scaler(5), SSA)).unwrap_err();
    assert_refused(
        &error,
        ErrorKind::Conflict,
        "Apply failed with 1 conflict: conflict with \"tidegate\": .spec.replicas",
    );
    assert_eq!(world.last_audit().code, 409);
    // The same value is shared, not disputed.
    world.state.apply_as(world.now, "autoscaler", request(&scaler(3), SSA)).unwrap();
    let error = world
        .write(&with(&workload("Deployment", "api", "api:1", json!({})), "/spec/replicas", json!(4)), SSA)
        .unwrap_err();
    assert_refused(&error, ErrorKind::Conflict, "conflict with \"autoscaler\"");
}

#[test]
fn force_takes_a_field_over_and_the_loser_no_longer_decides() {
    let mut world = World::new();
    let mine = workload("Deployment", "api", "api:1", json!({}));
    world.apply(&mine);
    world.state.apply_as(world.now, "autoscaler", request(&scaler(5), FORCE)).unwrap();
    // We leave the field out from now on: it stays, because it is not ours any more.
    let mut without = mine.clone();
    without.section_mut("spec").remove("replicas");
    assert_eq!(world.apply(&without).integer("/spec/replicas"), Some(5));
    assert_refused(&world.refused(&mine, SSA), ErrorKind::Conflict, ".spec.replicas");
    let taken = world.write(&mine, FORCE).unwrap().object;
    assert_eq!(taken.integer("/spec/replicas"), Some(3));
    assert_eq!(managers(&taken), [("tidegate".to_owned(), "Apply".to_owned())], "the other owns nothing now");
}

#[test]
fn a_shared_field_stays_until_its_last_owner_leaves_it_out() {
    let mut world = World::new();
    let labelled = |labels: Value| manifest("ConfigMap", "web", json!({"metadata": {"labels": labels}}));
    world.apply(&labelled(json!({"a": "1", "b": "1"})));
    world.state.apply_as(world.now, "other", request(&labelled(json!({"a": "1"})), SSA)).unwrap();
    let after = world.apply(&labelled(json!({})));
    assert_eq!(after.pointer("/metadata/labels"), Some(&json!({"a": "1"})));
    let after = world.state.apply_as(world.now, "other", request(&labelled(json!({})), SSA)).unwrap().object;
    assert_eq!(after.pointer("/metadata/labels"), None);
}

fn containers(items: Value) -> Object {
    with(&workload("Deployment", "api", "x", json!({})), "/spec/template/spec/containers", items)
}

#[test]
fn lists_of_named_things_merge_by_name() {
    let mut world = World::new();
    let main = json!({"name": "main", "image": "m:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}]});
    world.apply(&containers(json!([main])));
    let mut sidecar = object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "proxy", "image": "p:1"},
            {"name": "main", "env": [{"name": "PROXY", "value": "on"}], "ports": [{"containerPort": 53, "protocol": "TCP"}]},
        ]}}},
    }));
    sidecar.set_annotation("injected", "yes");
    world.state.apply_as(world.now, "injector", request(&sidecar, SSA)).unwrap();
    let main = json!({"name": "main", "image": "m:2", "env": [{"name": "B", "value": "3"}], "ports": [{"containerPort": 80}]});
    let after = world.apply(&containers(json!([main])));
    let expected = json!([
        {"name": "main", "image": "m:2", "env": [{"name": "B", "value": "3"}, {"name": "PROXY", "value": "on"}],
         "ports": [{"containerPort": 80}, {"containerPort": 53, "protocol": "TCP"}]},
        {"name": "proxy", "image": "p:1"},
    ]);
    assert_eq!(after.pointer("/spec/template/spec/containers"), Some(&expected));
    let error = world
        .state
        .apply_as(world.now, "third", request(&containers(json!([{"name": "main", "image": "z"}])), SSA))
        .unwrap_err();
    assert!(error.message.contains(r#".spec.template.spec.containers[name="main"].image"#), "{error}");
}

#[test]
fn lists_of_unnamed_things_are_one_value() {
    let mut world = World::new();
    let with_args = |args: Value| containers(json!([{"name": "main", "image": "m", "args": args}]));
    world.apply(&with_args(json!(["a", "b"])));
    let after = world.apply(&with_args(json!(["b"])));
    assert_eq!(after.pointer("/spec/template/spec/containers/0/args"), Some(&json!(["b"])));
}

#[test]
fn items_without_or_with_the_same_key_are_refused() {
    let mut world = World::new();
    let twice = containers(json!([{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]));
    assert_refused(&world.refused(&twice, SSA), ErrorKind::Invalid, "containers[1]: duplicate entries");
    let nameless = containers(json!([{"image": "i"}]));
    assert_refused(
        &world.refused(&nameless, SSA),
        ErrorKind::Invalid,
        "containers[0]: associative list item lacks its key name",
    );
}

#[test]
fn finalizers_of_others_stay() {
    let mut world = World::new();
    let of = |name: &str| manifest("ConfigMap", "web", json!({"metadata": {"finalizers": [name]}}));
    world.apply(&of("a.example.com/x"));
    world.state.apply_as(world.now, "other", request(&of("b.example.com/y"), SSA)).unwrap();
    let after = world.apply(&manifest("ConfigMap", "web", json!({})));
    assert_eq!(after.finalizers().collect::<Vec<_>>(), ["b.example.com/y"]);
}

/// A manager that changes its way of writing is somebody else, until it takes over what it wrote before.
#[test]
fn a_manager_takes_over_from_itself() {
    for first in [REPLACE, WriteMode::Create { client_side: false }, WriteMode::ClientSideApply] {
        let mut world = World::new();
        let now = world.now;
        let created =
            world.write(&super::config_map("web", json!({"a": "1", "b": "1"})), first).unwrap().object;
        let next = super::config_map("web", json!({"a": "2"}));
        let refused = world.write(&next, SSA).unwrap_err();
        assert_eq!(
            refused.message, "Apply failed with 1 conflict: conflict with \"tidegate\" using v1: .data.a",
            "{first:?}"
        );
        let after = world.write(&next, FORCE).unwrap().object;
        assert_eq!(after.pointer("/data"), Some(&json!({"a": "2", "b": "1"})), "{first:?}");
        let mut taking = request(&next, FORCE);
        taking.take_over = Some("tidegate".into());
        taking.resource_version = created.resource_version().to_owned();
        assert_eq!(
            world.state.apply(now, taking.clone()).unwrap_err().kind,
            ErrorKind::Conflict,
            "{first:?}"
        );
        taking.resource_version = after.resource_version().to_owned();
        let after = world.state.apply(now, taking).unwrap().object;
        assert_eq!(after.pointer("/data"), Some(&json!({"a": "2"})), "{first:?}");
        assert_eq!(managers(&after), [("tidegate".to_owned(), "Apply".to_owned())]);
    }
}

#[test]
fn ownership_is_written_as_kubernetes_writes_it() {
    let mut world = World::new();
    let job = world.apply(&with(
        &workload("Job", "m", "m:1", json!({})),
        "/metadata/finalizers",
        json!(["x.io/y"]),
    ));
    let expected = json!([{
        "manager": "tidegate", "operation": "Apply", "apiVersion": "batch/v1", "time": "2026-11-21T09:30:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:finalizers": {"v:\"x.io/y\"": {}}},
            "f:spec": {"f:template": {"f:spec": {
                "f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:name": {}, "f:image": {}}},
                "f:restartPolicy": {},
            }}},
        },
    }]);
    let read = world.state.get(world.now, &job.gvk(), "default", "m").unwrap().unwrap();
    assert_eq!(read.pointer("/metadata/managedFields"), Some(&expected));
    // The answer to a write says the same in short.
    let short = job.text("/metadata/managedFields/0/fieldsV1");
    assert_eq!(serde_json::from_str::<Value>(short).unwrap(), expected[0]["fieldsV1"]);
}

/// Fields that kubectl wrote and the manifest no longer has go away, and nobody else's.
#[test]
fn what_kubectl_applied_becomes_ours() {
    let mut world = World::new();
    let data = |data: Value| {
        object(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, "data": data}),
        )
    };
    let now = world.now;
    let kubectl = request(&data(json!({"old": "1", "kept": "1"})), WriteMode::ClientSideApply);
    world.state.apply_as(now, "kubectl-client-side-apply", kubectl).unwrap();
    world.state.apply_as(now, "other", request(&data(json!({"theirs": "1"})), SSA)).unwrap();
    let ours = data(json!({"kept": "2"}));
    // Without taking over, what kubectl wrote stays.
    let mut dry = request(&ours, FORCE);
    dry.dry_run = true;
    let stays = world.state.apply(now, dry).unwrap().object;
    assert_eq!(stays.pointer("/data"), Some(&json!({"old": "1", "kept": "2", "theirs": "1"})));
    let mut taking = request(&ours, FORCE);
    taking.take_over = Some("kubectl-client-side-apply".into());
    let after = world.state.apply(now, taking.clone()).unwrap().object;
    assert_eq!(after.pointer("/data"), Some(&json!({"kept": "2", "theirs": "1"})));
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    assert_eq!(after.annotation(last_applied), None, "it belonged to kubectl's share");
    let ours = ("tidegate".to_owned(), "Apply".to_owned());
    let names = managers(&after);
    assert!(names.len() == 2 && names.contains(&ours), "{names:?}");
    // Once more changes nothing.
    assert_eq!(world.state.apply(now, taking).unwrap().object, after);
}
