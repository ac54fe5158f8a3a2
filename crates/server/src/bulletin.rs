//! What happens to applications, ApplicationSets and operations, as one numbered stream: the newest of it, for whoever listens.
//!
//! ```text
//! Engine::events_from_now ──┐
//!                           ├──▶ Bulletin: the newest 4096, numbered ──▶ a Reader for each who listens
//! Boards, their changes ─────┘                                              │ who is further behind
//!                                                the log of operations ◀───┘
//! ```
//!
//! A reader holds a number and nothing else, so whoever is slow costs nothing: what they have not read in time is not here
//! any more, they are cut off, and come again with the last id they have seen. What is not here then is read from the log.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_model::{OperationId, Timestamp};
use tokio::sync::watch;

/// So much is kept: minutes of a busy fleet.
const KEPT: usize = 4096;
const KEPT_BYTES: usize = 8 << 20;
/// So much is given out at once.
const AT_ONCE: usize = 64;

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Entry {
    pub id: EventId,
    /// In one word.
    pub kind: &'static str,
    pub about: About,
    /// As JSON.
    pub data: String,
}

/// What something is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// The application, as operations name it; empty where it is about none.
    pub application: String,
    /// The ApplicationSet, in the same way.
    pub set: String,
    /// The operation, where it is about one.
    pub operation: Option<OperationId>,
}

/// Which event, as clients know it: `PROCESS-NUMBER-TIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    /// The process that has numbered it.
    process: u64,
    /// Its number.
    pub number: u64,
    /// When it happened: by it the log is read, where the number says nothing any more.
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

/// The newest that happened.
pub(crate) struct Bulletin {
    process: u64,
    posted: Mutex<Posted>,
    newest: watch::Sender<u64>,
}

#[derive(Default)]
struct Posted {
    entries: VecDeque<Arc<Entry>>,
    bytes: usize,
    /// Number and time of the newest there ever was.
    last: u64,
    at: Timestamp,
}

/// What somebody asks for is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHere;

impl Bulletin {
    /// Nothing has happened. The number tells this process from others.
    pub fn new(process: u64, now: Timestamp) -> Self {
        let posted = Mutex::new(Posted { at: now, ..Posted::default() });
        Self { process, posted, newest: watch::Sender::new(0) }
    }

    fn posted(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has happened.
    pub fn post(&self, kind: &'static str, about: About, at: Timestamp, data: String) {
        let mut posted = self.posted();
        // Times of a few events are a little earlier than those told before.
        posted.at = posted.at.max(at);
        posted.last = posted.last.saturating_add(1);
        let id = EventId { process: self.process, number: posted.last, at: posted.at };
        posted.bytes = posted.bytes.saturating_add(data.len());
        posted.entries.push_back(Arc::new(Entry { id, kind, about, data }));
        while posted.entries.len() > KEPT || (posted.bytes > KEPT_BYTES && posted.entries.len() > 1) {
            let gone = posted.entries.pop_front().map_or(0, |entry| entry.data.len());
            posted.bytes = posted.bytes.saturating_sub(gone);
        }
        let last = posted.last;
        drop(posted);
        self.newest.send_replace(last);
    }

    /// The id of the newest.
    pub fn newest(&self) -> EventId {
        let posted = self.posted();
        EventId { process: self.process, number: posted.last, at: posted.at }
    }

    /// Changes with each that is posted.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// Whether all after an event is here.
    pub fn has_after(&self, id: EventId) -> bool {
        id.process == self.process && self.after(id.number).is_ok()
    }

    /// Some of what happened after a number, in order; nothing where that was the newest.
    pub fn after(&self, number: u64) -> Result<Vec<Arc<Entry>>, NotHere> {
        let posted = self.posted();
        let oldest = posted.entries.front().map_or(posted.last.saturating_add(1), |entry| entry.id.number);
        if number > posted.last || number.saturating_add(1) < oldest {
            return Err(NotHere);
        }
        let passed = usize::try_from(number.saturating_add(1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        Ok(posted.entries.iter().skip(passed).take(AT_ONCE).map(Arc::clone).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn post(bulletin: &Bulletin, at: i64, data: &str) {
        let about = About { application: "shop".to_owned(), ..About::default() };
        bulletin.post("application", about, Timestamp::from_millis(at), data.to_owned());
    }

    #[test]
    fn what_is_kept_is_bounded_and_whoever_is_behind_is_told_so() {
        let bulletin = Bulletin::new(7, Timestamp::from_millis(5));
        assert_eq!(bulletin.after(0).unwrap().len(), 0);
        assert!(bulletin.after(1).is_err(), "nobody has seen what was not told");
        for number in 0..i64::try_from(KEPT + 10).unwrap() {
            post(&bulletin, 10 + number, "{}");
        }
        assert_eq!(bulletin.after(9).unwrap_err(), NotHere);
        let (mut seen, mut number) = (Vec::new(), 10);
        loop {
            let some = bulletin.after(number).unwrap();
            let Some(last) = some.last() else { break };
            number = last.id.number;
            seen.extend(some.iter().map(|entry| entry.id.number));
        }
        assert_eq!(seen, (11..=u64::try_from(KEPT + 10).unwrap()).collect::<Vec<_>>());
        // Large ones push out more of the old ones; the newest is always there.
        post(&bulletin, 0, &"x".repeat(KEPT_BYTES));
        let newest = bulletin.newest();
        assert_eq!(bulletin.after(newest.number - 1).unwrap().len(), 1);
        assert!(bulletin.after(newest.number - 2).is_err());
        assert!(newest.at >= Timestamp::from_millis(10), "ids never go back in time");
    }

    #[test]
    fn an_id_is_known_by_the_process_that_gave_it() {
        let bulletin = Bulletin::new(7, Timestamp::from_millis(5));
        post(&bulletin, 10, "{}");
        let id = bulletin.newest();
        assert_eq!(id.to_string(), "7-1-10");
        assert_eq!("7-1-10".parse(), Ok(id));
        assert!(bulletin.has_after(id) && bulletin.has_after("7-0-5".parse().unwrap()));
        for elsewhere in ["8-1-10", "7-2-10", "7-18446744073709551615-10"] {
            assert!(!bulletin.has_after(elsewhere.parse().unwrap()), "{elsewhere}");
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
            "é-1-1",
        ] {
            assert!(garbage.parse::<EventId>().is_err(), "{garbage}");
        }
    }
}
