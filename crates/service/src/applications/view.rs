//! What a comparison asks of a cluster beside its objects: which kinds are served, and which namespaces go. Both are known by
//! watches that all applications share, and asked for where that may not be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::{Cluster, ClusterError, Detail, ErrorKind, Followed, Layer, Pauses, Scope, follow};
use tidegate_model::{Discovery, Gvk, Object};
use tidegate_source::Capabilities;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// After a watch has ended it is begun again, later each time it is in vain.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// What is served is asked again after so long, although nobody has told of a change.
const WATCHED_FOR: Duration = Duration::from_secs(600);
/// The same where changes cannot be watched.
const UNWATCHED_FOR: Duration = Duration::from_secs(10);
/// The same for charts, whose comparison would ask for nothing else.
const CHARTS_UNWATCHED_FOR: Duration = Duration::from_secs(60);
/// A server goes on changing what it serves for so long after the definition of a kind has changed.
const SETTLES: Duration = Duration::from_secs(10);
/// What was asked for so short a time ago is not asked again, whatever happens: many comparisons come together.
const AT_ONCE: Duration = Duration::from_millis(500);

/// A cluster that did not answer just now is not asked again for so long: whoever waits for the same would wait as long again.
const SILENT_FOR: Duration = Duration::from_secs(1);

/// What applications are told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Kinds of this group have come or gone, or are served in another way.
    Group(String),
    /// A namespace has come, goes or is gone.
    Namespace(String),
}

/// What is known of one cluster. Dropped, nothing is watched any more.
pub(crate) struct View {
    known: Arc<Mutex<Known>>,
    /// Held while the cluster is asked, so that it is asked once.
    asking: tokio::sync::Mutex<()>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Known {
    /// What is served, and when that was asked.
    discovery: Option<(Instant, Arc<Discovery>)>,
    /// The same, as charts ask for it, and of which answer that is.
    capabilities: Option<(Instant, Arc<Capabilities>)>,
    /// That it did not answer, and when that was found.
    silent: Option<(Instant, ClusterError)>,
    /// When the definition of a kind has changed last.
    changed: Option<Instant>,
    /// What was said before this counts no more: nobody has heard of changes then, or somebody wants it anew.
    void: Option<Instant>,
    /// The kinds whose changes are seen now, of those that say what is served.
    followed: BTreeSet<Gvk>,
    /// Each namespace that is there; nothing while they are not watched.
    namespaces: Option<BTreeMap<String, Namespace>>,
}

/// What is remembered of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Namespace {
    uid: String,
    resource_version: String,
    deletion: Option<String>,
}

/// What says which kinds are served.
fn definitions() -> [Gvk; 2] {
    [
        Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
        Gvk::new("apiregistration.k8s.io", "v1", "APIService"),
    ]
}

fn namespaces() -> Gvk {
    Gvk::new("", "v1", "Namespace")
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl View {
    /// Begins to watch. `tell` is called with what may concern applications.
    pub fn new(cluster: &Arc<dyn Cluster>, tell: impl Fn(News) + Clone + Send + 'static) -> Self {
        let known: Arc<Mutex<Known>> = Arc::default();
        let mut watches = JoinSet::new();
        for gvk in definitions() {
            watches.spawn(follow_definitions(Arc::clone(cluster), gvk, Arc::clone(&known), tell.clone()));
        }
        watches.spawn(follow_namespaces(Arc::clone(cluster), Arc::clone(&known), tell));
        Self { known, asking: tokio::sync::Mutex::default(), _watches: watches }
    }

    /// What is served, and when that was asked. Where that lacks one of the kinds that are wanted, it is asked for again: it may just have come.
    async fn discovery(
        &self,
        cluster: &dyn Cluster,
        wanted: &BTreeSet<Gvk>,
    ) -> Result<(Instant, Arc<Discovery>), ClusterError> {
        if let Some(found) = lock(&self.known).served(wanted) {
            return Ok(found);
        }
        let _one_at_a_time = self.asking.lock().await;
        if let Some(found) = lock(&self.known).served(wanted) {
            return Ok(found);
        }
        // Whatever changes from here on may not be in the answer.
        let at = Instant::now();
        let found = (at, Arc::new(self.ask(cluster.discover()).await?));
        lock(&self.known).discovery = Some(found.clone());
        Ok(found)
    }

    /// What is served, as charts ask for it.
    pub async fn capabilities(&self, cluster: &dyn Cluster) -> Result<Arc<Capabilities>, ClusterError> {
        if let Some(found) = lock(&self.known).capabilities() {
            return Ok(found);
        }
        let (at, served) = self.discovery(cluster, &BTreeSet::new()).await?;
        let _one_at_a_time = self.asking.lock().await;
        if let Some(found) = lock(&self.known).capabilities() {
            return Ok(found);
        }
        let version = self.ask(cluster.version()).await;
        let mut known = lock(&self.known);
        let before = known.capabilities.as_ref().map(|(_, before)| Arc::clone(before)).unwrap_or_default();
        let version = match version {
            Ok(version) => version.unwrap_or_default(),
            // It has said before what it says of that.
            Err(_) if known.capabilities.is_some() => before.kube_version.clone(),
            Err(error) if error.kind.is_outage() => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "a cluster does not say which version it is; charts are made for Helm's own");
                String::new()
            }
        };
        let found = Arc::new(capabilities(&served, version, &before));
        known.capabilities = Some((at, Arc::clone(&found)));
        Ok(found)
    }

    /// What is served is asked for anew.
    pub fn forget_served(&self) {
        lock(&self.known).void = Some(Instant::now());
    }

    /// Asks the cluster, unless it did not answer just now.
    async fn ask<T>(&self, answer: impl Future<Output = Result<T, ClusterError>>) -> Result<T, ClusterError> {
        let silent = lock(&self.known).silent.clone();
        if let Some((_, error)) = silent.filter(|(at, _)| at.elapsed() < SILENT_FOR) {
            return Err(error);
        }
        let answer = answer.await;
        let is_silent =
            |error: &&ClusterError| matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unavailable);
        let silent = answer.as_ref().err().filter(is_silent);
        lock(&self.known).silent = silent.map(|error| (Instant::now(), error.clone()));
        answer
    }

    /// A namespace, or that there is none; nothing where that is not known.
    fn namespace(&self, name: &str) -> Option<Option<Object>> {
        let known = lock(&self.known);
        let found = known.namespaces.as_ref()?.get(name).map(|namespace| namespace.object(name));
        drop(known);
        match found {
            None => Some(None),
            Some(object) => object.map(Some),
        }
    }
}

