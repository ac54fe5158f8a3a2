//! Charts in Helm repositories and OCI registries.
//!
//! ```text
//! repoURL + chart ─ Address ─▶ ChartRepository ─ observe ─▶ index.yaml, or tags ─ resolve ─▶ version
//!                                     └── locate(version) ─▶ stored archive ── render ─▶ helm template
//! ```

mod archive;
mod index;
mod registry;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;

use crate::address::AddressKind;
use crate::credentials::AccessSettings;
use crate::observations::SharedObservations;
use crate::remote::{CompleteResponse, Link, Network, Problem};
use crate::{Address, SourceError, version_constraints};
pub(crate) use archive::Archive;
use archive::PACKED_BYTES_MAX;
use index::Index;
use registry::Registry;

/// Folder for chart archives, inside the folder for mirrors.
const FOLDER: &str = "charts";
/// Maximum number of chart names in an error message.
const CHART_NAMES_MAX: usize = 10;
/// Version constraint that selects the newest release.
const ANY_VERSION: &str = "*";

/// Charts and versions found by the last observation.
#[derive(Clone, Debug, Default)]
struct Listing {
    index: Arc<Index>,
    /// ETag of the index, for conditional requests.
    etag: Option<HeaderValue>,
}

type Observation = Result<Listing, SourceError>;

/// A Helm repository, or a chart in an OCI registry.
pub struct ChartRepository {
    address: Address,
    network: Arc<Network>,
    /// True if loopback addresses are blocked, because only chart dependencies use the repository.
    blocks_loopback: AtomicBool,
    observations: SharedObservations<Observation>,
}

impl ChartRepository {
    pub(crate) fn new(address: Address, network: Arc<Network>) -> Self {
        let (bars_loopback, observations) = Default::default();
        Self { address, network, blocks_loopback: bars_loopback, observations }
    }

    pub(crate) fn set_blocks_loopback(&self, is_barred: bool) {
        self.blocks_loopback.store(is_barred, Ordering::Relaxed);
    }

