//! Every object has a result, whatever its content. Rules never panic, and messages are never empty.

#![expect(clippy::expect_used, reason = "tests may panic")]

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Map, Value};
use tidegate_health::{assess, evidence, has_rule, observe, worst_status};
use tidegate_model::{HealthStatus, Object, Timestamp};

const KINDS: [(&str, &str); 20] = [
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1beta1", "Deployment"),
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("batch/v1", "CronJob"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "Service"),
    ("networking.k8s.io/v1", "Ingress"),
    ("autoscaling/v1", "HorizontalPodAutoscaler"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
    ("policy/v1", "PodDisruptionBudget"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("argoproj.io/v1alpha1", "Workflow"),
    ("argoproj.io/v1alpha1", "Rollout"),
    ("argoproj.io/v1alpha1", "ApplicationSet"),
    ("v1", "ConfigMap"),
];

/// Names that the rules read, so that random objects reach deep into the rules.
const NAMES: [&str; 44] = [
    "active",
    "availableReplicas",
    "conditions",
    "completions",
    "containerStatuses",
    "currentRevision",
    "desiredNumberScheduled",
    "exitCode",
    "ingress",
    "initContainerStatuses",
    "lastScheduleTime",
    "lastState",
    "lastSuccessfulTime",
    "loadBalancer",
    "message",
    "name",
    "numberAvailable",
    "observedGeneration",
    "partition",
    "pauseConditions",
    "paused",
    "phase",
    "readyReplicas",
    "reason",
    "replicas",
    "restartPolicy",
    "rollingUpdate",
    "state",
    "status",
    "strategy",
    "succeeded",
    "suspend",
    "terminated",
    "type",
    "updateRevision",
    "updateStrategy",
    "updatedNumberScheduled",
    "updatedReplicas",
    "waiting",
    "volumeName",
    "disruptionsAllowed",
    "failed",
    "spec",
    "x",
];

/// Values that the rules compare with.
const WORDS: [&str; 30] = [
    "",
    "True",
    "False",
    "Always",
    "Never",
    "Running",
    "Pending",
    "Failed",
    "Succeeded",
    "Bound",
    "Lost",
    "Complete",
    "Suspended",
    "Progressing",
    "ProgressDeadlineExceeded",
    "ReplicaFailure",
    "LoadBalancer",
    "RollingUpdate",
    "OnDelete",
    "AbleToScale",
    "FailedGetScale",
    "Established",
    "Installing",
    "Available",
    "Ready",
    "OOMKilled",
    "2026-11-21T09:30:00Z",
    "ErrImagePull",
    "Healthy",
    "12",
];

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(prop::sample::select(&NAMES[..]), inner, 0..6).prop_map(to_map),
        ]
    })
}

fn to_map(fields: std::collections::BTreeMap<&str, Value>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn objects() -> impl Strategy<Value = Object> {
    let annotation = prop_oneof![json().prop_map(|value| value.to_string()), any::<String>()];
    (prop::sample::select(&KINDS[..]), json(), json(), json(), any::<bool>(), annotation).prop_map(
        |((version, kind), spec, status, generation, deleting, conditions)| {
            let mut all = Map::new();
            for (field, value) in
                [("apiVersion", version.into()), ("kind", kind.into()), ("spec", spec), ("status", status)]
            {
                all.insert(field.to_owned(), value);
            }
            let mut object = Object::try_from(Value::Object(all)).expect("metadata is added");
            object.set_name("x");
            object.metadata_mut().insert("generation".to_owned(), generation);
            if deleting {
                object.metadata_mut().insert("deletionTimestamp".to_owned(), "2026-11-21T09:30:00Z".into());
            }
            object.set_annotation("autoscaling.alpha.kubernetes.io/conditions", conditions);
            object
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_object_gets_an_answer(object in objects()) {
        let verdict = assess(&object);
        prop_assert_eq!(verdict.is_some(), object.is_deleting() || has_rule(&object.gvk()));
        if let Some(Ok(health)) = &verdict {
            prop_assert!(!health.message.trim().is_empty(), "{:?} has no message", health.status);
        }
        prop_assert_eq!(&verdict, &assess(&object), "the same object gets the same verdict");
        evidence(&object);
        observe(&object, Timestamp::from_millis(0));
    }

    #[test]
    fn the_worst_does_not_depend_on_the_order(mut ranks in vec(0_usize..6, 0..8)) {
        use HealthStatus::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
        let all = [Healthy, Suspended, Progressing, Missing, Degraded, Unknown];
        let there = worst_status(ranks.iter().map(|rank| all[*rank]));
        ranks.reverse();
        prop_assert_eq!(there, worst_status(ranks.iter().map(|rank| all[*rank])));
        prop_assert_eq!(there, all[ranks.iter().copied().max().unwrap_or(0)]);
    }
}
