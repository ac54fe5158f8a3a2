//! Messages about objects that remain after an application is deleted.

use tidegate_model::{Action, ResultCode, Task};

use crate::operation::state::{Operation, TaskState};

/// Maximum number of objects listed in a message.
const NAMES_MAX: usize = 5;

/// Adds the application's remaining objects, with the reasons, to the final message of a deletion. It may be
/// their last record.
pub(crate) fn with_remaining_objects(operation: &Operation, message: String) -> String {
    let mut named: Vec<String> =
        operation.all_tasks().filter_map(|(_, task, state)| describe_remaining_object(task, state)).collect();
    let more = named.len().saturating_sub(NAMES_MAX);
    named.truncate(NAMES_MAX);
    match (named.is_empty(), more) {
        (true, _) => message,
        (false, 0) => format!("{message}; left in place: {}", named.join(", ")),
        (false, more) => format!("{message}; left in place: {} and {more} more", named.join(", ")),
    }
}

/// Formats an object that is kept, such as `ConfigMap shop/settings (no delete)`.
fn describe_remaining_object(task: &Task, state: &TaskState) -> Option<String> {
    let reason = match state.status {
        Some(ResultCode::PruneSkipped) if !state.message.is_empty() => &state.message,
        _ if task.action == Action::PruneSkipped => &task.reason,
        Some(ResultCode::PruneSkipped) => &task.reason,
        _ => return None,
    };
    let text = reason.strip_prefix("ignored ").unwrap_or(reason);
    // The planner's remark about a moved wave isn't relevant here.
    let text = text.split_once("; moved").map_or(text, |(text, _)| text);
    let text = if text.starts_with('(') { text.to_owned() } else { format!("({text})") };
    Some(format!("{} {text}", task.key()))
}
