//! Progressive sync settings that Argo CD doesn't have.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tidegate_lifecycle::rollout::{OnFailure, OnNewTargets, OnPending, Options, Step};
use tidegate_model::argo::ApplicationSet;
use tidegate_model::parse_duration;

/// Annotation with deadlines, gates and failure budgets for an ApplicationSet's steps, and rollout options,
/// as YAML.
pub const ROLLOUT_ANNOTATION: &str = "tidegate.dev/rollout";
/// Prefix of a step's soak duration.
const SOAK: &str = "soak:";

/// Error for an invalid rollout annotation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRolloutAnnotation {
    /// The annotation can't be parsed.
    #[error("cannot parse the {ROLLOUT_ANNOTATION} annotation: {0}")]
    Unreadable(String),
    /// A step doesn't exist or is specified twice.
    #[error("{ROLLOUT_ANNOTATION} annotation: step {step} {problem}")]
    Step {
        /// Number of the step.
        step: usize,
        /// Description of the problem.
        problem: &'static str,
    },
    /// A duration is invalid.
    #[error(
        "{ROLLOUT_ANNOTATION} annotation: invalid {field} {text:?}: use a number and a unit, such as 10m"
    )]
    Duration {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        text: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct RolloutAnnotation {
    on_new_targets: Option<AnnotatedNewTargets>,
    pending_timeout: Option<String>,
    on_pending: Option<AnnotatedPending>,
    steps: Vec<AnnotatedStep>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnnotatedStep {
    step: usize,
    #[serde(default)]
    gates: Vec<String>,
    deadline: Option<String>,
    max_failures: Option<u32>,
    on_failure: Option<AnnotatedFailure>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnnotatedNewTargets {
    Finish,
    Supersede,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnnotatedPending {
    Healthy,
    Fail,
    Hold,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AnnotatedFailure {
    Pause,
    Abort,
    Rollback,
}

/// Rollout options of an ApplicationSet. Defaults come from the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolloutOptions {
    /// Effect of new targets on a running rollout.
    pub on_new_targets: Option<OnNewTargets>,
    /// Maximum time that an Application may be Pending.
    pub pending_timeout: Option<Duration>,
    /// Action to take after `pending_timeout`.
    pub on_pending: Option<OnPending>,
}

impl RolloutOptions {
    /// Reads the options from an ApplicationSet's annotation.
    ///
    /// # Errors
    ///
    /// Fails if the annotation is invalid.
    pub fn from_appset(set: &ApplicationSet) -> Result<Self, InvalidRolloutAnnotation> {
        Self::from_annotation(&RolloutAnnotation::from_appset(set)?)
    }

    fn from_annotation(written: &RolloutAnnotation) -> Result<Self, InvalidRolloutAnnotation> {
        let timeout = written.pending_timeout.as_deref();
        Ok(Self {
            on_new_targets: written.on_new_targets.as_ref().map(|written| match written {
                AnnotatedNewTargets::Finish => OnNewTargets::Finish,
                AnnotatedNewTargets::Supersede => OnNewTargets::Supersede,
            }),
            pending_timeout: timeout.map(|text| parse_duration_field("pendingTimeout", text)).transpose()?,
            on_pending: written.on_pending.as_ref().map(|written| match written {
                AnnotatedPending::Healthy => OnPending::Healthy,
                AnnotatedPending::Fail => OnPending::Fail,
                AnnotatedPending::Hold => OnPending::Hold,
            }),
        })
    }

    /// Fills in the service's defaults.
    fn with_defaults(self, service: Options) -> Options {
        Options {
            pending_timeout: self.pending_timeout.or(service.pending_timeout),
            on_pending: self.on_pending.unwrap_or(service.on_pending),
            on_new_targets: self.on_new_targets.unwrap_or(service.on_new_targets),
        }
    }
}

impl RolloutAnnotation {
    /// Parses the annotation. Returns the default if there is no annotation.
    fn from_appset(set: &ApplicationSet) -> Result<Self, InvalidRolloutAnnotation> {
        let Some(text) = set.metadata.annotations.get(ROLLOUT_ANNOTATION) else { return Ok(Self::default()) };
        serde_saphyr::from_str(text).map_err(|error| InvalidRolloutAnnotation::Unreadable(error.to_string()))
    }
}

/// Applies an ApplicationSet's annotation to its steps and options.
pub(super) fn apply_annotation(
    set: &ApplicationSet,
    steps: Vec<crate::rollout_steps::Step>,
    cases: Options,
) -> Result<(Vec<Step>, Options), InvalidRolloutAnnotation> {
    let plain = |step: crate::rollout_steps::Step| Step {
        expressions: step.expressions,
        max_update: step.max_update,
        ..Step::default()
    };
    let mut steps: Vec<Step> = steps.into_iter().map(plain).collect();
    let written = RolloutAnnotation::from_appset(set)?;
    let cases = RolloutOptions::from_annotation(&written)?.with_defaults(cases);
    let mut seen = BTreeSet::new();
    for written in written.steps {
        let number = written.step;
        let wrong = |problem| InvalidRolloutAnnotation::Step { step: number, problem };
        if !seen.insert(number) {
            return Err(wrong("occurs twice"));
        }
        let place = number.checked_sub(1).and_then(|index| steps.get_mut(index));
        extend_step(
            place.ok_or_else(|| wrong("does not exist in the ApplicationSet; steps are numbered from 1"))?,
            written,
        )?;
    }
    Ok((steps, cases))
}

fn extend_step(step: &mut Step, written: AnnotatedStep) -> Result<(), InvalidRolloutAnnotation> {
    for soak in written.gates.iter().filter_map(|gate| gate.strip_prefix(SOAK)) {
        parse_duration_field("gate soak:", soak)?;
    }
    step.gates = written.gates;
    step.deadline = written.deadline.map(|text| parse_duration_field("deadline", &text)).transpose()?;
    step.max_failures = written.max_failures;
    step.on_failure = match written.on_failure {
        None | Some(AnnotatedFailure::Pause) => OnFailure::Pause,
        Some(AnnotatedFailure::Abort) => OnFailure::Abort,
        Some(AnnotatedFailure::Rollback) => OnFailure::RollBack,
    };
    Ok(())
}

fn parse_duration_field(field: &'static str, text: &str) -> Result<Duration, InvalidRolloutAnnotation> {
    parse_duration(text).map_err(|_| InvalidRolloutAnnotation::Duration { field, text: text.to_owned() })
}
