//! Output of an ApplicationSet.

use std::collections::BTreeMap;

use tidegate_model::argo::Application;

use crate::status::{ConditionReason, ReconcileFailure};

/// Complete output of an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppSetOutput {
    /// Generated Applications, by name.
    pub applications: BTreeMap<String, Application>,
    /// Rejected names and the reasons, such as a duplicate or invalid name. Existing Applications with these
    /// names are left alone.
    pub rejected: BTreeMap<String, String>,
    /// Generators without output, and the reasons. A missing Application may have come from one of them, so
    /// it may still be wanted.
    pub without_output: Vec<String>,
    /// Errors of failed generators. A missing Application may have come from one of them, so it may still be
    /// wanted.
    pub errors: Vec<String>,
    /// Warnings about parameters that are missing from the Applications.
    pub warnings: Vec<String>,
}

impl AppSetOutput {
    /// Returns the reason a missing Application may still be wanted, or `None` if the output is complete.
    pub(crate) fn uncertainty_reason(&self) -> Option<String> {
        let refused = || self.rejected.first_key_value().map(|(name, why)| format!("{name} {why}"));
        // A missing Application may have been rejected, for example because its name is misspelled.
        self.errors.first().or(self.without_output.first()).cloned().or_else(refused)
    }

    /// If the output is incomplete, rejects the names that the last complete output rejected, because the
    /// cause may be in the missing part. For example, one of two Applications of the same name looks unique
    /// if the other is missing.
    pub fn keep_rejected(&mut self, before: &BTreeMap<String, String>) {
        if self.errors.is_empty() && self.without_output.is_empty() {
            return;
        }
        for (name, reason) in before {
            if self.applications.remove(name).is_some() {
                self.rejected.insert(name.clone(), reason.clone());
            }
        }
    }

    /// Returns the generators' failure to report in the conditions.
    pub(crate) fn failure(&self) -> Option<ReconcileFailure> {
        let all = self.errors.join("; ");
        let message = format!(
            "{all}; Applications from the other generators are still created and updated, but no Applications are deleted"
        );
        let reason = ConditionReason::ApplicationGenerationFromParamsError;
        (!self.errors.is_empty()).then_some(ReconcileFailure { reason, message })
    }
}
