//! Field ownership in server-side apply.

use serde_json::{Value, json};
use tidegate_cluster::{ErrorKind, Refusal, WriteMode};
use tidegate_model::Object;

use super::{REPLACE, SSA, World, assert_refused, manifest, object, request, with_value, workload};

const FORCE: WriteMode = WriteMode::Apply { force: true };

fn scaler(replicas: i64) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "default"}, "spec": {"replicas": replicas},
    }))
}

/// Returns the managers of an object with their types of write.
fn managers(object: &Object) -> Vec<(String, String)> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array).unwrap();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap().to_owned();
    entries.iter().map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

#[test]
fn a_field_of_another_owner_is_a_conflict_that_names_both() {
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
        .write(
            &with_value(&workload("Deployment", "api", "api:1", json!({})), "/spec/replicas", json!(4)),
            SSA,
        )
        .unwrap_err();
    assert_refused(&error, ErrorKind::Conflict, "conflict with \"autoscaler\"");
}

#[test]
fn force_takes_over_a_field_from_its_owner() {
    let mut world = World::new();
    let mine = workload("Deployment", "api", "api:1", json!({}));
    world.apply(&mine);
    world.state.apply_as(world.now, "autoscaler", request(&scaler(5), FORCE)).unwrap();
    // The field is no longer in our manifest, but it remains because another manager owns it.
    let mut without = mine.clone();
    without.section_mut("spec").remove("replicas");
    assert_eq!(world.apply(&without).integer("/spec/replicas"), Some(5));
    assert_refused(&world.refused_write(&mine, SSA), ErrorKind::Conflict, ".spec.replicas");
    let taken = world.write(&mine, FORCE).unwrap().object;
    assert_eq!(taken.integer("/spec/replicas"), Some(3));
    assert_eq!(
        managers(&taken),
        [("tidegate".to_owned(), "Apply".to_owned())],
        "the other manager no longer owns any fields"
    );
}

#[test]
fn a_shared_field_remains_until_its_last_owner_omits_it() {
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
    with_value(&workload("Deployment", "api", "x", json!({})), "/spec/template/spec/containers", items)
}

#[test]
fn lists_with_keys_merge_by_key() {
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
fn lists_without_keys_are_one_value() {
    let mut world = World::new();
    let with_args = |args: Value| containers(json!([{"name": "main", "image": "m", "args": args}]));
    world.apply(&with_args(json!(["a", "b"])));
    let after = world.apply(&with_args(json!(["b"])));
    assert_eq!(after.pointer("/spec/template/spec/containers/0/args"), Some(&json!(["b"])));
}

#[test]
fn items_with_missing_or_duplicate_keys_are_refused() {
    let mut world = World::new();
    let twice = containers(json!([{"name": "a", "image": "i"}, {"name": "a", "image": "j"}]));
    let error = world.refused_write(&twice, SSA);
    let text = "failed to create typed patch object (default/api; apps/v1, Kind=Deployment): \
         .spec.template.spec.containers: duplicate entries for key [name=\"a\"]";
    assert_refused(&error, ErrorKind::Invalid, text);
    assert_eq!(error.refusal.as_deref(), Some(&Refusal::DuplicateItems));
    // Two containers with the same name are refused in every write mode.
    for mode in [WriteMode::ClientSideApply, WriteMode::Create { client_side: false }, REPLACE] {
        let error = world.refused_write(&twice, mode);
        let text = "spec.template.spec.containers[1].name: Duplicate value: \"a\"";
        assert_refused(&error, ErrorKind::Invalid, text);
        assert!(!error.should_try_client_side_apply(), "{mode:?}");
    }
    let nameless = containers(json!([{"image": "i"}]));
    assert_refused(
        &world.refused_write(&nameless, SSA),
        ErrorKind::Invalid,
        "containers[0]: associative list item lacks its key name",
    );
}

/// Only server-side apply refuses two variables with the same name, as on a real server.
#[test]
fn repeated_keys_can_be_written_on_the_client_side() {
    let mut world = World::new();
    let api = |env: Value| containers(json!([{"name": "main", "image": "m", "env": env}]));
    let env = |object: &Object| object.pointer("/spec/template/spec/containers/0/env").cloned().unwrap();
    let (five, six, other) = (
        json!({"name": "R", "value": "5"}),
        json!({"name": "R", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        json!({"name": "B", "value": "1"}),
    );
    let error = world.refused_write(&api(json!([five, six])), SSA);
    let text = ".spec.template.spec.containers[name=\"main\"].env: duplicate entries for key [name=\"R\"]";
    assert_refused(&error, ErrorKind::Invalid, text);
    assert!(error.should_try_client_side_apply());
    for mode in [WriteMode::ClientSideApply, REPLACE] {
        for items in [
            json!([five, other]),
            json!([five, six]),
            json!([five, six]),
            json!([six, five, other]),
            json!([five, other]),
            json!([five, six, other]),
            json!([other]),
        ] {
            let after = world.write(&api(items.clone()), mode).unwrap().object;
            assert_eq!(env(&after), items, "{mode:?}");
        }
    }
    // A server-side apply replaces all live items that share a key with an applied item.
    world.write(&api(json!([five, six])), REPLACE).unwrap();
    let after = world.write(&api(json!([six])), FORCE).unwrap().object;
    assert_eq!(env(&after), json!([six]));
}

#[test]
fn finalizers_of_other_managers_remain() {
    let mut world = World::new();
    let of = |name: &str| manifest("ConfigMap", "web", json!({"metadata": {"finalizers": [name]}}));
    world.apply(&of("a.example.com/x"));
    world.state.apply_as(world.now, "other", request(&of("b.example.com/y"), SSA)).unwrap();
    let after = world.apply(&manifest("ConfigMap", "web", json!({})));
    assert_eq!(after.finalizers().collect::<Vec<_>>(), ["b.example.com/y"]);
}

/// A manager that changes its type of write counts as another manager until it takes over its earlier fields.
#[test]
fn a_manager_takes_over_its_own_earlier_fields() {
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
        taking.take_over = vec!["tidegate".into()];
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
fn managed_fields_have_the_format_of_kubernetes() {
    let mut world = World::new();
    let job = world.apply(&with_value(
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
    // The response to a write contains managed fields as JSON text.
    let short = job.text("/metadata/managedFields/0/fieldsV1");
    assert_eq!(serde_json::from_str::<Value>(short).unwrap(), expected[0]["fieldsV1"]);
}

/// Fields that kubectl wrote and that are no longer in the manifest must be removed, but fields of other
/// managers must remain.
#[test]
fn fields_applied_by_kubectl_are_taken_over() {
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
    // Without a takeover, kubectl's fields remain.
    let mut dry = request(&ours, FORCE);
    dry.dry_run = true;
    let stays = world.state.apply(now, dry).unwrap().object;
    assert_eq!(stays.pointer("/data"), Some(&json!({"old": "1", "kept": "2", "theirs": "1"})));
    let mut taking = request(&ours, FORCE);
    taking.take_over = vec!["kubectl-client-side-apply".into()];
    let after = world.state.apply(now, taking.clone()).unwrap().object;
    assert_eq!(after.pointer("/data"), Some(&json!({"kept": "2", "theirs": "1"})));
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    assert_eq!(after.annotation(last_applied), None, "kubectl owned the annotation");
    let ours = ("tidegate".to_owned(), "Apply".to_owned());
    let names = managers(&after);
    assert!(names.len() == 2 && names.contains(&ours), "{names:?}");
    // A second apply doesn't change anything.
    assert_eq!(world.state.apply(now, taking).unwrap().object, after);
}
