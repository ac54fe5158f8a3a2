//! What an observation of an object means for its task (spec: judging running tasks from the live object).

use tidegate_model::{Evidence, Health, HealthStatus, Observed, OperationPhase};

use super::state::AppliedRef;

/// How a hook or a resource stands by its health; `None` while it is not decided.
pub(crate) fn phase_of(is_hook: bool, status: HealthStatus) -> Option<OperationPhase> {
    use HealthStatus as H;
    use OperationPhase as P;
    match (is_hook, status) {
        (_, H::Healthy) | (true, H::Missing) => Some(P::Succeeded),
        (_, H::Degraded) | (true, H::Unknown) => Some(P::Failed),
        (_, H::Progressing | H::Suspended) | (false, H::Unknown | H::Missing) => None,
    }
}

/// How a hook stands by its health; [`OperationPhase::Running`] while it is not decided.
pub fn hook_phase(status: HealthStatus) -> OperationPhase {
    phase_of(true, status).unwrap_or(OperationPhase::Running)
}

/// What an observation says, compared with our own write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is older than our write, or about an object we did not write: it says nothing.
    Stale,
    /// The object is not there any more.
    Gone,
    /// The kind has no health to wait for.
    NoHealth,
    /// The health, and whether it is surely about the spec we wrote.
    Health {
        /// What the rules say of the object as it was seen.
        health: Health,
        /// Surely about our spec.
        fresh: bool,
        /// The rule failed; the message says why.
        unjudged: bool,
    },
}

/// Compares an observation with our own write, so that old news never counts as evidence.
pub(crate) fn compare(applied: &AppliedRef, observed: &Observed) -> Judgement {
    match observed {
        Observed::Gone { uid } if uid.as_ref().is_none_or(|uid| *uid == applied.uid) => Judgement::Gone,
        Observed::Gone { .. } => Judgement::Stale,
        Observed::Present { uid, resource_version, generation, health, unjudged, evidence, .. } => {
            let older = is_older(resource_version, &applied.resource_version);
            if *uid != applied.uid {
                // Somebody deleted the object and made another of the same name.
                return if older { Judgement::Stale } else { Judgement::Gone };
            }
            if older || *generation < applied.generation {
                return Judgement::Stale;
            }
            match (health, evidence) {
                (None, _) => Judgement::NoHealth,
                (Some(_), Evidence::ObservedGeneration(seen)) if *seen < applied.generation => {
                    Judgement::Stale
                }
                (Some(health), evidence) => Judgement::Health {
                    health: health.clone(),
                    fresh: !matches!(evidence, Evidence::None),
                    unjudged: *unjudged,
                },
            }
        }
    }
}

/// Whether one resource version is older than another. They are opaque texts; where both are numbers, as on every
/// known server, the smaller is the older. Otherwise nothing can be said.
pub(crate) fn is_older(seen: &str, ours: &str) -> bool {
    match (seen.parse::<u128>(), ours.parse::<u128>()) {
        (Ok(seen), Ok(ours)) => seen < ours,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_model::Timestamp;

    use super::*;

    fn ours() -> AppliedRef {
        AppliedRef {
            uid: "u".into(),
            resource_version: "10".into(),
            generation: 3,
            at: Timestamp::from_millis(0),
        }
    }

    fn seen(uid: &str, version: &str, generation: i64, evidence: Evidence) -> Observed {
        Observed::Present {
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
    fn only_news_newer_than_our_write_counts() {
        let health = || Health::new(HealthStatus::Healthy, "");
        let healthy = |fresh| Judgement::Health { health: health(), fresh, unjudged: false };
        for (observed, judgement) in [
            (seen("u", "10", 3, Evidence::ObservedGeneration(3)), healthy(true)),
            (seen("u", "12", 3, Evidence::ObservedGeneration(2)), Judgement::Stale),
            (seen("u", "9", 3, Evidence::ObservedGeneration(3)), Judgement::Stale),
            (seen("u", "12", 2, Evidence::Identity), Judgement::Stale),
            (seen("u", "12", 4, Evidence::Identity), healthy(true)),
            (seen("u", "12", 3, Evidence::None), healthy(false)),
            (seen("old", "9", 1, Evidence::Identity), Judgement::Stale),
            (seen("other", "12", 1, Evidence::Identity), Judgement::Gone),
            (Observed::Gone { uid: Some("old".into()) }, Judgement::Stale),
            (Observed::Gone { uid: Some("u".into()) }, Judgement::Gone),
            (Observed::Gone { uid: None }, Judgement::Gone),
        ] {
            assert_eq!(compare(&ours(), &observed), judgement, "{observed:?}");
        }
    }
}
