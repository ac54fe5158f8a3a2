//! State shared by all handles and watches of a cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_model::{GroupKind, Timestamp};
use tokio::sync::watch;

use super::faults::CallFault;
use super::journal::Journal;
use super::write::{Write, WriteResult};
use super::{Clock, SimState};
use crate::{ClusterError, ErrorKind};

/// State shared by all handles and watches of a cluster.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(super) inner: Mutex<ClusterState>,
    pub(crate) clock: Clock,
    pub(crate) latency: Duration,
    /// Notification for watchers that the next controller step is due earlier than last announced.
    pub(crate) schedule: watch::Sender<u64>,
}

#[derive(Debug)]
pub(crate) struct ClusterState {
    pub(crate) state: SimState,
    /// Newest revision of each watched kind. A change wakes the watchers of that kind.
    pub(super) kinds: BTreeMap<GroupKind, watch::Sender<u64>>,
    /// Revision up to which watchers have been notified.
    pub(super) notified_revision: u64,
    /// Time of the next controller step, as last announced to watchers.
    pub(super) announced_due: Option<Timestamp>,
    /// `None` for a cluster in memory.
    pub(super) journal: Option<Journal>,
    /// Error of the journal. Once it is set, every call returns it.
    pub(super) journal_failure: Option<String>,
}

impl SharedState {
    /// Locks the state without running due controller steps.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ClusterState> {
        // A call that panicked has not returned a response, so the next call can continue with this state.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function on the state at the current time, and wakes the watchers affected by its changes.
    pub(crate) fn with_state<T>(&self, act: impl FnOnce(&mut ClusterState, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut inner = self.lock();
        let result = act(&mut inner, now);
        inner.notify_watchers(&self.schedule);
        result
    }
}

impl ClusterState {
    pub(super) fn notify_watchers(&mut self, schedule: &watch::Sender<u64>) {
        let revision = self.state.revision();
        if revision != self.notified_revision {
            self.notified_revision = revision;
            self.kinds.retain(|kind, sender| {
                let newest = self.state.history.newest_revision(kind);
                sender.send_if_modified(|known| std::mem::replace(known, newest) != newest);
                sender.receiver_count() > 0
            });
        }
        let due = self.state.next_due();
        let earlier = due.is_some_and(|due| self.announced_due.is_none_or(|known| due < known));
        self.announced_due = due;
        if earlier {
            schedule.send_modify(|count| *count += 1);
        }
    }

    /// Subscribes to changes of a kind.
    pub(crate) fn subscribe(&mut self, kind: GroupKind) -> watch::Receiver<u64> {
        self.kinds.entry(kind).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub(super) fn write(&mut self, now: Timestamp, write: &Write) -> Result<WriteResult, ClusterError> {
        match self.state.draw_fault() {
            Some(fault @ CallFault::TimeoutBefore) => Err(fault.error()),
            fault => {
                self.state.advance(now);
                let audited = self.state.audit.last_sequence();
                let result = self.state.execute(write, fault);
                if self.state.audit.last_sequence() > audited {
                    self.persist_write(write, fault, audited)?;
                }
                result
            }
        }
    }

    /// Persists a write before it is acknowledged. If this fails, the state in memory differs from the state
    /// on disk. Every later call then fails, as in a cluster that has lost its disk.
    fn persist_write(
        &mut self,
        write: &Write,
        fault: Option<CallFault>,
        audited: u64,
    ) -> Result<(), ClusterError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.persist_write(&mut self.state, write, fault, audited).map_err(|error| {
            self.journal_failure = Some(format!("the simulated cluster cannot save its state: {error}"));
            self.check_journal()
                .err()
                .unwrap_or_else(|| ClusterError::new(ErrorKind::Server, error.to_string()))
        })
    }

    /// Refuses every call once the journal has failed.
    pub(crate) fn check_journal(&self) -> Result<(), ClusterError> {
        self.journal_failure
            .as_ref()
            .map_or(Ok(()), |reason| Err(ClusterError::new(ErrorKind::Server, reason.as_str())))
    }
}
