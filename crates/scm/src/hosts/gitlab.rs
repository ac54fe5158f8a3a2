//! GitLab. API reference: <https://docs.gitlab.com/api/rest/>.

use serde::Deserialize;
use serde_json::Value;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{ConfigMapKey, PullRequestGitlab, ScmGitlab, SecretKey};

use super::{
    Branch, BranchTip, Protocol, PullRequestHost, Repository, RepositoryHost, find_default_tip,
    trusted_authorities,
};
use crate::api_address::{encode_path, encode_segment, percent_encode};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::request_credentials::{RequestCredentials, Scheme};
use crate::secrets::RequestContext;

const PUBLIC_API: &str = "https://gitlab.com";
/// Query for the largest page size.
const PAGE_QUERY: &str = "per_page=100";

/// Client for the projects of a group.
pub(crate) struct Gitlab<'a> {
    conversation: Conversation<'a>,
    group: String,
    /// Query that selects the projects.
    query: String,
    protocol: Protocol,
}

#[derive(Deserialize)]
struct RepositoryRow {
    id: u64,
    path: String,
    namespace: Namespace,
    #[serde(default)]
    default_branch: Option<String>,
    #[serde(default)]
    ssh_url_to_repo: String,
    #[serde(default)]
    http_url_to_repo: String,
    #[serde(default)]
    topics: Option<Vec<String>>,
    /// Topics, as older versions of GitLab call them.
    #[serde(default)]
    tag_list: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Namespace {
    full_path: String,
}

#[derive(Deserialize)]
struct Merge {
    iid: u64,
    #[serde(default)]
    title: String,
    source_branch: String,
    target_branch: String,
    #[serde(default)]
    sha: Option<String>,
    #[serde(default)]
    author: Option<Author>,
    #[serde(default)]
    labels: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Author {
    username: String,
}

impl From<Merge> for PullRequest {
    fn from(merge: Merge) -> Self {
        Self {
            number: merge.iid,
            title: merge.title,
            branch: merge.source_branch,
            target_branch: merge.target_branch,
            head_sha: merge.sha.unwrap_or_default(),
            author: merge.author.unwrap_or_default().username,
            labels: merge.labels,
        }
    }
}

fn open_conversation<'a>(
    asking: RequestContext<'a>,
    api: &str,
    insecure: bool,
    token: Option<&SecretKey>,
    ca_ref: Option<&ConfigMapKey>,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api_address(api, PUBLIC_API)?.with_suffix("/api/v4");
    let proof = RequestCredentials::from_optional(asking, token, &Scheme::Private)?;
    Conversation::new(asking.web, "GitLab", base, proof, &trusted_authorities(asking, insecure, ca_ref)?)
}

impl<'a> Gitlab<'a> {
    pub fn new(
        asking: RequestContext<'a>,
        generator: &ScmGitlab,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let talk = open_conversation(
            asking,
            &generator.api,
            generator.insecure,
            generator.token_ref.as_ref(),
            generator.ca_ref.as_ref(),
        )?;
        let shared = generator.include_shared_projects.unwrap_or(true);
        let mut query =
            format!("{PAGE_QUERY}&include_subgroups={}&with_shared={shared}", generator.include_subgroups);
        if generator.include_archived_repos == Some(false) {
            query.push_str("&archived=false");
        }
        if !generator.topic.is_empty() {
            query.push_str(&format!("&topic={}", percent_encode(&generator.topic)));
        }
        Ok(Self { conversation: talk, group: generator.group.clone(), query, protocol })
    }
}

impl RepositoryHost for Gitlab<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/groups/{}/projects", encode_segment("group", &self.group)?);
        let found: Vec<RepositoryRow> = self.conversation.get_linked_pages(&path, &self.query).await?;
        let repository = |one: RepositoryRow| {
            let topics = one.topics.unwrap_or_default();
            Repository {
                id: one.id.to_string(),
                organization: one.namespace.full_path,
                name: one.path,
                url: self.protocol.clone_url(one.ssh_url_to_repo, one.http_url_to_repo),
                default_branch: one.default_branch.unwrap_or_default(),
                labels: if topics.is_empty() { one.tag_list.unwrap_or_default() } else { topics },
            }
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<BranchTip>, Problem> {
        let path = format!("/projects/{}/repository/branches", repository.id);
        find_default_tip::<Branch>(&self.conversation, &path, repository).await
    }

    async fn branch_tips(&self, repository: &Repository) -> Result<Vec<BranchTip>, Problem> {
        let path = format!("/projects/{}/repository/branches", repository.id);
        match self.conversation.get_linked_pages::<Branch>(&path, PAGE_QUERY).await {
            // An empty repository has no branches, and the server reports them as missing.
            Err(problem) if problem.is_missing() => Ok(Vec::new()),
            branches => Ok(branches?.into_iter().map(BranchTip::from).collect()),
        }
    }

    async fn has_path(&self, repository: &Repository, tip: &BranchTip, path: &str) -> Result<bool, Problem> {
        // Only validate the path; the encoded form isn't used.
        encode_path(path)?;
        let (path, sha) = (percent_encode(path.trim_matches('/')), percent_encode(&tip.sha));
        let tree = format!("/projects/{}/repository", repository.id);
        if self.conversation.exists(&format!("{tree}/files/{path}"), &format!("ref={sha}")).await? {
            return Ok(true);
        }
        // Not a file, so maybe a folder. Some versions return an empty list for a missing folder.
        let query = format!("path={path}&ref={sha}&per_page=1");
        let inside = self.conversation.find::<Vec<Value>>(&format!("{tree}/tree"), &query).await?;
        Ok(inside.is_some_and(|entries| !entries.is_empty()))
    }
}

/// Client for the merge requests of a project.
pub(crate) struct GitlabRequests<'a> {
    conversation: Conversation<'a>,
    path: String,
    query: String,
}

impl<'a> GitlabRequests<'a> {
    pub fn new(asking: RequestContext<'a>, generator: &PullRequestGitlab) -> Result<Self, Problem> {
        let talk = open_conversation(
            asking,
            &generator.api,
            generator.insecure,
            generator.token_ref.as_ref(),
            generator.ca_ref.as_ref(),
        )?;
        let mut query = PAGE_QUERY.to_owned();
        if !generator.pull_request_state.is_empty() {
            query.push_str(&format!("&state={}", percent_encode(&generator.pull_request_state)));
        }
        if !generator.labels.is_empty() {
            query.push_str(&format!("&labels={}", percent_encode(&generator.labels.join(","))));
        }
        let path = format!("/projects/{}/merge_requests", encode_segment("project", &generator.project)?);
        Ok(Self { conversation: talk, path, query })
    }
}

impl PullRequestHost for GitlabRequests<'_> {
    async fn pull_requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Merge> = self.conversation.get_linked_pages(&self.path, &self.query).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