impl Known {
    /// What charts are told of what is served, if that is known.
    fn capabilities(&self) -> Option<Arc<Capabilities>> {
        let (at, found) = self.capabilities.as_ref()?;
        self.is_current(*at, CHARTS_UNWATCHED_FOR).then(|| Arc::clone(found))
    }

    /// Whether what was said then is true, as far as anybody has heard; where nobody hears of changes, it is for so long.
    fn is_current(&self, at: Instant, unwatched: Duration) -> bool {
        let age = at.elapsed();
        let lasts = if self.followed.len() == definitions().len() { WATCHED_FOR } else { unwatched };
        let is_since = |changed: Instant| at > changed && (age < AT_ONCE || at >= changed + SETTLES);
        age < lasts && self.changed.is_none_or(is_since) && self.void.is_none_or(|void| at > void)
    }

    /// What is served, if that is known well enough.
    fn served(&self, wanted: &BTreeSet<Gvk>) -> Option<(Instant, Arc<Discovery>)> {
        let (at, discovery) = self.discovery.as_ref()?;
        let is_there = |gvk: &Gvk| {
            let kind = discovery.get(&gvk.group_kind());
            kind.is_some_and(|kind| kind.versions.contains(&gvk.version))
        };
        let suffices = at.elapsed() < AT_ONCE || wanted.iter().all(is_there);
        (self.is_current(*at, UNWATCHED_FOR) && suffices).then(|| (*at, Arc::clone(discovery)))
    }
}

/// What charts are told. Of a group that does not answer now they are told what they were told before, or that it is there at
/// least: charts make less where a kind is not served, and what they made before would be deleted.
fn capabilities(served: &Discovery, kube_version: String, before: &Capabilities) -> Capabilities {
    let each = served.kinds.iter().flat_map(|(kind, info)| {
        info.versions.iter().map(|version| Gvk::new(&kind.group, version, &kind.kind))
    });
    let mut all: BTreeSet<String> =
        each.flat_map(|gvk| [format!("{}/{}", gvk.api_version(), gvk.kind), gvk.api_version()]).collect();
    for (group, version) in &served.silent {
        let version = Gvk::new(group, version, "").api_version();
        let below = format!("{version}/");
        let of_it = before.api_versions.iter().filter(|one| one.starts_with(&below));
        all.extend(of_it.cloned().chain([version]));
    }
    Capabilities { kube_version, api_versions: all.into_iter().collect() }
}

impl Namespace {
    fn of(object: &Object) -> Self {
        let deletion = object.text("/metadata/deletionTimestamp");
        Self {
            uid: object.uid().to_owned(),
            resource_version: object.resource_version().to_owned(),
            deletion: (!deletion.is_empty()).then(|| deletion.to_owned()),
        }
    }

    /// Whether it is another than it was, for those who have objects in it.
    fn differs(&self, before: Option<&Self>) -> bool {
        before.is_none_or(|before| (&before.uid, &before.deletion) != (&self.uid, &self.deletion))
    }

