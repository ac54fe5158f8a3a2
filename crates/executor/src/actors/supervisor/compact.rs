//! The log of a process that works for long is made smaller now and then, beside everything else.

use std::sync::Arc;
use tidegate_oplog::Retention;

use super::state::SupervisorState;
use crate::log::blocking;
use crate::shared::{Compaction, Shared};

impl SupervisorState {
    /// Begins to make the log smaller now and then; that ends with the supervisor.
    pub(super) fn compact_regularly(&mut self) {
        let Some(Compaction { every, keep }) = self.shared.compaction else { return };
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                if shared.log_failure.get().is_some() {
                    return;
                }
                compact(&shared, keep).await;
            }
        });
    }
}

async fn compact(shared: &Shared, keep: Retention) {
    let now = shared.clock.now();
    match blocking(&shared.log, move |log| log.compact(&keep, now)).await {
        Ok(done) => tracing::debug!(?done, "the log was compacted"),
        // What is not tidied now is tidied next time; a log that is broken is told by the next append.
        Err(error) => tracing::warn!(%error, "the log could not be compacted"),
    }
}
