use serde_json::{Value, json};
use tidegate_health::{MESSAGE_BYTES_MAX, assess, evidence, has_rule, observe, worst_status};
use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Evidence, Health, HealthStatus, ObservedState, Timestamp};

use crate::object;

#[test]
fn kinds_without_a_rule_have_no_health() {
    for (version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "Namespace"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("argoproj.io/v1alpha1", "Application"),
        ("extensions/v1beta1", "Deployment"),
    ] {
        let object = object(version, kind, json!({"status": {"phase": "Failed"}}));
        assert_eq!((assess(&object), has_rule(&object.gvk())), (None, false), "{version} {kind}");
    }
    // A third-party group may follow the convention. Otherwise, its objects have no health status.
    let own = object("example.org/v1", "Pod", json!({"status": {"phase": "Failed"}}));
    assert_eq!((assess(&own), has_rule(&own.gvk())), (None, true));
}

#[test]
fn an_object_that_is_being_deleted_is_pending_deletion_unless_it_is_a_hook() {
    let deleting = json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"},
        "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
    let pending = Some(Ok(Health::new(HealthStatus::Progressing, "Pending deletion")));
    let mut job = object("batch/v1", "Job", deleting.clone());
    assert_eq!(assess(&job), pending);
    assert_eq!(
        assess(&object("v1", "ConfigMap", deleting)),
        pending,
        "deletion also applies to kinds without a rule"
    );
    job.add_finalizer("example.org/other");
    assert_eq!(assess(&job), pending);
    job.add_finalizer(HOOK_FINALIZER);
    assert_eq!(assess(&job), Some(Ok(Health::new(HealthStatus::Healthy, "Job completed"))));
}

#[test]
fn the_worst_of_several() {
    use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    let ranked = [Healthy, Suspended, Progressing, Missing, Degraded, Unknown];
    for (rank, status) in ranked.into_iter().enumerate() {
        assert_eq!(worst_status(ranked[..=rank].iter().rev().copied()), status);
    }
    assert_eq!(worst_status([]), Healthy);
}

#[test]
fn an_application_has_the_worst_health_that_counts() {
    use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    let annotated = |name: &str, value: &str| {
        object("apps/v1", "Deployment", json!({"metadata": {"annotations": {name: value}}}))
    };
    let ignored = |value: &str| annotated("argocd.argoproj.io/ignore-healthcheck", value);
    let plain = || object("apps/v1", "Deployment", json!({}));
    let child = || object("argoproj.io/v1alpha1", "Application", json!({}));
    for (judged, together) in [
        (vec![], Healthy),
        (vec![(plain(), None)], Healthy),
        (vec![(plain(), Some(Suspended)), (plain(), Some(Progressing)), (plain(), None)], Progressing),
        (vec![(plain(), Some(Unknown)), (plain(), Some(Degraded))], Unknown),
        (vec![(ignored("true"), Some(Degraded)), (plain(), Some(Progressing))], Progressing),
        (vec![(ignored("True"), Some(Degraded))], Degraded),
        (vec![(annotated("argocd.argoproj.io/hook", "Sync"), Some(Degraded))], Healthy),
        (vec![(annotated("helm.sh/hook", "post-install"), Some(Degraded))], Healthy),
        (vec![(annotated("helm.sh/hook", "crd-install"), Some(Degraded))], Degraded),
        (vec![(child(), Some(Missing)), (child(), Some(Unknown))], Healthy),
        (vec![(child(), Some(Degraded)), (child(), Some(Unknown))], Degraded),
    ] {
        let pairs = judged.iter().map(|(object, status)| (object, *status));
        assert_eq!(tidegate_health::application_health(pairs), together, "{judged:?}");
    }
}

