//! What is about pull requests, and about repositories that come and go.

use serde::Deserialize;
use tidegate_application::hosted::{About, News, Service};

use super::super::Sender;
use super::super::provider::Provider;
use super::{BitbucketRepository, BitbucketServerRepository, GitHubRepository, GitLabProject, read, service};
use crate::problem::Problem;

/// What is done to a pull request that a generator may see: it is there or not, at which commit, and what its filters look at.
/// Reviews and comments are not.
const GITHUB_REQUESTS: [&str; 10] = [
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
const GITLAB_REQUESTS: [&str; 5] = ["open", "close", "reopen", "update", "merge"];
const BITBUCKET_REQUESTS: [&str; 4] =
    ["pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected"];
const BITBUCKET_SERVER_REQUESTS: [&str; 6] =
    ["pr:opened", "pr:from_ref_updated", "pr:modified", "pr:merged", "pr:declined", "pr:deleted"];
const GITLAB_PROJECTS: [&str; 5] =
    ["project_create", "project_destroy", "project_rename", "project_transfer", "project_update"];

/// What has changed by an event that is no push.
pub(super) fn hear(sender: &Sender, body: &[u8]) -> Result<Vec<News>, Problem> {
    let name = sender.event.as_str();
    let news = match sender.provider {
        Provider::GitHub | Provider::Gogs => match name {
            // Gitea has events of their own for what happens to labels and commits.
            "pull_request" | "pull_request_label" | "pull_request_sync" => {
                read::<GitHubRequest>(sender, body)?.news(service(sender))
            }
            "repository" | "create" | "delete" => {
                let address = read::<GitHubChange>(sender, body)?.repository.html_url;
                Some(News::at(service(sender), About::Repository, &address))
            }
            _ => None,
        },
        Provider::GitLab => match name {
            "Merge Request Hook" => read::<GitLabRequest>(sender, body)?.news(),
            "System Hook" => read::<GitLabSystem>(sender, body)?.news(sender, body)?,
            _ => None,
        },
        Provider::Bitbucket if BITBUCKET_REQUESTS.contains(&name) => {
            let address = read::<BitbucketChange>(sender, body)?.repository.links.html.href;
            Some(News::at(Service::Bitbucket, About::PullRequests, &address))
        }
        Provider::BitbucketServer if BITBUCKET_SERVER_REQUESTS.contains(&name) => {
            read::<BitbucketServerRequest>(sender, body)?.pull_request.to.repository.news(About::PullRequests)
        }
        _ => None,
    };
    Ok(news.into_iter().collect())
}

#[derive(Deserialize)]
struct GitHubRequest {
    action: String,
    repository: GitHubRepository,
}

impl GitHubRequest {
    fn news(&self, service: Service) -> Option<News> {
        let is_seen = GITHUB_REQUESTS.contains(&self.action.as_str());
        is_seen.then(|| News::at(service, About::PullRequests, &self.repository.html_url))
    }
}

#[derive(Deserialize)]
struct GitHubChange {
    repository: GitHubRepository,
}

#[derive(Deserialize)]
struct GitLabRequest {
    project: GitLabProject,
    object_attributes: GitLabAttributes,
}

/// A merge request that is looked at by a system hook need not have an action.
#[derive(Deserialize)]
struct GitLabAttributes {
    #[serde(default)]
    action: Option<String>,
}

impl GitLabRequest {
    fn news(&self) -> Option<News> {
        let action = self.object_attributes.action.as_deref();
        let is_seen = action.is_some_and(|action| GITLAB_REQUESTS.contains(&action));
        is_seen.then(|| self.project.news(About::PullRequests))
    }
}

/// What the servers of GitLab tell about all of their projects.
#[derive(Deserialize)]
struct GitLabSystem {
    #[serde(default)]
    event_name: Option<String>,
    #[serde(default)]
    object_kind: Option<String>,
    #[serde(default)]
    path_with_namespace: Option<String>,
}

impl GitLabSystem {
    fn news(&self, sender: &Sender, body: &[u8]) -> Result<Option<News>, Problem> {
        if self.object_kind.as_deref() == Some("merge_request") {
            return Ok(read::<GitLabRequest>(sender, body)?.news());
        }
        let is_project = self.event_name.as_deref().is_some_and(|name| GITLAB_PROJECTS.contains(&name));
        let path = self.path_with_namespace.as_deref().filter(|_| is_project);
        Ok(path.map(|path| News::named(Service::GitLab, About::Repository, path.split('/'))))
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
