//! Which cluster may answer. Where one is meant, a connection that is new is used only after the cluster at its other end has
//! said that it is that one: what stands at an address may be replaced between two calls.
//!
//! ```text
//!   call ─► Gate: sure? ─► connection there is ────────────────────────────► sent
//!                          none: Gated withholds it ─► Server asks who answers ─┘
//! ```

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use http::Uri;
use tokio::sync::{Mutex, MutexGuard};
use tower::{BoxError, Service};

/// The cluster that is meant, and whether it is called at all. For all connections to it, those to come included.
#[derive(Default)]
pub(crate) struct Meant(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// What tells it from others; `None` where any may answer.
    identity: Option<String>,
    /// Why it is not called.
    closed: Option<String>,
}

impl Meant {
    fn read<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn identity(&self) -> Option<String> {
        self.read(|known| known.identity.clone())
    }

    pub(crate) fn closed(&self) -> Option<String> {
        self.read(|known| known.closed.clone())
    }

    pub(crate) fn is_only(&self, identity: String) {
        self.write(|known| known.identity = Some(identity));
    }

    pub(crate) fn close(&self, reason: Option<String>) {
        self.write(|known| known.closed = reason);
    }
}

/// Stands before the connections of one client.
pub(crate) struct Gate {
    meant: Arc<Meant>,
    /// Somebody asks now who answers: for that, connections come about.
    asking: AtomicBool,
    /// Nothing is at the other end of a connection that has not said who it is.
    sure: AtomicBool,
    turn: Mutex<()>,
}

impl Gate {
    pub(crate) fn new(meant: Arc<Meant>) -> Arc<Self> {
        let (asking, sure, turn) = (AtomicBool::new(false), AtomicBool::new(true), Mutex::new(()));
        Arc::new(Self { meant, asking, sure, turn })
    }

    /// Whether calls may go over the connections there are. Waits while somebody asks who answers over a new one.
    pub(crate) async fn is_sure(&self) -> bool {
        if self.meant.read(|known| known.identity.is_none()) {
            return true;
        }
        drop(self.turn.lock().await);
        self.sure.load(Ordering::Acquire)
    }

    /// From now on, until this is dropped, a new connection may come about: to be asked who is at its other end.
    pub(crate) async fn ask(&self) -> Asking<'_> {
        let turn = self.turn.lock().await;
        self.sure.store(false, Ordering::Release);
        self.asking.store(true, Ordering::Release);
        Asking { gate: self, _turn: turn }
    }

    fn is_open(&self) -> bool {
        self.asking.load(Ordering::Acquire) || self.meant.read(|known| known.identity.is_none())
    }
}

/// Somebody asks who answers.
pub(crate) struct Asking<'g> {
    gate: &'g Gate,
    _turn: MutexGuard<'g, ()>,
}

impl Asking<'_> {
    /// It was the one that is meant.
    pub(crate) fn admit(self) {
        self.gate.sure.store(true, Ordering::Release);
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.gate.asking.store(false, Ordering::Release);
    }
}

/// Why a connection did not come about: nobody has asked yet who is at its other end.
#[derive(Debug)]
struct Withheld;

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it was not asked which cluster answers")
    }
}

impl StdError for Withheld {}

/// Whether a request was not sent because that would have taken a new connection.
pub(crate) fn was_withheld(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Withheld>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Makes connections, where the gate is open.
#[derive(Clone)]
pub(crate) struct Gated<C> {
    pub(crate) inner: C,
    pub(crate) gate: Arc<Gate>,
}

impl<C> Service<Uri> for Gated<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        if !self.gate.is_open() {
            return Box::pin(async { Err(Withheld.into()) });
        }
        let connecting = self.inner.call(server);
        Box::pin(async { connecting.await.map_err(Into::into) })
    }
}
