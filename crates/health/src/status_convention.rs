//! General convention for the status of custom resources without a rule.
//!
//! Controllers that follow it write the observed generation, and conditions with well-known names.
//! Kubernetes' cli-utils documents it as `kstatus`. As there, the checks run in this order: an outdated
//! status, `Stalled`, `Failed`, `Degraded`, `Reconciling`, `Ready`, `Available`, and finally the generation
//! alone, unless the phase says that the object isn't ready. There are no errors: an object that doesn't
//! follow the convention has no health status.

use serde_json::Value;
use tidegate_model::annotations::HEALTH_CONVENTION;
use tidegate_model::{Health, HealthStatus, Object, Timestamp};

use crate::application::is_hook;
use crate::builtin::RowAssessment;
use crate::generation;

/// Maximum time in seconds from an object's creation to the controller's first status.
const STATUS_EXPECTED_SECONDS: i64 = 60;

/// Value of the annotation that controls the convention for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConventionSetting {
    /// Not set: the convention applies if the status follows it.
    Unset,
    /// Never applies.
    Off,
    /// The object must have a status, and is Progressing until it does.
    Required,
}

pub(crate) fn convention_setting(object: &Object) -> ConventionSetting {
    match object.annotation(HEALTH_CONVENTION) {
        Some("off") => ConventionSetting::Off,
        Some("required") => ConventionSetting::Required,
        _ => ConventionSetting::Unset,
    }
}

/// Kubernetes' own groups, in addition to those without a dot. Their kinds have a rule or no health status.
const KUBERNETES_GROUPS: [&str; 18] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// Third-party kinds intentionally without a health status; see the `argo` module.
const EXCLUDED_KINDS: [(&str, &str); 2] = [("argoproj.io", "Application"), ("argoproj.io", "AppProject")];

/// Returns true if the convention can apply to a kind.
pub(crate) fn applies_to_kind(group: &str, kind: &str) -> bool {
    group.contains('.') && !KUBERNETES_GROUPS.contains(&group) && !EXCLUDED_KINDS.contains(&(group, kind))
}

/// Returns the health of an object according to the convention.
pub(crate) fn assess_by_convention(object: &Object) -> RowAssessment {
    let health = |status, message: String, generation| RowAssessment {
        health: Some(Health::new(status, message)),
        generation,
        has_grace_period: false,
    };
    if has_no_status(object) && convention_setting(object) == ConventionSetting::Required {
        return health(HealthStatus::Progressing, "Waiting for the status to be reported".to_owned(), None);
    }
    let observed = generation::observed_generation(object);
    if observed.is_some_and(|seen| seen < object.generation()) {
        return health(
            HealthStatus::Progressing,
            generation::outdated_status_message(object.generation()),
            observed,
        );
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let find = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|condition| condition_field(condition, "type") == kind)
            .map(|condition| (condition, condition_field(condition, "status")))
    };
    for (kind, status) in [
        ("Stalled", HealthStatus::Degraded),
        ("Failed", HealthStatus::Degraded),
        ("Degraded", HealthStatus::Degraded),
        ("Reconciling", HealthStatus::Progressing),
    ] {
        if let Some((condition, "True")) = find(kind) {
            return condition_health(condition, status, object);
        }
    }
    for kind in ["Ready", "Available"] {
        match find(kind) {
            Some((condition, "True")) => return condition_health(condition, HealthStatus::Healthy, object),
            Some((condition, "False" | "Unknown")) => {
                return condition_health(condition, HealthStatus::Progressing, object);
            }
            _ => {}
        }
    }
    match observed {
        Some(seen) => match phase_health(object) {
            Some((status, message)) => health(status, message, observed),
            None => health(
                HealthStatus::Healthy,
                format!("The controller has observed generation {seen}"),
                observed,
            ),
        },
        None => RowAssessment { health: None, generation: None, has_grace_period: false },
    }
}

/// Phases in which an object isn't ready.
const NOT_READY_PHASES: [&str; 16] = [
    "pending",
    "creating",
    "initializing",
    "progressing",
    "provisioning",
    "reconciling",
    "installing",
    "upgrading",
    "updating",
    "deploying",
    "starting",
    "scaling",
    "waiting",
    "queued",
    "inprogress",
    "in progress",
];
const FAILED_PHASES: [&str; 4] = ["failed", "failure", "error", "degraded"];

/// Returns the health of an object based on its phase, for controllers that write the generation but none of
/// the convention's conditions.
fn phase_health(object: &Object) -> Option<(HealthStatus, String)> {
    ["phase", "state", "status"].into_iter().find_map(|field| {
        let word = object.pointer(&format!("/status/{field}"))?.as_str()?;
        // Some controllers write "ERROR, reason".
        let plain = word.split([',', ':']).next().unwrap_or_default().trim().to_lowercase();
        let status = match plain.as_str() {
            plain if NOT_READY_PHASES.contains(&plain) => HealthStatus::Progressing,
            plain if FAILED_PHASES.contains(&plain) => HealthStatus::Degraded,
            _ => return None,
        };
        Some((status, format!("{field} is {word}")))
    })
}

fn condition_health(condition: &Value, status: HealthStatus, object: &Object) -> RowAssessment {
    let seen = condition.get("observedGeneration").and_then(Value::as_i64);
    // A generation for the whole status takes precedence over those of single conditions.
    let is_old = generation::observed_generation(object).is_none()
        && seen.is_some_and(|seen| seen < object.generation());
    if is_old {
        let waiting =
            Health::new(HealthStatus::Progressing, generation::outdated_status_message(object.generation()));
        return RowAssessment { health: Some(waiting), generation: seen, has_grace_period: false };
    }
    let (kind, is, reason) = (
        condition_field(condition, "type"),
        condition_field(condition, "status"),
        condition_field(condition, "reason"),
    );
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = match condition_field(condition, "message") {
        message if message.trim().is_empty() => format!("{kind} is {is}{because}"),
        message => message.to_owned(),
    };
    RowAssessment { health: Some(Health::new(status, message)), generation: seen, has_grace_period: false }
}

/// Returns true if an object has no status yet.
fn has_no_status(object: &Object) -> bool {
    match object.pointer("/status") {
        None | Some(Value::Null) => true,
        Some(status) => status.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

/// Returns the provisional health of an object that may still get its first status: Healthy, but without
/// evidence, so that a wave waits for some time before accepting it. The wave thus neither hangs on a kind
/// without a status nor moves on before the first report. Hooks have no provisional health, because they are
/// done once created.
pub(crate) fn provisional_health(object: &Object, now: Timestamp) -> Option<Health> {
    let may_speak = has_no_status(object) && !is_hook(object) && !is_status_overdue(object, now);
    may_speak.then(|| Health::new(HealthStatus::Healthy, "has reported no status"))
}

fn is_status_overdue(object: &Object, now: Timestamp) -> bool {
    let made: Option<Timestamp> = object.text("/metadata/creationTimestamp").parse().ok();
    made.is_some_and(|made| now.as_seconds().saturating_sub(made.as_seconds()) > STATUS_EXPECTED_SECONDS)
}

fn condition_field<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}
