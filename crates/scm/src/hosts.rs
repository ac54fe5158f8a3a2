//! SCM servers and their APIs.

mod azure;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod gitlab;

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::ConfigMapKey;

use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::secrets::RequestContext;

pub(crate) use azure::{Azure, AzureRequests};
pub(crate) use bitbucket::{Bitbucket, BitbucketRequests};
pub(crate) use bitbucket_server::{BitbucketServer, BitbucketServerRequests};
pub(crate) use gitea::{Gitea, GiteaRequests};
pub(crate) use github::{Github, GithubRequests};
pub(crate) use gitlab::{Gitlab, GitlabRequests};

/// A repository of an organization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repository {
    pub id: String,
    pub organization: String,
    pub name: String,
    pub url: String,
    pub default_branch: String,
    pub labels: Vec<String>,
}

/// A branch and its latest commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchTip {
    pub name: String,
    pub sha: String,
}

/// A server that hosts repositories.
pub(crate) trait RepositoryHost {
    /// Returns the repositories of the organization.
    async fn repositories(&self) -> Result<Vec<Repository>, Problem>;

    /// Returns the default branch, or `None` if the repository is empty.
    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem>;

    /// Returns all branches of a repository.
    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem>;

    /// Returns true if a file or folder exists in a branch.
    async fn has_path(&self, repository: &Repository, tip: &BranchTip, path: &str) -> Result<bool, Problem>;
}

/// A repository that has pull requests.
pub(crate) trait PullRequestHost {
    /// Returns the pull requests in the state that the generator selects. By default, these are the open pull
    /// requests.
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem>;
}

/// Protocol of clone URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Default,
    Ssh,
    Https,
}

impl Protocol {
    pub fn parse(text: &str) -> Result<Self, Problem> {
        match text {
            "" => Ok(Self::Default),
            "ssh" => Ok(Self::Ssh),
            "https" => Ok(Self::Https),
            other => Err(Problem::new(format!("unknown cloneProtocol {other:?}: use ssh or https"))),
        }
    }

    /// Returns the clone URL for the protocol. The default protocol is SSH.
    fn clone_url(self, ssh: String, https: String) -> String {
        if self == Self::Https { https } else { ssh }
    }
}

/// Returns the certificate authorities that a generator trusts.
pub(crate) fn trusted_authorities(
    asking: RequestContext<'_>,
    insecure: bool,
    ca_ref: Option<&ConfigMapKey>,
) -> Result<Authorities, Problem> {
    match ca_ref {
        _ if insecure => Ok(Authorities::Unverified),
        None => Ok(Authorities::System),
        Some(ConfigMapKey { config_map_name: name, key, .. }) => {
            let pem = asking.secrets.config_map(name, key).map_err(Problem::new)?;
            Ok(Authorities::Custom { pem, origin: format!("key {key} of ConfigMap {name}") })
        }
    }
}

/// Removes the `refs/heads/` prefix from a branch name.
fn short_branch_name(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

/// Returns true if `found` contains all required labels.
fn has_all_labels(wanted: &[String], found: &[String]) -> bool {
    wanted.iter().all(|label| found.contains(label))
}

/// An object that has a name.
#[derive(Deserialize)]
struct NamedObject {
    name: String,
}

fn names_of(named: Option<Vec<NamedObject>>) -> Vec<String> {
    named.unwrap_or_default().into_iter().map(|one| one.name).collect()
}

/// A user account.
#[derive(Default, Deserialize)]
struct Account {
    #[serde(default)]
    login: String,
}

/// The latest commit of a branch, or one end of a pull request, in GitHub's format.
#[derive(Default, Deserialize)]
struct End {
    #[serde(default, rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
}

/// A pull request in GitHub's format.
#[derive(Deserialize)]
struct Pull {
    number: u64,
    #[serde(default)]
    title: String,
    head: End,
    base: End,
    #[serde(default)]
    user: Option<Account>,
    #[serde(default)]
    labels: Option<Vec<NamedObject>>,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        Self {
            number: pull.number,
            title: pull.title,
            branch: pull.head.name,
            target_branch: pull.base.name,
            head_sha: pull.head.sha,
            author: pull.user.unwrap_or_default().login,
            labels: names_of(pull.labels),
        }
    }
}
