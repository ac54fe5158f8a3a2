//! The order of a deletion, and what it leaves behind.

use serde::Serialize;
use tidegate_applicationset::preview::{DeletionPreview, Kept, KeptWhat};
use tidegate_lifecycle::teardown::OrderWord;

use super::{Line, Part, Stage, applications, note};

/// The order of a deletion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// `AllAtOnce`, `Reverse` or `Custom`; absent where only the steps are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<OrderWord>,
    pub steps: Vec<DeletionStep>,
    /// What stays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
}

/// A step of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionStep {
    /// The number of the step as the strategy counts them, from 1; absent: those that no step selects.
    pub step: Option<u32>,
    pub selects: String,
    /// So many at once; absent: all.
    pub max_update: Option<u32>,
    pub applications: Vec<String>,
}

impl DeletionPlan {
    /// The steps of a deletion; that of those which no step selects only where there are any.
    pub fn of(preview: &DeletionPreview, order: Option<OrderWord>) -> Self {
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

    pub(super) fn drawn(&self) -> Part {
        let with_objects = |name: &String| {
            // They are sorted, and may be thousands.
            let is_listed = |kept: &Kept| kept.applications.binary_search(name).is_ok();
            let stays = |kept: &Kept| kept.what == KeptWhat::Objects && is_listed(kept);
            if self.kept.iter().any(stays) { "its objects stay" } else { "" }
        };
        let row =
            |name: &String, mark: &str| Line { name: name.clone(), mark: mark.to_owned(), ..Line::default() };
        let is_outlived = self.kept.iter().any(|kept| kept.what == KeptWhat::Application);
        let steps = self.steps.iter().enumerate().filter(|_| !is_outlived);
        let steps = steps.map(|(index, step)| Stage {
            title: match step.step {
                Some(number) => format!("step {number}: {}", step.selects),
                None if self.steps.len() > 1 => "in no step".to_owned(),
                None => "all at once".to_owned(),
            },
            note: note(step.applications.len(), step.max_update),
            terms: Vec::new(),
            follows: index > 0,
            is_idle: false,
            rows: step.applications.iter().map(|name| row(name, with_objects(name))).collect(),
        });
        let kept = self.kept.iter().map(|kept| Stage {
            title: match kept.what {
                KeptWhat::Application => "not deleted".to_owned(),
                KeptWhat::Objects => "their objects stay".to_owned(),
            },
            note: format!("{}: {}", applications(kept.applications.len()), kept.why),
            terms: Vec::new(),
            follows: false,
            is_idle: true,
            rows: match kept.what {
                KeptWhat::Application => kept.applications.iter().map(|name| row(name, "")).collect(),
                // They are marked above.
                KeptWhat::Objects => Vec::new(),
            },
        });
        let note = self.order.map(|order| format!("{order:?}")).unwrap_or_default();
        Part { name: "Deletion", note, is_deletion: true, stages: steps.chain(kept).collect() }
    }
}
