//! Bitbucket Cloud. API reference: <https://developer.atlassian.com/cloud/bitbucket/rest/>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestBitbucket, ScmBitbucket};

use super::{
    BranchTip, Links, NamedObject, Protocol, PullRequestHost, Repository, RepositoryHost, find_default_tip,
};
use crate::api_address::{encode_path, encode_segment};
use crate::conversation::{Conversation, query_of};
use crate::http_client::Authorities;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

/// Query for the largest page size of repositories and branches.
const PAGE_QUERY: &str = "pagelen=100";
/// Query for the largest page size of pull requests.
const PULL_REQUEST_PAGE_QUERY: &str = "pagelen=50";

/// Client for the repositories of a workspace.
pub(crate) struct Bitbucket<'a> {
    conversation: Conversation<'a>,
    owner: String,
    protocol: Protocol,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
    /// URL of the next page.
    #[serde(default)]
    next: Option<String>,
}

impl<T> Page<T> {
    fn into_items_and_next(self) -> (Vec<T>, Option<String>) {
        (self.values, self.next.as_deref().and_then(query_of))
    }
}

#[derive(Deserialize)]
struct RepositoryRow {
    uuid: String,
    slug: String,
    #[serde(default)]
    mainbranch: Option<NamedObject>,
    #[serde(default)]
    links: Links,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
    target: Commit,
}

#[derive(Default, Deserialize)]
struct Commit {
    #[serde(default)]
    hash: String,
}

impl From<Branch> for BranchTip {
    fn from(branch: Branch) -> Self {
        Self { name: branch.name, sha: branch.target.hash }
    }
}

#[derive(Deserialize)]
struct Pull {
    id: u64,
    #[serde(default)]
    title: String,
    source: End,
    destination: End,
    #[serde(default)]
    author: Option<Author>,
}

#[derive(Deserialize)]
struct End {
    branch: NamedObject,
    /// Latest commit. `None` if the source repository was deleted.
    #[serde(default)]
    commit: Option<Commit>,
}

#[derive(Default, Deserialize)]
struct Author {
    #[serde(default)]
    nickname: String,
}

impl From<Pull> for PullRequest {
    fn from(pull: Pull) -> Self {
        Self {
            number: pull.id,
            title: pull.title,
            branch: pull.source.branch.name,
            target_branch: pull.destination.branch.name,
            head_sha: pull.source.commit.unwrap_or_default().hash,
            author: pull.author.unwrap_or_default().nickname,
            labels: Vec::new(),
        }
    }
}

fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    proof: Option<RequestCredentials>,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api_address(api, asking.web.bitbucket())?;
    Conversation::new(asking.web, "Bitbucket", base, proof, &Authorities::System)
}

fn repository_path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!(
        "/repositories/{}/{}",
        encode_segment("owner", owner)?,
        encode_segment("repository", repository)?
    ))
}

impl<'a> Bitbucket<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmBitbucket,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let proof = RequestCredentials::from_secret(
            asking,
            &generator.app_password_ref,
            &Scheme::Basic(&generator.user),
        )?;
        let talk = open_conversation(asking, "", Some(proof))?;
        Ok(Self { conversation: talk, owner: generator.owner.clone(), protocol })
    }
}

impl RepositoryHost for Bitbucket<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/repositories/{}", encode_segment("owner", &self.owner)?);
        // A public workspace also lists other users' repositories, so request only those the user is a member
        // of.
        let found = self
            .conversation
            .get_pages(
                &path,
                &format!("role=member&{PAGE_QUERY}"),
                Page::<RepositoryRow>::into_items_and_next,
            )
            .await?;
        let repository = |one: RepositoryRow| Repository {
            id: one.uuid,
            organization: self.owner.clone(),
            name: one.slug,
            url: self.protocol.clone_url(one.links.href("ssh"), one.links.href("https")),
            default_branch: one.mainbranch.map(|branch| branch.name).unwrap_or_default(),
            labels: Vec::new(),
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let path = format!("{}/refs/branches", repository_path(&repository.organization, &repository.name)?);
        find_default_tip::<Branch>(&self.conversation, &path, repository).await
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        let path = format!("{}/refs/branches", repository_path(&repository.organization, &repository.name)?);
        let branches =
            self.conversation.get_pages(&path, PAGE_QUERY, Page::<Branch>::into_items_and_next).await?;
        Ok(branches.into_iter().map(BranchTip::from).collect())
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, file: &str) -> Result<bool, Problem> {
        let repository = repository_path(&repository.organization, &repository.name)?;
        let path = format!("{repository}/src/{}/{}", encode_segment("commit", &tip.sha)?, encode_path(file)?);
        self.conversation.exists(&path, "format=meta").await
    }
}

/// Client for the pull requests of a repository.
pub(crate) struct BitbucketRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
}

impl<'a> BitbucketRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestBitbucket) -> Result<Self, Problem> {
        let (basic, bearer) = (generator.basic_auth.as_ref(), generator.bearer_token.as_ref());
        let talk = open_conversation(
            asking,
            &generator.api,
            RequestCredentials::basic_or_bearer(asking, basic, bearer)?,
        )?;
        Ok(Self {
            conversation: talk,
            path: format!("{}/pullrequests", repository_path(&generator.owner, &generator.repo)?),
        })
    }
}

impl PullRequestHost for BitbucketRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let query = format!("state=OPEN&{PULL_REQUEST_PAGE_QUERY}");
        let found =
            self.conversation.get_pages(&self.path, &query, Page::<Pull>::into_items_and_next).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
