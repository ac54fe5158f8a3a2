//! Gitea and Forgejo: <https://docs.gitea.com/api>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestGitea, ScmGitea, SecretKey};

use super::{Account, Host, Protocol, Pull, Repository, Requests, Tip, has_all, trusted};
use crate::address::{encoded, inside, part};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Asking;

/// As many as a page may have, unless a server is set up otherwise.
const PAGE: &str = "limit=50";

/// Repositories of a user or an organisation.
pub(crate) struct Gitea<'a> {
    talk: Conversation<'a>,
    owner: String,
    protocol: Protocol,
    without_archived: bool,
}

#[derive(Deserialize)]
struct Found {
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

impl From<Branch> for Tip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.name, sha: branch.commit.id }
    }
}

impl<'a> Gitea<'a> {
    pub fn new(asking: Asking<'a>, generator: &ScmGitea, protocol: Protocol) -> Result<Self, Problem> {
        let ScmGitea { owner, api, token_ref, exclude_archived_repos, insecure, .. } = generator;
        let talk = talk(asking, api, token_ref.as_ref(), *insecure)?;
        Ok(Self { talk, owner: owner.clone(), protocol, without_archived: *exclude_archived_repos })
    }
}

fn talk<'a>(
    asking: Asking<'a>,
    api: &str,
    token: Option<&SecretKey>,
    insecure: bool,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api(api, "")?.ending("/api/v1");
    let proof = Proof::maybe(asking, token, &Scheme::Token)?;
    Conversation::new(asking.web, "Gitea", base, proof, &trusted(asking, insecure, None)?)
}

fn path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repos/{}/{}", part("owner", owner)?, part("repository", repository)?))
}

impl Host for Gitea<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let owner = part("owner", &self.owner)?;
        let found = match self.talk.linked::<Found>(&format!("/orgs/{owner}/repos"), PAGE).await {
            // It is no organisation.
            Err(problem) if problem.is_missing() => {
                self.talk.linked::<Found>(&format!("/users/{owner}/repos"), PAGE).await?
            }
            found => found?,
        };
        let found = found.into_iter().filter(|one| !(self.without_archived && one.archived));
        let repository = |one: Found| Repository {
            id: one.id.to_string(),
            organization: one.owner.login,
            name: one.name,
            url: self.protocol.of(one.ssh_url, one.clone_url),
            // One is named before there is any.
            default_branch: if one.empty { String::new() } else { one.default_branch },
            labels: one.topics.unwrap_or_default(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = part("branch", &repository.default_branch)?;
        let path = format!("{}/branches/{branch}", path(&repository.organization, &repository.name)?);
        Ok(self.talk.find::<Branch>(&path, "").await?.map(Tip::from))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        let path = format!("{}/branches", path(&repository.organization, &repository.name)?);
        let branches: Vec<Branch> = self.talk.linked(&path, PAGE).await?;
        Ok(branches.into_iter().map(Tip::from).collect())
    }

    async fn has(&self, repository: &Repository, tip: &Tip, file: &str) -> Result<bool, Problem> {
        let path = path(&repository.organization, &repository.name)?;
        let path = format!("{path}/contents/{}", inside(file)?);
        self.talk.exists(&path, &format!("ref={}", encoded(&tip.sha))).await
    }
}

/// Pull requests of a repository.
pub(crate) struct GiteaRequests<'a> {
    talk: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> GiteaRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestGitea) -> Result<Self, Problem> {
        let PullRequestGitea { owner, repo, api, token_ref, labels, insecure, .. } = generator;
        let talk = talk(asking, api, token_ref.as_ref(), *insecure)?;
        Ok(Self { talk, path: format!("{}/pulls", path(owner, repo)?), labels: labels.clone() })
    }
}

impl Requests for GiteaRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> = self.talk.linked(&self.path, &format!("state=open&{PAGE}")).await?;
        let requests = found.into_iter().map(PullRequest::from);
        Ok(requests.filter(|one| has_all(&self.labels, &one.labels)).collect())
    }
}
