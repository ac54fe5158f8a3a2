//! Access to the operation log in tests.

use tidegate_executor::Summary;
use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::OperationId;
use tidegate_oplog::{AppendOf, LoadedStreamOf, LogError, Lookup, OperationLog, TypedLog as _};

/// Log access with typed operation events. Import this instead of [`OperationLog`], which has methods of the
/// same names.
pub trait OperationEvents: OperationLog {
    /// Appends events as a single group.
    fn append(&self, group: Vec<AppendOf<OperationEvent>>) -> Result<(), LogError> {
        self.append_all(group)
    }

    /// Loads the newest snapshot of an operation, and the events after it.
    fn load(&self, operation: OperationId) -> Result<LoadedStreamOf<OperationEvent>, LogError> {
        self.load_as(operation)
    }

    /// Returns all events of an operation.
    fn recorded_events(&self, operation: OperationId) -> Result<Vec<OperationEvent>, LogError> {
        Ok(self.events_as(operation)?.events)
    }

    /// Returns the summaries of all operations, oldest first.
    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        let entries = self.find_as::<OperationEvent>(Lookup::all())?;
        Ok(entries.into_iter().map(Summary::from).collect())
    }
}

impl<L: OperationLog> OperationEvents for L {}
