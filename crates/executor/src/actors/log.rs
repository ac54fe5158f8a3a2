//! The log actor: group commit.
//!
//! Batches of all operations that arrive while a group is being written go together into the next group: one flush for
//! all of them. The log blocks, so it is called on a thread for blocking work; one group is on its way at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_oplog::{LogError, RawAppend};
use tokio::sync::oneshot;

use crate::inbox::{AppendFailure, Arrival, Inbox, Note};
use crate::shared::LogFailure;

/// Largest number of batches in one group, so that one flush stays short.
const GROUP_MAX: usize = 1024;

/// After the log refused a group, so many groups hold one batch each: the operation that was refused tries again, and
/// must not take others down with it.
const SINGLY: usize = 256;

/// The log every actor shares.
pub(crate) type Log = tidegate_oplog::Log;

/// Records that become bytes where blocking work is done: a snapshot may be large. Whose they are the log does not know.
pub(crate) type Encode = Box<dyn FnOnce() -> Result<RawAppend, LogError> + Send>;

/// A message to the log actor.
pub(crate) enum LogMessage {
    /// Make this durable and say so.
    Append(Encode, Inbox),
    /// Say so when everything that came before is written, or refused.
    Settle(oneshot::Sender<()>),
    /// The group on its way was written, or not.
    Written(Result<(), AppendFailure>),
}

pub(crate) struct LogActor;

/// Something that waits for its turn.
enum Waiting {
    Batch(Encode, Inbox),
    Settle(oneshot::Sender<()>),
}

/// Told when a group is written.
enum Told {
    Inbox(Inbox),
    Settled(oneshot::Sender<()>),
}

pub(crate) struct LogState {
    log: Log,
    failure: LogFailure,
    /// Waiting for the next group.
    waiting: VecDeque<Waiting>,
    /// Told when the group on its way is written.
    writing: Vec<Told>,
    /// Groups that are still to hold one batch only, after the log refused one.
    singly: usize,
}

impl Actor for LogActor {
    type Msg = LogMessage;
    type State = LogState;
    type Arguments = (Log, LogFailure);

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        (log, failure): (Log, LogFailure),
    ) -> Result<LogState, ActorProcessingErr> {
        Ok(LogState { log, failure, waiting: VecDeque::new(), writing: Vec::new(), singly: 0 })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: LogMessage,
        state: &mut LogState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Append(encode, inbox) => state.waiting.push_back(Waiting::Batch(encode, inbox)),
            LogMessage::Settle(reply) => state.waiting.push_back(Waiting::Settle(reply)),
            LogMessage::Written(result) => {
                state.singly = match &result {
                    Err(failure) if !failure.is_final => SINGLY,
                    _ => state.singly.saturating_sub(1),
                };
                for told in state.writing.drain(..) {
                    match told {
                        Told::Inbox(inbox) => inbox.push(match &result {
                            Ok(()) => Arrival::Persisted,
                            Err(failure) => Arrival::Note(Note::NotWritten(failure.clone())),
                        }),
                        Told::Settled(reply) => drop(reply.send(())),
                    }
                }
            }
        }
        write(&myself, state);
        Ok(())
    }
}

/// Sends the next group on its way, if none is.
fn write(myself: &ActorRef<LogMessage>, state: &mut LogState) {
    if !state.writing.is_empty() {
        return;
    }
    let most = if state.singly > 0 { 1 } else { GROUP_MAX };
    let mut group = Vec::new();
    while group.len() < most
        && let Some(next) = state.waiting.pop_front()
    {
        match next {
            Waiting::Batch(encode, inbox) => {
                group.push(encode);
                state.writing.push(Told::Inbox(inbox));
            }
            // Nothing is on its way before it.
            Waiting::Settle(reply) if group.is_empty() => drop(reply.send(())),
            Waiting::Settle(reply) => state.writing.push(Told::Settled(reply)),
        }
    }
    if group.is_empty() {
        return;
    }
    let (log, failure, myself) = (Arc::clone(&state.log), Arc::clone(&state.failure), myself.clone());
    // Not awaited: meanwhile the next group gathers. The answer comes back as a message.
    tokio::task::spawn_blocking(move || {
        let result = append(&log, group, &failure);
        let _ = myself.send_message(LogMessage::Written(result));
    });
}

/// Appends, unless it was impossible before.
fn append(log: &Log, group: Vec<Encode>, failure: &LogFailure) -> Result<(), AppendFailure> {
    if let Some(reason) = failure.get() {
        return Err(AppendFailure { is_final: true, reason: reason.clone() });
    }
    let append = std::panic::AssertUnwindSafe(|| {
        log.append(group.into_iter().map(|encode| encode()).collect::<Result<_, _>>()?)
    });
    let reason = match std::panic::catch_unwind(append) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) if is_refusal(&error) => {
            return Err(AppendFailure { is_final: false, reason: error.to_string() });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the log panicked".to_owned(),
    };
    Err(AppendFailure { is_final: true, reason: failure.get_or_init(|| reason).clone() })
}

/// Whether the log refused a group, of which then nothing is kept, and goes on. Anything else is final.
fn is_refusal(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Damaged { .. }
            | LogError::UnknownStream { .. }
            | LogError::UnknownKind { .. }
            | LogError::OtherKind { .. }
            | LogError::NewerRecord { .. }
            | LogError::TooLarge { .. }
            | LogError::Encoding { .. }
            | LogError::Gap { .. }
            | LogError::Fenced { .. }
            | LogError::Compacted { .. }
            | LogError::BlobMissing { .. }
            | LogError::BlobDamaged { .. }
    )
}
