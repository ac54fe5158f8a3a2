use serde_json::json;

use super::*;

fn first_difference(target: &Object, live: &Object) -> Option<String> {
    Comparer::default().first_difference(target, live, &[])
}

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

fn deployment(spec: Value) -> Object {
    object(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}))
}

#[test]
fn server_defaults_are_not_a_difference() {
    let target = deployment(json!({
        "replicas": 2,
        "paused": false,
        "template": {"spec": {"hostNetwork": false, "containers": [
            {"name": "api", "image": "api:1", "env": [{"name": "A", "value": ""}],
             "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}}}],
            "tolerations": [{"key": "a", "operator": "Exists"}], "volumes": []}}
    }));
    let live = deployment(json!({
        "replicas": 2,
        "progressDeadlineSeconds": 600,
        "strategy": {"type": "RollingUpdate"},
        "template": {"spec": {"dnsPolicy": "ClusterFirst", "containers": [
            {"name": "injected", "image": "proxy"},
            {"name": "api", "image": "api:1", "imagePullPolicy": "IfNotPresent", "env": [{"name": "A"}],
             "ports": [{"containerPort": 80, "protocol": "TCP"}],
             "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}],
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]}}
    }));
    assert_eq!(first_difference(&target, &live), None);
}

#[test]
fn differences_are_named() {
    let live = deployment(json!({"replicas": 2, "template": {"spec": {
        "containers": [{"name": "api", "image": "api:1", "env": [{"name": "A", "value": "1000m"}]}],
        "tolerations": [{"key": "a"}, {"key": "b"}]}}}));
    for (spec, path) in [
        (json!({"replicas": 3}), "/spec/replicas"),
        (json!({"minReadySeconds": 5}), "/spec/minReadySeconds"),
        (
            json!({"template": {"spec": {"containers": [{"name": "api", "image": "api:2"}]}}}),
            "/spec/template/spec/containers/0/image",
        ),
        (json!({"template": {"spec": {"containers": [{"name": "b"}]}}}), "/spec/template/spec/containers/0"),
        (
            json!({"template": {"spec": {"containers": [{"name": "api", "env": [{"name": "A", "value": "1"}]}]}}}),
            "/spec/template/spec/containers/0/env/0/value",
        ),
        (json!({"template": {"spec": {"tolerations": [{"key": "a"}]}}}), "/spec/template/spec/tolerations"),
        (json!({"replicas": "2"}), "/spec/replicas"),
    ] {
        assert_eq!(first_difference(&deployment(spec.clone()), &live).as_deref(), Some(path), "{spec}");
    }
}

#[test]
fn custom_kinds_are_compared_literally() {
    let custom = |spec: Value| {
        object(
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}),
        )
    };
    assert_eq!(
        first_difference(&custom(json!({"on": true})), &custom(json!({"on": true, "extra": 1}))),
        None
    );
    for (target, live) in [
        (json!({"on": false}), json!({})),
        (json!({"limits": {"cpu": "1000m"}}), json!({"limits": {"cpu": "1"}})),
        (json!({"containers": [{"name": "a"}]}), json!({"containers": [{"name": "b"}, {"name": "a"}]})),
    ] {
        assert!(first_difference(&custom(target.clone()), &custom(live)).is_some(), "{target}");
    }
}

#[test]
fn metadata_is_compared_by_entry() {
    let map = |metadata: Value| {
        let mut object = object(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}),
        );
        for (name, value) in metadata.as_object().unwrap() {
            object.metadata_mut().insert(name.clone(), value.clone());
        }
        object
    };
    let live = map(json!({"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y"], "uid": "u"}));
    for (metadata, path) in [
        (json!({}), None),
        (json!({"labels": {"a": "1"}, "finalizers": ["y"]}), None),
        (json!({"labels": {"a": "2"}}), Some("/metadata/labels/a")),
        (json!({"annotations": {"tidegate.dev/operation-id": "x"}}), None),
        (json!({"annotations": {"z": "1"}}), Some("/metadata/annotations/z")),
        (json!({"finalizers": ["z"]}), Some("/metadata/finalizers")),
    ] {
        assert_eq!(first_difference(&map(metadata.clone()), &live).as_deref(), path, "{metadata}");
    }
}

