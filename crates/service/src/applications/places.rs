//! Which cluster a destination means: the one that is served, or one that a Secret declares.
//!
//! A declared cluster is asked which one it is before anything is done there, and again and again: one that does not answer
//! holds back its own applications, with its reason, and nothing else.

mod asking;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod meaning;
mod own;
pub(crate) mod standing;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tidegate_application::accounts::Accounts;
use tidegate_applicationset::known::NoCluster;
use tidegate_cluster::Cluster;
use tidegate_kube::{Declaration, Declared, KubeCluster};
use tidegate_model::argo::ApplicationDestination;
use tidegate_model::{DeployTarget, Destination};
use tokio::sync::{Semaphore, watch};

use super::repositories::RepositoryFiles;

/// The name and the address under which applications know the cluster that a control plane works on.
const IN_CLUSTER: &str = "in-cluster";
const IN_CLUSTER_SERVER: &str = "https://kubernetes.default.svc";
/// Namespace of objects that name none, in a declared cluster.
const DEFAULT_NAMESPACE: &str = "default";
/// Comparisons with one cluster under way at once; others wait.
pub(crate) const COMPARISONS: usize = 8;

/// The clusters that are known.
#[derive(Clone)]
pub struct Places(Arc<Inner>);

struct Inner {
    destination: Destination,
    cluster: Arc<dyn Cluster>,
    /// Where objects go that name no namespace.
    namespace: String,
    permits: Arc<Semaphore>,
    accounts: Accounts,
    /// Programs that Secrets of clusters may have run, by the very words in which they name them.
    programs: BTreeSet<String>,
    files: Option<RepositoryFiles>,
    known: RwLock<Known>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct Known {
    declared: Vec<Declaration>,
    /// The Secrets that declare clusters are looked for, and were not seen yet.
    is_waited_for: bool,
    /// Somebody was told so who goes to the cluster that is served.
    is_own_awaited: AtomicBool,
    /// What they say of the cluster that is served is other than it was just now.
    is_own_news: bool,
    /// By server: each is declared by one Secret. What was declared once may be declared again.
    ways: BTreeMap<String, Way>,
}

struct Way {
    /// What asks which cluster answers there; nothing where it could not be prepared.
    scout: Option<KubeCluster>,
    with: Declared,
    permits: Arc<Semaphore>,
    /// Which cluster it is, once it has said so.
    destination: Option<Destination>,
    /// The clusters that have answered there. One after the other: all that are known to be others than
    /// the last are closed.
    clusters: BTreeMap<Destination, KubeCluster>,
    /// Why it cannot be used now.
    failing: Option<String>,
}

/// Where the objects of an application go.
#[derive(Clone)]
pub(crate) struct Place {
    pub destination: Destination,
    pub cluster: Arc<dyn Cluster>,
    pub namespace: String,
    /// The same, as the rules of projects name it.
    pub target: DeployTarget,
}

/// Why there is no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// What is written down means none.
    Wrong(String),
    /// It is not to be reached now.
    Away(String),
    /// It is not known yet whether it is: nobody has asked since it was declared, or its Secret was not seen.
    Unasked(String),
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Wrong(words) | Self::Away(words) | Self::Unasked(words)) = self;
        f.write_str(words)
    }
}

/// Why a destination means no cluster, in words.
enum Meaningless {
    /// There is no such cluster.
    Unknown(String),
    /// It could be one of several, or cannot be used as it is written.
    Wrong(String),
}

impl Meaningless {
    fn words(self) -> String {
        let (Self::Unknown(words) | Self::Wrong(words)) = self;
        words
    }
}

/// What a destination means.
enum Meant {
    /// The cluster that is served, for this project; empty for all.
    Own(String),
    Declared(Box<Declaration>),
}

/// The cluster of a destination cannot be used, because of its Secret.
fn unusable(asked: &str, one: &Declaration, problem: &str) -> Meaningless {
    Meaningless::Wrong(format!(
        "the cluster {asked} of spec.destination cannot be used: Secret {}: {problem}",
        one.secret
    ))
}

