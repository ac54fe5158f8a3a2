//! GitHub, and GitHub Enterprise: <https://docs.github.com/rest>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestGithub, ScmGithub, SecretKey};

use super::{Account, End, Host, Protocol, Pull, Repository, Requests, Tip, has_all};
use crate::address::{encoded, inside, part};
use crate::apps::App;
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Asking;
use crate::web::Trusted;

const PUBLIC: &str = "https://api.github.com";
/// As many as a page may have.
const PAGE: &str = "per_page=100";

/// Repositories of an organisation.
pub(crate) struct Github<'a> {
    talk: Conversation<'a>,
    organization: String,
    protocol: Protocol,
    without_archived: bool,
}

#[derive(Deserialize)]
struct Found {
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

impl From<Branch> for Tip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.name, sha: branch.commit.sha }
    }
}

impl<'a> Github<'a> {
    pub fn new(asking: Asking<'a>, generator: &ScmGithub, protocol: Protocol) -> Result<Self, Problem> {
        let (token, app) = (generator.token_ref.as_ref(), &generator.app_secret_name);
        let talk = talk(asking, &generator.api, token, (app, &generator.organization))?;
        let (organization, without_archived) =
            (generator.organization.clone(), generator.exclude_archived_repos);
        Ok(Self { talk, organization, protocol, without_archived })
    }

    fn path(&self, repository: &Repository) -> Result<String, Problem> {
        path(&repository.organization, &repository.name)
    }
}

/// An Enterprise server has its API below a path of its own, which people leave out. `owner` is whose repositories these are.
fn talk<'a>(
    asking: Asking<'a>,
    api: &str,
    token: Option<&SecretKey>,
    (app, owner): (&str, &str),
) -> Result<Conversation<'a>, Problem> {
    // An App goes before a token, as Argo CD has it.
    let app = if app.is_empty() { None } else { Some(App::of(asking, app)?) };
    let base = match &app {
        Some(app) => app.base(asking, api)?,
        None => asking.api(api, PUBLIC)?,
    };
    let host = base.uri().host().unwrap_or_default().to_owned();
    let is_api = host.starts_with("api.") || host.contains(".api.");
    let base = if is_api { base } else { base.ending("/api/v3") };
    let proof = match app {
        Some(app) => Some(app.proof(asking, &base, owner)?),
        None => Proof::maybe(asking, token, &Scheme::Bearer)?,
    };
    Conversation::new(asking.web, "GitHub", base, proof, &Trusted::System)
}

fn path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repos/{}/{}", part("owner", owner)?, part("repository", repository)?))
}

impl Host for Github<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/orgs/{}/repos", part("organization", &self.organization)?);
        let found: Vec<Found> = self.talk.linked(&path, PAGE).await?;
        let found = found.into_iter().filter(|one| !(self.without_archived && one.archived));
        let repository = |one: Found| Repository {
            id: one.id.to_string(),
            organization: one.owner.login,
            name: one.name,
            url: self.protocol.of(one.ssh_url, one.clone_url),
            default_branch: one.default_branch.unwrap_or_default(),
            labels: one.topics.unwrap_or_default(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = part("branch", &repository.default_branch)?;
        let path = format!("{}/branches/{branch}", self.path(repository)?);
        Ok(self.talk.find::<Branch>(&path, "").await?.map(Tip::from))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        let path = format!("{}/branches", self.path(repository)?);
        let branches: Vec<Branch> = self.talk.linked(&path, PAGE).await?;
        Ok(branches.into_iter().map(Tip::from).collect())
    }

    async fn has(&self, repository: &Repository, tip: &Tip, path: &str) -> Result<bool, Problem> {
        let path = format!("{}/contents/{}", self.path(repository)?, inside(path)?);
        self.talk.exists(&path, &format!("ref={}", encoded(&tip.sha))).await
    }
}

/// Pull requests of a repository.
pub(crate) struct GithubRequests<'a> {
    talk: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> GithubRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestGithub) -> Result<Self, Problem> {
        let (token, app) = (generator.token_ref.as_ref(), &generator.app_secret_name);
        let talk = talk(asking, &generator.api, token, (app, &generator.owner))?;
        let path = format!("{}/pulls", path(&generator.owner, &generator.repo)?);
        Ok(Self { talk, path, labels: generator.labels.clone() })
    }
}

impl Requests for GithubRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> = self.talk.linked(&self.path, &format!("state=open&{PAGE}")).await?;
        let requests = found.into_iter().map(PullRequest::from);
        Ok(requests.filter(|one| has_all(&self.labels, &one.labels)).collect())
    }
}
