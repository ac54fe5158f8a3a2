//! Manifests from sources. They are read in blocking threads, and identical content is parsed only once.

mod files;
mod read_limit;
mod revision_resolution;
mod source_revisions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_application::sources::Sources;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;
use tidegate_planner::Target;
use tidegate_planner::manifests::{self, parse};
use tidegate_scm::Web;
use tidegate_source::{
    Address, AddressContext, AllowedSources, Cache, Credentials, FailureCause, File, LocatedSource,
    OpenSource, Origin, ReferencedSource, RemoteAccess, RenderInputs, Repositories, RequiredKeys,
    SignatureCheck, SourceError, Tools, UsedDependency,
};

use self::files::{FileKind, classify};
use self::read_limit::ReadLimit;
pub use self::revision_resolution::RevisionLookup;
pub use self::source_revisions::SourceProblem;
use tidegate_application::AppKey;

use self::source_revisions::{SourceRevision, pair_revisions};
use super::fetched_dependencies::{FetchedDependencies, RenderContext};
use super::repositories::RepositoryFiles;
use crate::generator_inputs::Providers;

/// Maximum size of cached parsed manifests, in bytes of text. They take several times as much memory.
const PARSED_BYTES_MAX: usize = 8 << 20;
/// Maximum size of cached rendered manifests, in bytes. Enough for thousands of Applications.
const RENDERED_BYTES_MAX: usize = 64 << 20;
/// Time after which unused parsed manifests are dropped. Dropping them may take up to twice this time.
const UNUSED_AFTER: Duration = Duration::from_secs(30);
/// Type of a source without manifests, which only provides files for other sources.
const REFERENCE_TYPE: &str = "Directory";

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

/// Sources, and their Application's project.
pub type ProjectSources<'s> = (&'s Sources, &'s str);

