//! What all handles and watches of one cluster share.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_model::{GroupKind, Timestamp};
use tokio::sync::watch;

use super::faults::CallFault;
use super::journal::Journal;
use super::write::{Write, Written};
use super::{Clock, SimState};
use crate::{ClusterError, ErrorKind};

/// What all handles and watches of one cluster share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) inner: Mutex<Inner>,
    pub(crate) clock: Clock,
    pub(crate) latency: Duration,
    /// Changes when the next controller step is due earlier than watchers know.
    pub(crate) schedule: watch::Sender<u64>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) state: SimState,
    /// Newest revision of each watched kind; a change of it wakes its watchers.
    pub(super) kinds: BTreeMap<GroupKind, watch::Sender<u64>>,
    /// Revision at which watchers were last told.
    pub(super) told: u64,
    /// What watchers believe to be due next.
    pub(super) due: Option<Timestamp>,
    /// `None` for a cluster in memory.
    pub(super) journal: Option<Journal>,
    /// Why the journal takes no more writes: what the cluster says from then on.
    pub(super) broken: Option<String>,
}

impl Shared {
    /// The state, brought up to date by nobody yet.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic inside would have left a state that no call has answered from; the next call may as well go on.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the state at the present time, and wakes whoever waits for what it changed.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut Inner, Timestamp) -> T) -> T {
        let now = self.clock.now();
        let mut inner = self.lock();
        let result = act(&mut inner, now);
        inner.tell(&self.schedule);
        result
    }
}

impl Inner {
    pub(super) fn tell(&mut self, schedule: &watch::Sender<u64>) {
        let revision = self.state.revision();
        if revision != self.told {
            self.told = revision;
            self.kinds.retain(|kind, sender| {
                let newest = self.state.history.newest(kind);
                sender.send_if_modified(|known| std::mem::replace(known, newest) != newest);
                sender.receiver_count() > 0
            });
        }
        let due = self.state.next_due();
        let earlier = due.is_some_and(|due| self.due.is_none_or(|known| due < known));
        self.due = due;
        if earlier {
            schedule.send_modify(|count| *count += 1);
        }
    }

    /// Notices of changes of a kind.
    pub(crate) fn subscribe(&mut self, kind: GroupKind) -> watch::Receiver<u64> {
        self.kinds.entry(kind).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub(super) fn write(&mut self, now: Timestamp, write: &Write) -> Result<Written, ClusterError> {
        match self.state.draw_fault() {
            Some(fault @ CallFault::TimeoutBefore) => Err(fault.error()),
            fault => {
                self.state.advance(now);
                let audited = self.state.audit.last();
                let result = self.state.execute(write, fault);
                if self.state.audit.last() > audited {
                    self.keep(write, fault, audited)?;
                }
                result
            }
        }
    }

    /// Keeps a write before anybody is told of it. After a failure the world here and the one on disk differ, so
    /// nothing is answered any more: as a cluster that lost its disk.
    fn keep(&mut self, write: &Write, fault: Option<CallFault>, audited: u64) -> Result<(), ClusterError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        journal.keep(&mut self.state, write, fault, audited).map_err(|error| {
            self.broken = Some(format!("the simulated cluster cannot keep its state: {error}"));
            self.refuse_if_broken()
                .err()
                .unwrap_or_else(|| ClusterError::new(ErrorKind::Server, error.to_string()))
        })
    }

    /// Refuses every call once the journal failed.
    pub(crate) fn refuse_if_broken(&self) -> Result<(), ClusterError> {
        self.broken.as_ref().map_or(Ok(()), |why| Err(ClusterError::new(ErrorKind::Server, why.as_str())))
    }
}