#[test]
fn secrets_and_aggregated_roles() {
    let secret = |fields: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object(secret)
    };
    let live = secret(json!({"type": "Opaque", "data": {"p": "aGVsbG8="}}));
    assert_eq!(first_difference(&secret(json!({"stringData": {"p": "hello"}})), &live), None);
    assert_eq!(
        first_difference(&secret(json!({"stringData": {"p": "bye"}})), &live).as_deref(),
        Some("/data/p")
    );
    let role = |rules: Value| {
        object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "a"}, "aggregationRule": {}, "rules": rules}))
    };
    assert_eq!(first_difference(&role(json!([])), &role(json!([{"verbs": ["get"]}]))), None);
}

#[test]
fn other_versions_cannot_be_compared() {
    let autoscaler = |version: &str| {
        object(json!({"apiVersion": version, "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}}))
    };
    assert!(first_difference(&autoscaler("autoscaling/v1"), &autoscaler("autoscaling/v2")).is_some());
}

fn comparer(entries: Value) -> Comparer {
    let (comparer, errors) =
        Comparer::new(&serde_json::from_value::<Vec<_>>(entries).unwrap(), &Tracking::default());
    assert_eq!(errors, []);
    comparer
}

/// Returns a live Deployment in which Tidegate owns the given fields.
fn owned_deployment(spec: Value, fields: Value) -> Object {
    let mut live = deployment(spec);
    let entry = json!({"manager": "tidegate", "operation": "Apply", "fieldsV1": {"f:spec": fields}});
    live.metadata_mut().insert("managedFields".to_owned(), json!([entry]));
    live
}

fn changed_fields(difference: &Difference) -> Vec<(&str, Value, Value)> {
    let side = |value: &Option<Value>| value.clone().unwrap_or_default();
    difference.changes.iter().map(|c| (c.path.as_str(), side(&c.before), side(&c.after))).collect()
}

#[test]
fn a_local_difference_is_certain() {
    // A value that is zero, false or empty can differ from an absent field. Only the server knows these
    // fields.
    let live = deployment(json!({"template": {"spec": {"containers": [{"name": "a"}]}}}));
    for (spec, same) in [
        (json!({"paused": false, "template": {"spec": {"hostNetwork": false}}}), true),
        (json!({"template": {"spec": {"automountServiceAccountToken": false}}}), false),
        (json!({"template": {"spec": {"securityContext": {}}}}), false),
        (json!({"replicas": 0}), false),
        (json!({"template": {"spec": {"tolerations": []}}}), true),
    ] {
        assert_eq!(first_difference(&deployment(spec.clone()), &live).is_none(), same, "{spec}");
    }
}

#[test]
fn the_server_prediction_counts() {
    let live = owned_deployment(
        json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "api", "image": "api:1",
            "resources": {"limits": {"cpu": "1"}}}, {"name": "old", "image": "old:1"}]}}}),
        json!({"f:replicas": {}, "f:template": {"f:spec": {"f:containers": {
            "k:{\"name\":\"api\"}": {".": {}, "f:name": {}, "f:image": {}, "f:resources": {}},
            "k:{\"name\":\"old\"}": {".": {}, "f:name": {}, "f:image": {}}}}}}),
    );
    let mut predicted = live.clone();
    *predicted.fields_mut().get_mut("spec").unwrap() = json!({"replicas": 2,
        "template": {"spec": {"containers": [{"name": "api", "image": "api:2",
            "resources": {"limits": {"cpu": "1000m"}}}]}}});
    predicted.metadata_mut().insert("resourceVersion".to_owned(), json!("9"));
    predicted.fields_mut().insert("status".to_owned(), json!({"replicas": 7}));
    let difference = Comparer::default().predicted_difference(&live, &live, &predicted, true, None);
    assert_eq!(
        changed_fields(&difference),
        [
            ("/spec/template/spec/containers/1", json!({"name": "old", "image": "old:1"}), Value::Null),
            ("/spec/template/spec/containers/0/image", json!("api:1"), json!("api:2")),
        ]
    );
    assert!(difference.before.pointer("/metadata/managedFields").is_none());
}

