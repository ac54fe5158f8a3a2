//! What stands in front of a cluster and has a say in its calls: counts them, limits their time, keeps some back.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_model::{Discovery, Gvk, Object, ObjectKey, OperationId};

use crate::{
    Applied, ApplyRequest, Cluster, ClusterError, Container, DeleteRequest, Deleted, ErrorKind, Listing,
    LiveAnswer, LiveQuery, LogStream, LogsFrom, MissingRight, Right, Scope, Strain, WatchStream,
};

/// A cluster in front of another. It says what is its own about calls, and is a [`Cluster`] by that.
///
/// A wrapper never implements [`Cluster`] itself: every method is forwarded here once, so a new one reaches the cluster
/// behind whatever stands in front of it.
pub trait Layer: Send + Sync + 'static {
    /// The cluster that calls go to when they have passed.
    fn inner(&self) -> &dyn Cluster;

    /// Carries out a call to the cluster behind, or does not: `answer` begins when it is first awaited.
    fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> impl Future<Output = Result<T, ClusterError>> + Send {
        let _ = call;
        answer
    }

    /// As [`Cluster::discover`], for a layer that knows the answer itself.
    fn discover(&self) -> impl Future<Output = Result<Discovery, ClusterError>> + Send {
        async { self.around(Call::read(Verb::Discover, ""), self.inner().discover()).await }
    }

    /// As [`Cluster::get`], for a layer that knows the answer itself.
    fn get(
        &self,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Object>, ClusterError>> + Send {
        async move { self.around(Call::read(Verb::Get, name), self.inner().get(gvk, namespace, name)).await }
    }

    /// As [`Cluster::live`], for a layer that looks at the question.
    fn live(&self, query: &LiveQuery) -> impl Future<Output = Result<LiveAnswer, ClusterError>> + Send {
        async { self.around(Call::read(Verb::Live, ""), self.inner().live(query)).await }
    }

    /// As [`Cluster::missing_rights`], for a layer that knows of rights itself.
    fn missing_rights(
        &self,
        rights: &BTreeSet<Right>,
    ) -> impl Future<Output = Result<BTreeSet<MissingRight>, ClusterError>> + Send {
        async { self.around(Call::read(Verb::MissingRights, ""), self.inner().missing_rights(rights)).await }
    }

    /// As [`Cluster::watch`], for a layer that has a say in what is told.
    fn watch(
        &self,
        scope: &Scope,
        resource_version: &str,
    ) -> impl Future<Output = Result<WatchStream, ClusterError>> + Send {
        let call = Call::read(Verb::Watch, &scope.gvk.kind);
        async move { self.around(call, self.inner().watch(scope, resource_version)).await }
    }

    /// As [`Cluster::follow_logs`], for a layer that has a say in what is told.
    fn follow_logs(
        &self,
        container: &Container,
        from: LogsFrom,
    ) -> impl Future<Output = Result<LogStream, ClusterError>> + Send {
        let call = Call::read(Verb::FollowLogs, &container.pod);
        async move { self.around(call, self.inner().follow_logs(container, from)).await }
    }

    /// As [`Cluster::as_user`], for a layer that stands before others as well.
    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        let words = format!("nobody can act as {user} on this way to the cluster");
        Err(ClusterError::new(ErrorKind::Unsupported, words))
    }

    /// As [`Cluster::strain`], for a layer that keeps calls waiting itself.
    fn strain(&self) -> Option<Strain> {
        self.inner().strain()
    }
}

/// A call on its way to a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which method of [`Cluster`] it is.
    pub verb: Verb,
    /// What it does to the cluster.
    pub effect: Effect,
    /// The name of the object it is about; the kind where it is about many; else nothing.
    pub name: String,
    /// The object that it writes, or tries to write.
    pub object: Option<ObjectKey>,
}

/// The methods of [`Cluster`] that call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is called like the method")]
pub enum Verb {
    Discover,
    Get,
    List,
    Live,
    MissingRights,
    Apply,
    Put,
    PutStatus,
    Delete,
    RemoveFinalizer,
    Watch,
    Pods,
    Logs,
    FollowLogs,
}

/// What a call does to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It looks, and changes nothing.
    Read,
    /// It asks what a write would do.
    DryRun,
    /// It may have changed something, however it is answered.
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
        self.around(Call::read(Verb::Discover, "version"), self.inner().version()).await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        Layer::get(self, gvk, namespace, name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        self.around(Call::read(Verb::List, &scope.gvk.kind), self.inner().list(scope)).await
    }

    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        Layer::live(self, query).await
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        Layer::missing_rights(self, rights).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        let call = Call::write(Verb::Apply, request.object.key(), request.dry_run);
        self.around(call, self.inner().apply(request)).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        let call = Call::write(Verb::Put, object.key(), false);
        self.around(call, self.inner().put(object, operation)).await
    }

    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        let call = Call::write(Verb::PutStatus, object.key(), false);
        self.around(call, self.inner().put_status(object, operation)).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        let DeleteRequest { gvk, namespace, name, dry_run, .. } = &request;
        let key = ObjectKey::new(&gvk.group, &gvk.kind, namespace, name);
        let call = Call::write(Verb::Delete, key, *dry_run);
        self.around(call, self.inner().delete(request)).await
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        let call = Call::write(Verb::RemoveFinalizer, key.clone(), false);
        self.around(call, self.inner().remove_finalizer(key, gvk, uid, finalizer, operation)).await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        Layer::watch(self, scope, resource_version).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.around(Call::read(Verb::Pods, owner.name()), self.inner().pods(owner)).await
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        let answer = self.inner().logs(namespace, pod, container, limit_bytes);
        self.around(Call::read(Verb::Logs, pod), answer).await
    }

    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError> {
        Layer::follow_logs(self, container, from).await
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        Layer::as_user(self, user)
    }

    fn strain(&self) -> Option<Strain> {
        Layer::strain(self)
    }
}
