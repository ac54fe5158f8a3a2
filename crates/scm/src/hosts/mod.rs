//! The servers that are asked, each in its own tongue.

mod azure;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod gitlab;

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::ConfigMapKey;

use crate::problem::Problem;
use crate::secrets::Asking;
use crate::web::Trusted;

pub(crate) use azure::{Azure, AzureRequests};
pub(crate) use bitbucket::{Bitbucket, BitbucketRequests};
pub(crate) use bitbucket_server::{BitbucketServer, BitbucketServerRequests};
pub(crate) use gitea::{Gitea, GiteaRequests};
pub(crate) use github::{Github, GithubRequests};
pub(crate) use gitlab::{Gitlab, GitlabRequests};

/// A repository of an organisation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Repository {
    pub id: String,
    pub organization: String,
    pub name: String,
    pub url: String,
    pub default_branch: String,
    pub labels: Vec<String>,
}

/// A branch, and its newest commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tip {
    pub name: String,
    pub sha: String,
}

/// A server that has repositories.
pub(crate) trait Host {
    /// Those of the organisation that it was made for.
    async fn repositories(&self) -> Result<Vec<Repository>, Problem>;

    /// Its default branch; nothing where it is empty.
    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem>;

    /// All of its branches.
    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem>;

    /// Whether a file or a folder is there.
    async fn has(&self, repository: &Repository, tip: &Tip, path: &str) -> Result<bool, Problem>;
}

/// A server's repository that has pull requests.
pub(crate) trait Requests {
    /// Those that are open, or as the generator wants them.
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem>;
}

/// By which protocol repositories are cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Unsaid,
    Ssh,
    Https,
}

impl Protocol {
    pub fn new(text: &str) -> Result<Self, Problem> {
        match text {
            "" => Ok(Self::Unsaid),
            "ssh" => Ok(Self::Ssh),
            "https" => Ok(Self::Https),
            other => Err(Problem::new(format!(
                "cloneProtocol {other:?} is none that is known; write ssh or https"
            ))),
        }
    }

    /// The address that is meant; that of SSH where nothing is said.
    fn of(self, ssh: String, https: String) -> String {
        if self == Self::Https { https } else { ssh }
    }
}

/// Whom a generator trusts.
pub(crate) fn trusted(
    asking: Asking<'_>,
    insecure: bool,
    ca_ref: Option<&ConfigMapKey>,
) -> Result<Trusted, Problem> {
    match ca_ref {
        _ if insecure => Ok(Trusted::Anyone),
        None => Ok(Trusted::System),
        Some(ConfigMapKey { config_map_name: name, key, .. }) => {
            let pem = asking.secrets.config_map(name, key).map_err(Problem::new)?;
            Ok(Trusted::These { pem, origin: format!("key {key} of ConfigMap {name}") })
        }
    }
}

/// The name of a branch without what says that it is one.
fn short(name: &str) -> String {
    name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()
}

/// Whether all labels that are wanted are there.
fn has_all(wanted: &[String], found: &[String]) -> bool {
    wanted.iter().all(|label| found.contains(label))
}

/// Something that has a name.
#[derive(Deserialize)]
struct Named {
    name: String,
}

fn names(named: Option<Vec<Named>>) -> Vec<String> {
    named.unwrap_or_default().into_iter().map(|one| one.name).collect()
}

/// Who it is.
#[derive(Default, Deserialize)]
struct Account {
    #[serde(default)]
    login: String,
}

/// A branch of a repository at a server that speaks as GitHub does, or its end of a pull request.
#[derive(Default, Deserialize)]
struct End {
    #[serde(default, rename = "ref")]
    name: String,
    #[serde(default)]
    sha: String,
}

/// A pull request of a server that speaks as GitHub does.
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
    labels: Option<Vec<Named>>,
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
            labels: names(pull.labels),
        }
    }
}
