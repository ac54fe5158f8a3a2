//! Kinds with rules written as functions.

use tidegate_model::Object;

use crate::verdict::Verdict;
use crate::{api_extensions, argo, autoscaling, batch, disruption_budget, network, pod, storage, workloads};

pub(crate) type RuleFunction = fn(&Object) -> Verdict;

/// Returns the rule for a kind with health logic that takes code, because it counts or compares in a special
/// way. The rules for custom resources are written as data.
pub(crate) fn code_rule(group: &str, kind: &str) -> Option<RuleFunction> {
    let rule: RuleFunction = match (group, kind) {
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("", "Pod") => pod::pod,
        ("batch", "Job") => batch::job,
        ("batch", "CronJob") => batch::cron_job,
        ("", "PersistentVolumeClaim") => storage::volume_claim,
        ("", "Service") => network::service,
        ("networking.k8s.io" | "extensions", "Ingress") => network::ingress,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::pod_autoscaler,
        ("policy", "PodDisruptionBudget") => disruption_budget::disruption_budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => api_extensions::custom_resource_definition,
        ("apiregistration.k8s.io", "APIService") => api_extensions::api_service,
        ("argoproj.io", "Workflow") => argo::workflow,
        ("argoproj.io", "Rollout") | ("spot.io", "SpotDeployment") => argo::rollout,
        ("argoproj.io", "ApplicationSet") => argo::application_set,
        _ => return None,
    };
    Some(rule)
}
