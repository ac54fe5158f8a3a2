//! How an application does, as its objects do together.

use tidegate_model::annotations::{HELM_HOOK, HOOK, IGNORE_HEALTHCHECK};
use tidegate_model::{HealthStatus, Object};

use crate::verdict::worst;

/// The health of an application, from its objects in the cluster and the verdict on each: the worst of those that count.
/// No verdict does not count, nor does an object that asks not to be counted.
pub fn of_application<'o>(
    judged: impl IntoIterator<Item = (&'o Object, Option<HealthStatus>)>,
) -> HealthStatus {
    worst(judged.into_iter().filter_map(|(object, status)| status.filter(|status| counts(object, *status))))
}

fn counts(object: &Object, status: HealthStatus) -> bool {
    // A child that is not there yet, or tells nothing, makes an application of applications no worse.
    let is_child = (object.group(), object.kind()) == ("argoproj.io", "Application");
    let tells_nothing = matches!(status, HealthStatus::Missing | HealthStatus::Unknown);
    object.annotation(IGNORE_HEALTHCHECK) != Some("true") && !is_hook(object) && !(is_child && tells_nothing)
}

/// Hooks, and what is skipped.
pub(crate) fn is_hook(object: &Object) -> bool {
    object.annotation(HOOK).is_some()
        || object.annotation(HELM_HOOK).is_some_and(|hook| hook != "crd-install")
}
