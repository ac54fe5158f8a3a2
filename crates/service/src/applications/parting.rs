//! What becomes of the syncs of an application that is gone: they deploy nothing more.
//!
//! A hook that is at work is not stopped for that, nor is anything undone: the operation is held where it stands, and ended when
//! its hooks have.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate_application::operation;
use tidegate_executor::EngineError;
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::OperationId;

use super::recorded::{self, Open};
use super::shared::Shared;
use super::store::AppKey;

/// Who ends them.
const BY: &str = "the deletion of its Application";
/// How often it is looked whether the hooks have ended.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Whether an operation ends, or has ended, because its application was gone: it is nothing to another one of that name.
pub(super) fn is_parted(view: &OperationView) -> bool {
    [&view.paused_by, &view.terminated_by].into_iter().flatten().any(|by| by == BY)
}

/// Ends the syncs of an application that were begun before this one, which may be of another one that has its name now.
pub(super) async fn end_syncs(shared: Arc<Shared>, key: AppKey, before: OperationId) {
    let may_be = move |operation, _: &str| operation < before;
    end_all(&shared, Some(key.instance()), (may_be, |_: &Open| true)).await;
}

/// Ends the syncs of applications that have gone before this process began: those that are not among these, where the store
/// speaks for them, and those that another process was about to end.
pub(super) async fn end_syncs_of_others(shared: Arc<Shared>, known: BTreeSet<String>, before: OperationId) {
    let sight = Arc::clone(&shared);
    let may_be = move |operation, application: &str| {
        let owner = sight.board.get(&AppKey::named(application));
        let own = owner.as_ref().and_then(|owner| operation::id(owner.operation.as_ref()?));
        operation < before && own != Some(operation)
    };
    let is_gone = |open: &Open| {
        let is_lost = !known.contains(&open.application);
        open.is_parted || is_lost && shared.store.speaks_for(&AppKey::named(&open.application))
    };
    end_all(&shared, None, (may_be, is_gone)).await;
}

/// Ends those that are meant; the first of the two decides which of them are read for that.
async fn end_all(
    shared: &Arc<Shared>,
    of: Option<String>,
    (may_be, is_meant): (impl Fn(OperationId, &str) -> bool + Clone + Send + 'static, impl Fn(&Open) -> bool),
) {
    let (mut held, mut quiet) = (BTreeSet::new(), BTreeSet::new());
    loop {
        let open = match recorded::open(shared, of.clone(), may_be.clone()).await {
            Ok(all) => all.into_iter().filter(&is_meant).collect::<Vec<_>>(),
            Err(error) => {
                tracing::warn!(%error, "whether an operation goes on whose Application is gone cannot be told");
                return;
            }
        };
        if open.is_empty() {
            return;
        }
        for one in open {
            if held.insert(one.operation) {
                tracing::info!(application = one.application, operation = %one.operation, "the Application of an operation is gone; it is ended when its hooks have");
            }
            // A hook may be on its way that the log does not show yet.
            let was_quiet = quiet.contains(&one.operation);
            let ended = match (one.runs_hook, was_quiet) {
                (false, true) => shared.engine.terminate(one.operation, BY).await,
                (runs_hook, _) => {
                    if !runs_hook {
                        quiet.insert(one.operation);
                    }
                    hold(shared, one.operation).await
                }
            };
            if let Err(error) = ended {
                tracing::debug!(operation = %one.operation, %error, "an operation is not ended yet");
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Holds an operation, unless somebody does.
async fn hold(shared: &Shared, operation: OperationId) -> Result<(), EngineError> {
    match shared.engine.pause(operation, BY, "").await {
        Ok(()) | Err(EngineError::Refused { .. } | EngineError::AlreadyFinished { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests;
