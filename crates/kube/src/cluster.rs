//! Implementation of the [`Cluster`] trait.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tidegate_cluster::{
    ApplyRequest, ApplyResult, Backpressure, Cluster, ClusterError, Container, DeleteRequest, DeleteResult,
    ErrorKind, FinalizerRemoval, JobStart, Listing, LiveQuery, LiveResult, LogStart, LogStream, MissingRight,
    Right, Scope, WatchStream, field_manager,
};
use tidegate_model::annotations::COMMAND_MANAGER;
use tidegate_model::{Discovery, Gvk, Object, OperationId};

use crate::call::Call;
use crate::discovery::{self, KindCache};
use crate::identity;
use crate::paths::Target;
use crate::response::{ApiResponse, CallSubject};
use crate::rules::RuleRequests;
use crate::search_result::SearchRequests;
use crate::server::Server;
use crate::singleflight::Singleflight;

/// Kubernetes cluster, accessed through its API server. Clones share the connection, the limit of calls in
/// flight, and the cached kinds.
#[derive(Clone)]
pub struct KubeCluster {
    shared: Arc<Inner>,
    /// User to impersonate for writes, or `None` for Tidegate's own user.
    user: Option<Arc<str>>,
    /// True if applications share search results, because many of them are planned at the same time.
    has_shared_searches: bool,
    /// True if a command rather than a service makes the writes outside an operation.
    is_for_command: bool,
}

struct Inner {
    server: Server,
    kinds: KindCache,
    context: String,
    namespace: String,
    /// User in the configuration, or empty if it has none.
    configured_user: String,
    /// Kinds with a failed search that has already been reported.
    reported_unsearched: Mutex<BTreeSet<Gvk>>,
    searches: SearchRequests,
    reviews: RuleRequests,
    /// Coalesced reads of cluster-scoped objects, mainly namespaces, which many applications share.
    reads: Singleflight<String, Option<Object>>,
}

impl std::fmt::Debug for KubeCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeCluster")
            .field("context", &self.context())
            .field("server", &self.server_url())
            .finish()
    }
}

impl KubeCluster {
    pub(crate) fn new(server: Server, context: String, namespace: String) -> Self {
        let shared = Inner {
            server,
            kinds: KindCache::default(),
            context,
            namespace,
            configured_user: String::new(),
            reported_unsearched: Mutex::default(),
            searches: SearchRequests::default(),
            reviews: RuleRequests::default(),
            reads: Singleflight::default(),
        };
        Self { shared: Arc::new(shared), user: None, has_shared_searches: false, is_for_command: false }
    }

