//! What an operation that is asked for waits for: the applications that this one depends on, or, before it is deleted, those
//! that depend on it, and its turn in the order of its ApplicationSet.

use std::collections::BTreeSet;

use tidegate_application::dependencies::{self, in_words, why_not};
use tidegate_application::operation;
use tidegate_application::refresh::Level;
use tidegate_model::Timestamp;

use super::AppState;
use crate::applications::depending::{key, name};
use crate::applications::messages::SupervisorMessage;
use crate::applications::store::AppKey;

/// A condition of our own.
const DEPENDENCY_ERROR: &str = "DependencyError";
/// So many are named that are not there yet.
const NAMED_MAX: usize = 5;

impl AppState {
    /// Tells those it has to do with that it has changed.
    pub(super) fn announce(&self) {
        self.tell_related(self.shared.depending.related(&self.key));
    }

    fn tell_related(&self, keys: BTreeSet<AppKey>) {
        if !keys.is_empty() {
            drop(self.supervisor.send_message(SupervisorMessage::Related(keys)));
        }
    }

    /// Whether what is asked for has to wait, which is then said in its state; says in the conditions what will never come.
    pub(super) fn hold(&mut self, now: Timestamp) -> bool {
        // Before anything is looked at: whoever changes after that look tells.
        let wanted = dependencies::of(&self.application).iter().map(key).collect();
        // Also those that it depends on no more: one of them may wait for just that.
        self.tell_related(self.shared.depending.set(&self.key, wanted));
        let cycle = self.cycle();
        let found = cycle.as_ref().map(|cycle| {
            format!(
                "{} makes a cycle: {cycle}; take one of these away, until then none of them is synced",
                dependencies::DEPENDS_ON
            )
        });
        self.say(DEPENDENCY_ERROR, found.as_slice(), now);
        self.wait_for_nobody();
        let Some(asked) = self.application.operation.as_ref().filter(|asked| self.may_be_held(asked)) else {
            (self.found, self.looked_at) = (None, None);
            return false;
        };
        if self.preparing {
            return false;
        }
        let wrong = self.problem.as_ref().filter(|_| operation::cascade(asked).is_none());
        let wrong = wrong.map(|problem| format!("what is wrong with it to be mended: {problem}"));
        let why = wrong.or_else(|| self.unasked()).or_else(|| match operation::cascade(asked) {
            Some(_) => self.shared.turns.awaited(&self.application).or_else(|| self.still_needed()),
            None => cycle
                .clone()
                .map(|cycle| format!("the cycle of its dependencies to be broken: {cycle}"))
                .or_else(|| self.not_ready()),
        });
        let may_be_behind = cycle.is_none() && operation::cascade(asked).is_none();
        // What is planned for it counts when it could begin.
        let Some(why) = why.or_else(|| self.unapproved(now)) else { return false };
        operation::wait(&mut self.application, format!("waiting for {why}"), now);
        if may_be_behind {
            self.have_looked_at();
        }
        true
    }

    /// Has the one compared that it waits for, once for each commit: a push that is not about the files of that one is not told
    /// to it.
    fn have_looked_at(&mut self) {
        let deploys = dependencies::deploys(&self.application, self.found.as_deref());
        let Some((awaited, _)) = self.first_not_ready(&deploys) else { return };
        let looked_at = Some((awaited.clone(), deploys));
        if self.looked_at != looked_at {
            self.looked_at = looked_at;
            let compare = SupervisorMessage::Compare { key: awaited, level: Level::Latest };
            drop(self.supervisor.send_message(compare));
        }
    }

    /// The cycle of dependencies that it is part of.
    pub(super) fn cycle(&self) -> Option<String> {
        let board = &self.shared.board;
        let depend = |one: &dependencies::Name| match key(one) {
            own if own == self.key => dependencies::of(&self.application),
            other => board.get(&other).map(|found| dependencies::of(&found)).unwrap_or_default(),
        };
        dependencies::of(&self.application).first()?;
        dependencies::cycle(&name(&self.key), depend).map(|cycle| in_words(&cycle))
    }

    /// Those that it depends on and that are not there yet, and why.
    pub(super) fn not_ready(&self) -> Option<String> {
        let deploys = dependencies::deploys(&self.application, self.found.as_deref());
        let mut all = self.all_not_ready(&deploys).map(|(_, why)| why);
        let named = all.by_ref().take(NAMED_MAX).collect::<Vec<_>>().join("; ");
        let more = all.count();
        match (named.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(named),
            (false, more) => Some(format!("{named}; and {more} more")),
        }
    }

    fn first_not_ready(&self, deploys: &[String]) -> Option<(AppKey, String)> {
        self.all_not_ready(deploys).next()
    }

    fn all_not_ready(&self, deploys: &[String]) -> impl Iterator<Item = (AppKey, String)> {
        let wanted = dependencies::of(&self.application).into_iter();
        wanted.filter_map(|one| {
            let found = self.shared.board.get(&key(&one));
            let why = why_not(found.as_deref(), &self.application, deploys)?;
            Some((key(&one), format!("{one}: {why}")))
        })
    }

    /// The first that depends on it and is still there.
    fn still_needed(&self) -> Option<String> {
        let Some(keep) = self.shared.depending.keep(&self.key, &self.shared.board) else {
            return Some("it to be known which Applications depend on it".to_owned());
        };
        keep.first().map(|(other, found)| match found.is_deleting() {
            true => format!("{other}, which depends on it, to be deleted first"),
            false => format!(
                "{other}, which depends on it: delete that first, or take its name out of {} there",
                dependencies::DEPENDS_ON
            ),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests;
