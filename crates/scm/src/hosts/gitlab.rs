//! GitLab: <https://docs.gitlab.com/api/rest/>.

use serde::Deserialize;
use serde_json::Value;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{ConfigMapKey, PullRequestGitlab, ScmGitlab, SecretKey};

use super::{Host, Protocol, Repository, Requests, Tip, trusted};
use crate::address::{encoded, inside, part};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Asking;

const PUBLIC: &str = "https://gitlab.com";
/// As many as a page may have.
const PAGE: &str = "per_page=100";

/// Projects of a group.
pub(crate) struct Gitlab<'a> {
    talk: Conversation<'a>,
    group: String,
    /// Which projects, as the API is asked.
    query: String,
    protocol: Protocol,
}

#[derive(Deserialize)]
struct Found {
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
    /// What topics were called before.
    #[serde(default)]
    tag_list: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Namespace {
    full_path: String,
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

fn talk<'a>(
    asking: Asking<'a>,
    (api, insecure): (&str, bool),
    token: Option<&SecretKey>,
    ca_ref: Option<&ConfigMapKey>,
) -> Result<Conversation<'a>, Problem> {
    let base = asking.api(api, PUBLIC)?.ending("/api/v4");
    let proof = Proof::maybe(asking, token, &Scheme::Private)?;
    Conversation::new(asking.web, "GitLab", base, proof, &trusted(asking, insecure, ca_ref)?)
}

impl<'a> Gitlab<'a> {
    pub fn new(asking: Asking<'a>, generator: &ScmGitlab, protocol: Protocol) -> Result<Self, Problem> {
        let at = (generator.api.as_str(), generator.insecure);
        let talk = talk(asking, at, generator.token_ref.as_ref(), generator.ca_ref.as_ref())?;
        let shared = generator.include_shared_projects.unwrap_or(true);
        let mut query =
            format!("{PAGE}&include_subgroups={}&with_shared={shared}", generator.include_subgroups);
        if generator.include_archived_repos == Some(false) {
            query.push_str("&archived=false");
        }
        if !generator.topic.is_empty() {
            query.push_str(&format!("&topic={}", encoded(&generator.topic)));
        }
        Ok(Self { talk, group: generator.group.clone(), query, protocol })
    }
}

impl Host for Gitlab<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/groups/{}/projects", part("group", &self.group)?);
        let found: Vec<Found> = self.talk.linked(&path, &self.query).await?;
        let repository = |one: Found| {
            let topics = one.topics.unwrap_or_default();
            Repository {
                id: one.id.to_string(),
                organization: one.namespace.full_path,
                name: one.path,
                url: self.protocol.of(one.ssh_url_to_repo, one.http_url_to_repo),
                default_branch: one.default_branch.unwrap_or_default(),
                labels: if topics.is_empty() { one.tag_list.unwrap_or_default() } else { topics },
            }
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = part("branch", &repository.default_branch)?;
        let path = format!("/projects/{}/repository/branches/{branch}", repository.id);
        Ok(self.talk.find::<Branch>(&path, "").await?.map(Tip::from))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        let path = format!("/projects/{}/repository/branches", repository.id);
        match self.talk.linked::<Branch>(&path, PAGE).await {
            // It is empty.
            Err(problem) if problem.is_missing() => Ok(Vec::new()),
            branches => Ok(branches?.into_iter().map(Tip::from).collect()),
        }
    }

    async fn has(&self, repository: &Repository, tip: &Tip, path: &str) -> Result<bool, Problem> {
        // Checks that it is a path.
        inside(path)?;
        let (path, sha) = (encoded(path.trim_matches('/')), encoded(&tip.sha));
        let tree = format!("/projects/{}/repository", repository.id);
        if self.talk.exists(&format!("{tree}/files/{path}"), &format!("ref={sha}")).await? {
            return Ok(true);
        }
        // A folder is no file; some versions say of one that is not there that nothing is in it.
        let query = format!("path={path}&ref={sha}&per_page=1");
        let inside = self.talk.find::<Vec<Value>>(&format!("{tree}/tree"), &query).await?;
        Ok(inside.is_some_and(|entries| !entries.is_empty()))
    }
}

/// Merge requests of a project.
pub(crate) struct GitlabRequests<'a> {
    talk: Conversation<'a>,
    path: String,
    query: String,
}

impl<'a> GitlabRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestGitlab) -> Result<Self, Problem> {
        let at = (generator.api.as_str(), generator.insecure);
        let talk = talk(asking, at, generator.token_ref.as_ref(), generator.ca_ref.as_ref())?;
        let mut query = PAGE.to_owned();
        if !generator.pull_request_state.is_empty() {
            query.push_str(&format!("&state={}", encoded(&generator.pull_request_state)));
        }
        if !generator.labels.is_empty() {
            query.push_str(&format!("&labels={}", encoded(&generator.labels.join(","))));
        }
        let path = format!("/projects/{}/merge_requests", part("project", &generator.project)?);
        Ok(Self { talk, path, query })
    }
}

impl Requests for GitlabRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Merge> = self.talk.linked(&self.path, &self.query).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
