//! Conditions of an ApplicationSet with their transition times, and the resulting health.

use std::fmt;

use tidegate_model::argo::{ApplicationSetCondition, HealthState, UnknownFields};
use tidegate_model::{HealthStatus, Timestamp};

use super::{ReconciledState, RolloutStatus};

const ERROR_OCCURRED: &str = "ErrorOccurred";
const PARAMETERS_GENERATED: &str = "ParametersGenerated";
const RESOURCES_UP_TO_DATE: &str = "ResourcesUpToDate";
const ROLLOUT_PROGRESSING: &str = "RolloutProgressing";
/// Tidegate-specific condition type: a problem with the deletion of the ApplicationSet.
const DELETION_ORDER_WARNING: &str = "DeletionOrderWarning";
/// Reason for the `DeletionOrderWarning` condition.
pub const FOREGROUND_DELETION_REASON: &str = "ForegroundDeletion";
/// Tidegate-specific condition type: an Application holds up the progressive sync.
const ROLLOUT_HELD_WARNING: &str = "RolloutHeldWarning";
/// Reason for the `RolloutHeldWarning` condition.
const PENDING_TIMEOUT_REASON: &str = "PendingTimeout";
/// Tidegate-specific condition type: ApplicationSet settings without effect, and template tags without a
/// parameter in the generated Applications.
const SPEC_WARNING: &str = "SpecWarning";
/// Reason of a `SpecWarning` if any setting has no effect.
const NO_EFFECT_REASON: &str = "NoEffect";
/// Reason of a `SpecWarning` if there are only template tags without a parameter.
const UNKNOWN_PARAMETER_REASON: &str = "UnknownParameter";
const TRUE: &str = "True";
const FALSE: &str = "False";
/// Maximum length of a message in bytes. It is truncated if thousands of Applications have problems.
const MESSAGE_MAX: usize = 8 << 10;

/// Reason for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionReason {
    /// A generator has failed.
    ApplicationGenerationFromParamsError,
    /// A template could not be rendered.
    RenderTemplateParamsError,
    /// Some Applications were rejected.
    ApplicationValidationError,
    /// An Application could not be created.
    CreateApplicationError,
    /// An Application could not be updated.
    UpdateApplicationError,
    /// An Application could not be deleted.
    DeleteApplicationError,
    /// The ApplicationSet itself could not be written.
    RefreshApplicationError,
    /// The progressive sync could not start.
    SyncApplicationError,
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Failure of a reconciliation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconcileFailure {
    /// Type of the failure.
    pub reason: ConditionReason,
    /// Human-readable description.
    pub message: String,
}

/// Returns the new conditions. Unchanged conditions keep their transition times, and conditions of other
/// types are kept. Without a progressive sync, the `RolloutProgressing` condition is removed.
pub(super) fn new_conditions(
    before: &[ApplicationSetCondition],
    seen: &ReconciledState<'_>,
    rolls: bool,
    ignored: &[String],
    now: Timestamp,
) -> Vec<ApplicationSetCondition> {
    let mut found = current_conditions(seen);
    let is_over = |kind: &str| match kind {
        ROLLOUT_PROGRESSING => !rolls,
        ROLLOUT_HELD_WARNING => !rolls || matches!(seen.rollout, RolloutStatus::Known { warning: None, .. }),
        // Added again below if they still apply.
        DELETION_ORDER_WARNING | SPEC_WARNING => true,
        _ => false,
    };
    let warnings = [ignored, seen.output_warnings].concat();
    if !warnings.is_empty() {
        let reason = if ignored.is_empty() { UNKNOWN_PARAMETER_REASON } else { NO_EFFECT_REASON };
        found.push(condition(SPEC_WARNING, true, reason, truncate_message(&warnings.join("; "))));
    }
    if let Some(warning) = &seen.warning {
        found.push(condition(
            DELETION_ORDER_WARNING,
            true,
            FOREGROUND_DELETION_REASON,
            truncate_message(warning),
        ));
    }
    if let (true, RolloutStatus::Known { is_progressing, reason, message, warning, .. }) =
        (rolls, &seen.rollout)
    {
        found.push(condition(ROLLOUT_PROGRESSING, *is_progressing, reason, truncate_message(message)));
        found.extend(warning.iter().map(|warning| {
            condition(ROLLOUT_HELD_WARNING, true, PENDING_TIMEOUT_REASON, truncate_message(warning))
        }));
    }
    let mut all: Vec<ApplicationSetCondition> = before
        .iter()
        .filter(|old| !is_over(&old.kind) && !found.iter().any(|new| new.kind == old.kind))
        .cloned()
        .collect();
    for new in found {
        let old = before.iter().find(|old| {
            condition_content(old) == condition_content(&new) && old.last_transition_time.is_some()
        });
        let fresh = || ApplicationSetCondition { last_transition_time: Some(now.into()), ..new };
        all.push(old.cloned().unwrap_or_else(fresh));
    }
    all.sort_by(|a, b| condition_content(a).cmp(&condition_content(b)));
    all
}

/// Returns a condition without its transition time.
fn condition_content(one: &ApplicationSetCondition) -> (&str, &str, &str, &str) {
    (&one.kind, &one.status, &one.reason, &one.message)
}

fn current_conditions(seen: &ReconciledState<'_>) -> Vec<ApplicationSetCondition> {
    let generated = condition(
        PARAMETERS_GENERATED,
        true,
        "ParametersGenerated",
        "Successfully generated parameters for all Applications",
    );
    match &seen.failure {
        None => {
            let well = |kind, is| {
                let message = "All applications have been generated successfully";
                condition(kind, is, "ApplicationSetUpToDate", message)
            };
            vec![well(ERROR_OCCURRED, false), generated, well(RESOURCES_UP_TO_DATE, true)]
        }
        Some(ReconcileFailure { reason, message }) => {
            let message = truncate_message(message);
            let not = |kind| condition(kind, false, ERROR_OCCURRED, message);
            let generated = if seen.is_generated { generated } else { not(PARAMETERS_GENERATED) };
            vec![
                condition(ERROR_OCCURRED, true, &reason.to_string(), message),
                generated,
                not(RESOURCES_UP_TO_DATE),
            ]
        }
    }
}

fn condition(kind: &str, is: bool, reason: &str, message: &str) -> ApplicationSetCondition {
    ApplicationSetCondition {
        kind: kind.to_owned(),
        status: if is { TRUE } else { FALSE }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: None,
        rest: UnknownFields::new(),
    }
}

fn truncate_message(message: &str) -> &str {
    let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// Returns an ApplicationSet's health according to its conditions, with the time of the last change.
pub(super) fn appset_health(
    conditions: &[ApplicationSetCondition],
    before: Option<&HealthState>,
    now: Timestamp,
) -> HealthState {
    let is_true = |kind: &str| conditions.iter().find(|one| one.kind == kind && one.status == TRUE);
    let (status, message) = if let Some(error) = is_true(ERROR_OCCURRED) {
        (HealthStatus::Degraded, error.message.clone())
    } else if let Some(rollout) = is_true(ROLLOUT_PROGRESSING) {
        (HealthStatus::Progressing, rollout.message.clone())
    } else if let Some(done) = is_true(RESOURCES_UP_TO_DATE) {
        (HealthStatus::Healthy, done.message.clone())
    } else {
        (HealthStatus::Unknown, "Waiting for health status to be determined".to_owned())
    };
    let since =
        before.filter(|before| before.status == status).and_then(|before| before.last_transition_time);
    HealthState {
        status,
        message,
        last_transition_time: since.or(Some(now.into())),
        rest: UnknownFields::new(),
    }
}
