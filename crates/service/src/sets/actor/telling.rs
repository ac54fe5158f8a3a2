//! What others see of a set: its status.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_applicationset::deletion;
use tidegate_applicationset::ownership::{Owner, owner};
use tidegate_applicationset::rollout;
use tidegate_applicationset::status::{Failure, Reason, Rollout, Seen, status};
use tidegate_lifecycle::rollout::{self as rollout_of, skipped, waiting};
use tidegate_lifecycle::teardown;

use super::{AGAIN_AFTER, SetState, TELL_EVERY, WRITE_EACH, WRITE_EVERY, WRITE_EVERY_MAX};
use crate::sets::messages::SetMessage;

impl SetState {
    /// Shows how it stands, and writes it down; where others read it, once a second at most.
    pub(super) async fn tell(&mut self, myself: &ActorRef<SetMessage>) {
        if self.is_released {
            return;
        }
        let now = self.now();
        // Thousands of Applications may change within a moment.
        if self.kept.is_some() && now < self.told_at + TELL_EVERY {
            return self.set_alarm(myself, self.told_at + TELL_EVERY);
        }
        self.told_at = now;
        if let Some(status) = self.status() {
            self.set.status = status;
        }
        let waiting = self.own_rollout().and_then(waiting);
        let is_same = self.shared.board.rolls(&self.key, waiting, self.skipped(), self.awaits());
        if is_same && self.kept.as_ref() == Some(&self.set) {
            return;
        }
        self.shared.board.post(&self.key, Arc::new(self.set.clone()));
        if self.kept.as_ref().is_some_and(|kept| kept.status == self.set.status) {
            self.kept = Some(self.set.clone());
            return;
        }
        if self.shared.store.is_shared() && now < self.kept_at + self.write_every() {
            return self.set_alarm(myself, self.kept_at + self.write_every());
        }
        match self.shared.store.keep(&self.set).await {
            Ok(()) => (self.kept, self.kept_at) = (Some(self.set.clone()), now),
            Err(error) => {
                tracing::error!(set = %self.key, %error, "the status of an ApplicationSet cannot be kept");
                self.set_alarm(myself, now + AGAIN_AFTER);
            }
        }
    }

    /// Who holds its rollout or its deletion, or what that has awaited for longest, in words.
    fn awaits(&self) -> Option<String> {
        let now = self.now();
        let at_work = &self.teardowns;
        let teardown = at_work.last.as_ref().filter(|_| at_work.running.is_some());
        let witnessed = at_work.witnessed.as_ref().filter(|one| one.running.is_some());
        let explanation = match (teardown, witnessed) {
            (Some(teardown), _) => teardown::explain(teardown, now),
            (None, Some(witnessed)) => teardown::explain(&witnessed.state, now),
            (None, None) => rollout_of::explain(self.own_rollout().filter(|one| !one.is_finished())?, now),
        };
        explanation.paused.or_else(|| {
            let first = explanation.awaited.into_iter().next()?;
            Some(match first.why.as_str() {
                // How long still is true for a moment alone.
                _ if first.what == "soak" => {
                    "waits until the step before was watched for long enough".to_owned()
                }
                "" => format!("waits for {}", first.what),
                why => format!("waits for {} ({why})", first.what),
            })
        })
    }

    /// How many of the Applications in its status somebody has gone on without.
    fn skipped(&self) -> u32 {
        let skipped: BTreeSet<&str> = self.rollouts.last.iter().flat_map(skipped).collect();
        let all = self.set.status.application_status.iter();
        let number = all.filter(|one| skipped.contains(one.application.as_str())).count();
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// The larger a status is, the more its writes cost everybody who reads it.
    fn write_every(&self) -> Duration {
        let number = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        WRITE_EVERY.max(WRITE_EACH.saturating_mul(number)).min(WRITE_EVERY_MAX)
    }

    /// Its status, where it says something else now.
    fn status(&self) -> Option<tidegate_model::argo::ApplicationSetStatus> {
        let (rollout, wrong) = self.rollouts.last.as_ref().map(rollout::status).unwrap_or_default();
        let rollout =
            if matches!(rollout, Rollout::Unknown) { self.rollouts.settled.clone() } else { rollout };
        let unreadable = self
            .problem
            .clone()
            .map(|message| Failure { reason: Reason::ApplicationGenerationFromParamsError, message });
        let own = self.members.values().map(Arc::as_ref).filter(|one| owner(&self.set, one) == Owner::Set);
        let seen = Seen {
            is_generated: self.is_whole(),
            failure: unreadable.or_else(|| self.failure.clone()).or(wrong),
            warning: deletion::warning(&self.set, own.clone(), &self.shared.options),
            members: own.collect(),
            rollout,
        };
        // Before the first look nothing new is known.
        let is_looked_at = self.problem.is_some() || self.failure.is_some() || self.generated.is_some();
        let is_known = is_looked_at || seen.warning.is_some();
        is_known.then(|| status(&self.set, &seen, &self.shared.options, self.now())).flatten()
    }
}
