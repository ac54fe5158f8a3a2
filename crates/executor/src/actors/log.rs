//! The log actor: group commit.
//!
//! Batches of all operations and other machines that arrive while a group is being written go together into the next group: one flush for
//! all of them. The log blocks, so it is called on a thread for blocking work; one group is on its way at a time, also
//! when the actor fails and another one goes on: that one waits for what is being written.
//!
//! Whoever hands over a batch is told what became of it, even if that is that nobody knows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_oplog::{LogError, RawAppend};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::Instant;

use crate::durations::Durations;
use crate::error::EngineError;
use crate::log::{AppendFailure, Log, LogFailure, is_refusal};

/// Largest number of batches in one group, so that one flush stays short.
const GROUP_MAX: usize = 1024;

/// After the log refused a group, so many groups hold one batch each: the operation that was refused tries again, and
/// must not take others down with it.
const SINGLY: usize = 256;

/// Records that become bytes where blocking work is done: a snapshot may be large. Whose they are the log does not know.
pub(crate) type Encode = Box<dyn FnOnce() -> Result<RawAppend, LogError> + Send>;

/// What whoever handed over a batch is told of it, once.
pub(crate) type Tell = Box<dyn FnOnce(Result<(), AppendFailure>) + Send>;

/// Upper ends for how long a flush takes, in seconds: from a fast disk to one that hangs.
const FLUSHES: &[f64] = &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// What is measured of the log, for those who watch over the process.
pub(crate) struct LogMeasures {
    /// How long making a group durable took.
    pub flushes: Durations,
    /// Batches that were handed over, and of which nobody knows yet what became of them.
    pub waiting: AtomicU64,
}

/// The way to the log actor, whichever it is now.
pub(crate) struct LogHandle {
    pub measures: Arc<LogMeasures>,
    /// `None` while the actor is being started again.
    actor: watch::Sender<Option<ActorRef<LogMessage>>>,
}

impl LogHandle {
    pub fn new() -> Self {
        let measures = LogMeasures { flushes: Durations::new(FLUSHES), waiting: AtomicU64::new(0) };
        Self { measures: Arc::new(measures), actor: watch::Sender::new(None) }
    }

    /// Makes a batch durable, and tells what became of it.
    pub fn append(&self, encode: Encode, tell: Tell) {
        self.measures.waiting.fetch_add(1, Ordering::Relaxed);
        let message = LogMessage::Append(encode, Told(Some(tell), Arc::clone(&self.measures)));
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(message);
        }
    }

    /// Returns when everything that was handed over is written or refused, or will never be written.
    pub async fn settle(&self, failure: &LogFailure) -> Result<(), EngineError> {
        let mut changes = self.actor.subscribe();
        loop {
            if let Some(reason) = failure.get() {
                return Err(EngineError::LogFailed { reason: reason.clone() });
            }
            let actor = changes.borrow_and_update().clone();
            if let Some(actor) = actor {
                let (send, receive) = oneshot::channel();
                if actor.send_message(LogMessage::Settle(send)).is_ok() && receive.await.is_ok() {
                    return Ok(());
                }
            }
            // It has failed, and another one comes, or the log is given up.
            changes.changed().await.map_err(|_| EngineError::Stopped)?;
        }
    }

    /// From now on this actor writes.
    pub fn set_actor(&self, actor: Option<ActorRef<LogMessage>>) {
        self.actor.send_replace(actor);
    }

    /// Has the actor fail, as a fault in it would.
    #[cfg(test)]
    pub fn panic(&self) {
        if let Some(actor) = self.actor.borrow().as_ref() {
            let _ = actor.send_message(LogMessage::Panic);
        }
    }
}

/// Somebody who is told what became of a batch, whatever becomes of whoever has it.
pub(crate) struct Told(Option<Tell>, Arc<LogMeasures>);

impl Told {
    fn tell(mut self, result: &Result<(), AppendFailure>) {
        self.send(result.clone());
    }

    fn send(&mut self, result: Result<(), AppendFailure>) {
        if let Some(tell) = self.0.take() {
            self.1.waiting.fetch_sub(1, Ordering::Relaxed);
            tell(result);
        }
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.send(Err(AppendFailure::Lost));
    }
}

/// A message to the log actor.
pub(crate) enum LogMessage {
    /// Make this durable and say so.
    Append(Encode, Told),
    /// Say so when everything that came before is written, or refused.
    Settle(oneshot::Sender<()>),
    /// The group on its way was written, or not.
    Written(Result<(), AppendFailure>),
    /// Fail, as a fault in this actor would.
    #[cfg(test)]
    Panic,
}

