//! One attempt to reach a server: it ends when its time is over, or when everything ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use super::Problem;

/// Why an attempt is over before it has an end of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It took too long.
    Late(Duration),
    /// Nobody wants to know any more.
    Stopped,
}

impl Over {
    pub fn problem(self) -> Problem {
        match self {
            Self::Late(limit) => Problem::new(format!("it was not over after {} s", limit.as_secs_f64()))
                .hint("the server is too slow, or the repository too large"),
            Self::Stopped => Problem::new("it was interrupted"),
        }
    }
}

/// One attempt, while it lasts.
pub(crate) struct Attempt {
    tell: watch::Sender<Option<Over>>,
    flag: AtomicBool,
    /// What is to be done then.
    then: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// Dropping it ends the thread that waits for the end of the time.
    _ends: mpsc::Sender<()>,
}

impl Attempt {
    fn end(&self, over: Over) {
        self.tell.send_if_modified(|known| known.is_none() && known.replace(over).is_none());
        self.flag.store(true, Ordering::Relaxed);
        let then = std::mem::take(&mut *self.then.lock().unwrap_or_else(PoisonError::into_inner));
        then.into_iter().for_each(|one| one());
    }

    /// Has something done when it is over, or at once if it is.
    pub fn when_over(&self, then: impl FnOnce() + Send + 'static) {
        self.then.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(then));
        if let Some(over) = self.over() {
            self.end(over);
        }
    }

    /// For those who look now and then.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Why it is over; `None` while it lasts.
    pub fn over(&self) -> Option<Over> {
        *self.tell.borrow()
    }

    /// Returns when it is over.
    pub async fn ended(&self) -> Over {
        let mut told = self.tell.subscribe();
        match told.wait_for(Option::is_some).await.map(|over| *over) {
            Ok(Some(over)) => over,
            _ => Over::Stopped,
        }
    }
}

/// All attempts under way.
#[derive(Default)]
pub(crate) struct Attempts {
    known: Mutex<(bool, Vec<Weak<Attempt>>)>,
}

impl Attempts {
    /// Begins one that may take so long.
    pub fn begin(&self, limit: Duration) -> Arc<Attempt> {
        let (ends, ended) = mpsc::channel::<()>();
        let attempt = Arc::new(Attempt {
            tell: watch::channel(None).0,
            flag: AtomicBool::new(false),
            then: Mutex::default(),
            _ends: ends,
        });
        let watched = Arc::downgrade(&attempt);
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout)
                && let Some(attempt) = watched.upgrade()
            {
                attempt.end(Over::Late(limit));
            }
        };
        let begun = thread::Builder::new().name("source-limit".to_owned()).spawn(watch);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the thread nothing would end it.
        if known.0 || begun.is_err() {
            attempt.end(Over::Stopped);
        }
        known.1.retain(|attempt| attempt.strong_count() > 0);
        known.1.push(Arc::downgrade(&attempt));
        attempt
    }

    /// Ends those under way, and all later ones at once.
    pub fn stop(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = true;
        known.1.drain(..).filter_map(|attempt| attempt.upgrade()).for_each(|one| one.end(Over::Stopped));
    }
}
