//! Events for requests to Git servers, the basis for metrics.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::Address;

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// A request to list branches and tags.
    ListRefs,
    /// A request to fetch a commit or a tag with its files.
    Fetch,
}

/// Event for a finished request, successful or not.
#[derive(Clone, Copy, Debug)]
pub struct RequestEvent<'a> {
    /// Address of the repository. Its `Display` output is redacted.
    pub address: &'a Address,
    /// Kind of the request.
    pub kind: RequestKind,
    /// Duration of the request.
    pub duration: Duration,
    /// True if the request failed.
    pub has_failed: bool,
}

type ListenFunction = dyn Fn(RequestEvent<'_>) + Send + Sync;

/// Receiver of request events. The default receiver ignores them.
#[derive(Clone, Default)]
pub struct Listener(Option<Arc<ListenFunction>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "Nobody" })
    }
}

impl Listener {
    /// Creates a listener that calls `listen` after each request, synchronously and possibly from several
    /// threads at once.
    pub fn new(listen: impl Fn(RequestEvent<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listen)))
    }

    /// Runs a request and reports its event.
    pub(crate) fn run_and_report<T, E>(
        &self,
        address: &Address,
        kind: RequestKind,
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = Instant::now();
        let answer = ask();
        if let Some(listen) = &self.0 {
            listen(RequestEvent { address, kind, duration: begin.elapsed(), has_failed: answer.is_err() });
        }
        answer
    }
}