    /// Sets the user in the configuration.
    pub(crate) fn with_configured_user(mut self, user: String) -> Self {
        // No clone exists yet, so the state is still mutable.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.configured_user = user;
        }
        self
    }

    pub(crate) fn configured_user(&self) -> &str {
        &self.shared.configured_user
    }

    /// Configures the cluster for many applications: searches reuse results from the last few seconds.
    #[must_use]
    pub fn with_shared_searches(self) -> Self {
        Self { has_shared_searches: true, ..self }
    }

    /// Configures the cluster for a command. Writes outside an operation then use the commands' field manager
    /// instead of the service's.
    #[must_use]
    pub fn for_command(self) -> Self {
        Self { is_for_command: true, ..self }
    }

    /// Returns the field manager for a write.
    pub(crate) fn manager(&self, operation: Option<OperationId>) -> &'static str {
        match operation {
            None if self.is_for_command => COMMAND_MANAGER,
            operation => field_manager(operation),
        }
    }

    pub(crate) fn has_shared_searches(&self) -> bool {
        self.has_shared_searches
    }

    /// Returns the same cluster without impersonation, or `None` if it doesn't impersonate a user.
    pub(crate) fn without_impersonation(&self) -> Option<Self> {
        self.user.as_ref().map(|_| Self { user: None, ..self.clone() })
    }

    /// Makes a call impersonate the user for writes.
    pub(crate) fn with_writer(&self, call: Call) -> Call {
        Call { user: self.user.clone(), ..call }
    }

    /// Returns the kubeconfig context. Empty in a pod.
    pub fn context(&self) -> &str {
        &self.shared.context
    }

    /// Returns the URL of the API server.
    pub fn server_url(&self) -> &str {
        self.shared.server.url()
    }

    /// Returns the namespace of the context or the pod, or `default` if neither has one.
    pub fn default_namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Checks that the server responds and accepts the credentials. This starts a discovery, which the next
    /// discovery continues, so it costs no extra request.
    pub async fn check_connection(&self) -> Result<(), ClusterError> {
        self.kinds().check_connection(self.api_server()).await
    }

    /// Returns the UID of the `kube-system` namespace, which distinguishes this cluster from others at the
    /// same URL. `None` without permission to read the namespace. Doesn't need discovery, because every
    /// server serves namespaces.
    pub async fn identity(&self) -> Result<Option<String>, ClusterError> {
        identity::parse_identity(&self.api_server().call_with_retry(&identity::identity_call()?).await?)
    }

    /// Restricts all calls to the cluster with this [identity](Self::identity). Each new connection is
    /// checked before its first use, and closed if it leads to a different cluster.
    pub fn expect_identity(&self, identity: &str) {
        self.api_server().transport().expected_cluster().expect_identity(identity.to_owned());
    }

    /// Makes all calls fail with `reason`, as if the cluster were unreachable. Open watches continue.
    pub fn block_calls(&self, reason: String) {
        self.api_server().transport().expected_cluster().set_blocked_reason(Some(reason));
    }

    /// Permits calls again.
    pub fn unblock_calls(&self) {
        self.api_server().transport().expected_cluster().set_blocked_reason(None);
    }

    /// Returns the reason for blocking calls, if any.
    pub fn blocked_reason(&self) -> Option<String> {
        self.api_server().transport().expected_cluster().blocked_reason()
    }

    pub(crate) fn api_server(&self) -> &Server {
        &self.shared.server
    }

    pub(crate) fn kinds(&self) -> &KindCache {
        &self.shared.kinds
    }

    pub(crate) fn searches(&self) -> &SearchRequests {
        &self.shared.searches
    }

    pub(crate) fn reviews(&self) -> &RuleRequests {
        &self.shared.reviews
    }

    /// Returns the user to impersonate for writes, or `None` for Tidegate's own user.
    pub(crate) fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    /// Records which of the `searched` kinds could not be searched. Returns those that haven't been reported.
    pub(crate) fn record_unsearched(&self, searched: &[Gvk], unsearched: &BTreeSet<Gvk>) -> BTreeSet<Gvk> {
        let mut reported = self.shared.reported_unsearched.lock().unwrap_or_else(PoisonError::into_inner);
        reported.retain(|gvk| !searched.contains(gvk) || unsearched.contains(gvk));
        let new = unsearched - &reported;
        reported.extend(new.iter().cloned());
        new
    }

    /// Returns the location of one object.
    pub(crate) async fn find_target<'a>(
        &self,
        gvk: &'a Gvk,
        namespace: &'a str,
        name: &'a str,
    ) -> Result<Target<'a>, ClusterError> {
        Target::for_object(gvk, self.kinds().find(self.api_server(), gvk).await?, namespace, name)
    }

    /// Sends a write for one object. Returns the object from the response in compact form.
    pub(crate) async fn send_write(
        &self,
        target: &Target<'_>,
        call: &Call,
    ) -> Result<(ApiResponse, Object), ClusterError> {
        let call = self.with_writer(call.clone());
        let answer = self.api_server().call(&call).await?;
        let about = CallSubject { manifest_bytes: call.body.len(), ..CallSubject::from(target) };
        match answer.decode_compact_object(about) {
            Ok(object) => Ok((answer, object)),
            Err(error) => Err(self.forget_unserved_kind(target.gvk, error).await),
        }
    }

    /// Drops a kind from the cache if the server has stopped serving it.
    pub(crate) async fn forget_unserved_kind(&self, gvk: &Gvk, error: ClusterError) -> ClusterError {
        if error.kind == ErrorKind::UnknownKind {
            self.kinds().forget(gvk).await;
        }
        error
    }
}

#[async_trait]
impl Cluster for KubeCluster {
    async fn discover(&self) -> Result<Discovery, ClusterError> {
        self.kinds().discover(self.api_server()).await
    }

    async fn version(&self) -> Result<Option<String>, ClusterError> {
        discovery::fetch_release(self.api_server()).await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        let target = self.find_target(gvk, namespace, name).await?;
        match namespace {
            "" => self.shared.reads.run(target.path(), self.read_object(&target)).await,
            _ => self.read_object(&target).await,
        }
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        self.list_scope(scope).await
    }

    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        self.find_live(query).await
    }

    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError> {
        self.review_rights(rights).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
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
        self.put_object_status(object, operation).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<DeleteResult, ClusterError> {
        self.delete_object(&request).await
    }

    async fn remove_finalizer(&self, request: FinalizerRemoval) -> Result<(), ClusterError> {
        self.delete_finalizer(&request).await
    }

    async fn start_job(&self, request: JobStart) -> Result<Object, ClusterError> {
        self.start_suspended_job(&request).await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        self.watch_scope(scope, resource_version).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.list_pods_of(owner).await
    }

    async fn events(&self, object: &Object) -> Result<Vec<Object>, ClusterError> {
        self.list_events_about(object).await
    }

    async fn logs(&self, container: &Container, limit_bytes: usize) -> Result<String, ClusterError> {
        self.read_log_tail(container, limit_bytes).await
    }

    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError> {
        self.follow_container_logs(container, from).await
    }

    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError> {
        if self.api_server().transport().connections().is_impersonated() {
            let text = format!(
                "cannot write as {user}: this process already impersonates a user (--as, or `as` in the \
                 kubeconfig), and Kubernetes does not support nested impersonation"
            );
            return Err(ClusterError::new(ErrorKind::Unsupported, text));
        }
        Ok(Arc::new(Self { user: Some(user.into()), ..self.clone() }))
    }

    fn backpressure(&self) -> Option<Backpressure> {
        self.api_server().backpressure()
    }
}
