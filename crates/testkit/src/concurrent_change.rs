//! Concurrent change to the cluster at the worst moment: after an engine has read an object and before it
//! writes it.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tidegate_cluster::{Call, Cluster, ClusterError, Effect, Layer, PendingCall};

/// Cluster that holds back the first write to an object until an action has finished.
pub struct ConcurrentChange {
    inner: Arc<dyn Cluster>,
    name: &'static str,
    action: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl ConcurrentChange {
    /// Runs an action before the first write to an object with this name.
    pub fn before_write(
        inner: Arc<dyn Cluster>,
        name: &'static str,
        event: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, name, action: Mutex::new(Some(Box::pin(event))) })
    }
}

impl Layer for ConcurrentChange {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        if call.effect == Effect::Write && call.name == self.name {
            let event = self.action.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(event) = event {
                event.await;
            }
        }
        answer.await
    }
}
