//! Content of webhook events, by provider. Events without a change to a branch or tag, a repository or a pull
//! request have no effect.

mod changes;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_application::webhook_events::{ChangeSubject, RepositoryChange, ScmService};

use super::Sender;
use super::provider::Provider;
use crate::problem::Problem;

/// Maximum number of changed files to compare with the applications' paths. With more, all applications that
/// follow the branch are affected.
const FILES_MAX: usize = 1000;
/// Maximum number of commits that GitHub lists in an event.
const GITHUB_COMMITS_MAX: usize = 2048;
/// Maximum number of branches and tags in an event. With more, it counts as a change to all of them.
const CHANGES_MAX: usize = 100;

/// Content of an event.
#[derive(Debug, PartialEq)]
pub(crate) struct WebhookEvent {
    /// Name of the event, as sent by the provider.
    pub event: String,
    /// Changes; empty if the event reports something else.
    pub changes: WebhookChanges,
}

/// A push event from a custom program. GitHub, GitLab, Bitbucket, Gitea, Gogs and Azure DevOps use their own
/// formats.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebhookEvent")]
pub(crate) struct GenericPush {
    /// HTTP or SSH address of the repository, or the address as written in applications.
    repository: String,
    /// Pushed branch or tag (default: any branch or tag).
    #[serde(default)]
    revision: Option<String>,
    /// Changed files; empty if the sender doesn't know them.
    #[serde(default)]
    files: Vec<String>,
}

/// Parses an authenticated event.
pub(crate) fn parse_event(sender: &Sender, body: &[u8]) -> Result<WebhookEvent, Problem> {
    let name = sender.event.as_str();
    let changes = match (sender.provider, name) {
        (Provider::GitHub | Provider::Gogs, "push") => {
            parse_body::<GitHub>(sender, body)?.into_changes(scm_service(sender))
        }
        (Provider::GitLab, "Push Hook" | "Tag Push Hook") => {
            parse_body::<GitLab>(sender, body)?.into_changes()
        }
        (Provider::GitLab, "System Hook") if parse_body::<SystemHook>(sender, body)?.is_push() => {
            parse_body::<GitLab>(sender, body)?.into_changes()
        }
        (Provider::Bitbucket, "repo:push") => parse_body::<Bitbucket>(sender, body)?.into_changes(),
        (Provider::BitbucketServer, "repo:refs_changed") => {
            parse_body::<BitbucketServer>(sender, body)?.into_changes()?
        }
        (Provider::AzureDevOps, _) => return parse_body::<Azure>(sender, body)?.into_event(),
        (Provider::Generic, _) => {
            let event = "push".to_owned();
            let pushes = vec![parse_body::<GenericPush>(sender, body)?.into_push()];
            return Ok(WebhookEvent { event, changes: WebhookChanges { pushes, changes: Vec::new() } });
        }
        _ => WebhookChanges { pushes: Vec::new(), changes: changes::parse_changes(sender, body)? },
    };
    Ok(WebhookEvent { event: name.to_owned(), changes })
}

/// Returns the sender's hosting service.
fn scm_service(sender: &Sender) -> ScmService {
    if sender.provider == Provider::Gogs { ScmService::Gitea } else { ScmService::GitHub }
}

fn parse_body<T: DeserializeOwned>(sender: &Sender, body: &[u8]) -> Result<T, Problem> {
    let of = sender.provider.name();
    // Reject an array, because the parser would assign its items to the fields in order.
    if body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Problem::bad_request(format!("the event from {of} is not a JSON object")));
    }
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("invalid event from {of}: {error}")))
}

/// A commit, as sent by providers that list files.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Commit {
    added: Option<Vec<String>>,
    modified: Option<Vec<String>>,
    removed: Option<Vec<String>>,
}

