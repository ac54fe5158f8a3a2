//! Whether declared clusters are there: they are asked again and again, with the credentials of now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tidegate_cluster::{Detail, Followed, Pauses, Scope, follow};
use tidegate_executor::{Engine, EngineError, IN_FLIGHT};
use tidegate_kube::{ConnectError, ConnectOptions, Declaration, Declared, KubeCluster, connect_declared};
use tidegate_model::{Destination, Gvk, Impersonation, Object};
use tokio::sync::Semaphore;

use super::{COMPARISONS, Places, Way};
use crate::applications::repositories::RepositoryFiles;
use crate::error::ServiceError;

/// How long to wait before Secrets are listed anew.
const PAUSES: Pauses = Pauses { min: Duration::from_millis(500), max: Duration::from_secs(60) };
/// How often declared clusters are asked whether they are there.
const ASK_EVERY: Duration = Duration::from_secs(10);
/// How long the answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

impl Places {
    /// Asks the clusters that are declared whether they are there, for as long as this is polled. `tell` is called whenever
    /// one can be used, or cannot any more; those of which it is a first are given to the engine before.
    pub(crate) async fn keep(&self, engine: &Engine, tell: impl Fn()) {
        let mut changes = self.0.changed.subscribe();
        let mut is_first = true;
        loop {
            if let Err(error) = self.read_files().await {
                tracing::warn!(%error, "the clusters that are declared are those read before");
            }
            // Whoever waits for the first answer is told of it, whatever it is.
            if self.ask(engine).await | std::mem::take(&mut is_first) {
                self.0.changed.send_replace(());
            }
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => tell(),
                    Err(_) => return,
                },
                // Whoever is told of it has been told by now.
                () = tokio::time::sleep(ASK_EVERY) => {
                    self.known_mut().is_own_news = false;
                }
            }
        }
    }

    /// Secrets are going to be followed: until they are seen it is not known which clusters there are.
    pub(crate) fn await_secrets(&self) {
        self.known_mut().is_waited_for = true;
    }

    pub(super) fn have_come(&self) {
        if self.known_mut().come() {
            self.0.changed.send_replace(());
        }
    }

    /// Follows the Secrets of a namespace of the cluster that is served, for as long as this is polled.
    pub(crate) async fn follow_secrets(&self, namespace: String) {
        let scope =
            Scope { gvk: Gvk::new("", "v1", "Secret"), namespace: Some(namespace), detail: Detail::Full };
        let mut followed = follow(Arc::clone(&self.0.cluster), scope, PAUSES);
        let mut known: BTreeMap<String, Declaration> = BTreeMap::new();
        let mut is_told = false;
        while let Some(what) = followed.next().await {
            let mut take = |object: &Object| match Declaration::of(object) {
                Some(declaration) => drop(known.insert(object.name().to_owned(), declaration)),
                None => drop(known.remove(object.name())),
            };
            match what {
                Followed::Applied(object) => take(&object),
                Followed::Deleted(object) => drop(known.remove(object.name())),
                Followed::Listed(objects) => {
                    known = objects
                        .iter()
                        .filter_map(|one| Some((one.name().to_owned(), Declaration::of(one)?)))
                        .collect();
                }
                Followed::Failing(error) => {
                    // Who may not read them declares no clusters.
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(%error, "the Secrets that declare clusters cannot be watched; it is tried again");
                    }
                    self.have_come();
                    continue;
                }
            }
            is_told = false;
            self.declare_all(known.values().cloned().collect(), true);
        }
    }

    /// Reads the files again.
    ///
    /// # Errors
    ///
    /// One of them cannot be read; then those count that were known before. No value shows in the error.
    pub async fn read_files(&self) -> Result<(), ServiceError> {
        let Some(files) = self.0.files.clone() else { return Ok(()) };
        let reading = tokio::task::spawn_blocking(move || declarations(&files)).await;
        let declared =
            reading.map_err(|_| ServiceError::refused("reading the cluster Secrets met a fault"))?;
        self.declare(declared?);
        Ok(())
    }

    /// Asks all of them. Says whether anything is different now.
    pub(super) async fn ask(&self, engine: &Engine) -> bool {
        let declared = self.known().declared.clone();
        let of_server = |server: &str| -> Vec<&Declaration> {
            declared.iter().filter(|one| one.declared.server == server).collect()
        };
        let usable: Vec<&Declaration> = declared
            .iter()
            .filter(|one| {
                let server = one.declared.server.as_str();
                one.problem.is_none() && of_server(server).len() == 1 && !self.is_own(server)
            })
            .collect();
        for (server, way) in &mut self.known_mut().ways {
            if usable.iter().any(|one| one.declared.server == *server) {
                continue;
            }
            let secrets: Vec<&str> = of_server(server).into_iter().map(|one| one.secret.as_str()).collect();
            let reason = match secrets.as_slice() {
                [] => format!("no Secret declares the cluster at {server} any more"),
                [one] => format!("Secret {one}, which declares the cluster at {server}, cannot be used"),
                several => format!("several Secrets declare the cluster at {server}: {}", several.join(", ")),
            };
            // What is under way there waits, and says so: its credentials count no more.
            way.clusters.values().for_each(|cluster| cluster.close(reason.clone()));
            way.failing = Some(reason);
        }
        let asked = join_all(usable.into_iter().map(|one| self.ask_one(engine, &one.declared))).await;
        asked.into_iter().any(|is_news| is_news)
    }

    async fn ask_one(&self, engine: &Engine, declared: &Declared) -> bool {
        let answer = async {
            let unready = || format!("there were no credentials for it within {} s", ANSWER_WITHIN.as_secs());
            let scout = tokio::time::timeout(ANSWER_WITHIN, self.scout(declared)).await;
            let scout = scout.map_err(|_| unready())??;
            let identity = tokio::time::timeout(ANSWER_WITHIN, scout.identity()).await;
            let silent = || format!("it did not answer within {} s", ANSWER_WITHIN.as_secs());
            let uid = identity.map_err(|_| silent())?.map_err(|error| error.message)?;
            let destination = Destination::Kubernetes {
                // Another name for it is no other cluster.
                context: String::new(),
                server: declared.server.clone(),
                kubeconfig: None,
                impersonate: Impersonation::default(),
                uid: uid.unwrap_or_default(),
            };
            let cluster = self.open(&destination, declared).await?;
            match engine.add_cluster(destination.clone(), Arc::new(cluster)).await {
                Ok(()) | Err(EngineError::ClusterKnown { .. }) => Ok(destination),
                Err(error) => Err(error.to_string()),
            }
        };
        let answer: Result<Destination, String> = answer.await;
        let mut known = self.known_mut();
        let Some(way) = known.ways.get_mut(&declared.server) else { return false };
        let (destination, failing) = match answer {
            Ok(destination) => (Some(destination), None),
            Err(reason) => (way.destination.clone(), Some(reason)),
        };
        let is_news = (&way.destination, &way.failing) != (&destination, &failing);
        (way.destination, way.failing) = (destination, failing);
        if is_news {
            let Declared { name, server, .. } = declared;
            match &way.failing {
                None => tracing::info!(name, server, "a declared cluster can be used"),
                Some(reason) => tracing::warn!(name, server, reason, "a declared cluster cannot be used"),
            }
            drop(known);
            // Nobody waits for another cluster that takes its time.
            self.0.changed.send_replace(());
        }
        is_news
    }

    /// What asks which cluster answers there, with the credentials of now. It may talk to any.
    async fn scout(&self, declared: &Declared) -> Result<KubeCluster, String> {
        let (known, is_same, clusters) = {
            let mut known = self.known_mut();
            let way = known.ways.entry(declared.server.clone()).or_insert_with(|| Way {
                scout: None,
                with: declared.clone(),
                permits: Arc::new(Semaphore::new(COMPARISONS)),
                destination: None,
                clusters: BTreeMap::new(),
                failing: None,
            });
            let clusters: Vec<KubeCluster> = way.clusters.values().cloned().collect();
            (way.scout.clone(), way.with == *declared, clusters)
        };
        let made = match known {
            Some(scout) if is_same => return Ok(scout),
            Some(scout) => {
                let changing = clusters.iter().chain([&scout]).map(|one| one.change(declared));
                join_all(changing).await.into_iter().collect::<Result<(), _>>().map(|()| scout)
            }
            None => connect(declared).await,
        };
        let scout = made.map_err(|error| error.to_string())?;
        if let Some(way) = self.known_mut().ways.get_mut(&declared.server) {
            (way.scout, way.with) = (Some(scout.clone()), declared.clone());
        }
        Ok(scout)
    }

    /// The way to the cluster that answers there now. It leads to no other one, and those to others are closed: what is under
    /// way there waits until they are back.
    async fn open(&self, destination: &Destination, declared: &Declared) -> Result<KubeCluster, String> {
        let Destination::Kubernetes { uid, server, .. } = destination else {
            return Err("it is no real cluster".to_owned());
        };
        let known = self.known().ways.get(server).and_then(|way| way.clusters.get(destination).cloned());
        let cluster = match known {
            Some(cluster) if cluster.closed().is_none() => cluster,
            Some(cluster) => {
                // Over connections of its own: those there are may lead elsewhere.
                cluster.change(declared).await.map_err(|error| error.to_string())?;
                cluster.open();
                cluster
            }
            None => {
                let cluster = connect(declared).await.map_err(|error| error.to_string())?;
                if !uid.is_empty() {
                    cluster.is_only(uid);
                }
                cluster
            }
        };
        if let Some(way) = self.known_mut().ways.get_mut(server) {
            way.clusters.insert(destination.clone(), cluster.clone());
            for (other, closing) in &way.clusters {
                if other.is_replaced(destination) {
                    closing.close(format!("another cluster answers at {server}"));
                }
            }
        }
        Ok(cluster)
    }
}

async fn connect(declared: &Declared) -> Result<KubeCluster, ConnectError> {
    let cluster = connect_declared(declared, ConnectOptions::default().call_timeout, IN_FLIGHT).await?;
    Ok(cluster.for_many())
}

fn declarations(files: &RepositoryFiles) -> Result<Vec<Declaration>, ServiceError> {
    let mut declared = Vec::new();
    files.each(|object| {
        declared.extend(Declaration::of(object));
        Ok(())
    })?;
    Ok(declared)
}
