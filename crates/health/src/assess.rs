use tidegate_model::annotations::HOOK_FINALIZER;
use tidegate_model::{Gvk, Health, HealthStatus, Object};

use crate::verdict::{Verdict, progressing};
use crate::{HealthError, argo, autoscaling, batch, extensions, network, pod, policy, storage, workloads};

/// Longest message of a verdict. Messages are recorded as facts and shown on one screen; a container's last words
/// may be longer.
pub const MESSAGE_BYTES_MAX: usize = 4_096;

type Rule = fn(&Object) -> Verdict;

/// Judges an object.
///
/// - `None`: the kind has no health rule, and a gate does not wait for it (ConfigMap, Secret, roles, …).
/// - `Some(Err(_))`: there is a rule, but it could not be applied; counts as [`HealthStatus::Unknown`].
///
/// An object that is being deleted is `Progressing`, whatever its kind, unless it carries the hook finalizer: a hook
/// is kept visible by that finalizer exactly so that its result can still be read.
pub fn assess(object: &Object) -> Option<Result<Health, HealthError>> {
    let verdict = if object.is_deleting() && !object.has_finalizer(HOOK_FINALIZER) {
        progressing("Pending deletion")
    } else {
        rule(object.group(), object.kind())?(object)
    };
    Some(verdict.map(|health| Health { message: shortened(health.message), ..health }))
}

/// Whether a kind has a health rule.
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
fn rule(group: &str, kind: &str) -> Option<Rule> {
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

fn shortened(mut message: String) -> String {
    const MARK: &str = "…";
    if message.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX.saturating_sub(MARK.len());
        while !message.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        message.truncate(end);
        message.push_str(MARK);
    }
    message
}
