//! External data that generators use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::argo::{
    ClusterDecisionResourceGenerator, PluginGenerator, PullRequestGenerator, ScmGenerator,
};

/// Reply to a query for external data: the data, an error, or `None` if it isn't available yet.
pub type Reply<T> = Result<Option<T>, QueryError>;

/// An error during a query for external data.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct QueryError {
    /// Reason, and how to fix it.
    pub reason: String,
    /// True if the queried resource, such as a repository, doesn't exist. Some generators can be told to
    /// tolerate this.
    pub is_missing: bool,
}

impl QueryError {
    /// Creates an error for a failed query.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_missing: false }
    }

    /// Creates an error for a query about a resource that doesn't exist.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_missing: true }
    }
}

/// Source of external data for generators.
///
/// Data isn't fetched synchronously. Implementations return `Ok(None)` if it isn't available yet, record the
/// query, fetch the data in the background, and then start another run. A query may depend on the result of
/// another. The default methods fail with an error that names the generator.
pub trait GeneratorInputs {
    /// Returns the declared clusters.
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        Err(QueryError::new(
            "the clusters generator must read the Secrets that declare clusters, which this command cannot \
             do; use `tidegate serve`",
        ))
    }

    /// Returns the files of a repository at a branch, tag or commit.
    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        Err(QueryError::new(format!(
            "the git generator must read repository {} at {revision:?}, which this command cannot do; use `tidegate serve`",
            without_credentials(repository)
        )))
    }

    /// Returns the content of a file in a repository at a commit.
    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        Err(QueryError::new(format!(
            "the git generator must read {path} from repository {} at {commit}, which this command cannot do; use `tidegate serve`",
            without_credentials(repository)
        )))
    }

    /// Returns the resources for a ClusterDecisionResource generator, and the settings from its ConfigMap.
    /// Templates in `generator` are already rendered.
    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        let _ = generator;
        Err(QueryError::new(
            "the clusterDecisionResource generator must read resources from a cluster, which this command \
             cannot do; use `tidegate serve`",
        ))
    }

    /// Returns a plugin's raw response. Templates in `generator` are already rendered.
    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let name = &generator.config_map_ref.name;
        Err(QueryError::new(format!(
            "the plugin generator must call the plugin in ConfigMap {name}, which this command cannot do; use \
             `tidegate serve`"
        )))
    }

    /// Returns an organization's repositories with their branches, unfiltered. Templates in `generator` are
    /// already rendered.
    ///
    /// `paths` contains the paths that the filters look for. In the result, [`Branch::paths`] contains those
    /// that exist in a branch.
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        let _ = (generator, paths);
        Err(QueryError::new(
            "the scmProvider generator must call an SCM provider, which this command cannot do; use `tidegate serve`",
        ))
    }

    /// Returns a repository's pull requests, unfiltered. Templates in `generator` are already rendered.
    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let _ = generator;
        Err(QueryError::new(
            "the pullRequest generator must list pull requests, which this command cannot do; use `tidegate serve`",
        ))
    }
}

/// No external data, for ApplicationSets with generators that don't need any.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInputs;

impl GeneratorInputs for NoInputs {}

/// A declared cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cluster {
    /// Name of the cluster.
    pub name: String,
    /// URL of the API server.
    pub server: String,
    /// Project that the cluster is reserved for. Empty if all projects may use it.
    pub project: String,
    /// Labels on the cluster's declaration.
    pub labels: BTreeMap<String, String>,
    /// Annotations on the cluster's declaration.
    pub annotations: BTreeMap<String, String>,
}

/// Files of a repository at a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitTree {
    /// ID of the commit.
    pub commit: String,
    /// Paths of the files, with `/` between folders.
    pub files: BTreeSet<String>,
}

/// Resources and settings for a ClusterDecisionResource generator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// Name of the list in the resources' status. `clusters` by default.
    pub status_list_key: String,
    /// Field with the cluster's name in the list entries.
    pub match_key: String,
    /// Status of the resources, by name.
    pub resources: BTreeMap<String, Value>,
}

/// A branch of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// User or organization.
    pub organization: String,
    /// Name of the repository.
    pub repository: String,
    /// ID of the repository.
    pub repository_id: String,
    /// Repository URL for the requested protocol.
    pub url: String,
    /// Name of the branch.
    pub branch: String,
    /// Latest commit of the branch.
    pub sha: String,
    /// Labels of the repository.
    pub labels: Vec<String>,
    /// Queried paths that exist in the branch.
    pub paths: BTreeSet<String>,
}

/// A pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// Number of the pull request.
    pub number: u64,
    /// Title of the pull request.
    pub title: String,
    /// Source branch.
    pub branch: String,
    /// Target branch.
    pub target_branch: String,
    /// Latest commit of the source branch.
    pub head_sha: String,
    /// User name of the author.
    pub author: String,
    /// Labels of the pull request.
    pub labels: Vec<String>,
}

/// Strips the user name and password from a URL.
pub(crate) fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}
