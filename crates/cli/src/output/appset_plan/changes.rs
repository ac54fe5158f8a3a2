//! Changes to each Application, relative to the state reported by a service.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tidegate_applicationset::change_preview::{ChangeKind, FieldChange, MemberPreview};

use super::{
    DeletionPlan, MemberRow, Part, PlannedApplication, Stage, format_application_count, shorten_commit,
};
use crate::output::picture::shorten;

/// Heading for Applications that are no longer generated.
pub(super) const REMOVAL: &str = "Removal";
/// Maximum number of fields to draw per Application. JSON and YAML have all of them.
const FIELDS_MAX: usize = 12;
/// Maximum number of characters to draw per value.
const VALUE_CHARS_MAX: usize = 60;

/// Changes to Applications that are no longer generated.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// Applications to delete, in order.
    pub deletion: DeletionPlan,
    /// Reason for each retained Application, by name.
    #[serde(rename = "remaining")]
    pub held: BTreeMap<String, String>,
    /// Problems of the ApplicationSet that prevent some of the changes.
    pub problems: Vec<String>,
}

impl Removal {
    /// Returns the part to draw, or `None` if all existing Applications are still generated.
    pub(super) fn to_part(&self) -> Option<Part> {
        let mut part = self.deletion.to_part();
        part.name = REMOVAL;
        part.stages.retain(|stage| !stage.rows.is_empty());
        let mut why: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for (name, reason) in &self.held {
            why.entry(reason).or_default().push(name);
        }
        let line = |name: &String| MemberRow { name: name.clone(), ..MemberRow::default() };
        part.stages.extend(why.into_iter().map(|(reason, names)| Stage {
            title: "not deleted".to_owned(),
            note: format!("{}: {reason}", format_application_count(names.len())),
            terms: Vec::new(),
            is_consecutive: false,
            is_idle: true,
            rows: names.into_iter().map(line).collect(),
        }));
        (!part.stages.is_empty()).then_some(part)
    }
}

/// Counts the Applications that would be created, changed, left unchanged and deleted.
pub fn summary(members: &[PlannedApplication], removal: &Removal) -> String {
    let of = |what: ChangeKind| {
        members.iter().filter(move |one| one.change.as_ref().is_some_and(|one| one.what == what))
    };
    let deleted = removal.deletion.steps.iter().map(|step| step.applications.len()).sum();
    [
        (of(ChangeKind::Created).count(), "created"),
        (of(ChangeKind::Changed).count(), "changed"),
        (of(ChangeKind::Unchanged).count(), "unchanged"),
        (of(ChangeKind::LeftAlone).count(), "not updated"),
        (deleted, "deleted"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// Returns the change as one word.
pub(super) fn change_word(change: &MemberPreview) -> &'static str {
    match change.what {
        ChangeKind::Created => "created",
        ChangeKind::Changed => "changed",
        ChangeKind::Unchanged => "unchanged",
        ChangeKind::LeftAlone => "not updated",
    }
}

/// Describes the change, with one string per line.
pub(super) fn describe_change(planned: &PlannedApplication) -> Vec<String> {
    let Some(change) = &planned.change else { return Vec::new() };
    let mut lines: Vec<String> = change.why.iter().cloned().collect();
    if let Some(now) = &change.now {
        let is_other = now.deployed != planned.revisions && !planned.is_unresolved;
        match now.deployed.as_slice() {
            [] => lines.push("not deployed yet".to_owned()),
            deployed if is_other => {
                let list =
                    |all: &[String]| all.iter().map(|one| shorten_commit(one)).collect::<Vec<_>>().join(", ");
                lines.push(format!("revision: {} → {}", list(deployed), list(&planned.revisions)));
            }
            _ => {}
        }
        if now.is_of_target && now.out_of_sync > 0 {
            lines.push(format!("{} of {} resources are OutOfSync", now.out_of_sync, now.resources));
        }
    }
    lines.extend(change.fields.iter().take(FIELDS_MAX).map(format_field_change));
    let more = change.fields.len().saturating_sub(FIELDS_MAX);
    if more > 0 {
        lines.push(format!("and {more} more fields"));
    }
    lines
}

fn format_field_change(change: &FieldChange) -> String {
    let value = |value: &Option<Value>| match value {
        None => "(none)".to_owned(),
        Some(Value::String(text)) if !text.is_empty() => shorten(text, VALUE_CHARS_MAX),
        Some(other) => shorten(&other.to_string(), VALUE_CHARS_MAX),
    };
    format!("{}: {} → {}", change.field, value(&change.before), value(&change.after))
}
