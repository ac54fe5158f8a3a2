//! Charts of Helm repositories and OCI registries.
//!
//! ```text
//! repoURL + chart ─ Address ─▶ ChartRepository ─ look ─▶ index.yaml, or tags ─ resolve(targetRevision) ─▶ version
//!                                     └── locate(version) ─▶ archive (kept in the state directory) ── read ─▶ helm template
//! ```

mod archive;
mod index;
mod registry;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use http::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;

use crate::address::Place;
use crate::credentials::Access;
use crate::helm;
use crate::looks::Looks;
use crate::making::Making;
use crate::purpose::Variables;
use crate::remote::{Fetched, Link, Network, Problem};
use crate::repository::File;
use crate::tools::Workshop;
use crate::{Address, SourceError, kind, versions};
pub(crate) use archive::Archive;
use archive::PACKED_MAX;
use index::Index;
use registry::Registry;

/// The folder of archives, beside the mirrors.
const FOLDER: &str = "charts";
/// So many names are told where the one that is meant is not there.
const NAMED: usize = 10;
/// Stands for the newest release.
const ANY: &str = "*";

/// What a look has shown.
#[derive(Clone, Debug, Default)]
struct Listing {
    index: Arc<Index>,
    /// By which the server knows it again.
    etag: Option<HeaderValue>,
}

type Seen = Result<Listing, SourceError>;

/// A Helm repository, or a chart of an OCI registry.
pub struct ChartRepository {
    address: Address,
    network: Arc<Network>,
    /// Addresses of this machine are not asked: charts alone name this repository.
    bars_loopback: AtomicBool,
    looks: Looks<Seen>,
}

/// A chart in one version, and what Helm is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedChart {
    /// The same content, made in the same way, has the same key.
    pub key: Digest,
    archive: Arc<Archive>,
    chart: String,
    plan: helm::Plan,
}

impl ChartRepository {
    pub(crate) fn new(address: Address, network: Arc<Network>) -> Self {
        let (bars_loopback, looks) = Default::default();
        Self { address, network, bars_loopback, looks }
    }

    /// Whether addresses of this machine are not asked from now on.
    pub(crate) fn bar_loopback(&self, is_barred: bool) {
        self.bars_loopback.store(is_barred, Ordering::Relaxed);
    }