/// Several Secrets say different things of it.
fn several(asked: &str, all: &[&Declaration]) -> Meaningless {
    let secrets: Vec<&str> = all.iter().map(|one| one.secret.as_str()).collect();
    Meaningless::Wrong(format!(
        "the cluster {asked} of spec.destination is declared by several Secrets: {}; leave one of them",
        secrets.join(", ")
    ))
}

impl Known {
    /// The Secrets were seen, or cannot be. Whether they were waited for.
    fn come(&mut self) -> bool {
        let is_come = std::mem::take(&mut self.is_waited_for);
        self.is_own_news |= is_come && self.is_own_awaited.load(Ordering::Relaxed);
        is_come
    }

    /// Those of the Secrets that declare this.
    fn of(&self, is_it: impl Fn(&Declared) -> bool) -> Vec<&Declaration> {
        self.declared.iter().filter(|one| is_it(&one.declared)).collect()
    }
}

impl Way {
    /// The cluster that has answered there last.
    fn current(&self) -> Option<(&Destination, &KubeCluster)> {
        self.clusters.get_key_value(self.destination.as_ref()?)
    }
}

impl Places {
    /// One cluster, and the namespace of what names none.
    pub fn new(destination: Destination, cluster: Arc<dyn Cluster>, namespace: String) -> Self {
        Self(Arc::new(Inner {
            destination,
            cluster,
            namespace,
            permits: Arc::new(Semaphore::new(COMPARISONS)),
            accounts: Accounts::default(),
            programs: BTreeSet::new(),
            files: None,
            known: RwLock::default(),
            changed: watch::Sender::new(()),
        }))
    }

    /// The same, and the clusters that Secrets in files declare.
    #[must_use]
    pub fn with_files(self, files: RepositoryFiles) -> Self {
        self.with(|inner| Inner { files: Some(files), ..inner })
    }

    /// The same, written to as the service accounts that projects name.
    #[must_use]
    pub fn with_accounts(self, accounts: Accounts) -> Self {
        self.with(|inner| Inner { accounts, ..inner })
    }

    /// The same, with programs that Secrets of clusters may have run to give credentials.
    #[must_use]
    pub fn with_programs(self, programs: BTreeSet<String>) -> Self {
        self.with(|inner| Inner { programs, ..inner })
    }

