//! Milestones of rollouts and deletions, emitted to the process log and as Kubernetes Events.
//!
//! Milestones are derived from the state, so none is lost while no process is running. An Event's name
//! consists of the machine and the milestone, so emitting it again after a restart doesn't duplicate it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_app_controller::{KubernetesEvent, put_event};
use tidegate_lifecycle::fleet::Milestone;
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{StreamId, Timestamp};

use super::ActorState;

/// Maximum age of milestones emitted after a restart. Clusters don't keep Events for much longer.
const EMIT_AGE_MAX: Duration = Duration::from_secs(600);

/// Maximum time to wait for a busy cluster to store an Event.
const EMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Milestones emitted for the newest machine of a kind.
#[derive(Default)]
pub(super) struct EmittedMilestones {
    machine: Option<StreamId>,
    keys: BTreeSet<String>,
}

impl EmittedMilestones {
    /// Returns the milestones that still have to be emitted.
    fn filter_new(&mut self, machine: StreamId, milestones: Vec<Milestone>) -> Vec<Milestone> {
        if self.machine != Some(machine) {
            *self = Self { machine: Some(machine), keys: BTreeSet::new() };
        }
        milestones.into_iter().filter(|one| self.keys.insert(one.key.clone())).collect()
    }
}

impl ActorState {
    /// Emits the newest rollout's new milestones. `is_known` is true if another process ran it and has
    /// already logged them.
    pub(super) fn emit_rollout_milestones(&mut self, is_known: bool) {
        let (Some(id), Some(state)) = (self.rollouts.id, self.own_rollout()) else { return };
        let milestones = rollout::milestones(state);
        let news = self.rollouts.emitted.filter_new(id, milestones);
        self.emit_milestones(id, news, is_known);
    }

    /// Emits the newest deletion's new milestones.
    pub(super) fn emit_teardown_milestones(&mut self, is_known: bool) {
        let (Some(id), Some(state)) = (self.teardowns.id, &self.teardowns.last) else { return };
        if self.own_teardown().is_none() {
            return;
        }
        let news = self.teardowns.emitted.filter_new(id, teardown::milestones(state));
        self.emit_milestones(id, news, is_known);
    }

    /// Waits for a deleted ApplicationSet's pending Events, but not for long, because Events are only
    /// informative.
    pub(super) async fn flush_events(&mut self) {
        let drained = async { while self.tasks.events.join_next().await.is_some() {} };
        drop(tokio::time::timeout(EMIT_TIMEOUT, drained).await);
    }

    fn emit_milestones(&mut self, id: StreamId, news: Vec<Milestone>, is_known: bool) {
        let now = self.now();
        for Milestone { key, reason, message, at } in news {
            match (is_known, reason.is_normal()) {
                (true, _) => {}
                (false, true) => tracing::info!(set = %self.key, machine = %id, %reason, "{message}"),
                (false, false) => tracing::warn!(set = %self.key, machine = %id, %reason, "{message}"),
            }
            let is_old = |at: Timestamp| is_known && at + EMIT_AGE_MAX < now;
            if !self.shared.store.is_shared() || at.is_some_and(is_old) {
                continue;
            }
            let name = format!("tidegate.{id}.{key}");
            self.emit_event(name, reason.to_string(), reason.is_normal(), message, at.unwrap_or(now));
        }
    }

    /// Emits a Kubernetes Event about the ApplicationSet. `is_normal` is true if no user action is required.
    pub(super) fn emit_event(
        &mut self,
        name: String,
        reason: impl Into<String>,
        is_normal: bool,
        message: String,
        at: Timestamp,
    ) {
        let metadata = &self.set.metadata;
        let announced = KubernetesEvent {
            name,
            kind: "ApplicationSet",
            key: self.key.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            reason: reason.into(),
            is_normal,
            message,
            at,
        };
        let shared = Arc::clone(&self.shared);
        self.tasks.events.spawn(async move {
            let put = put_event(shared.applications.destinations.cluster().as_ref(), &announced).await;
            if let Err(problem) = put {
                tracing::debug!(set = %announced.key, problem, "failed to create an Event");
            }
        });
    }
}
