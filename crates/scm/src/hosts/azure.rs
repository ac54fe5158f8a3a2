//! Azure DevOps: <https://learn.microsoft.com/rest/api/azure/devops/git/>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestAzureDevOps, ScmAzureDevOps, SecretKey};

use super::{Host, Named, Protocol, Repository, Requests, Tip, has_all, names, short};
use crate::address::{encoded, inside, part};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Asking;
use crate::web::Trusted;

const PUBLIC: &str = "https://dev.azure.com";
const VERSION: &str = "api-version=7.0";
/// Pull requests of a page.
const PAGE: usize = 100;

/// Repositories of a team project.
pub(crate) struct Azure<'a> {
    talk: Conversation<'a>,
    organization: String,
    project: String,
    protocol: Protocol,
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    value: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    id: String,
    name: String,
    /// Nothing where it is empty.
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default)]
    remote_url: String,
    #[serde(default)]
    ssh_url: String,
    #[serde(default)]
    is_disabled: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ref {
    name: String,
    object_id: String,
}

impl From<Ref> for Tip {
    fn from(found: Ref) -> Self {
        Self { name: short(&found.name), sha: found.object_id }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pull {
    pull_request_id: u64,
    #[serde(default)]
    title: String,
    source_ref_name: String,
    target_ref_name: String,
    #[serde(default)]
    last_merge_source_commit: Option<Commit>,
    #[serde(default)]
    labels: Option<Vec<Named>>,
    #[serde(default)]
    created_by: Option<Identity>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    #[serde(default)]
    commit_id: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    /// Often an address of mail.
    #[serde(default)]
    unique_name: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let author = pull.created_by.unwrap_or_default().unique_name;
        Self {
            number: pull.pull_request_id,
            title: pull.title,
            branch: short(&pull.source_ref_name),
            target_branch: short(&pull.target_ref_name),
            head_sha: pull.last_merge_source_commit.unwrap_or_default().commit_id,
            author: author.split('@').next().unwrap_or_default().to_owned(),
            labels: names(pull.labels),
        }
    }
}

fn talk<'a>(asking: Asking<'a>, api: &str, token: Option<&SecretKey>) -> Result<Conversation<'a>, Problem> {
    let base = asking.api(api, PUBLIC)?;
    let proof = Proof::maybe(asking, token, &Scheme::Basic(""))?;
    Conversation::new(asking.web, "Azure DevOps", base, proof, &Trusted::System)
}

fn path(organization: &str, project: &str) -> Result<String, Problem> {
    let (organization, project) = (part("organization", organization)?, part("project", project)?);
    Ok(format!("/{organization}/{project}/_apis/git/repositories"))
}

impl<'a> Azure<'a> {
    pub fn new(asking: Asking<'a>, generator: &ScmAzureDevOps, protocol: Protocol) -> Result<Self, Problem> {
        let talk = talk(asking, &generator.api, Some(&generator.access_token_ref))?;
        let (organization, project) = (generator.organization.clone(), generator.team_project.clone());
        Ok(Self { talk, organization, project, protocol })
    }

    fn path(&self, repository: &Repository) -> Result<String, Problem> {
        Ok(format!("{}/{}", path(&self.organization, &self.project)?, part("repository", &repository.id)?))
    }

    /// Branches whose name begins so.
    async fn beginning(&self, repository: &Repository, begin: &str) -> Result<Vec<Tip>, Problem> {
        const NEXT: &str = "x-ms-continuationtoken";
        let path = format!("{}/refs", self.path(repository)?);
        let first = format!("filter={}&$top=1000&{VERSION}", encoded(&format!("heads/{begin}")));
        let (mut all, mut query) = (Vec::new(), first.clone());
        for _ in 0..self.talk.web().limits.pages {
            let page = self.talk.page::<List<Ref>>(&path, &query).await?;
            all.extend(page.content.value.into_iter().map(Tip::from));
            let next = page.headers.get(NEXT).and_then(|value| value.to_str().ok());
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(all),
                Some(next) => query = format!("{first}&continuationToken={}", encoded(next)),
            }
        }
        Err(self.talk.too_many_pages(&path))
    }
}

impl Host for Azure<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = path(&self.organization, &self.project)?;
        let found: List<Found> = self.talk.get(&path, VERSION).await?;
        // Nobody can read what is disabled, and nothing is in what has no branch.
        let found = found.value.into_iter().filter(|one| !one.is_disabled && one.default_branch.is_some());
        let repository = |one: Found| Repository {
            id: one.id,
            organization: self.organization.clone(),
            name: one.name,
            // As in Argo CD, it is the other way round here where nothing is said.
            url: if self.protocol == Protocol::Ssh { one.ssh_url } else { one.remote_url },
            default_branch: short(&one.default_branch.unwrap_or_default()),
            labels: Vec::new(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        let name = &repository.default_branch;
        let tips = self.beginning(repository, name).await?;
        Ok(tips.into_iter().find(|tip| tip.name == *name))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        self.beginning(repository, "").await
    }

    async fn has(&self, repository: &Repository, tip: &Tip, file: &str) -> Result<bool, Problem> {
        let path = format!("{}/items", self.path(repository)?);
        let query = format!(
            "path=/{}&versionDescriptor.version={}&versionDescriptor.versionType=commit&$format=json&{VERSION}",
            inside(file)?,
            encoded(&tip.sha)
        );
        self.talk.exists(&path, &query).await
    }
}

/// Pull requests of a repository.
pub(crate) struct AzureRequests<'a> {
    talk: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> AzureRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestAzureDevOps) -> Result<Self, Problem> {
        let talk = talk(asking, &generator.api, generator.token_ref.as_ref())?;
        let path = path(&generator.organization, &generator.project)?;
        let path = format!("{path}/{}/pullrequests", part("repository", &generator.repo)?);
        Ok(Self { talk, path, labels: generator.labels.clone() })
    }
}

impl Requests for AzureRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let mut all = Vec::new();
        for page in 0..self.talk.web().limits.pages {
            let skip = page * PAGE;
            let query = format!("searchCriteria.status=active&$top={PAGE}&$skip={skip}&{VERSION}");
            let found: List<Pull> = self.talk.get(&self.path, &query).await?;
            let is_last = found.value.len() < PAGE;
            all.extend(found.value.into_iter().map(PullRequest::from));
            if is_last {
                all.retain(|one| has_all(&self.labels, &one.labels));
                return Ok(all);
            }
        }
        Err(self.talk.too_many_pages(&self.path))
    }
}
