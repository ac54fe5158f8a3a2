//! Bitbucket Server and Data Center: <https://developer.atlassian.com/server/bitbucket/rest/>.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{
    BasicAuth, BearerToken, ConfigMapKey, PullRequestBitbucketServer, ScmBitbucketServer,
};

use super::{Host, Protocol, Repository, Requests, Tip, trusted};
use crate::address::{encoded, inside, part};
use crate::conversation::Conversation;
use crate::problem::Problem;
use crate::proof::Proof;
use crate::secrets::Asking;

/// Where its API is.
const API: &str = "/rest/api/1.0";
/// As many as a page may have, unless a server is set up otherwise.
const PAGE: &str = "limit=100";

/// Repositories of a project.
pub(crate) struct BitbucketServer<'a> {
    talk: Conversation<'a>,
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
struct Found {
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

#[derive(Default, Deserialize)]
struct Links {
    #[serde(default)]
    clone: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    name: String,
    href: String,
}

impl Links {
    fn of(&self, name: &str) -> String {
        let link = self.clone.iter().find(|link| link.name == name);
        link.map(|link| link.href.clone()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Branch {
    display_id: String,
    latest_commit: String,
    #[serde(default)]
    is_default: bool,
}

impl From<Branch> for Tip {
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

/// Where it is, and how it is trusted.
type At<'g> = (&'g str, bool, Option<&'g ConfigMapKey>);

fn talk<'a>(
    asking: Asking<'a>,
    (api, insecure, ca_ref): At<'_>,
    basic: Option<&BasicAuth>,
    bearer: Option<&BearerToken>,
) -> Result<Conversation<'a>, Problem> {
    // People write the address with `/rest` and without.
    let base = asking.api(api, "")?;
    let base = if base.text().ends_with(API) { base } else { base.ending("/rest").ending("/api/1.0") };
    let proof = Proof::either(asking, basic, bearer)?;
    Conversation::new(asking.web, "Bitbucket", base, proof, &trusted(asking, insecure, ca_ref)?)
}

fn path(project: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/projects/{}/repos/{}", part("project", project)?, part("repository", repository)?))
}

/// All entries of a list.
async fn all<T: DeserializeOwned>(
    talk: &Conversation<'_>,
    path: &str,
    query: &str,
) -> Result<Vec<T>, Problem> {
    let turned = |page: Page<T>| {
        let next = page.next.filter(|_| !page.is_last);
        (page.values, next.map(|start| format!("{query}&start={start}")))
    };
    talk.paged(path, query, turned).await
}

impl<'a> BitbucketServer<'a> {
    pub fn new(
        asking: Asking<'a>,
        generator: &ScmBitbucketServer,
        protocol: Protocol,
    ) -> Result<Self, Problem> {
        let at = (generator.api.as_str(), generator.insecure, generator.ca_ref.as_ref());
        let talk = talk(asking, at, generator.basic_auth.as_ref(), generator.bearer_token.as_ref())?;
        Ok(Self { talk, project: generator.project.clone(), protocol })
    }
}

impl Host for BitbucketServer<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/projects/{}/repos", part("project", &self.project)?);
        let found: Vec<Found> = all(&self.talk, &path, PAGE).await?;
        let repository = |one: Found| Repository {
            id: one.id.to_string(),
            organization: one.project.key,
            name: one.slug,
            url: self.protocol.of(one.links.of("ssh"), one.links.of("http")),
            ..Repository::default()
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        let path = format!("{}/branches", path(&repository.organization, &repository.name)?);
        if let Some(branch) = self.talk.find::<Branch>(&format!("{path}/default"), "").await? {
            return Ok(Some(branch.into()));
        }
        // Newer ones have no such page, and all of them say it of each branch; of an empty repository there is none.
        let branches: Vec<Branch> = all(&self.talk, &path, PAGE).await?;
        Ok(branches.into_iter().find(|branch| branch.is_default).map(Tip::from))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        let path = format!("{}/branches", path(&repository.organization, &repository.name)?);
        let branches: Vec<Branch> = all(&self.talk, &path, PAGE).await?;
        Ok(branches.into_iter().map(Tip::from).collect())
    }

    async fn has(&self, repository: &Repository, tip: &Tip, file: &str) -> Result<bool, Problem> {
        let path = path(&repository.organization, &repository.name)?;
        let path = format!("{path}/browse/{}", inside(file)?);
        self.talk.exists(&path, &format!("at={}&type=true", encoded(&tip.sha))).await
    }
}

/// Pull requests of a repository.
pub(crate) struct BitbucketServerRequests<'a> {
    talk: Conversation<'a>,
    path: String,
}

impl<'a> BitbucketServerRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestBitbucketServer) -> Result<Self, Problem> {
        let at = (generator.api.as_str(), generator.insecure, generator.ca_ref.as_ref());
        let talk = talk(asking, at, generator.basic_auth.as_ref(), generator.bearer_token.as_ref())?;
        Ok(Self { talk, path: format!("{}/pull-requests", path(&generator.project, &generator.repo)?) })
    }
}

impl Requests for BitbucketServerRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let found: Vec<Pull> = all(&self.talk, &self.path, &format!("state=OPEN&{PAGE}")).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
