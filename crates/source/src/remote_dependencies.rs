//! Remote dependencies of manifests: remote bases and files of kustomizations, and dependencies of charts.
//!
//! ```text
//! entry of a kustomization ──▶ kustomize ─────────┐                         ┌─▶ Repository (mirrors)
//! dependency of a chart ─────▶ helm::dependencies ┴─▶ DependencyFetcher: ───┼─▶ ChartRepository
//!                                          allowed? permitted? signed?      └─▶ WebFile
//! ```
//!
//! A dependency is fetched only if an option of `serve` allows its address and the project permits it. Helm
//! and Kustomize never fetch anything: all the files they need are in their private folder before they start.

mod allowed_sources;
mod web_file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_web::{BlockedAddresses, is_local_host};

use crate::address::{AddressKind, RemoteLocation};
use crate::repository::Repository;
use crate::{Address, Repositories, RequiredKeys, SignatureCheck, SourceError};
pub use allowed_sources::{AllowedSources, InvalidPrefix, Prefix};
pub(crate) use web_file::WebFile;

/// Check of a repository. Returns the reason if the project doesn't permit it.
pub type RepositoryPermission = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// A remote dependency used to render manifests.
#[derive(Clone, Debug, PartialEq)]
pub struct UsedDependency {
    /// Address of the dependency.
    pub address: Address,
    /// The dependency as a source: either a chart, or a revision of a repository.
    pub source: ApplicationSource,
}

/// Fetcher of an Application's remote dependencies. Records which ones were used.
pub struct DependencyFetcher {
    repositories: Arc<Repositories>,
    allowed: Arc<AllowedSources>,
    /// Project of the Application.
    project: String,
    is_permitted: RepositoryPermission,
    /// Keys that fetched commits must be signed with, and the time for checking their expiry.
    required_signatures: Option<(RequiredKeys, Timestamp)>,
    used: Mutex<BTreeMap<(Address, String), UsedDependency>>,
}

/// Reason for not fetching a dependency.
pub(crate) enum FetchRefusal {
    /// The options of `serve` don't allow the address.
    NotAllowed,
    /// The fetch failed, or the project doesn't permit the dependency.
    Problem(String),
}

impl From<SourceError> for FetchRefusal {
    fn from(error: SourceError) -> Self {
        Self::Problem(error.to_string())
    }
}

