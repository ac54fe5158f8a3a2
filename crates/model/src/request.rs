use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Cascade, ClaimRequest, DeletePolicy, ObjectKey, Tracking};

/// Everything a person or a program asks of one sync, or of the deletion of an application. Recorded as the first fact of
/// the operation, so that a resumed operation goes on under the options it began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// Name of the application.
    pub application: String,
    /// Destination namespace: where namespaced objects without a namespace go.
    pub namespace: String,
    /// The cluster that is deployed to: the simulated one, or one with an API server.
    pub destination: Destination,
    /// Revision of the manifests, empty when unknown. Part of generated hook names.
    pub revision: String,
    /// Sync options of the application.
    pub options: SyncOptions,
    /// Only these resources; empty for all. A selective sync runs no hooks.
    pub selection: Vec<ResourceSelector>,
    /// What happens after a failure.
    pub retry: RetryPolicy,
    /// Longest time from start to end, across retries; its outcome is failure. `None`: no deadline.
    pub deadline: Option<Duration>,
    /// When the operation counts as done.
    pub wait: WaitFor,
    /// Fixed delay after every wave but the last (`ARGOCD_SYNC_WAVE_DELAY`). `None`: wait for evidence instead.
    pub wave_delay: Option<Duration>,
    /// Name of the person, or of what asked in their place; may be empty.
    pub initiated_by: String,
    /// Where the manifests were read: files and folders as they were given.
    pub sources: Vec<String>,
    /// Differences that do not count.
    pub ignore_differences: Vec<IgnoreDifference>,
    /// How the application's objects are told from all others.
    pub tracking: Tracking,
    /// That it holds the application's claim while it runs; `None` for an operation without one.
    pub claim: Option<ClaimRequest>,
    /// That the application is deleted: nothing is applied but the hooks of its deletion, and all it has goes.
    pub deletion: Option<Cascade>,
}

impl SyncRequest {
    /// Who asks for an operation that the policy of an application begins.
    pub const AUTOMATED: &str = "automated sync";
    /// Who asks for an operation that a progressive sync begins, as Argo CD has it.
    pub const ROLLOUT: &str = "applicationset-controller";

    /// Whether the policy of the application has begun it to put the cluster right, with the same manifests.
    pub fn is_self_heal(&self) -> bool {
        self.initiated_by == Self::AUTOMATED && !self.selection.is_empty()
    }

    /// A sync of a whole application, with nothing asked for that has a default.
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

/// Differences of some objects that do not count, as one entry of `spec.ignoreDifferences` writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IgnoreDifference {
    /// API group, may hold `*` and `?`; empty for the core API.
    #[serde(default)]
    pub group: String,
    /// Kind, may hold `*` and `?`.
    pub kind: String,
    /// Name; empty for any.
    #[serde(default)]
    pub name: String,
    /// Namespace; empty for any.
    #[serde(default)]
    pub namespace: String,
    /// Fields, as JSON pointers.
    #[serde(default)]
    pub json_pointers: Vec<String>,
    /// Fields, as jq path expressions.
    #[serde(default)]
    pub jq_path_expressions: Vec<String>,
    /// Fields that these field managers own in the cluster.
    #[serde(default)]
    pub managed_fields_managers: Vec<String>,
}

/// The cluster an operation works on, and as whom. Recorded, so that a resumed operation goes on in the same place
/// under the same rights.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Destination {
    /// The embedded simulated cluster of the state directory.
    Simulated,
    /// A cluster with an API server.
    Kubernetes {
        /// Context of the kubeconfig; empty where there is none, as in a pod.
        context: String,
        /// URL of the API server: what says whether two contexts are one cluster.
        server: String,
        /// The kubeconfig, where one was named on the command line.
        kubeconfig: Option<String>,
        /// On whose behalf; empty for the user of the context.
        impersonate: Impersonation,
        /// UID of the cluster's `kube-system` namespace, which tells a cluster from another one at the same URL; empty
        /// where it could not be read.
        uid: String,
    },
}

