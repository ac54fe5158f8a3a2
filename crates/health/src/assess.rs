//! Health of objects without user rules.

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::{HealthError, HealthRules, layers};

/// Placeholder for the time if the caller has no clock. Scripts see this time, and grace periods never end.
const UNKNOWN_TIME: Timestamp = Timestamp::from_millis(0);

/// Returns an object's health by the built-in rules, as if its grace period never ended. Equivalent to
/// [`HealthRules::assess`](crate::HealthRules::assess) without scripts.
pub fn assess(object: &Object) -> Option<Result<Health, HealthError>> {
    HealthRules::built_in().assess(object, UNKNOWN_TIME)
}

/// Returns the observation of an object by the built-in rules, for the operation's state machine. Equivalent
/// to [`HealthRules::observe`](crate::HealthRules::observe) without scripts.
pub fn observe(object: &Object, at: Timestamp) -> Observation {
    HealthRules::built_in().observe(object, at)
}

/// Returns true if a kind has a built-in rule or may follow the general convention.
pub fn has_rule(gvk: &Gvk) -> bool {
    layers::layer_of_kind(&gvk.group, &gvk.kind, true).is_some()
}
