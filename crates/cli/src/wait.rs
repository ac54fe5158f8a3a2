//! Waiting for operations: until they are over, paused, out of time, or the process is asked to end.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_executor::{Engine, EngineError, Event, EventKind, Events, Missed};
use tidegate_lifecycle::operation::{Explanation, OperationView};
use tidegate_model::{OperationId, format_duration};
use tidegate_oplog::Retention;
use tidegate_service::documents::output::OutputDocument;
use tidegate_service::session::Session;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::error::CliError;
use crate::progress::Progress;
use crate::signals::Signals;

/// What became of the operations that were waited for.
#[derive(Debug, Default)]
pub struct Waited {
    /// Those that are over.
    pub over: Vec<OperationView>,
    /// Those that are not, and why nobody waits any longer.
    pub left: Vec<Unfinished>,
}

impl Waited {
    /// What became of others, too.
    pub fn extend(&mut self, others: Self) {
        self.over.extend(others.over);
        self.left.extend(others.left);
    }

    /// Whether a signal ended the waiting.
    pub fn is_interrupted(&self) -> bool {
        self.left.iter().any(|left| matches!(left.why, Left::Interrupted(_)))
    }
}

/// An operation that is not over.
#[derive(Debug)]
pub struct Unfinished {
    pub view: OperationView,
    /// Why it is there.
    pub explanation: Explanation,
    /// Why nobody waits for it any longer.
    pub why: Left,
}

/// Why nobody waits for an operation any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// `--timeout`.
    TimedOut(Duration),
    /// A signal.
    Interrupted(&'static str),
    /// Somebody holds it.
    Paused { by: String },
}

impl Left {
    /// In words.
    pub fn reason(&self) -> String {
        match self {
            Self::TimedOut(timeout) => format!("not finished after {}", format_duration(*timeout)),
            Self::Interrupted(signal) => format!("interrupted by {signal}"),
            Self::Paused { by } => format!("paused by {by}"),
        }
    }
}

/// Something to wait for.
pub struct Waiting<'a> {
    pub engine: &'a Engine,
    /// From before the operations were begun, so that nothing is missed.
    pub events: Events,
    pub operations: Vec<OperationId>,
    pub timeout: Option<Duration>,
    /// What hooks write is shown.
    pub follow_hooks: bool,
}

/// How long after the end of operations it is shown what their hooks have written last.
const READ_ON_FOR: Duration = Duration::from_secs(5);

/// Returns when each operation is over or left: paused, out of time, or interrupted by a signal, which leaves all of them.
pub async fn wait(
    waiting: Waiting<'_>,
    signals: &mut Signals,
    progress: &mut Progress<'_>,
) -> Result<Waited, CliError> {
    let Waiting { engine, mut events, operations, timeout, follow_hooks } = waiting;
    let followed = operations.iter().copied().filter(|_| follow_hooks);
    let (mut output, mut is_told) = (output_of(engine, followed), follow_hooks);
    let mut ends = JoinSet::new();
    let mut open: BTreeSet<OperationId> = BTreeSet::new();
    for operation in operations {
        open.insert(operation);
        ends.spawn(end_of(engine.clone(), operation));
    }
    let mut waited = Waited::default();
    let mut ticks = tokio::time::interval(progress.period());
    let patience = tokio::time::sleep(timeout.unwrap_or(Duration::MAX));
    tokio::pin!(patience);
    while !open.is_empty() {
        let left = tokio::select! {
            // What has happened is told before that it is over.
            biased;
            signal = signals.next() => Left::Interrupted(signal),
            event = events.next() => {
                for (operation, left) in heard(engine, event, &open, progress).await? {
                    open.remove(&operation);
                    waited.left.push(unfinished(engine, operation, left).await?);
                }
                continue;
            }
            Some(end) = ends.join_next() => {
                if let Ok(end) = end {
                    let view = end?;
                    if open.remove(&view.id) {
                        waited.over.push(view);
                    }
                }
                continue;
            }
            () = &mut patience => Left::TimedOut(timeout.unwrap_or_default()),
            _ = ticks.tick() => {
                progress.tick(engine, open.iter().copied()).await;
                continue;
            }
            // Last: however much hooks write, they hold nothing up.
            told = output.recv(), if is_told => {
                match told {
                    Some(document) => progress.output(&document),
                    None => is_told = false,
                }
                continue;
            }
        };
        for operation in std::mem::take(&mut open) {
            waited.left.push(unfinished(engine, operation, left.clone()).await?);
        }
    }
    if waited.left.is_empty() {
        let reading_on = async {
            while let Some(document) = output.recv().await {
                progress.output(&document);
            }
        };
        let _ = tokio::time::timeout(READ_ON_FOR, reading_on).await;
    }
    progress.end();
    Ok(waited)
}

/// What the hooks of some operations write. It ends with all of them.
fn output_of(
    engine: &Engine,
    operations: impl Iterator<Item = OperationId>,
) -> mpsc::Receiver<OutputDocument> {
    // What waits, waits where it is bounded.
    let (send, receive) = mpsc::channel(1);
    for operation in operations {
        let (engine, send) = (engine.clone(), send.clone());
        tokio::spawn(async move {
            // One that is over already has nothing to tell.
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

async fn unfinished(engine: &Engine, operation: OperationId, why: Left) -> Result<Unfinished, CliError> {
    let (view, explanation) = engine.inspect(operation).await?;
    Ok(Unfinished { view, explanation, why })
}

/// One operation may be over before anybody asks.
async fn end_of(engine: Engine, operation: OperationId) -> Result<OperationView, EngineError> {
    match engine.wait(operation).await {
        Err(EngineError::NotRunning { .. }) => engine.inspect(operation).await.map(|(view, _)| view),
        result => result,
    }
}

/// Tells what happened. Returns the operations that were paused.
async fn heard(
    engine: &Engine,
    event: Option<Result<Event, Missed>>,
    open: &BTreeSet<OperationId>,
    progress: &mut Progress<'_>,
) -> Result<Vec<(OperationId, Left)>, CliError> {
    match event {
        Some(Ok(event)) if open.contains(&event.operation) => {
            progress.event(engine, &event).await;
            Ok(match event.what {
                EventKind::Paused { by, .. } => vec![(event.operation, Left::Paused { by })],
                _ => Vec::new(),
            })
        }
        Some(Ok(_)) => Ok(Vec::new()),
        // A pause may have been among what cannot be read.
        Some(Err(missed)) => {
            tracing::warn!(%missed, "not everything that happened can be told");
            let mut paused = Vec::new();
            for operation in open {
                if let (OperationView { paused_by: Some(by), .. }, _) = engine.inspect(*operation).await? {
                    paused.push((*operation, Left::Paused { by }));
                }
            }
            Ok(paused)
        }
        None => Err(EngineError::Stopped.into()),
    }
}

/// Ends an engine's work in order; see [`Session::close`]. A signal meanwhile ends the process at once.
pub async fn close(session: Session, keep: Retention, signals: &mut Signals) -> Result<(), CliError> {
    tokio::select! {
        stopped = session.close(keep) => Ok(stopped?),
        _ = signals.next() => Err(CliError::Impatient),
    }
}
