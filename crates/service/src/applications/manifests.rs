//! Manifests of sources, off the async threads, parsed once for each content.

mod files;
mod parts;
mod resolving;
mod turns;

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
    Address, Allowed, Credentials, File, Found, Home, Kept, Known, Making, Origin, Reach, Referred,
    Repositories, SourceError, Tools, Used, Wanted,
};

use self::files::{What, what};
use self::parts::{Part, Problem, parts};
use self::turns::Turns;
use super::fetched::{Fetched, For};
use super::repositories::RepositoryFiles;
use super::store::AppKey;
use crate::generating::Providers;

/// So many bytes of manifests are kept parsed, as they are written; parsed they take some times that.
const PARSED_BYTES: usize = 8 << 20;
/// So many bytes of manifests are kept that programs have made: those of thousands of applications.
const MADE_BYTES: usize = 64 << 20;
/// Parsed manifests that were not asked for in so long a time go, or in twice that time.
const UNUSED_AFTER: Duration = Duration::from_secs(30);
/// What makes the manifests of a source that is there for others only: nothing.
const NO_TYPE: &str = "Directory";

/// Where manifests come from, beside the repositories themselves.
#[derive(Clone, Debug, Default)]
pub struct Sourcing {
    /// Where it is written how repositories are reached.
    pub files: Option<RepositoryFiles>,
    /// The namespace of the cluster whose Secrets say how repositories are reached.
    pub secrets: Option<String>,
    /// The program for charts; `helm` on the `PATH` if not said.
    pub helm: Option<PathBuf>,
    /// The program for kustomizations; `kustomize` or `kubectl` on the `PATH` if not said.
    pub kustomize: Option<PathBuf>,
    /// What may be fetched for manifests beside their own source.
    pub allowed: Allowed,
    /// Whom generators of ApplicationSets may ask over HTTP.
    pub providers: Providers,
}

/// Manifests of all sources.
pub(crate) struct Manifests {
    repositories: Arc<Repositories>,
    /// What relative addresses are relative to.
    base: PathBuf,
    /// Where it is written how repositories are reached.
    files: Option<RepositoryFiles>,
    /// What the cluster says of it.
    given: Mutex<Credentials>,
    /// The repositories that generators have asked for, by their set: what was fetched of them is kept too.
    asked: Mutex<BTreeMap<AppKey, BTreeSet<Address>>>,
    /// The way to SCM providers and plugins, and which may be asked.
    web: Web,
    providers: Providers,
    tools: Tools,
    allowed: Arc<Allowed>,
    /// What was fetched beside the sources themselves.
    fetched: Fetched,
    made: Kept<Vec<File>>,
    parsed: Kept<Vec<Target>>,
    turns: Turns,
    /// Signatures are checked with other keys than when all repositories were looked at: what was refused may be good now.
    has_other_keys: AtomicBool,
}

/// Sources, and the project for whose Applications they are asked for.
pub(crate) type Of<'s> = (&'s Sources, &'s str);

/// The manifests of all sources together.
pub(crate) struct Made {
    pub targets: Arc<Vec<Target>>,
    /// What made them, for each source.
    pub types: Vec<String>,
    /// What was fetched for them beside the sources.
    pub fetched: Vec<Used>,
}

impl Manifests {
    /// `working` is where programs work.
    pub fn new(base: PathBuf, reach: Reach, working: PathBuf, sourcing: Sourcing) -> Self {
        let Sourcing { files, helm, kustomize, providers, allowed, .. } = sourcing;
        let mut tools = Tools::new(working);
        (tools.helm, tools.kustomize) = (helm, kustomize);
        if !Tools::are_confined() {
            tracing::warn!(
                "this system does not confine what Helm and Kustomize read (Linux with Landlock does): a repository that finds a way around the checks before them could read files of this machine"
            );
        }
        let repositories = Arc::new(Repositories::new(reach));
        let (made, parsed) = (Kept::new(MADE_BYTES), Kept::new(PARSED_BYTES));
        let (given, asked, web, turns, has_other_keys) = Default::default();
        let (allowed, fetched) = (Arc::new(allowed), Fetched::default());
        Self {
            repositories,
            base,
            files,
            given,
            asked,
            web,
            providers,
            tools,
            allowed,
            fetched,
            made,
            parsed,
            turns,
            has_other_keys,
        }
    }

