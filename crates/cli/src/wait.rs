//! Waits until operations finish or are paused, the timeout expires, or a termination signal arrives.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_daemon::session::Session;
use tidegate_executor::{Engine, EngineError, Event, EventGap, EventKind, EventStream};
use tidegate_lifecycle::operation::{Explanation, OperationView};
use tidegate_model::{OperationId, format_duration};
use tidegate_oplog::Retention;
use tidegate_views::output::OutputDocument;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::CliError;
use crate::progress::Progress;
use crate::signals::Signals;

/// Result of a wait.
#[derive(Debug, Default)]
pub struct WaitResult {
    /// Finished operations.
    pub finished: Vec<OperationView>,
    /// Unfinished operations, with the reason the wait ended.
    pub unfinished: Vec<UnfinishedOperation>,
}

impl WaitResult {
    /// Adds the results of another wait.
    pub fn extend(&mut self, others: Self) {
        self.finished.extend(others.finished);
        self.unfinished.extend(others.unfinished);
    }

    /// Returns true if a signal ended the wait.
    pub fn is_interrupted(&self) -> bool {
        self.unfinished.iter().any(|left| matches!(left.reason, WaitEndReason::Interrupted(_)))
    }
}

/// An unfinished operation.
#[derive(Debug)]
pub struct UnfinishedOperation {
    pub view: OperationView,
    /// Explanation of the operation's state.
    pub explanation: Explanation,
    /// Reason the wait ended.
    pub reason: WaitEndReason,
}

/// Reason a wait ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitEndReason {
    /// The `--timeout` expired.
    TimedOut(Duration),
    /// A signal arrived.
    Interrupted(&'static str),
    /// A user paused the operation.
    Paused { by: String },
}

impl WaitEndReason {
    pub fn describe(&self) -> String {
        match self {
            Self::TimedOut(timeout) => format!("timed out after {}", format_duration(*timeout)),
            Self::Interrupted(signal) => format!("interrupted by {signal}"),
            Self::Paused { by } => format!("paused by {by}"),
        }
    }
}

/// Operations to wait for.
pub struct WaitRequest<'a> {
    pub engine: &'a Engine,
    /// Stream opened before the operations started, so that no event is missed.
    pub events: EventStream,
    pub operations: Vec<OperationId>,
    pub timeout: Option<Duration>,
    /// True if hook output should be shown.
    pub follow_hooks: bool,
}

/// Time to keep showing hook output after operations have finished.
const OUTPUT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Waits until every operation finishes or is paused. A timeout or a signal ends the wait for all of them.
pub async fn wait(
    waiting: WaitRequest<'_>,
    signals: &mut Signals,
    progress: &mut Progress<'_>,
) -> Result<WaitResult, CliError> {
    let WaitRequest { engine, mut events, operations, timeout, follow_hooks } = waiting;
    let followed = operations.iter().copied().filter(|_| follow_hooks);
    let (mut output, mut is_told) = (merge_hook_output(engine, followed), follow_hooks);
    let mut ends = JoinSet::new();
    let mut open: BTreeSet<OperationId> = BTreeSet::new();
    for operation in operations {
        open.insert(operation);
        ends.spawn(wait_for_end(engine.clone(), operation));
    }
    let mut waited = WaitResult::default();
    let mut ticks = tokio::time::interval(progress.period());
    let time_limit = tokio::time::sleep(timeout.unwrap_or(Duration::MAX));
    tokio::pin!(time_limit);
    while !open.is_empty() {
        let left = tokio::select! {
            // Print events before the result.
            biased;
            signal = signals.next() => WaitEndReason::Interrupted(signal),
            event = events.next() => {
                for (operation, left) in handle_event(engine, event, &open, progress).await? {
                    open.remove(&operation);
                    waited.unfinished.push(explain_unfinished(engine, operation, left).await?);
                }
                continue;
            }
            Some(end) = ends.join_next() => {
                if let Ok(end) = end {
                    let view = end?;
                    if open.remove(&view.id) {
                        waited.finished.push(view);
                    }
                }
                continue;
            }
            () = &mut time_limit => WaitEndReason::TimedOut(timeout.unwrap_or_default()),
            _ = ticks.tick() => {
                progress.tick(engine, open.iter().copied()).await;
                continue;
            }
            // Poll hook output last, so that heavy output can't delay anything else.
            told = output.recv(), if is_told => {
                match told {
                    Some(document) => progress.output(&document),
                    None => is_told = false,
                }
                continue;
            }
        };
        for operation in std::mem::take(&mut open) {
            waited.unfinished.push(explain_unfinished(engine, operation, left.clone()).await?);
        }
    }
    if waited.unfinished.is_empty() {
        let reading_on = async {
            while let Some(document) = output.recv().await {
                progress.output(&document);
            }
        };
        let _ = tokio::time::timeout(OUTPUT_GRACE_PERIOD, reading_on).await;
    }
    progress.end();
    Ok(waited)
}

