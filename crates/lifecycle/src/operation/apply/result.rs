//! Results of tasks, in the order they were first recorded.

use tidegate_model::TaskId;

use crate::operation::state::{Operation, TaskState};

/// Changes a task's result. The task's first result gets the next order number.
pub(super) fn record_result(operation: &mut Operation, id: TaskId, change: impl FnOnce(&mut TaskState)) {
    let next = operation.results.saturating_add(1);
    if let Some(state) = operation.tasks.get_mut(id.index()) {
        if state.order == 0 {
            state.order = next;
            operation.results = next;
        }
        change(state);
    }
}
