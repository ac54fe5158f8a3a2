//! Which cluster a destination means: the one that is served, or one that a Secret declares.
//!
//! A declared cluster is asked which one it is before anything is done there, and again and again: one that does not answer
//! holds back its own applications, with its reason, and nothing else.

mod asking;
pub(crate) mod standing;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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
    Own,
    Declared(Box<Declaration>),
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

    fn is_own(&self, server: &str) -> bool {
        server == IN_CLUSTER_SERVER || server == self.own_server()
    }

    /// These clusters are declared, and no others.
    pub(crate) fn declare(&self, mut declared: Vec<Declaration>) {
        declared.iter_mut().for_each(|one| self.forbid(one));
        let mut known = self.known_mut();
        if known.declared != declared {
            known.declared = declared;
            drop(known);
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

    /// Whether a destination is another cluster than that which is served.
    pub(crate) fn is_elsewhere(&self, wanted: &ApplicationDestination) -> bool {
        !matches!(self.meant(wanted), Ok(Meant::Own))
    }

    fn meant(&self, wanted: &ApplicationDestination) -> Result<Meant, Meaningless> {
        let known = self.known();
        let (name, server) = (wanted.name.as_str(), wanted.server.trim_end_matches('/'));
        let wrong = |words| Err(Meaningless::Wrong(words));
        let is_it = |one: &&Declaration| match server {
            "" => one.declared.name == name,
            server => one.declared.server == server,
        };
        match (name, server) {
            ("", "") => {
                return wrong("spec.destination names no cluster; give it a server or a name".to_owned());
            }
            (IN_CLUSTER, "") => return Ok(Meant::Own),
            ("", server) if self.is_own(server) => return Ok(Meant::Own),
            ("", _) | (_, "") => {}
            _ => {
                return wrong(
                    "spec.destination has both a name and a server; give it one of them".to_owned(),
                );
            }
        }
        let asked = if name.is_empty() { server } else { name };
        let mut found: Vec<&Declaration> = known.declared.iter().filter(is_it).collect();
        if let [one] = found.as_slice()
            && !self.is_own(&one.declared.server)
        {
            // Whose credentials count for a server is to be said once, whatever it is called.
            let server = one.declared.server.clone();
            found = known.declared.iter().filter(|other| other.declared.server == server).collect();
        }
        match found.as_slice() {
            // Its Secret gives it another name.
            [one] if self.is_own(&one.declared.server) => Ok(Meant::Own),
            [one] => match &one.problem {
                None => Ok(Meant::Declared(Box::new((*one).clone()))),
                Some(problem) => wrong(format!(
                    "the cluster {asked} of spec.destination cannot be used: Secret {}: {problem}",
                    one.secret
                )),
            },
            [] => Err(Meaningless::Unknown(format!(
                "the cluster {asked} of spec.destination is not known here; this process serves the {}, which is called {IN_CLUSTER} or {IN_CLUSTER_SERVER}{}",
                self.0.destination,
                others(&known.declared)
            ))),
            several => {
                let secrets: Vec<&str> = several.iter().map(|one| one.secret.as_str()).collect();
                wrong(format!(
                    "the cluster {asked} of spec.destination is declared by several Secrets: {}; leave one of them",
                    secrets.join(", ")
                ))
            }
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
        let Meant::Declared(declaration) = meant else {
            let (destination, cluster) = (self.0.destination.clone(), Arc::clone(&self.0.cluster));
            let namespace = namespace(&self.0.namespace);
            let mut servers = vec![IN_CLUSTER_SERVER.to_owned()];
            servers.extend((self.own_server() != IN_CLUSTER_SERVER).then(|| self.own_server().to_owned()));
            let name = IN_CLUSTER.to_owned();
            let target =
                DeployTarget { servers, name, namespace: namespace.clone(), ..DeployTarget::default() };
            return Ok(Place { destination, cluster, namespace, target });
        };
        let Declaration { declared, project, .. } = *declaration;
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
            Ok(Meant::Own) | Err(_) => own(),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod meaning {
    use super::*;
    use crate::simulated;

    fn resolve(
        destination: Destination,
        name: &str,
        server: &str,
        namespace: &str,
    ) -> Result<String, String> {
        let places = Places::new(destination, Arc::new(simulated::empty()), "default".to_owned());
        let (name, server, namespace) = (name.to_owned(), server.to_owned(), namespace.to_owned());
        let wanted = ApplicationDestination { name, server, namespace, ..ApplicationDestination::default() };
        places.resolve(&wanted).map(|place| place.namespace).map_err(|none| none.to_string())
    }

    fn real() -> Destination {
        Destination::Kubernetes {
            context: "staging".to_owned(),
            server: "https://10.0.0.1:6443".to_owned(),
            kubeconfig: None,
            impersonate: Default::default(),
            uid: String::new(),
        }
    }

    fn declaration(secret: &str, name: &str, server: &str, problem: Option<&str>) -> Declaration {
        Declaration {
            secret: secret.to_owned(),
            declared: Declared { name: name.to_owned(), server: server.to_owned(), ..Declared::default() },
            problem: problem.map(str::to_owned),
            ..Declaration::default()
        }
    }

    #[test]
    fn a_declared_cluster_is_known_by_its_name_or_its_address() {
        let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
        places.declare(vec![
            declaration("argocd/a", "staging", "https://10.0.0.2:6443", None),
            declaration("argocd/b", "twice", "https://10.0.0.3:6443", None),
            declaration("argocd/c", "twice", "https://10.0.0.4:6443", None),
            declaration("argocd/d", "broken", "https://10.0.0.5:6443", Some("its config is no JSON object")),
            declaration("argocd/e", "home", "https://10.0.0.1:6443", None),
            declaration("argocd/f", "blue", "https://10.0.0.6:6443", None),
            declaration("argocd/g", "green", "https://10.0.0.6:6443", None),
        ]);
        for (name, server, expected) in [
            ("staging", "", "staging at https://10.0.0.2:6443 was not asked yet"),
            ("", "https://10.0.0.2:6443/", "was not asked yet"),
            ("twice", "", "declared by several Secrets: argocd/b, argocd/c"),
            ("", "https://10.0.0.3:6443", "was not asked yet"),
            ("blue", "", "declared by several Secrets: argocd/f, argocd/g; leave one"),
            ("green", "", "declared by several Secrets: argocd/f, argocd/g; leave one"),
            ("", "https://10.0.0.6:6443", "declared by several Secrets: argocd/f, argocd/g; leave one"),
            ("broken", "", "Secret argocd/d: its config is no JSON object"),
            (
                "nobody",
                "",
                "is called in-cluster or https://kubernetes.default.svc, and blue, broken, green, home, staging, twice",
            ),
            ("home", "", ""),
            ("in-cluster", "", ""),
        ] {
            let (name, server) = (name.to_owned(), server.to_owned());
            let wanted = ApplicationDestination { name, server, ..ApplicationDestination::default() };
            let said = places.resolve(&wanted).map_or_else(|none| none.to_string(), |_| String::new());
            let is_said = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
            assert!(is_said, "{wanted:?}: {said}");
            let is_unasked = said.contains("was not asked yet");
            assert_eq!(places.unasked(&wanted).is_some(), is_unasked, "{wanted:?}");
            assert_eq!(places.is_elsewhere(&wanted), !expected.is_empty());
        }
    }

    #[test]
    fn only_the_cluster_that_is_served_is_meant() {
        for (name, server, namespace, expected) in [
            (IN_CLUSTER, "", "shop", Ok("shop")),
            (IN_CLUSTER, "", "", Ok("default")),
            ("", IN_CLUSTER_SERVER, "", Ok("default")),
            ("", "https://kubernetes.default.svc/", "", Ok("default")),
            ("", "", "shop", Err("names no cluster")),
            (IN_CLUSTER, IN_CLUSTER_SERVER, "", Err("both")),
            ("staging", "", "", Err("staging")),
            ("", "https://10.0.0.2:6443", "", Err("10.0.0.2")),
        ] {
            for destination in [Destination::Simulated, real()] {
                let found = resolve(destination, name, server, namespace);
                match expected {
                    Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{name} {server}"),
                    Err(part) => assert!(found.unwrap_err().contains(part), "{name} {server}"),
                }
            }
        }
        assert!(resolve(real(), "", "https://10.0.0.1:6443/", "").is_ok());
        assert!(resolve(Destination::Simulated, "", "https://10.0.0.1:6443", "").is_err());
    }
}
