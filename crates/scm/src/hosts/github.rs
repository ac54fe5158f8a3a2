//! GitHub and GitHub Enterprise. API reference: <https://docs.github.com/rest>.

use serde::Deserialize;
use tidegate_model::argo::{PullRequestGithub, ScmGithub, SecretKey};

use super::github_format::{End, PullRequestClient, RepositoryRow, repository_path};
use super::{BranchTip, Protocol, Repository, RepositoryHost, find_default_tip};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::github_apps::App;
use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

const PUBLIC_API: &str = "https://api.github.com";
/// Query for the largest page size.
const PAGE_QUERY: &str = "per_page=100";

/// Client for the repositories of an organization.
pub(crate) struct Github<'a> {
    conversation: Conversation<'a>,
    organization: String,
    protocol: Protocol,
    excludes_archived: bool,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
    commit: End,
}

impl From<Branch> for BranchTip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.name, sha: branch.commit.sha }
    }
}

impl<'a> Github<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmGithub,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let (token, app) = (generator.token_ref.as_ref(), &generator.app_secret_name);
        let talk = open_conversation(asking, &generator.api, token, app, &generator.organization)?;
        let (organization, without_archived) =
            (generator.organization.clone(), generator.exclude_archived_repos);
        Ok(Self { conversation: talk, organization, protocol, excludes_archived: without_archived })
    }

    fn path_of(&self, repository: &Repository) -> Result<String, Problem> {
        repository_path(&repository.organization, &repository.name)
    }
}

/// Creates the client. Appends the API path to a GitHub Enterprise URL, because users often omit it. `owner`
/// is the owner of the repositories.
fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    token: Option<&SecretKey>,
    app: &str,
    owner: &str,
) -> Result<Conversation<'a>, Problem> {
    // As in Argo CD, an App takes precedence over a token.
    let app = if app.is_empty() { None } else { Some(App::from_secret(asking, app)?) };
    let base = match &app {
        Some(app) => app.base(asking, api)?,
        None => asking.api_address(api, PUBLIC_API)?,
    };
    let host = base.uri().host().unwrap_or_default().to_owned();
    let is_api = host.starts_with("api.") || host.contains(".api.");
    let base = if is_api { base } else { base.with_suffix("/api/v3") };
    let proof = match app {
        Some(app) => Some(app.proof(asking, &base, owner)?),
        None => RequestCredentials::from_optional(asking, token, &Scheme::Bearer)?,
    };
    Conversation::new(asking.web, "GitHub", base, proof, &Authorities::System)
}

impl RepositoryHost for Github<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/orgs/{}/repos", encode_segment("organization", &self.organization)?);
        let found: Vec<RepositoryRow> = self.conversation.get_linked_pages(&path, PAGE_QUERY).await?;
        let found = found.into_iter().filter(|one| !(self.excludes_archived && one.archived));
        Ok(found.map(|one| one.into_repository(self.protocol)).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let path = format!("{}/branches", self.path_of(repository)?);
        find_default_tip::<Branch>(&self.conversation, &path, repository).await
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        let path = format!("{}/branches", self.path_of(repository)?);
        let branches: Vec<Branch> = self.conversation.get_linked_pages(&path, PAGE_QUERY).await?;
        Ok(branches.into_iter().map(BranchTip::from).collect())
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, path: &str) -> Result<bool, Problem> {
        let path = format!("{}/contents/{}", self.path_of(repository)?, encode_path(path)?);
        self.conversation.exists(&path, &format!("ref={}", percent_encode(&tip.sha))).await
    }
}

/// Creates the client for the pull requests of a repository.
pub(crate) fn github_requests<'a>(
    asking: RequestContext<'a>,
    generator: &PullRequestGithub,
) -> Result<PullRequestClient<'a>, Problem> {
    let (token, app) = (generator.token_ref.as_ref(), &generator.app_secret_name);
    Ok(PullRequestClient {
        conversation: open_conversation(asking, &generator.api, token, app, &generator.owner)?,
        path: format!("{}/pulls", repository_path(&generator.owner, &generator.repo)?),
        page_query: PAGE_QUERY,
        labels: generator.labels.clone(),
    })
}
