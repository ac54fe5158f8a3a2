//! Numbered stream of events from applications, ApplicationSets and operations. The buffer keeps the newest
//! events for subscribers.
//!
//! ```text
//! Engine::events_from_now ───────────┐
//!                                    ├──▶ EventBuffer: the newest 4096 ──▶ one EventReader per subscriber
//! ApplicationService, AppSetService ─┘                                          │ if it is further behind
//!                                                           operation log ◀─────┘
//! ```
//!
//! A reader only stores the number of its last event, so slow readers cost no extra memory. If a reader's
//! next event has been dropped, the server disconnects it. The client reconnects with its last event ID and
//! gets older events from the log.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{OperationId, Timestamp};
use tokio::sync::watch;

/// Maximum number of events in the buffer. This covers a few minutes of a busy fleet.
const EVENTS_MAX: usize = 4096;
const EVENT_BYTES_MAX: usize = 8 << 20;
/// Maximum number of events returned at once.
const BATCH_MAX: usize = 64;

/// An event.
#[derive(Debug)]
pub(crate) struct BufferedEvent {
    pub id: EventId,
    /// Kind of the event, in one word.
    pub kind: &'static str,
    pub subject: EventSubject,
    /// Content as JSON.
    pub data: String,
}

/// Subject of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventSubject {
    /// Name of the application, as used in operations; empty for events without an application.
    pub application: String,
    /// Name of the ApplicationSet, as used in operations; empty for events without an ApplicationSet.
    pub appset: String,
    /// ID of the operation, if the event is about one.
    pub operation: Option<OperationId>,
}

/// Event ID as clients send it: `PROCESS-NUMBER-TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    /// Process that numbered the event.
    process: u64,
    /// Number of the event.
    pub number: u64,
    /// Time of the event, which locates it in the log if the number is invalid.
    pub at: Timestamp,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{}-{}", self.process, self.number, self.at.as_millis())
    }
}

impl FromStr for EventId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, '-');
        let mut part = || parts.next().filter(|part| part.len() <= 20 && !part.starts_with('+')).ok_or(());
        let (process, number, at) = (part()?, part()?, part()?);
        let process = u64::from_str_radix(process, 16).map_err(|_| ())?;
        let number = number.parse().map_err(|_| ())?;
        let millis: u64 = at.parse().map_err(|_| ())?;
        let at = Timestamp::from_millis(i64::try_from(millis).map_err(|_| ())?);
        Ok(Self { process, number, at })
    }
}

/// Last event that a client has received, as it sends it: the ID of the last event of each service that shares the work,
/// separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventCursor(Vec<EventId>);

impl FromStr for EventCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Buffer of the newest events.
pub(crate) struct EventBuffer {
    process: u64,
    contents: Mutex<BufferContents>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct BufferContents {
    entries: VecDeque<Arc<BufferedEvent>>,
    bytes: usize,
    /// Number and time of the newest event.
    last_number: u64,
    last_time: Timestamp,
}

/// Error for events that the buffer has already dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventsExpired;

impl EventBuffer {
    /// Creates an empty buffer. `process` distinguishes this process's events from those of other processes.
    pub fn new(process: u64, now: Timestamp) -> Self {
        let contents = Mutex::new(BufferContents { last_time: now, ..BufferContents::default() });
        Self { process, contents, newest: watch::Sender::new(0) }
    }

    fn lock_contents(&self) -> MutexGuard<'_, BufferContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event.
    pub fn publish(&self, kind: &'static str, subject: EventSubject, at: Timestamp, data: String) {
        let mut posted = self.lock_contents();
        // Events may arrive slightly out of order.
        posted.last_time = posted.last_time.max(at);
        posted.last_number = posted.last_number.saturating_add(1);
        let id = EventId { process: self.process, number: posted.last_number, at: posted.last_time };
        posted.bytes = posted.bytes.saturating_add(data.len());
        posted.entries.push_back(Arc::new(BufferedEvent { id, kind, subject, data }));
        while posted.entries.len() > EVENTS_MAX
            || (posted.bytes > EVENT_BYTES_MAX && posted.entries.len() > 1)
        {
            let gone = posted.entries.pop_front().map_or(0, |entry| entry.data.len());
            posted.bytes = posted.bytes.saturating_sub(gone);
        }
        let last = posted.last_number;
        drop(posted);
        self.newest.send_replace(last);
    }

