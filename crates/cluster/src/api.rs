use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tidegate_model::{
    Discovery, GroupKind, Gvk, LiveObject, Object, ObjectKey, OperationId, Search, Timestamp, Tracking,
    annotations, format_duration,
};

use crate::{ClusterError, Container, LogStream, LogsFrom};

/// The field manager of what is put: that of the engine for an operation, else that of the service, which writes into the
/// resources that it serves. An operation that applies such a resource takes over what the engine wrote, and not that.
pub fn writer(operation: Option<OperationId>) -> &'static str {
    operation.map_or(annotations::SERVICE_MANAGER, |_| annotations::FIELD_MANAGER)
}

/// A Kubernetes cluster, as far as the engine needs one.
///
/// # Contract
///
/// 1. Every call is one attempt: no hidden retries. The operation's state machine owns them.
/// 2. Reads by [`Cluster::get`] are current; [`Cluster::list`] and [`Cluster::watch`] may be older than our last
///    write, as they are on a real API server.
/// 3. Of an object that comes from a list or from a write, which fields a manager owns (`fieldsV1`) may be JSON text
///    instead of a map.
/// 4. A call may be dropped at any await point. The write may then have happened or not.
///
/// What stands in front of a cluster is a [`Layer`](crate::Layer). No method has a body here, or one would be forgotten.
#[async_trait]
pub trait Cluster: Send + Sync + 'static {
    /// The kinds the cluster serves now.
    async fn discover(&self) -> Result<Discovery, ClusterError>;

    /// The version of Kubernetes that it says it is, as in `v1.36.1`; nothing where it says none.
    async fn version(&self) -> Result<Option<String>, ClusterError>;

    /// One object, `None` when it is not there. An unserved kind is [`ErrorKind::UnknownKind`](crate::ErrorKind).
    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError>;

    /// All objects of a scope.
    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError>;

    /// Everything a plan needs to know of the cluster: the objects the application owns, and those it names.
    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError>;

    /// Which of these rights the caller lacks, as far as the cluster can say at once. What it does not say comes out when a
    /// call is refused, so a cluster that knows no rights names none.
    async fn missing_rights(&self, rights: &BTreeSet<Right>) -> Result<BTreeSet<MissingRight>, ClusterError>;

    /// Writes a manifest in the way that the request names, or judges it without writing.
    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError>;

    /// Writes an object as it is, unless somebody has written it since it was read: creates it where it bears no
    /// resource version, else replaces that very version. [`ErrorKind::AlreadyExists`](crate::ErrorKind),
    /// [`ErrorKind::Conflict`](crate::ErrorKind) or [`ErrorKind::NotFound`](crate::ErrorKind) when somebody has. What it
    /// changes is written by the manager [`writer`].
    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError>;

    /// Writes the status of an object that was read, unless somebody has written the object since. Where the kind has its
    /// status apart (a subresource), nothing else of it is written; where it has not, this is the same as
    /// [`put`](Cluster::put).
    async fn put_status(
        &self,
        object: Object,
        operation: Option<OperationId>,
    ) -> Result<Object, ClusterError>;

    /// Deletes an object. An absent object is [`ErrorKind::NotFound`](crate::ErrorKind), another UID or version than that
    /// which was asked for a [`ErrorKind::Conflict`](crate::ErrorKind).
    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError>;

    /// Removes one finalizer, guarded by the resource version; re-reads on conflict. An absent object or finalizer,
    /// or an object with another UID, counts as done.
    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError>;

    /// Changes in a scope after `resource_version`. Ends with [`ErrorKind::Gone`](crate::ErrorKind) when that version
    /// is too old: list again.
    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError>;

    /// The pods that run for a workload, through whatever stands between them; empty for kinds that run none.
    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError>;

    /// The last `limit_bytes` of what a container wrote. [`ErrorKind::Unsupported`](crate::ErrorKind) where nobody
    /// serves logs.
    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError>;

    /// What a container writes, as it writes it, for as long as it runs and the server likes; see
    /// [`follow_container`](crate::follow_container). [`ErrorKind::Unsupported`](crate::ErrorKind) where nobody serves logs.
    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError>;

    /// The same cluster, in which another user writes; what is read is read by whoever reads here. Unsupported where nobody can
    /// act as others.
    fn as_user(&self, user: &str) -> Result<Arc<dyn Cluster>, ClusterError>;

    /// What keeps calls that are under way waiting now, as far as the implementation knows.
    fn strain(&self) -> Option<Strain>;
}

