use tidegate_model::{Gvk, Health, HealthStatus, Object, Observation, Timestamp};

use crate::verdict::Verdict;
use crate::{
    HealthError, HealthRules, argo, autoscaling, batch, extensions, layers, network, pod, policy, storage,
    workloads,
};

/// Longest message of a verdict. Messages are recorded as facts and shown on one screen; a container's last words
/// may be longer.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

/// Only scripts ask for the time.
const NO_TIME: Timestamp = Timestamp::from_millis(0);

pub(crate) type Rule = fn(&Object) -> Verdict;

/// Judges an object by the rules that come with us: [`HealthRules::assess`](crate::HealthRules::assess) without scripts.
pub fn assess(object: &Object) -> Option<Result<Health, HealthError>> {
    HealthRules::built_in().assess(object, NO_TIME)
}

/// What the operation's state machine is told of an object seen at a moment, by the rules that come with us:
/// [`HealthRules::observe`](crate::HealthRules::observe) without scripts.
pub fn observe(object: &Object, at: Timestamp) -> Observation {
    HealthRules::built_in().observe(object, at)
}

/// Whether a kind has a built-in rule, or may be judged by the general convention.
pub fn has_rule(gvk: &Gvk) -> bool {
    layers::layer(&gvk.group, &gvk.kind, true).is_some()
}

/// The worst of several statuses; `Healthy` when there are none.
///
/// From best to worst: Healthy, Suspended, Progressing, Missing, Degraded, Unknown.
pub fn worst(statuses: impl IntoIterator<Item = HealthStatus>) -> HealthStatus {
    statuses.into_iter().max().unwrap_or(HealthStatus::Healthy)
}

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

/// Refuses versions a rule was not written for.
pub(crate) fn require_version(
    object: &Object,
    versions: &[&str],
    supported: &'static str,
) -> Result<(), HealthError> {
    let found = object.gvk();
    if versions.contains(&found.version.as_str()) {
        Ok(())
    } else {
        Err(HealthError::UnsupportedVersion { found, supported })
    }
}
