//! Health of an application, derived from its objects.

use tidegate_model::annotations::{HELM_HOOK, HOOK, IGNORE_HEALTHCHECK};
use tidegate_model::{HealthStatus, Object};

use crate::verdict::worst_status;

/// Returns the health of an application: the worst health of its live objects. Ignores objects without a
/// health status and those excluded by an annotation.
pub fn application_health<'o>(
    judged: impl IntoIterator<Item = (&'o Object, Option<HealthStatus>)>,
) -> HealthStatus {
    worst_status(
        judged
            .into_iter()
            .filter_map(|(object, status)| status.filter(|status| counts_for_application(object, *status))),
    )
}

fn counts_for_application(object: &Object, status: HealthStatus) -> bool {
    // A child Application that is Missing or Unknown doesn't affect its parent.
    let is_child = (object.group(), object.kind()) == ("argoproj.io", "Application");
    let tells_nothing = matches!(status, HealthStatus::Missing | HealthStatus::Unknown);
    object.annotation(IGNORE_HEALTHCHECK) != Some("true") && !is_hook(object) && !(is_child && tells_nothing)
}

/// Returns true for hooks, including skipped ones.
pub(crate) fn is_hook(object: &Object) -> bool {
    object.annotation(HOOK).is_some()
        || object.annotation(HELM_HOOK).is_some_and(|hook| hook != "crd-install")
}