/// Why calls that are under way have no answer yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strain {
    /// The cluster asks to slow down.
    AsksToWait {
        /// How long until the next call is made.
        left: Duration,
        /// By which answer to which call; not in the cluster's words, which may quote what it was sent.
        message: String,
    },
    /// The cluster was asked and says nothing.
    Silent {
        /// For how long it has said nothing.
        lasts: Duration,
        /// Which call it is: `no answer to GET /api`.
        message: String,
    },
}

impl Strain {
    /// What people are told while they wait.
    pub fn words(&self, now: Timestamp) -> String {
        match self {
            Self::AsksToWait { left, message } => {
                // Whole seconds, and the last of them is one.
                let seconds = format_duration(Duration::from_secs(left.as_secs().saturating_add(1)));
                format!(
                    "the cluster asks to slow down until {} (less than {seconds}): {message}",
                    now + *left
                )
            }
            Self::Silent { lasts, message } => {
                let lasts = format_duration(Duration::from_secs(lasts.as_secs()));
                format!("the cluster has not answered for {lasts}: {message}")
            }
        }
    }
}

/// Changes of one kind, in order. An error ends the stream.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ClusterError>>;

/// What has become of one object, as a watch tells it.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// It was added or modified, and looks like this now.
    Applied(Object),
    /// Deleted; its last state.
    Deleted(Object),
    /// Nothing changed up to this resource version.
    Bookmark(String),
}

/// Which objects a list or a watch is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// API group, version and kind of the objects.
    pub gvk: Gvk,
    /// Only those of one namespace. `None`: all there are.
    pub namespace: Option<String>,
    /// How much of each.
    pub detail: Detail,
}

impl Scope {
    /// Whole objects of a kind, in all namespaces.
    pub fn all(gvk: Gvk) -> Self {
        Self { gvk, namespace: None, detail: Detail::Full }
    }
}

/// How much of an object is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// All that the cluster has of it.
    #[default]
    Full,
    /// `apiVersion`, `kind` and `metadata`: enough to see that it is there, or gone.
    Metadata,
}

/// All objects of a scope at one resource version.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// In no order that means anything.
    pub objects: Vec<Object>,
    /// Where a watch goes on from.
    pub resource_version: String,
}

/// Something to be allowed to do with objects of a kind in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Right {
    /// `get`, `create`, `patch` …
    pub verb: &'static str,
    /// The kind that the objects have.
    pub gvk: Gvk,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// The only object that it is about; empty for all of them.
    pub name: String,
}

impl Right {
    /// Whether it is to look at objects, and not to change any.
    pub fn is_read(&self) -> bool {
        is_read(self.verb)
    }
}

fn is_read(verb: &str) -> bool {
    matches!(verb, "get" | "list" | "watch")
}

/// A right that somebody lacks, in the words of roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MissingRight {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// `configmaps`, `deployments.apps`.
    pub resource: String,
    /// `get`, `create`, `patch` …
    pub verb: &'static str,
}

impl MissingRight {
    /// Whether it is to look at objects, and not to change any.
    pub fn is_read(&self) -> bool {
        is_read(self.verb)
    }
}

/// Which live objects a plan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveQuery {
    /// Objects that belong to this application and have no owner.
    pub application: String,
    /// What says that they belong to it.
    pub tracking: Tracking,
    /// Objects of these names, tracked or not; with the kinds to ask for.
    pub named: BTreeSet<(Gvk, String, String)>,
    /// Where the application's earlier syncs put objects.
    pub inventory: BTreeSet<(Gvk, String, String)>,
    /// Where else it may own some.
    pub reach: Reach,
    /// Besides those of the places above, the namespaces that are searched where the whole cluster may not be.
    pub namespaces: BTreeSet<String>,
}

/// What a cluster has of what a plan needs to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveAnswer {
    /// The objects, in the order of their keys.
    pub objects: Vec<LiveObject>,
    /// The kinds that were not searched as far as the query reaches.
    pub unsearched: Vec<Unsearched>,
}

/// Objects of a kind that could not be looked through for those of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsearched {
    /// Group and kind of the objects.
    pub kind: GroupKind,
    /// Those in the namespaces of the query were looked through, and all others were not.
    pub is_beyond: bool,
    /// The rights that are missing; none where the cluster has failed.
    pub missing: BTreeSet<MissingRight>,
    /// The cluster's own words.
    pub message: String,
}

/// How far a plan looks for objects of its application, besides those it names and those of the inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// No further: what is elsewhere is not found.
    Places,
    /// Among all objects of the kinds that are named, or in the inventory.
    Kinds,
    /// In the whole cluster, as far as [`LiveQuery::search`] says.
    #[default]
    Everything,
}

