use serde_json::json;

use super::*;

const OURS: &str = "app:/ConfigMap:shop/c";

fn tracking_by(method: TrackingMethod) -> Tracking {
    Tracking { method, ..Tracking::default() }
}

fn all_methods() -> [Tracking; 3] {
    [TrackingMethod::Annotation, TrackingMethod::AnnotationAndLabel, TrackingMethod::Label].map(tracking_by)
}

/// Returns `ConfigMap shop/c` with a tracking annotation, a label, and the field manager that wrote the
/// label.
fn live_object(id: &str, label: &str, writer: &str) -> Object {
    let mut object = Object::try_from(json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "shop"}}))
    .unwrap();
    if !id.is_empty() {
        object.set_annotation(TRACKING_ID, id);
    }
    if !label.is_empty() {
        object.set_label(INSTANCE_LABEL, label);
    }
    if !writer.is_empty() {
        let fields = json!({"f:metadata": {"f:labels": {format!("f:{INSTANCE_LABEL}"): {}}}});
        let entry = json!({"manager": writer, "operation": "Apply", "fieldsV1": fields});
        object.metadata_mut().insert("managedFields".to_owned(), json!([entry]));
    }
    object
}

#[test]
fn ids_are_written_and_read() {
    for (api_version, kind, namespace, name, id) in [
        ("apps/v1", "Deployment", "shop", "api", "app:apps/Deployment:shop/api"),
        ("v1", "ConfigMap", "other", "c", "app:/ConfigMap:other/c"),
        ("rbac/v1", "ClusterRole", "", "system:x", "app:rbac/ClusterRole:shop/system:x"),
    ] {
        let metadata = json!({"namespace": namespace, "name": name});
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        let object = Object::try_from(object).unwrap();
        assert_eq!(tracking_id("app", &object, "shop"), id);
        let read = TrackingId::parse(id).unwrap();
        assert!(read.matches_object(&object) && read.application == "app", "{id}");
    }
    for text in ["", "app", "app:Pod:ns/n", "app:/Pod:n", "app:a/b/Pod:ns/n", "app:/Pod:ns/a/b"] {
        assert_eq!(TrackingId::parse(text), None, "{text}");
    }
}

#[test]
fn owners_of_live_objects() {
    let (ours, foreign, copied) = (OURS, "other:/ConfigMap:shop/c", "app:/ConfigMap:shop/original");
    // Annotation, label and the label's field manager, followed by the owner for each tracking method:
    // annotation, annotation and label, label only.
    for (id, label, writer, owners) in [
        ("", "", "", [None, None, None]),
        (ours, "", "", [Some("app"); 3]),
        (ours, "other", "helm", [Some("app"); 3]),
        (foreign, "app", "helm", [Some("other"); 3]),
        (copied, "app", "helm", [None, None, None]),
        ("", "app", "helm", [None, None, Some("app")]),
        ("", "app", "", [None, None, Some("app")]),
        ("not an id", "app", "helm", [None, None, Some("app")]),
        ("", "app", "tidegate", [Some("app"); 3]),
        ("", "app", "kube-controller-manager", [None, None, None]),
    ] {
        let live = live_object(id, label, writer);
        for (tracking, owner) in all_methods().iter().zip(owners) {
            assert_eq!(tracking.owner(&live), owner, "{id} {label} {writer} by {:?}", tracking.method);
            let mut lean = live.clone();
            if let Some(notes) = lean.metadata_mut().get_mut("managedFields") {
                notes[0]["fieldsV1"] = notes[0]["fieldsV1"].to_string().into();
            }
            assert_eq!(tracking.owner(&lean), owner, "with `fieldsV1` stored as JSON text");
        }
    }
}

#[test]
fn installations_are_distinguished() {
    for mut tracking in all_methods() {
        for (ours, theirs, owner) in [
            ("", "", Some("app")),
            ("", "b", None),
            ("b", "", None),
            ("b", "b", Some("app")),
            ("a", "b", None),
        ] {
            let mut live = live_object(OURS, "app", "tidegate");
            live.set_annotation(INSTALLATION_ID, theirs);
            tracking.installation = ours.to_owned();
            assert_eq!(tracking.owner(&live), owner, "{ours} {theirs}");
        }
    }
}

