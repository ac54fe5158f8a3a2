//! Refusals of the cluster and their messages.

use serde_json::{Value, json};
use tidegate_cluster::ErrorKind::{
    Conflict, Forbidden, Invalid, NamespaceMissing, NamespaceTerminating, UnknownKind,
};
use tidegate_cluster::{ErrorKind, Propagation, WriteMode};
use tidegate_model::Object;

use super::{REPLACE, SSA, World, assert_refused, config_map, manifest, object, with_value, workload};

fn deployment() -> Object {
    workload("Deployment", "api", "api:1", json!({}))
}

fn job() -> Object {
    workload("Job", "m", "m:1", json!({}))
}

#[test]
fn invalid_content_is_refused_with_the_messages_of_kubernetes() {
    let web = config_map("web", json!({}));
    let spec = |kind: &str, spec: Value| manifest(kind, "it", json!({"spec": spec}));
    let cases: Vec<(Object, ErrorKind, &str)> = vec![
        (
            with_value(&web, "/metadata/namespace", json!("nowhere")),
            NamespaceMissing,
            "namespaces \"nowhere\" not found",
        ),
        (
            with_value(&web, "/metadata/name", json!("Web_1")),
            Invalid,
            "metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123",
        ),
        (
            with_value(&web, "/metadata/name", json!("x".repeat(254))),
            Invalid,
            "must be no more than 253 bytes",
        ),
        (
            with_value(&web, "/metadata/labels", json!({"a": "b c"})),
            Invalid,
            "metadata.labels[a]: Invalid value: \"b c\"",
        ),
        (with_value(&web, "/spec", json!({})), Invalid, "strict decoding error: unknown field \"spec\""),
        (
            with_value(&deployment(), "/sepc", json!({})),
            Invalid,
            "strict decoding error: unknown field \"sepc\"",
        ),
        (
            spec("Deployment", json!({})),
            Invalid,
            "Deployment.apps \"it\" is invalid: spec.selector: Required value",
        ),
        (
            with_value(&deployment(), "/spec/selector", json!({"matchLabels": {"app": "other"}})),
            Invalid,
            "`selector` does not match template `labels`",
        ),
        (with_value(&deployment(), "/spec/replicas", json!(-1)), Invalid, "spec.replicas: Invalid value: -1"),
        (
            with_value(&deployment(), "/spec/template/spec/containers", json!([])),
            Invalid,
            "spec.template.spec.containers: Required value",
        ),
        (
            with_value(&deployment(), "/spec/template/spec/containers", json!([{"name": "a"}])),
            Invalid,
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            with_value(&deployment(), "/spec/template/spec/restartPolicy", json!("Never")),
            Invalid,
            "Unsupported value: \"Never\"",
        ),
        (
            with_value(&job(), "/spec/template/spec/restartPolicy", json!("Always")),
            Invalid,
            "spec.template.spec.restartPolicy: Unsupported value: \"Always\"",
        ),
        (spec("PersistentVolumeClaim", json!({})), Invalid, "spec.accessModes: Required value"),
        (spec("Service", json!({})), Invalid, "spec.ports: Required value"),
        (spec("Ingress", json!({})), Invalid, "either spec.rules or spec.defaultBackend must be specified"),
        (
            spec("Widget", json!({})),
            UnknownKind,
            "no matches for kind \"Widget\" in version \"example.com/v1\"",
        ),
        (with_value(&deployment(), "/apiVersion", json!("apps/v1beta1")), UnknownKind, "\"apps/v1beta1\""),
        (
            workload("Job", "m", "m:1", json!({"outcome": "explode"})),
            Invalid,
            "must be fail, never-ready, crashloop or stuck-deleting",
        ),
        (
            workload("Job", "m", "m:1", json!({"ready-after": "soon"})),
            Invalid,
            "metadata.annotations[sim.tidegate.dev/ready-after]",
        ),
    ];
    for (object, kind, text) in cases {
        for mode in [SSA, WriteMode::ClientSideApply, REPLACE] {
            assert_refused(&World::new().refused_write(&object, mode), kind, text);
        }
    }
}

