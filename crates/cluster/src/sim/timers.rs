//! When each object's controller looks at it next.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_model::{ObjectKey, Timestamp};

/// Each object waits at most once, at the earliest of the times asked for. Controllers look at the whole state, so
/// one look answers all requests up to then.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timers {
    due: BTreeMap<(Timestamp, u64), ObjectKey>,
    waiting: BTreeMap<ObjectKey, (Timestamp, u64)>,
    drawn: u64,
}

/// The timers as they are kept on disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredTimers {
    due: Vec<(Timestamp, u64, ObjectKey)>,
    drawn: u64,
}

/// The end of the year 9999, the last that RFC 3339 can write.
const END_OF_TIME: Timestamp = Timestamp::from_millis(253_402_300_799_000);

impl Timers {
    /// Asks for a look at an object. What lies beyond all calendars never comes.
    pub(crate) fn schedule(&mut self, key: &ObjectKey, at: Timestamp) {
        if at > END_OF_TIME {
            return;
        }
        if let Some(known) = self.waiting.get(key).copied() {
            if known.0 <= at {
                return;
            }
            self.due.remove(&known);
        }
        self.drawn += 1;
        let place = (at, self.drawn);
        self.due.insert(place, key.clone());
        self.waiting.insert(key.clone(), place);
    }

    /// The next object due at or before `until`, in order of time, then of request.
    pub(crate) fn pop(&mut self, until: Timestamp) -> Option<(Timestamp, ObjectKey)> {
        let first = self.due.first_entry().filter(|entry| entry.key().0 <= until)?;
        let ((at, _), key) = first.remove_entry();
        self.waiting.remove(&key);
        Some((at, key))
    }

    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn store(&self) -> StoredTimers {
        let due = self.due.iter().map(|((at, place), key)| (*at, *place, key.clone())).collect();
        StoredTimers { due, drawn: self.drawn }
    }

    pub(crate) fn restore(stored: StoredTimers) -> Self {
        let mut timers = Self { drawn: stored.drawn, ..Self::default() };
        for (at, place, key) in stored.due {
            timers.waiting.insert(key.clone(), (at, place));
            timers.due.insert((at, place), key);
        }
        timers
    }
}
