//! What generators ask of the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::argo::{
    ClusterDecisionResourceGenerator, PluginGenerator, PullRequestGenerator, ScmGenerator,
};

/// What the world says: something, nothing yet, or why it cannot.
pub type Reply<T> = Result<Option<T>, Unanswered>;

/// Why the world does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unanswered {
    /// In words that say what to do.
    pub reason: String,
    /// What was asked for does not exist, such as a repository; for some generators that is an answer.
    pub is_missing: bool,
}

impl Unanswered {
    /// It cannot be asked, or did not answer.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_missing: false }
    }

    /// What was asked for does not exist.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_missing: true }
    }
}

/// Whom generators ask.
///
/// Nothing is fetched here: `Ok(None)` says that the answer is not there yet. Whoever implements it notes the question,
/// finds the answer by its own means, and generates again; a question may depend on the answer to another one.
/// What is not implemented is an error that names the generator.
pub trait World {
    /// The clusters that are declared.
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        Err(Unanswered::new("clusters are not known here"))
    }

    /// The files of a repository, at a branch, tag or commit.
    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        Err(Unanswered::new(format!(
            "the repository {} at {revision:?} is not known here",
            shown(repository)
        )))
    }

    /// The content of a file of a repository, at a commit.
    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        Err(Unanswered::new(format!("{path} of {} at {commit} is not known here", shown(repository))))
    }

    /// The resources that decide for clusters, and what the ConfigMap says of them. Its texts are filled already.
    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        let _ = generator;
        Err(Unanswered::new("resources of clusters cannot be asked here"))
    }

    /// What a program answers, as it answers it. Its texts are filled already.
    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let name = &generator.config_map_ref.name;
        Err(Unanswered::new(format!("the plugin of ConfigMap {name} cannot be asked here")))
    }

    /// The repositories of an organisation and their branches, before any filter. Its texts are filled already.
    ///
    /// `paths` are those whose existence filters ask for; of each branch, those that are there are in [`Branch::paths`].
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        let _ = (generator, paths);
        Err(Unanswered::new("SCM providers cannot be asked here"))
    }

    /// The pull requests of a repository, before any filter. Its texts are filled already.
    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let _ = generator;
        Err(Unanswered::new("pull requests cannot be asked for here"))
    }
}

/// A world that knows nothing, for generators that ask nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorld;

impl World for NoWorld {}

/// A cluster that is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Name.
    pub name: String,
    /// URL of the API server.
    pub server: String,
    /// The project it is for; empty for all.
    pub project: String,
    /// Labels of its declaration.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its declaration.
    pub annotations: BTreeMap<String, String>,
}

/// The files of a repository at a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitTree {
    /// The commit.
    pub commit: String,
    /// Paths of its files, with `/` between folders.
    pub files: BTreeSet<String>,
}

/// The resources that decide for clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// The list in their status; `clusters` if the ConfigMap does not say.
    pub status_list_key: String,
    /// The field of its entries that names a cluster.
    pub match_key: String,
    /// The resources: their names, and their status.
    pub resources: BTreeMap<String, Value>,
}

/// A branch of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// User or organisation.
    pub organization: String,
    /// Name of the repository.
    pub repository: String,
    /// Its id.
    pub repository_id: String,
    /// Its address, for the protocol that is asked for.
    pub url: String,
    /// Name of the branch.
    pub branch: String,
    /// Its commit.
    pub sha: String,
    /// Labels of the repository.
    pub labels: Vec<String>,
    /// Which of the paths that were asked for are there.
    pub paths: BTreeSet<String>,
}

/// A pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its title.
    pub title: String,
    /// The branch it comes from.
    pub branch: String,
    /// The branch it is for.
    pub target_branch: String,
    /// Its newest commit.
    pub head_sha: String,
    /// Who made it.
    pub author: String,
    /// Its labels.
    pub labels: Vec<String>,
}

/// An address without user and password.
pub(crate) fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}
