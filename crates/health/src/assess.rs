//! Judging without rules of the user.

use tidegate_model::{Gvk, Health, Object, Observation, Timestamp};

use crate::{HealthError, HealthRules, layers};

/// Only scripts ask for the time.
const NO_TIME: Timestamp = Timestamp::from_millis(0);

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
