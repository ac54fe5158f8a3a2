//! Watches, which return the changes since the previous call.

use std::time::Duration;

use tidegate_model::{Gvk, Timestamp};

use super::history::{Change, ExpiredRevision};
use super::read::{convert_to_version, parse_revision};
use super::{SimState, api_error};
use crate::{ClusterError, WatchEvent};

/// A watcher's position in the history of one kind.
#[derive(Clone, Debug)]
pub struct WatchCursor {
    gvk: Gvk,
    /// Revision up to which everything has been delivered.
    after: u64,
    /// Undelivered objects that existed when the watch started.
    initial: Vec<WatchEvent>,
    /// Revision of the last bookmark. `None` before the first bookmark.
    bookmark: Option<u64>,
    /// Revision of a delayed change, and its delivery time.
    delayed: Option<(u64, Timestamp)>,
}

/// Maximum number of events per call, so that a watcher far behind makes several calls instead of blocking
/// the cluster.
const EVENTS_PER_CALL_MAX: usize = 256;
/// Number of revisions after which a watcher of a quiet kind receives a bookmark.
const REVISIONS_PER_BOOKMARK: u64 = 1000;
/// Delay of a stale event.
const LATE_EVENT_DELAY: Duration = Duration::from_millis(100);

impl WatchCursor {
    /// Returns the watched kind.
    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    /// Returns the time of the next call if nothing changes before then.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.delayed.map(|(_, until)| until)
    }
}

impl SimState {
    /// Starts watching a kind after a resource version. Empty or `0` starts with all existing objects.
    pub fn watch_since(
        &mut self,
        now: Timestamp,
        gvk: &Gvk,
        resource_version: &str,
    ) -> Result<WatchCursor, ClusterError> {
        self.begin_read(now)?;
        self.is_namespaced(gvk)?;
        let kind = gvk.group_kind();
        let after = parse_revision(resource_version)?;
        let mut cursor =
            WatchCursor { gvk: gvk.clone(), after, initial: Vec::new(), bookmark: None, delayed: None };
        if after == 0 {
            let objects =
                self.objects_of_kind(&kind).map(|(_, stored)| convert_to_version(&stored.object, gvk));
            cursor.initial = objects.map(WatchEvent::Applied).collect();
            cursor.initial.push(WatchEvent::Bookmark(self.revision.to_string()));
            (cursor.after, cursor.bookmark) = (self.revision, Some(self.revision));
        // A revision in the future comes from an earlier run of this cluster.
        } else if after > self.revision || self.history.changes_since(&kind, after).is_err() {
            return Err(api_error::gone(after, self.revision));
        }
        Ok(cursor)
    }

    /// Returns the changes since the last call, if any.
    pub fn next_changes(
        &mut self,
        now: Timestamp,
        cursor: &mut WatchCursor,
    ) -> Result<Vec<WatchEvent>, ClusterError> {
        self.advance(now);
        if !cursor.initial.is_empty() {
            return Ok(std::mem::take(&mut cursor.initial));
        }
        let kind = cursor.gvk.group_kind();
        let found = self.history.changes_since(&kind, cursor.after);
        let too_old = |ExpiredRevision| api_error::gone(cursor.after, self.revision);
        let due: Vec<Change> = found.map_err(too_old)?.take(EVENTS_PER_CALL_MAX).cloned().collect();
        let mut events = Vec::new();
        for change in due {
            if !self.deliver_change(cursor, &change, &mut events)? {
                return Ok(events);
            }
        }
        if events.is_empty() {
            events.extend(self.next_bookmark(cursor));
        }
        Ok(events)
    }

    /// Delivers a change. Returns false if it is delayed, and with it all later changes.
    fn deliver_change(
        &mut self,
        cursor: &mut WatchCursor,
        change: &Change,
        events: &mut Vec<WatchEvent>,
    ) -> Result<bool, ClusterError> {
        let held = cursor.delayed.filter(|(revision, _)| *revision == change.revision);
        let mut fault = self.injector.draw_event_fault();
        if let Some((_, until)) = held {
            if self.now < until {
                return Ok(false);
            }
            fault.is_late = false;
            cursor.delayed = None;
        }
        if fault.is_gone {
            return Err(api_error::gone(cursor.after, self.revision));
        }
        if fault.is_late {
            cursor.delayed = Some((change.revision, self.now + LATE_EVENT_DELAY));
            return Ok(false);
        }
        cursor.after = change.revision;
        if !fault.is_dropped {
            let object = convert_to_version(&change.object, &cursor.gvk);
            let event =
                if change.is_deleted { WatchEvent::Deleted(object) } else { WatchEvent::Applied(object) };
            if fault.is_repeated {
                events.push(event.clone());
            }
            events.push(event);
        }
        Ok(true)
    }

    fn next_bookmark(&self, cursor: &mut WatchCursor) -> Option<WatchEvent> {
        let is_recent =
            cursor.bookmark.is_some_and(|last| self.revision < last.saturating_add(REVISIONS_PER_BOOKMARK));
        if is_recent {
            return None;
        }
        cursor.bookmark = Some(self.revision);
        cursor.after = self.revision;
        Some(WatchEvent::Bookmark(self.revision.to_string()))
    }
}
