//! What is said of tasks that people skip, mark as done and retry.

use tidegate_model::{Overridden, Override, Task, TaskId};

use super::{leaving, with_cause};
use crate::fleet::enumerate;
use crate::operation::state::{Operation, Progress, TaskState};

/// `hook Job shop/migrate`.
pub(crate) fn named(task: &Task) -> String {
    let key = task.key();
    if task.is_hook() { format!("hook {key}") } else { key.to_string() }
}

/// What a task has as its message that a person has skipped or marked as done: who and why, and how it stood.
pub(crate) fn passed_over(overridden: &Overridden, task: &Task, state: &TaskState) -> String {
    let words = overridden.words();
    let stood = match &state.progress {
        Progress::Waiting | Progress::Ready => {
            match state.calls.as_deref().filter(|calls| calls.failed > 0) {
                Some(calls) => with_cause("not done", &calls.message),
                None => "not done".to_owned(),
            }
        }
        Progress::Deleting { .. } => leaving(state.reason()),
        Progress::Running if task.is_hook() => with_cause("it was running", &state.known_health()),
        Progress::Running => with_cause("applied, and not healthy", &state.known_health()),
        Progress::Stopping { reason } => format!("it was being stopped: {reason}"),
        Progress::Done => with_cause("it had failed", &state.message),
    };
    format!("{words}; {stood}")
}

/// How a task stands, for a wish that cannot be granted.
pub(crate) fn standing(operation: &Operation, id: TaskId, state: &TaskState) -> String {
    let words = || state.status.map_or_else(|| "done".to_owned(), |status| status.to_string());
    match &state.progress {
        Progress::Waiting if operation.step_of(id).is_none() => "waits for its wave".to_owned(),
        Progress::Waiting | Progress::Ready => "is about to be worked on".to_owned(),
        Progress::Deleting { .. } => "is being deleted".to_owned(),
        Progress::Running => "is at work".to_owned(),
        Progress::Stopping { reason } => format!("is being stopped: {reason}"),
        Progress::Done if state.is_closing() => "is being cleaned up".to_owned(),
        Progress::Done if state.is_unsuccessful() => with_cause("has failed", &state.message),
        Progress::Done => with_cause(&format!("is done already ({})", words()), &state.message),
    }
}

/// The message of an operation's end, with what people had it go on without.
pub(crate) fn with_overrides(operation: &Operation, mut message: String) -> String {
    for what in [Override::Skip, Override::MarkDone] {
        let decided = operation.overrides.iter().filter(|(_, overridden)| overridden.what == what);
        let names: Vec<String> =
            decided.filter_map(|(id, _)| Some(named(operation.plan.task(*id)?))).collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            message = format!("{message}; {}: {}", what.done(), enumerate(&names));
        }
    }
    message
}
