//! Differences: as unified text for people, and as a document.

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use tidegate_executor::effects::{ObjectDifference, ObjectStatus};
use tidegate_model::{Task, Warning};
use tidegate_planner::Change;

use super::machine;
use super::text::{Style, Text};
use crate::args::Format;
use crate::error::CliError;

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Stands for the side on which the object is not there.
const NOTHING: &str = "/dev/null";

/// What `-o json` prints.
#[derive(Debug, Serialize)]
pub struct DiffDocument<'a> {
    objects: Vec<ObjectDocument<'a>>,
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize)]
struct ObjectDocument<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    status: &'static str,
    ignored: bool,
    changes: &'a [Change],
    error: Option<&'a str>,
    estimate: bool,
}

/// The differences of all objects as a document.
pub fn document<'a>(objects: &'a [ObjectDifference], warnings: &'a [Warning]) -> DiffDocument<'a> {
    let object = |object: &'a ObjectDifference| {
        let task = &object.task;
        ObjectDocument {
            group: &task.gvk.group,
            version: &task.gvk.version,
            kind: &task.gvk.kind,
            namespace: &task.namespace,
            name: &task.name,
            status: match object.status {
                ObjectStatus::Same => "same",
                ObjectStatus::Modified => "modified",
                ObjectStatus::Added => "added",
                ObjectStatus::Extra => "extra",
            },
            ignored: object.ignored,
            changes: &object.difference.changes,
            error: object.refused.as_deref(),
            estimate: object.estimate || object.refused.is_some(),
        }
    };
    DiffDocument { objects: objects.iter().map(object).collect(), warnings }
}

/// The differences of all objects as unified text; nothing for those that are the same.
pub fn text(objects: &[ObjectDifference]) -> Result<Text, CliError> {
    let mut text = Text::new();
    let shown = |object: &&ObjectDifference| object.status != ObjectStatus::Same && !object.ignored;
    for object in objects.iter().filter(shown) {
        let (before, after) = (yaml(&object.difference.before)?, yaml(&object.difference.after)?);
        let file = file_name(&object.task);
        let side = |folder: &str, content: &str| {
            if content.is_empty() { NOTHING.to_owned() } else { format!("{folder}/{file}") }
        };
        let (old, new) = (side("live", &before), side("wanted", &after));
        line(&mut text, Style::Bold, &format!("diff {old} {new}"));
        line(&mut text, Style::Bold, &format!("--- {old}"));
        line(&mut text, Style::Bold, &format!("+++ {new}"));
        hunks(&mut text, &before, &after);
    }
    Ok(text)
}

fn hunks(text: &mut Text, before: &str, after: &str) {
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        line(text, Style::Accent, &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', Style::Bad),
                ChangeTag::Insert => ('+', Style::Good),
                ChangeTag::Equal => (' ', Style::Plain),
            };
            line(text, style, &format!("{sign}{}", change.value().trim_end_matches('\n')));
        }
    }
}

fn line(text: &mut Text, style: Style, content: &str) {
    text.add(style, content);
    text.end_line();
}

fn yaml(value: &Value) -> Result<String, CliError> {
    if value.is_null() { Ok(String::new()) } else { machine::document(value, Format::Yaml) }
}

/// `apps.v1.Deployment.shop.api`, as kubectl names the files it compares.
fn file_name(task: &Task) -> String {
    let parts = [&task.gvk.group, &task.gvk.version, &task.gvk.kind, &task.namespace, &task.name];
    let present: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    present.join(".")
}
