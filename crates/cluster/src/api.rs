use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tidegate_model::{
    Discovery, GroupKind, Gvk, LiveObject, Object, ObjectKey, OperationId, Timestamp, Tracking,
    TrackingSelector, annotations, format_duration,
};

use crate::{ClusterError, Container, LogStart, LogStream};

/// Returns the field manager for a write: the engine's within an operation, otherwise the service's. An
/// operation that later applies a resource managed by the service takes over the engine manager's fields, but
/// not the service manager's.
pub fn field_manager(operation: Option<OperationId>) -> &'static str {
    operation.map_or(annotations::SERVICE_MANAGER, |_| annotations::FIELD_MANAGER)
}

/// A Kubernetes cluster, reduced to the calls that the engine needs.
///
/// # Contract
///
/// 1. Every call is a single attempt, without hidden retries. Retrying is up to the operation's state
///    machine.
/// 2. Reads with [`Cluster::get`] are current. [`Cluster::list`] and [`Cluster::watch`] may lag behind this
///    client's last write, as on a real API server.
/// 3. In objects returned by a list or a write, a manager's `fieldsV1` may be JSON text instead of a map.
/// 4. A call may be dropped at any await point. A dropped write may or may not have happened.
///
/// To wrap a cluster, implement [`Layer`](crate::Layer). The methods of this trait don't have default bodies,
/// so the compiler rejects a wrapper that doesn't forward all of them.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// Returns the kinds that the cluster serves.
    async fn discover(&self) -> Result<Discovery, ClusterError>;

    /// Returns the Kubernetes version reported by the cluster, if any, such as `v1.36.1`.
    async fn version(&self) -> Result<Option<String>, ClusterError>;

    /// Returns an object, or `None` if it does not exist. Fails with
    /// [`ErrorKind::UnknownKind`](crate::ErrorKind) if the cluster does not serve the kind.
    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError>;

    /// Lists all objects in a scope.
    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError>;

    /// Returns the live state that a plan needs: the application's objects, and those that the query lists by
    /// name.
    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError>;

    /// Returns the permissions that the caller lacks, as far as the cluster can tell in advance. Others only
    /// show up when a call is refused. A cluster without access control returns an empty set.
    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError>;

    /// Writes a manifest in the requested mode, or performs a dry run.
    async fn apply(&self, request: ApplyRequest) -> Result<ApplyResult, ClusterError>;

    /// Writes an object exactly as given, unless another client has written it since it was read: creates it
    /// if it has no resource version, and otherwise replaces exactly that version. After a concurrent write,
    /// fails with [`ErrorKind::AlreadyExists`](crate::ErrorKind), [`ErrorKind::Conflict`](crate::ErrorKind)
    /// or [`ErrorKind::NotFound`](crate::ErrorKind). The changes are attributed to the [`field_manager`].
    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError>;

    /// Writes an object's status, unless the object has changed since it was read. Equivalent to
    /// [`put`](Cluster::put) for kinds without a status subresource.
    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError>;

    /// Deletes an object. Fails with [`ErrorKind::NotFound`](crate::ErrorKind) if the object does not exist,
    /// and with [`ErrorKind::Conflict`](crate::ErrorKind) if its UID or version differs from the requested
    /// one.
    async fn delete(&self, request: DeleteRequest) -> Result<DeleteResult, ClusterError>;

    /// Removes a finalizer, with the resource version as a precondition; reads the object again and retries
    /// on a conflict. Succeeds if the object or the finalizer is gone, or if the UID differs.
    async fn remove_finalizer(&self, request: FinalizerRemoval) -> Result<(), ClusterError>;

    /// Starts a Job that was created suspended, and returns it. Starting a running Job has no effect. If no
    /// Job has this UID, fails with [`ErrorKind::NotFound`](crate::ErrorKind), even if another Job has its
    /// name.
    async fn start_job(&self, request: JobStart) -> Result<Object, ClusterError>;

    /// Watches a scope for changes after `resource_version`. Ends with [`ErrorKind::Gone`](crate::ErrorKind)
    /// if that version is too old; the caller must then list again.
    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError>;

    /// Returns the pods of a workload, including those owned through intermediate objects. Empty for kinds
    /// without pods.
    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError>;

    /// Returns the stored events about an object, in no particular order. Empty if it has no UID.
    async fn events(&self, object: &Object) -> Result<Vec<Object>, ClusterError>;

    /// Returns at most the last `limit_bytes` of a container's log. Fails with
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) if the cluster does not serve logs.
    async fn logs(&self, container: &Container, limit_bytes: usize) -> Result<String, ClusterError>;

    /// Streams a container's log until the container or the server ends the stream; see
    /// [`follow_container`](crate::follow_container). Fails with [`ErrorKind::Unsupported`](crate::ErrorKind)
    /// if the cluster does not serve logs.
    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError>;

    /// Returns the same cluster with writes impersonating `user`. Reads keep the current identity. Fails if
    /// impersonation isn't supported.
    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError>;

    /// Returns the reason why calls are delayed, if known.
    fn backpressure(&self) -> Option<Backpressure>;
}

