//! Check of the cluster's identity. If the caller expects a particular cluster, a new connection is used only
//! after an identity check. A different cluster may respond at the same URL between two calls.
//!
//! ```text
//!   call ─► IdentityGate: sure? ─► existing connection ─────────────────────────────────────────► sent
//!                                  none: GatedConnector withholds it ─► Server reads identity ───┘
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

/// Expected cluster and, if calls to it are blocked, the reason. Shared by all present and future
/// connections.
#[derive(Default)]
pub(crate) struct ExpectedCluster(RwLock<ExpectedState>);

#[derive(Default)]
struct ExpectedState {
    /// Identity of the expected cluster, or `None` if any cluster may respond.
    identity: Option<String>,
    /// Reason why calls are blocked.
    blocked_reason: Option<String>,
}

impl ExpectedCluster {
    fn read_state<T>(&self, read: impl FnOnce(&ExpectedState) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change_state(&self, change: impl FnOnce(&mut ExpectedState)) {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn identity(&self) -> Option<String> {
        self.read_state(|state| state.identity.clone())
    }

    pub(crate) fn blocked_reason(&self) -> Option<String> {
        self.read_state(|state| state.blocked_reason.clone())
    }

    pub(crate) fn expect_identity(&self, identity: String) {
        self.change_state(|state| state.identity = Some(identity));
    }

    pub(crate) fn set_blocked_reason(&self, reason: Option<String>) {
        self.change_state(|state| state.blocked_reason = reason);
    }
}

/// Guards the connections of one client.
pub(crate) struct IdentityGate {
    expected: Arc<ExpectedCluster>,
    /// True during an identity check, the only time to open new connections to an expected cluster.
    is_checking: AtomicBool,
    /// True if every open connection leads to the expected cluster.
    is_confirmed: AtomicBool,
    check_lock: Mutex<()>,
}

impl IdentityGate {
    pub(crate) fn new(expected: Arc<ExpectedCluster>) -> Arc<Self> {
        let (is_checking, is_confirmed, check_lock) =
            (AtomicBool::new(false), AtomicBool::new(true), Mutex::new(()));
        Arc::new(Self { expected, is_checking, is_confirmed, check_lock })
    }

    /// Returns true if calls may use the open connections. Waits for a running check of a new connection.
    pub(crate) async fn is_sure(&self) -> bool {
        if self.expected.read_state(|state| state.identity.is_none()) {
            return true;
        }
        drop(self.check_lock.lock().await);
        self.is_confirmed.load(Ordering::Acquire)
    }

    /// Starts an identity check. New connections may be opened until the returned guard is dropped.
    pub(crate) async fn begin_check(&self) -> IdentityCheck<'_> {
        let check_guard = self.check_lock.lock().await;
        self.is_confirmed.store(false, Ordering::Release);
        self.is_checking.store(true, Ordering::Release);
        IdentityCheck { gate: self, _check_guard: check_guard }
    }

    fn is_open(&self) -> bool {
        self.is_checking.load(Ordering::Acquire) || self.expected.read_state(|state| state.identity.is_none())
    }
}

/// Running identity check.
pub(crate) struct IdentityCheck<'g> {
    gate: &'g IdentityGate,
    _check_guard: MutexGuard<'g, ()>,
}

impl IdentityCheck<'_> {
    /// Marks the identity of the new connection as confirmed.
    pub(crate) fn confirm(self) {
        self.gate.is_confirmed.store(true, Ordering::Release);
    }
}

impl Drop for IdentityCheck<'_> {
    fn drop(&mut self) {
        self.gate.is_checking.store(false, Ordering::Release);
    }
}

/// Error for a connection attempt outside an identity check.
#[derive(Debug)]
struct ConnectionWithheld;

impl fmt::Display for ConnectionWithheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the cluster's identity has not been checked")
    }
}

impl StdError for ConnectionWithheld {}

/// Returns true if a request wasn't sent because it needed a new connection.
pub(crate) fn was_withheld(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<ConnectionWithheld>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Connector that opens connections only with the gate's permission.
#[derive(Clone)]
pub(crate) struct GatedConnector<C> {
    pub(crate) inner: C,
    pub(crate) gate: Arc<IdentityGate>,
}

impl<C> Service<Uri> for GatedConnector<C>
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
            return Box::pin(async { Err(ConnectionWithheld.into()) });
        }
        let connecting = self.inner.call(server);
        Box::pin(async { connecting.await.map_err(Into::into) })
    }
}
