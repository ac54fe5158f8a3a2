//! Watches: what changed since somebody last asked.

use std::time::Duration;

use tidegate_model::{Gvk, Timestamp};

use super::history::{Change, TooOld};
use super::read::{in_version, revision_of};
use super::{SimState, refuse};
use crate::{ClusterError, WatchEvent};

/// A place in the history of one kind. Whoever watches holds one and asks again and again.
#[derive(Clone, Debug)]
pub struct Cursor {
    gvk: Gvk,
    /// Everything up to this revision was delivered.
    after: u64,
    /// The objects that were there already, still to be delivered.
    initial: Vec<WatchEvent>,
    /// Revision of the last bookmark; `None` before the first.
    bookmark: Option<u64>,
    /// The change of this revision is held back until then.
    late: Option<(u64, Timestamp)>,
}

/// A watcher that is far behind takes several turns, so that it does not hold up the cluster.
const EVENTS_PER_TURN: usize = 256;
/// How much the cluster changes before a watcher of a quiet kind is told.
const REVISIONS_PER_BOOKMARK: u64 = 1000;
/// How long a late event is held back.
const LATENESS: Duration = Duration::from_millis(100);

impl Cursor {
    /// The kind it watches.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// When to ask again even if nothing changes.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.late.map(|(_, until)| until)
    }
}

impl SimState {
    /// Begins to watch a kind after a resource version; empty or `0` begins with all objects there are.
    pub fn watch_since(
        &mut self,
        now: Timestamp,
        gvk: &Gvk,
        resource_version: &str,
    ) -> Result<Cursor, ClusterError> {
        self.begin_read(now)?;
        self.namespaced(gvk)?;
        let kind = gvk.group_kind();
        let after = revision_of(resource_version)?;
        let mut cursor = Cursor { gvk: gvk.clone(), after, initial: Vec::new(), bookmark: None, late: None };
        if after == 0 {
            let objects = self.of_kind(&kind).map(|(_, stored)| in_version(&stored.object, gvk));
            cursor.initial = objects.map(WatchEvent::Applied).collect();
            cursor.initial.push(WatchEvent::Bookmark(self.revision.to_string()));
            (cursor.after, cursor.bookmark) = (self.revision, Some(self.revision));
        // A revision from the future belongs to another life of this cluster.
        } else if after > self.revision || self.history.since(&kind, after).is_err() {
            return Err(refuse::gone(after, self.revision));
        }
        Ok(cursor)
    }

    /// What changed since the cursor was last here. Empty when nothing did.
    pub fn changes(&mut self, now: Timestamp, cursor: &mut Cursor) -> Result<Vec<WatchEvent>, ClusterError> {
        self.advance(now);
        if !cursor.initial.is_empty() {
            return Ok(std::mem::take(&mut cursor.initial));
        }
        let kind = cursor.gvk.group_kind();
        let found = self.history.since(&kind, cursor.after);
        let too_old = |TooOld| refuse::gone(cursor.after, self.revision);
        let due: Vec<Change> = found.map_err(too_old)?.take(EVENTS_PER_TURN).cloned().collect();
        let mut events = Vec::new();
        for change in due {
            if !self.deliver(cursor, &change, &mut events)? {
                return Ok(events);
            }
        }
        if events.is_empty() {
            events.extend(self.bookmark(cursor));
        }
        Ok(events)
    }

    /// Hands out one change. False when it is held back, and everything after it.
    fn deliver(
        &mut self,
        cursor: &mut Cursor,
        change: &Change,
        events: &mut Vec<WatchEvent>,
    ) -> Result<bool, ClusterError> {
        let held = cursor.late.filter(|(revision, _)| *revision == change.revision);
        let mut fault = self.injector.event();
        if let Some((_, until)) = held {
            if self.now < until {
                return Ok(false);
            }
            fault.late = false;
            cursor.late = None;
        }
        if fault.gone {
            return Err(refuse::gone(cursor.after, self.revision));
        }
        if fault.late {
            cursor.late = Some((change.revision, self.now + LATENESS));
            return Ok(false);
        }
        cursor.after = change.revision;
        if !fault.dropped {
            let object = in_version(&change.object, &cursor.gvk);
            let event =
                if change.deleted { WatchEvent::Deleted(object) } else { WatchEvent::Applied(object) };
            if fault.repeated {
                events.push(event.clone());
            }
            events.push(event);
        }
        Ok(true)
    }

    fn bookmark(&self, cursor: &mut Cursor) -> Option<WatchEvent> {
        let told =
            cursor.bookmark.is_some_and(|last| self.revision < last.saturating_add(REVISIONS_PER_BOOKMARK));
        if told {
            return None;
        }
        cursor.bookmark = Some(self.revision);
        cursor.after = self.revision;
        Some(WatchEvent::Bookmark(self.revision.to_string()))
    }
}