#[test]
fn a_crd_is_not_owned_by_its_label() {
    let mut definition = live_object("", "app", "tidegate").as_value().clone();
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    definition["kind"] = json!("CustomResourceDefinition");
    let definition = Object::try_from(definition).unwrap();
    assert!(all_methods().iter().all(|tracking| tracking.owner(&definition).is_none()));
}

#[test]
fn marks_are_those_of_the_method_and_no_others() {
    for (tracking, id, label) in [
        (tracking_by(TrackingMethod::Annotation), Some(OURS), Some("before")),
        (tracking_by(TrackingMethod::AnnotationAndLabel), Some(OURS), Some("app")),
        (tracking_by(TrackingMethod::Label), None, Some("app")),
    ] {
        let mut manifest = live_object("other:/ConfigMap:shop/c", "before", "");
        manifest.set_annotation(INSTALLATION_ID, "another");
        tracking.mark_manifest(&mut manifest, "app", "shop");
        assert_eq!(manifest.annotation(TRACKING_ID), id);
        assert_eq!(manifest.label(INSTANCE_LABEL), label);
        assert_eq!(manifest.annotation(INSTALLATION_ID), None);
        assert!(tracking.is_owner("app", &manifest));
        let tracking = Tracking { installation: "ours".to_owned(), ..tracking };
        tracking.mark_manifest(&mut manifest, "app", "shop");
        assert_eq!(manifest.annotation(INSTALLATION_ID), Some("ours"));
        assert!(tracking.is_owner("app", &manifest));
    }
}

#[test]
fn labels_hold_names_that_fit() {
    let long = "a".repeat(62);
    let (cut, whole) = (TrackingMethod::AnnotationAndLabel, TrackingMethod::Label);
    for (method, application, value) in [
        (whole, "shop", Some("shop".to_owned())),
        (whole, "Shop_1.x", Some("Shop_1.x".to_owned())),
        (whole, "shop-", None),
        (whole, "my/shop", None),
        (whole, &format!("{long}bc"), None),
        (cut, "shop-", Some("shop".to_owned())),
        (cut, &format!("{long}bc"), Some(format!("{long}b"))),
        (cut, &format!("{long}-bc"), Some(long.clone())),
        (cut, &format!("{long}ä"), Some(long.clone())),
        (cut, "---", None),
        (cut, "my/shop", None),
    ] {
        assert_eq!(
            tracking_by(method).label_value(application).ok().flatten(),
            value,
            "{method:?} {application}"
        );
    }
    assert_eq!(tracking_by(TrackingMethod::Annotation).label_value("---"), Ok(None));
    let refused = tracking_by(whole).check("my/shop").unwrap_err().to_string();
    assert!(
        refused.starts_with("application name \"my/shop\" is not a valid value for label app.kub"),
        "{refused}"
    );
}

#[test]
fn keys_of_labels_are_checked() {
    let check = |label: &str| Tracking { label: label.to_owned(), ..Tracking::default() }.check("shop");
    for good in ["app", "App_1.x", "example.com/app", INSTANCE_LABEL] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for bad in ["", "/", "a b", "/app", "example.com/", "a/b/c", "Example.com/app", "-a", "a..b/c", "ä"] {
        assert!(matches!(check(bad), Err(InvalidTracking::Key { .. })), "{bad}");
    }
}

#[test]
fn a_search_reads_everything_if_the_annotation_may_be_the_only_mark() {
    let labelled = TrackingSelector::Labeled { key: INSTANCE_LABEL.to_owned(), value: "app".to_owned() };
    let (before, after) = (live_object(OURS, "", ""), live_object(OURS, "app", ""));
    for method in [TrackingMethod::AnnotationAndLabel, TrackingMethod::Label] {
        for (named, search) in
            [(vec![], &labelled), (vec![&after], &labelled), (vec![&after, &before], &TrackingSelector::All)]
        {
            assert_eq!(tracking_by(method).search_selector("app", named.into_iter()), *search);
        }
    }
    assert_eq!(
        tracking_by(TrackingMethod::Annotation).search_selector("app", [&after].into_iter()),
        TrackingSelector::All
    );
    assert!(labelled.matches(&after) && !labelled.matches(&before) && TrackingSelector::All.matches(&before));
}
