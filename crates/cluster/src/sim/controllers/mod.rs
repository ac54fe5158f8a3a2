//! The controllers. Each looks at one object and all that concerns it, makes the world a little more as the object
//! wants it, writes its status, and says when it wants to look again. It remembers nothing: the same world gives the
//! same step.

mod children;
mod cronjob;
mod daemonset;
pub(crate) mod definition;
mod deployment;
mod garbage;
mod job;
mod namespace;
mod pod;
mod replicaset;
mod rollout;
mod settle;
mod statefulset;

use tidegate_model::{ObjectKey, Timestamp};

use super::SimState;

pub use pod::{PodStage, pod_status};
pub use settle::{Turn, settled_status};

/// Whether a controller looks after objects of this kind.
pub(crate) fn has_one(key: &ObjectKey) -> bool {
    controller(key).is_some()
}

type Controller = fn(&mut SimState, &ObjectKey) -> Option<Timestamp>;

/// The controller of a kind.
fn controller(key: &ObjectKey) -> Option<Controller> {
    Some(match (key.group.as_str(), key.kind.as_str()) {
        ("", "Pod") => pod::step,
        ("", "Namespace") => namespace::step,
        ("apps", "Deployment") => deployment::step,
        ("apps", "ReplicaSet") => replicaset::step,
        ("apps", "StatefulSet") => statefulset::step,
        ("apps", "DaemonSet") => daemonset::step,
        ("batch", "Job") => job::step,
        ("batch", "CronJob") => cronjob::step,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition::step,
        ("", "PersistentVolumeClaim" | "Service")
        | ("networking.k8s.io", "Ingress")
        | ("policy", "PodDisruptionBudget")
        | ("autoscaling", "HorizontalPodAutoscaler")
        | ("apiregistration.k8s.io", "APIService") => settle::step,
        _ => return None,
    })
}

/// One look at one object. Returns when to look again though nothing may have changed.
pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    if let Some(until) = garbage::collect(state, key) {
        return Some(until);
    }
    state.find(key)?;
    controller(key)?(state, key)
}