/// Returns the files in all commits, without duplicates, or none if there are too many.
fn changed_files(commits: Vec<Commit>) -> Vec<String> {
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

/// Returns true for the placeholder that providers send instead of a commit when a branch is created or
/// deleted.
fn is_null_commit(commit: &str) -> bool {
    commit.chars().all(|digit| digit == '0')
}

/// A push in GitHub's format, which compatible services also use.
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
    /// Number of commits. Only sent by Gitea, which lists only the newest commits.
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

/// Returns a push to a branch or tag of the repository with these URLs.
fn push_event(addresses: [Option<String>; 3], name: &str, default: Option<&str>) -> PushEvent {
    PushEvent::new(addresses.iter().flatten().map(String::as_str)).with_ref(name, is_default(name, default))
}

impl GitHub {
    fn into_changes(self, service: ScmService) -> WebhookChanges {
        let news =
            RepositoryChange::from_address(service, ChangeSubject::Repository, &self.repository.html_url);
        WebhookChanges { pushes: vec![self.into_push()], changes: vec![news] }
    }

    fn into_push(self) -> PushEvent {
        let Self { name, before, forced, repository, commits, total_commits } = self;
        let GitHubRepository { html_url, clone_url, ssh_url, default_branch } = repository;
        let commits = commits.unwrap_or_default();
        let has_all =
            commits.len() < GITHUB_COMMITS_MAX && total_commits.is_none_or(|all| all == commits.len());
        // The event doesn't list files that a force push has removed from the branch.
        let files =
            if forced || is_null_commit(&before) || !has_all { Vec::new() } else { changed_files(commits) };
        push_event([Some(html_url), clone_url, ssh_url], &name, default_branch.as_deref()).with_files(files)
    }
}

/// Returns true if the branch is `HEAD`, or if the default branch is unknown.
fn is_default(name: &str, default: Option<&str>) -> bool {
    default.is_none_or(|default| strip_ref_prefix(name) == strip_ref_prefix(default))
}

/// Returns a branch name without its Git prefix. Leaves a tag name unchanged.
fn strip_ref_prefix(name: &str) -> &str {
    name.strip_prefix("refs/heads/").unwrap_or(name)
}

/// A system hook, which a GitLab server sends for all of its projects.
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
    /// Number of commits. Only the newest are listed.
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
    fn repository_change(&self, about: ChangeSubject) -> RepositoryChange {
        let news = match &self.path_with_namespace {
            Some(path) => RepositoryChange::from_name(ScmService::GitLab, about, path.split('/'))
                .with_server_of(&self.web_url),
            None => RepositoryChange::from_address(ScmService::GitLab, about, &self.web_url),
        };
        news.with_number(self.id)
    }
}

impl GitLab {
    fn into_changes(self) -> WebhookChanges {
        let news = self.project.repository_change(ChangeSubject::Repository);
        WebhookChanges { pushes: vec![self.into_push()], changes: vec![news] }
    }

    fn into_push(self) -> PushEvent {
        let Self { name, before, project, commits, total_commits_count } = self;
        let GitLabProject { web_url, git_http_url, git_ssh_url, default_branch, .. } = project;
        let commits = commits.unwrap_or_default();
        let has_all = total_commits_count == Some(commits.len());
        let files = if is_null_commit(&before) || !has_all { Vec::new() } else { changed_files(commits) };
        push_event([Some(web_url), git_http_url, git_ssh_url], &name, default_branch.as_deref())
            .with_files(files)
    }
}

