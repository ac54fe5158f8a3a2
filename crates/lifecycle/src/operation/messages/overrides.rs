//! Messages about tasks that users skip, mark as done or retry.

use tidegate_model::{Override, OverrideRecord, Task, TaskId};

use super::{deletion_message, with_cause};
use crate::names::join_names;
use crate::operation::state::{Operation, Progress, TaskState};

/// Formats a task, such as `hook Job shop/migrate`.
pub(crate) fn describe_task(task: &Task) -> String {
    let key = task.key();
    if task.is_hook() { format!("hook {key}") } else { key.to_string() }
}

/// Returns the message of a task that a user skipped or marked as done. The message contains the requester,
/// the reason, and the task's state at the time of the request.
pub(crate) fn override_message(overridden: &OverrideRecord, task: &Task, state: &TaskState) -> String {
    let text = overridden.describe();
    let stood = match &state.progress {
        Progress::Waiting | Progress::Ready | Progress::Suspended { .. } => {
            match state.calls.as_deref().filter(|calls| calls.failed > 0) {
                Some(calls) => with_cause("not done", &calls.message),
                None => "not done".to_owned(),
            }
        }
        Progress::Deleting { .. } => deletion_message(state.reason()),
        Progress::Running if task.is_hook() => with_cause("it was running", &state.describe_health()),
        Progress::Running => with_cause("applied, and not healthy", &state.describe_health()),
        Progress::Stopping { reason } => format!("it was being stopped: {reason}"),
        Progress::Done => with_cause("it had failed", &state.message),
    };
    format!("{text}; {stood}")
}

/// Describes the state of a task for a request that can't be fulfilled.
pub(crate) fn describe_task_state(operation: &Operation, id: TaskId, state: &TaskState) -> String {
    let text = || state.status.map_or_else(|| "done".to_owned(), |status| status.to_string());
    match &state.progress {
        Progress::Waiting if operation.step_of_task(id).is_none() => "waits for its wave".to_owned(),
        Progress::Waiting | Progress::Ready | Progress::Suspended { .. } => "is about to start".to_owned(),
        Progress::Deleting { .. } => "is being deleted".to_owned(),
        Progress::Running => "is running".to_owned(),
        Progress::Stopping { reason } => format!("is being stopped: {reason}"),
        Progress::Done if state.needs_stop_or_release() => "is being cleaned up".to_owned(),
        Progress::Done if state.is_unsuccessful() => with_cause("has failed", &state.message),
        Progress::Done => with_cause(&format!("is already done ({})", text()), &state.message),
    }
}

/// Adds the tasks that users skipped or marked as done to an operation's final message.
pub(crate) fn with_overrides(operation: &Operation, mut message: String) -> String {
    for what in [Override::Skip, Override::MarkDone] {
        let decided = operation.overrides.iter().filter(|(_, overridden)| overridden.what == what);
        let names: Vec<String> =
            decided.filter_map(|(id, _)| Some(describe_task(operation.plan.task(*id)?))).collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            message = format!("{message}; {}: {}", what.past_participle(), join_names(&names));
        }
    }
    message
}
