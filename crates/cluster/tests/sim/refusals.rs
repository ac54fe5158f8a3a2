//! What the cluster refuses, and in which words.

use serde_json::{Value, json};
use tidegate_cluster::ErrorKind::{
    Conflict, Forbidden, Invalid, NamespaceMissing, NamespaceTerminating, UnknownKind,
};
use tidegate_cluster::{ErrorKind, Propagation, WriteMode};
use tidegate_model::Object;

use super::{REPLACE, SSA, World, assert_refused, config_map, manifest, object, with, workload};

fn deployment() -> Object {
    workload("Deployment", "api", "api:1", json!({}))
}

fn job() -> Object {
    workload("Job", "m", "m:1", json!({}))
}

#[test]
fn wrong_content_is_refused_in_the_words_of_kubernetes() {
    let web = config_map("web", json!({}));
    let spec = |kind: &str, spec: Value| manifest(kind, "it", json!({"spec": spec}));
    let cases: Vec<(Object, ErrorKind, &str)> = vec![
        (
            with(&web, "/metadata/namespace", json!("nowhere")),
            NamespaceMissing,
            "namespaces \"nowhere\" not found",
        ),
        (
            with(&web, "/metadata/name", json!("Web_1")),
            Invalid,
            "metadata.name: Invalid value: \"Web_1\": a lowercase RFC 1123",
        ),
        (with(&web, "/metadata/name", json!("x".repeat(254))), Invalid, "must be no more than 253 bytes"),
        (
            with(&web, "/metadata/labels", json!({"a": "b c"})),
            Invalid,
            "metadata.labels[a]: Invalid value: \"b c\"",
        ),
        (with(&web, "/spec", json!({})), Invalid, "strict decoding error: unknown field \"spec\""),
        (with(&deployment(), "/sepc", json!({})), Invalid, "strict decoding error: unknown field \"sepc\""),
        (
            spec("Deployment", json!({})),
            Invalid,
            "Deployment.apps \"it\" is invalid: spec.selector: Required value",
        ),
        (
            with(&deployment(), "/spec/selector", json!({"matchLabels": {"app": "other"}})),
            Invalid,
            "`selector` does not match template `labels`",
        ),
        (with(&deployment(), "/spec/replicas", json!(-1)), Invalid, "spec.replicas: Invalid value: -1"),
        (
            with(&deployment(), "/spec/template/spec/containers", json!([])),
            Invalid,
            "spec.template.spec.containers: Required value",
        ),
        (
            with(&deployment(), "/spec/template/spec/containers", json!([{"name": "a"}])),
            Invalid,
            "spec.template.spec.containers[0].image: Required value",
        ),
        (
            with(&deployment(), "/spec/template/spec/restartPolicy", json!("Never")),
            Invalid,
            "Unsupported value: \"Never\"",
        ),
        (
            with(&job(), "/spec/template/spec/restartPolicy", json!("Always")),
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
        (with(&deployment(), "/apiVersion", json!("apps/v1beta1")), UnknownKind, "\"apps/v1beta1\""),
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
    for (object, kind, words) in cases {
        for mode in [SSA, WriteMode::ClientSideApply, REPLACE] {
            assert_refused(&World::new().refused(&object, mode), kind, words);
        }
    }
}

#[test]
fn unknown_fields_pass_where_nobody_asks_for_validation() {
    let mut world = World::new();
    let mut request = super::request(&with(&config_map("web", json!({})), "/spec", json!({"a": 1})), SSA);
    request.validate = false;
    world.state.apply(world.now, request).unwrap();
}

#[test]
fn fixed_fields_cannot_be_changed() {
    let service = manifest("Service", "s", json!({"spec": {"ports": [{"port": 80}]}}));
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "a", "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = manifest("PersistentVolumeClaim", "c", claim);
    let frozen = manifest("ConfigMap", "f", json!({"data": {"a": "1"}, "immutable": true}));
    let set = workload("StatefulSet", "db", "db:1", json!({}));
    let labels = |object: &Object| {
        let changed = with(object, "/spec/template/metadata/labels", json!({"app": "x"}));
        with(&changed, "/spec/selector", json!({"matchLabels": {"app": "x"}}))
    };
    let cases = [
        (
            job(),
            workload("Job", "m", "m:2", json!({})),
            "Job.batch \"m\" is invalid: spec.template: Invalid value:",
        ),
        (deployment(), labels(&deployment()), "spec.selector: Invalid value:"),
        (
            set.clone(),
            with(&set, "/spec/serviceName", json!("x")),
            "updates to spec for fields other than 'replicas', 'ordinals'",
        ),
        (
            service.clone(),
            with(&service, "/spec/clusterIP", json!("10.0.0.1")),
            "spec.clusterIP: Invalid value: \"10.0.0.1\": field is immutable",
        ),
        (claim.clone(), with(&claim, "/spec/storageClassName", json!("b")), "spec: Forbidden"),
        (
            frozen.clone(),
            with(&frozen, "/data", json!({"a": "2"})),
            "field is immutable when `immutable` is set",
        ),
    ];
    for (before, after, words) in cases {
        for mode in [SSA, WriteMode::ClientSideApply, REPLACE] {
            let mut world = World::new();
            world.write(&before, mode).unwrap();
            world.settle();
            assert_refused(&world.refused(&after, mode), Invalid, words);
            world.write(&before, mode).unwrap_or_else(|error| panic!("{before}, written again: {error}"));
        }
    }
}

#[test]
fn preconditions_hold_or_the_write_is_a_conflict() {
    let mut world = World::new();
    let web = world.apply(&config_map("web", json!({"a": "1"})));
    let mut old = config_map("web", json!({"a": "2"}));
    old.metadata_mut().insert("resourceVersion".to_owned(), "1".into());
    assert_refused(&world.refused(&old, REPLACE), Conflict, "the object has been modified");
    old.metadata_mut().insert("resourceVersion".to_owned(), web.resource_version().into());
    world.write(&old, REPLACE).unwrap();
    old.metadata_mut().insert("uid".to_owned(), "somebody-else".into());
    assert_refused(
        &world.refused(&old, SSA),
        Conflict,
        "Precondition failed: UID in precondition: somebody-else",
    );
}

#[test]
fn an_ending_namespace_takes_nothing_new() {
    let mut world = World::new();
    let namespace = object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    world.apply(&namespace);
    let stuck = with(
        &with(&config_map("stuck", json!({})), "/metadata/namespace", json!("shop")),
        "/metadata/finalizers",
        json!(["x.io/y"]),
    );
    world.apply(&stuck);
    world.delete("Namespace", "shop", Propagation::Background).unwrap();
    world.settle();
    let late = with(&config_map("late", json!({})), "/metadata/namespace", json!("shop"));
    let words = "configmaps \"late\" is forbidden: unable to create new content in namespace shop because it is being terminated";
    assert_refused(&world.refused(&late, SSA), NamespaceTerminating, words);
    world.apply(&stuck);
}

#[test]
fn permanent_namespaces_stay() {
    let mut world = World::new();
    for name in ["default", "kube-system"] {
        let error = world.delete("Namespace", name, Propagation::Foreground).unwrap_err();
        assert_refused(&error, Forbidden, "this namespace may not be deleted");
    }
}
