//! Cached discovery of a server's kinds and their paths.
//!
//! Kinds are requested again by a complete discovery and after writing a definition. An unknown kind triggers
//! a request for just its group and version. With aggregated discovery, the server doesn't resend unchanged
//! content.

pub(crate) mod catalog;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate_cluster::ClusterError;
use tidegate_model::{Discovery, Gvk};
use tokio::time::Instant;

use self::catalog::{Catalog, Resource};
pub(crate) use self::requests::fetch_release;
use self::requests::{RootTags, RootsResponse};
use crate::response::unknown_kind_error;
use crate::server::Server;
use crate::singleflight::Singleflight;

/// Validity of the response to a connection check. A discovery usually follows right away.
const CHECK_VALIDITY: Duration = Duration::from_secs(5);
/// Minimum interval between requests for the same group and version. Objects of a missing kind are often
/// looked up in large numbers.
const REQUEST_INTERVAL_MIN: Duration = Duration::from_millis(500);

/// Cache of an API server's kinds.
#[derive(Default)]
pub(crate) struct KindCache {
    catalog: RwLock<Option<Arc<Catalog>>>,
    /// Locked during a request, so that requests run one at a time.
    request_times: tokio::sync::Mutex<RequestTimes>,
    /// Coalesced calls for a complete discovery.
    discoveries: Singleflight<(), Arc<Catalog>>,
}

/// Times of the latest requests.
#[derive(Default)]
struct RequestTimes {
    /// Times of the latest requests, by group and version.
    versions: HashMap<(String, String), Instant>,
    /// Response from the discovery roots, kept for the next discovery.
    roots: Option<(Instant, RootsResponse)>,
    /// Result of the last complete discovery, with its ETags.
    all: Option<(RootTags, Arc<Catalog>)>,
}

impl RequestTimes {
    fn tags(&self) -> Option<&RootTags> {
        self.all.as_ref().map(|(tags, _)| tags)
    }
}

impl KindCache {
    /// Checks that the server responds and accepts the credentials, by starting a discovery that the next one
    /// continues.
    pub(crate) async fn check_connection(&self, server: &Server) -> Result<(), ClusterError> {
        let mut times = self.request_times.lock().await;
        let roots = requests::fetch_roots(server, times.tags()).await?;
        times.roots = Some((Instant::now(), roots));
        Ok(())
    }

    /// Returns all kinds that the server serves.
    pub(crate) async fn discover(&self, server: &Server) -> Result<Discovery, ClusterError> {
        let everything = async {
            let mut times = self.request_times.lock().await;
            self.fetch_everything(server, &mut times).await
        };
        Ok(self.discoveries.run((), everything).await?.discovery())
    }

    /// Returns the cached kinds, requesting them on a cache miss.
    pub(crate) async fn catalog(&self, server: &Server) -> Result<Arc<Catalog>, ClusterError> {
        if let Some(catalog) = self.cached_catalog() {
            return Ok(catalog);
        }
        let mut times = self.request_times.lock().await;
        if let Some(catalog) = self.cached_catalog() {
            return Ok(catalog);
        }
        self.fetch_everything(server, &mut times).await
    }

    async fn fetch_everything(
        &self,
        server: &Server,
        times: &mut RequestTimes,
    ) -> Result<Arc<Catalog>, ClusterError> {
        let roots = match times.roots.take() {
            Some((at, roots)) if at.elapsed() < CHECK_VALIDITY => roots,
            _ => requests::fetch_roots(server, times.tags()).await?,
        };
        let catalog = match (roots, &times.all) {
            (RootsResponse::Unchanged, Some((_, catalog))) => Arc::clone(catalog),
            // The server never sends this response to a request without ETags.
            (RootsResponse::Unchanged, None) => Arc::default(),
            (RootsResponse::Changed { roots: changed_roots, tags }, _) => {
                let catalog = Arc::new(requests::fetch_catalog(server, changed_roots).await?);
                times.all = tags.map(|tags| (tags, Arc::clone(&catalog)));
                catalog
            }
        };
        times.versions.clear();
        self.store_catalog(Arc::clone(&catalog));
        Ok(catalog)
    }

    /// Returns the resource for the given kind.
    pub(crate) async fn find(&self, server: &Server, gvk: &Gvk) -> Result<Arc<Resource>, ClusterError> {
        if let Some(found) = self.cached_catalog().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        self.request_version(server, gvk, REQUEST_INTERVAL_MIN).await
    }

    /// Requests the resource for a kind that the server is just starting to serve, even if it was requested
    /// recently.
    pub(crate) async fn find_now(&self, server: &Server, gvk: &Gvk) -> Result<Arc<Resource>, ClusterError> {
        if let Some(found) = self.cached_catalog().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        self.request_version(server, gvk, Duration::ZERO).await
    }

    async fn request_version(
        &self,
        server: &Server,
        gvk: &Gvk,
        again_after: Duration,
    ) -> Result<Arc<Resource>, ClusterError> {
        let mut times = self.request_times.lock().await;
        if let Some(found) = self.cached_catalog().and_then(|catalog| catalog.get(gvk)) {
            return Ok(found);
        }
        let place = (gvk.group.clone(), gvk.version.clone());
        if times.versions.get(&place).is_some_and(|at| at.elapsed() < again_after) {
            return Err(unknown_kind_error(gvk));
        }
        let served = requests::fetch_version(server, &gvk.group, &gvk.version).await?;
        let mut catalog = self.cached_catalog().map(|catalog| Catalog::clone(&catalog)).unwrap_or_default();
        catalog.replace(&gvk.group, &gvk.version, served);
        let found = catalog.get(gvk);
        self.store_catalog(Arc::new(catalog));
        times.versions.insert(place, Instant::now());
        found.ok_or_else(|| unknown_kind_error(gvk))
    }

    /// Drops a kind that the server may have added or removed. Its next use requests it again.
    pub(crate) async fn forget(&self, gvk: &Gvk) {
        let mut times = self.request_times.lock().await;
        times.versions.remove(&(gvk.group.clone(), gvk.version.clone()));
        if let Some(catalog) = self.cached_catalog() {
            let mut catalog = Catalog::clone(&catalog);
            catalog.remove(gvk);
            self.store_catalog(Arc::new(catalog));
        }
    }

    fn cached_catalog(&self) -> Option<Arc<Catalog>> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn store_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Some(catalog);
    }
}
