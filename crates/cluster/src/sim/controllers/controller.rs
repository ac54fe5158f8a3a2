//! Controllers and their kinds.

use tidegate_model::ObjectKey;

/// A controller of one or more kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Pod,
    Namespace,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    CustomResourceDefinition,
    /// Controller for kinds without dependents.
    Standalone,
}

impl Controller {
    /// Returns the controller for a kind.
    pub(crate) fn for_kind(key: &ObjectKey) -> Option<Self> {
        Some(match (key.group.as_str(), key.kind.as_str()) {
            ("", "Pod") => Self::Pod,
            ("", "Namespace") => Self::Namespace,
            ("apps", "Deployment") => Self::Deployment,
            ("apps", "ReplicaSet") => Self::ReplicaSet,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("apps", "DaemonSet") => Self::DaemonSet,
            ("batch", "Job") => Self::Job,
            ("batch", "CronJob") => Self::CronJob,
            ("apiextensions.k8s.io", "CustomResourceDefinition") => Self::CustomResourceDefinition,
            ("", "PersistentVolumeClaim" | "Service")
            | ("networking.k8s.io", "Ingress")
            | ("policy", "PodDisruptionBudget")
            | ("autoscaling", "HorizontalPodAutoscaler")
            | ("apiregistration.k8s.io", "APIService") => Self::Standalone,
            _ => return None,
        })
    }
}
