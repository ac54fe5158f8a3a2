//! The general convention for the status of custom resources, for kinds that nobody wrote a rule for.
//!
//! Controllers that follow it write the generation they have seen, and conditions with agreed names; the cli-utils of
//! Kubernetes describe it as `kstatus`. The order of the checks is theirs: an old status, `Stalled`, `Failed`,
//! `Reconciling`, `Ready`, `Available`, and last the generation alone. Nothing is an error here: what does not follow the
//! convention has no health.

use serde_json::Value;
use tidegate_model::annotations::HEALTH_CONVENTION;
use tidegate_model::{Health, HealthStatus, Object, Timestamp};

use crate::application::is_hook;
use crate::builtin::Judged;
use crate::generation;

/// A controller that has said nothing for so long after an object was made will not begin to.
const SILENT_SECONDS: i64 = 60;

/// What the annotation of an object wishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Judged where the status follows the convention.
    Unsaid,
    /// Never judged by the convention.
    Off,
    /// A status is on its way: without one the object progresses.
    Required,
}

pub(crate) fn wish(object: &Object) -> Wish {
    match object.annotation(HEALTH_CONVENTION) {
        Some("off") => Wish::Off,
        Some("required") => Wish::Required,
        _ => Wish::Unsaid,
    }
}

/// Groups that Kubernetes itself serves, besides those without a dot. What is in them either has a rule or no health.
const KUBERNETES: [&str; 18] = [
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
/// Kinds of others whose health is left alone on purpose, as [`crate::rule`] says.
const LEFT_ALONE: [(&str, &str); 2] = [("argoproj.io", "Application"), ("argoproj.io", "AppProject")];

/// Whether the convention is for a kind at all.
pub(crate) fn is_for(group: &str, kind: &str) -> bool {
    group.contains('.') && !KUBERNETES.contains(&group) && !LEFT_ALONE.contains(&(group, kind))
}

/// What the status of an object says by the convention.
pub(crate) fn judge(object: &Object) -> Judged {
    let health = |status, message: String, generation| Judged {
        health: Some(Health::new(status, message)),
        generation,
    };
    if is_silent(object) && wish(object) == Wish::Required {
        return health(HealthStatus::Progressing, "Waiting for the status to be reported".to_owned(), None);
    }
    let observed = generation::observed(object);
    if observed.is_some_and(|seen| seen < object.generation()) {
        return health(HealthStatus::Progressing, generation::waiting(object.generation()), observed);
    }
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let find = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.find(|condition| text(condition, "type") == kind)
            .map(|condition| (condition, text(condition, "status")))
    };
    for (kind, status) in [
        ("Stalled", HealthStatus::Degraded),
        ("Failed", HealthStatus::Degraded),
        ("Reconciling", HealthStatus::Progressing),
    ] {
        if let Some((condition, "True")) = find(kind) {
            return from(condition, status, object);
        }
    }
    for kind in ["Ready", "Available"] {
        match find(kind) {
            Some((condition, "True")) => return from(condition, HealthStatus::Healthy, object),
            Some((condition, "False" | "Unknown")) => {
                return from(condition, HealthStatus::Progressing, object);
            }
            _ => {}
        }
    }
    match observed {
        Some(seen) => {
            health(HealthStatus::Healthy, format!("The controller has seen generation {seen}"), observed)
        }
        None => Judged { health: None, generation: None },
    }
}

fn from(condition: &Value, status: HealthStatus, object: &Object) -> Judged {
    let seen = condition.get("observedGeneration").and_then(Value::as_i64);
    // What speaks about the whole status goes before what speaks about one condition.
    let is_old =
        generation::observed(object).is_none() && seen.is_some_and(|seen| seen < object.generation());
    if is_old {
        let waiting = Health::new(HealthStatus::Progressing, generation::waiting(object.generation()));
        return Judged { health: Some(waiting), generation: seen };
    }
    let (kind, is, reason) = (text(condition, "type"), text(condition, "status"), text(condition, "reason"));
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let message = match text(condition, "message") {
        message if message.trim().is_empty() => format!("{kind} is {is}{because}"),
        message => message.to_owned(),
    };
    Judged { health: Some(Health::new(status, message)), generation: seen }
}

/// Whether an object has no status at all, yet.
fn is_silent(object: &Object) -> bool {
    match object.pointer("/status") {
        None | Some(Value::Null) => true,
        Some(status) => status.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

/// What stands for the health of an object that has no status and may get one: that it does well, which only time can
/// prove. A wave waits for such proof as long as for any other status without a generation; it neither hangs on a kind
/// that never reports, nor passes in the moment before the first report. Hooks count as done once they are created.
pub(crate) fn until_it_speaks(object: &Object, now: Timestamp) -> Option<Health> {
    let may_speak = is_silent(object) && !is_hook(object) && !is_old(object, now);
    may_speak.then(|| Health::new(HealthStatus::Healthy, "has reported no status"))
}

fn is_old(object: &Object, now: Timestamp) -> bool {
    let made: Option<Timestamp> = object.text("/metadata/creationTimestamp").parse().ok();
    made.is_some_and(|made| now.as_seconds().saturating_sub(made.as_seconds()) > SILENT_SECONDS)
}

fn text<'a>(condition: &'a Value, field: &str) -> &'a str {
    condition.get(field).and_then(Value::as_str).unwrap_or_default()
}
