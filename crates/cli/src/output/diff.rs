//! Differences as a unified diff, or as a document for programs.

use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use tidegate_executor::effects::{ObjectDifference, ObjectStatus};
use tidegate_model::Task;
pub use tidegate_views::differences::build_document;

use super::encoding;
use super::text::{Style, Text};
use crate::args::Format;
use crate::error::CliError;

/// Number of unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// File name for an object that doesn't exist on one side of the diff.
const ABSENT_NAME: &str = "/dev/null";

/// Formats the differences of all objects as a unified diff. Skips objects without differences.
pub fn text(objects: &[ObjectDifference]) -> Result<Text, CliError> {
    let mut text = Text::new();
    let shown = |object: &&ObjectDifference| object.status != ObjectStatus::Same && !object.ignored;
    for object in objects.iter().filter(shown) {
        let (before, after) = (to_yaml(&object.difference.before)?, to_yaml(&object.difference.after)?);
        let file = file_name(&object.task);
        let side = |folder: &str, content: &str| {
            if content.is_empty() { ABSENT_NAME.to_owned() } else { format!("{folder}/{file}") }
        };
        let (old, new) = (side("live", &before), side("wanted", &after));
        add_line(&mut text, Style::Bold, &format!("diff {old} {new}"));
        add_line(&mut text, Style::Bold, &format!("--- {old}"));
        add_line(&mut text, Style::Bold, &format!("+++ {new}"));
        add_hunks(&mut text, &before, &after);
    }
    Ok(text)
}

fn add_hunks(text: &mut Text, before: &str, after: &str) {
    let diff = TextDiff::from_lines(before, after);
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        add_line(text, Style::Accent, &hunk.header().to_string());
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', Style::Bad),
                ChangeTag::Insert => ('+', Style::Good),
                ChangeTag::Equal => (' ', Style::Plain),
            };
            add_line(text, style, &format!("{sign}{}", change.value().trim_end_matches('\n')));
        }
    }
}

fn add_line(text: &mut Text, style: Style, content: &str) {
    text.add(style, content);
    text.end_line();
}

fn to_yaml(value: &Value) -> Result<String, CliError> {
    if value.is_null() { Ok(String::new()) } else { encoding::encode_document(value, Format::Yaml) }
}

/// Returns the name that kubectl gives an object's file, such as `apps.v1.Deployment.shop.api`.
fn file_name(task: &Task) -> String {
    let parts = [&task.gvk.group, &task.gvk.version, &task.gvk.kind, &task.namespace, &task.name];
    let present: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    present.join(".")
}