/// Reason why calls in flight are delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backpressure {
    /// The cluster has asked the client to slow down.
    RateLimited {
        /// Time until the next call.
        remaining: Duration,
        /// Status code of the response that requested the delay, and the call that received it. The cluster's
        /// own message is omitted because it may quote the request.
        message: String,
    },
    /// The cluster has not responded.
    Unresponsive {
        /// Time since the request was sent.
        elapsed: Duration,
        /// Description of the unanswered call, such as `no response to GET /api`.
        message: String,
    },
}

impl Backpressure {
    /// Returns the message to display to users while they wait.
    pub fn describe(&self, now: Timestamp) -> String {
        match self {
            Self::RateLimited { remaining, message } => {
                // Round up, so that the last second is shown as 1.
                let seconds = format_duration(Duration::from_secs(remaining.as_secs().saturating_add(1)));
                format!(
                    "the cluster is rate limiting requests until {} (in less than {seconds}): {message}",
                    now + *remaining
                )
            }
            Self::Unresponsive { elapsed, message } => {
                let lasts = format_duration(Duration::from_secs(elapsed.as_secs()));
                format!("the cluster has not responded for {lasts}: {message}")
            }
        }
    }
}

/// Changes to objects of one kind, in order. The stream ends after an error.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ClusterError>>;

/// Event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// An object was added or modified. Contains its new state.
    Applied(Object),
    /// An object was deleted. Contains its last state.
    Deleted(Object),
    /// The watch has delivered all changes up to this resource version.
    Bookmark(String),
}

/// Set of objects covered by a list or a watch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// API group, version and kind of the objects.
    pub gvk: Gvk,
    /// Namespace of the objects, or `None` for all namespaces.
    pub namespace: Option<String>,
    /// Level of detail of each object.
    pub detail: Detail,
}

impl Scope {
    /// Creates a scope that covers all objects of a kind, in all namespaces and in full detail.
    pub fn complete_objects(gvk: Gvk) -> Self {
        Self { gvk, namespace: None, detail: Detail::Full }
    }
}

/// Level of detail of returned objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// The whole object.
    #[default]
    Full,
    /// Only `apiVersion`, `kind` and `metadata`, which is enough to detect whether an object exists or is
    /// being deleted.
    Metadata,
}

/// All objects in a scope, at one resource version.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The objects, in no particular order.
    pub objects: Vec<Object>,
    /// Resource version from which to start a watch.
    pub resource_version: String,
}

/// Permission to perform a verb on objects of a kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// The verb, such as `get`, `create` or `patch`.
    pub verb: &'static str,
    /// Kind of the objects.
    pub gvk: Gvk,
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the only object that the permission covers. Empty if it covers all objects.
    pub name: String,
}

impl Right {
    /// Returns true if the verb doesn't change anything.
    pub fn is_read(&self) -> bool {
        is_read(self.verb)
    }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch")
}

/// A missing permission, in RBAC terms.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MissingRight {
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// Resource in RBAC notation, such as `configmaps` or `deployments.apps`.
    pub resource: String,
    /// The verb, such as `get`, `create` or `patch`.
    pub verb: &'static str,
}

impl MissingRight {
    /// Returns true if the verb doesn't change anything.
    pub fn is_read(&self) -> bool {
        is_read(self.verb)
    }
}

