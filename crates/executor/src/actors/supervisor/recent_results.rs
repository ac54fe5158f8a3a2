//! Results of the most recent operations. Queries shortly after an operation has finished use them instead of
//! waiting for the log.

use std::collections::VecDeque;

use tidegate_model::{OperationId, Timestamp};

use crate::actors::operation::Inspection;

/// Maximum number of results.
const RECENT_RESULTS_MAX: usize = 32;
/// Maximum total number of resource results across all recent results. The newest result is always kept.
const RESOURCE_RESULTS_MAX: usize = 5_000;

/// Results of the last operations that finished in this process.
#[derive(Default)]
pub(crate) struct RecentResults(VecDeque<(OperationId, Inspection)>);

impl RecentResults {
    pub(super) fn insert(&mut self, operation: OperationId, end: Inspection) {
        self.0.retain(|(known, _)| *known != operation);
        self.0.push_back((operation, end));
        while self.0.len() > RECENT_RESULTS_MAX
            || (self.0.len() > 1 && self.count_resource_results() > RESOURCE_RESULTS_MAX)
        {
            self.0.pop_front();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn count_resource_results(&self) -> usize {
        self.0.iter().map(|(_, end)| end.view.resources.len()).sum()
    }

    pub(super) fn final_message(&self, operation: OperationId) -> Option<&str> {
        self.find(operation).map(|end| end.view.message.as_str())
    }

    fn find(&self, operation: OperationId) -> Option<&Inspection> {
        self.0.iter().find(|(known, _)| *known == operation).map(|(_, end)| end)
    }

    /// Returns an operation's result as of `now`.
    pub(super) fn get_as_of(&self, operation: OperationId, now: Timestamp) -> Option<Inspection> {
        let Inspection { view, explanation } = self.find(operation)?;
        let explanation = explanation.clone().refresh(view, now);
        Some(Inspection { view: view.clone(), explanation })
    }
}