#[test]
fn evidence_by_kind() {
    let seen = |value: Value| json!({"metadata": {"generation": 4}, "status": {"observedGeneration": value}});
    for (version, kind, fields, expected) in [
        ("apps/v1", "Deployment", seen(json!(3)), Evidence::ObservedGeneration(3)),
        ("apps/v1", "Deployment", json!({}), Evidence::ObservedGeneration(0)),
        ("apps/v1", "StatefulSet", seen(json!(4)), Evidence::ObservedGeneration(4)),
        ("apps/v1", "DaemonSet", seen(json!("?")), Evidence::ObservedGeneration(0)),
        ("apps/v1", "ReplicaSet", seen(json!(1)), Evidence::ObservedGeneration(1)),
        ("policy/v1", "PodDisruptionBudget", json!({}), Evidence::ObservedGeneration(0)),
        ("autoscaling/v2", "HorizontalPodAutoscaler", seen(json!(2)), Evidence::ObservedGeneration(2)),
        ("autoscaling/v2", "HorizontalPodAutoscaler", json!({}), Evidence::None),
        ("batch/v1", "Job", json!({}), Evidence::Identity),
        ("batch/v1", "CronJob", json!({}), Evidence::Identity),
        ("v1", "Pod", seen(json!(1)), Evidence::Identity),
        ("v1", "PersistentVolumeClaim", json!({}), Evidence::Identity),
        ("v1", "Service", json!({}), Evidence::Identity),
        ("networking.k8s.io/v1", "Ingress", json!({}), Evidence::Identity),
        ("argoproj.io/v1alpha1", "Rollout", seen(json!("4")), Evidence::ObservedGeneration(4)),
        ("argoproj.io/v1alpha1", "Rollout", seen(json!("6b8f")), Evidence::None),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"metadata": {"generation": 1}}),
            Evidence::Identity,
        ),
        (
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({"metadata": {"generation": 2}}),
            Evidence::None,
        ),
        ("apiregistration.k8s.io/v1", "APIService", json!({}), Evidence::None),
        ("example.org/v1", "Widget", seen(json!(7)), Evidence::ObservedGeneration(7)),
        ("example.org/v1", "Widget", json!({"metadata": {"generation": 2}}), Evidence::None),
    ] {
        assert_eq!(evidence(&object(version, kind, fields.clone())), expected, "{kind} {fields}");
    }
}

#[test]
fn an_observation_carries_identity_and_verdict() {
    let at = Timestamp::from_millis(7);
    let fields = json!({"metadata": {"uid": "u-1", "resourceVersion": "41", "generation": 2,
        "deletionTimestamp": "2026-11-21T09:30:00Z"}});
    let observation = observe(&object("apps/v1", "Deployment", fields), at);
    assert_eq!(observation.at, at);
    let expected = ObservedState::Present {
        uid: "u-1".to_owned(),
        resource_version: "41".to_owned(),
        generation: 2,
        deleting: true,
        kept_by: String::new(),
        health: Some(Health::new(HealthStatus::Progressing, "Pending deletion")),
        unjudged: false,
        evidence: Evidence::ObservedGeneration(0),
    };
    assert_eq!(observation.seen, expected);
}

#[test]
fn a_failed_assessment_is_observed_as_unknown_with_the_reason() {
    let broken = object("apps/v1", "Deployment", json!({"spec": {"paused": "yes"}}));
    let ObservedState::Present { health, unjudged, .. } = observe(&broken, Timestamp::from_millis(0)).seen
    else {
        panic!("the object is missing");
    };
    let text = "field spec.paused must be a boolean, found a string";
    assert_eq!(health, Some(Health::new(HealthStatus::Unknown, text)));
    assert!(unjudged);
}

#[test]
fn messages_are_cut_at_a_character() {
    let long = "é".repeat(MESSAGE_BYTES_MAX);
    let pod = object("v1", "Pod", json!({"status": {"phase": "Failed", "message": long}}));
    let message = assess(&pod).unwrap().unwrap().message;
    assert!(message.len() <= MESSAGE_BYTES_MAX && message.len() > MESSAGE_BYTES_MAX - 4);
    assert!(message.ends_with("é…"));
}
