//! Conditions of an application and their transition times.

use tidegate_model::Timestamp;
use tidegate_model::argo::{ApplicationCondition, ConditionType};

/// Replaces the conditions of these types with `found`. Other conditions, and the transition times of
/// unchanged ones, are kept.
pub fn set_conditions(
    conditions: &mut Vec<ApplicationCondition>,
    kinds: &[ConditionType],
    found: impl IntoIterator<Item = (ConditionType, String)>,
    now: Timestamp,
) {
    let before = std::mem::take(conditions);
    for (kind, message) in found {
        let known = before.iter().find(|condition| condition.kind == kind && condition.message == message);
        let new = || ApplicationCondition {
            kind,
            message: message.clone(),
            last_transition_time: Some(now.into()),
        };
        conditions.push(known.cloned().unwrap_or_else(new));
    }
    conditions.extend(before.into_iter().filter(|condition| !kinds.contains(&condition.kind)));
    conditions.sort_by(|a, b| {
        (&a.kind, &a.message, a.last_transition_time).cmp(&(&b.kind, &b.message, b.last_transition_time))
    });
}
