//! Well-known pitfalls, one per row.

use serde_json::{Value, json};
use tidegate_model::{Gvk, Object};

use super::applier::apply_patch;
use crate::patch::{JSON_MERGE, PatchError, STRATEGIC, three_way_patch};

struct Case {
    /// Description for failures.
    name: &'static str,
    gvk: (&'static str, &'static str, &'static str),
    /// `spec` in the last manifest, in the new manifest, and in the live object.
    original: Value,
    modified: Value,
    current: Value,
    /// `spec` in the patch, and in the object after the patch.
    patch: Value,
    result: Value,
}

const DEPLOYMENT: (&str, &str, &str) = ("apps", "v1", "Deployment");
const SERVICE: (&str, &str, &str) = ("", "v1", "Service");
const POD: (&str, &str, &str) = ("", "v1", "Pod");

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "a port is removed; what was defaulted stays",
            gvk: SERVICE,
            original: json!({"ports": [{"port": 80}, {"port": 443}]}),
            modified: json!({"ports": [{"port": 80}]}),
            current: json!({"clusterIP": "10.0.0.1", "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 443, "protocol": "TCP", "targetPort": 443}]}),
            patch: json!({"$setElementOrder/ports": [{"port": 80}], "ports": [{"$patch": "delete", "port": 443}]}),
            result: json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}),
        },
        Case {
            name: "one number for TCP and UDP: the server would mix them up, so the list is sent as a whole",
            gvk: SERVICE,
            original: json!({"ports": [{"name": "dns", "port": 53, "protocol": "UDP"}]}),
            modified: json!({"ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}]}),
            current: json!({"ports": [
                {"name": "dns", "nodePort": 30053, "port": 53, "protocol": "UDP"}, {"name": "metrics", "port": 9153}]}),
            patch: json!({"ports": [{"$patch": "replace"},
                {"name": "dns", "nodePort": 30053, "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53},
                {"name": "metrics", "port": 9153}]}),
            result: json!({"ports": [
                {"name": "dns", "nodePort": 30053, "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53},
                {"name": "metrics", "port": 9153}]}),
        },
        Case {
            name: "an environment variable is removed; one that another added stays",
            gvk: POD,
            original: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y",
                "value": "2"}]}]}),
            modified: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            current: json!({"containers": [{"name": "a", "env": [
                {"name": "X", "value": "1"}, {"name": "INJECTED", "value": "z"}, {"name": "Y", "value": "2"}]}]}),
            patch: json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a",
                "$setElementOrder/env": [{"name": "X"}], "env": [{"$patch": "delete", "name": "Y"}]}]}),
            result: json!({"containers": [{"name": "a", "env": [
                {"name": "X", "value": "1"}, {"name": "INJECTED", "value": "z"}]}]}),
        },
        Case {
            name: "a variable's value becomes a reference: both at once would be refused",
            gvk: POD,
            original: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            modified: json!({"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": {"fieldRef":
                {"fieldPath": "spec.nodeName"}}}]}]}),
            current: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            patch: json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a",
                "$setElementOrder/env": [{"name": "X"}],
                "env": [{"name": "X", "value": null, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]}),
            result: json!({"containers": [{"name": "a", "env": [{"name": "X", "valueFrom": {"fieldRef":
                {"fieldPath": "spec.nodeName"}}}]}]}),
        },
        Case {
            name: "a variable there twice is legal, and the last one counts",
            gvk: POD,
            original: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            modified: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "X",
                "value": "2"}]}]}),
            current: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}),
            patch: json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a", "env": [
                {"$patch": "replace"}, {"name": "X", "value": "1"}, {"name": "X", "value": "2"}]}]}),
            result: json!({"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "X",
                "value": "2"}]}]}),
        },
        Case {
            name: "a container is removed; an injected sidecar stays",
            gvk: POD,
            original: json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}),
            modified: json!({"containers": [{"name": "a", "image": "a:2"}]}),
            current: json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"},
                {"name": "proxy", "image": "p"}]}),
            patch: json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [
                {"image": "a:2", "name": "a"}, {"$patch": "delete", "name": "b"}]}),
            result: json!({"containers": [{"name": "a", "image": "a:2"}, {"name": "proxy", "image": "p"}]}),
        },
        Case {
            name: "from RollingUpdate to Recreate: the defaulted rollingUpdate must go",
            gvk: DEPLOYMENT,
            original: json!({"replicas": 2}),
            modified: json!({"replicas": 2, "strategy": {"type": "Recreate"}}),
            current: json!({"replicas": 2, "strategy": {"type": "RollingUpdate", "rollingUpdate":
                {"maxSurge": "25%"}}}),
            patch: json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            result: json!({"replicas": 2, "strategy": {"type": "Recreate"}}),
        },
        Case {
            name: "a defaulted field without an owner stays",
            gvk: DEPLOYMENT,
            original: json!({"strategy": {"type": "RollingUpdate"}}),
            modified: json!({"strategy": {"type": "RollingUpdate"}, "replicas": 3}),
            current: json!({"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate":
                {"maxSurge": "25%"}}}),
            patch: json!({"replicas": 3}),
            result: json!({"replicas": 3, "strategy": {"type": "RollingUpdate", "rollingUpdate":
                {"maxSurge": "25%"}}}),
        },
        Case {
            name: "replicas leave the manifest: they are deleted, and the server's default counts",
            gvk: DEPLOYMENT,
            original: json!({"replicas": 2, "paused": false}),
            modified: json!({"paused": false}),
            current: json!({"replicas": 7, "paused": false}),
            patch: json!({"replicas": null}),
            result: json!({"paused": false}),
        },
        Case {
            name: "replicas were never in the manifest: the autoscaler's stay",
            gvk: DEPLOYMENT,
            original: json!({"paused": false}),
            modified: json!({"paused": true}),
            current: json!({"replicas": 7, "paused": false}),
            patch: json!({"paused": true}),
            result: json!({"replicas": 7, "paused": true}),
        },
        Case {
            name: "a volume gets another source: the old one must go, though only the server wrote its defaults",
            gvk: POD,
            original: json!({"volumes": [{"name": "v", "configMap": {"name": "c"}}]}),
            modified: json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
            current: json!({"volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 420}}]}),
            patch: json!({"$setElementOrder/volumes": [{"name": "v"}], "volumes": [
                {"$retainKeys": ["name", "secret"], "configMap": null, "name": "v", "secret": {"secretName": "s"}}]}),
            result: json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}),
        },
        Case {
            name: "a volume loses its source: an empty directory is the default",
            gvk: POD,
            original: json!({"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}),
            modified: json!({"volumes": [{"name": "v"}]}),
            current: json!({"volumes": [{"name": "v", "hostPath": {"path": "/x", "type": ""}}]}),
            patch: json!({"$setElementOrder/volumes": [{"name": "v"}], "volumes": [
                {"$retainKeys": ["name"], "hostPath": null, "name": "v"}]}),
            result: json!({"volumes": [{"name": "v"}]}),
        },
        Case {
            name: "the order of init containers counts",
            gvk: POD,
            original: json!({"initContainers": [{"name": "a"}, {"name": "b"}]}),
            modified: json!({"initContainers": [{"name": "b"}, {"name": "a"}]}),
            current: json!({"initContainers": [{"name": "a"}, {"name": "b"}]}),
            patch: json!({"$setElementOrder/initContainers": [{"name": "b"}, {"name": "a"}]}),
            result: json!({"initContainers": [{"name": "b"}, {"name": "a"}]}),
        },
        Case {
            name: "items of other owners between ours do not change the order",
            gvk: POD,
            original: json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            modified: json!({"containers": [{"name": "a"}, {"name": "b"}], "hostname": "h"}),
            current: json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}]}),
            patch: json!({"hostname": "h"}),
            result: json!({"containers": [{"name": "a"}, {"name": "x"}, {"name": "b"}], "hostname": "h"}),
        },
        Case {
            name: "arguments are one value",
            gvk: POD,
            original: json!({"containers": [{"name": "a", "args": ["-v"]}]}),
            modified: json!({"containers": [{"name": "a", "args": ["-v", "-q"]}]}),
            current: json!({"containers": [{"name": "a", "args": ["-v", "--theirs"]}]}),
            patch: json!({"$setElementOrder/containers": [{"name": "a"}], "containers": [{"args": ["-v", "-q"],
                "name": "a"}]}),
            result: json!({"containers": [{"name": "a", "args": ["-v", "-q"]}]}),
        },
        Case {
            name: "a pull secret without a name does not stop the rest",
            gvk: POD,
            original: json!({"imagePullSecrets": [{"name": "a"}]}),
            modified: json!({"imagePullSecrets": [{}, {"name": "b"}]}),
            current: json!({"imagePullSecrets": [{"name": "a"}, {"name": "theirs"}]}),
            patch: json!({"imagePullSecrets": [{"$patch": "replace"}, {}, {"name": "b"}, {"name": "theirs"}]}),
            result: json!({"imagePullSecrets": [{}, {"name": "b"}, {"name": "theirs"}]}),
        },
        Case {
            name: "a disruption budget's selector is one value",
            gvk: ("policy", "v1", "PodDisruptionBudget"),
            original: json!({"selector": {"matchLabels": {"a": "1", "b": "2"}}}),
            modified: json!({"selector": {"matchLabels": {"a": "1"}}}),
            current: json!({"selector": {"matchLabels": {"a": "1", "b": "2"}}}),
            patch: json!({"selector": {"matchLabels": {"a": "1"}}}),
            result: json!({"selector": {"matchLabels": {"a": "1"}}}),
        },
        Case {
            name: "explicit nulls: one is a deletion, one has nothing to delete",
            gvk: DEPLOYMENT,
            original: json!({}),
            modified: json!({"replicas": null, "paused": null, "template": {"spec": {"nodeName": null}}}),
            current: json!({"replicas": 2}),
            patch: json!({"replicas": null, "template": {"spec": {}}}),
            result: json!({"template": {"spec": {}}}),
        },
        Case {
            name: "a custom resource's list is one value, and its maps merge",
            gvk: ("example.org", "v1", "Deployment"),
            original: json!({"containers": [{"name": "a"}], "keep": {"x": 1, "y": 2}}),
            modified: json!({"containers": [{"name": "b"}], "keep": {"x": 1}, "unset": null}),
            current: json!({"containers": [{"name": "a"}, {"name": "theirs"}], "keep": {"x": 5, "y": 2,
                "z": 3}, "unset": 4}),
            patch: json!({"containers": [{"name": "b"}], "keep": {"x": 1, "y": null}}),
            result: json!({"containers": [{"name": "b"}], "keep": {"x": 1, "z": 3}, "unset": 4}),
        },
    ]
}

