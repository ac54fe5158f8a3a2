use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Gvk, Health, HealthStatus, Object};

use crate::text::shorten;
use crate::verdict::{Verdict, progressing};
use crate::{HealthError, argo, autoscaling, batch, extensions, network, pod, policy, storage, workloads};

/// Longest message of a verdict. Messages are recorded as facts and shown on one screen; a container's last words
/// may be longer.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

pub(crate) type Rule = fn(&Object) -> Verdict;

/// Judges an object by the built-in rules: [`HealthRules::assess`](crate::HealthRules::assess) without scripts.
pub fn assess(object: &Object) -> Option<Result<Health, HealthError>> {
    judge(object, |object| rule(object.group(), object.kind()).map(|rule| rule(object)))
}

/// Judges an object by the given rules, if it is to be judged at all.
pub(crate) fn judge(
    object: &Object,
    rules: impl FnOnce(&Object) -> Option<Verdict>,
) -> Option<Result<Health, HealthError>> {
    let verdict = if object.is_deleting() && !object.has_finalizer(HOOK_FINALIZER) {
        progressing("Pending deletion")
    } else {
        rules(object)?
    };
    Some(verdict.map(|health| Health { message: shorten(health.message, MESSAGE_BYTES_MAX), ..health }))
}

/// Whether a kind has a built-in rule.
pub fn has_rule(gvk: &Gvk) -> bool {
    rule(&gvk.group, &gvk.kind).is_some()
}

/// The worst of several statuses; `Healthy` when there are none.
///
/// From best to worst: Healthy, Suspended, Progressing, Missing, Degraded, Unknown.
pub fn worst(statuses: impl IntoIterator<Item = HealthStatus>) -> HealthStatus {
    statuses.into_iter().max().unwrap_or(HealthStatus::Healthy)
}

/// The table of kinds. A kind that is not here has no health rule.
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