pub(crate) struct LogActor;

/// What a log actor needs.
pub(crate) struct LogArguments {
    pub log: Log,
    pub failure: LogFailure,
    /// Held while a group is written, by whichever actor.
    pub turn: Arc<Semaphore>,
    pub measures: Arc<LogMeasures>,
}

/// Something that waits for its turn.
enum Waiting {
    Batch(Encode, Told),
    Settle(oneshot::Sender<()>),
}

pub(crate) struct LogState {
    arguments: LogArguments,
    /// Waiting for the next group.
    waiting: VecDeque<Waiting>,
    /// A group is on its way.
    is_writing: bool,
    /// Told when it is written.
    told: Vec<Told>,
    settled: Vec<oneshot::Sender<()>>,
    /// Groups that are still to hold one batch only, after the log refused one.
    singly: usize,
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
        let (waiting, told, settled) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut state = LogState { arguments, waiting, is_writing: false, told, settled, singly: 0 };
        // An earlier actor may have left a group that is being written: a group of nothing comes after it.
        state.send_on_its_way(&myself, Vec::new());
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<LogMessage>,
        message: LogMessage,
        state: &mut LogState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Append(encode, told) => state.waiting.push_back(Waiting::Batch(encode, told)),
            LogMessage::Settle(reply) => state.waiting.push_back(Waiting::Settle(reply)),
            LogMessage::Written(result) => {
                state.is_writing = false;
                state.singly = match &result {
                    Err(AppendFailure::Refused(_)) => SINGLY,
                    _ => state.singly.saturating_sub(1),
                };
                state.told.drain(..).for_each(|told| told.tell(&result));
                for reply in state.settled.drain(..) {
                    let _ = reply.send(());
                }
            }
            #[cfg(test)]
            LogMessage::Panic => std::panic::panic_any("injected into the log actor"),
        }
        state.write(&myself);
        Ok(())
    }
}

impl LogState {
    /// Sends the next group on its way, if none is.
    fn write(&mut self, myself: &ActorRef<LogMessage>) {
        if self.is_writing {
            return;
        }
        let most = if self.singly > 0 { 1 } else { GROUP_MAX };
        let mut group = Vec::new();
        while group.len() < most
            && let Some(next) = self.waiting.pop_front()
        {
            match next {
                Waiting::Batch(encode, told) => {
                    group.push(encode);
                    self.told.push(told);
                }
                // Nothing is on its way before it.
                Waiting::Settle(reply) if group.is_empty() => {
                    let _ = reply.send(());
                }
                Waiting::Settle(reply) => self.settled.push(reply),
            }
        }
        if !group.is_empty() {
            self.send_on_its_way(myself, group);
        }
    }

    fn send_on_its_way(&mut self, myself: &ActorRef<LogMessage>, group: Vec<Encode>) {
        self.is_writing = true;
        let LogArguments { log, failure, turn, measures } = &self.arguments;
        let (log, failure, turn) = (Arc::clone(log), Arc::clone(failure), Arc::clone(turn));
        let measures = Arc::clone(measures);
        let myself = myself.clone();
        // Not awaited: meanwhile the next group gathers. The answer comes back as a message.
        tokio::spawn(async move {
            // Nobody closes it.
            let Ok(_turn) = turn.acquire_owned().await else { return };
            let written = match group.is_empty() {
                true => Ok(()),
                false => {
                    let begin = Instant::now();
                    let writing = tokio::task::spawn_blocking(move || append(&log, group, &failure));
                    // Of the runtime nothing is left.
                    let written = writing.await.unwrap_or(Err(AppendFailure::Lost));
                    measures.flushes.observe(begin.elapsed());
                    written
                }
            };
            let _ = myself.send_message(LogMessage::Written(written));
        });
    }
}

/// Appends, unless it was impossible before.
fn append(log: &Log, group: Vec<Encode>, failure: &LogFailure) -> Result<(), AppendFailure> {
    if let Some(reason) = failure.get() {
        return Err(AppendFailure::Final(reason.clone()));
    }
    let append = std::panic::AssertUnwindSafe(|| {
        log.append(group.into_iter().map(|encode| encode()).collect::<Result<_, _>>()?)
    });
    let reason = match std::panic::catch_unwind(append) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) if is_refusal(&error) => return Err(AppendFailure::Refused(error.to_string())),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the log panicked".to_owned(),
    };
    Err(AppendFailure::Final(failure.get_or_init(|| reason).clone()))
}
