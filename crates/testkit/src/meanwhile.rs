//! Something that happens in the cluster at the worst moment: after an engine has looked, and before it writes.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use tidegate_cluster::{Call, Cluster, ClusterError, Effect, Layer};

/// A cluster that keeps back the first write of an object until something has happened.
pub struct Meanwhile {
    inner: Arc<dyn Cluster>,
    name: &'static str,
    event: Mutex<Option<BoxFuture<'static, ()>>>,
}

impl Meanwhile {
    /// Before the first write of an object of this name.
    pub fn before(
        inner: Arc<dyn Cluster>,
        name: &'static str,
        event: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { inner, name, event: Mutex::new(Some(Box::pin(event))) })
    }
}

impl Layer for Meanwhile {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        if call.effect == Effect::Write && call.name == self.name {
            let event = self.event.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(event) = event {
                event.await;
            }
        }
        answer.await
    }
}
