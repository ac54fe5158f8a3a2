//! Stops the syncs of a deleted Application, so that they don't deploy anything else.
//!
//! Running hooks aren't stopped, and nothing is rolled back. The operation is paused, and then terminated
//! once its hooks have finished.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_application::operation;
use tidegate_executor::EngineError;
use tidegate_model::OperationId;

use super::operation_history::{self, CLEANUP_ACTOR, OpenSync};
use super::shared_state::SharedState;

/// Interval between checks for finished hooks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Stops an Application's syncs that started before `before`. A new Application of the same name may exist by
/// now.
pub(super) async fn end_orphaned_syncs(shared: Arc<SharedState>, key: AppKey, before: OperationId) {
    let may_be = move |operation, _: &str| operation < before;
    end_matching(&shared, Some(key.instance_name()), may_be, |_| true).await;
}

/// Stops syncs of Applications that were deleted before this process started. These are syncs of Applications
/// that aren't in `known`, provided that the store is authoritative for them, and syncs that another process
/// was already stopping.
pub(super) async fn end_other_orphaned_syncs(
    shared: Arc<SharedState>,
    known: BTreeSet<String>,
    before: OperationId,
) {
    let observation = Arc::clone(&shared);
    let may_be = move |operation, application: &str| {
        let owner = observation.application_cache.get(&AppKey::parse(application));
        let own = owner.as_ref().and_then(|owner| operation::engine_id(owner.operation.as_ref()?));
        operation < before && own != Some(operation)
    };
    let is_gone = |open: &OpenSync| {
        let key = AppKey::parse(&open.application);
        let is_lost = !known.contains(&open.application);
        open.is_orphaned || is_lost && shared.store.is_authoritative(&key)
    };
    end_matching(&shared, None, may_be, is_gone).await;
}

/// Stops all matching operations: `may_be` selects those to read, and `is_meant` those to stop.
async fn end_matching(
    shared: &Arc<SharedState>,
    of: Option<String>,
    may_be: impl Fn(OperationId, &str) -> bool + Clone + Send + 'static,
    is_meant: impl Fn(&OpenSync) -> bool,
) {
    let (mut held, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let open = match operation_history::open_syncs(shared, of.clone(), may_be.clone()).await {
            Ok(all) => all.into_iter().filter(&is_meant).collect::<Vec<_>>(),
            Err(error) => {
                tracing::warn!(%error, "failed to list operations whose Application no longer exists");
                return;
            }
        };
        if open.is_empty() {
            return;
        }
        for one in open {
            if held.insert(one.operation) {
                tracing::info!(application = one.application, operation = %one.operation, "an operation's Application no longer exists; terminating the operation when its hooks have finished");
            }
            // The operation may have started a hook that the log doesn't contain yet.
            let was_quiet = quiet.contains(&one.operation);
            let ended = match (one.has_running_hook, was_quiet) {
                (false, true) => shared.engine.terminate(one.operation, CLEANUP_ACTOR).await,
                (runs_hook, _) => {
                    if !runs_hook {
                        quiet.insert(one.operation);
                    }
                    pause_operation(shared, one.operation).await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(operation = %one.operation, %error, "operation not terminated yet");
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Pauses an operation, unless it is already paused.
async fn pause_operation(shared: &SharedState, operation: OperationId) -> Result<(), EngineError> {
    match shared.engine.pause(operation, CLEANUP_ACTOR, "").await {
        Ok(()) | Err(EngineError::Rejected { .. } | EngineError::AlreadyFinished { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod tests;
