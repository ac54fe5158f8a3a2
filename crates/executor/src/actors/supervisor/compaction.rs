//! Log compaction in short steps, periodically and whenever the log has grown by about a tenth.

use std::sync::Arc;

use tidegate_oplog::{LogError, Retention};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::state::SupervisorState;
use crate::engine_context::{Compaction, EngineContext};
use crate::log::run_blocking;

impl SupervisorState {
    /// Starts periodic compaction, which ends with the supervisor.
    pub(super) fn start_periodic_compaction(&mut self) {
        let Some(Compaction { interval, retention }) = self.shared.compaction else { return };
        let (shared, writing) = (Arc::clone(&self.shared), Arc::clone(&self.write_permit));
        self.tasks.spawn(async move {
            let mut complete_at = Instant::now() + interval;
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(complete_at) => {
                        complete_at = Instant::now() + interval;
                        shared.log.schedule_compaction();
                    }
                    () = shared.log_actor.metrics.compaction_due.notified() => {}
                }
                if shared.log_failure.get().is_some() {
                    return;
                }
                if let Err(error) = run_compaction(&shared, &writing, retention).await {
                    // The next compaction retries. If the log is broken, the next append reports it.
                    tracing::warn!(%error, "failed to compact the log");
                }
            }
        });
    }
}

/// Runs a compaction that is due. Its steps alternate with groups of batches, so a group waits for at most
/// one step.
async fn run_compaction(
    shared: &EngineContext,
    writing: &Arc<Semaphore>,
    keep: Retention,
) -> Result<(), LogError> {
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(writing).acquire_owned().await else { return Ok(()) };
        let now = shared.clock.now();
        // The blocking call owns the permit, because it continues even if this task is aborted.
        let step = run_blocking(&shared.log, move |log| {
            let _permit = permit;
            log.compact_step(&keep, now)
        });
        match step.await? {
            Some(done) => tracing::debug!(?done, "log compaction step finished"),
            None => return Ok(()),
        }
    }
}
