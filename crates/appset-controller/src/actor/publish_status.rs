//! An ApplicationSet's published status.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::ActorRef;
use tidegate_applicationset::deletion;
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::reconcile_schedule::RETRY_DELAY;
use tidegate_applicationset::rollout;
use tidegate_applicationset::status::{
    ConditionReason, ReconcileFailure, ReconciledState, RolloutStatus, new_status,
};
use tidegate_applicationset::status_schedule::StatusAction;
use tidegate_lifecycle::rollout::{self as rollout_of, current_wait, skipped_members};
use tidegate_lifecycle::teardown;

use super::ActorState;
use crate::messages::AppSetMessage;

impl ActorState {
    /// Publishes and writes the status. Writes are throttled if other clients read it.
    pub(super) async fn publish_status(&mut self, myself: &ActorRef<AppSetMessage>) {
        let now = self.now();
        if self.status.is_ended() {
            return;
        }
        if let Err(later) = self.status.start_computation(now) {
            return self.set_alarm(myself, later);
        }
        if let Some(status) = self.changed_status() {
            self.set.status = status;
        }
        let waiting = self.own_rollout().and_then(current_wait);
        let is_same = self.shared.cache.record_rollout(
            &self.key,
            waiting,
            self.skipped_count(),
            self.awaited_condition(),
        );
        let is_shared = self.shared.store.is_shared();
        let action = self.status.decide(&self.set, is_same, is_shared, self.members.len(), now);
        if action == StatusAction::Nothing {
            return;
        }
        self.shared.cache.insert(&self.key, Arc::new(self.set.clone()));
        match action {
            StatusAction::Nothing | StatusAction::Publish => {}
            StatusAction::PublishAndWait(later) => self.set_alarm(myself, later),
            StatusAction::PublishAndWrite => match self.shared.store.write_status(&self.set).await {
                Ok(()) => self.status.finish_write(&self.set, now),
                Err(error) => {
                    tracing::error!(set = %self.key, %error, "failed to save the ApplicationSet status");
                    self.set_alarm(myself, now + RETRY_DELAY);
                }
            },
        }
    }

    /// Describes who paused the rollout or deletion or, if no one did, its longest wait.
    fn awaited_condition(&self) -> Option<String> {
        let now = self.now();
        let at_work = &self.teardowns;
        let teardown = at_work.last.as_ref().filter(|_| at_work.running.is_some());
        let witnessed = at_work.unordered.as_ref().filter(|one| one.running.is_some());
        let explanation = match (teardown, witnessed) {
            (Some(teardown), _) => teardown::explain(teardown, now),
            (None, Some(witnessed)) => teardown::explain(&witnessed.state, now),
            (None, None) => rollout_of::explain(self.own_rollout().filter(|one| !one.is_finished())?, now),
        };
        explanation.paused.or_else(|| {
            let first = explanation.awaited.into_iter().next()?;
            Some(match first.why.as_str() {
                // Omit the remaining soak time, which would be outdated immediately.
                _ if first.what == "soak" => "waiting for the soak time of the previous step".to_owned(),
                "" => format!("waiting for {}", first.what),
                reason => format!("waiting for {} ({reason})", first.what),
            })
        })
    }

    /// Returns the number of skipped Applications in the status.
    fn skipped_count(&self) -> u32 {
        let skipped: BTreeSet<&str> = self.rollouts.last.iter().flat_map(skipped_members).collect();
        let all = self.set.status.application_status.iter();
        let number = all.filter(|one| skipped.contains(one.application.as_str())).count();
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    /// Returns the status if it has changed.
    fn changed_status(&self) -> Option<tidegate_model::argo::ApplicationSetStatus> {
        let (rollout, wrong) = self.rollouts.last.as_ref().map(rollout::rollout_status).unwrap_or_default();
        let rollout =
            if matches!(rollout, RolloutStatus::Unknown) { self.rollouts.settled.clone() } else { rollout };
        let unreadable = self.problem.clone().map(|message| ReconcileFailure {
            reason: ConditionReason::ApplicationGenerationFromParamsError,
            message,
        });
        let own =
            self.members.values().map(Arc::as_ref).filter(|one| owner_of(&self.set, one) == Owner::AppSet);
        let seen = ReconciledState {
            is_generated: self.results.is_complete(),
            failure: unreadable.or_else(|| self.results.failure.clone()).or(wrong),
            warning: deletion::foreground_warning(&self.set, own.clone(), &self.shared.options),
            members: own.collect(),
            rollout,
            output_warnings: self.results.output_warnings(),
        };
        // Nothing is known until the first pass has finished.
        let is_looked_at =
            self.problem.is_some() || self.results.failure.is_some() || self.results.generated.is_some();
        let is_known = is_looked_at || seen.warning.is_some();
        is_known.then(|| new_status(&self.set, &seen, &self.shared.options, self.now())).flatten()
    }
}
