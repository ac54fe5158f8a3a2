//! A time limit on every call to a cluster, whatever its implementation does about that itself: a call that never
//! comes back would keep its place among the calls on their way for ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidegate_cluster::{
    Applied, ApplyRequest, Cluster, ClusterError, DeleteRequest, Deleted, ErrorKind, Listing, LiveQuery,
    MissingRight, Right, Scope, Strain, WatchStream,
};
use tidegate_model::{Discovery, Gvk, Object, ObjectKey, OperationId};

/// How long a call about one object may take. An API server gives up after a minute itself.
pub(crate) const CALL_WITHIN: Duration = Duration::from_secs(75);
/// How long reading many objects may take: it may be many calls.
pub(crate) const READ_WITHIN: Duration = Duration::from_secs(300);

/// A cluster whose calls come back in time.
pub(crate) struct Limited(pub Arc<dyn Cluster>);

/// The answer, or that there was none in time.
async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, ClusterError>>,
) -> Result<T, ClusterError> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let message = format!("the cluster did not answer within {} s", limit.as_secs());
        Err(ClusterError::new(ErrorKind::Timeout, message))
    })
}

#[async_trait]
impl Cluster for Limited {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        within(READ_WITHIN, self.0.discover()).await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        within(CALL_WITHIN, self.0.get(gvk, namespace, name)).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        within(READ_WITHIN, self.0.list(scope)).await
    }

    async fn live(&self, query: &LiveQuery) -> Result<Vec<Object>, ClusterError> {
        within(READ_WITHIN, self.0.live(query)).await
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        within(CALL_WITHIN, self.0.missing_rights(rights)).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        within(CALL_WITHIN, self.0.apply(request)).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        within(CALL_WITHIN, self.0.put(object, operation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        within(CALL_WITHIN, self.0.delete(request)).await
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        within(CALL_WITHIN, self.0.remove_finalizer(key, gvk, uid, finalizer, operation)).await
    }

    /// Only the opening: an open watch may be silent for as long as it likes.
    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        within(CALL_WITHIN, self.0.watch(scope, resource_version)).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        within(CALL_WITHIN, self.0.pods(owner)).await
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        within(CALL_WITHIN, self.0.logs(namespace, pod, container, limit_bytes)).await
    }

    fn strain(&self) -> Option<Strain> {
        self.0.strain()
    }
}
