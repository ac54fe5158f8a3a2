use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Cascade, ClaimRequest, DeletePolicy, ObjectKey, Tracking, canonical_server};

/// Settings of a sync or application deletion. The operation's first event records them, so a resumed
/// operation keeps its original options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// Name of the application.
    pub application: String,
    /// Destination namespace for namespaced objects that don't set their own.
    pub namespace: String,
    /// Target cluster: the simulated one, or a cluster with an API server.
    pub destination: Destination,
    /// Revision of the manifests, part of generated hook names. Empty if unknown.
    pub revision: String,
    /// Sync options of the application.
    pub options: SyncOptions,
    /// Resources to sync. Empty for all. A selective sync doesn't run hooks.
    pub selection: Vec<ResourceSelector>,
    /// Retry policy after a failure.
    pub retry: RetryPolicy,
    /// Maximum total time, including retries, after which the operation fails. `None` means no deadline.
    pub deadline: Option<Duration>,
    /// Condition for completing the operation.
    pub wait: WaitFor,
    /// Fixed delay after every wave except the last (`ARGOCD_SYNC_WAVE_DELAY`). With `None`, the operation
    /// waits for evidence of health instead.
    pub wave_delay: Option<Duration>,
    /// User or component that requested the operation. May be empty.
    pub initiated_by: String,
    /// Origins of the manifests: files and folders as given by the user.
    pub sources: Vec<String>,
    /// Differences to ignore.
    pub ignore_differences: Vec<IgnoreDifference>,
    /// Tracking settings for the application's objects.
    pub tracking: Tracking,
    /// Claim that the operation holds while it runs, if any.
    pub claim: Option<ClaimRequest>,
    /// Cascade of a deletion. If set, the operation applies only the deletion hooks and deletes all objects.
    pub deletion: Option<Cascade>,
}

impl SyncRequest {
    /// Requester of operations started by an application's sync policy.
    pub const AUTOMATED_REQUESTER: &str = "automated sync";
    /// Requester of operations started by a progressive sync, as in Argo CD.
    pub const ROLLOUT_REQUESTER: &str = "applicationset-controller";

    /// Returns true if the operation is a self-heal: the sync policy started it although the manifests are
    /// unchanged.
    pub fn is_self_heal(&self) -> bool {
        self.initiated_by == Self::AUTOMATED_REQUESTER && !self.selection.is_empty()
    }

    /// Creates a request to sync a whole application with default settings.
    pub fn new(
        application: impl Into<String>,
        namespace: impl Into<String>,
        destination: Destination,
    ) -> Self {
        Self {
            application: application.into(),
            namespace: namespace.into(),
            destination,
            revision: String::new(),
            options: SyncOptions::default(),
            selection: Vec::new(),
            retry: RetryPolicy::default(),
            deadline: None,
            wait: WaitFor::default(),
            wave_delay: None,
            initiated_by: String::new(),
            sources: Vec::new(),
            ignore_differences: Vec::new(),
            tracking: Tracking::default(),
            claim: None,
            deletion: None,
        }
    }
}

/// A rule for ignoring differences in some objects: an entry of `spec.ignoreDifferences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoreDifference {
    /// API group, which may contain `*` and `?`. Empty for the core API.
    #[serde(default)]
    pub group: String,
    /// Kind, which may contain `*` and `?`.
    pub kind: String,
    /// Name of the object. Empty matches any name.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object. Empty matches any namespace.
    #[serde(default)]
    pub namespace: String,
    /// Fields to ignore, as JSON pointers.
    #[serde(default)]
    pub json_pointers: Vec<String>,
    /// Fields to ignore, as jq path expressions.
    #[serde(default)]
    pub jq_path_expressions: Vec<String>,
    /// Field managers whose fields in the cluster are ignored.
    #[serde(default)]
    pub managed_fields_managers: Vec<String>,
}

/// Target cluster of an operation, and the identity used there. Both are recorded, so a resumed operation
/// continues in the same cluster with the same permissions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// Simulated cluster embedded in the state directory.
    Simulated,
    /// Cluster with an API server.
    Kubernetes {
        /// Context in the kubeconfig. Empty without a context, as in a pod.
        context: String,
        /// URL of the API server, which identifies the cluster in any context.
        server: String,
        /// Kubeconfig file, if specified on the command line.
        kubeconfig: Option<String>,
        /// User and groups to impersonate. Empty for the context's own user.
        impersonate: Impersonation,
        /// UID of the `kube-system` namespace, which distinguishes clusters at the same URL. Empty if it
        /// can't be read.
        uid: String,
    },
}

impl Destination {
    /// Returns true if both destinations are the same cluster, even through different contexts or
    /// kubeconfigs.
    pub fn is_same_cluster(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Simulated, Self::Simulated) => true,
            (Self::Kubernetes { server, .. }, Self::Kubernetes { server: others, .. }) => {
                canonical_server(server) == canonical_server(others) && !self.is_replaced_by(other)
            }
            _ => false,
        }
    }

    /// Returns true if the two are known to be different clusters, independent of their URLs. At the same
    /// URL, one has replaced the other.
    pub fn is_replaced_by(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kubernetes { uid, .. }, Self::Kubernetes { uid: others, .. }) => {
                !uid.is_empty() && !others.is_empty() && uid != others
            }
            _ => false,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulated => f.write_str("simulated cluster"),
            Self::Kubernetes { context, server, impersonate, .. } => {
                match context.as_str() {
                    "" => write!(f, "cluster at {server}")?,
                    context => write!(f, "context {context} at {server}")?,
                }
                match impersonate.user.as_str() {
                    "" => Ok(()),
                    user => write!(f, " as {user}"),
                }
            }
        }
    }
}