/// Returns pushes to these branches and tags. If there are too many, returns a push to any branch or tag.
fn push_events(to: &PushEvent, names: Vec<&str>, default: Option<&str>) -> Vec<PushEvent> {
    if names.len() > CHANGES_MAX {
        return vec![to.clone()];
    }
    names.into_iter().map(|name| to.clone().with_ref(name, is_default(name, default))).collect()
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

/// A change to a branch or tag. Without an old state it was created, and without a new state it was deleted.
#[derive(Deserialize)]
struct BitbucketChange {
    new: Option<BitbucketRef>,
    old: Option<BitbucketRef>,
}

#[derive(Deserialize)]
struct BitbucketRef {
    name: String,
}

impl Bitbucket {
    fn into_changes(self) -> WebhookChanges {
        let news = RepositoryChange::from_address(
            ScmService::Bitbucket,
            ChangeSubject::Repository,
            &self.repository.links.html.href,
        );
        WebhookChanges { pushes: self.into_pushes(), changes: vec![news] }
    }

    fn into_pushes(self) -> Vec<PushEvent> {
        let to = PushEvent::new([self.repository.links.html.href.as_str()]);
        let names = self.push.changes.iter().filter_map(|one| one.new.as_ref().or(one.old.as_ref()));
        // The event does not contain the default branch.
        push_events(&to, names.map(|named| named.name.as_str()).collect(), None)
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
    /// Returns the change. The repository is identified by its project or, without it, by the first URL.
    fn repository_change(&self, about: ChangeSubject) -> Option<RepositoryChange> {
        let service = ScmService::BitbucketServer;
        let address = self.links.clone.first().map(|link| link.href.as_str());
        match (&self.project, &self.slug) {
            (Some(project), Some(slug)) => {
                let news = RepositoryChange::from_name(service, about, [project.key.as_str(), slug.as_str()]);
                Some(address.into_iter().fold(news, RepositoryChange::with_server_of))
            }
            _ => address.map(|address| RepositoryChange::from_address(service, about, address)),
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
    what: BitbucketServerRef,
}

#[derive(Deserialize)]
struct BitbucketServerRef {
    id: String,
}

impl BitbucketServer {
    fn into_changes(self) -> Result<WebhookChanges, Problem> {
        let news = self.repository.repository_change(ChangeSubject::Repository).into_iter().collect();
        Ok(WebhookChanges { pushes: self.into_pushes()?, changes: news })
    }

    fn into_pushes(self) -> Result<Vec<PushEvent>, Problem> {
        let links = &self.repository.links.clone;
        if links.is_empty() {
            let missing =
                "the event from Bitbucket Server has no repository.links.clone, so its repository is unknown";
            return Err(Problem::bad_request(missing));
        }
        let to = PushEvent::new(links.iter().map(|link| link.href.as_str()));
        Ok(push_events(&to, self.changes.iter().map(|one| one.what.id.as_str()).collect(), None))
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

/// Azure DevOps events for pull requests.
const AZURE_PULL_REQUEST_EVENTS: [&str; 3] =
    ["git.pullrequest.created", "git.pullrequest.updated", "git.pullrequest.merged"];

#[derive(Deserialize)]
struct AzurePullRequest {
    repository: AzureRepository,
}

impl Azure {
    fn into_event(self) -> Result<WebhookEvent, Problem> {
        let Self { event_type: event, resource } = self;
        let wrong =
            |error| Problem::bad_request(format!("invalid event from Azure DevOps: resource: {error}"));
        let news = |about, address: &str| {
            vec![RepositoryChange::from_address(ScmService::AzureDevOps, about, address)]
        };
        let changes = if event == "git.push" {
            let AzurePush { ref_updates, repository } = AzurePush::deserialize(resource).map_err(wrong)?;
            let to = PushEvent::new([repository.remote_url.as_str()]);
            let names = ref_updates.iter().map(|update| update.name.as_str()).collect();
            let news = news(ChangeSubject::Repository, &repository.remote_url);
            WebhookChanges {
                pushes: push_events(&to, names, repository.default_branch.as_deref()),
                changes: news,
            }
        } else if AZURE_PULL_REQUEST_EVENTS.contains(&event.as_str()) {
            let AzurePullRequest { repository } = AzurePullRequest::deserialize(resource).map_err(wrong)?;
            WebhookChanges {
                pushes: Vec::new(),
                changes: news(ChangeSubject::PullRequests, &repository.remote_url),
            }
        } else {
            WebhookChanges::default()
        };
        Ok(WebhookEvent { event, changes })
    }
}

impl GenericPush {
    fn into_push(self) -> PushEvent {
        let Self { repository, revision, files } = self;
        let to = PushEvent::new([repository.as_str()]);
        let to = revision.iter().fold(to, |to, name| to.with_ref(name, true));
        to.with_files(if files.len() > FILES_MAX { Vec::new() } else { files })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]
mod change_tests;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod fuzz;
#[cfg(test)]
mod tests;
