//! The kinds that a function judges.

use tidegate_model::Object;

use crate::verdict::Verdict;
use crate::{argo, autoscaling, batch, extensions, network, pod, policy, storage, workloads};

pub(crate) type Rule = fn(&Object) -> Verdict;

/// The kinds whose rule is a function, because they count or compare in ways of their own. Custom resources have their
/// rules as data.
pub(crate) fn rule(group: &str, kind: &str) -> Option<Rule> {
    let rule: Rule = match (group, kind) {
        ("apps", "Deployment") => workloads::deployment,
        ("apps", "StatefulSet") => workloads::stateful_set,
        ("apps", "DaemonSet") => workloads::daemon_set,
        ("apps", "ReplicaSet") => workloads::replica_set,
        ("", "Pod") => pod::pod,
        ("batch", "Job") => batch::job,
        ("batch", "CronJob") => batch::cron_job,
        ("", "PersistentVolumeClaim") => storage::claim,
        ("", "Service") => network::service,
        ("networking.k8s.io" | "extensions", "Ingress") => network::ingress,
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::pod_autoscaler,
        ("policy", "PodDisruptionBudget") => policy::disruption_budget,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => extensions::definition,
        ("apiregistration.k8s.io", "APIService") => extensions::api_service,
        ("argoproj.io", "Workflow") => argo::workflow,
        ("argoproj.io", "Rollout") => argo::rollout,
        ("argoproj.io", "ApplicationSet") => argo::application_set,
        _ => return None,
    };
    Some(rule)
}
