//! The log actor: group commit.
//!
//! Batches of all operations that arrive while a group is being written go together into the next group: one flush for
//! all of them. The log blocks, so it is called on a thread for blocking work; one group is on its way at a time.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_lifecycle::operation::{Fact, State};
use tidegate_oplog::{Append, OperationLog};

use crate::inbox::{Arrival, Inbox};

/// Largest number of batches in one group, so that one flush stays short.
const GROUP_MAX: usize = 1024;

/// The log every actor shares.
pub(crate) type Log = Arc<dyn OperationLog<Fact, State>>;

/// A message to the log actor.
pub(crate) enum LogMessage {
    /// Make this durable and say so.
    Append(Box<Append<Fact, State>>, Inbox),
    /// The group on its way was written, or not.
    Written(Result<(), String>),
}

pub(crate) struct LogActor;

pub(crate) struct LogState {
    log: Log,
    /// Waiting for the next group.
    waiting: Vec<(Append<Fact, State>, Inbox)>,
    /// Told when the group on its way is written.
    writing: Vec<Inbox>,
}

impl Actor for LogActor {
    type Msg = LogMessage;
    type State = LogState;
    type Arguments = Log;

    async fn pre_start(&self, _: ActorRef<Self::Msg>, log: Log) -> Result<LogState, ActorProcessingErr> {
        Ok(LogState { log, waiting: Vec::new(), writing: Vec::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: LogMessage,
        state: &mut LogState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            LogMessage::Append(append, inbox) => state.waiting.push((*append, inbox)),
            LogMessage::Written(result) => {
                for inbox in state.writing.drain(..) {
                    inbox.push(Arrival::Persisted(result.clone()));
                }
            }
        }
        if state.writing.is_empty() && !state.waiting.is_empty() {
            write(myself, state);
        }
        Ok(())
    }
}

fn write(myself: ActorRef<LogMessage>, state: &mut LogState) {
    let count = state.waiting.len().min(GROUP_MAX);
    let (group, inboxes): (Vec<_>, Vec<_>) = state.waiting.drain(..count).unzip();
    state.writing = inboxes;
    let log = Arc::clone(&state.log);
    // Not awaited: meanwhile the next group gathers. The answer comes back as a message.
    tokio::task::spawn_blocking(move || {
        let append = std::panic::AssertUnwindSafe(|| log.append(group).map_err(|error| error.to_string()));
        let result = std::panic::catch_unwind(append).unwrap_or_else(|_| Err("the log panicked".to_owned()));
        let _ = myself.send_message(LogMessage::Written(result));
    });
}
