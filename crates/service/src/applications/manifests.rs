//! Manifests of sources, off the async threads, parsed once for each content.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_application::credentials::hide_credentials;
use tidegate_model::Digest;
use tidegate_model::argo::ApplicationSource;
use tidegate_planner::Target;
use tidegate_planner::manifests::{self, parse};
use tidegate_source::{Address, Limits, Reach, Repositories};

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

/// What a revision means.
pub(crate) struct Resolved {
    pub commit: String,
    /// The repository, where this look found that its names have moved: others that use it may care.
    pub moved: Option<Address>,
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

    /// What a revision of a source means, by the last look at its repository or by a new one.
    pub async fn resolve(
        self: &Arc<Self>,
        source: ApplicationSource,
        revision: String,
        look: bool,
    ) -> Result<Resolved, String> {
        let (this, url) = (Arc::clone(self), source.repo_url.clone());
        blocking(url, move || {
            let opened = this.repositories.open(&source.repo_url, &this.base);
            let repository = opened.map_err(|error| error.to_string())?;
            // A commit is what it is.
            let look = look && !(revision.len() == 40 && revision.chars().all(|c| c.is_ascii_hexdigit()));
            if look {
                this.read_credentials();
            }
            let moved = look && repository.look().map_err(|error| error.to_string())?;
            let commit = repository.resolve(&revision).map_err(|error| error.to_string())?;
            Ok(Resolved { commit, moved: moved.then(|| repository.address().clone()) })
        })
        .await
    }

    /// The manifests of a source in a commit.
    pub async fn targets(
        self: &Arc<Self>,
        source: ApplicationSource,
        commit: String,
        anew: bool,
    ) -> Result<Arc<Vec<Target>>, String> {
        let (this, url) = (Arc::clone(self), source.repo_url.clone());
        blocking(url, move || this.read(&source, &commit, anew)).await
    }

    fn read(&self, source: &ApplicationSource, commit: &str, anew: bool) -> Result<Arc<Vec<Target>>, String> {
        let limits = Limits::default();
        let wrong = |error: tidegate_source::SourceError| error.to_string();
        let repository = self.repositories.open(&source.repo_url, &self.base).map_err(wrong)?;
        let located = repository.locate(source, commit, &limits).map_err(wrong)?;
        let parsed = || self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = parsed().iter().find(|(key, _)| !anew && *key == located.key) {
            return Ok(Arc::clone(known));
        }
        let (mut targets, mut problems) = (Vec::new(), Vec::new());
        for file in repository.read(&located, &limits).map_err(wrong)? {
            match parse(&file.path, &file.content, &manifests::Limits::default()) {
                Ok(found) => targets.extend(found),
                Err(errors) => problems.extend(errors.iter().map(ToString::to_string)),
            }
        }
        if !problems.is_empty() {
            return Err(problems.join("; "));
        }
        let targets = Arc::new(targets);
        let mut parsed = parsed();
        parsed.retain(|(key, _)| *key != located.key);
        parsed.push_front((located.key, Arc::clone(&targets)));
        parsed.truncate(KEPT);
        Ok(targets)
    }
}

/// What goes wrong is told without the credentials of the address.
async fn blocking<T: Send + 'static>(
    url: String,
    call: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let fault = |error| Err(format!("reading the repository met a fault: {error}"));
    let result = tokio::task::spawn_blocking(call).await.unwrap_or_else(fault);
    result.map_err(|problem| hide_credentials(&problem, &url))
}
