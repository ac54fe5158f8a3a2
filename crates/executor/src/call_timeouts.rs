//! Timeouts for all calls to a cluster, whatever its implementation. Without a timeout, a call that never
//! returns would occupy a permit for concurrent calls forever.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Call, Cluster, ClusterError, ErrorKind, Layer, PendingCall, Verb};

/// Timeout for calls about a single object. API servers give up after a minute.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(75);
/// Timeout for reading many objects, which can take many calls.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Cluster whose calls have timeouts.
pub(crate) struct ClusterWithTimeouts(pub Arc<dyn Cluster>);

impl Layer for ClusterWithTimeouts {
    fn inner(&self) -> &dyn Cluster {
        self.0.as_ref()
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(Arc::new(Self(self.0.as_user(user)?)))
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        let limit = match call.verb {
            Verb::Discover | Verb::List | Verb::ListLive => READ_TIMEOUT,
            // For a watch, the limit covers only opening it. An open watch may stay silent indefinitely.
            _ => CALL_TIMEOUT,
        };
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let message = format!("the cluster did not respond within {} s", limit.as_secs());
            Err(ClusterError::new(ErrorKind::Timeout, message))
        })
    }
}
