//! Attempts to access a server, which end at their deadline or at shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use super::Problem;

/// Reason for the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The deadline has passed.
    TimedOut(Duration),
    /// The process is shutting down.
    Stopped,
}

impl AttemptEnd {
    pub fn to_problem(self) -> Problem {
        match self {
            Self::TimedOut(limit) => {
                Problem::new(format!("the request did not finish within {} s", limit.as_secs_f64()))
                    .with_hint("the server may be too slow, or the repository too large")
            }
            Self::Stopped => Problem::new("the request was interrupted"),
        }
    }
}

/// An attempt in progress.
pub(crate) struct Attempt {
    end_sender: watch::Sender<Option<AttemptEnd>>,
    is_ended: AtomicBool,
    /// Callbacks for the end of the attempt.
    callbacks: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// Sender held by the attempt. The deadline's thread exits when it is dropped.
    _ends: mpsc::Sender<()>,
}

impl Attempt {
    fn end(&self, over: AttemptEnd) {
        self.end_sender.send_if_modified(|known| known.is_none() && known.replace(over).is_none());
        self.is_ended.store(true, Ordering::Relaxed);
        let then = std::mem::take(&mut *self.callbacks.lock().unwrap_or_else(PoisonError::into_inner));
        then.into_iter().for_each(|one| one());
    }

    /// Registers a callback for the end of the attempt. Runs it immediately if the attempt has already ended.
    pub fn on_end(&self, then: impl FnOnce() + Send + 'static) {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(then));
        if let Some(over) = self.end_reason() {
            self.end(over);
        }
    }

    /// Returns a flag that is set when the attempt ends, for code that polls.
    pub fn end_flag(&self) -> &AtomicBool {
        &self.is_ended
    }

    /// Returns the reason the attempt ended, or `None` if it is still running.
    pub fn end_reason(&self) -> Option<AttemptEnd> {
        *self.end_sender.borrow()
    }

    /// Waits until the attempt ends.
    pub async fn wait_for_end(&self) -> AttemptEnd {
        let mut told = self.end_sender.subscribe();
        match told.wait_for(Option::is_some).await.map(|over| *over) {
            Ok(Some(over)) => over,
            _ => AttemptEnd::Stopped,
        }
    }
}

/// All attempts in progress.
#[derive(Default)]
pub(crate) struct Attempts {
    state: Mutex<(bool, Vec<Weak<Attempt>>)>,
}

impl Attempts {
    /// Starts an attempt that ends after `limit`.
    pub fn start(&self, limit: Duration) -> Arc<Attempt> {
        let (ends, ended) = mpsc::channel::<()>();
        let attempt = Arc::new(Attempt {
            end_sender: watch::channel(None).0,
            is_ended: AtomicBool::new(false),
            callbacks: Mutex::default(),
            _ends: ends,
        });
        let watched = Arc::downgrade(&attempt);
        let watch = move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout)
                && let Some(attempt) = watched.upgrade()
            {
                attempt.end(AttemptEnd::TimedOut(limit));
            }
        };
        let started = thread::Builder::new().name("source-limit".to_owned()).spawn(watch);
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the thread, nothing enforces the deadline, so end the attempt right away.
        if known.0 || started.is_err() {
            attempt.end(AttemptEnd::Stopped);
        }
        known.1.retain(|attempt| attempt.strong_count() > 0);
        known.1.push(Arc::downgrade(&attempt));
        attempt
    }

    /// Ends all attempts, current and future.
    pub fn stop(&self) {
        let mut known = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        known.0 = true;
        known
            .1
            .drain(..)
            .filter_map(|attempt| attempt.upgrade())
            .for_each(|one| one.end(AttemptEnd::Stopped));
    }
}
