//! GitHub and GitHub Enterprise. API reference: <https://docs.github.com/rest>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestGithub, ScmGithub, SecretKey};

use super::{
    Account, BranchTip, End, Protocol, Pull, PullRequestHost, Repository, RepositoryHost, has_all_labels,
};
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
struct RepositoryRow {
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
    archived: bool,
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
        let talk = open_conversation(asking, &generator.api, token, (app, &generator.organization))?;
        let (organization, without_archived) =
            (generator.organization.clone(), generator.exclude_archived_repos);
        Ok(Self { conversation: talk, organization, protocol, excludes_archived: without_archived })
    }

    fn path_of(&self, repository: &Repository) -> Result<String, Problem> {
        repository_path(&repository.organization, &repository.name)
    }
}

/// Creates the client for requests. Appends the API path to the address of a GitHub Enterprise server,
/// because users often omit this path. `owner` is the owner of the repositories.
fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    token: Option<&SecretKey>,
    (app, owner): (&str, &str),
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

fn repository_path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repos/{}/{}", encode_segment("owner", owner)?, encode_segment("repository", repository)?))
}

impl RepositoryHost for Github<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/orgs/{}/repos", encode_segment("organization", &self.organization)?);
        let found: Vec<RepositoryRow> = self.conversation.get_linked_pages(&path, PAGE_QUERY).await?;
        let found = found.into_iter().filter(|one| !(self.excludes_archived && one.archived));
        let repository = |one: RepositoryRow| Repository {
            id: one.id.to_string(),
            organization: one.owner.login,
            name: one.name,
            url: self.protocol.clone_url(one.ssh_url, one.clone_url),
            default_branch: one.default_branch.unwrap_or_default(),
            labels: one.topics.unwrap_or_default(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = encode_segment("branch", &repository.default_branch)?;
        let path = format!("{}/branches/{branch}", self.path_of(repository)?);
        Ok(self.conversation.find::<Branch>(&path, "").await?.map(BranchTip::from))
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

/// Client for the pull requests of a repository.
pub(crate) struct GithubRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> GithubRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestGithub) -> Result<Self, Problem> {
        let (token, app) = (generator.token_ref.as_ref(), &generator.app_secret_name);
        let talk = open_conversation(asking, &generator.api, token, (app, &generator.owner))?;
        let path = format!("{}/pulls", repository_path(&generator.owner, &generator.repo)?);
        Ok(Self { conversation: talk, path, labels: generator.labels.clone() })
    }
}

impl PullRequestHost for GithubRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> =
            self.conversation.get_linked_pages(&self.path, &format!("state=open&{PAGE_QUERY}")).await?;
        let pull_requests = found.into_iter().map(PullRequest::from);
        Ok(pull_requests.filter(|one| has_all_labels(&self.labels, &one.labels)).collect())
    }
}
