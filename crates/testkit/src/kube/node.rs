//! Simulation of kubelets, the scheduler and a cloud, to the extent that it shows in objects: pods are bound,
//! start, become ready or fail, and disappear after deletion; claims are bound; Services and Ingresses get an
//! address.
//!
//! The simulated cluster's annotations work here too, and the same code creates the status. There are two
//! differences: time is real, and an object with a stuck deletion gets its finalizer on creation. An API
//! server doesn't accept new finalizers after the deletion has started.

mod behavior;
mod pods;
mod standalone;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidegate_cluster::sim::{Behavior, Outcome, STUCK_FINALIZER};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::{Object, Timestamp};
use tokio::time::sleep;

use super::api_client::WatchChange;
use super::{ApiClient, CallError};

/// Durations of pod transitions.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodTimings {
    /// Default time until a pod becomes ready. An annotation can set a different one.
    pub(super) ready_after: Duration,
    /// Termination time of a deleted pod.
    pub(super) grace: Duration,
}

/// The only node.
const NODE_NAME: &str = "sim-node";
/// Delay before retrying a failed call to the API server.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Simulated behavior of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectHandling {
    /// The objects run as pods.
    Pod,
    /// The objects' status becomes healthy after a while.
    Standalone,
    /// The objects' deletion can get stuck, and their creations are counted for the `fail-times` annotation.
    DeletionAndCount,
}

/// Path of each kind's collection, and the kind's simulated behavior.
const KINDS: [(&str, ObjectHandling); 9] = [
    ("/api/v1/pods", ObjectHandling::Pod),
    ("/api/v1/persistentvolumeclaims", ObjectHandling::Standalone),
    ("/api/v1/services", ObjectHandling::Standalone),
    ("/apis/networking.k8s.io/v1/ingresses", ObjectHandling::Standalone),
    ("/api/v1/configmaps", ObjectHandling::DeletionAndCount),
    ("/apis/batch/v1/jobs", ObjectHandling::DeletionAndCount),
    ("/apis/apps/v1/deployments", ObjectHandling::DeletionAndCount),
    ("/apis/apps/v1/statefulsets", ObjectHandling::DeletionAndCount),
    ("/apis/apps/v1/daemonsets", ObjectHandling::DeletionAndCount),
];
/// API versions of autoscalers with conditions in their status, newest first.
const AUTOSCALERS: [&str; 2] = ["autoscaling/v2", "autoscaling/v2beta2"];

/// Shared state of all watches.
struct Node {
    client: ApiClient,
    timings: PodTimings,
    /// Started work, by the object's UID and the name of the work.
    started_work: Mutex<HashSet<(String, String)>>,
    /// UIDs of objects by kind, namespace and name, in order of creation.
    creations: Mutex<HashMap<String, Vec<String>>>,
}

/// Registers the node and starts the simulation on the caller's runtime.
pub(super) async fn start(client: ApiClient, timings: PodTimings) -> Result<(), CallError> {
    let node =
        Arc::new(Node { client, timings, started_work: Mutex::default(), creations: Mutex::default() });
    node.register_node().await?;
    let mut kinds: Vec<(String, ObjectHandling)> = KINDS.map(|(path, care)| (path.to_owned(), care)).into();
    for version in AUTOSCALERS {
        if node.client.find(&format!("/apis/{version}")).await?.is_some() {
            kinds.push((format!("/apis/{version}/horizontalpodautoscalers"), ObjectHandling::Standalone));
            break;
        }
    }
    for (path, care) in kinds {
        tokio::spawn(Arc::clone(&node).watch_kind(path, care));
    }
    Ok(())
}

