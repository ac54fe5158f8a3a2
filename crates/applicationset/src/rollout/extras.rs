//! What a set says of its progressive sync beside what Argo CD knows.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tidegate_lifecycle::rollout::{OnFailure, OnNewTargets, OnPending, Options, Step};
use tidegate_model::argo::ApplicationSet;
use tidegate_model::parse_duration;

/// On a set, in YAML: deadlines, gates and failure budgets of its steps, and what is done in cases.
pub const ROLLOUT_ANNOTATION: &str = "tidegate.dev/rollout";
/// What stands before how long a step waits.
const SOAK: &str = "soak:";

/// Why what is said there means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidExtras {
    /// It cannot be read.
    #[error("the annotation {ROLLOUT_ANNOTATION} cannot be read: {0}")]
    Unreadable(String),
    /// It is about a step that is not there, or that is in it already.
    #[error("the annotation {ROLLOUT_ANNOTATION} is about step {step}, {problem}")]
    Step {
        /// Which.
        step: usize,
        /// Why that cannot be.
        problem: &'static str,
    },
    /// Something in it is no duration.
    #[error("the annotation {ROLLOUT_ANNOTATION}: {field} {text:?} is no duration such as 10m")]
    Duration {
        /// Where.
        field: &'static str,
        /// What it says.
        text: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Written {
    on_new_targets: Option<WrittenNewTargets>,
    pending_timeout: Option<String>,
    on_pending: Option<WrittenPending>,
    steps: Vec<WrittenStep>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenStep {
    step: usize,
    #[serde(default)]
    gates: Vec<String>,
    deadline: Option<String>,
    max_failures: Option<u32>,
    on_failure: Option<WrittenFailure>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenNewTargets {
    Finish,
    Supersede,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenPending {
    Healthy,
    Fail,
    Hold,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WrittenFailure {
    Pause,
    Abort,
    Rollback,
}

/// What a set says itself of cases; for the rest the service decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnCases {
    /// What new targets do to a rollout.
    pub on_new_targets: Option<OnNewTargets>,
    /// How long an Application may be Pending.
    pub pending_timeout: Option<Duration>,
    /// What follows then.
    pub on_pending: Option<OnPending>,
}

impl OwnCases {
    /// What the annotation of a set says.
    ///
    /// # Errors
    ///
    /// It cannot be read, or means nothing.
    pub fn of(set: &ApplicationSet) -> Result<Self, InvalidExtras> {
        Self::from_written(&Written::of(set)?)
    }

    fn from_written(written: &Written) -> Result<Self, InvalidExtras> {
        let timeout = written.pending_timeout.as_deref();
        Ok(Self {
            on_new_targets: written.on_new_targets.as_ref().map(|written| match written {
                WrittenNewTargets::Finish => OnNewTargets::Finish,
                WrittenNewTargets::Supersede => OnNewTargets::Supersede,
            }),
            pending_timeout: timeout.map(|text| duration("pendingTimeout", text)).transpose()?,
            on_pending: written.on_pending.as_ref().map(|written| match written {
                WrittenPending::Healthy => OnPending::Healthy,
                WrittenPending::Fail => OnPending::Fail,
                WrittenPending::Hold => OnPending::Hold,
            }),
        })
    }

    /// With what the service decides where the set says nothing.
    fn or(self, service: Options) -> Options {
        Options {
            pending_timeout: self.pending_timeout.or(service.pending_timeout),
            on_pending: self.on_pending.unwrap_or(service.on_pending),
            on_new_targets: self.on_new_targets.unwrap_or(service.on_new_targets),
        }
    }
}

impl Written {
    /// Nothing, where there is no annotation.
    fn of(set: &ApplicationSet) -> Result<Self, InvalidExtras> {
        let Some(text) = set.metadata.annotations.get(ROLLOUT_ANNOTATION) else { return Ok(Self::default()) };
        serde_saphyr::from_str(text).map_err(|error| InvalidExtras::Unreadable(error.to_string()))
    }
}

/// The steps and the cases with what the annotation of a set says of them.
pub(super) fn apply(
    set: &ApplicationSet,
    steps: Vec<crate::steps::Step>,
    cases: Options,
) -> Result<(Vec<Step>, Options), InvalidExtras> {
    let plain = |step: crate::steps::Step| Step {
        expressions: step.expressions,
        max_update: step.max_update,
        ..Step::default()
    };
    let mut steps: Vec<Step> = steps.into_iter().map(plain).collect();
    let written = Written::of(set)?;
    let cases = OwnCases::from_written(&written)?.or(cases);
    let mut seen = BTreeSet::new();
    for written in written.steps {
        let number = written.step;
        let wrong = |problem| InvalidExtras::Step { step: number, problem };
        if !seen.insert(number) {
            return Err(wrong("and says so twice"));
        }
        let place = number.checked_sub(1).and_then(|index| steps.get_mut(index));
        extend(
            place.ok_or_else(|| wrong("and the set has no such step; they are counted from 1"))?,
            written,
        )?;
    }
    Ok((steps, cases))
}

fn extend(step: &mut Step, written: WrittenStep) -> Result<(), InvalidExtras> {
    for soak in written.gates.iter().filter_map(|gate| gate.strip_prefix(SOAK)) {
        duration("a gate soak:", soak)?;
    }
    step.gates = written.gates;
    step.deadline = written.deadline.map(|text| duration("deadline", &text)).transpose()?;
    step.max_failures = written.max_failures;
    step.on_failure = match written.on_failure {
        None | Some(WrittenFailure::Pause) => OnFailure::Pause,
        Some(WrittenFailure::Abort) => OnFailure::Abort,
        Some(WrittenFailure::Rollback) => OnFailure::RollBack,
    };
    Ok(())
}

fn duration(field: &'static str, text: &str) -> Result<Duration, InvalidExtras> {
    parse_duration(text).map_err(|_| InvalidExtras::Duration { field, text: text.to_owned() })
}