    /// The `repoURL` that it was opened for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn wrong(&self, tried: &str, problem: Problem) -> SourceError {
        SourceError::remote(&self.address, tried, problem)
    }

    fn access(&self) -> Result<Access, SourceError> {
        let known = self.network.credentials.read().unwrap_or_else(PoisonError::into_inner).clone();
        let bars_loopback = self.bars_loopback.load(Ordering::Relaxed);
        Ok(Access { bars_loopback, ..known.access(&self.address)? })
    }

    /// Looks again at what is there. Says whether that has changed since the last look.
    pub fn look(&self) -> Result<bool, SourceError> {
        let (before, found) = self.see();
        let found = found?;
        Ok(!matches!(before, Some(Ok(before)) if before.index == found.index))
    }

    /// Looks again. Says whether anything has changed for those who use it, be it that nothing can be seen.
    pub fn look_again(&self) -> bool {
        match self.see() {
            (Some(Ok(before)), Ok(found)) => before.index != found.index,
            (Some(Err(before)), Err(found)) => before != found,
            _ => true,
        }
    }

    fn see(&self) -> (Option<Seen>, Seen) {
        self.looks.look(|known| self.list(known.and_then(Result::ok)))
    }

    fn list(&self, known: Option<Listing>) -> Seen {
        let access = self.access()?;
        let begin = || self.network.attempts.begin(self.network.limits.look);
        if let Place::Registry(site) = self.address.place() {
            let versions = |access: &Access| {
                Registry { site, access, network: &self.network, attempt: &begin() }.versions()
            };
            let found = self.network.asking(&access, versions);
            let found = found.map_err(|problem| self.wrong("its tags cannot be listed", problem))?;
            let releases = found.into_iter().map(|version| index::Release { version, ..Default::default() });
            let entries = [(String::new(), releases.collect())].into();
            return Ok(Listing { index: Arc::new(Index { entries }), etag: None });
        }
        let url = format!("{}/index.yaml", self.address);
        let mut headers = HeaderMap::new();
        let etag = known.as_ref().and_then(|known| known.etag.clone());
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
        let limit = self.network.limits.names_bytes;
        let fetched = self.network.asking(&access, |access| {
            let link = Link::to(&url, access, &self.network, begin(), limit)?;
            link.fetch(&url, &headers, &[StatusCode::NOT_MODIFIED])
        });
        let wrong = |problem| self.wrong("its index.yaml cannot be read", problem);
        let Fetched { status, headers, content } = fetched.map_err(wrong)?;
        match known {
            Some(known) if status == StatusCode::NOT_MODIFIED => Ok(known),
            _ => {
                let index = Arc::new(Index::read(&content).map_err(wrong)?);
                Ok(Listing { index, etag: headers.get(ETAG).cloned() })
            }
        }
    }

    fn listing(&self) -> Seen {
        self.looks.last().unwrap_or_else(|| self.see().1)
    }

    /// The name of a chart in what was listed: a registry lists one chart alone.
    fn listed<'s>(&self, source: &'s ApplicationSource) -> &'s str {
        if matches!(self.address.place(), Place::Registry(_)) { "" } else { &source.chart }
    }

    /// The name of a chart for people: an address may name it without `chart`.
    fn called<'s>(&'s self, source: &'s ApplicationSource) -> &'s str {
        match (self.address.place(), source.chart.as_str()) {
            (Place::Registry(site), "") => site.path.rsplit('/').next().unwrap_or_default(),
            (_, chart) => chart,
        }
    }

    /// The version a revision means: itself, or the newest that a constraint allows.
    pub fn resolve(&self, source: &ApplicationSource, revision: &str) -> Result<String, SourceError> {
        if versions::is_whole(revision) {
            return Ok(revision.to_owned());
        }
        let listing = self.listing()?;
        let Some(found) = listing.index.versions(self.listed(source)) else {
            return Err(self.no_chart(&listing.index, self.called(source)));
        };
        let wanted = if revision.is_empty() { ANY } else { revision };
        let all = || found.iter().map(String::as_str);
        // A version that is not whole means all that begin so.
        let newest =
            versions::newest(wanted, all()).or_else(|| versions::newest(&format!("={wanted}"), all()));
        newest.map(str::to_owned).ok_or_else(|| SourceError::NoVersion {
            repository: self.address.to_string(),
            chart: self.called(source).to_owned(),
            version: wanted.to_owned(),
        })
    }

    fn no_chart(&self, index: &Index, chart: &str) -> SourceError {
        let mut known: Vec<&str> = index.entries.keys().map(String::as_str).take(NAMED).collect();
        let more = index.entries.len().saturating_sub(known.len());
        let more = (more > 0).then(|| format!("and {more} more"));
        known.extend(more.as_deref());
        let known = known.join(", ");
        SourceError::NoSuchChart { repository: self.address.to_string(), chart: chart.to_owned(), known }
    }

    /// Fetches a chart in a version, and says what Helm is told of it.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        version: &str,
        making: &Making,
    ) -> Result<LocatedChart, SourceError> {
        if !matches!(kind::said(source)?, None | Some(kind::Kind::Helm)) {
            return Err(SourceError::NotOfCharts);
        }
        let packed = self.packed(source, version)?;
        let chart = self.called(source).to_owned();
        let name = format!("chart {chart} {version} of {}", self.address);
        let unpacked = Archive::unpack(name, &packed);
        let tried = format!("chart {chart} {version} cannot be used");
        let archive = Arc::new(unpacked.map_err(|problem| self.wrong(&tried, problem))?);
        let asked = (source.repo_url.as_str(), "", source.target_revision.as_str());
        let variables = Variables::new(&making.purpose, asked, version);
        let named = ApplicationSource { chart: chart.clone(), ..source.clone() };
        let mut plan = helm::Plan::new(&named, ("", archive.as_ref()), (making, &variables))?;
        plan.fetch(making)?;
        let mut hasher = Sha256::new();
        hasher.update(Sha256::digest(&packed));
        plan.digest(&mut hasher);
        Ok(LocatedChart { key: Digest(hasher.finalize().into()), archive, chart, plan })
    }

    /// Makes the manifests of a chart.
    pub fn read(&self, located: &LocatedChart, making: &Making) -> Result<Vec<File>, SourceError> {
        let workshop = Workshop::open(&making.tools)?;
        for (path, content) in &located.archive.files {
            workshop.put(&format!("chart/{path}"), content)?;
        }
        located.plan.make(&workshop, "chart", making)
    }

    /// The archive of a version: as it is kept, or else from the server.
    pub(crate) fn packed(&self, source: &ApplicationSource, version: &str) -> Result<Vec<u8>, SourceError> {
        let path = self.kept(source, version);
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

    fn kept(&self, source: &ApplicationSource, version: &str) -> PathBuf {
        let name = format!("{}\0{}\0{version}", self.address.key(), source.chart);
        let name = Digest(Sha256::digest(name.as_bytes()).into()).to_string();
        self.network.mirrors.join(FOLDER).join(format!("{name}.tgz"))
    }

    fn fetch(&self, source: &ApplicationSource, version: &str) -> Result<Vec<u8>, SourceError> {
        let tried = format!("chart {} {version} cannot be fetched", self.called(source));
        let wrong = |problem| self.wrong(&tried, problem);
        let access = self.access()?;
        let begin = || self.network.attempts.begin(self.network.limits.fetch);
        if let Place::Registry(site) = self.address.place() {
            let archive = |access: &Access| {
                Registry { site, access, network: &self.network, attempt: &begin() }.archive(version)
            };
            return self.network.asking(&access, archive).map_err(wrong);
        }
        let mut listing = self.listing()?;
        if listing.index.release(&source.chart, version).is_none() {
            // It may be newer than the last look.
            self.look()?;
            listing = self.listing()?;
        }
        if !listing.index.entries.contains_key(&source.chart) {
            return Err(self.no_chart(&listing.index, &source.chart));
        }
        let release =
            listing.index.release(&source.chart, version).ok_or_else(|| SourceError::NoVersion {
                repository: self.address.to_string(),
                chart: source.chart.clone(),
                version: version.to_owned(),
            })?;
        let Some(url) = release.urls.first() else {
            return Err(wrong(Problem::new("the index does not say where it is")));
        };
        let base = self.address.to_string();
        let url =
            if url.contains("://") { url.clone() } else { format!("{base}/{}", url.trim_start_matches('/')) };
        let passes = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
        let meant = if passes { url.as_str() } else { base.as_str() };
        let is_safe = url.starts_with("https://");
        let is_as_the_index = url.starts_with("http://") && base.starts_with("http://");
        if !is_safe && !is_as_the_index {
            return Err(wrong(Problem::new("the index names a place that is not asked by https")));
        }
        let fetched = self.network.asking(&access, |access| {
            let link = Link::to(meant, access, &self.network, begin(), PACKED_MAX)?;
            link.fetch(&url, &HeaderMap::new(), &[])
        });
        let content = fetched.map_err(wrong)?.content;
        if let Some(digest) = release.digest.as_ref().filter(|digest| !digest.is_empty()) {
            check_digest(&content, digest).map_err(wrong)?;
        }
        Ok(content)
    }
}

/// Holds what was fetched against its digest.
fn check_digest(content: &[u8], expected: &str) -> Result<(), Problem> {
    let found = Digest(Sha256::digest(content).into()).to_string();
    if expected.trim_start_matches("sha256:").eq_ignore_ascii_case(found.trim_start_matches("sha256:")) {
        return Ok(());
    }
    Err(Problem::new("what the server sends is not what it says: the digest is another one"))
}
