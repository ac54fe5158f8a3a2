//! Tests of the last-applied annotation and of field transfers from another manager.

use serde_json::{Value, json};
use tidegate_model::Object;

use crate::patch::{LAST_APPLIED, last_applied, take_over_patch};

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

#[test]
fn the_annotation_is_what_kubectl_writes() {
    let manifest = object(json!({
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"b": "<1 & 2>", "a": "ü\"\n\u{2028}"},
    }));
    let expected = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"ü\\\"\\n\\u2028\",\"b\":\"\\u003c1 \\u0026 2\\u003e\"},\
                    \"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n";
    assert_eq!(last_applied(&manifest).unwrap(), expected);
    let mut annotated = manifest.clone();
    annotated.set_annotation(LAST_APPLIED, "something older");
    assert_eq!(last_applied(&annotated).unwrap(), expected, "it does not contain itself");
    assert_eq!(
        serde_json::from_str::<Value>(expected).unwrap()["data"],
        manifest.as_value()["data"],
        "escaped paths are equal"
    );
}

#[test]
fn the_limit_counts_all_annotations() {
    let with = |bytes: usize| {
        last_applied(&object(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {"other": "x".repeat(bytes)}},
        })))
    };
    // The other annotation counts twice: once on its own, and once in the manifest inside Tidegate's
    // annotation.
    let fixed = LAST_APPLIED.len() + "other".len() + with(0).unwrap().len();
    let most = (262_144 - fixed) / 2;
    assert!(with(most).is_ok());
    assert!(with(most + 1).is_err());
}

fn kubectl_managers() -> Vec<String> {
    vec!["kubectl".to_owned()]
}

fn manager_entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

fn managed_object(entries: &[Value]) -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "resourceVersion": "7", "managedFields": entries}}))
}

#[test]
fn fields_of_another_manager_become_ours() {
    let kubectl = manager_entry("kubectl", "Update", "2", json!({"f:data": {"f:a": {}, "f:b": {}}}));
    let older = manager_entry("kubectl", "Update", "1", json!({"f:data": {"f:old": {}}}));
    let ours = manager_entry("tidegate", "Apply", "3", json!({"f:data": {".": {}, "f:b": {}, "f:c": {}}}));
    let hpa = manager_entry("hpa", "Update", "4", json!({"f:data": {"f:z": {}}}));
    let mut status = manager_entry("kubectl", "Update", "5", json!({"f:status": {}}));
    status["subresource"] = json!("status");
    let applied = manager_entry("kubectl", "Apply", "6", json!({"f:data": {"f:y": {}}}));

    let patch = take_over_patch(
        &managed_object(&[kubectl.clone(), hpa.clone(), ours, older.clone()]),
        &kubectl_managers(),
        "tidegate",
    );
    let united = manager_entry(
        "tidegate",
        "Apply",
        "3",
        json!({"f:data": {".": {}, "f:a": {}, "f:b": {}, "f:c": {}, "f:old": {}}}),
    );
    assert_eq!(
        patch,
        Some(json!([
            {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "replace", "path": "/metadata/managedFields", "value": [united, hpa]},
        ]))
    );

    let first = take_over_patch(&managed_object(&[older, kubectl]), &kubectl_managers(), "tidegate").unwrap();
    let renamed =
        manager_entry("tidegate", "Apply", "2", json!({"f:data": {"f:a": {}, "f:b": {}, "f:old": {}}}));
    assert_eq!(first[1]["value"], json!([renamed]), "without an own entry, the newest entry is used");

    for nothing in [vec![], vec![hpa], vec![status], vec![applied]] {
        assert_eq!(
            take_over_patch(&managed_object(&nothing), &kubectl_managers(), "tidegate"),
            None,
            "{nothing:?}"
        );
    }
}

/// Argo CD applies objects in either mode, including objects created by kubectl. All fields of these managers
/// must be transferred to Tidegate at once.
#[test]
fn fields_of_several_managers_become_ours() {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let kubectl = manager_entry("kubectl", "Update", "1", json!({"f:data": {"f:a": {}}}));
    let updated = manager_entry("argocd-controller", "Update", "2", json!({"f:data": {"f:b": {}}}));
    let applied = manager_entry("argocd-controller", "Apply", "3", json!({"f:data": {"f:c": {}}}));
    let mut status = manager_entry("argocd-controller", "Apply", "4", json!({"f:status": {"f:d": {}}}));
    status["subresource"] = json!("status");
    let hpa = manager_entry("hpa", "Update", "5", json!({"f:data": {"f:z": {}}}));
    let all = [kubectl, updated, applied, status.clone(), hpa.clone()];
    let patch = take_over_patch(&managed_object(&all), &names(&["kubectl", "argocd-controller"]), "tidegate")
        .unwrap();
    let ours = manager_entry("tidegate", "Apply", "3", json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}}));
    assert_eq!(patch[1]["value"], json!([ours, status, hpa]));
    // After the transfer, no fields are left to take over.
    let mut after = managed_object(&all);
    after.metadata_mut().insert("managedFields".to_owned(), patch[1]["value"].clone());
    assert_eq!(take_over_patch(&after, &names(&["kubectl", "argocd-controller"]), "tidegate"), None);
    assert_eq!(take_over_patch(&managed_object(&all), &names(&["other"]), "tidegate"), None);
}

#[test]
fn fields_that_the_service_writes_keep_their_owner() {
    let application = |entries: &[Value]| {
        object(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a", "resourceVersion": "7", "managedFields": entries}}))
    };
    let known = json!({"f:status": {"f:health": {}}, "f:operation": {}});
    let mut all = known.clone();
    all["f:spec"] = json!({"f:project": {}});
    let ours = manager_entry("tidegate", "Apply", "2", json!({"f:spec": {"f:source": {}}}));
    let patch = take_over_patch(
        &application(&[manager_entry("kubectl", "Update", "1", all), ours]),
        &kubectl_managers(),
        "tidegate",
    );
    let united =
        manager_entry("tidegate", "Apply", "2", json!({"f:spec": {"f:project": {}, "f:source": {}}}));
    let left = manager_entry("kubectl", "Update", "1", known.clone());
    assert_eq!(patch.unwrap()[1]["value"], json!([united, left]));
    let nothing = application(&[manager_entry("kubectl", "Update", "1", known)]);
    assert_eq!(take_over_patch(&nothing, &kubectl_managers(), "tidegate"), None);
}
