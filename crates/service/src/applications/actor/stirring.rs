//! Changes of its objects, for which it is compared again.

use std::time::Duration;

use ractor::ActorRef;
use tidegate_application::comparison::Outcome;
use tidegate_application::refresh::Level;
use tidegate_model::Timestamp;

use super::AppState;
use super::comparing::With;
use crate::applications::comparing::Compared;
use crate::applications::messages::AppMessage;

/// Changes of its objects are looked at together, so long after the first.
const TOGETHER: Duration = Duration::from_millis(200);
/// The same while an operation is at work; it is looked at anyway when that has ended.
const TOGETHER_AT_WORK: Duration = Duration::from_secs(5);
/// While they go on changing, a comparison begins so many times its own length after the last one has ended, and no
/// sooner than this: so that a rollout is watched, and the cluster has other work to do.
const REST: u32 = 4;
const REST_MIN: Duration = Duration::from_secs(1);
/// How long until a cluster is asked again what it did not let us see.
const REFUSED_AGAIN_AFTER: Duration = Duration::from_secs(10);
/// Why it is to be compared again, and since when.
#[derive(Clone, Copy)]
pub(super) struct Stirred {
    since: Timestamp,
    why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Its objects have changed, which the comparison that is being made may have seen.
    News,
    /// What was seen is not enough, whatever it was.
    Anyway,
}

impl AppState {
    /// It is to be compared again soon, together with what else comes until then.
    pub(super) fn stir(&mut self, myself: &ActorRef<AppMessage>, why: Why) {
        let since = self.now();
        let stirred = self.stirred.get_or_insert(Stirred { since, why });
        stirred.why = stirred.why.max(why);
        self.look_if_stirred(myself);
    }

    /// Has it compared again, if that is due. While an operation of it is at work, its objects change all the time.
    pub(super) fn look_if_stirred(&mut self, myself: &ActorRef<AppMessage>) {
        // What is being made may have seen it.
        let Some(Stirred { since, why }) = self.stirred.filter(|_| !self.comparing) else { return };
        let now = self.now();
        let together = if self.is_at_work() { TOGETHER_AT_WORK } else { TOGETHER };
        // The clock may have been set back.
        let due = (since.min(now) + together).max(self.rests_until);
        if due > now {
            self.set_alarm(myself, due);
            return;
        }
        self.stirred = None;
        if why == Why::Anyway || self.shared.watching.has_news(&self.key) {
            self.ask(Level::Recent);
        }
    }

    /// Takes in a comparison, and says when changes are a reason for another one.
    pub(super) fn has_compared(
        &mut self,
        myself: &ActorRef<AppMessage>,
        (compared, with): (Compared, With),
        began: Timestamp,
    ) {
        let now = self.now();
        let rest = now.since(began).saturating_mul(REST).max(REST_MIN);
        // Nobody tells of rights that are granted.
        let again = compared.is_refused.then_some(REFUSED_AGAIN_AFTER);
        self.rests_until = now + again.unwrap_or(rest);
        let has_failed = matches!(compared.outcome, Outcome::Failed { .. });
        let is_read = compared.objects.is_some();
        self.compared(compared, with);
        if let Some(stirred) = self.stirred.as_mut().filter(|_| has_failed) {
            // What has changed meanwhile may have mended what was wrong.
            stirred.why = Why::Anyway;
        }
        if again.is_some() {
            self.stir(myself, Why::Anyway);
        } else if is_read && !has_failed && self.shared.watching.has_news(&self.key) {
            self.stir(myself, Why::News);
        } else {
            self.look_if_stirred(myself);
        }
    }
}
