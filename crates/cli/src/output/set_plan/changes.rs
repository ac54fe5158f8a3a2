//! What each Application would change from, where a service was asked how they stand.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tidegate_applicationset::foreseen::{Change, FieldChange, What};

use super::{DeletionPlan, Line, Part, Planned, Stage, applications, short};
use crate::output::picture::shorten;

/// What those are headed by that are not generated any more.
pub(super) const REMOVAL: &str = "Removal";
/// So many fields of an Application are drawn; a document has all.
const FIELDS_MAX: usize = 12;
/// Characters of a value that are drawn.
const VALUE_CHARS: usize = 60;

/// What becomes of Applications that are not generated any more.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// Those that would be deleted, in their order.
    pub deletion: DeletionPlan,
    /// Those that would stay, by name, and why.
    pub held: BTreeMap<String, String>,
    /// What is wrong with the set, and keeps some of all this from being done.
    pub problems: Vec<String>,
}

impl Removal {
    /// Nothing, where all that is there is generated.
    pub(super) fn drawn(&self) -> Option<Part> {
        let mut part = self.deletion.drawn();
        part.name = REMOVAL;
        part.stages.retain(|stage| !stage.rows.is_empty());
        let mut why: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
        for (name, reason) in &self.held {
            why.entry(reason).or_default().push(name);
        }
        let line = |name: &String| Line { name: name.clone(), ..Line::default() };
        part.stages.extend(why.into_iter().map(|(reason, names)| Stage {
            title: "not deleted".to_owned(),
            note: format!("{}: {reason}", applications(names.len())),
            terms: Vec::new(),
            follows: false,
            is_idle: true,
            rows: names.into_iter().map(line).collect(),
        }));
        (!part.stages.is_empty()).then_some(part)
    }
}

/// How many Applications would be made, changed, left and deleted.
pub fn summary(members: &[Planned], removal: &Removal) -> String {
    let of = |what: What| {
        members.iter().filter(move |one| one.change.as_ref().is_some_and(|one| one.what == what))
    };
    let deleted = removal.deletion.steps.iter().map(|step| step.applications.len()).sum();
    [
        (of(What::Created).count(), "created"),
        (of(What::Changed).count(), "changed"),
        (of(What::Unchanged).count(), "unchanged"),
        (of(What::LeftAlone).count(), "left alone"),
        (deleted, "deleted"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect::<Vec<_>>()
    .join(", ")
}

/// In a word, what would become of it.
pub(super) fn word(change: &Change) -> &'static str {
    match change.what {
        What::Created => "created",
        What::Changed => "changed",
        What::Unchanged => "unchanged",
        What::LeftAlone => "left alone",
    }
}

/// What would become of it, line by line.
pub(super) fn details(planned: &Planned) -> Vec<String> {
    let Some(change) = &planned.change else { return Vec::new() };
    let mut lines: Vec<String> = change.why.iter().cloned().collect();
    if let Some(now) = &change.now {
        let is_other = now.deployed != planned.revisions && !planned.is_unresolved;
        match now.deployed.as_slice() {
            [] => lines.push("nothing of it was deployed yet".to_owned()),
            deployed if is_other => {
                let list = |all: &[String]| all.iter().map(|one| short(one)).collect::<Vec<_>>().join(", ");
                lines.push(format!("revision: {} → {}", list(deployed), list(&planned.revisions)));
            }
            _ => {}
        }
        if now.is_of_target && now.out_of_sync > 0 {
            lines.push(format!("{} of {} resources are OutOfSync", now.out_of_sync, now.resources));
        }
    }
    lines.extend(change.fields.iter().take(FIELDS_MAX).map(field));
    let more = change.fields.len().saturating_sub(FIELDS_MAX);
    if more > 0 {
        lines.push(format!("and {more} more fields"));
    }
    lines
}

fn field(change: &FieldChange) -> String {
    let value = |value: &Option<Value>| match value {
        None => "nothing".to_owned(),
        Some(Value::String(text)) if !text.is_empty() => shorten(text, VALUE_CHARS),
        Some(other) => shorten(&other.to_string(), VALUE_CHARS),
    };
    format!("{}: {} → {}", change.field, value(&change.before), value(&change.after))
}
