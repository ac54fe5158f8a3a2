//! What manifests need beside their own source: remote bases and files of kustomizations, and charts that charts need.
//!
//! ```text
//! entry of a kustomization ──▶ kustomize::remote ─┐                                    ┌─▶ Repository (mirrors)
//! dependency of a chart ─────▶ helm::dependencies ┴─▶ Fetching: allowed? permitted? ───┼─▶ ChartRepository
//!                                                     signed? by the last look        └─▶ WebFile
//! ```
//!
//! Nothing is fetched but what `serve` allows and the project permits. The programs that make manifests fetch nothing: what
//! they need is put into their private folder before they begin.

mod allowed;
mod web_file;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::Timestamp;
use tidegate_model::argo::ApplicationSource;
use tidegate_web::{Barred, is_this_machine};

use crate::address::{Place, Site};
use crate::repository::Repository;
use crate::{Address, Repositories, SourceError, Wanted};
pub use allowed::{Allowed, BadPrefix, Prefix};
pub(crate) use web_file::WebFile;

/// Whether a project permits a repository; why it does not.
pub type Permits = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// Something that manifests were made with, beside their own source.
#[derive(Clone, Debug, PartialEq)]
pub struct Used {
    /// Where it is from.
    pub address: Address,
    /// The same as a source: a chart, or the branch, tag or commit of a repository.
    pub source: ApplicationSource,
}

/// What may be fetched for the manifests of one application, and what was.
pub struct Fetching {
    repositories: Arc<Repositories>,
    allowed: Arc<Allowed>,
    /// The project of the application.
    project: String,
    permits: Permits,
    /// By whom commits have to be signed, and when that is asked.
    signed: Option<(Wanted, Timestamp)>,
    used: Mutex<BTreeMap<(Address, String), Used>>,
}

/// Why something is not fetched, or could not be.
pub(crate) enum Refusal {
    /// Nobody has allowed it.
    NotAllowed,
    /// It is not to be had: why.
    Problem(String),
}

impl From<SourceError> for Refusal {
    fn from(error: SourceError) -> Self {
        Self::Problem(error.to_string())
    }
}

impl fmt::Debug for Fetching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetching").field("allowed", &self.allowed).finish_non_exhaustive()
    }
}

impl Fetching {
    /// Fetches what is allowed, as far as the project permits it; with `signed`, only commits that are signed so.
    pub fn new(
        (repositories, allowed): (Arc<Repositories>, Arc<Allowed>),
        (project, permits): (String, Permits),
        signed: Option<(Wanted, Timestamp)>,
    ) -> Self {
        Self { repositories, allowed, project, permits, signed, used: Mutex::default() }
    }

    /// What was asked for until now, be it that it was not to be had.
    pub fn used(&self) -> Vec<Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn note(&self, address: &Address, source: ApplicationSource) {
        let key = (address.clone(), source.target_revision.clone());
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.insert(key, Used { address: address.clone(), source });
    }

    /// A repository as the project has it.
    fn as_of(&self, address: Address) -> Address {
        self.repositories.as_of(address, &self.project)
    }

    /// Whether something may be fetched, and whether addresses of this machine are barred on the way there.
    fn may(&self, (address, url): (&Address, &str), prefixes: &[Prefix]) -> Result<bool, Refusal> {
        let Some(site) = address.site() else { return Err(Refusal::NotAllowed) };
        let Some(names_this_machine) = allowed::allows(prefixes, address) else {
            return Err(Refusal::NotAllowed);
        };
        check_path(site)?;
        let barred =
            Barred { link_local: !self.repositories.asks_link_local(), loopback: !names_this_machine };
        if barred.loopback && is_this_machine(&site.host) {
            return Err(Refusal::Problem(tidegate_web::LOOPBACK.to_owned()));
        }
        if let Some(reason) = barred.reason_of_host(&site.host) {
            return Err(Refusal::Problem(reason.to_owned()));
        }
        (self.permits)(url).map_err(Refusal::Problem)?;
        Ok(barred.loopback)
    }

    /// Whether any remote base may be fetched at all.
    pub(crate) fn allows_bases(&self) -> bool {
        !self.allowed.bases.is_empty()
    }

    /// Whether any chart may be fetched for another one.
    pub(crate) fn allows_charts(&self) -> bool {
        !self.allowed.charts.is_empty()
    }

    /// The repository of a remote base, and the commit that is meant there.
    pub(crate) fn base(&self, url: &str, revision: &str) -> Result<(Arc<Repository>, String), Refusal> {
        let address = self.as_of(Address::parse(url, Path::new("/"))?);
        let is_barred = self.may((&address, url), &self.allowed.bases)?;
        let repository = self.repositories.open_fetched(&address, url, is_barred)?;
        self.note(
            &address,
            ApplicationSource {
                repo_url: url.to_owned(),
                target_revision: revision.to_owned(),
                ..ApplicationSource::default()
            },
        );
        let commit = repository.resolve_name(revision)?;
        if let Some((wanted, now)) = &self.signed {
            // A name may mean an annotated tag, and no constraint.
            let tag = format!("{}{revision}", crate::refs::TAGS);
            self.repositories.check_signed_in(&repository, (&commit, &[&tag]), (wanted, *now))?;
        }
        Ok((repository, commit))
    }

    /// A file of a server.
    pub(crate) fn file(&self, url: &str) -> Result<Arc<Vec<u8>>, Refusal> {
        let address = Address::of_file(url)?;
        let is_barred = self.may((&address, url), &self.allowed.bases)?;
        self.refuse_unsigned("a file of a server")?;
        let file = self.repositories.open_file(&address, is_barred)?;
        let source = ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() };
        self.note(&address, source);
        Ok(file.content()?)
    }

    /// The packed chart that another one needs, and its version.
    pub(crate) fn chart(&self, source: &ApplicationSource) -> Result<(String, Vec<u8>), Refusal> {
        let url = source.repo_url.as_str();
        let address = self.as_of(Address::of_chart(url, &source.chart)?);
        let is_barred = self.may((&address, url), &self.allowed.charts)?;
        self.refuse_unsigned("a chart")?;
        let charts = self.repositories.open_charts(&address, Some(is_barred))?;
        self.note(&address, source.clone());
        let version = charts.resolve(source, &source.target_revision)?;
        let packed = charts.packed(source, &version)?;
        Ok((version, packed))
    }

    /// The address of the Helm repository that a repository Secret gives a name to.
    pub(crate) fn named_charts(&self, name: &str) -> Option<String> {
        self.repositories.named_charts(name, &self.project)
    }

    fn refuse_unsigned(&self, what: &str) -> Result<(), Refusal> {
        match &self.signed {
            None => Ok(()),
            Some((wanted, _)) => Err(Refusal::Problem(format!(
                "project '{}' has signatureKeys, and {what} has no signature that is checked; copy it into the repository",
                wanted.project()
            ))),
        }
    }
}

/// Refuses a path that a server may read as another one than it looks.
fn check_path(site: &Site) -> Result<(), Refusal> {
    let lower = site.path.to_ascii_lowercase();
    match ["%2e", "%2f", "%5c", "%00"].iter().find(|hidden| lower.contains(**hidden)) {
        Some(hidden) => {
            Err(Refusal::Problem(format!("it has {hidden} in its path, which servers read in several ways")))
        }
        None => Ok(()),
    }
}

impl Address {
    pub(crate) fn site(&self) -> Option<&Site> {
        match self.place() {
            Place::Local(_) => None,
            Place::Http(site)
            | Place::Ssh(site)
            | Place::Charts(site)
            | Place::Registry(site)
            | Place::File(site) => Some(site),
        }
    }
}