impl LiveQuery {
    /// Which objects a search looks at, given those of the named objects that are there.
    pub fn search(&self, named: impl Iterator<Item: Borrow<Object>>) -> Search {
        self.tracking.search(&self.application, named)
    }

    /// The kinds that are searched; `None` for all there are.
    pub fn searched_kinds(&self) -> Option<BTreeSet<GroupKind>> {
        let kinds = || self.named.iter().chain(&self.inventory).map(|(gvk, _, _)| gvk.group_kind());
        match self.reach {
            Reach::Places => Some(BTreeSet::new()),
            Reach::Kinds => Some(kinds().collect()),
            Reach::Everything => None,
        }
    }

    /// The namespaces that are searched where the whole cluster may not be.
    pub fn searched_namespaces(&self) -> BTreeSet<&str> {
        let places = self.named.iter().chain(&self.inventory).map(|(_, namespace, _)| namespace.as_str());
        let others = self.namespaces.iter().map(String::as_str);
        places.chain(others).filter(|namespace| !namespace.is_empty()).collect()
    }

    /// Whether an object is the application's, and not owned by another object.
    pub fn is_root(&self, object: &Object) -> bool {
        self.tracking.is_root(&self.application, object)
    }
}

/// How a manifest is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteMode {
    /// Server-side apply with our field manager; `force` takes over fields of other managers.
    Apply {
        /// Take over conflicting fields.
        force: bool,
    },
    /// Client-side three-way apply with the last-applied annotation.
    ClientSideApply,
    /// Create it: [`ErrorKind::AlreadyExists`](crate::ErrorKind) where something is there, which stays as it is.
    Create {
        /// With the last-applied annotation, for a client-side apply later.
        client_side: bool,
    },
    /// Replace as a whole, or create when absent. `recreate` deletes what is there and creates it again, as
    /// `kubectl replace --force` does; it is a conflict while finalizers keep the old object.
    Replace {
        /// Delete and create again.
        recreate: bool,
    },
    /// Delete what is there and apply again, for a change that no write can make; a conflict while finalizers keep the
    /// old object.
    Recreate {
        /// Server-side apply rather than client-side apply.
        server_side: bool,
    },
}

/// A request to write one manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplyRequest {
    /// What is to be written, as it is sent.
    pub object: Object,
    /// How it is written, and what happens to what is there already.
    pub mode: WriteMode,
    /// Refuse fields that the kind does not have.
    pub validate: bool,
    /// Judge it without writing.
    pub dry_run: bool,
    /// Before a server-side apply, the fields that this manager wrote by client-side apply become ours, so that those
    /// no longer in the manifest go away.
    #[serde(default)]
    pub take_over: Option<String>,
    /// Only this version of the object: a [`ErrorKind::Conflict`](crate::ErrorKind) when somebody has written it since.
    /// Empty for any. A creation has none.
    #[serde(default)]
    pub resource_version: String,
    /// On whose behalf, for the cluster's audit.
    pub operation: Option<OperationId>,
}

impl ApplyRequest {
    /// A validated write of any version, on nobody's behalf.
    pub const fn new(object: Object, mode: WriteMode) -> Self {
        Self {
            object,
            mode,
            validate: true,
            dry_run: false,
            take_over: None,
            resource_version: String::new(),
            operation: None,
        }
    }
}

/// The answer to a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The object as it is now.
    pub object: Object,
    /// Whether it was created.
    pub created: bool,
    /// What happened, as kubectl says it: `deployment.apps/api serverside-applied`.
    pub message: String,
    /// What the cluster warns of, in its words.
    pub warnings: Vec<String>,
}

/// What happens to the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// They go first. The default.
    #[default]
    Foreground,
    /// They go when it has gone.
    Background,
    /// They stay, without an owner.
    Orphan,
}

/// A request to delete one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteRequest {
    /// API group, version and kind of the object.
    pub gvk: Gvk,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// Only the object with this UID.
    pub uid: String,
    /// Only this version of it; empty for any.
    #[serde(default)]
    pub resource_version: String,
    /// What happens to what it owns.
    pub propagation: Propagation,
    /// Judge it without writing.
    pub dry_run: bool,
    /// On whose behalf, for the cluster's audit.
    pub operation: Option<OperationId>,
}

impl DeleteRequest {
    /// Of an object as it was found: what it owns goes after it, on nobody's behalf.
    #[must_use]
    pub fn of(found: &Object) -> Self {
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

/// The answer to a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone.
    Gone,
    /// Deletion has begun: finalizers or dependents keep the object for now.
    Deleting,
}
