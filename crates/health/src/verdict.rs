//! Short constructors for health results, to keep rules readable.

use tidegate_model::{Health, HealthStatus, Object};

use crate::HealthError;

/// Result of a rule.
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

/// Returns the first non-blank text.
pub(crate) fn first_non_blank<'a>(texts: &[&'a str]) -> &'a str {
    texts.iter().copied().find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// Returns the worst of several statuses. `Healthy` if there are none.
///
/// From best to worst: Healthy, Suspended, Progressing, Missing, Degraded, Unknown.
pub fn worst_status(statuses: impl IntoIterator<Item = HealthStatus>) -> HealthStatus {
    statuses.into_iter().max().unwrap_or(HealthStatus::Healthy)
}

/// Rejects versions that the rule doesn't support.
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
