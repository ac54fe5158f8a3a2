//! Kinds appear and disappear with their definitions.

use serde_json::{Value, json};
use tidegate_cluster::ErrorKind::{Forbidden, Invalid, UnknownKind};
use tidegate_cluster::{DeleteResult, Propagation};
use tidegate_model::HealthStatus::{Degraded, Healthy, Progressing};
use tidegate_model::{GroupKind, Object};

use super::{SSA, World, assert_refused, gvk, manifest, ms, object, with_value};

fn definition(annotations: Value) -> Object {
    object(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "annotations": annotations},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}, {"name": "v0", "served": false}],
        },
    }))
}

fn widget() -> Object {
    manifest("Widget", "w", json!({"spec": {"size": 1, "parts": [{"name": "a"}]}, "status": {"mine": true}}))
}

fn definition_health(world: &mut World) -> tidegate_model::HealthStatus {
    let object = world
        .state
        .get(world.now, &gvk("CustomResourceDefinition"), "", "widgets.example.com")
        .unwrap()
        .unwrap();
    tidegate_health::assess(&object).expect("definitions have a rule").unwrap().status
}

#[test]
fn a_kind_is_served_once_its_definition_is_established() {
    let mut world = World::new();
    assert_refused(&world.refused_write(&widget(), SSA), UnknownKind, "ensure CRDs are installed first");
    world.apply(&definition(json!({})));
    assert_eq!(definition_health(&mut world), Progressing);
    assert_refused(&world.refused_write(&widget(), SSA), UnknownKind, "no matches for kind \"Widget\"");
    world.advance(ms(20));
    assert_eq!(definition_health(&mut world), Healthy);
    let discovery = world.state.discover(world.now).unwrap();
    let info = discovery.get(&GroupKind::new("example.com", "Widget")).unwrap();
    assert_eq!((info.versions.as_slice(), info.namespaced), (["v1".to_owned()].as_slice(), true));
    let made = world.apply(&widget());
    assert_eq!((made.generation(), made.pointer("/status")), (1, None), "only controllers write the status");
    let changed = world.apply(&with_value(&widget(), "/spec/parts", json!([{"name": "b"}])));
    assert_eq!(changed.generation(), 2);
    assert_eq!(
        changed.pointer("/spec/parts"),
        Some(&json!([{"name": "b"}])),
        "lists of custom kinds are atomic"
    );
}

#[test]
fn a_deleted_definition_deletes_its_objects() {
    let mut world = World::new();
    world.apply(&definition(json!({})));
    world.run_until_idle();
    world.apply(&with_value(&widget(), "/metadata/finalizers", json!(["x.io/y"])));
    let uid = world.get("Widget", "w").unwrap().uid().to_owned();
    assert_eq!(
        world.delete("CustomResourceDefinition", "widgets.example.com", Propagation::Background),
        Ok(DeleteResult::Deleting)
    );
    world.run_until_idle();
    assert!(world.get("Widget", "w").unwrap().is_deleting());
    let late = with_value(&widget(), "/metadata/name", json!("late"));
    assert_refused(&world.refused_write(&late, SSA), Forbidden, "custom resource definition is terminating");
    world.state.remove_finalizer(world.now, &super::key("Widget", "w"), &uid, "x.io/y", None).unwrap();
    world.run_until_idle();
    assert!(world.names("CustomResourceDefinition").is_empty());
    assert!(world.state.list(world.now, &gvk("Widget")).is_err());
    let again = world.state.remove_finalizer(world.now, &super::key("Widget", "w"), &uid, "x.io/y", None);
    assert_eq!(again, Ok(()), "removing a finalizer from a deleted object succeeds");
    assert_refused(&world.refused_write(&widget(), SSA), UnknownKind, "no matches for kind");
}

#[test]
fn a_definition_may_fail_or_take_time() {
    for (annotations, after_a_while) in [
        (json!({"sim.tidegate.dev/outcome": "fail"}), Degraded),
        (json!({"sim.tidegate.dev/outcome": "never-ready"}), Progressing),
        (json!({"sim.tidegate.dev/ready-after": "1h"}), Progressing),
        (json!({"sim.tidegate.dev/ready-after": "1s"}), Healthy),
    ] {
        let mut world = World::new();
        world.apply(&definition(annotations));
        world.advance(ms(5000));
        assert_eq!(definition_health(&mut world), after_a_while);
    }
}

#[test]
fn an_invalid_definition_is_refused() {
    let whole = definition(json!({}));
    for (path, value, text) in [
        ("/metadata/name", json!("widgets"), "must be spec.names.plural+\".\"+spec.group"),
        ("/spec/scope", json!("Everywhere"), "spec.scope: Unsupported value: \"Everywhere\""),
        ("/spec/versions", json!([]), "spec.versions: Required value"),
    ] {
        assert_refused(&World::new().refused_write(&with_value(&whole, path, value), SSA), Invalid, text);
    }
}

#[test]
fn cluster_wide_objects_have_no_namespace() {
    let mut world = World::new();
    let role =
        manifest("ClusterRole", "reader", json!({"apiVersion": "rbac.authorization.k8s.io/v1", "rules": []}));
    assert_eq!(world.apply(&role).namespace(), "");
}