impl Node {
    async fn register_node(&self) -> Result<(), CallError> {
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE_NAME, "labels": {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux"}},
        });
        self.client.post("/api/v1/nodes", &object).await?;
        // Remove the taint that admission adds to every new node, because the responsible controller is
        // disabled.
        self.client.patch(&format!("/api/v1/nodes/{NODE_NAME}"), &json!({"spec": {"taints": null}})).await?;
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"});
        let status = json!({
            "capacity": room, "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}],
        });
        self.client.patch(&format!("/api/v1/nodes/{NODE_NAME}/status"), &json!({"status": status})).await?;
        Ok(())
    }

    /// Handles each change to the objects of a kind.
    async fn watch_kind(self: Arc<Self>, path: String, care: ObjectHandling) {
        loop {
            if self.watch_until_end(&path, care).await.is_err() {
                sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Runs until the watch is closed, after some minutes or when the API server stops.
    async fn watch_until_end(self: &Arc<Self>, path: &str, care: ObjectHandling) -> Result<(), CallError> {
        let list = self.client.get(path).await?;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            self.handle_object(path, care, object.clone());
        }
        let mut changes = self.client.watch(&format!("{path}?watch=1&resourceVersion={version}")).await?;
        while let Some(change) = changes.next().await {
            match change? {
                (WatchChange::Applied, object) => self.handle_object(path, care, object),
                (WatchChange::Deleted, object) => self.forget_object(&object),
                (WatchChange::Expired, _) => break,
            }
        }
        Ok(())
    }

    fn handle_object(self: &Arc<Self>, path: &str, care: ObjectHandling, mut value: Value) {
        // List items have no API version and kind.
        let Some((version, plural)) =
            path.trim_start_matches("/apis/").trim_start_matches("/api/").rsplit_once('/')
        else {
            return;
        };
        value["apiVersion"] = version.into();
        value["kind"] = kind_of_plural(plural).into();
        let Ok(object) = Object::try_from(value) else { return };
        self.count_creation(&object);
        let object_behavior = Behavior::from_object(&object);
        if object_behavior.outcome == Some(Outcome::StuckDeleting)
            && care != ObjectHandling::Pod
            && !object.is_deleting()
            && self.start_work(&object, "stick")
        {
            tokio::spawn(Arc::clone(self).block_deletion(object_path(&object), object.clone()));
        }
        match care {
            ObjectHandling::Pod => self.handle_pod(object),
            ObjectHandling::Standalone => self.handle_standalone(object),
            ObjectHandling::DeletionAndCount => {}
        }
    }

    fn forget_object(&self, object: &Value) {
        if let Some(uid) = object.pointer("/metadata/uid").and_then(Value::as_str) {
            self.started_work.lock().unwrap().retain(|(known, _)| known != uid);
        }
    }

    /// Marks the work as started for the object. Returns false if it already was.
    fn start_work(&self, object: &Object, work: &str) -> bool {
        self.started_work.lock().unwrap().insert((object.uid().to_owned(), work.to_owned()))
    }

    /// Adds a finalizer that is never removed.
    async fn block_deletion(self: Arc<Self>, path: String, object: Object) {
        let finalizers: Vec<&str> = object.finalizers().chain([STUCK_FINALIZER]).collect();
        let patch = json!({"metadata": {"uid": object.uid(), "finalizers": finalizers}});
        self.write_patch(&path, &patch).await;
    }

    /// Writes a patch, retrying while the API server is unavailable. The patch has the object's UID, so a
    /// deleted or recreated object isn't an error.
    async fn write_patch(&self, path: &str, patch: &Value) -> bool {
        loop {
            match self.client.patch(&format!("{path}?fieldManager=nodes"), patch).await {
                Ok(_) => return true,
                Err(error) if is_final(&error) => return false,
                Err(_) => sleep(RETRY_DELAY).await,
            }
        }
    }
}

/// Returns true if a retry can't succeed.
fn is_final(error: &CallError) -> bool {
    (400..500).contains(&error.code) && error.code != 429
}

/// Returns `Pod` for `pods`.
fn kind_of_plural(plural: &str) -> &'static str {
    match plural {
        "pods" => "Pod",
        "persistentvolumeclaims" => "PersistentVolumeClaim",
        "services" => "Service",
        "ingresses" => "Ingress",
        "configmaps" => "ConfigMap",
        "jobs" => "Job",
        "deployments" => "Deployment",
        "statefulsets" => "StatefulSet",
        "daemonsets" => "DaemonSet",
        "horizontalpodautoscalers" => "HorizontalPodAutoscaler",
        other => panic!("unknown node option {other}"),
    }
}

/// Returns the path of an object.
fn object_path(object: &Object) -> String {
    let version = object.text("/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let kind = object.kind().to_lowercase();
    let ending = if kind.ends_with('s') { "es" } else { "s" };
    format!("/{root}/{version}/namespaces/{}/{kind}{ending}/{}", object.namespace(), object.name())
}

/// Returns the current time in whole seconds, as in statuses.
fn current_timestamp() -> String {
    let now = SystemClock.now();
    Timestamp::from_millis(now.as_millis() / 1000 * 1000).to_string()
}