impl Destination {
    /// Whether operations of both work on the same cluster, whatever the ways there are called.
    pub fn is_same_cluster(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Simulated, Self::Simulated) => true,
            (Self::Kubernetes { server, .. }, Self::Kubernetes { server: others, .. }) => {
                server.trim_end_matches('/') == others.trim_end_matches('/') && !self.is_replaced(other)
            }
            _ => false,
        }
    }

    /// Whether both are known to be different clusters, whatever their URLs are: one came in the place of the other.
    pub fn is_replaced(&self, other: &Self) -> bool {
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

/// On whose behalf requests are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Impersonation {
    /// User; empty for none.
    pub user: String,
    /// Groups of the user.
    pub groups: Vec<String>,
}

/// When an operation counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WaitFor {
    /// When everything is applied and every wave but the last is healthy; hooks always complete. As Argo CD does it.
    #[default]
    Synced,
    /// When the last wave is healthy as well.
    Healthy,
}

/// Sync options of the application (spec: sync options).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncOptions {
    /// Objects that are no longer in the manifests are deleted.
    pub prune: bool,
    /// Nothing is written; every task is tried on the server.
    pub dry_run: bool,
    /// Delete and create again where an update is impossible.
    pub force: bool,
    /// Hooks do not run (`syncStrategy: apply`).
    pub skip_hooks: bool,
    /// The dry run before the first wave is left out.
    pub skip_dry_run: bool,
    /// Options as Argo CD writes them: `PruneLast=true`, `CreateNamespace=true` … Compared as whole texts.
    pub flags: Vec<String>,
    /// `managedNamespaceMetadata.labels`.
    pub namespace_labels: Vec<(String, String)>,
    /// `managedNamespaceMetadata.annotations`.
    pub namespace_annotations: Vec<(String, String)>,
    /// A person has already approved prunes that need confirmation.
    pub prune_confirmed: bool,
    /// Objects that bear the application's mark where nothing proves that they are its own are taken in, and pruned like
    /// any other.
    pub adopt: bool,
}

impl SyncOptions {
    /// Whether an option is given, compared as a whole text, as Argo CD does.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|given| given == flag)
    }
}

/// What happens after a failed attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// How many retries; negative for no limit.
    pub limit: i64,
    /// How long to wait before each.
    pub backoff: Backoff,
    /// Start again from the first wave instead of the failed one.
    pub restart: bool,
}

/// Growing waits between retries: `duration × factor^n`, at most `max`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// Wait before the first retry.
    pub duration: Duration,
    /// How many times as long each wait is as the one before; at least 1.
    pub factor: u32,
    /// Longest wait; zero for no limit.
    pub max: Duration,
}

impl Default for Backoff {
    /// 5 s, doubled each time, at most 3 min.
    fn default() -> Self {
        Self { duration: Duration::from_secs(5), factor: 2, max: Duration::from_secs(180) }
    }
}

impl Backoff {
    /// The wait before retry `n`, counted from 0.
    pub fn wait(&self, n: u32) -> Duration {
        let wait = self.duration.saturating_mul(self.factor.max(1).saturating_pow(n));
        if self.max.is_zero() { wait } else { wait.min(self.max) }
    }
}

/// Names one resource of a selective sync.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceSelector {
    /// API group, empty for the core API.
    pub group: String,
    /// `kind` of the resource.
    pub kind: String,
    /// Namespace; empty matches any.
    pub namespace: String,
    /// `metadata.name` of the resource.
    pub name: String,
}

impl ResourceSelector {
    /// Whether the selector names this object.
    pub fn matches(&self, key: &ObjectKey) -> bool {
        self.group == key.group
            && self.kind == key.kind
            && self.name == key.name
            && (self.namespace.is_empty() || self.namespace == key.namespace)
    }
}

/// A text that is not a resource selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} does not name a resource; write GROUP:KIND:NAMESPACE/NAME or GROUP:KIND:NAME, with an empty GROUP for core kinds"
)]
pub struct InvalidSelector {
    text: String,
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
    /// All policies with their Argo CD and Helm words.
    pub const WORDS: [(Self, &'static str, &'static str); 3] = [
        (Self::BeforeHookCreation, "BeforeHookCreation", "before-hook-creation"),
        (Self::HookSucceeded, "HookSucceeded", "hook-succeeded"),
        (Self::HookFailed, "HookFailed", "hook-failed"),
    ];
}
