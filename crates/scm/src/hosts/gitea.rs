//! Gitea and Forgejo. API reference: <https://docs.gitea.com/api>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestGitea, ScmGitea, SecretKey};

use super::{
    Account, BranchTip, Protocol, Pull, PullRequestHost, Repository, RepositoryHost, has_all_labels,
    trusted_authorities,
};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

/// Query for the largest page size that the default configuration of the server allows.
const PAGE_QUERY: &str = "limit=50";

/// Client for the repositories of a user or an organization.
pub(crate) struct Gitea<'a> {
    conversation: Conversation<'a>,
    owner: String,
    protocol: Protocol,
    excludes_archived: bool,
}

#[derive(Deserialize)]
struct RepositoryRow {
    id: u64,
    name: String,
    owner: Account,
    #[serde(default)]
    default_branch: String,
    #[serde(default)]
    ssh_url: String,
    #[serde(default)]
    clone_url: String,
    #[serde(default)]
    topics: Option<Vec<String>>,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    empty: bool,
}

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

impl<'a> Gitea<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmGitea,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let ScmGitea { owner, api, token_ref, exclude_archived_repos, insecure, .. } = generator;
        let talk = open_conversation(asking, api, token_ref.as_ref(), *insecure)?;
        Ok(Self {
            conversation: talk,
            owner: owner.clone(),
            protocol,
            excludes_archived: *exclude_archived_repos,
        })
    }
}

fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    token: Option<&SecretKey>,
    insecure: bool,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api_address(api, "")?.with_suffix("/api/v1");
    let proof = RequestCredentials::from_optional(asking, token, &Scheme::Token)?;
    Conversation::new(asking.web, "Gitea", base, proof, &trusted_authorities(asking, insecure, None)?)
}

fn repository_path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repos/{}/{}", encode_segment("owner", owner)?, encode_segment("repository", repository)?))
}

impl RepositoryHost for Gitea<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let owner = encode_segment("owner", &self.owner)?;
        let found = match self
            .conversation
            .get_linked_pages::<RepositoryRow>(&format!("/orgs/{owner}/repos"), PAGE_QUERY)
            .await
        {
            // There is no such organization, so the owner may be a user.
            Err(problem) if problem.is_missing() => {
                self.conversation
                    .get_linked_pages::<RepositoryRow>(&format!("/users/{owner}/repos"), PAGE_QUERY)
                    .await?
            }
            found => found?,
        };
        let found = found.into_iter().filter(|one| !(self.excludes_archived && one.archived));
        let repository = |one: RepositoryRow| Repository {
            id: one.id.to_string(),
            organization: one.owner.login,
            name: one.name,
            url: self.protocol.clone_url(one.ssh_url, one.clone_url),
            // The server reports a default branch even if the repository is empty.
            default_branch: if one.empty { String::new() } else { one.default_branch },
            labels: one.topics.unwrap_or_default(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = encode_segment("branch", &repository.default_branch)?;
        let path =
            format!("{}/branches/{branch}", repository_path(&repository.organization, &repository.name)?);
        Ok(self.conversation.find::<Branch>(&path, "").await?.map(BranchTip::from))
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        let path = format!("{}/branches", repository_path(&repository.organization, &repository.name)?);
        let branches: Vec<Branch> = self.conversation.get_linked_pages(&path, PAGE_QUERY).await?;
        Ok(branches.into_iter().map(BranchTip::from).collect())
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, file: &str) -> Result<bool, Problem> {
        let path = repository_path(&repository.organization, &repository.name)?;
        let path = format!("{path}/contents/{}", encode_path(file)?);
        self.conversation.exists(&path, &format!("ref={}", percent_encode(&tip.sha))).await
    }
}

/// Client for the pull requests of a repository.
pub(crate) struct GiteaRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> GiteaRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestGitea) -> Result<Self, Problem> {
        let PullRequestGitea { owner, repo, api, token_ref, labels, insecure, .. } = generator;
        let talk = open_conversation(asking, api, token_ref.as_ref(), *insecure)?;
        Ok(Self {
            conversation: talk,
            path: format!("{}/pulls", repository_path(owner, repo)?),
            labels: labels.clone(),
        })
    }
}

impl PullRequestHost for GiteaRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> =
            self.conversation.get_linked_pages(&self.path, &format!("state=open&{PAGE_QUERY}")).await?;
        let pull_requests = found.into_iter().map(PullRequest::from);
        Ok(pull_requests.filter(|one| has_all_labels(&self.labels, &one.labels)).collect())
    }
}
