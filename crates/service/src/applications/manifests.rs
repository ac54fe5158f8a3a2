//! Manifests of sources, off the async threads, parsed once for each content.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_application::credentials::hide_credentials;
use tidegate_application::sources::Sources;
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;
use tidegate_planner::Target;
use tidegate_planner::manifests::{self, parse};
use tidegate_source::{Address, Limits, Reach, Repositories, SOURCE_TYPE, SourceError};

use super::repositories::RepositoryFiles;

/// So many sets of manifests are kept parsed.
const KEPT: usize = 64;

/// Manifests of all sources.
pub(crate) struct Manifests {
    repositories: Repositories,
    /// What relative addresses are relative to.
    base: PathBuf,
    /// Where it is written how repositories are reached.
    files: Option<RepositoryFiles>,
    parsed: Mutex<VecDeque<(Digest, Arc<Vec<Target>>)>>,
}

/// What revisions mean.
pub(crate) struct Resolved {
    /// One for each source.
    pub revisions: Vec<String>,
    /// Repositories of which this look found that their names have moved: others that use them may care.
    pub moved: Vec<Address>,
}

/// The manifests of all sources together.
pub(crate) struct Made {
    pub targets: Arc<Vec<Target>>,
    /// What made them, for each source.
    pub types: Vec<String>,
}

impl Manifests {
    pub fn new(base: PathBuf, reach: Reach, files: Option<RepositoryFiles>) -> Self {
        Self { repositories: Repositories::new(reach), base, files, parsed: Mutex::default() }
    }

    /// Reads again how repositories are reached. What cannot be read leaves what was known before.
    fn read_credentials(&self) {
        match self.files.as_ref().map(RepositoryFiles::read) {
            Some(Ok(credentials)) => self.repositories.set_credentials(credentials),
            Some(Err(error)) => tracing::warn!(%error, "credentials of repositories are those read before"),
            None => {}
        }
    }

    /// Ends what servers are asked for.
    pub fn stop(&self) {
        self.repositories.stop();
    }

    /// The repository of a source, if it has one.
    pub fn address(&self, source: &ApplicationSource) -> Option<Address> {
        Address::parse(&source.repo_url, &self.base).ok()
    }

    /// Looks at each repository once; those whose names have moved, or that cannot be read any more, or can again.
    pub async fn look(self: &Arc<Self>) -> Vec<Address> {
        let this = Arc::clone(self);
        let look = move || {
            this.read_credentials();
            let all = this.repositories.all().into_iter().filter(|repository| repository.look_again());
            all.map(|repository| repository.address().clone()).collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// What revisions of the sources mean, by the last look at their repositories or by a new one.
    pub async fn resolve(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: Vec<String>,
        look: bool,
    ) -> Result<Resolved, String> {
        let this = Arc::clone(self);
        for_each(sources, revisions, move |sources| {
            let mut looked = BTreeSet::new();
            let mut resolved = Resolved { revisions: Vec::new(), moved: Vec::new() };
            for one in sources {
                let (revision, moved) = one.try_to(|| this.resolve_one(one, look, &mut looked))?;
                resolved.revisions.push(revision);
                resolved.moved.extend(moved);
            }
            Ok(resolved)
        })
        .await
    }

    fn resolve_one(
        &self,
        Part { source, revision, .. }: &Part,
        look: bool,
        looked: &mut BTreeSet<Address>,
    ) -> Result<(String, Option<Address>), SourceError> {
        let repository = self.repositories.open(&source.repo_url, &self.base)?;
        // A commit is what it is.
        let is_commit = revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit());
        // Sources of one repository are of one look.
        let look = look && !is_commit && looked.insert(repository.address().clone());
        if look {
            self.read_credentials();
        }
        let moved = look && repository.look()?;
        Ok((repository.resolve(revision)?, moved.then(|| repository.address().clone())))
    }

    /// The manifests of the sources in these revisions, in their order.
    pub async fn targets(
        self: &Arc<Self>,
        sources: &Sources,
        revisions: &[String],
        anew: bool,
    ) -> Result<Made, String> {
        let this = Arc::clone(self);
        for_each(sources, revisions.to_vec(), move |sources| {
            let mut all = Vec::new();
            for one in sources {
                all.push(one.try_to(|| this.read(one, anew))?);
            }
            let types = all.iter().map(|_| SOURCE_TYPE.to_owned()).collect();
            let targets = match all.as_slice() {
                [only] => Arc::clone(only),
                several => Arc::new(several.iter().flat_map(|one| one.iter().cloned()).collect()),
            };
            Ok(Made { targets, types })
        })
        .await
    }

    fn read(&self, Part { source, revision, .. }: &Part, anew: bool) -> Result<Arc<Vec<Target>>, Problem> {
        // It is there for the others.
        if source.path.is_empty() && !source.reference.is_empty() {
            return Ok(Arc::default());
        }
        let limits = Limits::default();
        let repository = self.repositories.open(&source.repo_url, &self.base)?;
        let located = repository.locate(source, revision, &limits)?;
        let parsed = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = parsed().iter().find(|(key, _)| !anew && *key == located.key) {
            return Ok(Arc::clone(known));
        }
        let (mut targets, mut problems) = (Vec::new(), Vec::new());
        for file in repository.read(&located, &limits)? {
            match parse(&file.path, &file.content, &manifests::Limits::default()) {
                Ok(found) => targets.extend(found),
                Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
            }
        }
        if !problems.is_empty() {
            return Err(Problem(problems.join("; ")));
        }
        let targets = Arc::new(targets);
        let mut parsed = parsed();
        parsed.retain(|(key, _)| *key != located.key);
        parsed.push_front((located.key, Arc::clone(&targets)));
        parsed.truncate(KEPT);
        Ok(targets)
    }
}

/// Why manifests are not there.
struct Problem(String);

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        Self(error.to_string())
    }
}

/// One of the sources.
struct Part {
    source: ApplicationSource,
    revision: String,
    /// How it is called where there are others.
    name: String,
}

impl Part {
    /// Does something with it; what goes wrong is told with its name, and without the credentials of its address.
    fn try_to<T, E: Into<Problem>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
        work().map_err(|error| {
            let Problem(text) = error.into();
            format!("{}{}", self.name, hide_credentials(&text, &self.source.repo_url))
        })
    }
}

/// Does something with all sources, off the async threads.
async fn for_each<T: Send + 'static>(
    sources: &Sources,
    revisions: Vec<String>,
    work: impl FnOnce(&[Part]) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let is_list = sources.is_list();
    let named = |(at, (source, revision)): (usize, (&ApplicationSource, String))| {
        let name = if is_list { format!("spec.sources[{at}]: ") } else { String::new() };
        Part { source: source.clone(), revision, name }
    };
    let parts: Vec<Part> = sources.all().iter().zip(revisions).enumerate().map(named).collect();
    let fault = |error| Err(format!("reading the repository met a fault: {error}"));
    tokio::task::spawn_blocking(move || work(&parts)).await.unwrap_or_else(fault)
}
