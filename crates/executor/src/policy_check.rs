//! Enforcement of an operation's project policy, before each write and not only at the start.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{Call, Cluster, ClusterError, Effect, ErrorKind, Layer, PendingCall};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Digest, GroupKind, ObjectKey, ProjectPolicy};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::effects::call_error;
use crate::log::Log;
use crate::manifests;

/// Maximum age of the cached scopes of kinds.
const SCOPE_CACHE_TIME: Duration = Duration::from_secs(60);
/// Minimum time between lookups of an unknown kind's scope.
const SCOPE_LOOKUP_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Kind that defines the scopes of other kinds.
const CRD_KIND: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Check of operations against the current project policies.
pub trait PolicyCheck: Send + Sync + 'static {
    /// Returns an error if an operation may not write, delete or dry-run an object. If the scope of its kind
    /// is unknown, both scopes must be permitted. The error message contains the project and the violated
    /// rule.
    fn check_write(
        &self,
        policy: &ProjectPolicy,
        object: &ObjectKey,
        namespaced: Option<bool>,
    ) -> Result<(), ClusterError>;
}

/// Policy check for an engine without projects: only operations without restrictions may write.
struct NoProjects;

impl PolicyCheck for NoProjects {
    fn check_write(
        &self,
        policy: &ProjectPolicy,
        _: &ObjectKey,
        _: Option<bool>,
    ) -> Result<(), ClusterError> {
        if policy.is_implicit {
            return Ok(());
        }
        let text = format!(
            "the operation belongs to project '{}', but this process does not have that project's policy; \
             continue the operation with `tidegate serve`",
            policy.project
        );
        Err(ClusterError::new(ErrorKind::Forbidden, text))
    }
}

/// Cached scopes of a cluster's kinds.
#[derive(Default)]
pub(crate) struct ScopeCache(Mutex<Option<KnownScopes>>);

struct KnownScopes {
    read_at: Instant,
    /// True for namespaced kinds.
    kinds: BTreeMap<GroupKind, bool>,
}

impl ScopeCache {
    fn get(&self, kind: &GroupKind) -> Option<Option<bool>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.as_ref()?;
        match (known.kinds.get(kind), known.read_at.elapsed()) {
            (Some(namespaced), age) if age < SCOPE_CACHE_TIME => Some(Some(*namespaced)),
            (None, age) if age < SCOPE_LOOKUP_INTERVAL_MIN => Some(None),
            _ => None,
        }
    }

    fn set(&self, known: Option<KnownScopes>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Returns true if a kind is namespaced, or `None` if the cluster doesn't serve it.
    async fn is_namespaced(
        &self,
        cluster: &dyn Cluster,
        kind: &GroupKind,
    ) -> Result<Option<bool>, ClusterError> {
        if let Some(known) = self.get(kind) {
            return Ok(known);
        }
        let read_at = Instant::now();
        let found = cluster.discover().await?;
        let kinds: BTreeMap<GroupKind, bool> =
            found.kinds.into_iter().map(|(kind, info)| (kind, info.namespaced)).collect();
        let namespaced = kinds.get(kind).copied();
        self.set(Some(KnownScopes { read_at, kinds }));
        Ok(namespaced)
    }
}

/// Inputs for checking the writes of an operation against its project policy.
pub(crate) struct PolicyGuard {
    pub log: Log,
    /// Digest of the manifests, which the project policy is stored with.
    pub targets: Digest,
    /// Project policy, once read. `None` for an operation that a user started without a project.
    pub policy: Arc<OnceCell<Option<Arc<ProjectPolicy>>>>,
    pub policy_check: Option<Arc<dyn PolicyCheck>>,
    pub scopes: Arc<ScopeCache>,
}

impl PolicyGuard {
    /// Restricts the cluster to what the operation's policy permits.
    pub async fn restrict(self, cluster: Arc<dyn Cluster>) -> Result<Arc<dyn Cluster>, CallError> {
        let read = || async {
            Ok::<_, CallError>(manifests::read_policy(&self.log, self.targets).await?.map(Arc::new))
        };
        let Some(policy) = self.policy.get_or_try_init(read).await?.clone() else { return Ok(cluster) };
        let cluster = match policy.user.as_str() {
            "" => cluster,
            user => cluster.as_user(user).map_err(|error| call_error(&error))?,
        };
        let policy_check = self.policy_check.unwrap_or_else(|| Arc::new(NoProjects));
        Ok(Arc::new(RestrictedCluster { cluster, policy_check, policy, scopes: self.scopes }))
    }
}

/// A cluster that accepts only the writes permitted by the operation's project.
struct RestrictedCluster {
    cluster: Arc<dyn Cluster>,
    policy_check: Arc<dyn PolicyCheck>,
    policy: Arc<ProjectPolicy>,
    scopes: Arc<ScopeCache>,
}

impl RestrictedCluster {
    async fn check(&self, object: &ObjectKey) -> Result<(), ClusterError> {
        let permit = |namespaced| self.policy_check.check_write(&self.policy, object, namespaced);
        // Check without discovery first. If both scopes are permitted, the kind's scope doesn't matter.
        let Err(refusal) = permit(None) else { return Ok(()) };
        let kind = object.group_kind();
        match self.scopes.is_namespaced(self.cluster.as_ref(), &kind).await? {
            Some(namespaced) => permit(Some(namespaced)),
            None if refusal.kind != ErrorKind::Forbidden => Err(refusal),
            None => {
                let text = format!(
                    "{}; the cluster does not currently serve kind {}, so Tidegate cannot determine whether the \
                     kind is namespaced",
                    refusal.message, kind.kind
                );
                Err(ClusterError::new(ErrorKind::UnknownKind, text))
            }
        }
    }
}

impl Layer for RestrictedCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(&self, call: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        let Some(object) = call.object.filter(|_| call.effect != Effect::Read) else { return answer.await };
        self.check(&object).await?;
        let answer = answer.await;
        if (object.group.as_str(), object.kind.as_str()) == CRD_KIND && call.effect == Effect::Write {
            self.scopes.set(None);
        }
        answer
    }
}
