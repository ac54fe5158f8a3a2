//! Manifests from sources. They are read in blocking threads, and identical content is parsed only once.

mod files;
mod observation;
mod read_limit;
mod rendering;
mod source_revisions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_application::sources::Sources;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::ApplicationSource;
use tidegate_planner::Target;
use tidegate_scm::Web;
use tidegate_source::{
    Address, AddressContext, AllowedSources, Cache, Credentials, File, RemoteAccess, Repositories,
    RequiredKeys, SignatureCheck, Tools, UsedDependency,
};

pub use self::observation::RevisionLookup;
pub(crate) use self::rendering::{RenderError, have_same_objects};
pub use self::rendering::{RenderedManifests, have_same_manifests};
pub use self::source_revisions::SourceProblem;

use self::read_limit::ReadLimit;
use self::source_revisions::{SourceRevision, pair_revisions};
use super::fetched_dependencies::FetchedDependencies;
use super::repositories::RepositoryFiles;
use crate::generator_inputs::Providers;

/// Maximum size of cached parsed manifests, in bytes of text. They take several times as much memory.
const PARSED_BYTES_MAX: usize = 8 << 20;
/// Maximum size of cached rendered manifests, in bytes. Enough for thousands of Applications.
const RENDERED_BYTES_MAX: usize = 64 << 20;
/// Time after which unused parsed manifests are dropped. Dropping them may take up to twice this time.
const UNUSED_AFTER: Duration = Duration::from_secs(30);

/// Settings for manifest sources.
#[derive(Clone, Debug, Default)]
pub struct SourceSettings {
    /// Files with repository credentials.
    pub files: Option<RepositoryFiles>,
    /// Namespace of the Secrets with repository credentials.
    pub secrets: Option<String>,
    /// Path of the Helm binary [default: `helm` on the `PATH`].
    pub helm: Option<PathBuf>,
    /// Path of the Kustomize binary [default: `kustomize` or `kubectl` on the `PATH`].
    pub kustomize: Option<PathBuf>,
    /// Dependencies that manifests may use from outside their own source.
    pub allowed: AllowedSources,
    /// Servers that ApplicationSet generators may contact over HTTP.
    pub providers: Providers,
}

/// The manifests of all sources.
pub struct Manifests {
    repositories: Arc<Repositories>,
    /// Base directory for relative URLs.
    base: PathBuf,
    /// Files with repository credentials.
    files: Option<RepositoryFiles>,
    /// Credentials from the cluster.
    cluster_credentials: Mutex<Credentials>,
    /// Repositories that generators use, by ApplicationSet. Content fetched from these repositories isn't
    /// deleted.
    generator_repositories: Mutex<BTreeMap<AppKey, BTreeSet<Address>>>,
    /// HTTP client for SCM providers and plugins, together with the permitted servers.
    web: Web,
    providers: Providers,
    tools: Tools,
    allowed: Arc<AllowedSources>,
    /// Dependencies that were fetched in addition to the sources.
    fetched: FetchedDependencies,
    rendered: Cache<Vec<File>>,
    parsed: Cache<Vec<Target>>,
    read_limit: ReadLimit,
    /// True if the signature keys have changed since all repositories were last observed. Rejected commits
    /// may then be valid.
    have_keys_changed: AtomicBool,
}

impl Manifests {
    /// Creates an instance without cached content. `working` is the working directory for Helm and Kustomize.
    pub fn new(base: PathBuf, reach: RemoteAccess, working: PathBuf, sourcing: SourceSettings) -> Self {
        let SourceSettings { files, helm, kustomize, providers, allowed, .. } = sourcing;
        let mut tools = Tools::new(working);
        (tools.helm, tools.kustomize) = (helm, kustomize);
        if !Tools::are_confined() {
            tracing::warn!(
                "Helm and Kustomize are not sandboxed on this system (Landlock on Linux is required): a repository that bypasses the path \
                 checks could read files on this machine"
            );
        }
        let repositories = Arc::new(Repositories::new(reach));
        let (rendered, parsed) = (Cache::new(RENDERED_BYTES_MAX), Cache::new(PARSED_BYTES_MAX));
        let (cluster_credentials, generator_repositories, web, read_limit, have_keys_changed) =
            Default::default();
        let (allowed, fetched) = (Arc::new(allowed), FetchedDependencies::default());
        Self {
            repositories,
            base,
            files,
            cluster_credentials,
            generator_repositories,
            web,
            providers,
            tools,
            allowed,
            fetched,
            rendered,
            parsed,
            read_limit,
            have_keys_changed,
        }
    }

