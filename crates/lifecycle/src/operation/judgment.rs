//! Interpretation of an observation for the task that wrote the object.

use tidegate_model::{Evidence, Health, HealthStatus, ObservedState, OperationPhase};

use super::state::AppliedRef;

/// Returns the phase of a hook or resource according to its health, or `None` while the phase is undecided.
pub(crate) fn phase_from_health(is_hook: bool, status: HealthStatus) -> Option<OperationPhase> {
    use HealthStatus as H;
    use OperationPhase as P;
    match (is_hook, status) {
        (_, H::Healthy) | (true, H::Missing) => Some(P::Succeeded),
        (_, H::Degraded) | (true, H::Unknown) => Some(P::Failed),
        (_, H::Progressing | H::Suspended) | (false, H::Unknown | H::Missing) => None,
    }
}

/// Returns the phase of a hook according to its health, or [`OperationPhase::Running`] while the phase is
/// undecided.
pub fn hook_phase(status: HealthStatus) -> OperationPhase {
    phase_from_health(true, status).unwrap_or(OperationPhase::Running)
}

/// Result of comparing an observation with the operation's own write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgment {
    /// The observation is older than the operation's write, or describes an object that the operation didn't
    /// write. It is ignored.
    Stale,
    /// The object no longer exists.
    Gone,
    /// The kind doesn't have a health status to wait for.
    NoHealth,
    /// Health of the object.
    Health {
        /// Health of the observed object according to the health rules.
        health: Health,
        /// True if the health certainly refers to the spec that the operation wrote.
        is_fresh: bool,
        /// True if a health rule failed. The health message then contains the reason.
        has_rule_error: bool,
    },
}

/// Compares an observation with the operation's own write, so that stale observations never count as
/// evidence.
pub(crate) fn compare_with_write(applied: &AppliedRef, observed: &ObservedState) -> Judgment {
    match observed {
        ObservedState::Gone { uid } if uid.as_ref().is_none_or(|uid| *uid == applied.uid) => Judgment::Gone,
        ObservedState::Gone { .. } => Judgment::Stale,
        ObservedState::Present { uid, resource_version, generation, health, unjudged, evidence, .. } => {
            let older = is_older_version(resource_version, &applied.resource_version);
            if *uid != applied.uid {
                // Another client deleted the object and recreated it.
                return if older { Judgment::Stale } else { Judgment::Gone };
            }
            if older || *generation < applied.generation {
                return Judgment::Stale;
            }
            match (health, evidence) {
                (None, _) => Judgment::NoHealth,
                (Some(_), Evidence::ObservedGeneration(seen)) if *seen < applied.generation => {
                    Judgment::Stale
                }
                (Some(health), evidence) => Judgment::Health {
                    health: health.clone(),
                    is_fresh: !matches!(evidence, Evidence::None),
                    has_rule_error: *unjudged,
                },
            }
        }
    }
}

/// Returns true if one resource version is older than another. Resource versions are opaque. If both are
/// numbers, as on every known server, the smaller number is older. Otherwise, the order is unknown.
pub(crate) fn is_older_version(seen: &str, ours: &str) -> bool {
    match (seen.parse::<u128>(), ours.parse::<u128>()) {
        (Ok(seen), Ok(ours)) => seen < ours,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;

    use super::*;

    fn applied_ref() -> AppliedRef {
        AppliedRef {
            uid: "u".into(),
            resource_version: "10".into(),
            generation: 3,
            at: Timestamp::from_millis(0),
        }
    }

    fn observed_state(uid: &str, version: &str, generation: i64, evidence: Evidence) -> ObservedState {
        ObservedState::Present {
            uid: uid.into(),
            resource_version: version.into(),
            generation,
            deleting: false,
            kept_by: String::new(),
            health: Some(Health::new(HealthStatus::Healthy, "")),
            unjudged: false,
            evidence,
        }
    }

    #[test]
    fn only_observations_newer_than_our_write_count() {
        let health = || Health::new(HealthStatus::Healthy, "");
        let healthy = |is_fresh| Judgment::Health { health: health(), is_fresh, has_rule_error: false };
        for (observed, judgement) in [
            (observed_state("u", "10", 3, Evidence::ObservedGeneration(3)), healthy(true)),
            (observed_state("u", "12", 3, Evidence::ObservedGeneration(2)), Judgment::Stale),
            (observed_state("u", "9", 3, Evidence::ObservedGeneration(3)), Judgment::Stale),
            (observed_state("u", "12", 2, Evidence::Identity), Judgment::Stale),
            (observed_state("u", "12", 4, Evidence::Identity), healthy(true)),
            (observed_state("u", "12", 3, Evidence::None), healthy(false)),
            (observed_state("old", "9", 1, Evidence::Identity), Judgment::Stale),
            (observed_state("other", "12", 1, Evidence::Identity), Judgment::Gone),
            (ObservedState::Gone { uid: Some("old".into()) }, Judgment::Stale),
            (ObservedState::Gone { uid: Some("u".into()) }, Judgment::Gone),
            (ObservedState::Gone { uid: None }, Judgment::Gone),
        ] {
            assert_eq!(compare_with_write(&applied_ref(), &observed), judgement, "{observed:?}");
        }
    }
}
