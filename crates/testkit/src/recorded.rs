//! A log as tests of operations read and write it.

use tidegate_executor::Summary;
use tidegate_lifecycle::operation::Fact;
use tidegate_model::OperationId;
use tidegate_oplog::{AppendOf, LoadedOf, LogError, Lookup, OperationLog, TypedLog as _};

/// What is recorded of operations. Import it instead of [`OperationLog`], which has methods of the same names.
pub trait Recorded: OperationLog {
    /// Appends facts of operations as one group.
    fn append(&self, group: Vec<AppendOf<Fact>>) -> Result<(), LogError> {
        self.append_all(group)
    }

    /// The newest snapshot of an operation and the facts after it.
    fn load(&self, operation: OperationId) -> Result<LoadedOf<Fact>, LogError> {
        self.load_as(operation)
    }

    /// All facts of an operation.
    fn facts(&self, operation: OperationId) -> Result<Vec<Fact>, LogError> {
        Ok(self.facts_as(operation)?.facts)
    }

    /// Summaries of all operations, oldest first.
    fn summaries(&self) -> Result<Vec<Summary>, LogError> {
        let entries = self.find_as::<Fact>(Lookup::all())?;
        Ok(entries.into_iter().map(Summary::from).collect())
    }
}

impl<L: OperationLog> Recorded for L {}