/// Merges the hook output of several operations. The merged stream ends when the last of them finishes.
fn merge_hook_output(
    engine: &Engine,
    operations: impl Iterator<Item = OperationId>,
) -> mpsc::Receiver<OutputDocument> {
    // A small channel is enough: backpressure reaches the source, whose buffer is bounded.
    let (send, receive) = mpsc::channel(1);
    for operation in operations {
        let (engine, send) = (engine.clone(), send.clone());
        tokio::spawn(async move {
            // A finished operation has no live output.
            let Ok(mut output) = engine.follow_output(operation).await else { return };
            while let Some(item) = output.next().await {
                if send.send(item.into()).await.is_err() {
                    return;
                }
            }
        });
    }
    receive
}

async fn explain_unfinished(
    engine: &Engine,
    operation: OperationId,
    reason: WaitEndReason,
) -> Result<UnfinishedOperation, CliError> {
    let (view, explanation) = engine.inspect(operation).await?;
    Ok(UnfinishedOperation { view, explanation, reason })
}

/// Waits for an operation to finish, which may happen before the first check.
async fn wait_for_end(engine: Engine, operation: OperationId) -> Result<OperationView, EngineError> {
    match engine.wait(operation).await {
        Err(EngineError::NotRunning { .. }) => engine.inspect(operation).await.map(|(view, _)| view),
        result => result,
    }
}

/// Prints an event, and returns the operations that were paused.
async fn handle_event(
    engine: &Engine,
    event: Option<Result<Event, EventGap>>,
    open: &BTreeSet<OperationId>,
    progress: &mut Progress<'_>,
) -> Result<Vec<(OperationId, WaitEndReason)>, CliError> {
    match event {
        Some(Ok(event)) if open.contains(&event.operation) => {
            progress.event(engine, &event).await;
            Ok(match event.what {
                EventKind::Paused { by, .. } => vec![(event.operation, WaitEndReason::Paused { by })],
                _ => Vec::new(),
            })
        }
        Some(Ok(_)) => Ok(Vec::new()),
        // The missed events may include a pause.
        Some(Err(missed)) => {
            tracing::warn!(%missed, "some events were missed");
            let mut paused = Vec::new();
            for operation in open {
                if let (OperationView { paused_by: Some(by), .. }, _) = engine.inspect(*operation).await? {
                    paused.push((*operation, WaitEndReason::Paused { by }));
                }
            }
            Ok(paused)
        }
        None => Err(EngineError::Stopped.into()),
    }
}

/// Shuts down an engine gracefully; see [`Session::close`]. A signal during the shutdown terminates the
/// process immediately.
pub async fn close_session(session: Session, keep: Retention, signals: &mut Signals) -> Result<(), CliError> {
    tokio::select! {
        stopped = session.close(keep) => Ok(stopped?),
        _ = signals.next() => Err(CliError::ForcedShutdown),
    }
}
