//! Bitbucket Server and Data Center. API reference: <https://developer.atlassian.com/server/bitbucket/rest/>.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{
    BasicAuth, BearerToken, ConfigMapKey, PullRequestBitbucketServer, ScmBitbucketServer,
};

use super::{BranchTip, Links, Protocol, PullRequestHost, Repository, RepositoryHost, trusted_authorities};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::request_credentials::RequestCredentials;
use crate::secrets::RequestContext;

/// Path of the REST API.
const API_PATH: &str = "/rest/api/1.0";
/// Query for the largest page size in the server's default configuration.
const PAGE_QUERY: &str = "limit=100";

/// Client for the repositories of a project.
pub(crate) struct BitbucketServer<'a> {
    conversation: Conversation<'a>,
    project: String,
    protocol: Protocol,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
    #[serde(default, rename = "isLastPage")]
    is_last: bool,
    #[serde(default, rename = "nextPageStart")]
    next: Option<u64>,
}

#[derive(Deserialize)]
struct RepositoryRow {
    id: u64,
    slug: String,
    project: Project,
    #[serde(default)]
    links: Links,
}

#[derive(Deserialize)]
struct Project {
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Branch {
    display_id: String,
    latest_commit: String,
    #[serde(default)]
    is_default: bool,
}

impl From<Branch> for BranchTip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.display_id, sha: branch.latest_commit }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pull {
    id: u64,
    #[serde(default)]
    title: String,
    from_ref: Branch,
    to_ref: Branch,
    #[serde(default)]
    author: Author,
}

#[derive(Default, Deserialize)]
struct Author {
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
struct User {
    #[serde(default)]
    name: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        Self {
            number: pull.id,
            title: pull.title,
            branch: pull.from_ref.display_id,
            target_branch: pull.to_ref.display_id,
            head_sha: pull.from_ref.latest_commit,
            author: pull.author.user.name,
            labels: Vec::new(),
        }
    }
}

fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    insecure: bool,
    ca_ref: Option<&ConfigMapKey>,
    basic: Option<&BasicAuth>,
    bearer: Option<&BearerToken>,
) -> Result<Conversation<'a>, Problem> {
    // The URL may or may not end with `/rest`.
    let base = asking.api_address(api, "")?;
    let base = if base.text().ends_with(API_PATH) {
        base
    } else {
        base.with_suffix("/rest").with_suffix("/api/1.0")
    };
    let proof = RequestCredentials::basic_or_bearer(asking, basic, bearer)?;
    Conversation::new(asking.web, "Bitbucket", base, proof, &trusted_authorities(asking, insecure, ca_ref)?)
}

fn repository_path(project: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!(
        "/projects/{}/repos/{}",
        encode_segment("project", project)?,
        encode_segment("repository", repository)?
    ))
}

/// Returns the entries from all pages of a list.
async fn get_all_pages<T: DeserializeOwned>(
    talk: &Conversation<'_>,
    path: &str,
    query: &str,
) -> Result<Vec<T>, Problem> {
    let turned = |page: Page<T>| {
        let next = page.next.filter(|_| !page.is_last);
        (page.values, next.map(|start| format!("{query}&start={start}")))
    };
    talk.get_pages(path, query, turned).await
}

impl<'a> BitbucketServer<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmBitbucketServer,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let talk = open_conversation(
            asking,
            &generator.api,
            generator.insecure,
            generator.ca_ref.as_ref(),
            generator.basic_auth.as_ref(),
            generator.bearer_token.as_ref(),
        )?;
        Ok(Self { conversation: talk, project: generator.project.clone(), protocol })
    }
}

impl RepositoryHost for BitbucketServer<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/projects/{}/repos", encode_segment("project", &self.project)?);
        let found: Vec<RepositoryRow> = get_all_pages(&self.conversation, &path, PAGE_QUERY).await?;
        let repository = |one: RepositoryRow| Repository {
            id: one.id.to_string(),
            organization: one.project.key,
            name: one.slug,
            url: self.protocol.clone_url(one.links.href("ssh"), one.links.href("http")),
            ..Repository::default()
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let path = format!("{}/branches", repository_path(&repository.organization, &repository.name)?);
        if let Some(branch) = self.conversation.find::<Branch>(&format!("{path}/default"), "").await? {
            return Ok(Some(branch.into()));
        }
        // Newer versions of the server lack the request for the default branch. All versions mark it in the
        // list of branches, unless the repository is empty.
        let branches: Vec<Branch> = get_all_pages(&self.conversation, &path, PAGE_QUERY).await?;
        Ok(branches.into_iter().find(|branch| branch.is_default).map(BranchTip::from))
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        let path = format!("{}/branches", repository_path(&repository.organization, &repository.name)?);
        let branches: Vec<Branch> = get_all_pages(&self.conversation, &path, PAGE_QUERY).await?;
        Ok(branches.into_iter().map(BranchTip::from).collect())
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, file: &str) -> Result<bool, Problem> {
        let path = repository_path(&repository.organization, &repository.name)?;
        let path = format!("{path}/browse/{}", encode_path(file)?);
        self.conversation.exists(&path, &format!("at={}&type=true", percent_encode(&tip.sha))).await
    }
}

/// Client for the pull requests of a repository.
pub(crate) struct BitbucketServerRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
}

impl<'a> BitbucketServerRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestBitbucketServer) -> Result<Self, Problem> {
        let talk = open_conversation(
            asking,
            &generator.api,
            generator.insecure,
            generator.ca_ref.as_ref(),
            generator.basic_auth.as_ref(),
            generator.bearer_token.as_ref(),
        )?;
        Ok(Self {
            conversation: talk,
            path: format!("{}/pull-requests", repository_path(&generator.project, &generator.repo)?),
        })
    }
}

impl PullRequestHost for BitbucketServerRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> =
            get_all_pages(&self.conversation, &self.path, &format!("state=OPEN&{PAGE_QUERY}")).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