/// Servers accept two environment variables with the same name in a container.
#[test]
fn items_with_the_same_keys_are_compared_in_their_order() {
    let with =
        |env: &Value| deployment(json!({"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}));
    let predicted = |before: &Value, after: &Value| {
        let difference =
            Comparer::default().predicted_difference(&with(after), &with(before), &with(after), false, None);
        let path = |change: &Change| change.path.replace("/spec/template/spec/containers/0/env", "");
        difference.changes.iter().map(path).collect::<Vec<_>>()
    };
    let twice = json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]);
    for (before, after, paths) in [
        (twice.clone(), twice.clone(), vec![]),
        (json!([{"name": "A"}, {"oame": "B"}]), json!([{"name": "A"}, {"oame": "B"}]), vec![]),
        (json!([{"oame": "B"}, {"name": "A"}]), json!([{"oame": "B"}, {"name": "A"}]), vec![]),
        (twice.clone(), json!([{"name": "A", "value": "1"}, {"name": "B"}]), vec!["/2"]),
        (json!([{"name": "A", "value": "1"}, {"name": "B"}]), twice.clone(), vec!["/2"]),
        (
            twice,
            json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "3"}]),
            vec!["/2/value"],
        ),
    ] {
        assert_eq!(predicted(&before, &after), paths, "{before} {after}");
    }
}

/// An apply takes over the fields of kubectl's client-side apply, so it removes those that are gone from the
/// manifest.
#[test]
fn unwanted_fields_that_are_taken_over_are_removed() {
    let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
    let (kubectl, ours) = ("kubectl-client-side-apply", annotations::FIELD_MANAGER);
    let managers = [kubectl.to_owned()];
    let containers = |more: Value| json!({"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}, "k:{\"name\":\"b\"}": more}});
    let object = |entries: Vec<Value>| {
        Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "labels": {"x": "1", "y": "1", "z": "1"}, "managedFields": entries},
            "spec": {"paused": true, "template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "b"}]}}}}))
        .unwrap()
    };
    let theirs = json!({
        "f:metadata": {"f:labels": {".": {}, "f:x": {}, "f:y": {}}},
        "f:spec": {"f:paused": {}, "f:template": {"f:spec": containers(json!({".": {}, "f:name": {}, "f:image": {}}))}},
    });
    let wanted = json!({"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:template": {"f:spec": {"f:containers":
        {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}}}});
    let somebody = json!({"f:metadata": {"f:labels": {"f:z": {}}}, "f:spec": {"f:paused": {}}});
    let live =
        object(vec![entry(kubectl, "Update", theirs.clone()), entry("ui", "Update", somebody.clone())]);
    let predicted = object(vec![
        entry(ours, "Apply", wanted),
        entry(kubectl, "Update", theirs),
        entry("ui", "Update", somebody),
    ]);
    let target = Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}))
    .unwrap();
    let comparer = Comparer::default();
    assert_eq!(comparer.first_difference(&target, &live, &[]), None);
    assert_eq!(comparer.first_difference(&target, &live, &managers).as_deref(), Some("/metadata/labels/y"));
    assert_eq!(changed_fields(&comparer.predicted_difference(&target, &live, &predicted, true, None)), []);
    assert_eq!(
        changed_fields(&comparer.predicted_difference(
            &target,
            &live,
            &predicted,
            true,
            Some(TakenOverFields { managers: &managers, prediction_without_live: None })
        )),
        [
            ("/metadata/labels/y", json!("1"), Value::Null),
            ("/spec/template/spec/containers/1", json!({"name": "b", "image": "b"}), Value::Null),
        ]
    );
}

