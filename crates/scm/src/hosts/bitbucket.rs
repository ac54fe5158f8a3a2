//! Bitbucket Cloud: <https://developer.atlassian.com/cloud/bitbucket/rest/>.

use serde::Deserialize;
use tidegate_generate::PullRequest;
use tidegate_model::argo::{PullRequestBitbucket, ScmBitbucket};

use super::{Host, Named, Protocol, Repository, Requests, Tip};
use crate::address::{inside, part};
use crate::conversation::{Conversation, query_of};
use crate::problem::Problem;
use crate::proof::{Proof, Scheme};
use crate::secrets::Asking;
use crate::web::Trusted;

/// As many as a page of repositories or branches may have.
const PAGE: &str = "pagelen=100";
/// As many as a page of pull requests may have.
const PAGE_OF_REQUESTS: &str = "pagelen=50";

/// Repositories of a workspace.
pub(crate) struct Bitbucket<'a> {
    talk: Conversation<'a>,
    owner: String,
    protocol: Protocol,
}

/// One page of a list.
#[derive(Deserialize)]
struct Page<T> {
    #[serde(default = "Vec::new")]
    values: Vec<T>,
    /// The address of the next.
    #[serde(default)]
    next: Option<String>,
}

impl<T> Page<T> {
    fn turned(self) -> (Vec<T>, Option<String>) {
        (self.values, self.next.as_deref().and_then(query_of))
    }
}

#[derive(Deserialize)]
struct Found {
    uuid: String,
    slug: String,
    #[serde(default)]
    mainbranch: Option<Named>,
    #[serde(default)]
    links: Links,
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
struct Branch {
    name: String,
    target: Commit,
}

#[derive(Default, Deserialize)]
struct Commit {
    #[serde(default)]
    hash: String,
}

impl From<Branch> for Tip {
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
    branch: Named,
    /// Nothing where the repository it is from is gone.
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

fn talk<'a>(asking: Asking<'a>, api: &str, proof: Option<Proof>) -> Result<Conversation<'a>, Problem> {
    let base = asking.api(api, asking.web.bitbucket())?;
    Conversation::new(asking.web, "Bitbucket", base, proof, &Trusted::System)
}

fn path(owner: &str, repository: &str) -> Result<String, Problem> {
    Ok(format!("/repositories/{}/{}", part("owner", owner)?, part("repository", repository)?))
}

impl<'a> Bitbucket<'a> {
    pub fn new(asking: Asking<'a>, generator: &ScmBitbucket, protocol: Protocol) -> Result<Self, Problem> {
        let proof = Proof::of(asking, &generator.app_password_ref, &Scheme::Basic(&generator.user))?;
        let talk = talk(asking, "", Some(proof))?;
        Ok(Self { talk, owner: generator.owner.clone(), protocol })
    }
}

impl Host for Bitbucket<'_> {
    async fn repositories(&self) -> Result<Vec<Repository>, Problem> {
        let path = format!("/repositories/{}", part("owner", &self.owner)?);
        // Those that the user has a part in: in public there are others.
        let found = self.talk.paged(&path, &format!("role=member&{PAGE}"), Page::<Found>::turned).await?;
        let repository = |one: Found| Repository {
            id: one.uuid,
            organization: self.owner.clone(),
            name: one.slug,
            url: self.protocol.of(one.links.of("ssh"), one.links.of("https")),
            default_branch: one.mainbranch.map(|branch| branch.name).unwrap_or_default(),
            labels: Vec::new(),
        };
        Ok(found.into_iter().map(repository).collect())
    }

    async fn default_tip(&self, repository: &Repository) -> Result<Option<Tip>, Problem> {
        if repository.default_branch.is_empty() {
            return Ok(None);
        }
        let branch = part("branch", &repository.default_branch)?;
        let path = format!("{}/refs/branches/{branch}", path(&repository.organization, &repository.name)?);
        Ok(self.talk.find::<Branch>(&path, "").await?.map(Tip::from))
    }

    async fn tips(&self, repository: &Repository) -> Result<Vec<Tip>, Problem> {
        let path = format!("{}/refs/branches", path(&repository.organization, &repository.name)?);
        let branches = self.talk.paged(&path, PAGE, Page::<Branch>::turned).await?;
        Ok(branches.into_iter().map(Tip::from).collect())
    }

    async fn has(&self, repository: &Repository, tip: &Tip, file: &str) -> Result<bool, Problem> {
        let repository = path(&repository.organization, &repository.name)?;
        let path = format!("{repository}/src/{}/{}", part("commit", &tip.sha)?, inside(file)?);
        self.talk.exists(&path, "format=meta").await
    }
}

/// Pull requests of a repository.
pub(crate) struct BitbucketRequests<'a> {
    talk: Conversation<'a>,
    path: String,
}

impl<'a> BitbucketRequests<'a> {
    pub fn new(asking: Asking<'a>, generator: &PullRequestBitbucket) -> Result<Self, Problem> {
        let (basic, bearer) = (generator.basic_auth.as_ref(), generator.bearer_token.as_ref());
        let talk = talk(asking, &generator.api, Proof::either(asking, basic, bearer)?)?;
        Ok(Self { talk, path: format!("{}/pullrequests", path(&generator.owner, &generator.repo)?) })
    }
}

impl Requests for BitbucketRequests<'_> {
    async fn requests(&self) -> Result<Vec<PullRequest>, Problem> {
        let query = format!("state=OPEN&{PAGE_OF_REQUESTS}");
        let found = self.talk.paged(&self.path, &query, Page::<Pull>::turned).await?;
        Ok(found.into_iter().map(PullRequest::from).collect())
    }
}