    /// From now on gives up parsed manifests that nobody has asked for in a while: applications that lie idle need none, and they
    /// are soon parsed again. Ends with them.
    pub fn forget_unused(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(UNUSED_AFTER).await;
                let Some(this) = this.upgrade() else { return };
                this.parsed.forget_unused();
            }
        });
    }

    /// The repositories themselves, and what relative addresses are relative to.
    pub fn repositories(&self) -> (Arc<Repositories>, PathBuf) {
        (Arc::clone(&self.repositories), self.base.clone())
    }

    /// Where files say how repositories are reached, and hold other Secrets and ConfigMaps beside them.
    pub fn files(&self) -> Option<&RepositoryFiles> {
        self.files.as_ref()
    }

    /// The way to SCM providers and plugins.
    pub fn web(&self) -> &Web {
        &self.web
    }

    /// Which of them may be asked.
    pub fn providers(&self) -> &Providers {
        &self.providers
    }

    /// The generators of a set have asked for these repositories, and for no others; none of a set that is gone.
    pub fn asked_by(&self, set: AppKey, repositories: BTreeSet<Address>) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match repositories.is_empty() {
            true => drop(asked.remove(&set)),
            false => drop(asked.insert(set, repositories)),
        }
    }

    /// Reads again how repositories are reached, and with which keys signatures are checked. What cannot be read leaves what was
    /// known before.
    pub fn read_credentials(&self) {
        let mut credentials = match self.files.as_ref().map(RepositoryFiles::read).transpose() {
            Ok(credentials) => credentials.unwrap_or_default(),
            Err(error) => {
                return tracing::warn!(%error, "credentials of repositories are those read before");
            }
        };
        credentials.merge(&self.given.lock().unwrap_or_else(PoisonError::into_inner));
        if self.repositories.set_credentials(credentials) {
            self.has_other_keys.store(true, Ordering::Relaxed);
        }
    }

    /// Takes what the cluster says of how repositories are reached.
    pub fn give(&self, credentials: Credentials) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = credentials;
        self.read_credentials();
    }

    /// Ends what servers are asked for, and the programs at work.
    pub fn stop(&self) {
        self.repositories.stop();
        self.web.stop();
        self.tools.stop();
    }

    /// Does something with all sources, off the async threads, when it is its turn.
    async fn for_each<T: Send + 'static>(
        &self,
        (sources, project): Of<'_>,
        revisions: Vec<String>,
        work: impl FnOnce(&[Part]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        let parts = parts((sources, project), revisions);
        let repositories = sources.all().iter().filter_map(|one| self.address(one, project)).collect();
        let turns = self.turns.take(repositories).await;
        let fault = |error| Err(format!("reading the repository met a fault: {error}"));
        let in_turn = move || {
            let done = work(&parts);
            // Also where nobody waits for it any more.
            drop(turns);
            done
        };
        tokio::task::spawn_blocking(in_turn).await.unwrap_or_else(fault)
    }

    /// The repository of a source, as a project has it, if it has one.
    pub fn address(&self, source: &ApplicationSource, project: &str) -> Option<Address> {
        self.repositories.address(source, Home { base: &self.base, project }).ok()
    }

    /// Looks at each repository once, or at `only` one, if anybody uses it; those whose names have moved, or that cannot be
    /// read any more, or can again.
    pub async fn look(self: &Arc<Self>, only: Option<Address>) -> Vec<Address> {
        let this = Arc::clone(self);
        let look = move || {
            this.read_credentials();
            let is_meant = |one: &Known| only.as_ref().is_none_or(|only| one.address() == only);
            let has_other_keys = only.is_none() && this.has_other_keys.swap(false, Ordering::Relaxed);
            let is_news = |one: &Known| one.look_again() || has_other_keys;
            let all = this.repositories.all().into_iter().filter(|one| is_meant(one) && is_news(one));
            all.map(|repository| repository.address().clone()).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// What was fetched for an application beside its sources.
    pub fn fetched_for(&self, key: &AppKey) -> Vec<Used> {
        self.fetched.of(key)
    }

    /// Keeps what was fetched of the repositories of these sources, each with its project, for these applications and for generators, and of no others.
    pub async fn keep_only(
        self: &Arc<Self>,
        applications: BTreeSet<AppKey>,
        sources: Vec<(ApplicationSource, String)>,
    ) {
        let this = Arc::clone(self);
        let keep = move || {
            this.fetched.keep_only(&applications);
            let asked = this.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let used = sources.iter().filter_map(|(source, project)| this.address(source, project));
            let used = used.chain(asked.into_values().flatten()).chain(this.fetched.addresses()).collect();
            this.repositories.keep_only(&used);
        };
        drop(tokio::task::spawn_blocking(keep).await);
    }

    /// Refuses commits that are not signed as a project wants them: those of all sources, in their order. `names` are the
    /// revisions they were asked for by, where somebody has named others than the sources do.
    pub async fn check_signed(
        self: &Arc<Self>,
        of: Of<'_>,
        commits: &[String],
        (names, wanted): (Vec<String>, Option<Wanted>),
    ) -> Result<(), String> {
        let Some(wanted) = wanted else { return Ok(()) };
        let (this, now) = (Arc::clone(self), SystemClock.now());
        self.for_each(of, commits.to_vec(), move |sources| {
            for (at, one) in sources.iter().enumerate() {
                let source = (&one.source, one.home(&this.base));
                let named = names.get(at).map(String::as_str);
                let names: Vec<&str> =
                    named.into_iter().chain([one.source.target_revision.as_str()]).collect();
                one.try_to(|| this.repositories.check_signed(source, &one.revision, &names, (&wanted, now)))?;
            }
            Ok(())
        })
        .await
    }

    /// What the manifests of the sources in these revisions are, for an application: other manifests have other keys.
    pub async fn keys(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        made_for: For,
    ) -> Result<Vec<Digest>, String> {
        let (this, project) = (Arc::clone(self), made_for.purpose.project.clone());
        self.for_each((sources, &project), revisions.to_vec(), move |sources| {
            let making = this.making(sources, &made_for)?;
            let has_manifests = |one: &&Part| !one.is_for_others();
            let locate = |one: &Part| {
                one.try_to(|| {
                    let repository = this.repositories.origin(&one.source, one.home(&this.base))?;
                    Ok::<_, SourceError>(repository.locate(&one.source, &one.revision, &making)?.key())
                })
            };
            let keys = sources.iter().filter(has_manifests).map(locate).collect::<Result<_, String>>();
            this.note(&made_for, &making, keys.is_ok());
            keys
        })
        .await
    }

    /// Notes what was fetched beside the sources, and is to be looked at with them.
    fn note(&self, made_for: &For, making: &Making, is_whole: bool) -> Vec<Used> {
        let used = making.fetching.as_ref().map(|fetching| fetching.used()).unwrap_or_default();
        self.fetched.put(&made_for.key, used.clone(), is_whole);
        used
    }

    /// What manifests are made with.
    fn making(&self, sources: &[Part], made_for: &For) -> Result<Making, String> {
        let fetching = made_for.fetching(&self.repositories, &self.allowed);
        let mut making = Making {
            tools: self.tools.clone(),
            purpose: made_for.purpose.clone(),
            fetching: Some(Arc::new(fetching)),
            ..Making::default()
        };
        for one in sources.iter().filter(|one| !one.source.reference.is_empty()) {
            let repository =
                one.try_to(|| self.repositories.open(&one.source.repo_url, one.home(&self.base)))?;
            let referred = Referred { repository, commit: one.revision.clone() };
            making.referred.insert(one.source.reference.clone(), referred);
        }
        Ok(making)
    }

    /// The manifests of the sources in these revisions, in their order, for an application.
    pub async fn targets(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        (made_for, anew): (For, bool),
    ) -> Result<Made, String> {
        let (this, project) = (Arc::clone(self), made_for.purpose.project.clone());
        self.for_each((sources, &project), revisions.to_vec(), move |sources| {
            let making = this.making(sources, &made_for)?;
            let read = |one: &Part| one.try_to(|| this.read(one, &making, anew));
            let found = sources.iter().map(read).collect::<Result<Vec<_>, String>>();
            let fetched = this.note(&made_for, &making, found.is_ok());
            let (all, types): (Vec<_>, Vec<_>) = found?.into_iter().unzip();
            let types = types.into_iter().map(str::to_owned).collect();
            let targets = match all.as_slice() {
                [only] => Arc::clone(only),
                several => Arc::new(several.iter().flat_map(|one| one.iter().cloned()).collect()),
            };
            Ok(Made { targets, types, fetched })
        })
        .await
    }

    fn read(
        &self,
        part: &Part,
        making: &Making,
        anew: bool,
    ) -> Result<(Arc<Vec<Target>>, &'static str), Problem> {
        if part.is_for_others() {
            return Ok((Arc::default(), NO_TYPE));
        }
        let Part { source, revision, .. } = part;
        let repository = self.repositories.origin(source, part.home(&self.base))?;
        let located = repository.locate(source, revision, making)?;
        let kind = located.source_type();
        if let Some(known) = self.parsed.get(located.key()).filter(|_| !anew) {
            return Ok((known, kind));
        }
        let (mut targets, mut problems) = (Vec::new(), Vec::new());
        let files = self.files_of(&repository, &located, making, anew)?;
        for file in files.iter() {
            match what(&file.path, &file.content) {
                What::Pointer => {
                    problems.push(format!(
                        "{}: it is a pointer of Git LFS and no manifest; its content is fetched where the Secret of the repository says enableLfs: \"true\"",
                        file.path
                    ));
                    continue;
                }
                // What a program has made is all meant.
                What::LeftOut if !located.is_made() => continue,
                What::LeftOut | What::Manifest => {}
            }
            match parse(&file.path, &file.content, &manifests::Limits::default()) {
                Ok(found) => targets.extend(found),
                Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
            }
        }
        if !problems.is_empty() {
            return Err(Problem(problems.join("; ")));
        }
        let targets = Arc::new(targets);
        self.parsed.put(located.key(), Arc::clone(&targets), size(&files));
        Ok((targets, kind))
    }

    /// The files of manifests; what a program has made is made once.
    fn files_of(
        &self,
        repository: &Origin,
        located: &Found,
        making: &Making,
        anew: bool,
    ) -> Result<Arc<Vec<File>>, SourceError> {
        let is_made = located.is_made();
        if let Some(known) = self.made.get(located.key()).filter(|_| is_made && !anew) {
            return Ok(known);
        }
        let files = Arc::new(repository.read(located, making)?);
        if is_made {
            self.made.put(located.key(), Arc::clone(&files), size(&files));
        }
        Ok(files)
    }
}

fn size(files: &[File]) -> usize {
    files.iter().map(|file| file.path.len().saturating_add(file.content.len())).sum()
}
