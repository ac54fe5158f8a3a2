//! SCM servers and their APIs.

mod azure;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod github_format;
mod gitlab;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_generate::PullRequest;
use tidegate_model::argo::ConfigMapKey;

use crate::api_address::encode_segment;
use crate::conversation::Conversation;
use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::secrets::RequestContext;

pub(crate) use azure::{Azure, AzureRequests};
pub(crate) use bitbucket::{Bitbucket, BitbucketRequests};
pub(crate) use bitbucket_server::{BitbucketServer, BitbucketServerRequests};
pub(crate) use gitea::{Gitea, gitea_requests};
pub(crate) use github::{Github, github_requests};
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
    /// Returns the pull requests in the state that the generator selects, by default the open ones.
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
            Ok(Authorities::Custom { pem, origin: format!("key {key} in ConfigMap {name}") })
        }
    }
}

/// Strips the `refs/heads/` prefix from a branch name.
fn short_branch_name(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

/// Returns true if `found` contains all required labels.
fn has_all_labels(wanted: &[String], found: &[String]) -> bool {
    wanted.iter().all(|label| found.contains(label))
}

#[derive(Deserialize)]
struct NamedObject {
    name: String,
}

fn names_of(named: Option<Vec<NamedObject>>) -> Vec<String> {
    named.unwrap_or_default().into_iter().map(|one| one.name).collect()
}

/// A branch in the format of Gitea and GitLab.
#[derive(Deserialize)]
struct Branch {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
}

impl From<Branch> for BranchTip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.name, sha: branch.commit.id }
    }
}

/// Clone URLs of a repository in the format of Bitbucket.
#[derive(Default, Deserialize)]
struct Links {
    #[serde(default)]
    clone: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    name: String,
    href: String,
}

impl Links {
    fn href(&self, name: &str) -> String {
        let link = self.clone.iter().find(|link| link.name == name);
        link.map(|link| link.href.clone()).unwrap_or_default()
    }
}

/// Returns the default branch of a repository, or `None` if the repository is empty. `branches_path` is the
/// path of the repository's branches.
async fn find_default_tip<B: DeserializeOwned + Into<BranchTip>>(
    conversation: &Conversation<'_>,
    branches_path: &str,
    repository: &Repository,
) -> Result<Option<BranchTip>, Problem> {
    if repository.default_branch.is_empty() {
        return Ok(None);
    }
    let branch = encode_segment("branch", &repository.default_branch)?;
    let found = conversation.find::<B>(&format!("{branches_path}/{branch}"), "").await?;
    Ok(found.map(Into::into))
}
