//! A small environment for tests: a cluster, a current time, and short helper functions.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{AuditEntry, SimConfig, SimState};
use tidegate_cluster::{
    ApplyRequest, ApplyResult, ClusterError, DeleteRequest, DeleteResult, ErrorKind, Propagation, WriteMode,
};
use tidegate_model::{Gvk, HealthStatus, Object, ObjectKey, Timestamp};

pub(crate) struct World {
    pub(crate) state: SimState,
    pub(crate) now: Timestamp,
}

/// 21 November 2026, 09:30.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_795_253_400_000);
pub(crate) const SSA: WriteMode = WriteMode::Apply { force: false };
pub(crate) const REPLACE: WriteMode = WriteMode::Replace { recreate: false };
const STEPS_MAX: usize = 100_000;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

pub(crate) fn gvk(kind: &str) -> Gvk {
    let api_version = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "Ingress" => "networking.k8s.io/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "PodDisruptionBudget" => "policy/v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        "APIService" => "apiregistration.k8s.io/v1",
        "Widget" => "example.com/v1",
        _ => "v1",
    };
    Gvk::from_api_version(api_version, kind)
}

/// Creates a manifest in the namespace `default`; `rest` is merged into it at the top level.
pub(crate) fn manifest(kind: &str, name: &str, rest: Value) -> Object {
    let mut value = json!({"apiVersion": gvk(kind).api_version(), "kind": kind, "metadata": {"name": name, "namespace": "default"}});
    for (field, part) in rest.as_object().unwrap() {
        match (field.as_str(), part) {
            ("metadata", Value::Object(part)) => {
                value["metadata"].as_object_mut().unwrap().extend(part.clone())
            }
            _ => value[field] = part.clone(),
        }
    }
    object(value)
}

pub(crate) fn config_map(name: &str, data: Value) -> Object {
    manifest("ConfigMap", name, json!({"data": data}))
}

/// Creates a workload with one container and its image. Callers pass the simulation's annotations without
/// their prefix.
pub(crate) fn workload(kind: &str, name: &str, image: &str, behavior: Value) -> Object {
    let annotations: serde_json::Map<String, Value> = behavior
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (format!("sim.tidegate.dev/{name}"), value.clone()))
        .collect();
    let containers = json!([{"name": "main", "image": image}]);
    let spec = match kind {
        "Pod" => json!({"containers": containers}),
        "Job" => json!({"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}),
        _ => json!({
            "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
        }),
    };
    manifest(kind, name, json!({"metadata": {"annotations": annotations}, "spec": spec}))
}

/// Returns a copy of the object with a new value at a path such as `/spec/replicas`.
pub(crate) fn with_value(object: &Object, path: &str, value: Value) -> Object {
    let mut whole = object.as_value().clone();
    let (parent, field) = path.rsplit_once('/').unwrap();
    whole.pointer_mut(parent).unwrap()[field] = value;
    self::object(whole)
}

/// Returns an object in the form that lists and write responses use, in which managed fields are JSON text.
pub(crate) fn with_encoded_fields(mut object: Object) -> Object {
    let shares = object.metadata_mut().get_mut("managedFields").and_then(Value::as_array_mut);
    for share in shares.into_iter().flatten() {
        share["fieldsV1"] = share["fieldsV1"].to_string().into();
    }
    object
}

pub(crate) fn request(object: &Object, mode: WriteMode) -> ApplyRequest {
    ApplyRequest::new(object.clone(), mode)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_config(SimConfig::default())
    }

    pub(crate) fn with_config(config: SimConfig) -> Self {
        Self { state: SimState::new(config, START), now: START }
    }

    pub(crate) fn write(&mut self, object: &Object, mode: WriteMode) -> Result<ApplyResult, ClusterError> {
        self.state.apply(self.now, request(object, mode))
    }

    pub(crate) fn apply(&mut self, object: &Object) -> Object {
        self.write(object, SSA).unwrap_or_else(|error| panic!("{object}: {error}")).object
    }

    pub(crate) fn refused_write(&mut self, object: &Object, mode: WriteMode) -> ClusterError {
        let before: Vec<Object> = self.state.objects().cloned().collect();
        let error = self.write(object, mode).unwrap_err();
        assert_eq!(
            before,
            self.state.objects().cloned().collect::<Vec<_>>(),
            "a refused write changes nothing"
        );
        error
    }

    pub(crate) fn get(&mut self, kind: &str, name: &str) -> Option<Object> {
        self.state.get(self.now, &gvk(kind), "default", name).unwrap()
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        self.now = self.now + time;
        self.state.advance(self.now);
    }

    /// Advances time until nothing is due within the next hour.
    pub(crate) fn run_until_idle(&mut self) {
        let end = self.now + Duration::from_secs(3600);
        for _ in 0..STEPS_MAX {
            match self.state.next_due().filter(|due| *due <= end) {
                Some(due) => self.now = self.now.max(due),
                None => return,
            }
            self.state.advance(self.now);
        }
        panic!("the cluster does not become idle");
    }

    pub(crate) fn health(&mut self, kind: &str, name: &str) -> HealthStatus {
        let object = self.get(kind, name).unwrap_or_else(|| panic!("{kind} {name} does not exist"));
        tidegate_health::HealthRules::built_in()
            .assess(&object, self.now)
            .expect("the kind has a health rule")
            .expect("the status is valid")
            .status
    }

    pub(crate) fn delete(
        &mut self,
        kind: &str,
        name: &str,
        propagation: Propagation,
    ) -> Result<DeleteResult, ClusterError> {
        self.state.delete(self.now, delete_request(kind, name, propagation))
    }

    pub(crate) fn names(&mut self, kind: &str) -> Vec<String> {
        let listing = self.state.list(self.now, &gvk(kind)).unwrap();
        listing.objects.iter().map(|object| object.name().to_owned()).collect()
    }

    pub(crate) fn pods(&mut self) -> Vec<Object> {
        self.state.list(self.now, &gvk("Pod")).unwrap().objects
    }

    pub(crate) fn last_audit(&self) -> AuditEntry {
        self.state.audit().last().unwrap().clone()
    }
}

pub(crate) fn delete_request(kind: &str, name: &str, propagation: Propagation) -> DeleteRequest {
    let namespace = if matches!(kind, "Namespace" | "CustomResourceDefinition") { "" } else { "default" };
    DeleteRequest {
        gvk: gvk(kind),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: String::new(),
        resource_version: String::new(),
        propagation,
        dry_run: false,
        operation: None,
    }
}

pub(crate) fn key(kind: &str, name: &str) -> ObjectKey {
    let namespace = if matches!(kind, "Namespace" | "CustomResourceDefinition") { "" } else { "default" };
    ObjectKey::new(gvk(kind).group, kind, namespace, name)
}

pub(crate) fn assert_refused(error: &ClusterError, kind: ErrorKind, text: &str) {
    assert_eq!(error.kind, kind, "{error}");
    assert!(error.message.contains(text), "{error}");
}
