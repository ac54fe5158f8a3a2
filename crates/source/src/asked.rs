//! What Git repositories over the network were asked: told to whoever watches the process.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Address;

/// What a server is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Its branches and tags.
    Names,
    /// A commit or a tag, with its files.
    Objects,
}

/// A server was asked, and has answered or not.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The repository. As it is shown it has no credentials.
    pub address: &'a Address,
    /// What for.
    pub kind: RequestKind,
    /// How long that took.
    pub took: Duration,
    /// Nothing came of it.
    pub failed: bool,
}

type Listen = dyn Fn(Asked<'_>) + Send + Sync;

/// Who is told what repositories were asked; nobody, where nobody says so.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<Listen>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "Nobody" })
    }
}

impl Listener {
    /// Calls this after each request; it may be called by several threads at once, and is waited for.
    pub fn new(listen: impl Fn(Asked<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listen)))
    }

    /// Asks, and tells of it.
    pub(crate) fn tell<T, E>(
        &self,
        (address, kind): (&Address, RequestKind),
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = Instant::now();
        let answer = ask();
        if let Some(listen) = &self.0 {
            listen(Asked { address, kind, took: begin.elapsed(), failed: answer.is_err() });
        }
        answer
    }
}