    /// Starts a task that drops unused parsed manifests. Idle Applications don't need them, and parsing them
    /// again is fast. The task stops when this value is dropped.
    pub fn drop_unused(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UNUSED_AFTER).await;
                let Some(this) = this.upgrade() else { return };
                this.parsed.forget_unused();
            }
        });
    }

    /// Returns the repositories, and the base directory for relative URLs.
    pub fn repositories(&self) -> (Arc<Repositories>, PathBuf) {
        (Arc::clone(&self.repositories), self.base.clone())
    }

    /// Returns the files with repository credentials. They may also contain other Secrets and ConfigMaps.
    pub fn files(&self) -> Option<&RepositoryFiles> {
        self.files.as_ref()
    }

    /// Returns the HTTP client for SCM providers and plugins.
    pub fn web(&self) -> &Web {
        &self.web
    }

    /// Returns the permitted SCM providers and plugins.
    pub fn providers(&self) -> &Providers {
        &self.providers
    }

    /// Sets the repositories that an ApplicationSet's generators use. The set is empty if the ApplicationSet
    /// was deleted.
    pub fn set_generator_repositories(&self, set: AppKey, repositories: BTreeSet<Address>) {
        let mut used = self.generator_repositories.lock().unwrap_or_else(PoisonError::into_inner);
        match repositories.is_empty() {
            true => drop(used.remove(&set)),
            false => drop(used.insert(set, repositories)),
        }
    }

    /// Reads the repository credentials and the signature keys again. If reading fails, the previous
    /// credentials and keys remain in use.
    pub fn read_credentials(&self) {
        let mut credentials = match self.files.as_ref().map(RepositoryFiles::read).transpose() {
            Ok(credentials) => credentials.unwrap_or_default(),
            Err(error) => {
                return tracing::warn!(%error, "failed to read repository credentials; using the previous credentials");
            }
        };
        credentials.merge(&self.cluster_credentials.lock().unwrap_or_else(PoisonError::into_inner));
        if self.repositories.set_credentials(credentials) {
            self.have_keys_changed.store(true, Ordering::Relaxed);
        }
    }

    /// Sets the credentials from the cluster.
    pub fn set_credentials(&self, credentials: Credentials) {
        *self.cluster_credentials.lock().unwrap_or_else(PoisonError::into_inner) = credentials;
        self.read_credentials();
    }

    /// Cancels requests to servers and stops running programs.
    pub fn stop(&self) {
        self.repositories.stop();
        self.web.stop();
        self.tools.stop();
    }

    /// Waits for read permits, and then calls a function with all sources in a blocking thread.
    async fn with_sources<T: Send + 'static, E: From<String> + Send + 'static>(
        &self,
        sources: &Sources,
        project: &str,
        revisions: Vec<String>,
        work: impl FnOnce(&[SourceRevision]) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let parts = pair_revisions(sources, project, revisions);
        let repositories = sources.as_slice().iter().filter_map(|one| self.address(one, project)).collect();
        let permits = self.read_limit.acquire(repositories).await;
        let fault =
            |error| Err(E::from(format!("reading the repository failed with an internal error: {error}")));
        let resolve = move || {
            let done = work(&parts);
            // Release the permits only once the work is done, even if the caller is canceled.
            drop(permits);
            done
        };
        tokio::task::spawn_blocking(resolve).await.unwrap_or_else(fault)
    }

    /// Returns a source's repository address, resolved for the source's project.
    pub fn address(&self, source: &ApplicationSource, project: &str) -> Option<Address> {
        self.repositories.address(source, AddressContext { base: &self.base, project }).ok()
    }

    /// Returns the dependencies that were fetched for an Application in addition to its sources.
    pub fn dependencies_of(&self, key: &AppKey) -> Vec<UsedDependency> {
        self.fetched.get(key)
    }

    /// Deletes fetched content, except from repositories that these sources, these Applications or any
    /// generators use.
    pub async fn retain_content(
        self: &Arc<Self>,
        applications: BTreeSet<AppKey>,
        sources: Vec<(ApplicationSource, String)>,
    ) {
        let this = Arc::clone(self);
        let keep = move || {
            this.fetched.retain(&applications);
            let repositories =
                this.generator_repositories.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let used = sources.iter().filter_map(|(source, project)| this.address(source, project));
            let used =
                used.chain(repositories.into_values().flatten()).chain(this.fetched.addresses()).collect();
            this.repositories.keep_only(&used);
        };
        drop(tokio::task::spawn_blocking(keep).await);
    }

    /// Rejects commits without the signatures that the project requires. The commits are in source order.
    /// `names` are the requested revisions, if they differ from the sources' own.
    pub async fn check_signatures(
        self: &Arc<Self>,
        sources: &Sources,
        project: &str,
        commits: &[String],
        names: Vec<String>,
        wanted: Option<RequiredKeys>,
    ) -> Result<(), String> {
        let Some(wanted) = wanted else { return Ok(()) };
        let (this, now) = (Arc::clone(self), SystemClock.now());
        self.with_sources(sources, project, commits.to_vec(), move |sources| {
            for (at, one) in sources.iter().enumerate() {
                let named = names.get(at).map(String::as_str);
                let names: Vec<&str> =
                    named.into_iter().chain([one.source.target_revision.as_str()]).collect();
                let check = SignatureCheck { commit: &one.revision, names: &names, keys: &wanted, now };
                one.with_error_context(|| {
                    this.repositories.check_signed(&one.source, one.address_context(&this.base), check)
                })?;
            }
            Ok(())
        })
        .await
    }
}
