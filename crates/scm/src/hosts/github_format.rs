//! Data in GitHub's format, which Gitea also uses.

use serde::Deserialize;
use tidegate_generate::PullRequest;

use super::{NamedObject, Protocol, PullRequestHost, Repository, has_all_labels, names_of};
use crate::api_address::encode_segment;
use crate::conversation::Conversation;
use crate::problem::Problem;

#[derive(Deserialize)]
pub(super) struct RepositoryRow {
    id: u64,
    name: String,
    owner: Account,
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default)]
    ssh_url: String,
    #[serde(default)]
    clone_url: String,
    #[serde(default)]
    topics: Option<Vec<String>>,
    #[serde(default)]
    pub archived: bool,
    /// True if the repository is empty. Only Gitea sends this field.
    #[serde(default)]
    empty: bool,
}

impl RepositoryRow {
    pub fn into_repository(self, protocol: Protocol) -> Repository {
        Repository {
            id: self.id.to_string(),
            organization: self.owner.login,
            name: self.name,
            url: protocol.clone_url(self.ssh_url, self.clone_url),
            // Gitea reports a default branch even if the repository is empty.
            default_branch: self.default_branch.filter(|_| !self.empty).unwrap_or_default(),
            labels: self.topics.unwrap_or_default(),
        }
    }
}

pub(super) fn repository_path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repos/{}/{}", encode_segment("owner", owner)?, encode_segment("repository", repository)?))
}

/// A user account.
#[derive(Default, Deserialize)]
struct Account {
    #[serde(default)]
    login: String,
}

/// The latest commit of a branch, or one end of a pull request.
#[derive(Default, Deserialize)]
pub(super) struct End {
    #[serde(default, rename = "ref")]
    name: String,
    #[serde(default)]
    pub sha: String,
}

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

/// Client for the pull requests of a repository.
pub(crate) struct PullRequestClient<'a> {
    pub(super) conversation: Conversation<'a>,
    /// Path of the pull requests.
    pub(super) path: String,
    /// Query for the largest page size.
    pub(super) page_query: &'static str,
    /// Labels that the pull requests must have.
    pub(super) labels: Vec<String>,
}

impl PullRequestHost for PullRequestClient<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let query = format!("state=open&{}", self.page_query);
        let found: Vec<Pull> = self.conversation.get_linked_pages(&self.path, &query).await?;
        let pull_requests = found.into_iter().map(PullRequest::from);
        Ok(pull_requests.filter(|one| has_all_labels(&self.labels, &one.labels)).collect())
    }
}
