//! Wrappers around a cluster that intercept its calls, for example to count them, time them out or block
//! them.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_model::{Discovery, Gvk, Object, ObjectKey, OperationId};

use crate::{
    ApplyRequest, ApplyResult, Backpressure, Cluster, ClusterError, Container, DeleteRequest, DeleteResult,
    ErrorKind, FinalizerRemoval, JobStart, Listing, LiveQuery, LiveResult, LogStart, LogStream, MissingRight,
    Right, Scope, WatchStream,
};

/// A pending call to a cluster.
pub trait PendingCall<T>: Future<Output = Result<T, ClusterError>> + Send {}

impl<T, F: Future<Output = Result<T, ClusterError>> + Send> PendingCall<T> for F {}

/// A cluster that wraps another cluster and intercepts its calls. Every layer implements [`Cluster`]
/// automatically.
///
/// A wrapper must not implement [`Cluster`] directly. The blanket implementation for layers forwards every
/// method to the inner cluster, including methods that are added to the trait later.
pub trait Layer: Send + Sync + 'static {
    /// Returns the inner cluster.
    fn inner(&self) -> &dyn Cluster;

    /// Runs or skips a call to the inner cluster. The `answer` future does not start until it is polled.
    fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> impl PendingCall<T> {
        let _ = call;
        answer
    }

    /// Implements [`Cluster::discover`]. Overridden by layers that return their own result.
    fn discover(&self) -> impl PendingCall<Discovery> {
        async { self.intercept(Call::read(Verb::Discover, ""), self.inner().discover()).await }
    }

    /// Implements [`Cluster::get`]. Overridden by layers that return their own result.
    fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> impl PendingCall<Option<Object>> {
        async move { self.intercept(Call::read(Verb::Get, name), self.inner().get(gvk, namespace, name)).await }
    }

    /// Implements [`Cluster::list_live`]. Overridden by layers that depend on the query.
    fn list_live(&self, query: &LiveQuery) -> impl PendingCall<LiveResult> {
        async { self.intercept(Call::read(Verb::ListLive, ""), self.inner().list_live(query)).await }
    }

    /// Implements [`Cluster::missing_rights`]. Overridden by layers with their own access control.
    fn missing_rights(&self, rights: &BTreeSet<Right>) -> impl PendingCall<BTreeSet<MissingRight>> {
        async {
            self.intercept(Call::read(Verb::MissingRights, ""), self.inner().missing_rights(rights)).await
        }
    }

    /// Implements [`Cluster::watch`]. Overridden by layers that change the events.
    fn watch(&self, scope: &Scope, resource_version: &str) -> impl PendingCall<WatchStream> {
        let call = Call::read(Verb::Watch, &scope.gvk.kind);
        async move { self.intercept(call, self.inner().watch(scope, resource_version)).await }
    }

    /// Implements [`Cluster::follow_logs`]. Overridden by layers that change the lines.
    fn follow_logs(&self, container: &Container, from: LogStart) -> impl PendingCall<LogStream> {
        let call = Call::read(Verb::FollowLogs, &container.pod);
        async move { self.intercept(call, self.inner().follow_logs(container, from)).await }
    }

    /// Implements [`Cluster::as_user`]. Overridden by layers that also wrap the cluster for other users.
    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        let text = format!("this connection to the cluster cannot impersonate {user}");
        Err(ClusterError::new(ErrorKind::Unsupported, text))
    }

    /// Implements [`Cluster::backpressure`]. Overridden by layers that delay calls themselves.
    fn backpressure(&self) -> Option<Backpressure> {
        self.inner().backpressure()
    }
}

/// A call to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Method of [`Cluster`] that was called.
    pub verb: Verb,
    /// Effect of the call on the cluster.
    pub effect: Effect,
    /// Name of the object, or the kind if the call concerns several objects. Empty for all other calls.
    pub name: String,
    /// Object that the call writes or attempts to write.
    pub object: Option<ObjectKey>,
}

/// Methods of [`Cluster`] that call the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is named after its method")]
pub enum Verb {
    Discover,
    Get,
    List,
    ListLive,
    MissingRights,
    Apply,
    Put,
    PutStatus,
    Delete,
    RemoveFinalizer,
    StartJob,
    Watch,
    Pods,
    Events,
    Logs,
    FollowLogs,
}

/// Effect of a call on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Only reads.
    Read,
    /// Requests a dry run of a write.
    DryRun,
    /// May have changed the cluster, whatever the response.
    Write,
}

impl Call {
    fn read(verb: Verb, name: &str) -> Self {
        Self { verb, effect: Effect::Read, name: name.to_owned(), object: None }
    }

    fn write(verb: Verb, object: ObjectKey, dry_run: bool) -> Self {
        let effect = if dry_run { Effect::DryRun } else { Effect::Write };
        Self { verb, effect, name: object.name.clone(), object: Some(object) }
    }
}

#[async_trait]
impl<L: Layer> Cluster for L {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        Layer::discover(self).await
    }

    async fn version(&self) -> Result<Option<String>, ClusterError> {
        self.intercept(Call::read(Verb::Discover, "version"), self.inner().version()).await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        Layer::get(self, gvk, namespace, name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        self.intercept(Call::read(Verb::List, &scope.gvk.kind), self.inner().list(scope)).await
    }

    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        Layer::list_live(self, query).await
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        Layer::missing_rights(self, rights).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
        let call = Call::write(Verb::Apply, request.object.key(), request.dry_run);
        self.intercept(call, self.inner().apply(request)).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        let call = Call::write(Verb::Put, object.key(), false);
        self.intercept(call, self.inner().put(object, operation)).await
    }

    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let call = Call::write(Verb::PutStatus, object.key(), false);
        self.intercept(call, self.inner().put_status(object, operation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<DeleteResult, ClusterError> {
        let DeleteRequest { gvk, namespace, name, dry_run, .. } = &request;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        let call = Call::write(Verb::Delete, key, *dry_run);
        self.intercept(call, self.inner().delete(request)).await
    }

    async fn remove_finalizer(&self, request: FinalizerRemoval) -> Result<(), ClusterError> {
        let call = Call::write(Verb::RemoveFinalizer, request.key(), false);
        self.intercept(call, self.inner().remove_finalizer(request)).await
    }

    async fn start_job(&self, request: JobStart) -> Result<Object, ClusterError> {
        let call = Call::write(Verb::StartJob, request.key(), false);
        self.intercept(call, self.inner().start_job(request)).await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        Layer::watch(self, scope, resource_version).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.intercept(Call::read(Verb::Pods, owner.name()), self.inner().pods(owner)).await
    }

    async fn events(&self, object: &Object) -> Result<Vec<Object>, ClusterError> {
        self.intercept(Call::read(Verb::Events, object.name()), self.inner().events(object)).await
    }

    async fn logs(&self, container: &Container, limit_bytes: usize) -> Result<String, ClusterError> {
        let call = Call::read(Verb::Logs, &container.pod);
        self.intercept(call, self.inner().logs(container, limit_bytes)).await
    }

    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError> {
        Layer::follow_logs(self, container, from).await
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Layer::as_user(self, user)
    }

    fn backpressure(&self) -> Option<Backpressure> {
        Layer::backpressure(self)
    }
}
