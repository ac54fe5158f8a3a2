//! A time limit on every call to a cluster, whatever its implementation does about that itself: a call that never
//! comes back would keep its place among the calls on their way for ever.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::{Call, Cluster, ClusterError, ErrorKind, Layer, Verb};

/// How long a call about one object may take. An API server gives up after a minute itself.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(75);
/// How long reading many objects may take: it may be many calls.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(300);

/// A cluster whose calls come back in time.
pub(crate) struct Limited(pub Arc<dyn Cluster>);

impl Layer for Limited {
    fn inner(&self) -> &dyn Cluster {
        self.0.as_ref()
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Ok(Arc::new(Self(self.0.as_user(user)?)))
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        let limit = match call.verb {
            Verb::Discover | Verb::List | Verb::Live => READ_WITHIN,
            // Of a watch only the opening: an open one may be silent for as long as it likes.
            _ => CALL_WITHIN,
        };
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let message = format!("the cluster did not answer within {} s", limit.as_secs());
            Err(ClusterError::new(ErrorKind::Timeout, message))
        })
    }
}