/// Fields that the service writes to an Application are never taken over, so they are never differences,
/// whatever their owner.
#[test]
fn fields_that_the_service_writes_are_not_a_difference() {
    let post_delete = "post-delete-finalizer.argocd.argoproj.io";
    let object = |manager: &str, operation: &str| {
        let entry = json!({"manager": manager, "operation": operation, "fieldsV1": {
            "f:metadata": {"f:finalizers": {".": {}, (format!("v:\"{post_delete}\"")): {}}},
            "f:operation": {"f:sync": {}}, "f:status": {"f:health": {}}, "f:spec": {"f:project": {}},
        }});
        Object::try_from(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a", "finalizers": [post_delete], "managedFields": [entry]},
            "operation": {"sync": {}}, "spec": {"project": "default"}, "status": {"health": {}}}))
        .unwrap()
    };
    let target = |spec: Value| {
        let target = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a"}, "spec": spec});
        Object::try_from(target).unwrap()
    };
    let (comparer, whole) = (Comparer::default(), target(json!({"project": "default"})));
    for manager in ["tidegate", "tidegate-serve", "kubectl-client-side-apply"] {
        let live = object(manager, "Update");
        let managers = [manager.to_owned()];
        assert_eq!(comparer.first_difference(&whole, &live, &managers), None, "{manager}");
        let mut predicted = live.clone();
        let ours =
            json!({"manager": "tidegate", "operation": "Apply", "fieldsV1": {"f:spec": {"f:project": {}}}});
        predicted.metadata_mut()["managedFields"].as_array_mut().unwrap().push(ours);
        let taken = Some(TakenOverFields { managers: &managers, prediction_without_live: None });
        assert_eq!(
            changed_fields(&comparer.predicted_difference(&whole, &live, &predicted, true, taken)),
            [],
            "{manager}"
        );
        assert_eq!(changed_fields(&comparer.estimated_difference(&whole, &live, &managers)), [], "{manager}");
        // Fields that users write are differences.
        let found = comparer.first_difference(&target(json!({})), &live, &managers);
        assert_eq!(found.as_deref(), Some("/spec/project"), "{manager}");
    }
}

/// The last-applied manifest of client-side apply shows which fields came from a manifest. With server-side
/// apply, all fields came from a manifest.
#[test]
fn last_applied_distinguishes_defaults_from_manifest_fields() {
    let note = |given: Value| {
        let given =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": given});
        given.to_string()
    };
    let argo_cd = "argocd-controller";
    let owned = json!({"f:spec": {"f:replicas": {}, "f:paused": {}, "f:template": {"f:spec": {"f:dnsPolicy": {},
        "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}, "f:imagePullPolicy": {},
            "f:env": {".": {}, "k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}}}}}}}});
    let container = |env: Value| json!({"name": "a", "imagePullPolicy": "Always", "env": env});
    let object = |operation: &str, noted: Option<Value>, more: &[Value]| {
        let entry = json!({"manager": argo_cd, "operation": operation, "fieldsV1": owned});
        let entries = [&[entry], more].concat();
        let mut object = object(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "managedFields": entries},
            "spec": {"replicas": 1, "paused": true, "template": {"spec": {"dnsPolicy": "ClusterFirst",
                "containers": [container(json!([{"name": "X", "value": "1"}]))]}}}}));
        if let Some(noted) = noted {
            object.set_annotation(annotations::LAST_APPLIED, note(noted));
        }
        object
    };
    let pod = |env: Value| json!({"spec": {"containers": [{"name": "a", "env": env}]}});
    let (with, without) =
        (pod(json!([{"name": "X", "value": "1"}])), json!({"spec": {"containers": [{"name": "a"}]}}));
    let target = deployment(json!({"template": without}));
    let given = deployment(json!({"template": with}));
    let env = "/spec/template/spec/containers/0/env";
    let ours = json!({"manager": annotations::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:template":
        {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}}}}}}}});
    let managers = [argo_cd.to_owned()];
    let comparer = Comparer::default();
    let predicted = |noted: Option<Value>, operation: &str| {
        let (live, after) =
            (object(operation, noted.clone(), &[]), object(operation, noted, std::slice::from_ref(&ours)));
        let taken = Some(TakenOverFields { managers: &managers, prediction_without_live: None });
        let changes = comparer.predicted_difference(&target, &live, &after, true, taken).changes;
        changes.into_iter().map(|change| change.path).collect::<Vec<_>>()
    };

    let noted = Some(json!({"template": with}));
    let live = object("Update", noted.clone(), &[]);
    assert!(Comparer::can_tell_taken_over(&live, &managers));
    assert_eq!(comparer.first_difference(&given, &live, &managers), None, "defaults are not a difference");
    assert_eq!(comparer.first_difference(&target, &live, &managers).as_deref(), Some(env));
    assert_eq!(predicted(noted, "Update"), [env]);
    // Without the last-applied manifest, server defaults can't be distinguished from other fields.
    let live = object("Update", None, &[]);
    assert!(!Comparer::can_tell_taken_over(&live, &managers));
    assert!(comparer.first_difference(&given, &live, &managers).is_some());
    // A server-side apply records only the fields in its manifest.
    let live = object("Apply", None, &[]);
    assert!(Comparer::can_tell_taken_over(&live, &managers));
    assert!(comparer.first_difference(&given, &live, &managers).is_some(), "replicas were given");
    assert!(predicted(None, "Apply").contains(&"/spec/replicas".to_owned()));
}

