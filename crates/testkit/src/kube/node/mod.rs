//! What kubelets, the scheduler and a cloud do in a real cluster, as far as objects show it: pods are bound, started,
//! ready or failed, and gone once deleted; claims are bound; Services and Ingresses get an address.
//!
//! The annotations that steer the simulated cluster steer this as well, and the status is made by the same code. What
//! differs: time is real, and an object that is to be stuck when deleted gets its finalizer when it is created, because
//! an API server takes no finalizers once deletion has begun.

mod behaviour;
mod pods;
mod settle;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tidegate_cluster::sim::{Behaviour, Outcome, STUCK};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::{Object, Timestamp};
use tokio::time::sleep;

use super::caller::Change;
use super::{CallError, Caller, Options};

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    ready_after: Duration,
    grace: Duration,
}

impl Pace {
    pub(super) fn of(options: &Options) -> Self {
        Self { ready_after: options.ready_after, grace: options.grace }
    }
}

/// The only node.
const NODE: &str = "sim-node";
/// How long to wait before asking an API server again that did not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// What happens to objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Care {
    /// They run.
    Pod,
    /// Their status says after a while that they work.
    Settle,
    /// They can be stuck when they are deleted, and are counted for those that fail so many times.
    Watch,
}

/// The kinds: collection path from the API's root, and what happens.
const KINDS: [(&str, Care); 9] = [
    ("/api/v1/pods", Care::Pod),
    ("/api/v1/persistentvolumeclaims", Care::Settle),
    ("/api/v1/services", Care::Settle),
    ("/apis/networking.k8s.io/v1/ingresses", Care::Settle),
    ("/api/v1/configmaps", Care::Watch),
    ("/apis/batch/v1/jobs", Care::Watch),
    ("/apis/apps/v1/deployments", Care::Watch),
    ("/apis/apps/v1/statefulsets", Care::Watch),
    ("/apis/apps/v1/daemonsets", Care::Watch),
];
/// Versions of autoscalers whose status has conditions, the newest first.
const AUTOSCALERS: [&str; 2] = ["autoscaling/v2", "autoscaling/v2beta2"];

/// What all watches share.
struct Node {
    caller: Caller,
    pace: Pace,
    /// What was begun for an object: its UID and the work.
    begun: Mutex<HashSet<(String, String)>>,
    /// The UIDs of objects of each kind, namespace and name, in the order in which they came.
    births: Mutex<HashMap<String, Vec<String>>>,
}

/// Registers the node and begins to look after everything, on the runtime of the caller.
pub(super) async fn start(caller: Caller, pace: Pace) -> Result<(), CallError> {
    let node = Arc::new(Node { caller, pace, begun: Mutex::default(), births: Mutex::default() });
    node.register().await?;
    let mut kinds: Vec<(String, Care)> = KINDS.map(|(path, care)| (path.to_owned(), care)).into();
    for version in AUTOSCALERS {
        if node.caller.find(&format!("/apis/{version}")).await?.is_some() {
            kinds.push((format!("/apis/{version}/horizontalpodautoscalers"), Care::Settle));
            break;
        }
    }
    for (path, care) in kinds {
        tokio::spawn(Arc::clone(&node).follow(path, care));
    }
    Ok(())
}

impl Node {
    async fn register(&self) -> Result<(), CallError> {
        let object = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}},
        });
        self.caller.post("/api/v1/nodes", &object).await?;
        // Admission taints every new node as not ready; the controller that would remove that is off.
        self.caller.patch(&format!("/api/v1/nodes/{NODE}"), &json!({"spec": {"taints": null}})).await?;
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "10000", "ephemeral-storage": "1Ti"});
        let status = json!({
            "capacity": room, "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}],
        });
        self.caller.patch(&format!("/api/v1/nodes/{NODE}/status"), &json!({"status": status})).await?;
        Ok(())
    }

    /// Sees every object of a kind, again and again as it changes.
    async fn follow(self: Arc<Self>, path: String, care: Care) {
        loop {
            if self.follow_once(&path, care).await.is_err() {
                sleep(AGAIN).await;
            }
        }
    }

    /// Until the watch ends, which it does after some minutes or with the API server.
    async fn follow_once(self: &Arc<Self>, path: &str, care: Care) -> Result<(), CallError> {
        let list = self.caller.get(path).await?;
        let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            self.see(path, care, object.clone());
        }
        let mut changes = self.caller.watch(&format!("{path}?watch=1&resourceVersion={version}")).await?;
        while let Some(change) = changes.next().await {
            match change? {
                (Change::Applied, object) => self.see(path, care, object),
                (Change::Deleted, object) => self.forget(&object),
                (Change::Expired, _) => break,
            }
        }
        Ok(())
    }

    fn see(self: &Arc<Self>, path: &str, care: Care, mut value: Value) {
        // The items of a list do not say what they are.
        let Some((version, plural)) =
            path.trim_start_matches("/apis/").trim_start_matches("/api/").rsplit_once('/')
        else {
            return;
        };
        value["apiVersion"] = version.into();
        value["kind"] = kind_of(plural).into();
        let Ok(object) = Object::try_from(value) else { return };
        self.born(&object);
        let behaviour = Behaviour::of(&object);
        if behaviour.outcome == Some(Outcome::StuckDeleting)
            && care != Care::Pod
            && !object.is_deleting()
            && self.begin(&object, "stick")
        {
            tokio::spawn(Arc::clone(self).stick(path_of(&object), object.clone()));
        }
        match care {
            Care::Pod => self.see_pod(object),
            Care::Settle => self.see_settling(object),
            Care::Watch => {}
        }
    }

    fn forget(&self, object: &Value) {
        if let Some(uid) = object.pointer("/metadata/uid").and_then(Value::as_str) {
            self.begun.lock().unwrap().retain(|(known, _)| known != uid);
        }
    }

    /// Whether this work is new for the object. It counts as begun from now on.
    fn begin(&self, object: &Object, work: &str) -> bool {
        self.begun.lock().unwrap().insert((object.uid().to_owned(), work.to_owned()))
    }

    /// Gives an object the finalizer that nobody will clear.
    async fn stick(self: Arc<Self>, path: String, object: Object) {
        let finalizers: Vec<&str> = object.finalizers().chain([STUCK]).collect();
        let patch = json!({"metadata": {"uid": object.uid(), "finalizers": finalizers}});
        self.write(&path, &patch).await;
    }

    /// Writes a patch, trying again while the API server is away. It is no error that the object has gone, or that it
    /// is another one by now: the patch names its UID.
    async fn write(&self, path: &str, patch: &Value) -> bool {
        loop {
            match self.caller.patch(&format!("{path}?fieldManager=nodes"), patch).await {
                Ok(_) => return true,
                Err(error) if is_final(&error) => return false,
                Err(_) => sleep(AGAIN).await,
            }
        }
    }
}

/// Whether trying again is of no use.
fn is_final(error: &CallError) -> bool {
    (400..500).contains(&error.code) && error.code != 429
}

/// `Pod` of `pods`.
fn kind_of(plural: &str) -> &'static str {
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
        other => panic!("the nodes do not know {other}"),
    }
}

/// Where an object is.
fn path_of(object: &Object) -> String {
    let version = object.text("/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let kind = object.kind().to_lowercase();
    let ending = if kind.ends_with('s') { "es" } else { "s" };
    format!("/{root}/{version}/namespaces/{}/{kind}{ending}/{}", object.namespace(), object.name())
}

/// The time as statuses say it, in whole seconds.
fn now() -> String {
    let now = SystemClock.now();
    Timestamp::from_millis(now.as_millis() / 1000 * 1000).to_string()
}