#[test]
fn unknown_fields_are_accepted_without_validation() {
    let mut world = World::new();
    let mut request =
        super::request(&with_value(&config_map("web", json!({})), "/spec", json!({"a": 1})), SSA);
    request.validate = false;
    world.state.apply(world.now, request).unwrap();
}

#[test]
fn immutable_fields_cannot_be_changed() {
    let service = manifest("Service", "s", json!({"spec": {"ports": [{"port": 80}]}}));
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "a", "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = manifest("PersistentVolumeClaim", "c", claim);
    let frozen = manifest("ConfigMap", "f", json!({"data": {"a": "1"}, "immutable": true}));
    let set = workload("StatefulSet", "db", "db:1", json!({}));
    let labels = |object: &Object| {
        let changed = with_value(object, "/spec/template/metadata/labels", json!({"app": "x"}));
        with_value(&changed, "/spec/selector", json!({"matchLabels": {"app": "x"}}))
    };
    let cases = [
        (
            job(),
            workload("Job", "m", "m:2", json!({})),
            "Job.batch \"m\" is invalid: spec.template: field is immutable",
        ),
        (deployment(), labels(&deployment()), "spec.selector: field is immutable"),
        (
            set.clone(),
            with_value(&set, "/spec/serviceName", json!("x")),
            "updates to spec for fields other than 'replicas', 'ordinals'",
        ),
        (
            service.clone(),
            with_value(&service, "/spec/clusterIP", json!("10.0.0.1")),
            "spec.clusterIP: field is immutable",
        ),
        (claim.clone(), with_value(&claim, "/spec/storageClassName", json!("b")), "spec: updates to spec"),
        (
            frozen.clone(),
            with_value(&frozen, "/data", json!({"a": "2"})),
            "field is immutable when `immutable` is set",
        ),
    ];
    for (before, after, text) in cases {
        for mode in [SSA, WriteMode::ClientSideApply, REPLACE] {
            let mut world = World::new();
            world.write(&before, mode).unwrap();
            world.run_until_idle();
            assert_refused(&world.refused_write(&after, mode), Invalid, text);
            world.write(&before, mode).unwrap_or_else(|error| panic!("{before}, written again: {error}"));
        }
    }
}

#[test]
fn a_failed_precondition_is_a_conflict() {
    let mut world = World::new();
    let web = world.apply(&config_map("web", json!({"a": "1"})));
    let mut old = config_map("web", json!({"a": "2"}));
    old.metadata_mut().insert("resourceVersion".to_owned(), "1".into());
    assert_refused(&world.refused_write(&old, REPLACE), Conflict, "the object has been modified");
    old.metadata_mut().insert("resourceVersion".to_owned(), web.resource_version().into());
    world.write(&old, REPLACE).unwrap();
    old.metadata_mut().insert("uid".to_owned(), "somebody-else".into());
    assert_refused(
        &world.refused_write(&old, SSA),
        Conflict,
        "Precondition failed: UID in precondition: somebody-else",
    );
}

#[test]
fn a_terminating_namespace_accepts_no_new_objects() {
    let mut world = World::new();
    let namespace = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    world.apply(&namespace);
    let stuck = with_value(
        &with_value(&config_map("stuck", json!({})), "/metadata/namespace", json!("shop")),
        "/metadata/finalizers",
        json!(["x.io/y"]),
    );
    world.apply(&stuck);
    world.delete("Namespace", "shop", Propagation::Background).unwrap();
    world.run_until_idle();
    let late = with_value(&config_map("late", json!({})), "/metadata/namespace", json!("shop"));
    let text = "configmaps \"late\" is forbidden: unable to create new content in namespace shop because it is being terminated";
    assert_refused(&world.refused_write(&late, SSA), NamespaceTerminating, text);
    world.apply(&stuck);
}

#[test]
fn permanent_namespaces_cannot_be_deleted() {
    let mut world = World::new();
    for name in ["default", "kube-system"] {
        let error = world.delete("Namespace", name, Propagation::Foreground).unwrap_err();
        assert_refused(&error, Forbidden, "this namespace may not be deleted");
    }
}
