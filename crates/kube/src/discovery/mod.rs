//! Which kinds the server serves, and where.
//!
//! Known kinds are kept. They are asked for again when somebody wants the whole picture, when a definition was
//! written, and, by group and version only, when a kind is not known. A server that says all at once need not say it again
//! while nothing has changed.

mod ask;
pub(crate) mod catalog;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate_cluster::ClusterError;
use tidegate_model::{Discovery, Gvk};
use tokio::time::Instant;

pub(crate) use self::ask::release;
use self::ask::{Roots, Tags};
use self::catalog::{Catalog, Resource};
use crate::answer::unknown_kind;
use crate::rounds::Rounds;
use crate::server::Server;

/// Whoever made sure that the server answers is about to ask what it serves; what it said then is still true for so long.
const FRESH: Duration = Duration::from_secs(5);
/// A group and version that was just asked for is not asked for again: many objects of a missing kind come together.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// The kinds of one server, as far as they are known.
#[derive(Default)]
pub(crate) struct Kinds {
    catalog: RwLock<Option<Arc<Catalog>>>,
    /// Held while the server is asked, so that it is asked once.
    asked: tokio::sync::Mutex<Asked>,
    /// Who wants the whole picture.
    discoveries: Rounds<(), Arc<Catalog>>,
}

/// When the server was asked for what, so that it is not asked again too soon.
#[derive(Default)]
struct Asked {
    /// Each group and version.
    versions: HashMap<(String, String), Instant>,
    /// The roots, until somebody goes on from there.
    roots: Option<(Instant, Roots)>,
    /// What the server has said last of all that it serves, and by which tags it knows that.
    all: Option<(Tags, Arc<Catalog>)>,
}

impl Asked {
    fn tags(&self) -> Option<&Tags> {
        self.all.as_ref().map(|(tags, _)| tags)
    }
}

impl Kinds {
    /// Begins to ask what is served, to see that the server answers and lets us in. The next discovery goes on from there.
    pub(crate) async fn reach(&self, server: &Server) -> Result<(), ClusterError> {
        let mut asked = self.asked.lock().await;
        let roots = ask::roots(server, asked.tags()).await?;
        asked.roots = Some((Instant::now(), roots));
        Ok(())
    }

    /// Everything that is served now.
    pub(crate) async fn discover(&self, server: &Server) -> Result<Discovery, ClusterError> {
        let everything = async {
            let mut asked = self.asked.lock().await;
            self.ask_everything(server, &mut asked).await
        };
        Ok(self.discoveries.ask((), everything).await?.discovery())
    }

    /// What is known so far; asks when nothing is.
    pub(crate) async fn known(&self, server: &Server) -> Result<Arc<Catalog>, ClusterError> {
        if let Some(catalog) = self.stored() {
            return Ok(catalog);
        }
        let mut asked = self.asked.lock().await;
        if let Some(catalog) = self.stored() {
            return Ok(catalog);
        }
        self.ask_everything(server, &mut asked).await
    }

    async fn ask_everything(&self, server: &Server, asked: &mut Asked) -> Result<Arc<Catalog>, ClusterError> {
        let roots = match asked.roots.take() {
            Some((at, roots)) if at.elapsed() < FRESH => roots,
            _ => ask::roots(server, asked.tags()).await?,
        };
        let catalog = match (roots, &asked.all) {
            (Roots::Same, Some((_, catalog))) => Arc::clone(catalog),
            // Nobody says so who was not asked with tags.
            (Roots::Same, None) => Arc::default(),
            (Roots::Said { said, tags }, _) => {
                let catalog = Arc::new(ask::everything(server, said).await?);
                asked.all = tags.map(|tags| (tags, Arc::clone(&catalog)));
                catalog
            }
        };
        asked.versions.clear();
        self.store(Arc::clone(&catalog));
        Ok(catalog)
    }

    /// How a kind is served.
    pub(crate) async fn find(&self, server: &Server, gvk: &Gvk) -> Result<Arc<Resource>, ClusterError> {
        if let Some(found) = self.stored().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        self.ask(server, gvk, ASK_AGAIN).await
    }

    /// The same, however short a time ago the kind was not served: somebody knows that it is about to be.
    pub(crate) async fn find_again(&self, server: &Server, gvk: &Gvk) -> Result<Arc<Resource>, ClusterError> {
        if let Some(found) = self.stored().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        self.ask(server, gvk, Duration::ZERO).await
    }

    async fn ask(
        &self,
        server: &Server,
        gvk: &Gvk,
        again_after: Duration,
    ) -> Result<Arc<Resource>, ClusterError> {
        let mut asked = self.asked.lock().await;
        if let Some(found) = self.stored().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        let place = (gvk.group.clone(), gvk.version.clone());
        if asked.versions.get(&place).is_some_and(|at| at.elapsed() < again_after) {
            return Err(unknown_kind(gvk));
        }
        let served = ask::version(server, &gvk.group, &gvk.version).await?;
        let mut catalog = self.stored().map(|catalog| Catalog::clone(&catalog)).unwrap_or_default();
        catalog.replace(&gvk.group, &gvk.version, served);
        let found = catalog.get(gvk);
        self.store(Arc::new(catalog));
        asked.versions.insert(place, Instant::now());
        found.ok_or_else(|| unknown_kind(gvk))
    }

    /// The kind turned out to be gone, or may have come: ask before it is used again.
    pub(crate) async fn forget(&self, gvk: &Gvk) {
        let mut asked = self.asked.lock().await;
        asked.versions.remove(&(gvk.group.clone(), gvk.version.clone()));
        if let Some(catalog) = self.stored() {
            let mut catalog = Catalog::clone(&catalog);
            catalog.remove(gvk);
            self.store(Arc::new(catalog));
        }
    }

    fn stored(&self) -> Option<Arc<Catalog>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Some(catalog);
    }
}
