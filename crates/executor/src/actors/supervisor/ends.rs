//! How the newest operations have ended: who asks right after the news does not wait for the log.

use std::collections::VecDeque;

use tidegate_model::{OperationId, Timestamp};

use crate::actors::operation::Inspection;

/// So many ends are kept.
const ENDS_MAX: usize = 32;
/// So many results of resources are kept with them; the newest end is kept however many it has.
const RESULTS_MAX: usize = 5_000;

/// How the last operations of this process ended, for those who ask a moment later.
#[derive(Default)]
pub(crate) struct Ends(VecDeque<(OperationId, Inspection)>);

impl Ends {
    pub(super) fn keep(&mut self, operation: OperationId, end: Inspection) {
        self.0.retain(|(known, _)| *known != operation);
        self.0.push_back((operation, end));
        while self.0.len() > ENDS_MAX || (self.0.len() > 1 && self.results() > RESULTS_MAX) {
            self.0.pop_front();
        }
    }

    fn results(&self) -> usize {
        self.0.iter().map(|(_, end)| end.view.resources.len()).sum()
    }

    /// In which words an operation has ended.
    pub(super) fn message(&self, operation: OperationId) -> Option<&str> {
        self.find(operation).map(|end| end.view.message.as_str())
    }

    fn find(&self, operation: OperationId) -> Option<&Inspection> {
        self.0.iter().find(|(known, _)| *known == operation).map(|(_, end)| end)
    }

    /// How an operation has ended, as told now.
    pub(super) fn of(&self, operation: OperationId, now: Timestamp) -> Option<Inspection> {
        let Inspection { view, explanation } = self.find(operation)?;
        let explanation = explanation.clone().later(view, now);
        Some(Inspection { view: view.clone(), explanation })
    }
}
