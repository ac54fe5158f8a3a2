//! Persistence of an Application's state.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use ractor::ActorRef;
use tidegate_application::AppKey;
use tidegate_application::machine::{WriteChange, WriteDecision, remove_write_condition};
use tidegate_model::argo::Application;
use tokio::task::JoinHandle;

use super::ActorState;
use crate::messages::AppMessage;
use crate::shared_state::SharedState;
use crate::status_log;

/// Maximum time that work waits for a write it doesn't depend on.
const WRITE_WAIT_MAX: Duration = Duration::from_secs(1);
/// Maximum number of concurrent writes during shutdown, and the time limit for all of them together.
const CONCURRENT_WRITES_MAX: usize = 16;
const FINAL_WRITES_TIMEOUT: Duration = Duration::from_secs(5);

/// Write in progress. Dropping it aborts the write.
pub(super) struct PendingWrite(JoinHandle<Result<(), String>>);

impl Drop for PendingWrite {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Persists the remaining published state after all actors have stopped. Anything not written before the
/// timeout is restored from the log at the next start.
pub async fn persist_remaining(shared: &SharedState) {
    shared.store.await_writes().await;
    let left = shared.unpersisted.take();
    let write = |key: AppKey| async move {
        let Some(shown) = shared.application_cache.get(&key) else { return };
        let mut application = Application::clone(&shown);
        remove_write_condition(&mut application);
        if let Err(error) = shared.store.persist(&application).await {
            tracing::debug!(application = %key, %error, "failed to save the last application status");
        }
    };
    let writing = futures_util::stream::iter(left).for_each_concurrent(CONCURRENT_WRITES_MAX, write);
    if tokio::time::timeout(FINAL_WRITES_TIMEOUT, writing).await.is_err() {
        tracing::info!("timed out while saving application statuses");
    }
}

impl ActorState {
    /// Publishes changes, and persists them at most once per second. Changes to the operation are persisted
    /// immediately, before it starts. A failed write is published with its reason and retried later. A slow
    /// write continues in the background and holds up only other writes and work that depends on it.
    pub(super) async fn persist(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, Some(WRITE_WAIT_MAX)).await
    }

    /// Publishes and persists changes however long it takes, because a caller is waiting for the result.
    pub(super) async fn persist_now(&mut self, myself: &ActorRef<AppMessage>) -> Result<(), String> {
        self.persist_within(myself, None).await
    }

    async fn persist_within(
        &mut self,
        myself: &ActorRef<AppMessage>,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        let persisted = self.write_within(patience).await;
        if self.machine.is_unpersisted() {
            self.shared.unpersisted.add(self.machine.key());
        } else if persisted.is_ok() {
            self.shared.unpersisted.remove(self.machine.key());
        }
        let effects = self.machine.take_effects();
        self.execute(myself, effects);
        persisted
    }

    async fn write_within(&mut self, patience: Option<Duration>) -> Result<(), String> {
        // If an earlier write is already slow, don't wait for it again.
        self.await_write(patience.map(|_| Duration::ZERO)).await;
        self.publish();
        if self.pending_write.is_some() {
            return Err(self.record_slow_write());
        }
        match self.machine.decide_write(self.now()) {
            WriteDecision::Current => {
                let change = self.machine.clear_write_failure();
                self.report_write_change(change);
                Ok(())
            }
            WriteDecision::Delayed => Ok(()),
            WriteDecision::Failed(reason) => Err(reason),
            WriteDecision::Write => {
                let (store, state) = (Arc::clone(&self.shared.store), self.machine.start_write(self.now()));
                self.pending_write = Some(PendingWrite(tokio::spawn(async move {
                    store.persist(&state).await.map_err(|error| error.to_string())
                })));
                match self.await_write(patience).await {
                    Some(written) => written,
                    None => Err(self.record_slow_write()),
                }
            }
        }
    }

    fn record_slow_write(&mut self) -> String {
        let now = self.now();
        self.machine.record_slow_write(now, now + WRITE_WAIT_MAX);
        "its status is being stored".to_owned()
    }

    /// Waits up to `patience` for the write in progress and handles its result. Returns `None` if there is no
    /// write or it hasn't finished in time.
    pub(super) async fn await_write(&mut self, patience: Option<Duration>) -> Option<Result<(), String>> {
        let PendingWrite(task) = self.pending_write.as_mut()?;
        let ended = match patience {
            Some(patience) => tokio::time::timeout(patience, task).await.ok()?,
            None => task.await,
        };
        self.pending_write = None;
        let written = ended.unwrap_or_else(|fault| match fault.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err("the write was interrupted".to_owned()),
        });
        let change = self.machine.finish_write(written.clone(), self.now());
        self.report_write_change(change);
        Some(written)
    }

    fn report_write_change(&mut self, change: WriteChange) {
        match change {
            WriteChange::None => return,
            WriteChange::Recovered => {
                tracing::info!(application = %self.key(), "the application status can be saved again");
            }
            WriteChange::Failing(reason) => {
                tracing::error!(application = %self.key(), problem = reason, "failed to save the application status");
            }
        }
        self.publish();
    }

    /// Publishes the current state and logs the differences.
    pub(super) fn publish(&mut self) {
        let cache = &self.shared.application_cache;
        let (before, published) = cache.get_with_deployments(self.machine.key()).unzip();
        let is_same = before.as_ref().is_some_and(|before| self.machine.is_published(before));
        if is_same && published.as_deref() == Some(self.machine.deployments()) {
            return;
        }
        let shown = self.machine.published_state();
        if !is_same {
            let before = before.as_ref().or(self.machine.persisted());
            status_log::log_changes(self.key(), before.map(Arc::as_ref), &shown);
        }
        let deployments = self.machine.deployments().clone();
        self.shared.application_cache.publish(self.machine.key(), shown, deployments);
        if !is_same {
            self.notify_related();
        }
    }
}
