//! The log actor: group commit.
//!
//! While a group is being written, batches from operations and other machines form the next group, which
//! takes a single flush. Calls to the log run on a blocking thread. Only one group is in flight at a time,
//! even across restarts: a new actor waits for the write in progress.
//!
//! The sender of a batch always learns its outcome, even if the outcome is unknown.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_oplog::{LogError, RawAppend};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::Instant;

use crate::duration_histogram::DurationHistogram;
use crate::error::EngineError;
use crate::log::{AppendFailure, Log, LogFailure, is_rejection};

/// Maximum number of batches in one group. Keeps each flush short.
const GROUP_MAX: usize = 1024;

/// Number of single-batch groups after a rejected group. The offending operation will retry, and must not
/// drag other operations' batches down with it.
const SINGLE_BATCH_GROUPS: usize = 256;

/// Encodes a batch of records from any state machine. Runs on the blocking thread, because snapshots can be
/// large.
pub(crate) type Encode = Box<dyn FnOnce() -> Result<RawAppend, LogError> + Send>;

/// Callback that reports the outcome of a batch to its sender, called exactly once.
pub(crate) type OutcomeCallback = Box<dyn FnOnce(Result<(), AppendFailure>) + Send>;

/// Histogram bounds for flush durations in seconds, from a fast disk to a hanging one.
const FLUSH_BOUNDS: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Metrics of the log.
pub(crate) struct LogMetrics {
    /// Time taken to make a group durable.
    pub flushes: DurationHistogram,
    /// Number of batches without a known outcome.
    pub pending_batches: AtomicU64,
    /// Notified when a group makes a log compaction due.
    pub compaction_due: Notify,
}

/// Handle to the current log actor. Remains valid across restarts of the actor.
pub(crate) struct LogHandle {
    pub metrics: Arc<LogMetrics>,
    /// `None` while the actor is restarting.
    actor: watch::Sender<Option<ActorRef<LogMessage>>>,
}

impl LogHandle {
    pub fn new() -> Self {
        let (flushes, compaction_due) = (DurationHistogram::new(FLUSH_BOUNDS), Notify::new());
        let measures = LogMetrics { flushes, pending_batches: AtomicU64::new(0), compaction_due };
        Self { metrics: Arc::new(measures), actor: watch::Sender::new(None) }
    }

    /// Makes a batch durable and reports the outcome.
    pub fn append(&self, encode: Encode, tell: OutcomeCallback) {
        self.metrics.pending_batches.fetch_add(1, Ordering::Relaxed);
        let message = LogMessage::Append(encode, OutcomeReporter(Some(tell), Arc::clone(&self.metrics)));
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(message);
        }
    }

    /// Returns once all earlier batches have been written, rejected or lost.
    pub async fn flush(&self, failure: &LogFailure) -> Result<(), EngineError> {
        let mut changes = self.actor.subscribe();
        loop {
            if let Some(reason) = failure.get() {
                return Err(EngineError::LogFailed { reason: reason.clone() });
            }
            let actor = changes.borrow_and_update().clone();
            if let Some(actor) = actor {
                let (send, receive) = oneshot::channel();
                if actor.send_message(LogMessage::Flush(send)).is_ok() && receive.await.is_ok() {
                    return Ok(());
                }
            }
            // The actor has failed. Wait until the supervisor replaces it or the engine stops using the log.
            changes.changed().await.map_err(|_| EngineError::Stopped)?;
        }
    }

    pub fn set_actor(&self, actor: Option<ActorRef<LogMessage>>) {
        self.actor.send_replace(actor);
    }

    /// Makes the actor panic, to simulate a bug.
    #[cfg(test)]
    pub fn panic(&self) {
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(LogMessage::Panic);
        }
    }
}

/// Reports the outcome of a batch exactly once, even if this value is dropped.
pub(crate) struct OutcomeReporter(Option<OutcomeCallback>, Arc<LogMetrics>);

impl OutcomeReporter {
    fn report(mut self, result: &Result<(), AppendFailure>) {
        self.send(result.clone());
    }

    fn send(&mut self, result: Result<(), AppendFailure>) {
        if let Some(tell) = self.0.take() {
            self.1.pending_batches.fetch_sub(1, Ordering::Relaxed);
            tell(result);
        }
    }
}

impl Drop for OutcomeReporter {
    fn drop(&mut self) {
        self.send(Err(AppendFailure::Lost));
    }
}

/// Message to the log actor.
pub(crate) enum LogMessage {
    /// Make a batch durable and report the outcome.
    Append(Encode, OutcomeReporter),
    /// Reply once all earlier batches have been written or rejected.
    Flush(oneshot::Sender<()>),
    /// Outcome of the group in flight.
    Written(Result<(), AppendFailure>),
    /// Panic, to simulate a bug.
    #[cfg(test)]
    Panic,
}

pub(crate) struct LogActor;

/// Startup arguments for a log actor.
pub(crate) struct LogArguments {
    pub log: Log,
    pub failure: LogFailure,
    /// Permit that the current actor, or a failed predecessor, holds while writing a group.
    pub write_permit: Arc<Semaphore>,
    pub metrics: Arc<LogMetrics>,
}

