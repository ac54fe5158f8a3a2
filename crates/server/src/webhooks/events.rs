//! What events say, by whom they are. What is about no push, no repository and no pull request changes nothing.

mod changes;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_application::hosted::{About, News, Service};
use tidegate_application::pushes::{Push, Told};

use super::Sender;
use super::provider::Provider;
use crate::problem::Problem;

/// Of more files it is not asked whom each is about: all that follow the branch are.
const FILES_MAX: usize = 1000;
/// GitHub names no more commits than these.
const GITHUB_COMMITS_MAX: usize = 2048;
/// More branches and tags than anybody pushes at once; an event with more is one of all of them.
const CHANGES_MAX: usize = 100;

/// What an event says.
#[derive(Debug, PartialEq)]
pub(crate) struct Heard {
    /// What its sender calls it.
    pub event: String,
    /// What has changed; nothing where it is about something else.
    pub told: Told,
}

/// A push that somebody tells of by themselves. GitHub, GitLab, Bitbucket, Gitea, Gogs and Azure DevOps send their own.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Generic {
    /// An address of the repository, by HTTP or SSH, or as applications have it.
    repository: String,
    /// The branch or tag that was pushed; any if not said.
    #[serde(default)]
    revision: Option<String>,
    /// The files that have changed; if not said, nobody knows.
    #[serde(default)]
    files: Vec<String>,
}

/// Reads an event that was proven.
pub(crate) fn hear(sender: &Sender, body: &[u8]) -> Result<Heard, Problem> {
    let name = sender.event.as_str();
    let told = match (sender.provider, name) {
        (Provider::GitHub | Provider::Gogs, "push") => read::<GitHub>(sender, body)?.told(service(sender)),
        (Provider::GitLab, "Push Hook" | "Tag Push Hook") => read::<GitLab>(sender, body)?.told(),
        (Provider::GitLab, "System Hook") if read::<SystemHook>(sender, body)?.is_push() => {
            read::<GitLab>(sender, body)?.told()
        }
        (Provider::Bitbucket, "repo:push") => read::<Bitbucket>(sender, body)?.told(),
        (Provider::BitbucketServer, "repo:refs_changed") => read::<BitbucketServer>(sender, body)?.told()?,
        (Provider::AzureDevOps, _) => return read::<Azure>(sender, body)?.heard(),
        (Provider::Generic, _) => {
            let event = "push".to_owned();
            let pushes = vec![read::<Generic>(sender, body)?.push()];
            return Ok(Heard { event, told: Told { pushes, news: Vec::new() } });
        }
        _ => Told { pushes: Vec::new(), news: changes::hear(sender, body)? },
    };
    Ok(Heard { event: name.to_owned(), told })
}

/// Whose server it is.
fn service(sender: &Sender) -> Service {
    if sender.provider == Provider::Gogs { Service::Gitea } else { Service::GitHub }
}

fn read<T: DeserializeOwned>(sender: &Sender, body: &[u8]) -> Result<T, Problem> {
    let of = sender.provider.name();
    // An array would be taken for the fields in their order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad(format!("the event of {of} is no JSON object")));
    }
    serde_json::from_slice(body).map_err(|error| Problem::bad(format!("the event of {of}: {error}")))
}

/// A commit, as all have it who name files.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Commit {
    added: Option<Vec<String>>,
    modified: Option<Vec<String>>,
    removed: Option<Vec<String>>,
}

/// The files of all commits, each once; none where there are too many.
fn files(commits: Vec<Commit>) -> Vec<String> {
    let mut all = BTreeSet::new();
    for commit in commits {
        let of_one = [commit.added, commit.modified, commit.removed];
        all.extend(of_one.into_iter().flatten().flatten());
        if all.len() > FILES_MAX {
            return Vec::new();
        }
    }
    all.into_iter().collect()
}

/// Whether this stands for the commit before the first, or after the last.
fn is_none(commit: &str) -> bool {
    commit.chars().all(|digit| digit == '0')
}

/// A push as GitHub has it, and those who do as GitHub does.
#[derive(Deserialize)]
struct GitHub {
    #[serde(rename = "ref")]
    name: String,
    before: String,
    #[serde(default)]
    forced: bool,
    repository: GitHubRepository,
    #[serde(default)]
    commits: Option<Vec<Commit>>,
    /// Of Gitea, which names the newest ones only.
    #[serde(default)]
    total_commits: Option<usize>,
}

#[derive(Deserialize)]
struct GitHubRepository {
    html_url: String,
    #[serde(default)]
    clone_url: Option<String>,
    #[serde(default)]
    ssh_url: Option<String>,
    #[serde(default)]
    default_branch: Option<String>,
}

