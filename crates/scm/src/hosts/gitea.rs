//! Gitea and Forgejo. API reference: <https://docs.gitea.com/api>.

use tidegate_model::argo::{PullRequestGitea, ScmGitea, SecretKey};

use super::github_format::{PullRequestClient, RepositoryRow, repository_path};
use super::{Branch, BranchTip, Protocol, Repository, RepositoryHost, find_default_tip, trusted_authorities};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

/// Query for the largest page size in the server's default configuration.
const PAGE_QUERY: &str = "limit=50";

/// Client for the repositories of a user or an organization.
pub(crate) struct Gitea<'a> {
    conversation: Conversation<'a>,
    owner: String,
    protocol: Protocol,
    excludes_archived: bool,
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

impl RepositoryHost for Gitea<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let owner = encode_segment("owner", &self.owner)?;
        let found = match self
            .conversation
            .get_linked_pages::<RepositoryRow>(&format!("/orgs/{owner}/repos"), PAGE_QUERY)
            .await
        {
            // No such organization; the owner may be a user.
            Err(problem) if problem.is_missing() => {
                self.conversation
                    .get_linked_pages::<RepositoryRow>(&format!("/users/{owner}/repos"), PAGE_QUERY)
                    .await?
            }
            found => found?,
        };
        let found = found.into_iter().filter(|one| !(self.excludes_archived && one.archived));
        Ok(found.map(|one| one.into_repository(self.protocol)).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let path = format!("{}/branches", repository_path(&repository.organization, &repository.name)?);
        find_default_tip::<Branch>(&self.conversation, &path, repository).await
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

/// Creates the client for the pull requests of a repository.
pub(crate) fn gitea_requests<'a>(
    asking: RequestContext<'a>,
    generator: &PullRequestGitea,
) -> Result<PullRequestClient<'a>, Problem> {
    let PullRequestGitea { owner, repo, api, token_ref, labels, insecure, .. } = generator;
    Ok(PullRequestClient {
        conversation: open_conversation(asking, api, token_ref.as_ref(), *insecure)?,
        path: format!("{}/pulls", repository_path(owner, repo)?),
        page_query: PAGE_QUERY,
        labels: labels.clone(),
    })
}