    /// Returns the address of the repository.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn error(&self, tried: &str, problem: Problem) -> SourceError {
        SourceError::remote(&self.address, tried, problem)
    }

    fn access(&self) -> Result<AccessSettings, SourceError> {
        self.network.access_to(&self.address, self.blocks_loopback.load(Ordering::Relaxed))
    }

    /// Observes the repository. Returns true if its content has changed since the last observation.
    pub fn observe(&self) -> Result<bool, SourceError> {
        let (before, found) = self.observe_shared();
        let found = found?;
        Ok(!matches!(before, Some(Ok(before)) if before.index == found.index))
    }

    /// Observes the repository. Returns true if its content or availability has changed since the last
    /// observation.
    pub fn observe_availability(&self) -> bool {
        match self.observe_shared() {
            (Some(Ok(before)), Ok(found)) => before.index != found.index,
            (Some(Err(before)), Err(found)) => before != found,
            _ => true,
        }
    }

    fn observe_shared(&self) -> (Option<Observation>, Observation) {
        self.observations.observe(|known| self.fetch_listing(known.and_then(Result::ok)))
    }

    fn fetch_listing(&self, known: Option<Listing>) -> Observation {
        let access = self.access()?;
        let begin = || self.network.attempts.start(self.network.limits.list_refs);
        if let AddressKind::Registry(site) = self.address.kind() {
            let versions = |access: &AccessSettings| {
                Registry { site, access, network: &self.network, attempt: &begin() }.versions()
            };
            let found = self.network.with_token(&access, versions);
            let found = found.map_err(|problem| self.error("cannot list tags", problem))?;
            let releases = found.into_iter().map(|version| index::Release { version, ..Default::default() });
            let entries = [(String::new(), releases.collect())].into();
            return Ok(Listing { index: Arc::new(Index { entries }), etag: None });
        }
        let url = format!("{}/index.yaml", self.address);
        let mut headers = HeaderMap::new();
        let etag = known.as_ref().and_then(|known| known.etag.clone());
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
        let limit = self.network.limits.names_bytes;
        let fetched = self.network.with_token(&access, |access| {
            let link = Link::for_address(&url, access, &self.network, begin(), limit)?;
            link.download(&url, &headers, &[StatusCode::NOT_MODIFIED])
        });
        let wrong = |problem| self.error("cannot read index.yaml", problem);
        let CompleteResponse { status, headers, content } = fetched.map_err(wrong)?;
        match known {
            Some(known) if status == StatusCode::NOT_MODIFIED => Ok(known),
            _ => {
                let index = Arc::new(Index::parse(&content).map_err(wrong)?);
                Ok(Listing { index, etag: headers.get(ETAG).cloned() })
            }
        }
    }

    fn last_listing(&self) -> Observation {
        self.observations.last().unwrap_or_else(|| self.observe_shared().1)
    }

    /// Returns the chart's name in the index. Empty for a registry, where the address already identifies the
    /// chart.
    fn listed_name<'s>(&self, source: &'s ApplicationSource) -> &'s str {
        if matches!(self.address.kind(), AddressKind::Registry(_)) { "" } else { &source.chart }
    }

    /// Returns the chart's name for messages. In a registry, it may be part of the address instead of the
    /// `chart` field.
    pub(crate) fn display_name<'s>(&'s self, source: &'s ApplicationSource) -> &'s str {
        match (self.address.kind(), source.chart.as_str()) {
            (AddressKind::Registry(site), "") => site.path.rsplit('/').next().unwrap_or_default(),
            (_, chart) => chart,
        }
    }

    /// Resolves a revision to a version: a complete version to itself, a constraint to the newest match.
    pub fn resolve(&self, source: &ApplicationSource, revision: &str) -> Result<String, SourceError> {
        if version_constraints::is_full_version(revision) {
            return Ok(revision.to_owned());
        }
        let listing = self.last_listing()?;
        let Some(found) = listing.index.versions(self.listed_name(source)) else {
            return Err(self.chart_not_found(&listing.index, self.display_name(source)));
        };
        let wanted = if revision.is_empty() { ANY_VERSION } else { revision };
        let all = || found.iter().map(String::as_str);
        // Nothing matches. Try `=`, which lets an incomplete version such as `1.2` match everything that
        // starts with it.
        let newest = version_constraints::newest_version(wanted, all())
            .or_else(|| version_constraints::newest_version(&format!("={wanted}"), all()));
        newest.map(str::to_owned).ok_or_else(|| SourceError::NoVersion {
            repository: self.address.to_string(),
            chart: self.display_name(source).to_owned(),
            version: wanted.to_owned(),
        })
    }

    fn chart_not_found(&self, index: &Index, chart: &str) -> SourceError {
        let mut known: Vec<&str> = index.entries.keys().map(String::as_str).take(CHART_NAMES_MAX).collect();
        let more = index.entries.len().saturating_sub(known.len());
        let more = (more > 0).then(|| format!("and {more} more"));
        known.extend(more.as_deref());
        let known = known.join(", ");
        SourceError::NoSuchChart { repository: self.address.to_string(), chart: chart.to_owned(), known }
    }

    /// Returns the archive of a version, downloading it unless it is on disk.
    pub(crate) fn fetch_archive(
        &self,
        source: &ApplicationSource,
        version: &str,
    ) -> Result<Vec<u8>, SourceError> {
        let path = self.cached_path(source, version);
        if let Ok(kept) = fs::read(&path) {
            return Ok(kept);
        }
        let fetched = self.fetch(source, version)?;
        let failed =
            |error: std::io::Error| SourceError::Workshop { path: path.clone(), reason: error.to_string() };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
            let new = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
            fs::write(new.path(), &fetched).map_err(failed)?;
            new.persist(&path).map_err(|error| failed(error.error))?;
        }
        Ok(fetched)
    }

    fn cached_path(&self, source: &ApplicationSource, version: &str) -> PathBuf {
        let name = format!("{}\0{}\0{version}", self.address.key(), source.chart);
        let name = Digest(Sha256::digest(name.as_bytes()).into()).to_string();
        self.network.mirrors.join(FOLDER).join(format!("{name}.tgz"))
    }

    fn fetch(&self, source: &ApplicationSource, version: &str) -> Result<Vec<u8>, SourceError> {
        let tried = format!("cannot fetch chart {} {version}", self.display_name(source));
        let wrong = |problem| self.error(&tried, problem);
        let access = self.access()?;
        let begin = || self.network.attempts.start(self.network.limits.fetch);
        if let AddressKind::Registry(site) = self.address.kind() {
            let archive = |access: &AccessSettings| {
                Registry { site, access, network: &self.network, attempt: &begin() }.fetch_archive(version)
            };
            return self.network.with_token(&access, archive).map_err(wrong);
        }
        let mut listing = self.last_listing()?;
        if listing.index.release(&source.chart, version).is_none() {
            // The version may be newer than the last observation.
            self.observe()?;
            listing = self.last_listing()?;
        }
        if !listing.index.entries.contains_key(&source.chart) {
            return Err(self.chart_not_found(&listing.index, &source.chart));
        }
        let release =
            listing.index.release(&source.chart, version).ok_or_else(|| SourceError::NoVersion {
                repository: self.address.to_string(),
                chart: source.chart.clone(),
                version: version.to_owned(),
            })?;
        let Some(url) = release.urls.first() else {
            return Err(wrong(Problem::new("the index has no URL for this version")));
        };
        let base = self.address.to_string();
        let url =
            if url.contains("://") { url.clone() } else { format!("{base}/{}", url.trim_start_matches('/')) };
        let passes = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
        let address = if passes { url.as_str() } else { base.as_str() };
        let is_safe = url.starts_with("https://");
        let is_as_the_index = url.starts_with("http://") && base.starts_with("http://");
        if !is_safe && !is_as_the_index {
            return Err(wrong(Problem::new("the URL in the index does not use https://")));
        }
        let fetched = self.network.with_token(&access, |access| {
            let link = Link::for_address(address, access, &self.network, begin(), PACKED_BYTES_MAX)?;
            link.download(&url, &HeaderMap::new(), &[])
        });
        let content = fetched.map_err(wrong)?.content;
        if let Some(digest) = release.digest.as_ref().filter(|digest| !digest.is_empty()) {
            check_digest(&content, digest).map_err(wrong)?;
        }
        Ok(content)
    }
}

fn check_digest(content: &[u8], expected: &str) -> Result<(), Problem> {
    let found = Digest(Sha256::digest(content).into()).to_string();
    if expected.trim_start_matches("sha256:").eq_ignore_ascii_case(found.trim_start_matches("sha256:")) {
        return Ok(());
    }
    Err(Problem::new("the SHA-256 digest of the received archive does not match"))
}