/// A push to a branch or tag of the repository of these addresses.
fn one(addresses: [Option<String>; 3], name: &str, default: Option<&str>) -> Push {
    Push::to(addresses.iter().flatten().map(String::as_str)).of(name, is_default(name, default))
}

impl GitHub {
    fn told(self, service: Service) -> Told {
        let news = News::at(service, About::Repository, &self.repository.html_url);
        Told { pushes: vec![self.push()], news: vec![news] }
    }

    fn push(self) -> Push {
        let Self { name, before, forced, repository, commits, total_commits } = self;
        let GitHubRepository { html_url, clone_url, ssh_url, default_branch } = repository;
        let commits = commits.unwrap_or_default();
        let has_all =
            commits.len() < GITHUB_COMMITS_MAX && total_commits.is_none_or(|all| all == commits.len());
        // What a branch has lost by a forced push, nobody says.
        let files = if forced || is_none(&before) || !has_all { Vec::new() } else { files(commits) };
        one([Some(html_url), clone_url, ssh_url], &name, default_branch.as_deref()).changing(files)
    }
}

/// Whether a branch is what `HEAD` means; where nobody knows that, it may be.
fn is_default(name: &str, default: Option<&str>) -> bool {
    default.is_none_or(|default| branch(name) == branch(default))
}