    fn with(self, change: impl FnOnce(Inner) -> Inner) -> Self {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Self(Arc::new(change(inner))),
            Err(shared) => Self(shared),
        }
    }

    /// Whether the service accounts that projects name are acted as.
    pub(crate) fn accounts(&self) -> Accounts {
        self.0.accounts
    }

    pub(crate) fn cluster(&self) -> &Arc<dyn Cluster> {
        &self.0.cluster
    }

    /// The cluster that is served.
    pub(crate) fn own(&self) -> &Destination {
        &self.0.destination
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.0.destination == Destination::Simulated
    }

    /// Whether files say which clusters there are.
    pub(crate) fn has_files(&self) -> bool {
        self.0.files.is_some()
    }

    fn known(&self) -> RwLockReadGuard<'_, Known> {
        self.0.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn known_mut(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn own_server(&self) -> &str {
        match &self.0.destination {
            Destination::Simulated => IN_CLUSTER_SERVER,
            Destination::Kubernetes { server, .. } => server.trim_end_matches('/'),
        }
    }

    /// The address of the cluster that is served, where it is another than that which all of them have.
    fn other_own_server(&self) -> Option<&str> {
        Some(self.own_server()).filter(|server| *server != IN_CLUSTER_SERVER)
    }

    fn is_own(&self, server: &str) -> bool {
        server == IN_CLUSTER_SERVER || server == self.own_server()
    }

    /// These clusters are declared, and no others.
    pub(crate) fn declare(&self, declared: Vec<Declaration>) {
        self.declare_all(declared, false);
    }

    /// The same; `have_come` where they are the Secrets that were waited for.
    fn declare_all(&self, mut declared: Vec<Declaration>, have_come: bool) {
        declared.iter_mut().for_each(|one| self.review(one));
        let mut known = self.known_mut();
        let is_come = have_come && known.come();
        let is_other = known.declared != declared;
        if is_other {
            let is_own_other = self.is_own_different(&known.declared, &declared);
            known.is_own_news |= is_own_other;
            known.declared = declared;
        }
        drop(known);
        if is_other || is_come {
            self.0.changed.send_replace(());
        }
    }

    /// A Secret that has a program run is a risk: it is run only where whoever began this process has said so.
    fn forbid(&self, declaration: &mut Declaration) {
        let Some(plugin) = &declaration.declared.exec else { return };
        let command = &plugin.provider().command;
        if self.0.programs.contains(command) {
            return;
        }
        declaration.problem = Some(format!(
            "its config has execProviderConfig with the command {command:?}, which may not be run here; begin `tidegate serve` \
             with --allow-exec-credentials {command} to allow it, or give it a bearerToken"
        ));
        declaration.declared.exec = None;
    }

    /// The clusters that Secrets declare, whatever of them can be used; nothing while the Secrets were not seen.
    pub(crate) fn declared(&self) -> Option<Vec<Declaration>> {
        let known = self.known();
        (!known.is_waited_for).then(|| known.declared.clone())
    }

    /// Whether a destination is another cluster than that which is served; for a while each is, when Secrets say other things
    /// of that.
    pub(crate) fn is_elsewhere(&self, wanted: &ApplicationDestination) -> bool {
        let is_news = self.known().is_own_news;
        is_news || !matches!(self.meant(wanted), Ok(Meant::Own(_)))
    }

    fn meant(&self, wanted: &ApplicationDestination) -> Result<Meant, Meaningless> {
        let known = self.known();
        let (name, server) = (wanted.name.as_str(), wanted.server.trim_end_matches('/'));
        let wrong = |words: &str| Err(Meaningless::Wrong(words.to_owned()));
        let is_own = |one: &Declared| self.is_own(&one.server);
        match (name, server) {
            ("", "") => return wrong("spec.destination names no cluster; give it a server or a name"),
            (IN_CLUSTER, "") => {
                let is_it = |one: &Declared| {
                    one.server == IN_CLUSTER_SERVER || (one.name == IN_CLUSTER && is_own(one))
                };
                return Self::served(name, &known.of(is_it));
            }
            ("", server) if self.is_own(server) => {
                return Self::served(server, &known.of(|one| one.server == server));
            }
            ("", _) | (_, "") => {}
            _ => return wrong("spec.destination has both a name and a server; give it one of them"),
        }
        let asked = if name.is_empty() { server } else { name };
        let mut found = match server {
            "" => known.of(|one| one.name == name),
            server => known.of(|one| one.server == server),
        };
        if let [one] = found.as_slice() {
            // Whose credentials count for a server is to be said once, whatever it is called.
            let server = one.declared.server.clone();
            found = known.of(|one| one.server == server);
        }
        match found.as_slice() {
            // Its Secret gives it another name.
            [_, ..] if found.iter().all(|one| is_own(&one.declared)) => Self::served(asked, &found),
            [one] => match &one.problem {
                None => Ok(Meant::Declared(Box::new((*one).clone()))),
                Some(problem) => Err(unusable(asked, one, problem)),
            },
            [] => Err(Meaningless::Unknown(format!(
                "the cluster {asked} of spec.destination is not known here; this process serves the {}, which is called {IN_CLUSTER} or {IN_CLUSTER_SERVER}{}",
                self.0.destination,
                others(&known.declared)
            ))),
            several_of => Err(several(asked, several_of)),
        }
    }

    /// Whether a destination means one cluster, be it there or not.
    pub(crate) fn means_one(&self, wanted: &ApplicationDestination) -> Result<(), NoCluster> {
        let is_waited_for = self.known().is_waited_for;
        match self.meant(wanted) {
            Ok(_) => Ok(()),
            Err(Meaningless::Unknown(words)) if !is_waited_for => Err(NoCluster::Gone(words)),
            Err(other) => Err(NoCluster::Unusable(other.words())),
        }
    }

    /// The place that is meant, or why there is none.
    pub(crate) fn resolve(&self, wanted: &ApplicationDestination) -> Result<Place, NoPlace> {
        let wrong = |words| match self.known().is_waited_for {
            true => NoPlace::Unasked(words),
            false => NoPlace::Wrong(words),
        };
        let meant = self.meant(wanted).map_err(|none| wrong(none.words()))?;
        let namespace = |otherwise: &str| match wanted.namespace.as_str() {
            "" => otherwise.to_owned(),
            namespace => namespace.to_owned(),
        };
        let Declaration { declared, project, .. } = match meant {
            // A Secret may say that it is not to be used.
            Meant::Own(_) if self.awaits_secrets() => {
                let words = "the Secrets that declare clusters, which were not seen yet".to_owned();
                return Err(NoPlace::Unasked(words));
            }
            Meant::Own(project) => return Ok(self.own_place(namespace(&self.0.namespace), project)),
            Meant::Declared(declaration) => *declaration,
        };
        let Declared { name, server, .. } = &declared;
        let away = |reason: &str| {
            let words =
                format!("the cluster {name} at {server} cannot be used now: {reason}; it is asked again");
            Err(NoPlace::Away(words))
        };
        let known = self.known();
        let way = known.ways.get(&declared.server);
        let (cluster, destination) = match way.map(|way| (way.current(), &way.failing)) {
            Some((_, Some(reason))) => return away(reason),
            Some((Some((destination, cluster)), None)) => (cluster.clone(), destination.clone()),
            _ => {
                let words = format!("the cluster {name} at {server} was not asked yet whether it is there");
                return Err(NoPlace::Unasked(words));
            }
        };
        let namespace = namespace(DEFAULT_NAMESPACE);
        let target = DeployTarget {
            servers: vec![declared.server.clone()],
            name: declared.name.clone(),
            project,
            namespace: namespace.clone(),
        };
        Ok(Place { destination, cluster: Arc::new(cluster), namespace, target })
    }

    /// What bounds the comparisons with a cluster.
    pub(crate) fn permits(&self, wanted: &ApplicationDestination) -> Arc<Semaphore> {
        let own = || Arc::clone(&self.0.permits);
        match self.meant(wanted) {
            Ok(Meant::Declared(declaration)) => self
                .known()
                .ways
                .get(&declaration.declared.server)
                .map_or_else(own, |way| Arc::clone(&way.permits)),
            Ok(Meant::Own(_)) | Err(_) => own(),
        }
    }

    /// Why it is not known yet whether a destination is to be reached; nothing where it is.
    pub(crate) fn unasked(&self, wanted: &ApplicationDestination) -> Option<String> {
        match self.resolve(wanted) {
            Err(NoPlace::Unasked(words)) => Some(words),
            _ => None,
        }
    }

    /// Returns when a destination is to be reached, or means nothing.
    pub(crate) async fn reached(&self, wanted: &ApplicationDestination) {
        let is_away =
            |places: &Self| matches!(places.resolve(wanted), Err(NoPlace::Away(_) | NoPlace::Unasked(_)));
        self.when(|places| !is_away(places)).await;
    }

    /// Returns when the cluster of an operation is to be reached, which may be another one than its application is for now.
    pub(crate) async fn is_back(&self, recorded: &Destination) {
        self.when(|places| places.is_there(recorded)).await;
    }

    /// Whether the cluster of an operation is to be reached.
    pub(crate) fn is_there(&self, recorded: &Destination) -> bool {
        let is_it = |way: &Way| way.failing.is_none() && way.destination.as_ref() == Some(recorded);
        let is_own = match recorded {
            Destination::Simulated => true,
            Destination::Kubernetes { server, .. } => self.is_own(server.trim_end_matches('/')),
        };
        is_own || self.known().ways.values().any(is_it)
    }

    /// Is told whenever other clusters are declared, or can be reached, or cannot any more.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changed.subscribe()
    }

    /// Returns when something is so.
    async fn when(&self, is_so: impl Fn(&Self) -> bool) {
        let mut changes = self.changes();
        while !is_so(self) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}

fn others(declared: &[Declaration]) -> String {
    let names: BTreeSet<&str> = declared.iter().map(|one| one.declared.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() { String::new() } else { format!(", and {}", names.join(", ")) }
}