fn object(gvk: &Gvk, spec: &Value) -> Value {
    json!({"apiVersion": gvk.api_version(), "kind": gvk.kind, "metadata": {"name": "x"}, "spec": spec})
}

#[test]
fn patches_and_their_results_are_as_expected() {
    for case in cases() {
        let gvk = Gvk::new(case.gvk.0, case.gvk.1, case.gvk.2);
        let [original, modified, current] =
            [&case.original, &case.modified, &case.current].map(|s| object(&gvk, s));
        let patch = three_way_patch(&gvk, Some(&original), &modified, &current).unwrap().expect(case.name);
        assert_eq!(patch.body["spec"], case.patch, "{}", case.name);
        assert_eq!(
            patch.content_type,
            if gvk.group == "example.org" { JSON_MERGE } else { STRATEGIC },
            "{}",
            case.name
        );
        let result = apply_patch(&current, &patch, &gvk);
        assert_eq!(result["spec"], case.result, "{}", case.name);
        let again = three_way_patch(&gvk, Some(&modified), &modified, &result).unwrap();
        assert_eq!(again, None, "the patch is not empty: {}", case.name);
    }
}

#[test]
fn finalizers_are_a_set() {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let object = |finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x",
        "finalizers": finalizers}})
    };
    let current = object(json!(["theirs", "old", "kept"]));
    let patch = three_way_patch(
        &gvk,
        Some(&object(json!(["old", "kept"]))),
        &object(json!(["kept", "new"])),
        &current,
    );
    let patch = patch.unwrap().unwrap();
    assert_eq!(
        patch.body,
        json!({"metadata": {
            "$deleteFromPrimitiveList/finalizers": ["old"],
            "$setElementOrder/finalizers": ["kept", "new"],
            "finalizers": ["new"],
        }})
    );
    assert_eq!(
        apply_patch(&current, &patch, &gvk)["metadata"]["finalizers"],
        json!(["theirs", "kept", "new"])
    );
}