/// A branch without what Git puts before its name; a tag stays one.
fn branch(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

/// What the servers of GitLab tell about all of their projects.
#[derive(Deserialize)]
struct SystemHook {
    #[serde(default)]
    event_name: Option<String>,
}

impl SystemHook {
    fn is_push(&self) -> bool {
        self.event_name.as_deref().is_some_and(|name| ["push", "tag_push"].contains(&name))
    }
}

#[derive(Deserialize)]
struct GitLab {
    #[serde(rename = "ref")]
    name: String,
    before: String,
    project: GitLabProject,
    #[serde(default)]
    commits: Option<Vec<Commit>>,
    /// It names the newest ones only.
    #[serde(default)]
    total_commits_count: Option<usize>,
}

#[derive(Deserialize)]
struct GitLabProject {
    #[serde(default)]
    id: Option<u64>,
    web_url: String,
    #[serde(default)]
    path_with_namespace: Option<String>,
    #[serde(default)]
    git_http_url: Option<String>,
    #[serde(default)]
    git_ssh_url: Option<String>,
    #[serde(default)]
    default_branch: Option<String>,
}

impl GitLabProject {
    fn news(&self, about: About) -> News {
        let news = match &self.path_with_namespace {
            Some(path) => News::named(Service::GitLab, about, path.split('/')).on_server_of(&self.web_url),
            None => News::at(Service::GitLab, about, &self.web_url),
        };
        news.with_number(self.id)
    }
}

impl GitLab {
    fn told(self) -> Told {
        let news = self.project.news(About::Repository);
        Told { pushes: vec![self.push()], news: vec![news] }
    }

    fn push(self) -> Push {
        let Self { name, before, project, commits, total_commits_count } = self;
        let GitLabProject { web_url, git_http_url, git_ssh_url, default_branch, .. } = project;
        let commits = commits.unwrap_or_default();
        let has_all = total_commits_count == Some(commits.len());
        let files = if is_none(&before) || !has_all { Vec::new() } else { files(commits) };
        one([Some(web_url), git_http_url, git_ssh_url], &name, default_branch.as_deref()).changing(files)
    }
}

/// Pushes to these branches and tags; to any, where there are many.
fn pushes(to: &Push, names: Vec<&str>, default: Option<&str>) -> Vec<Push> {
    if names.len() > CHANGES_MAX {
        return vec![to.clone()];
    }
    names.into_iter().map(|name| to.clone().of(name, is_default(name, default))).collect()
}

#[derive(Deserialize)]
struct Bitbucket {
    repository: BitbucketRepository,
    push: BitbucketPush,
}

#[derive(Deserialize)]
struct BitbucketRepository {
    links: BitbucketLinks,
}

#[derive(Deserialize)]
struct BitbucketLinks {
    html: Link,
}

#[derive(Deserialize)]
struct Link {
    href: String,
}

#[derive(Deserialize)]
struct BitbucketPush {
    changes: Vec<BitbucketChange>,
}

/// Of a branch that is new there is no old, and of one that is gone no new.
#[derive(Deserialize)]
struct BitbucketChange {
    new: Option<Named>,
    old: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Bitbucket {
    fn told(self) -> Told {
        let news = News::at(Service::Bitbucket, About::Repository, &self.repository.links.html.href);
        Told { pushes: self.pushes(), news: vec![news] }
    }

    fn pushes(self) -> Vec<Push> {
        let to = Push::to([self.repository.links.html.href.as_str()]);
        let names = self.push.changes.iter().filter_map(|one| one.new.as_ref().or(one.old.as_ref()));
        // Nobody says which branch `HEAD` is.
        pushes(&to, names.map(|named| named.name.as_str()).collect(), None)
    }
}

#[derive(Deserialize)]
struct BitbucketServer {
    repository: BitbucketServerRepository,
    changes: Vec<BitbucketServerChange>,
}

#[derive(Deserialize)]
struct BitbucketServerRepository {
    #[serde(default)]
    slug: Option<String>,
    #[serde(default)]
    project: Option<BitbucketServerProject>,
    #[serde(default)]
    links: BitbucketServerLinks,
}

#[derive(Deserialize)]
struct BitbucketServerProject {
    key: String,
}

impl BitbucketServerRepository {
    /// By its project, or else by the first of its addresses.
    fn news(&self, about: About) -> Option<News> {
        let service = Service::BitbucketServer;
        let address = self.links.clone.first().map(|link| link.href.as_str());
        match (&self.project, &self.slug) {
            (Some(project), Some(slug)) => {
                let news = News::named(service, about, [project.key.as_str(), slug.as_str()]);
                Some(address.into_iter().fold(news, News::on_server_of))
            }
            _ => address.map(|address| News::at(service, about, address)),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BitbucketServerLinks {
    clone: Vec<Link>,
}

#[derive(Deserialize)]
struct BitbucketServerChange {
    #[serde(rename = "ref")]
    what: Reference,
}

#[derive(Deserialize)]
struct Reference {
    id: String,
}

impl BitbucketServer {
    fn told(self) -> Result<Told, Problem> {
        let news = self.repository.news(About::Repository).into_iter().collect();
        Ok(Told { pushes: self.pushes()?, news })
    }

    fn pushes(self) -> Result<Vec<Push>, Problem> {
        let links = &self.repository.links.clone;
        if links.is_empty() {
            let missing =
                "the event of Bitbucket Server has no repository.links.clone, so nobody knows its repository";
            return Err(Problem::bad(missing));
        }
        let to = Push::to(links.iter().map(|link| link.href.as_str()));
        Ok(pushes(&to, self.changes.iter().map(|one| one.what.id.as_str()).collect(), None))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Azure {
    event_type: String,
    #[serde(default)]
    resource: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzurePush {
    #[serde(default)]
    ref_updates: Vec<AzureUpdate>,
    repository: AzureRepository,
}

#[derive(Deserialize)]
struct AzureUpdate {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureRepository {
    remote_url: String,
    #[serde(default)]
    default_branch: Option<String>,
}

/// What Azure DevOps calls changes of pull requests.
const AZURE_REQUESTS: [&str; 3] =
    ["git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"];

#[derive(Deserialize)]
struct AzureRequest {
    repository: AzureRepository,
}

impl Azure {
    fn heard(self) -> Result<Heard, Problem> {
        let Self { event_type: event, resource } = self;
        let wrong = |error| Problem::bad(format!("the event of Azure DevOps: resource: {error}"));
        let news = |about, address: &str| vec![News::at(Service::AzureDevOps, about, address)];
        let told = if event == "git.push" {
            let AzurePush { ref_updates, repository } = AzurePush::deserialize(resource).map_err(wrong)?;
            let to = Push::to([repository.remote_url.as_str()]);
            let names = ref_updates.iter().map(|update| update.name.as_str()).collect();
            let news = news(About::Repository, &repository.remote_url);
            Told { pushes: pushes(&to, names, repository.default_branch.as_deref()), news }
        } else if AZURE_REQUESTS.contains(&event.as_str()) {
            let AzureRequest { repository } = AzureRequest::deserialize(resource).map_err(wrong)?;
            Told { pushes: Vec::new(), news: news(About::PullRequests, &repository.remote_url) }
        } else {
            Told::default()
        };
        Ok(Heard { event, told })
    }
}

impl Generic {
    fn push(self) -> Push {
        let Self { repository, revision, files } = self;
        let to = Push::to([repository.as_str()]);
        let to = revision.iter().fold(to, |to, name| to.of(name, true));
        to.changing(if files.len() > FILES_MAX { Vec::new() } else { files })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod fuzz;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod news;
#[cfg(test)]
mod tests;
