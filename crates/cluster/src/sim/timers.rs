//! The time of each object's next controller step.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::{ObjectKey, Timestamp};

/// Scheduled controller steps. Each object is scheduled at most once, at the earliest requested time.
/// Controllers read the whole state, so one step covers all requests made before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timers {
    due: BTreeMap<(Timestamp, u64), ObjectKey>,
    by_key: BTreeMap<ObjectKey, (Timestamp, u64)>,
    sequence: u64,
}

/// Stored form of the timers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredTimers {
    due: Vec<(Timestamp, u64, ObjectKey)>,
    drawn: u64,
}

/// End of the year 9999, the latest time that RFC 3339 can express.
const END_OF_TIME: Timestamp = Timestamp::from_millis(253_402_300_799_000);

impl Timers {
    /// Schedules a step for an object. A step after the end of the year 9999 never runs.
    pub(crate) fn schedule(&mut self, key: &ObjectKey, at: Timestamp) {
        if at > END_OF_TIME {
            return;
        }
        if let Some(known) = self.by_key.get(key).copied() {
            if known.0 <= at {
                return;
            }
            self.due.remove(&known);
        }
        self.sequence += 1;
        let place = (at, self.sequence);
        self.due.insert(place, key.clone());
        self.by_key.insert(key.clone(), place);
    }

    /// Removes and returns the next object due at or before `until`, ordered by time, then by the order of
    /// requests.
    pub(crate) fn pop(&mut self, until: Timestamp) -> Option<(Timestamp, ObjectKey)> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= until)?;
        let ((at, _), key) = first.remove_entry();
        self.by_key.remove(&key);
        Some((at, key))
    }

    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn store(&self) -> StoredTimers {
        let due = self.due.iter().map(|((at, place), key)| (*at, *place, key.clone())).collect();
        StoredTimers { due, drawn: self.sequence }
    }

    pub(crate) fn restore(stored: StoredTimers) -> Self {
        let mut timers = Self { sequence: stored.drawn, ..Self::default() };
        for (at, place, key) in stored.due {
            timers.by_key.insert(key.clone(), (at, place));
            timers.due.insert((at, place), key);
        }
        timers
    }
}