impl fmt::Debug for DependencyFetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetching").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl DependencyFetcher {
    /// Creates a fetcher. `allowed` lists what `serve` allows, and `permits` checks what the project permits.
    /// If `signed` is set, fetched commits must have a valid signature.
    pub fn new(
        repositories: Arc<Repositories>,
        allowed: Arc<AllowedSources>,
        project: String,
        permits: RepositoryPermission,
        signed: Option<(RequiredKeys, Timestamp)>,
    ) -> Self {
        Self {
            repositories,
            allowed,
            project,
            is_permitted: permits,
            required_signatures: signed,
            used: Mutex::default(),
        }
    }

    /// Returns the dependencies requested so far, including unavailable ones.
    pub fn used_dependencies(&self) -> Vec<UsedDependency> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn record_use(&self, address: &Address, source: ApplicationSource) {
        let key = (address.clone(), source.target_revision.clone());
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(key, UsedDependency { address: address.clone(), source });
    }

    /// Returns the address as seen by the Application's project.
    fn address_for_project(&self, address: Address) -> Address {
        self.repositories.address_for_project(address, &self.project)
    }

    /// Fails unless the dependency is allowed and permitted. Returns true if redirects to loopback addresses
    /// must be blocked.
    fn check_allowed(&self, address: &Address, url: &str, prefixes: &[Prefix]) -> Result<bool, FetchRefusal> {
        let Some(site) = address.site() else { return Err(FetchRefusal::NotAllowed) };
        let Some(names_this_machine) = allowed_sources::find_allowed(prefixes, address) else {
            return Err(FetchRefusal::NotAllowed);
        };
        check_path(site)?;
        let barred = BlockedAddresses {
            link_local: !self.repositories.allows_link_local(),
            loopback: !names_this_machine,
        };
        if barred.loopback && is_local_host(&site.host) {
            return Err(FetchRefusal::Problem(tidegate_web::LOOPBACK_REASON.to_owned()));
        }
        if let Some(reason) = barred.blocked_host_reason(&site.host) {
            return Err(FetchRefusal::Problem(reason.to_owned()));
        }
        (self.is_permitted)(url).map_err(FetchRefusal::Problem)?;
        Ok(barred.loopback)
    }

    /// Returns true if any remote bases are allowed.
    pub(crate) fn allows_bases(&self) -> bool {
        !self.allowed.bases.is_empty()
    }

    /// Returns true if any chart dependencies are allowed.
    pub(crate) fn allows_charts(&self) -> bool {
        !self.allowed.charts.is_empty()
    }

    /// Opens the repository of a remote base and resolves the revision to a commit.
    pub(crate) fn fetch_base(
        &self,
        url: &str,
        revision: &str,
    ) -> Result<(Arc<Repository>, String), FetchRefusal> {
        let address = self.address_for_project(Address::parse(url, Path::new("/"))?);
        let is_barred = self.check_allowed(&address, url, &self.allowed.bases)?;
        let repository = self.repositories.open_fetched(&address, url, is_barred)?;
        self.record_use(
            &address,
            ApplicationSource {
                repo_url: url.to_owned(),
                target_revision: revision.to_owned(),
                ..ApplicationSource::default()
            },
        );
        let commit = repository.resolve_name(revision)?;
        if let Some((wanted, now)) = &self.required_signatures {
            // The name may be an annotated tag. Version constraints aren't supported here.
            let tag = format!("{}{revision}", crate::refs::TAGS);
            let check = SignatureCheck { commit: &commit, names: &[&tag], keys: wanted, now: *now };
            self.repositories.check_signed_in(&repository, check)?;
        }
        Ok((repository, commit))
    }

    /// Returns the content of a file on a server.
    pub(crate) fn fetch_file(&self, url: &str) -> Result<Arc<Vec<u8>>, FetchRefusal> {
        let address = Address::parse_file(url)?;
        let is_barred = self.check_allowed(&address, url, &self.allowed.bases)?;
        self.reject_unsigned("a remote file")?;
        let file = self.repositories.open_file(&address, is_barred)?;
        let source = ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() };
        self.record_use(&address, source);
        Ok(file.content()?)
    }

    /// Fetches a chart that another chart depends on, and returns its version and archive.
    pub(crate) fn fetch_chart(&self, source: &ApplicationSource) -> Result<(String, Vec<u8>), FetchRefusal> {
        let url = source.repo_url.as_str();
        let address = self.address_for_project(Address::parse_chart(url, &source.chart)?);
        let is_barred = self.check_allowed(&address, url, &self.allowed.charts)?;
        self.reject_unsigned("a chart")?;
        let charts = self.repositories.open_charts(&address, Some(is_barred))?;
        self.record_use(&address, source.clone());
        let version = charts.resolve(source, &source.target_revision)?;
        let packed = charts.fetch_archive(source, &version)?;
        Ok((version, packed))
    }

    /// Returns the address of the Helm repository that a repository Secret declares under this name.
    pub(crate) fn find_chart_repository(&self, name: &str) -> Option<String> {
        self.repositories.find_chart_repository(name, &self.project)
    }

    fn reject_unsigned(&self, what: &str) -> Result<(), FetchRefusal> {
        match &self.required_signatures {
            None => Ok(()),
            Some((wanted, _)) => Err(FetchRefusal::Problem(format!(
                "project '{}' has signatureKeys, and the signature of {what} cannot be verified; copy the \
                 files into the repository",
                wanted.project()
            ))),
        }
    }
}

/// Fails if servers could interpret the path differently.
fn check_path(site: &RemoteLocation) -> Result<(), FetchRefusal> {
    let lower = site.path.to_ascii_lowercase();
    match ["%2e", "%2f", "%5c", "%00"].iter().find(|hidden| lower.contains(**hidden)) {
        Some(hidden) => Err(FetchRefusal::Problem(format!(
            "the path contains {hidden}, which servers interpret in different ways; use a path without escapes"
        ))),
        None => Ok(()),
    }
}

impl Address {
    pub(crate) fn site(&self) -> Option<&RemoteLocation> {
        match self.kind() {
            AddressKind::Local(_) => None,
            AddressKind::Http(site)
            | AddressKind::Ssh(site)
            | AddressKind::Charts(site)
            | AddressKind::Registry(site)
            | AddressKind::File(site) => Some(site),
        }
    }
}