/// A client that creates an object by an update also owns the server defaults. A takeover removes them, and
/// the server adds them again.
#[test]
fn fields_that_the_server_sets_again_are_not_removed() {
    let object = |spec: Value, owned: Value| {
        Object::try_from(json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "managedFields": owned}, "spec": spec}))
        .unwrap()
    };
    let kubectl = "kubectl-client-side-apply";
    let theirs = json!([{"manager": kubectl, "operation": "Update", "fieldsV1": {"f:spec": {
        "f:replicas": {}, "f:paused": {}, "f:template": {"f:spec": {"f:dnsPolicy": {},
            "f:containers": {"k:{\"name\":\"b\"}": {".": {}, "f:imagePullPolicy": {}}}}}}}}]);
    let container = |name: &str| json!({"name": name, "imagePullPolicy": "Always"});
    let filled = |containers: Value| json!({"spec": {"dnsPolicy": "ClusterFirst", "containers": containers}});
    let ours = json!({"manager": annotations::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {
        "f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:name": {}},
            "k:{\"name\":\"b\"}": {".": {}, "f:name": {}}}}}}}});
    let both = json!([theirs[0], ours]);
    let live = object(
        json!({"replicas": 3, "paused": true, "template": filled(json!([container("a"), container("b")]))}),
        theirs,
    );
    let target =
        object(json!({"template": {"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}}), json!([]));
    let predicted = object(live.as_value()["spec"].clone(), both);
    // Without the live object, the containers are in the target's order.
    let anew = object(
        json!({"replicas": 1, "template": filled(json!([container("b"), container("a")]))}),
        json!([]),
    );
    let judged = |anew| {
        let taken = TakenOverFields { managers: &[kubectl.to_owned()], prediction_without_live: anew };
        let difference =
            Comparer::default().predicted_difference(&target, &live, &predicted, true, Some(taken));
        difference.changes.into_iter().map(|change| (change.path, change.after)).collect::<Vec<_>>()
    };
    let mut known = judged(Some(&anew));
    known.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(known, [("/spec/paused".to_owned(), None), ("/spec/replicas".to_owned(), Some(json!(1)))]);
    assert_eq!(judged(None).len(), 4, "replicas, paused, dnsPolicy and the pull policy of b");
}

#[test]
fn changes_by_webhooks_count_only_if_requested() {
    let live = owned_deployment(json!({"replicas": 1}), json!({"f:replicas": {}}));
    let mut predicted = live.clone();
    let spec = predicted.section_mut("spec");
    spec.insert("injected".to_owned(), json!(true));
    spec.insert("replicas".to_owned(), json!(1));
    let same = Comparer::default().predicted_difference(&live, &live, &predicted, true, None);
    assert_eq!(changed_fields(&same), []);
    assert_eq!(same.before, same.after);
    let mut asks = live.clone();
    asks.set_annotation(annotations::COMPARE_OPTIONS, "ServerSideDiff=true, IncludeMutationWebhook=true");
    let difference = Comparer::default().predicted_difference(&asks, &live, &predicted, true, None);
    assert_eq!(changed_fields(&difference), [("/spec/injected", Value::Null, json!(true))]);
    assert_eq!(server_side_diff(&asks, &live), Some(true));
    assert_eq!(server_side_diff(&live, &live), None);
}

#[test]
fn ignored_fields_count_in_neither_comparison() {
    let target = deployment(json!({"replicas": 3, "template": {"spec": {"containers": [
        {"name": "api", "image": "api:1"}, {"name": "proxy", "image": "proxy:2"}]}}}));
    let live = owned_deployment(
        json!({"replicas": 7, "paused": true, "template": {"spec": {"containers": [
            {"name": "proxy", "image": "proxy:1"}, {"name": "api", "image": "api:1"}]}}}),
        json!({"f:paused": {}}),
    );
    let rule = |fields: Value| {
        let mut rule = json!({"group": "apps", "kind": "Deployment"});
        rule.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        rule
    };
    let proxy = ".spec.template.spec.containers[] | select(.name == \"proxy\")";
    for (entries, first) in [
        (json!([]), Some("/spec/replicas")),
        (
            json!([rule(json!({"jsonPointers": ["/spec/replicas"]}))]),
            Some("/spec/template/spec/containers/1/image"),
        ),
        (
            json!([rule(json!({"jsonPointers": ["/spec/replicas"], "jqPathExpressions": [proxy]}))]),
            Some("/spec/paused"),
        ),
        (
            json!([rule(
                json!({"jsonPointers": ["/spec/replicas", "/spec/paused"], "jqPathExpressions": [proxy]})
            )]),
            None,
        ),
        (json!([rule(json!({"jsonPointers": ["/spec"]}))]), None),
        (
            json!([{"kind": "StatefulSet", "group": "apps", "jsonPointers": ["/spec"]}]),
            Some("/spec/replicas"),
        ),
    ] {
        let comparer = comparer(entries.clone());
        assert_eq!(comparer.first_difference(&target, &live, &[]).as_deref(), first, "{entries}");
        let mut predicted = target.clone();
        predicted.section_mut("spec").remove("paused");
        let changes = comparer.predicted_difference(&target, &live, &predicted, false, None).changes;
        assert_eq!(changes.is_empty(), first.is_none(), "{entries}: {changes:?}");
    }
}

#[test]
fn fields_of_trusted_managers_do_not_count() {
    let mut live = deployment(json!({"replicas": 7, "paused": true}));
    let entry =
        json!({"manager": "autoscaler", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}});
    live.metadata_mut().insert("managedFields".to_owned(), json!([entry]));
    let trusting = comparer(json!([{"group": "*", "kind": "*", "managedFieldsManagers": ["autoscaler"]}]));
    let target = |replicas: i64, paused: bool| deployment(json!({"replicas": replicas, "paused": paused}));
    assert_eq!(trusting.first_difference(&target(3, true), &live, &[]), None);
    assert_eq!(trusting.first_difference(&target(3, false), &live, &[]).as_deref(), Some("/spec/paused"));
    assert!(trusting.predicted_difference(&live, &live, &target(3, true), false, None).changes.is_empty());
}

#[test]
fn ignored_fields_of_the_live_object_are_preserved() {
    let respecting = comparer(json!([{"group": "apps", "kind": "Deployment",
        "jsonPointers": ["/spec/replicas", "/spec/paused", "/spec/minReadySeconds", "/metadata/name", "/metadata/labels/l"],
        "jqPathExpressions": [".spec.template.spec.containers[] | select(.name == \"proxy\")"]}]));
    let mut target =
        deployment(json!({"replicas": 3, "minReadySeconds": 5, "template": {"spec": {"containers": [
        {"name": "api", "image": "api:2"}]}}}));
    let mut live = deployment(json!({"replicas": 7, "paused": true, "template": {"spec": {"containers": [
        {"name": "proxy", "image": "proxy:1"}, {"name": "api", "image": "api:1"}]}}}));
    live.metadata_mut().insert("labels".to_owned(), json!({"l": "1", "other": "2"}));
    respecting.preserve_ignored(&mut target, &live);
    assert_eq!(
        target.as_value(),
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "labels": {"l": "1"}},
            "spec": {"replicas": 7, "paused": true, "template": {"spec": {"containers": [
                {"name": "api", "image": "api:2"}, {"name": "proxy", "image": "proxy:1"}]}}}})
    );
}

