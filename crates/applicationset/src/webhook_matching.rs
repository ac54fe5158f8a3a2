//! Checks whether a webhook event is relevant to a generator.

use tidegate_application::webhook_events::{ChangeSubject, RepositoryChange, ScmService};
use tidegate_model::argo::{PullRequestGenerator, ScmGenerator};

/// Returns true if the event's repository or branch belongs to an owner that the generator searches.
pub(crate) fn matches_provider(scm: &ScmGenerator, news: &RepositoryChange) -> bool {
    if news.subject != ChangeSubject::Repository {
        return false;
    }
    let of =
        |service, api: &str, owner: &[&str]| news.can_be_from(service, api) && news.name_starts_with(owner);
    scm.github.as_ref().is_some_and(|one| of(ScmService::GitHub, &one.api, &[&one.organization]))
        || scm.gitea.as_ref().is_some_and(|one| of(ScmService::Gitea, &one.api, &[&one.owner]))
        || scm.bitbucket.as_ref().is_some_and(|one| of(ScmService::Bitbucket, "", &[&one.owner]))
        || scm
            .bitbucket_server
            .as_ref()
            .is_some_and(|one| of(ScmService::BitbucketServer, &one.api, &[&one.project]))
        || scm
            .azure_dev_ops
            .as_ref()
            .is_some_and(|one| of(ScmService::AzureDevOps, &one.api, &[&one.organization, &one.team_project]))
        || scm.gitlab.as_ref().is_some_and(|one| {
            let group: Vec<&str> = path_segments(&one.group);
            // Only the server knows the numeric IDs of groups, and shared projects belong to other groups.
            let is_open = one.group.is_empty() || parse_number(&one.group).is_some();
            let is_in = news.name_starts_with(&group)
                && (one.include_subgroups || !news.is_deeper_than(group.len() + 1));
            news.can_be_from(ScmService::GitLab, &one.api) && (is_open || one.group.contains("{{") || is_in)
        })
}

/// Returns true if the event's pull request belongs to the generator's repository.
pub(crate) fn matches_pull_requests(requests: &PullRequestGenerator, news: &RepositoryChange) -> bool {
    if news.subject != ChangeSubject::PullRequests {
        return false;
    }
    let of = |service, api: &str, name: &[&str]| news.can_be_from(service, api) && news.has_name(name);
    requests.github.as_ref().is_some_and(|one| of(ScmService::GitHub, &one.api, &[&one.owner, &one.repo]))
        || requests
            .gitea
            .as_ref()
            .is_some_and(|one| of(ScmService::Gitea, &one.api, &[&one.owner, &one.repo]))
        || requests
            .bitbucket
            .as_ref()
            .is_some_and(|one| of(ScmService::Bitbucket, &one.api, &[&one.owner, &one.repo]))
        || requests
            .bitbucket_server
            .as_ref()
            .is_some_and(|one| of(ScmService::BitbucketServer, &one.api, &[&one.project, &one.repo]))
        || requests.azuredevops.as_ref().is_some_and(|one| {
            of(ScmService::AzureDevOps, &one.api, &[&one.organization, &one.project, &one.repo])
        })
        || requests.gitlab.as_ref().is_some_and(|one| {
            let is_it = match parse_number(&one.project) {
                Some(number) => news.can_have_number(number),
                None => one.project.contains("{{") || news.has_name(&path_segments(&one.project)),
            };
            news.can_be_from(ScmService::GitLab, &one.api) && is_it
        })
}

fn parse_number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn path_segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}
