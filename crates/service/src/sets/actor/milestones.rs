//! What is told of rollouts and deletions as they go on: in the log of the process, and as Events of the cluster.
//!
//! A state shows what has happened, so what is told is found in it, and nothing is lost that came while nobody looked. Each
//! Event has a name made from the machine and from what happened: told once more after a restart, it is there once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::fleet::Milestone;
use tidegate_lifecycle::{rollout, teardown};
use tidegate_model::{StreamId, Timestamp};

use super::SetState;
use crate::applications::{Announced, put_event};

/// What happened longer ago is not told after a restart: Events are not kept much longer.
const TOLD_AGAIN: Duration = Duration::from_secs(600);

/// As long as a cluster that is very busy may take to answer.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// What was told of the newest machine of a kind.
#[derive(Default)]
pub(super) struct Told {
    machine: Option<StreamId>,
    keys: BTreeSet<String>,
}

impl Told {
    /// What was not told yet.
    fn news(&mut self, machine: StreamId, milestones: Vec<Milestone>) -> Vec<Milestone> {
        if self.machine != Some(machine) {
            *self = Self { machine: Some(machine), keys: BTreeSet::new() };
        }
        milestones.into_iter().filter(|one| self.keys.insert(one.key.clone())).collect()
    }
}

impl SetState {
    /// Tells what the newest rollout has come to. `is_known`: another process was at work on it, and has told it its log.
    pub(super) fn tell_rollout(&mut self, is_known: bool) {
        let (Some(id), Some(state)) = (self.rollouts.id, self.own_rollout()) else { return };
        let milestones = rollout::milestones(state);
        let news = self.rollouts.told.news(id, milestones);
        self.tell_milestones(id, news, is_known);
    }

    /// The same of the newest deletion.
    pub(super) fn tell_teardown(&mut self, is_known: bool) {
        let (Some(id), Some(state)) = (self.teardowns.id, &self.teardowns.last) else { return };
        if self.own_teardown().is_none() {
            return;
        }
        let news = self.teardowns.told.news(id, teardown::milestones(state));
        self.tell_milestones(id, news, is_known);
    }

    /// Waits for what is being told of a set that is gone; not long, since it is no more than news.
    pub(super) async fn told(&mut self) {
        let told = async { while self.events.join_next().await.is_some() {} };
        drop(tokio::time::timeout(TOLD_WITHIN, told).await);
    }

    fn tell_milestones(&mut self, id: StreamId, news: Vec<Milestone>, is_known: bool) {
        let now = self.now();
        for Milestone { key, reason, message, at } in news {
            match (is_known, reason.is_well()) {
                (true, _) => {}
                (false, true) => tracing::info!(set = %self.key, machine = %id, %reason, "{message}"),
                (false, false) => tracing::warn!(set = %self.key, machine = %id, %reason, "{message}"),
            }
            let is_old = |at: Timestamp| is_known && at + TOLD_AGAIN < now;
            if !self.shared.store.is_shared() || at.is_some_and(is_old) {
                continue;
            }
            let told = (reason.to_string(), reason.is_well(), message);
            self.announce(format!("tidegate.{id}.{key}"), told, at.unwrap_or(now));
        }
    }

    /// Tells something as an Event of the cluster, beside the set: a reason, whether nobody has to see to it, and words.
    pub(super) fn announce(
        &mut self,
        name: String,
        (reason, is_well, message): (impl Into<String>, bool, String),
        at: Timestamp,
    ) {
        let metadata = &self.set.metadata;
        let announced = Announced {
            name,
            kind: "ApplicationSet",
            key: self.key.clone(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            reason: reason.into(),
            is_well,
            message,
            at,
        };
        let shared = Arc::clone(&self.shared);
        self.events.spawn(async move {
            let put = put_event(shared.applications.places.cluster().as_ref(), &announced).await;
            if let Err(problem) = put {
                tracing::debug!(set = %announced.key, problem, "the cluster takes no Events");
            }
        });
    }
}
