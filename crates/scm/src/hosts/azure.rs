//! Azure DevOps. API reference: <https://learn.microsoft.com/rest/api/azure/devops/git/>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestAzureDevOps, ScmAzureDevOps, SecretKey};

use super::{
    BranchTip, NamedObject, Protocol, PullRequestHost, Repository, RepositoryHost, has_all_labels, names_of,
    short_branch_name,
};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

const PUBLIC_API: &str = "https://dev.azure.com";
const API_VERSION_QUERY: &str = "api-version=7.0";
/// Number of pull requests per page.
const PAGE_SIZE: usize = 100;

/// Client for the repositories of a team project.
pub(crate) struct Azure<'a> {
    conversation: Conversation<'a>,
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
struct RepositoryRow {
    id: String,
    name: String,
    /// Default branch. `None` if the repository is empty.
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

impl From<Ref> for BranchTip {
    fn from(found: Ref) -> Self {
        Self { name: short_branch_name(&found.name), sha: found.object_id }
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
    labels: Option<Vec<NamedObject>>,
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
    /// Unique name, usually an email address.
    #[serde(default)]
    unique_name: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        let author = pull.created_by.unwrap_or_default().unique_name;
        Self {
            number: pull.pull_request_id,
            title: pull.title,
            branch: short_branch_name(&pull.source_ref_name),
            target_branch: short_branch_name(&pull.target_ref_name),
            head_sha: pull.last_merge_source_commit.unwrap_or_default().commit_id,
            author: author.split('@').next().unwrap_or_default().to_owned(),
            labels: names_of(pull.labels),
        }
    }
}

fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    token: Option<&SecretKey>,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api_address(api, PUBLIC_API)?;
    let proof = RequestCredentials::from_optional(asking, token, &Scheme::Basic(""))?;
    Conversation::new(asking.web, "Azure DevOps", base, proof, &Authorities::System)
}

fn project_path(organization: &str, project: &str) -> Result<String, Problem> {
    let (organization, project) =
        (encode_segment("organization", organization)?, encode_segment("project", project)?);
    Ok(format!("/{organization}/{project}/_apis/git/repositories"))
}

impl<'a> Azure<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmAzureDevOps,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let talk = open_conversation(asking, &generator.api, Some(&generator.access_token_ref))?;
        let (organization, project) = (generator.organization.clone(), generator.team_project.clone());
        Ok(Self { conversation: talk, organization, project, protocol })
    }

    fn repository_path(&self, repository: &Repository) -> Result<String, Problem> {
        Ok(format!(
            "{}/{}",
            project_path(&self.organization, &self.project)?,
            encode_segment("repository", &repository.id)?
        ))
    }

    /// Returns the branches whose names begin with a prefix.
    async fn branches_with_prefix(
        &self,
        repository: &Repository,
        begin: &str,
    ) -> Result<Vec<BranchTip>, Problem> {
        const NEXT: &str = "x-ms-continuationtoken";
        let path = format!("{}/refs", self.repository_path(repository)?);
        let first =
            format!("filter={}&$top=1000&{API_VERSION_QUERY}", percent_encode(&format!("heads/{begin}")));
        let (mut all, mut query) = (Vec::new(), first.clone());
        for _ in 0..self.conversation.web().limits.pages {
            let page = self.conversation.get_page::<List<Ref>>(&path, &query).await?;
            all.extend(page.content.value.into_iter().map(BranchTip::from));
            let next = page.headers.get(NEXT).and_then(|value| value.to_str().ok());
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(all),
                Some(next) => query = format!("{first}&continuationToken={}", percent_encode(next)),
            }
        }
        Err(self.conversation.too_many_pages(&path))
    }
}

impl RepositoryHost for Azure<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = project_path(&self.organization, &self.project)?;
        let found: List<RepositoryRow> = self.conversation.get(&path, API_VERSION_QUERY).await?;
        // Skip disabled repositories, which can't be read, and empty ones, which have no default branch.
        let found = found.value.into_iter().filter(|one| !one.is_disabled && one.default_branch.is_some());
        let repository = |one: RepositoryRow| Repository {
            id: one.id,
            organization: self.organization.clone(),
            name: one.name,
            // As in Argo CD, the default protocol is HTTPS here but SSH for all other providers.
            url: if self.protocol == Protocol::Ssh { one.ssh_url } else { one.remote_url },
            default_branch: short_branch_name(&one.default_branch.unwrap_or_default()),
            labels: Vec::new(),
        };
        Ok(found.map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let name = &repository.default_branch;
        let tips = self.branches_with_prefix(repository, name).await?;
        Ok(tips.into_iter().find(|tip| tip.name == *name))
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        self.branches_with_prefix(repository, "").await
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, file: &str) -> Result<bool, Problem> {
        let path = format!("{}/items", self.repository_path(repository)?);
        let query = format!(
            "path=/{}&versionDescriptor.version={}&versionDescriptor.versionType=commit&$format=json&{API_VERSION_QUERY}",
            encode_path(file)?,
            percent_encode(&tip.sha)
        );
        self.conversation.exists(&path, &query).await
    }
}

/// Client for the pull requests of a repository.
pub(crate) struct AzureRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
    labels: Vec<String>,
}

impl<'a> AzureRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestAzureDevOps) -> Result<Self, Problem> {
        let talk = open_conversation(asking, &generator.api, generator.token_ref.as_ref())?;
        let path = project_path(&generator.organization, &generator.project)?;
        let path = format!("{path}/{}/pullrequests", encode_segment("repository", &generator.repo)?);
        Ok(Self { conversation: talk, path, labels: generator.labels.clone() })
    }
}

impl PullRequestHost for AzureRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let mut all = Vec::new();
        for page in 0..self.conversation.web().limits.pages {
            let skip = page * PAGE_SIZE;
            let query =
                format!("searchCriteria.status=active&$top={PAGE_SIZE}&$skip={skip}&{API_VERSION_QUERY}");
            let found: List<Pull> = self.conversation.get(&self.path, &query).await?;
            let is_last = found.value.len() < PAGE_SIZE;
            all.extend(found.value.into_iter().map(PullRequest::from));
            if is_last {
                all.retain(|one| has_all_labels(&self.labels, &one.labels));
                return Ok(all);
            }
        }
        Err(self.conversation.too_many_pages(&self.path))
    }
}
