//! Health of objects when there are no user rules.

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::{HealthError, HealthRules, layers};

/// Time that is used by callers without a clock. Scripts see this time, and grace periods never end.
const UNKNOWN_TIME: Timestamp = Timestamp::from_millis(0);

/// Returns the health of an object according to the built-in rules, as if its grace period never ended.
/// Equivalent to [`HealthRules::assess`](crate::HealthRules::assess) without scripts.
pub fn assess(object: &Object) -> Option<Result<Health, HealthError>> {
    HealthRules::built_in().assess(object, UNKNOWN_TIME)
}

/// Returns the observation of an object at a given time according to the built-in rules, for the operation's
/// state machine. Equivalent to [`HealthRules::observe`](crate::HealthRules::observe) without scripts.
pub fn observe(object: &Object, at: Timestamp) -> Observation {
    HealthRules::built_in().observe(object, at)
}

/// Returns true if a kind has a built-in rule, or if the general convention can apply to it.
pub fn has_rule(gvk: &Gvk) -> bool {
    layers::layer_of_kind(&gvk.group, &gvk.kind, true).is_some()
}
