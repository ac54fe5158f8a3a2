//! Short names for verdicts, so that a rule reads like its description.

use tidegate_model::{Health, HealthStatus, Object};

use crate::HealthError;

/// What a rule returns.
pub(crate) type Verdict = Result<Health, HealthError>;

pub(crate) fn healthy(message: impl Into<String>) -> Verdict {
    Ok(Health::new(HealthStatus::Healthy, message))
}

pub(crate) fn suspended(message: impl Into<String>) -> Verdict {
    Ok(Health::new(HealthStatus::Suspended, message))
}

pub(crate) fn progressing(message: impl Into<String>) -> Verdict {
    Ok(Health::new(HealthStatus::Progressing, message))
}

pub(crate) fn degraded(message: impl Into<String>) -> Verdict {
    Ok(Health::new(HealthStatus::Degraded, message))
}

pub(crate) fn unknown(message: impl Into<String>) -> Verdict {
    Ok(Health::new(HealthStatus::Unknown, message))
}

/// The first text that says something.
pub(crate) fn first_of<'a>(texts: &[&'a str]) -> &'a str {
    texts.iter().copied().find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// The worst of several statuses; `Healthy` when there are none.
///
/// From best to worst: Healthy, Suspended, Progressing, Missing, Degraded, Unknown.
pub fn worst(statuses: impl IntoIterator<Item = HealthStatus>) -> HealthStatus {
    statuses.into_iter().max().unwrap_or(HealthStatus::Healthy)
}

/// Refuses versions a rule was not written for.
pub(crate) fn require_version(
    object: &Object,
    versions: &[&str],
    supported: &'static str,
) -> Result<(), HealthError> {
    let found = object.gvk();
    if versions.contains(&found.version.as_str()) {
        Ok(())
    } else {
        Err(HealthError::UnsupportedVersion { found, supported })
    }
}