    fn object(&self, name: &str) -> Option<Object> {
        let Self { uid, resource_version, deletion } = self;
        let mut object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "resourceVersion": resource_version},
        });
        if let (Some(deletion), Some(metadata)) = (deletion, object.pointer_mut("/metadata")) {
            metadata.as_object_mut()?.insert("deletionTimestamp".to_owned(), json!(deletion));
        }
        Object::try_from(object).ok()
    }
}

/// The group that a definition is about, which its name says: `kinds.group`, `version.group`.
fn group_of(definition: &Object) -> &str {
    definition.name().split_once('.').map_or("", |(_, group)| group)
}

/// Whether it was told that something cannot be watched: once, until it can be.
#[derive(Default)]
struct Blind(bool);

impl Blind {
    /// It cannot be watched now, or at all; `instead` is how it is known then.
    fn tell(&mut self, gvk: &Gvk, error: &ClusterError, instead: &str) {
        if std::mem::replace(&mut self.0, true) {
            return;
        }
        let may_not = error.kind == ErrorKind::Forbidden;
        let hint = if may_not { "; grant list and watch of it to have it seen at once" } else { "" };
        tracing::warn!(kind = %gvk, %error, "changes of {} cannot be watched: {instead}{hint}", gvk.kind);
    }

    fn sees(&mut self) {
        self.0 = false;
    }
}

async fn follow_definitions(
    cluster: Arc<dyn Cluster>,
    gvk: Gvk,
    known: Arc<Mutex<Known>>,
    tell: impl Fn(News),
) {
    let scope = Scope { detail: Detail::Metadata, ..Scope::all(gvk.clone()) };
    let mut changes = follow(cluster, scope, PAUSES);
    let mut blind = Blind::default();
    while let Some(change) = changes.next().await {
        match change {
            Followed::Listed(_) => {
                blind.sees();
                let mut known = lock(&known);
                // What changed before may not be known.
                known.void = Some(Instant::now());
                known.followed.insert(gvk.clone());
            }
            Followed::Applied(object) | Followed::Deleted(object) => {
                lock(&known).changed = Some(Instant::now());
                tell(News::Group(group_of(&object).to_owned()));
            }
            Followed::Failing(error) => {
                lock(&known).followed.remove(&gvk);
                blind.tell(&gvk, &error, "what is served is asked for every ten seconds");
            }
        }
    }
}

async fn follow_namespaces(cluster: Arc<dyn Cluster>, known: Arc<Mutex<Known>>, tell: impl Fn(News)) {
    let scope = Scope { detail: Detail::Metadata, ..Scope::all(namespaces()) };
    let mut changes = follow(cluster, scope, PAUSES);
    // As they were when they were watched last.
    let mut before: Option<BTreeMap<String, Namespace>> = None;
    let mut blind = Blind::default();
    while let Some(change) = changes.next().await {
        let mut news = BTreeSet::new();
        match change {
            Followed::Listed(objects) => {
                blind.sees();
                let now: BTreeMap<_, _> =
                    objects.iter().map(|one| (one.name().to_owned(), Namespace::of(one))).collect();
                let was = lock(&known).namespaces.replace(now.clone()).or_else(|| before.take());
                if let Some(was) = was {
                    let others = now.iter().filter(|(name, one)| one.differs(was.get(*name)));
                    let gone = was.keys().filter(|name| !now.contains_key(*name));
                    news.extend(others.map(|(name, _)| name.clone()).chain(gone.cloned()));
                }
            }
            Followed::Applied(object) => {
                let (name, now) = (object.name().to_owned(), Namespace::of(&object));
                if let Some(all) = &mut lock(&known).namespaces {
                    let was = all.insert(name.clone(), now.clone());
                    news.extend(now.differs(was.as_ref()).then_some(name));
                }
            }
            Followed::Deleted(object) => {
                if let Some(all) = &mut lock(&known).namespaces {
                    all.remove(object.name());
                }
                news.insert(object.name().to_owned());
            }
            Followed::Failing(error) => {
                before = lock(&known).namespaces.take().or_else(|| before.take());
                blind.tell(&namespaces(), &error, "each comparison asks for its namespaces");
            }
        }
        news.into_iter().for_each(|name| tell(News::Namespace(name)));
    }
}

/// A cluster as a comparison sees it: what is known of it is not asked for.
pub(super) struct Viewed {
    pub cluster: Arc<dyn Cluster>,
    pub view: Arc<View>,
    /// The kinds of the manifests.
    pub wanted: BTreeSet<Gvk>,
}

impl Layer for Viewed {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn discover(&self) -> Result<Discovery, ClusterError> {
        let (_, served) = self.view.discovery(self.cluster.as_ref(), &self.wanted).await?;
        Ok(Discovery::clone(&served))
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        match self.view.namespace(name).filter(|_| *gvk == namespaces()) {
            Some(known) => Ok(known),
            None => self.cluster.get(gvk, namespace, name).await,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests;
