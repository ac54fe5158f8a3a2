//! What is true of a set, and since when; and how well it does by that.

use std::fmt;

use tidegate_model::argo::{ApplicationSetCondition, HealthState, Rest};
use tidegate_model::{HealthStatus, Timestamp};

use super::{Rollout, Seen};

const ERROR: &str = "ErrorOccurred";
const GENERATED: &str = "ParametersGenerated";
const UP_TO_DATE: &str = "ResourcesUpToDate";
const ROLLOUT: &str = "RolloutProgressing";
/// A condition of our own: what the deletion of the set meets.
const WARNING: &str = "DeletionOrderWarning";
/// Why it is there.
pub const FOREGROUND: &str = "ForegroundDeletion";
/// A condition of our own: what keeps the progressive sync back.
const HELD: &str = "RolloutHeldWarning";
/// Why it is there.
const PENDING: &str = "PendingTimeout";
/// A condition of our own: what the set says that has no effect.
const SPEC: &str = "SpecWarning";
/// Why it is there.
const NO_EFFECT: &str = "NoEffect";
const TRUE: &str = "True";
const FALSE: &str = "False";
/// Bytes of a message: what is wrong with thousands of Applications is cut.
const MESSAGE_MAX: usize = 8 << 10;

/// Why a condition is as it is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A generator has failed.
    ApplicationGenerationFromParamsError,
    /// A template could not be filled.
    RenderTemplateParamsError,
    /// Applications are refused.
    ApplicationValidationError,
    /// An Application could not be created.
    CreateApplicationError,
    /// An Application could not be changed.
    UpdateApplicationError,
    /// An Application could not be deleted.
    DeleteApplicationError,
    /// The set itself could not be written.
    RefreshApplicationError,
    /// The progressive sync could not be begun.
    SyncApplicationError,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Of which kind it is.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

/// The conditions now. Those of which nothing has changed keep their time, and those of other kinds stay; that of a
/// progressive sync goes where there is none any more.
pub(super) fn conditions(
    before: &[ApplicationSetCondition],
    seen: &Seen<'_>,
    (rolls, unheeded): (bool, &[String]),
    now: Timestamp,
) -> Vec<ApplicationSetCondition> {
    let mut found = found(seen);
    let is_over = |kind: &str| match kind {
        ROLLOUT => !rolls,
        HELD => !rolls || matches!(seen.rollout, Rollout::Known { warning: None, .. }),
        // What is there still is found anew.
        WARNING | SPEC => true,
        _ => false,
    };
    if !unheeded.is_empty() {
        found.push(condition(SPEC, true, NO_EFFECT, cut(&unheeded.join("; "))));
    }
    if let Some(warning) = &seen.warning {
        found.push(condition(WARNING, true, FOREGROUND, cut(warning)));
    }
    if let (true, Rollout::Known { is_progressing, reason, message, warning, .. }) = (rolls, &seen.rollout) {
        found.push(condition(ROLLOUT, *is_progressing, reason, cut(message)));
        found.extend(warning.iter().map(|warning| condition(HELD, true, PENDING, cut(warning))));
    }
    let mut all: Vec<ApplicationSetCondition> = before
        .iter()
        .filter(|old| !is_over(&old.kind) && !found.iter().any(|new| new.kind == old.kind))
        .cloned()
        .collect();
    for new in found {
        let old = before.iter().find(|old| said(old) == said(&new) && old.last_transition_time.is_some());
        let fresh = || ApplicationSetCondition { last_transition_time: Some(now.into()), ..new };
        all.push(old.cloned().unwrap_or_else(fresh));
    }
    all.sort_by(|a, b| said(a).cmp(&said(b)));
    all
}

/// All that a condition says; since when is no part of it.
fn said(one: &ApplicationSetCondition) -> (&str, &str, &str, &str) {
    (&one.kind, &one.status, &one.reason, &one.message)
}

fn found(seen: &Seen<'_>) -> Vec<ApplicationSetCondition> {
    let generated = condition(
        GENERATED,
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
            vec![well(ERROR, false), generated, well(UP_TO_DATE, true)]
        }
        Some(Failure { reason, message }) => {
            let message = cut(message);
            let not = |kind| condition(kind, false, ERROR, message);
            let generated = if seen.is_generated { generated } else { not(GENERATED) };
            vec![condition(ERROR, true, &reason.to_string(), message), generated, not(UP_TO_DATE)]
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
        rest: Rest::new(),
    }
}

fn cut(message: &str) -> &str {
    let end = (0..=MESSAGE_MAX.min(message.len())).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or_default()).unwrap_or_default()
}

/// How well a set does, by its conditions; since when, where that has changed.
pub(super) fn health(
    conditions: &[ApplicationSetCondition],
    before: Option<&HealthState>,
    now: Timestamp,
) -> HealthState {
    let is_true = |kind: &str| conditions.iter().find(|one| one.kind == kind && one.status == TRUE);
    let (status, message) = if let Some(error) = is_true(ERROR) {
        (HealthStatus::Degraded, error.message.clone())
    } else if let Some(rollout) = is_true(ROLLOUT) {
        (HealthStatus::Progressing, rollout.message.clone())
    } else if let Some(done) = is_true(UP_TO_DATE) {
        (HealthStatus::Healthy, done.message.clone())
    } else {
        (HealthStatus::Unknown, "Waiting for health status to be determined".to_owned())
    };
    let since =
        before.filter(|before| before.status == status).and_then(|before| before.last_transition_time);
    HealthState { status, message, last_transition_time: since.or(Some(now.into())), rest: Rest::new() }
}