#[test]
fn a_list_with_values_of_others_is_restricted_to_one_version() {
    let gvk = Gvk::new("", "v1", "Service");
    let object = |ports: Value, version: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata":
        {"name": "x", "resourceVersion": version}, "spec": {"ports": ports}})
    };
    let mut modified = object(json!([{"port": 53}, {"port": 53, "protocol": "UDP"}]), "");
    modified["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let patch =
        three_way_patch(&gvk, None, &modified, &object(json!([{"port": 53}]), "42")).unwrap().unwrap();
    assert_eq!(patch.body["metadata"], json!({"resourceVersion": "42"}));
}

#[test]
fn without_the_last_manifest_nothing_is_deleted() {
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let object = |data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},
        "data": data})
    };
    let current = object(json!({"a": "1", "b": "2"}));
    let patch = three_way_patch(&gvk, None, &object(json!({"a": "3"})), &current).unwrap().unwrap();
    assert_eq!(patch.body, json!({"data": {"a": "3"}}));
    assert_eq!(three_way_patch(&gvk, None, &object(json!({"a": "1"})), &current).unwrap(), None);
}

#[test]
fn an_invalid_patch_is_refused_with_a_reason() {
    let map = |name: &str, data: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
        {"name": name}, "data": data})
    };
    let gvk = Gvk::new("", "v1", "ConfigMap");
    let error = |modified: &Value, current: &Value| {
        three_way_patch(&gvk, None, modified, current).unwrap_err().to_string()
    };
    assert_eq!(
        error(&map("a", json!({})), &map("b", json!({}))),
        "a patch cannot change metadata.name from \"b\" to \"a\": delete the object first, or use another name"
    );
    assert_eq!(
        error(&map("a", json!({"x": [{"$patch": "delete"}]})), &map("a", json!({}))),
        "/data/x/0/$patch is a directive of strategic merge patches, not a field: remove the directive from \
         the manifest, or use server-side apply"
    );
    assert_eq!(error(&json!("x"), &map("a", json!({}))), "the manifest is a string, not a map of fields");
    let large = map("a", json!({"x": "y".repeat(262_144)}));
    let large = crate::patch::last_applied(&Object::try_from(large).unwrap()).unwrap_err();
    assert!(matches!(large, PatchError::TooLarge { bytes, .. } if bytes > 262_144));
    assert!(large.to_string().starts_with("ConfigMap a is too large for client-side apply"), "{large}");
    assert!(large.to_string().contains("use server-side apply"), "{large}");
}