/// User and groups to impersonate in requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Impersonation {
    /// User to impersonate. Empty for none.
    pub user: String,
    /// Groups of the user.
    pub groups: Vec<String>,
}

/// Condition for completing an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitFor {
    /// All objects are applied, and every wave except the last is healthy. Hooks must always complete. This
    /// is Argo CD's behavior.
    #[default]
    Synced,
    /// The last wave must be healthy too.
    Healthy,
}

/// Sync options of the application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncOptions {
    /// Deletes objects that are no longer in the manifests.
    pub prune: bool,
    /// Validates every task with a server-side dry run, without writing anything.
    pub dry_run: bool,
    /// Deletes and recreates objects that cannot be updated.
    pub force: bool,
    /// Skips hooks (`syncStrategy: apply`).
    pub skip_hooks: bool,
    /// Skips the dry run before the first wave.
    pub skip_dry_run: bool,
    /// Other options in Argo CD's notation, such as `PruneLast=true` or `CreateNamespace=true`, compared as
    /// whole strings.
    pub flags: Vec<String>,
    /// `managedNamespaceMetadata.labels`.
    pub namespace_labels: Vec<(String, String)>,
    /// `managedNamespaceMetadata.annotations`.
    pub namespace_annotations: Vec<(String, String)>,
    /// True once a user has approved the prunes that require confirmation.
    pub prune_confirmed: bool,
    /// Adopts objects that have the application's tracking mark but aren't proven to belong to it. They are
    /// then pruned like the application's other objects.
    pub adopt: bool,
}

impl SyncOptions {
    /// Returns true if a flag is set. Like Argo CD, this compares whole strings.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }
}

/// Retry policy after a failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Maximum number of retries. A negative value means no limit.
    pub limit: i64,
    /// Delays between retries.
    pub backoff: Backoff,
    /// Restarts from the first wave instead of the failed one.
    pub restart: bool,
}

/// Exponential backoff between retries: `duration × factor^n`, at most `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Delay before the first retry.
    pub duration: Duration,
    /// Factor by which the delay grows after each retry. At least 1.
    pub factor: u32,
    /// Maximum delay. Zero means no limit.
    pub max: Duration,
}

impl Default for Backoff {
    /// Starts at 5 s and doubles on each retry, up to 3 min.
    fn default() -> Self {
        Self { duration: Duration::from_secs(5), factor: 2, max: Duration::from_secs(180) }
    }
}

impl Backoff {
    /// Returns the delay before retry `n`, counting from 0.
    pub fn delay(&self, n: u32) -> Duration {
        let wait = self.duration.saturating_mul(self.factor.max(1).saturating_pow(n));
        if self.max.is_zero() { wait } else { wait.min(self.max) }
    }
}

/// Selector for one resource in a selective sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSelector {
    /// API group, empty for the core API.
    pub group: String,
    /// Kind of the resource.
    pub kind: String,
    /// Namespace. Empty matches any namespace.
    pub namespace: String,
    /// `metadata.name` of the resource.
    pub name: String,
}

impl ResourceSelector {
    /// Returns true if the selector matches the given object.
    pub fn matches(&self, key: &ObjectKey) -> bool {
        self.group == key.group
            && self.kind == key.kind
            && self.name == key.name
            && (self.namespace.is_empty() || self.namespace == key.namespace)
    }
}

/// Error returned when a string is not a valid resource selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid resource {text:?}: use GROUP:KIND:NAMESPACE/NAME or GROUP:KIND:NAME, with an empty GROUP for core kinds"
)]
pub struct InvalidSelector {
    text: String,
}

impl From<ObjectKey> for ResourceSelector {
    fn from(ObjectKey { group, kind, namespace, name }: ObjectKey) -> Self {
        Self { group, kind, namespace, name }
    }
}

/// Formats the selector as it is parsed, such as `apps:Deployment:shop/database`.
impl fmt::Display for ResourceSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, kind, namespace, name } = self;
        let slash = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{group}:{kind}:{namespace}{slash}{name}")
    }
}

impl FromStr for ResourceSelector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidSelector { text: text.to_owned() };
        let (group, rest) = text.split_once(':').ok_or_else(invalid)?;
        let (kind, object) = rest.split_once(':').ok_or_else(invalid)?;
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        if kind.is_empty() || name.is_empty() {
            return Err(invalid());
        }
        Ok(Self { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() })
    }
}

impl DeletePolicy {
    /// All deletion policies with their names in Argo CD and in Helm.
    pub const NAMES: [(Self, &'static str, &'static str); 3] = [
        (Self::BeforeHookCreation, "BeforeHookCreation", "before-hook-creation"),
        (Self::HookSucceeded, "HookSucceeded", "hook-succeeded"),
        (Self::HookFailed, "HookFailed", "hook-failed"),
    ];
}
