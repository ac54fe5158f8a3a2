//! Deletion order, and the objects that survive.

use serde::Serialize;
use tidegate_applicationset::preview::{DeletionPreview, RetainedKind, RetainedMember};
use tidegate_lifecycle::teardown::OrderKind;

use super::{MemberRow, Part, Stage, count_note, format_application_count};

/// Deletion order, and the objects that survive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// `AllAtOnce`, `Reverse` or `Custom`; absent if only the steps are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderKind>,
    pub steps: Vec<DeletionStep>,
    /// Retained objects and Applications.
    #[serde(rename = "remaining", skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<RetainedMember>,
}

/// A step of a deletion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionStep {
    /// Number of the step in the strategy, starting at 1; absent for the Applications that no step selects.
    pub step: Option<u32>,
    #[serde(rename = "selector")]
    pub selects: String,
    /// Maximum number of Applications to delete at once; absent if there is no limit.
    pub max_update: Option<u32>,
    pub applications: Vec<String>,
}

impl DeletionPlan {
    /// Returns the steps of a deletion, including one for unselected Applications if there are any.
    pub fn from_preview(preview: &DeletionPreview, order: Option<OrderKind>) -> Self {
        let DeletionPreview { deletion: view, kept } = preview;
        let steps = view.steps.iter().filter(|written| written.step.is_some() || written.members > 0);
        let number = |step: Option<u32>| step.map_or_else(|| "-1".to_owned(), |step| step.to_string());
        let steps = steps.map(|written| DeletionStep {
            step: written.step,
            selects: written.selects.clone(),
            max_update: written.max_update,
            applications: {
                let members = view.members.iter().filter(|member| member.step == number(written.step));
                members.map(|member| member.application.clone()).collect()
            },
        });
        Self { order, steps: steps.collect(), kept: kept.clone() }
    }

    pub(super) fn to_part(&self) -> Part {
        let with_objects = |name: &String| {
            // The Applications are sorted, and there may be thousands.
            let is_listed = |kept: &RetainedMember| kept.applications.binary_search(name).is_ok();
            let stays = |kept: &RetainedMember| kept.what == RetainedKind::Objects && is_listed(kept);
            if self.kept.iter().any(stays) { "its objects are kept" } else { "" }
        };
        let row = |name: &String, mark: &str| MemberRow {
            name: name.clone(),
            mark: mark.to_owned(),
            ..MemberRow::default()
        };
        let is_outlived = self.kept.iter().any(|kept| kept.what == RetainedKind::Application);
        let steps = self.steps.iter().enumerate().filter(|_| !is_outlived);
        let steps = steps.map(|(index, step)| Stage {
            title: match step.step {
                Some(number) => format!("step {number}: {}", step.selects),
                None if self.steps.len() > 1 => "not in any step".to_owned(),
                None => "all at once".to_owned(),
            },
            note: count_note(step.applications.len(), step.max_update),
            terms: Vec::new(),
            is_consecutive: index > 0,
            is_idle: false,
            rows: step.applications.iter().map(|name| row(name, with_objects(name))).collect(),
        });
        let kept = self.kept.iter().map(|kept| Stage {
            title: match kept.what {
                RetainedKind::Application => "not deleted".to_owned(),
                RetainedKind::Objects => "their objects are kept".to_owned(),
            },
            note: format!("{}: {}", format_application_count(kept.applications.len()), kept.why),
            terms: Vec::new(),
            is_consecutive: false,
            is_idle: true,
            rows: match kept.what {
                RetainedKind::Application => kept.applications.iter().map(|name| row(name, "")).collect(),
                // The steps already mark Applications with retained objects.
                RetainedKind::Objects => Vec::new(),
            },
        });
        let note = self.order.map(|order| format!("{order:?}")).unwrap_or_default();
        Part { name: "Deletion", note, is_deletion: true, stages: steps.chain(kept).collect() }
    }
}
