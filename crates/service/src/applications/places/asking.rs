//! Whether declared clusters are there: they are asked again and again, with the credentials of now.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tidegate_cluster::{Detail, Followed, Pauses, Scope, follow};
use tidegate_executor::{Engine, EngineError, IN_FLIGHT};
use tidegate_kube::{ConnectOptions, Declaration, Declared, KubeCluster, connect_declared};
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
        loop {
            changes.borrow_and_update();
            if let Err(error) = self.read_files().await {
                tracing::warn!(%error, "the clusters that are declared are those read before");
            }
            if self.ask(engine).await {
                self.0.changed.send_replace(());
            }
            tokio::select! {
                changed = changes.changed() => match changed {
                    Ok(()) => tell(),
                    Err(_) => return,
                },
                () = tokio::time::sleep(ASK_EVERY) => {}
            }
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
                    continue;
                }
            }
            is_told = false;
            self.declare(known.values().cloned().collect());
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
    async fn ask(&self, engine: &Engine) -> bool {
        let declared = self.known().declared.clone();
        let servers: Vec<&str> = declared.iter().map(|one| one.declared.server.as_str()).collect();
        let is_only = |server: &str| servers.iter().filter(|one| **one == server).count() == 1;
        let usable = declared.iter().filter(|one| {
            let server = one.declared.server.as_str();
            one.problem.is_none() && is_only(server) && !self.is_own(server)
        });
        let asked = join_all(usable.map(|one| self.ask_one(engine, &one.declared))).await;
        asked.into_iter().any(|is_news| is_news)
    }

    async fn ask_one(&self, engine: &Engine, declared: &Declared) -> bool {
        let answer = async {
            let cluster = self.way(declared).await?;
            let identity = tokio::time::timeout(ANSWER_WITHIN, cluster.identity()).await;
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
        }
        is_news
    }

    /// The way to a declared cluster, with the credentials of now.
    async fn way(&self, declared: &Declared) -> Result<KubeCluster, String> {
        let known = {
            let known = self.known();
            known.ways.get(&declared.server).map(|way| (way.cluster.clone(), way.with == *declared))
        };
        let made = match known {
            Some((Some(cluster), true)) => return Ok(cluster),
            Some((Some(cluster), false)) => cluster.change(declared).await.map(|()| cluster),
            _ => connect_declared(declared, ConnectOptions::default().call_timeout, IN_FLIGHT).await,
        };
        let mut known = self.known_mut();
        let way = known.ways.entry(declared.server.clone()).or_insert_with(|| Way {
            cluster: None,
            with: declared.clone(),
            permits: Arc::new(Semaphore::new(COMPARISONS)),
            destination: None,
            failing: None,
        });
        let cluster = made.map_err(|error| error.to_string())?;
        (way.cluster, way.with) = (Some(cluster.clone()), declared.clone());
        Ok(cluster)
    }
}

fn declarations(files: &RepositoryFiles) -> Result<Vec<Declaration>, ServiceError> {
    let mut declared = Vec::new();
    files.each(|object| {
        declared.extend(Declaration::of(object));
        Ok(())
    })?;
    Ok(declared)
}