    /// Returns the ID of the newest event.
    pub fn newest_id(&self) -> EventId {
        let posted = self.lock_contents();
        EventId { process: self.process, number: posted.last_number, at: posted.last_time }
    }

    /// Returns a receiver that is notified of each new event.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Returns this process's last event that a client has received, if the buffer contains all later ones. Otherwise,
    /// returns the time after which the client has missed events.
    pub fn find_position(&self, cursor: &EventCursor) -> Result<EventId, Timestamp> {
        let own = cursor.0.iter().find(|id| id.process == self.process);
        match own.filter(|id| self.events_after(id.number).is_ok()) {
            Some(id) => Ok(*id),
            None => Err(own.or(cursor.0.iter().max_by_key(|id| id.at)).map(|id| id.at).unwrap_or_default()),
        }
    }

    /// Returns the next batch of events after `number`, in order. Empty if `number` is the newest event.
    pub fn events_after(&self, number: u64) -> Result<Vec<Arc<BufferedEvent>>, EventsExpired> {
        let posted = self.lock_contents();
        let oldest =
            posted.entries.front().map_or(posted.last_number.saturating_add(1), |entry| entry.id.number);
        if number > posted.last_number || number.saturating_add(1) < oldest {
            return Err(EventsExpired);
        }
        let passed = usize::try_from(number.saturating_add(1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        Ok(posted.entries.iter().skip(passed).take(BATCH_MAX).map(Arc::clone).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    fn publish_event(event_buffer: &EventBuffer, at: i64, data: &str) {
        let about = EventSubject { application: "shop".to_owned(), ..EventSubject::default() };
        event_buffer.publish("application", about, Timestamp::from_millis(at), data.to_owned());
    }

    #[test]
    fn old_events_are_dropped_and_slow_readers_get_an_error() {
        let event_buffer = EventBuffer::new(7, Timestamp::from_millis(5));
        assert_eq!(event_buffer.events_after(0).unwrap().len(), 0);
        assert!(
            event_buffer.events_after(1).is_err(),
            "event ID 1 is newer than the newest event, so the client must fetch the lists again"
        );
        for number in 0..i64::try_from(EVENTS_MAX + 10).unwrap() {
            publish_event(&event_buffer, 10 + number, "{}");
        }
        assert_eq!(event_buffer.events_after(9).unwrap_err(), EventsExpired);
        let (mut seen, mut number) = (Vec::new(), 10);
        loop {
            let some = event_buffer.events_after(number).unwrap();
            let Some(last) = some.last() else { break };
            number = last.id.number;
            seen.extend(some.iter().map(|entry| entry.id.number));
        }
        assert_eq!(seen, (11..=u64::try_from(EVENTS_MAX + 10).unwrap()).collect::<Vec<_>>());
        // A large event displaces more old events, but the newest is always kept.
        publish_event(&event_buffer, 0, &"x".repeat(EVENT_BYTES_MAX));
        let newest = event_buffer.newest_id();
        assert_eq!(event_buffer.events_after(newest.number - 1).unwrap().len(), 1);
        assert!(event_buffer.events_after(newest.number - 2).is_err());
        assert!(newest.at >= Timestamp::from_millis(10), "ids never go back in time");
    }

    #[test]
    fn only_the_process_that_issued_an_id_recognizes_it() {
        let event_buffer = EventBuffer::new(7, Timestamp::from_millis(5));
        publish_event(&event_buffer, 10, "{}");
        let id = event_buffer.newest_id();
        assert_eq!(id.to_string(), "7-1-10");
        assert_eq!("7-1-10".parse(), Ok(id));
        let position = |text: &str| event_buffer.find_position(&text.parse().unwrap());
        assert_eq!(position("7-1-10"), Ok(id));
        assert_eq!(position("8-4-99,7-0-5"), Ok("7-0-5".parse().unwrap()));
        for elsewhere in ["8-1-10", "7-2-10", "7-18446744073709551615-10", "8-4-99,7-2-10", "8-4-9,9-1-10"] {
            assert_eq!(position(elsewhere), Err(Timestamp::from_millis(10)), "{elsewhere}");
        }
        for garbage in [
            "",
            "7",
            "7-1",
            "7-1-",
            "7-1-x",
            "-1-1-1",
            "7-1--5",
            "7-+1-5",
            "7-1-10-3",
            &"9".repeat(100),
            "7-1-10,",
            "é-1-1",
        ] {
            assert!(garbage.parse::<EventCursor>().is_err(), "{garbage}");
        }
    }
}