#[test]
fn values_of_secrets_are_never_shown() {
    const CANARY: &str = "Y2FuYXJ5";
    let secret = |fields: Value| {
        let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        secret.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object(secret)
    };
    let mut live = secret(json!({"data": {"p": CANARY, "q": CANARY}}));
    live.set_annotation("kubectl.kubernetes.io/last-applied-configuration", CANARY);
    let target = secret(json!({"data": {"p": "b3RoZXI=", "q": CANARY}}));
    for difference in [
        Comparer::default().predicted_difference(&target, &live, &target, true, None),
        Comparer::default().estimated_difference(&target, &live, &[]),
    ] {
        assert_eq!(changed_fields(&difference), [("/data/p", json!("++++++++"), json!("+++++++++"))]);
        assert!(!format!("{difference:?}").contains(CANARY));
    }
    assert!(!format!("{:?}", Difference::one_sided(Some(&live), None)).contains(CANARY));
    assert!(
        !format!("{:?}", Difference::one_sided(None, Some(&secret(json!({"stringData": {"p": CANARY}})))))
            .contains(CANARY)
    );
}

#[test]
fn an_estimate_changes_the_fields_of_the_target() {
    let target = deployment(
        json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "api", "image": "api:2"}]}}}),
    );
    let live = owned_deployment(
        json!({"replicas": 3, "paused": true, "template": {"spec": {"containers": [
            {"name": "proxy", "image": "p"}, {"name": "api", "image": "api:1"}]}}}),
        json!({"f:paused": {}}),
    );
    assert_eq!(
        changed_fields(&Comparer::default().estimated_difference(&target, &live, &[])),
        [
            ("/spec/paused", json!(true), Value::Null),
            ("/spec/template/spec/containers/1/image", json!("api:1"), json!("api:2")),
        ]
    );
}

#[test]
fn objects_tracked_by_label_need_no_annotation() {
    let target = |tracked: bool| {
        let mut object = deployment(json!({"replicas": 1}));
        if tracked {
            object.set_annotation(annotations::TRACKING_ID, "shop:apps/Deployment:shop/a");
        }
        object
    };
    let mut live = target(false);
    assert_eq!(
        first_difference(&target(true), &live).as_deref(),
        Some("/metadata/annotations/argocd.argoproj.io~1tracking-id")
    );
    live.metadata_mut().insert("labels".to_owned(), json!({"app.kubernetes.io/instance": "shop"}));
    let mut predicted = target(true);
    predicted.metadata_mut().insert("labels".to_owned(), json!({"app.kubernetes.io/instance": "shop"}));
    assert_eq!(first_difference(&target(true), &live), None);
    assert_eq!(
        changed_fields(&Comparer::default().predicted_difference(
            &target(true),
            &live,
            &predicted,
            false,
            None
        )),
        []
    );
}