/// Query for the live objects that a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveQuery {
    /// Name of the application. The query covers the application's objects without an owner.
    pub application: String,
    /// Tracking method for the application's objects.
    pub tracking: Tracking,
    /// Objects to read by name, tracked or not. Each entry includes the kind to request.
    pub named: BTreeSet<(Gvk, String, String)>,
    /// Locations of objects from the application's earlier syncs.
    pub inventory: BTreeSet<(Gvk, String, String)>,
    /// Extent of the search for additional objects.
    pub search_scope: SearchScope,
    /// Additional namespaces to search if the caller cannot list objects across the whole cluster.
    pub namespaces: BTreeSet<String>,
}

/// Result of a [`LiveQuery`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveResult {
    /// The objects, sorted by key.
    pub objects: Vec<LiveObject>,
    /// Kinds that were only partly searched.
    pub incomplete_searches: Vec<IncompleteSearch>,
}

/// A kind that could not be searched completely for an application's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteSearch {
    /// Group and kind of the objects.
    pub kind: GroupKind,
    /// True if the query's namespaces were searched instead of the whole cluster.
    pub has_searched_namespaces: bool,
    /// Missing permissions. Empty if the search failed for another reason.
    pub missing_rights: BTreeSet<MissingRight>,
    /// Error message from the cluster.
    pub message: String,
}

/// Extent of the search for an application's objects, beyond the named objects and the inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchScope {
    /// No search: only named objects and the inventory are read.
    KnownObjects,
    /// All objects of the kinds that occur among the named objects or in the inventory.
    KnownKinds,
    /// The whole cluster, or [`LiveQuery::searched_namespaces`] if the caller cannot list objects across the
    /// whole cluster.
    #[default]
    WholeCluster,
}

impl LiveQuery {
    /// Returns the selector for the application's objects. `named` contains the named objects that exist.
    pub fn tracking_selector(&self, named: impl Iterator<Item: Borrow<Object>>) -> TrackingSelector {
        self.tracking.search_selector(&self.application, named)
    }

    /// Returns the kinds to search, or `None` to search all kinds.
    pub fn searched_kinds(&self) -> Option<BTreeSet<GroupKind>> {
        let kinds = || self.named.iter().chain(&self.inventory).map(|(gvk, _, _)| gvk.group_kind());
        match self.search_scope {
            SearchScope::KnownObjects => Some(BTreeSet::new()),
            SearchScope::KnownKinds => Some(kinds().collect()),
            SearchScope::WholeCluster => None,
        }
    }

    /// Returns the namespaces to search if the caller cannot list objects across the whole cluster.
    pub fn searched_namespaces(&self) -> BTreeSet<&str> {
        let places = self.named.iter().chain(&self.inventory).map(|(_, namespace, _)| namespace.as_str());
        let others = self.namespaces.iter().map(String::as_str);
        places.chain(others).filter(|namespace| !namespace.is_empty()).collect()
    }

    /// Returns true if an object belongs to the application and has no owner.
    pub fn is_root(&self, object: &Object) -> bool {
        self.tracking.can_prune(&self.application, object)
    }
}

/// Method of writing a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Server-side apply with this client's field manager.
    Apply {
        /// True to take over conflicting fields from other managers.
        force: bool,
    },
    /// Client-side three-way apply with the last-applied annotation.
    ClientSideApply,
    /// Creates the object. If the object exists, leaves it unchanged and fails with
    /// [`ErrorKind::AlreadyExists`](crate::ErrorKind).
    Create {
        /// True to add the last-applied annotation, so that the object can later be applied on the client
        /// side.
        client_side: bool,
    },
    /// Replaces the whole object, or creates it if it doesn't exist. With `recreate`, deletes the object and
    /// creates it again, like `kubectl replace --force`. While finalizers keep the old object, the write
    /// fails with a conflict.
    Replace {
        /// True to delete the object and create it again.
        recreate: bool,
    },
    /// Deletes the object and applies it again, for changes that an update cannot make. While finalizers keep
    /// the old object, the write fails with a conflict.
    Recreate {
        /// True to apply on the server side, false to apply on the client side.
        server_side: bool,
    },
}

