//! Conditions that don't depend on a comparison.

use tidegate_model::Timestamp;
use tidegate_model::argo::ConditionType;

use super::{ApplicationMachine, World};
use crate::ignored::{SPEC_WARNING_CONDITION, ignored_annotations};
use crate::refresh;
use crate::{approval, comparison, conditions};

/// Condition types that are specific to Tidegate.
const UNKNOWN_FIELD_CONDITION: &str = "UnknownFieldWarning";
const UNWATCHABLE_CONDITION: &str = "WatchWarning";
/// Maximum number of unwatchable kinds to list in a condition.
const UNWATCHABLE_KINDS_MAX: usize = 5;

impl ApplicationMachine {
    /// Sets the conditions of a restored application that is reconciled.
    pub fn restore_conditions(&mut self, world: &dyn World, now: Timestamp) {
        if !refresh::is_skipped(&self.application) {
            self.update_conditions(world, now);
        }
    }

    pub(super) fn update_conditions(&mut self, world: &dyn World, now: Timestamp) {
        if let Some(problem) = self.problem.clone() {
            comparison::record_invalid_spec(&mut self.application, problem, now);
        } else if self.application.is_deleting() && !self.is_deletion_blocked {
            // The application is not compared any more, so no comparison would remove this condition.
            let kind = ConditionType::InvalidSpecError;
            conditions::set_conditions(&mut self.application.status.conditions, &[kind], None, now);
        }
        let mut unknown = Vec::new();
        let own = self.application.unknown_fields();
        // A source with unknown fields is rejected when it is read, because its manifests could be wrong.
        let (sources, others): (Vec<_>, Vec<_>) = own.into_iter().partition(|one| is_source_field(one));
        for (what, fields) in [("these fields have no effect", others), ("these fields are unknown", sources)]
        {
            if !fields.is_empty() {
                unknown.push(format!("{what}: {}", fields.join(", ")));
            }
        }
        unknown.extend(world.unknown_project_fields(&self.application));
        self.set_condition(UNKNOWN_FIELD_CONDITION, &unknown, now);
        let mut warnings = ignored_annotations(&self.application);
        warnings.extend(world.project_warnings(&self.application));
        self.set_condition(SPEC_WARNING_CONDITION, &warnings, now);
        let approvals = world.approval_policy(&self.application).unwrap_or_default();
        self.set_condition(approval::APPROVAL_WARNING_CONDITION, approvals.problems(), now);
        let mut unseen = world.forbidden_kinds(&self.key);
        let more = unseen.len().saturating_sub(UNWATCHABLE_KINDS_MAX);
        unseen.truncate(UNWATCHABLE_KINDS_MAX);
        unseen.extend((more > 0).then(|| format!("{more} more missing watch permissions are not listed")));
        self.set_condition(UNWATCHABLE_CONDITION, &unseen, now);
    }

    /// Sets a condition that is specific to Tidegate. An empty `text` removes the condition.
    pub(super) fn set_condition(&mut self, kind: &str, text: &[String], now: Timestamp) {
        let kind = ConditionType::Other(kind.to_owned());
        let found = (!text.is_empty()).then(|| (kind.clone(), text.join("; ")));
        conditions::set_conditions(&mut self.application.status.conditions, &[kind], found, now);
    }
}

/// Returns true if an unknown field is part of a source. Such a source is rejected.
fn is_source_field(field: &str) -> bool {
    const SOURCE_TYPES: [&str; 3] = ["directory", "helm", "kustomize"];
    let Some((source, rest)) = field.strip_prefix("spec.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_source = source == "source" || source.starts_with("sources");
    is_source
        && match rest.split_once('.') {
            None => true,
            Some((part, field)) => SOURCE_TYPES.contains(&part) && !field.contains('.'),
        }
}
