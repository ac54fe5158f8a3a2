//! Who has asked for a comparison, and is answered when one that began after that is shown.

use tidegate_application::refresh::{self, Level};

use super::AppState;
use crate::applications::messages::Answer;

/// Somebody who waits for a comparison.
pub(super) struct Refresh {
    reply: Answer,
    is: Is,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Waiting,
    Begun,
    Done,
}

impl AppState {
    /// Somebody asks for a comparison. Of an application whose deletion has begun, which is compared no more, that has its
    /// deletion tried again.
    pub(super) fn refresh(&mut self, level: Level, reply: Answer) {
        self.ask(level);
        self.refreshes.push(Refresh { reply, is: Is::Waiting });
    }

    /// A comparison begins: what was asked for before is answered by it.
    pub(super) fn refreshes_begin(&mut self) {
        self.pass(Is::Waiting, Is::Begun);
    }

    /// That comparison does not count, and is followed by another one.
    pub(super) fn refreshes_go_on(&mut self) {
        self.pass(Is::Begun, Is::Waiting);
    }

    /// That comparison was taken in.
    pub(super) fn refreshes_are_done(&mut self) {
        self.pass(Is::Begun, Is::Done);
    }

    fn pass(&mut self, from: Is, to: Is) {
        self.refreshes.iter_mut().filter(|one| one.is == from).for_each(|one| one.is = to);
    }

    /// Answers those whose comparison is shown by now, or does not come.
    pub(super) fn answer_refreshes(&mut self) {
        if self.refreshes.is_empty() {
            return;
        }
        let cannot = match (refresh::left_alone(&self.application), &self.problem) {
            (Some(why), _) => Some(why),
            (None, Some(problem)) => Some(format!("application {} cannot be compared: {problem}", self.key)),
            (None, None) => None,
        };
        if self.application.is_deleting() && !self.waits_to_go {
            self.refreshes.iter_mut().for_each(|one| one.is = Is::Done);
        }
        for Refresh { reply, is } in std::mem::take(&mut self.refreshes) {
            match (is, &cannot) {
                (Is::Done, _) => drop(reply.send(Ok(()))),
                (_, Some(why)) => drop(reply.send(Err(why.clone()))),
                (is, None) => self.refreshes.push(Refresh { reply, is }),
            }
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