/// A request to write one manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplyRequest {
    /// The manifest to send.
    pub object: Object,
    /// Mode of the write.
    pub mode: WriteMode,
    /// True to reject fields that the kind does not have.
    pub validate: bool,
    /// True to validate the request without writing.
    pub dry_run: bool,
    /// Managers whose fields are taken over before a server-side apply, so that fields dropped from the
    /// manifest are removed.
    #[serde(default, with = "tidegate_model::field_handover::managers")]
    pub take_over: Vec<String>,
    /// Expected version of the object. If the object has been written since, the write fails with
    /// [`ErrorKind::Conflict`](crate::ErrorKind). Empty to accept any version, and for creations.
    #[serde(default)]
    pub resource_version: String,
    /// Operation that requested the write, for the cluster's audit log.
    pub operation: Option<OperationId>,
}

impl ApplyRequest {
    /// Creates a request for a validated write that accepts any version and has no operation.
    pub const fn new(object: Object, mode: WriteMode) -> Self {
        Self {
            object,
            mode,
            validate: true,
            dry_run: false,
            take_over: Vec::new(),
            resource_version: String::new(),
            operation: None,
        }
    }
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyResult {
    /// The object as returned by the write.
    pub object: Object,
    /// True if the object was created.
    pub is_created: bool,
    /// Result in kubectl's format, such as `deployment.apps/api serverside-applied`.
    pub message: String,
    /// Warnings from the cluster, verbatim.
    pub warnings: Vec<String>,
}

/// Handling of a deleted object's dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// Deletes the dependents before the object. The default.
    #[default]
    Foreground,
    /// Deletes the dependents after the object.
    Background,
    /// Keeps the dependents and removes their owner references to the object.
    Orphan,
}

/// A request to delete one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRequest {
    /// API group, version and kind of the object.
    pub gvk: Gvk,
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// Expected UID of the object.
    pub uid: String,
    /// Expected version of the object. Empty to accept any version.
    #[serde(default)]
    pub resource_version: String,
    /// Handling of the object's dependents.
    pub propagation: Propagation,
    /// True to validate the request without deleting.
    pub dry_run: bool,
    /// Operation that requested the deletion, for the cluster's audit log.
    pub operation: Option<OperationId>,
}

impl DeleteRequest {
    /// Creates a request to delete exactly the version that was read, with background propagation and no
    /// operation.
    #[must_use]
    pub fn for_object(found: &Object) -> Self {
        Self {
            gvk: found.gvk(),
            namespace: found.namespace().to_owned(),
            name: found.name().to_owned(),
            uid: found.uid().to_owned(),
            resource_version: String::new(),
            propagation: Propagation::Background,
            dry_run: false,
            operation: None,
        }
    }
}

/// A request to remove one finalizer from an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizerRemoval {
    /// API group, version and kind of the object.
    pub gvk: Gvk,
    /// Namespace. Empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// Expected UID of the object. Empty to accept any UID.
    pub uid: String,
    /// The finalizer.
    pub finalizer: String,
    /// Operation that requested the removal, for the cluster's audit log.
    pub operation: Option<OperationId>,
}

/// A request to start a suspended Job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStart {
    /// API version of the Job. Its kind is `Job` of the group `batch`.
    pub gvk: Gvk,
    /// `metadata.namespace` of the Job.
    pub namespace: String,
    /// `metadata.name` of the Job.
    pub name: String,
    /// `metadata.uid` of the Job.
    pub uid: String,
    /// Operation that requested the start, for the cluster's audit log.
    pub operation: Option<OperationId>,
}

impl JobStart {
    /// Returns the identity of the Job.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }
}

impl FinalizerRemoval {
    /// Creates a request for exactly the object that was read, without an operation.
    #[must_use]
    pub fn for_object(found: &Object, finalizer: &str) -> Self {
        Self {
            gvk: found.gvk(),
            namespace: found.namespace().to_owned(),
            name: found.name().to_owned(),
            uid: found.uid().to_owned(),
            finalizer: finalizer.to_owned(),
            operation: None,
        }
    }

    /// Returns the identity of the object.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteResult {
    /// The object no longer exists.
    Gone,
    /// The deletion has started, but finalizers or dependents are keeping the object.
    Deleting,
}