/// Combined manifests of all sources.
pub struct RenderedManifests {
    /// Rendered manifests.
    pub targets: Arc<Vec<Target>>,
    /// Type of each source.
    pub types: Vec<String>,
    /// Dependencies that were fetched in addition to the sources.
    pub fetched: Vec<UsedDependency>,
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
        (sources, project): ProjectSources<'_>,
        revisions: Vec<String>,
        work: impl FnOnce(&[SourceRevision]) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let parts = pair_revisions((sources, project), revisions);
        let repositories = sources.as_slice().iter().filter_map(|one| self.address(one, project)).collect();
        let turns = self.read_limit.acquire(repositories).await;
        let fault =
            |error| Err(E::from(format!("reading the repository failed with an internal error: {error}")));
        let resolve = move || {
            let done = work(&parts);
            // Release the permits only once the work is done, even if the caller is canceled.
            drop(turns);
            done
        };
        tokio::task::spawn_blocking(resolve).await.unwrap_or_else(fault)
    }

    /// Returns a source's repository address, resolved for the source's project.
    pub fn address(&self, source: &ApplicationSource, project: &str) -> Option<Address> {
        self.repositories.address(source, AddressContext { base: &self.base, project }).ok()
    }

    /// Observes every repository once, or only the repository at `only`. Returns the repositories whose refs
    /// or readability have changed.
    pub async fn observe(self: &Arc<Self>, only: Option<Address>) -> Vec<Address> {
        let this = Arc::clone(self);
        let look = move || {
            this.read_credentials();
            let is_meant = |one: &OpenSource| only.as_ref().is_none_or(|only| one.address() == only);
            let has_other_keys = only.is_none() && this.have_keys_changed.swap(false, Ordering::Relaxed);
            let is_news = |one: &OpenSource| one.observe_availability() || has_other_keys;
            let all =
                this.repositories.open_sources().into_iter().filter(|one| is_meant(one) && is_news(one));
            all.map(|repository| repository.address().clone()).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
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
        of: ProjectSources<'_>,
        commits: &[String],
        names: Vec<String>,
        wanted: Option<RequiredKeys>,
    ) -> Result<(), String> {
        let Some(wanted) = wanted else { return Ok(()) };
        let (this, now) = (Arc::clone(self), SystemClock.now());
        self.with_sources(of, commits.to_vec(), move |sources| {
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

    /// Returns keys for the sources' manifests at these revisions. Different manifests have different keys.
    pub async fn manifest_keys(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        context: RenderContext,
    ) -> Result<Vec<Digest>, SourceProblem> {
        let (this, project) = (Arc::clone(self), context.purpose.project.clone());
        self.with_sources((sources, &project), revisions.to_vec(), move |sources| {
            let making = this.render_inputs(sources, &context)?;
            let has_manifests = |one: &&SourceRevision| !one.is_reference_only();
            let locate = |one: &SourceRevision| {
                one.with_error_context(|| {
                    let repository =
                        this.repositories.origin(&one.source, one.address_context(&this.base))?;
                    Ok::<_, SourceError>(repository.locate(&one.source, &one.revision, &making)?.key())
                })
            };
            let keys = sources.iter().filter(has_manifests).map(locate).collect::<Result<_, SourceProblem>>();
            this.record_dependencies(&context, &making, keys.is_ok());
            keys
        })
        .await
    }

    /// Records the dependencies that were fetched in addition to the sources, so that they are observed too.
    fn record_dependencies(
        &self,
        context: &RenderContext,
        making: &RenderInputs,
        is_whole: bool,
    ) -> Vec<UsedDependency> {
        let used =
            making.dependencies.as_ref().map(|fetching| fetching.used_dependencies()).unwrap_or_default();
        self.fetched.record(&context.key, used.clone(), is_whole);
        used
    }

    /// Returns the input for rendering.
    fn render_inputs(
        &self,
        sources: &[SourceRevision],
        context: &RenderContext,
    ) -> Result<RenderInputs, SourceProblem> {
        let fetching = context.dependency_fetcher(&self.repositories, &self.allowed);
        let mut making = RenderInputs {
            tools: self.tools.clone(),
            purpose: context.purpose.clone(),
            dependencies: Some(Arc::new(fetching)),
            ..RenderInputs::default()
        };
        for one in sources.iter().filter(|one| !one.source.reference.is_empty()) {
            let repository = one.with_error_context(|| {
                self.repositories.open(&one.source.repo_url, one.address_context(&self.base))
            })?;
            let referred = ReferencedSource { repository, commit: one.revision.clone() };
            making.referenced.insert(one.source.reference.clone(), referred);
        }
        Ok(making)
    }

    /// Returns an Application's manifests at these revisions, in source order.
    pub async fn targets(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        context: RenderContext,
        ignores_cache: bool,
    ) -> Result<RenderedManifests, SourceProblem> {
        let (this, project) = (Arc::clone(self), context.purpose.project.clone());
        self.with_sources((sources, &project), revisions.to_vec(), move |sources| {
            let making = this.render_inputs(sources, &context)?;
            let read = |one: &SourceRevision| {
                one.with_error_context(|| this.read_source(one, &making, ignores_cache))
            };
            let found = sources.iter().map(read).collect::<Result<Vec<_>, SourceProblem>>();
            let fetched = this.record_dependencies(&context, &making, found.is_ok());
            let (all, types): (Vec<_>, Vec<_>) = found?.into_iter().unzip();
            let types = types.into_iter().map(str::to_owned).collect();
            let targets = match all.as_slice() {
                [only] => Arc::clone(only),
                several => Arc::new(several.iter().flat_map(|one| one.iter().cloned()).collect()),
            };
            Ok(RenderedManifests { targets, types, fetched })
        })
        .await
    }

    fn read_source(
        &self,
        part: &SourceRevision,
        making: &RenderInputs,
        ignores_cache: bool,
    ) -> Result<(Arc<Vec<Target>>, &'static str), SourceProblem> {
        if part.is_reference_only() {
            return Ok((Arc::default(), REFERENCE_TYPE));
        }
        let SourceRevision { source, revision, .. } = part;
        let repository = self.repositories.origin(source, part.address_context(&self.base))?;
        let located = repository.locate(source, revision, making)?;
        let kind = located.source_type();
        if let Some(known) = self.parsed.get(located.key()).filter(|_| !ignores_cache) {
            return Ok((known, kind));
        }
        let (mut targets, mut problems) = (Vec::new(), Vec::new());
        let files = self.manifest_files(&repository, &located, making, ignores_cache)?;
        for file in files.iter() {
            match classify(&file.path, &file.content) {
                FileKind::LfsPointer => {
                    problems.push(format!(
                        "{}: the file is a Git LFS pointer, not a manifest; set enableLfs: \"true\" in the repository's Secret to \
                         fetch its content",
                        file.path
                    ));
                    continue;
                }
                // Everything that a rendering program outputs is treated as a manifest.
                FileKind::Skipped if !located.is_rendered() => continue,
                FileKind::Skipped | FileKind::Manifest => {}
            }
            match parse(&file.path, &file.content, &manifests::Limits::default()) {
                Ok(found) => targets.extend(found),
                Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
            }
        }
        if !problems.is_empty() {
            return Err(SourceProblem { words: problems.join("; "), cause: FailureCause::Content });
        }
        let targets = Arc::new(targets);
        self.parsed.put(located.key(), Arc::clone(&targets), total_size(&files));
        Ok((targets, kind))
    }

    /// Returns the manifest files. Uses cached program output if possible.
    fn manifest_files(
        &self,
        repository: &Origin,
        located: &LocatedSource,
        making: &RenderInputs,
        ignores_cache: bool,
    ) -> Result<Arc<Vec<File>>, SourceError> {
        let is_rendered = located.is_rendered();
        if let Some(known) = self.rendered.get(located.key()).filter(|_| is_rendered && !ignores_cache) {
            return Ok(known);
        }
        let files = Arc::new(repository.read_manifests(located, making)?);
        if is_rendered {
            self.rendered.put(located.key(), Arc::clone(&files), total_size(&files));
        }
        Ok(files)
    }
}

fn total_size(files: &[File]) -> usize {
    files.iter().map(|file| file.path.len().saturating_add(file.content.len())).sum()
}
