//! Results of an ApplicationSet's reconcile passes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::changes::{AppSetChanges, AppSetOutput, AppSetProblem};
use crate::requeue::ReconcileOutcome;
use crate::status::ReconcileFailure;

/// Result of a pass.
#[derive(Debug)]
pub struct FinishedPass<'a> {
    /// Generated Applications, except those of failed generators. `None` if all generators failed.
    pub generated: Option<Arc<AppSetOutput>>,
    /// Reason the pass failed.
    pub failure: Option<ReconcileFailure>,
    /// Required changes to the Applications.
    pub changes: &'a AppSetChanges,
    /// Reasons manifests couldn't be compared with the target's, by Application. `None` if the pass didn't
    /// get that far.
    pub awaited: Option<BTreeMap<String, String>>,
}

/// Results of an ApplicationSet's passes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassResults {
    /// Generated Applications, except those of failed generators. `None` before the first pass or if all
    /// generators failed.
    pub generated: Option<Arc<AppSetOutput>>,
    /// Rejected names and the reasons, from the last pass without failed generators.
    pub last_rejected: Arc<BTreeMap<String, String>>,
    /// Reason the last pass, the start of a rollout or the deletion failed.
    pub failure: Option<ReconcileFailure>,
    /// Errors that the last pass found in the ApplicationSet itself.
    pub spec_problems: Vec<AppSetProblem>,
    /// Rejected Applications, with the reasons.
    pub refused: BTreeMap<String, String>,
    /// Applications that differ from the generated ones but aren't updated, with the reasons.
    pub unmanaged: BTreeMap<String, String>,
    /// Reasons manifests couldn't be compared with the target's, by Application.
    pub awaited: BTreeMap<String, String>,
}

impl PassResults {
    /// Records the result of a pass.
    pub fn record(&mut self, pass: FinishedPass<'_>) {
        let FinishedPass { generated, failure, changes, awaited } = pass;
        let is_whole =
            |output: &&Arc<AppSetOutput>| output.errors.is_empty() && output.without_output.is_empty();
        if let Some(output) = generated.as_ref().filter(is_whole) {
            self.last_rejected = Arc::new(output.rejected.clone());
        }
        self.unmanaged = describe(changes.retained_applications());
        self.refused = describe(changes.rejected_applications());
        self.spec_problems.clone_from(&changes.problems);
        (self.generated, self.failure) = (generated, failure);
        if let Some(awaited) = awaited {
            self.awaited = awaited;
        }
    }

    /// Returns true if all Applications were generated.
    pub fn is_complete(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.errors.is_empty())
    }

    /// Returns the outcome that determines when to generate next.
    pub fn outcome(&self) -> ReconcileOutcome {
        match self.failure {
            _ if !self.is_complete() => ReconcileOutcome::Failed,
            Some(_) => ReconcileOutcome::Partial,
            None => ReconcileOutcome::Complete,
        }
    }

    /// Adds a failure to that of the pass.
    pub fn add_failure(&mut self, other: ReconcileFailure) {
        match &mut self.failure {
            Some(failure) => failure.message = format!("{}; {}", failure.message, other.message),
            None => self.failure = Some(other),
        }
    }

    /// Returns the warnings about the generated Applications.
    pub fn output_warnings(&self) -> &[String] {
        self.generated.as_ref().map(|generated| generated.warnings.as_slice()).unwrap_or_default()
    }
}

/// Returns the text of each Application's reason.
fn describe<'a, R: ToString + 'a>(all: impl Iterator<Item = (&'a str, &'a R)>) -> BTreeMap<String, String> {
    all.map(|(name, reason)| (name.to_owned(), reason.to_string())).collect()
}
