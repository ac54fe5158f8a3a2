//! What the project of an operation permits: asked before each write, and not only when the operation begins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_cluster::{Call, Cluster, ClusterError, Effect, ErrorKind, Layer};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{Digest, GroupKind, Mandate, ObjectKey};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::effects::call_error;
use crate::log::Log;
use crate::manifests;

/// How long it is believed which kinds live in namespaces.
const BELIEVED_FOR: Duration = Duration::from_secs(60);
/// A kind that is not served is not asked for again sooner.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// What is defined by this kind may live in namespaces, or not.
const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// Whoever knows what projects permit now.
pub trait Permits: Send + Sync + 'static {
    /// Whether an operation may write an object, which includes to delete it and to try a write. Where it is not known whether
    /// its kind lives in namespaces, it must be permitted in both cases. The words of the error name the project and the rule.
    fn permit(
        &self,
        mandate: &Mandate,
        object: &ObjectKey,
        namespaced: Option<bool>,
    ) -> Result<(), ClusterError>;
}

/// Where nobody knows projects, operations go on that were begun when nothing was forbidden.
struct Nobody;

impl Permits for Nobody {
    fn permit(&self, mandate: &Mandate, _: &ObjectKey, _: Option<bool>) -> Result<(), ClusterError> {
        if mandate.is_implicit {
            return Ok(());
        }
        let words = format!(
            "the operation is of project '{}', whose rules this process does not know; `tidegate serve` goes on with it",
            mandate.project
        );
        Err(ClusterError::new(ErrorKind::Forbidden, words))
    }
}

/// Which kinds of a cluster live in namespaces, as it said not long ago.
#[derive(Default)]
pub(crate) struct Scopes(Mutex<Option<(Instant, BTreeMap<GroupKind, bool>)>>);

impl Scopes {
    fn known(&self, kind: &GroupKind) -> Option<Option<bool>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, kinds) = known.as_ref()?;
        match (kinds.get(kind), at.elapsed()) {
            (Some(namespaced), age) if age < BELIEVED_FOR => Some(Some(*namespaced)),
            (None, age) if age < ASKED_AGAIN_AFTER => Some(None),
            _ => None,
        }
    }

    fn set(&self, known: Option<(Instant, BTreeMap<GroupKind, bool>)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = known;
    }

    /// Whether a kind lives in namespaces; `None` for one that is not served.
    async fn namespaced(
        &self,
        cluster: &dyn Cluster,
        kind: &GroupKind,
    ) -> Result<Option<bool>, ClusterError> {
        if let Some(known) = self.known(kind) {
            return Ok(known);
        }
        let asked = Instant::now();
        let found = cluster.discover().await?;
        let kinds: BTreeMap<GroupKind, bool> =
            found.kinds.into_iter().map(|(kind, info)| (kind, info.namespaced)).collect();
        let namespaced = kinds.get(kind).copied();
        self.set(Some((asked, kinds)));
        Ok(namespaced)
    }
}

/// What stands between an operation and its cluster.
pub(crate) struct Guard {
    pub log: Log,
    /// Where it is kept what the operation was begun for.
    pub targets: Digest,
    /// What it was begun for, once that was read; nothing for one that a person began without a project.
    pub mandate: Arc<OnceCell<Option<Arc<Mandate>>>>,
    pub permits: Option<Arc<dyn Permits>>,
    pub scopes: Arc<Scopes>,
}

impl Guard {
    /// The cluster, as the operation may use it.
    pub async fn before(self, cluster: Arc<dyn Cluster>) -> Result<Arc<dyn Cluster>, CallError> {
        let read =
            || async { Ok::<_, CallError>(manifests::mandate(&self.log, self.targets).await?.map(Arc::new)) };
        let Some(mandate) = self.mandate.get_or_try_init(read).await?.clone() else { return Ok(cluster) };
        let cluster = match mandate.user.as_str() {
            "" => cluster,
            user => cluster.as_user(user).map_err(|error| call_error(&error))?,
        };
        let permits = self.permits.unwrap_or_else(|| Arc::new(Nobody));
        Ok(Arc::new(Permitted { cluster, permits, mandate, scopes: self.scopes }))
    }
}

/// A cluster that takes only what the project of an operation permits.
struct Permitted {
    cluster: Arc<dyn Cluster>,
    permits: Arc<dyn Permits>,
    mandate: Arc<Mandate>,
    scopes: Arc<Scopes>,
}

impl Permitted {
    async fn check(&self, object: &ObjectKey) -> Result<(), ClusterError> {
        let permit = |namespaced| self.permits.permit(&self.mandate, object, namespaced);
        // What is permitted either way needs no look at the cluster.
        let Err(refusal) = permit(None) else { return Ok(()) };
        let kind = object.group_kind();
        match self.scopes.namespaced(self.cluster.as_ref(), &kind).await? {
            Some(namespaced) => permit(Some(namespaced)),
            None if refusal.kind != ErrorKind::Forbidden => Err(refusal),
            None => {
                let words = format!(
                    "{}; the cluster does not serve {} now, so it is not known whether that lives in namespaces",
                    refusal.message, kind.kind
                );
                Err(ClusterError::new(ErrorKind::UnknownKind, words))
            }
        }
    }
}

impl Layer for Permitted {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn around<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        let Some(object) = call.object.filter(|_| call.effect != Effect::Read) else { return answer.await };
        self.check(&object).await?;
        let answer = answer.await;
        if (object.group.as_str(), object.kind.as_str()) == DEFINITION && call.effect == Effect::Write {
            self.scopes.set(None);
        }
        answer
    }
}
