//! Events for pull requests, and for the creation and removal of repositories.

use serde::Deserialize;
use tidegate_application::webhook_events::{ChangeSubject, RepositoryChange, ScmService};

use super::super::Sender;
use super::super::provider::Provider;
use super::{
    BitbucketRepository, BitbucketServerRepository, GitHubRepository, GitLabProject, parse_body, scm_service,
};
use crate::problem::Problem;

/// Pull request actions that matter to generators: they create or close the pull request, or change its
/// commit or the fields that filters use. Reviews and comments don't.
const GITHUB_PULL_REQUEST_ACTIONS: [&str; 10] = [
    "opened",
    "closed",
    "reopened",
    "synchronize",
    "synchronized",
    "labeled",
    "unlabeled",
    "edited",
    "label_updated",
    "label_cleared",
];
const GITLAB_MERGE_REQUEST_ACTIONS: [&str; 5] = ["open", "close", "reopen", "update", "merge"];
const BITBUCKET_PULL_REQUEST_EVENTS: [&str; 4] =
    ["pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected"];
const BITBUCKET_SERVER_PULL_REQUEST_EVENTS: [&str; 6] =
    ["pr:opened", "pr:from_ref_updated", "pr:modified", "pr:merged", "pr:declined", "pr:deleted"];
const GITLAB_PROJECT_EVENTS: [&str; 5] =
    ["project_create", "project_destroy", "project_rename", "project_transfer", "project_update"];

/// Returns the changes reported by any event other than a push.
pub(super) fn parse_changes(sender: &Sender, body: &[u8]) -> Result<Vec<RepositoryChange>, Problem> {
    let name = sender.event.as_str();
    let news = match sender.provider {
        Provider::GitHub | Provider::Gogs => match name {
            // Gitea has separate events for changes to labels and commits.
            "pull_request" | "pull_request_label" | "pull_request_sync" => {
                parse_body::<GitHubPullRequest>(sender, body)?.repository_change(scm_service(sender))
            }
            "repository" | "create" | "delete" => {
                let address = parse_body::<GitHubChange>(sender, body)?.repository.html_url;
                Some(RepositoryChange::from_address(scm_service(sender), ChangeSubject::Repository, &address))
            }
            _ => None,
        },
        Provider::GitLab => match name {
            "Merge Request Hook" => parse_body::<GitLabMergeRequest>(sender, body)?.repository_change(),
            "System Hook" => {
                parse_body::<GitLabSystemEvent>(sender, body)?.repository_change(sender, body)?
            }
            _ => None,
        },
        Provider::Bitbucket if BITBUCKET_PULL_REQUEST_EVENTS.contains(&name) => {
            let address = parse_body::<BitbucketChange>(sender, body)?.repository.links.html.href;
            Some(RepositoryChange::from_address(ScmService::Bitbucket, ChangeSubject::PullRequests, &address))
        }
        Provider::BitbucketServer if BITBUCKET_SERVER_PULL_REQUEST_EVENTS.contains(&name) => {
            parse_body::<BitbucketServerRequest>(sender, body)?
                .pull_request
                .to
                .repository
                .repository_change(ChangeSubject::PullRequests)
        }
        _ => None,
    };
    Ok(news.into_iter().collect())
}

#[derive(Deserialize)]
struct GitHubPullRequest {
    action: String,
    repository: GitHubRepository,
}

impl GitHubPullRequest {
    fn repository_change(&self, service: ScmService) -> Option<RepositoryChange> {
        let is_seen = GITHUB_PULL_REQUEST_ACTIONS.contains(&self.action.as_str());
        is_seen.then(|| {
            RepositoryChange::from_address(service, ChangeSubject::PullRequests, &self.repository.html_url)
        })
    }
}

#[derive(Deserialize)]
struct GitHubChange {
    repository: GitHubRepository,
}

#[derive(Deserialize)]
struct GitLabMergeRequest {
    project: GitLabProject,
    object_attributes: GitLabAttributes,
}

/// A merge request. The action may be missing in a system hook.
#[derive(Deserialize)]
struct GitLabAttributes {
    #[serde(default)]
    action: Option<String>,
}

impl GitLabMergeRequest {
    fn repository_change(&self) -> Option<RepositoryChange> {
        let action = self.object_attributes.action.as_deref();
        let is_seen = action.is_some_and(|action| GITLAB_MERGE_REQUEST_ACTIONS.contains(&action));
        is_seen.then(|| self.project.repository_change(ChangeSubject::PullRequests))
    }
}

/// A system hook, which a GitLab server sends for all of its projects.
#[derive(Deserialize)]
struct GitLabSystemEvent {
    #[serde(default)]
    event_name: Option<String>,
    #[serde(default)]
    object_kind: Option<String>,
    #[serde(default)]
    path_with_namespace: Option<String>,
}

impl GitLabSystemEvent {
    fn repository_change(&self, sender: &Sender, body: &[u8]) -> Result<Option<RepositoryChange>, Problem> {
        if self.object_kind.as_deref() == Some("merge_request") {
            return Ok(parse_body::<GitLabMergeRequest>(sender, body)?.repository_change());
        }
        let is_project = self.event_name.as_deref().is_some_and(|name| GITLAB_PROJECT_EVENTS.contains(&name));
        let path = self.path_with_namespace.as_deref().filter(|_| is_project);
        Ok(path.map(|path| {
            RepositoryChange::from_name(ScmService::GitLab, ChangeSubject::Repository, path.split('/'))
        }))
    }
}

#[derive(Deserialize)]
struct BitbucketChange {
    repository: BitbucketRepository,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BitbucketServerRequest {
    pull_request: BitbucketServerPullRequest,
}

#[derive(Deserialize)]
struct BitbucketServerPullRequest {
    #[serde(rename = "toRef")]
    to: BitbucketServerReference,
}

#[derive(Deserialize)]
struct BitbucketServerReference {
    repository: BitbucketServerRepository,
}
