//! What is said of objects that a deletion leaves where they are.

use tidegate_model::{Action, ResultCode, Task};

use crate::operation::state::{Operation, TaskState};

/// So many objects are named.
const NAMED_MAX: usize = 5;

/// The message of the end of a deletion, with what of the application stays, and why: nobody may look for it later.
pub(crate) fn with_left_alone(operation: &Operation, message: String) -> String {
    let mut named: Vec<String> =
        operation.all_tasks().filter_map(|(_, task, state)| reason(task, state)).collect();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    match (named.is_empty(), more) {
        (true, _) => message,
        (false, 0) => format!("{message}; left alone: {}", named.join(", ")),
        (false, more) => format!("{message}; left alone: {} and {more} more", named.join(", ")),
    }
}

/// `ConfigMap shop/settings (no delete)`, of one that stays.
fn reason(task: &Task, state: &TaskState) -> Option<String> {
    let reason = match state.status {
        Some(ResultCode::PruneSkipped) if !state.message.is_empty() => &state.message,
        _ if task.action == Action::PruneSkipped => &task.reason,
        Some(ResultCode::PruneSkipped) => &task.reason,
        _ => return None,
    };
    let words = reason.strip_prefix("ignored ").unwrap_or(reason);
    // Of what a plan says of a wave nobody needs to know.
    let words = words.split_once("; moved").map_or(words, |(words, _)| words);
    let words = if words.starts_with('(') { words.to_owned() } else { format!("({words})") };
    Some(format!("{} {words}", task.key()))
}