enum QueueEntry {
    Batch(Encode, OutcomeReporter),
    Flush(oneshot::Sender<()>),
}

pub(crate) struct LogState {
    arguments: LogArguments,
    /// Queue for the next group.
    queue: VecDeque<QueueEntry>,
    /// True while a group is in flight.
    is_writing: bool,
    /// Reporters to notify once the group in flight is written.
    reporters: Vec<OutcomeReporter>,
    flush_replies: Vec<oneshot::Sender<()>>,
    /// Remaining single-batch groups after a rejected group.
    single_batch_groups: usize,
}

impl Actor for LogActor {
    type Msg = LogMessage;
    type State = LogState;
    type Arguments = LogArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<LogMessage>,
        arguments: LogArguments,
    ) -> Result<LogState, ActorProcessingErr> {
        let (queue, reporters, flush_replies) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut state = LogState {
            arguments,
            queue,
            is_writing: false,
            reporters,
            flush_replies,
            single_batch_groups: 0,
        };
        // A failed actor may have left a group in flight. Writing an empty group waits for it.
        state.start_write(&myself, Vec::new());
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<LogMessage>,
        message: LogMessage,
        state: &mut LogState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Append(encode, reporter) => {
                state.queue.push_back(QueueEntry::Batch(encode, reporter))
            }
            LogMessage::Flush(reply) => state.queue.push_back(QueueEntry::Flush(reply)),
            LogMessage::Written(result) => {
                state.is_writing = false;
                state.single_batch_groups = match &result {
                    Err(AppendFailure::Rejected(_)) => SINGLE_BATCH_GROUPS,
                    _ => state.single_batch_groups.saturating_sub(1),
                };
                state.reporters.drain(..).for_each(|reporter| reporter.report(&result));
                for reply in state.flush_replies.drain(..) {
                    let _ = reply.send(());
                }
            }
            #[cfg(test)]
            LogMessage::Panic => std::panic::panic_any("injected into the log actor"),
        }
        state.write_next_group(&myself);
        Ok(())
    }
}

impl LogState {
    /// Starts writing the next group, unless one is in flight.
    fn write_next_group(&mut self, myself: &ActorRef<LogMessage>) {
        if self.is_writing {
            return;
        }
        let most = if self.single_batch_groups > 0 { 1 } else { GROUP_MAX };
        let mut group = Vec::new();
        while group.len() < most
            && let Some(next) = self.queue.pop_front()
        {
            match next {
                QueueEntry::Batch(encode, reporter) => {
                    group.push(encode);
                    self.reporters.push(reporter);
                }
                // No earlier batch is in flight, so there is nothing to flush.
                QueueEntry::Flush(reply) if group.is_empty() => {
                    let _ = reply.send(());
                }
                QueueEntry::Flush(reply) => self.flush_replies.push(reply),
            }
        }
        if !group.is_empty() {
            self.start_write(myself, group);
        }
    }

    fn start_write(&mut self, myself: &ActorRef<LogMessage>, group: Vec<Encode>) {
        self.is_writing = true;
        let LogArguments { log, failure, write_permit, metrics } = &self.arguments;
        let (log, failure, permit) = (Arc::clone(log), Arc::clone(failure), Arc::clone(write_permit));
        let measures = Arc::clone(metrics);
        let myself = myself.clone();
        // Don't await the write, so that the next group can collect batches in the meantime. The outcome
        // arrives as a message.
        tokio::spawn(async move {
            // The semaphore is never closed.
            let Ok(_permit) = permit.acquire_owned().await else { return };
            let written = match group.is_empty() {
                true => Ok(()),
                false => {
                    let begin = Instant::now();
                    let writing = tokio::task::spawn_blocking({
                        let log = Arc::clone(&log);
                        move || append_group(&log, group, &failure)
                    });
                    // The write is canceled only when the runtime shuts down.
                    let written = writing.await.unwrap_or(Err(AppendFailure::Lost));
                    measures.flushes.observe(begin.elapsed());
                    if log.is_compaction_due() {
                        measures.compaction_due.notify_one();
                    }
                    written
                }
            };
            let _ = myself.send_message(LogMessage::Written(written));
        });
    }
}

/// Appends a group unless the log has already failed.
fn append_group(log: &Log, group: Vec<Encode>, failure: &LogFailure) -> Result<(), AppendFailure> {
    if let Some(reason) = failure.get() {
        return Err(AppendFailure::Final(reason.clone()));
    }
    let append = std::panic::AssertUnwindSafe(|| {
        log.append(group.into_iter().map(|encode| encode()).collect::<Result<_, _>>()?)
    });
    let reason = match std::panic::catch_unwind(append) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) if is_rejection(&error) => return Err(AppendFailure::Rejected(error.to_string())),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the log panicked".to_owned(),
    };
    Err(AppendFailure::Final(failure.get_or_init(|| reason).clone()))
}
