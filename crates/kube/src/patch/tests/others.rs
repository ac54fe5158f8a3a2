//! The annotation, and taking fields over from another manager.

use serde_json::{Value, json};
use tidegate_model::Object;

use crate::patch::{LAST_APPLIED, last_applied, take_over};

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
        "escapes are only another spelling"
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
    // The other annotation counts twice: itself, and in the manifest inside ours.
    let fixed = LAST_APPLIED.len() + "other".len() + with(0).unwrap().len();
    let most = (262_144 - fixed) / 2;
    assert!(with(most).is_ok());
    assert!(with(most + 1).is_err());
}

fn entry(manager: &str, operation: &str, time: &str, fields: Value) -> Value {
    json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
        "fieldsV1": fields})
}

fn managed(entries: &[Value]) -> Object {
    object(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "resourceVersion": "7", "managedFields": entries}}))
}

#[test]
fn fields_of_another_manager_become_ours() {
    let kubectl = entry("kubectl", "Update", "2", json!({"f:data": {"f:a": {}, "f:b": {}}}));
    let older = entry("kubectl", "Update", "1", json!({"f:data": {"f:old": {}}}));
    let ours = entry("tidegate", "Apply", "3", json!({"f:data": {".": {}, "f:b": {}, "f:c": {}}}));
    let hpa = entry("hpa", "Update", "4", json!({"f:data": {"f:z": {}}}));
    let mut status = entry("kubectl", "Update", "5", json!({"f:status": {}}));
    status["subresource"] = json!("status");
    let applied = entry("kubectl", "Apply", "6", json!({"f:data": {"f:y": {}}}));

    let patch =
        take_over(&managed(&[kubectl.clone(), hpa.clone(), ours, older.clone()]), "kubectl", "tidegate");
    let united = entry(
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

    let first = take_over(&managed(&[older, kubectl]), "kubectl", "tidegate").unwrap();
    let renamed = entry("tidegate", "Apply", "2", json!({"f:data": {"f:a": {}, "f:b": {}, "f:old": {}}}));
    assert_eq!(first[1]["value"], json!([renamed]), "without an entry of our own the newest becomes it");

    for nothing in [vec![], vec![hpa], vec![status], vec![applied]] {
        assert_eq!(take_over(&managed(&nothing), "kubectl", "tidegate"), None, "{nothing:?}");
    }
}

#[test]
fn what_the_service_writes_stays_with_whoever_wrote_it() {
    let application = |entries: &[Value]| {
        object(json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a", "resourceVersion": "7", "managedFields": entries}}))
    };
    let known = json!({"f:status": {"f:health": {}}, "f:operation": {}});
    let mut all = known.clone();
    all["f:spec"] = json!({"f:project": {}});
    let ours = entry("tidegate", "Apply", "2", json!({"f:spec": {"f:source": {}}}));
    let patch = take_over(&application(&[entry("kubectl", "Update", "1", all), ours]), "kubectl", "tidegate");
    let united = entry("tidegate", "Apply", "2", json!({"f:spec": {"f:project": {}, "f:source": {}}}));
    let left = entry("kubectl", "Update", "1", known.clone());
    assert_eq!(patch.unwrap()[1]["value"], json!([united, left]));
    let nothing = application(&[entry("kubectl", "Update", "1", known)]);
    assert_eq!(take_over(&nothing, "kubectl", "tidegate"), None);
}
