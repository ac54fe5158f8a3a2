//! The trait, call by call.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_cluster::{
    Applied, ApplyRequest, Cluster, ClusterError, Container, DeleteRequest, Deleted, ErrorKind, Listing,
    LiveAnswer, LiveQuery, LogStream, LogsFrom, MissingRight, Right, Scope, Strain, WatchStream, writer,
};
use tidegate_model::annotations::COMMAND_MANAGER;
use tidegate_model::{Discovery, Gvk, Object, ObjectKey, OperationId};

use crate::answer::{About, Answer};
use crate::discovery::{self, Kinds};
use crate::paths::Target;
use crate::rights::Reviews;
use crate::rounds::Rounds;
use crate::searching::Searches;
use crate::server::{Call, Server};

/// A Kubernetes cluster behind its API server. Clones share the connection, the bound of calls in flight, and what is
/// known of the kinds that are served.
#[derive(Clone)]
pub struct KubeCluster {
    shared: Arc<Shared>,
    /// Who writes; nothing for ourselves.
    user: Option<Arc<str>>,
    /// Whether many applications are planned with it at the same time.
    is_for_many: bool,
    /// Whether it is a person's command that puts what no operation does, and not a service.
    is_for_command: bool,
}

struct Shared {
    server: Server,
    kinds: Kinds,
    context: String,
    namespace: String,
    /// The kinds that could not be searched when they were searched last, of which it was told.
    unsearched: Mutex<BTreeSet<Gvk>>,
    searches: Searches,
    reviews: Reviews,
    /// Objects of the cluster scope that are read: namespaces above all, each for many applications.
    reads: Rounds<String, Option<Object>>,
}

impl std::fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeCluster")
            .field("context", &self.context())
            .field("server", &self.server())
            .finish()
    }
}

impl KubeCluster {
    pub(crate) fn new(server: Server, context: String, namespace: String) -> Self {
        let shared = Shared {
            server,
            kinds: Kinds::default(),
            context,
            namespace,
            unsearched: Mutex::default(),
            searches: Searches::default(),
            reviews: Reviews::default(),
            reads: Rounds::default(),
        };
        Self { shared: Arc::new(shared), user: None, is_for_many: false, is_for_command: false }
    }

    /// The same for many applications: what a search through the cluster has found a few seconds ago is not searched for again.
    #[must_use]
    pub fn for_many(self) -> Self {
        Self { is_for_many: true, ..self }
    }

    /// The same for a person's command: what is put for no operation is written by the manager of that, and not of the service.
    #[must_use]
    pub fn for_command(self) -> Self {
        Self { is_for_command: true, ..self }
    }

    /// The manager of what is put.
    pub(crate) fn manager(&self, operation: Option<OperationId>) -> &'static str {
        match operation {
            None if self.is_for_command => COMMAND_MANAGER,
            operation => writer(operation),
        }
    }

    pub(crate) fn is_for_many(&self) -> bool {
        self.is_for_many
    }

    /// The same, where we do everything ourselves; nothing where we do so anyway.
    pub(crate) fn as_ourselves(&self) -> Option<Self> {
        self.user.as_ref().map(|_| Self { user: None, ..self.clone() })
    }

    /// A call of whoever writes here.
    pub(crate) fn as_writer(&self, call: Call) -> Call {
        Call { user: self.user.clone(), ..call }
    }

    /// The context of the kubeconfig; empty in a pod.
    pub fn context(&self) -> &str {
        &self.shared.context
    }

    /// The address of the API server.
    pub fn server(&self) -> &str {
        self.shared.server.url()
    }

    /// The namespace of the context, or of the pod; `default` when it has none.
    pub fn default_namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Makes sure that the server answers and lets us in, by beginning to ask what it serves. A discovery soon after goes
    /// on from there, so this costs nothing then.
    pub async fn reach(&self) -> Result<(), ClusterError> {
        self.kinds().reach(self.http()).await
    }

    pub(crate) fn http(&self) -> &Server {
        &self.shared.server
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.shared.kinds
    }

    pub(crate) fn searches(&self) -> &Searches {
        &self.shared.searches
    }

    pub(crate) fn reviews(&self) -> &Reviews {
        &self.shared.reviews
    }

    /// As whom is written; nothing for ourselves.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    /// Remembers which kinds could not be searched, of those that were, and gives those of which it was not told yet.
    pub(crate) fn newly_unsearched(&self, searched: &[Gvk], unsearched: &BTreeSet<Gvk>) -> BTreeSet<Gvk> {
        let mut told = self.shared.unsearched.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|gvk| !searched.contains(gvk) || unsearched.contains(gvk));
        let new = unsearched - &told;
        told.extend(new.iter().cloned());
        new
    }

    /// The place of one object.
    pub(crate) async fn target<'a>(
        &self,
        gvk: &'a Gvk,
        namespace: &'a str,
        name: &'a str,
    ) -> Result<Target<'a>, ClusterError> {
        Target::one(gvk, self.kinds().find(self.http(), gvk).await?, namespace, name)
    }

    /// One write of one object, and the object of the answer, lean.
    pub(crate) async fn object_call(
        &self,
        target: &Target<'_>,
        call: &Call,
    ) -> Result<(Answer, Object), ClusterError> {
        let call = self.as_writer(call.clone());
        let answer = self.http().call(&call).await?;
        let about = About { sent: call.body.len(), ..About::from(target) };
        match answer.lean_object(about) {
            Ok(object) => Ok((answer, object)),
            Err(error) => Err(self.noted(target.gvk, error).await),
        }
    }

    /// Forgets a kind that is no longer served.
    pub(crate) async fn noted(&self, gvk: &Gvk, error: ClusterError) -> ClusterError {
        if error.kind == ErrorKind::UnknownKind {
            self.kinds().forget(gvk).await;
        }
        error
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        self.kinds().discover(self.http()).await
    }

    async fn version(&self) -> Result<Option<String>, ClusterError> {
        discovery::release(self.http()).await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        let target = self.target(gvk, namespace, name).await?;
        match namespace {
            "" => self.shared.reads.ask(target.path(), self.read(&target)).await,
            _ => self.read(&target).await,
        }
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        self.list_scope(scope).await
    }

    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        self.find_live(query).await
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        self.review_rights(rights).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        self.write_manifest(request).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        self.put_object(object, operation).await
    }

    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError> {
        self.put_status_of(object, operation).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        self.delete_object(&request).await
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        self.drop_finalizer(key, gvk, (uid, finalizer), operation).await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        self.watch_scope(scope, resource_version).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.pods_of(owner).await
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        self.tail(namespace, pod, container, limit_bytes).await
    }

    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError> {
        self.follow_container_logs(container, from).await
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        if self.http().transport().link().is_somebody_else() {
            let words = format!(
                "cannot write as {user}: this process acts as another user already (--as, or `as` in the kubeconfig), and \
                 Kubernetes lets nobody act as others twice"
            );
            return Err(ClusterError::new(ErrorKind::Unsupported, words));
        }
        Ok(Arc::new(Self { user: Some(user.into()), ..self.clone() }))
    }

    fn strain(&self) -> Option<Strain> {
        self.http().strain()
    }
}
