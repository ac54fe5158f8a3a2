//! Task that follows an operation's running hooks for one reader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_lifecycle::operation::EventKind;
use tidegate_model::OperationId;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::hook_follower::follow_hook;
use super::queue::Queue;
use super::reader::Reader;
use super::{HookOutput, RunningHooks};
use crate::engine_context::EngineContext;
use crate::error::EngineError;
use crate::events::EventBatch;

/// Minimum time between queries for the running hooks.
const QUERY_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Maximum time to keep reading hook output after the operation has finished.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);

/// Source of an operation's running hooks.
pub(crate) trait RunningHooksSource: Send + 'static {
    fn running_hooks(&self) -> impl Future<Output = Result<RunningHooks, EngineError>> + Send;
}

/// Follows the hooks of a running operation. `first` contains the hooks running at the start.
pub(crate) fn follow_operation(
    shared: Arc<EngineContext>,
    operation: OperationId,
    batches: broadcast::Receiver<Arc<EventBatch>>,
    first: RunningHooks,
    asking: impl RunningHooksSource,
) -> HookOutput {
    let queue = Arc::<Queue>::default();
    let reader = Reader::new(shared, Arc::clone(&queue));
    let ending = QueueEndGuard(Arc::clone(&queue));
    let following = tokio::spawn(async move {
        let _ending = ending;
        follow_hooks(&Arc::new(reader), operation, batches, first, asking).await;
    });
    HookOutput { queue, task: following.abort_handle() }
}

/// Guard that ends the reader's queue when the task exits, for whatever reason.
struct QueueEndGuard(Arc<Queue>);

impl Drop for QueueEndGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn follow_hooks(
    reader: &Arc<Reader>,
    operation: OperationId,
    mut batches: broadcast::Receiver<Arc<EventBatch>>,
    first: RunningHooks,
    asking: impl RunningHooksSource,
) {
    let mut followed: BTreeMap<String, watch::Sender<bool>> = BTreeMap::new();
    // The hook followers end with this task.
    let mut hooks = JoinSet::new();
    let mut running = Some(first);
    loop {
        if let Some(RunningHooks { destination, targets, hooks: run }) = running.take() {
            let uids: BTreeSet<&str> = run.iter().map(|hook| hook.uid.as_str()).collect();
            for (_, ended) in followed.iter().filter(|(uid, _)| !uids.contains(uid.as_str())) {
                ended.send_replace(true);
            }
            let Some(cluster) = reader.shared.clusters.get(&destination) else { return };
            if !run.is_empty() && !reader.load_mask(targets).await {
                return;
            }
            for one in run {
                if !followed.contains_key(&one.uid) {
                    let (ended, has_ended) = watch::channel(false);
                    followed.insert(one.uid.clone(), ended);
                    hooks.spawn(follow_hook(
                        Arc::clone(reader),
                        cluster.connection_with_timeouts(),
                        one,
                        has_ended,
                    ));
                }
            }
        }
        while hooks.try_join_next().is_some() {}
        match wait_for_progress(operation, &mut batches).await {
            Progress::Advanced => {}
            Progress::Ended => break,
            Progress::Detached => return,
        }
        tokio::time::sleep(QUERY_INTERVAL_MIN).await;
        match asking.running_hooks().await {
            Ok(now) => running = Some(now),
            // The operation's actor is restarting. A notification will follow.
            Err(EngineError::Restarted { .. }) => {}
            // The operation may have finished in the meantime.
            Err(EngineError::NotRunning { .. }) => break,
            Err(_) => return,
        }
    }
    for ended in followed.values() {
        ended.send_replace(true);
    }
    let reading_on = async { while hooks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(DRAIN_TIME_MAX, reading_on).await;
}

/// Progress of the followed operation.
enum Progress {
    Advanced,
    /// The operation has finished.
    Ended,
    /// The operation isn't running in this engine anymore.
    Detached,
}

/// Waits for durable events of the operation.
async fn wait_for_progress(
    operation: OperationId,
    batches: &mut broadcast::Receiver<Arc<EventBatch>>,
) -> Progress {
    loop {
        match batches.recv().await {
            Ok(batch) if batch.operation == operation => {
                let is_over =
                    batch.events.iter().any(|event| matches!(event.what, EventKind::Finished { .. }));
                return if is_over { Progress::Ended } else { Progress::Advanced };
            }
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return Progress::Advanced,
            Err(RecvError::Closed) => return Progress::Detached,
        }
    }
}
