//! Whether generators ask for what the server of a repository tells of.

use tidegate_application::hosted::{About, News, Service};
use tidegate_model::argo::{PullRequestGenerator, ScmGenerator};

/// Whether a repository, or a branch, is of those that a generator finds by their owner.
pub(crate) fn is_of_provider(scm: &ScmGenerator, news: &News) -> bool {
    if news.about != About::Repository {
        return false;
    }
    let of = |service, api: &str, owner: &[&str]| news.is_on(service, api) && news.begins_with(owner);
    scm.github.as_ref().is_some_and(|one| of(Service::GitHub, &one.api, &[&one.organization]))
        || scm.gitea.as_ref().is_some_and(|one| of(Service::Gitea, &one.api, &[&one.owner]))
        || scm.bitbucket.as_ref().is_some_and(|one| of(Service::Bitbucket, "", &[&one.owner]))
        || scm
            .bitbucket_server
            .as_ref()
            .is_some_and(|one| of(Service::BitbucketServer, &one.api, &[&one.project]))
        || scm
            .azure_dev_ops
            .as_ref()
            .is_some_and(|one| of(Service::AzureDevOps, &one.api, &[&one.organization, &one.team_project]))
        || scm.gitlab.as_ref().is_some_and(|one| {
            let group: Vec<&str> = parts(&one.group);
            // A number is known to the server alone, and what is shared with a group is another's.
            let is_open = one.group.is_empty() || number(&one.group).is_some();
            let is_in =
                news.begins_with(&group) && (one.include_subgroups || !news.is_deeper_than(group.len() + 1));
            news.is_on(Service::GitLab, &one.api) && (is_open || one.group.contains("{{") || is_in)
        })
}

/// Whether a pull request is of the repository that a generator asks for.
pub(crate) fn is_of_requests(requests: &PullRequestGenerator, news: &News) -> bool {
    if news.about != About::PullRequests {
        return false;
    }
    let of = |service, api: &str, name: &[&str]| news.is_on(service, api) && news.is_of(name);
    requests.github.as_ref().is_some_and(|one| of(Service::GitHub, &one.api, &[&one.owner, &one.repo]))
        || requests.gitea.as_ref().is_some_and(|one| of(Service::Gitea, &one.api, &[&one.owner, &one.repo]))
        || requests
            .bitbucket
            .as_ref()
            .is_some_and(|one| of(Service::Bitbucket, &one.api, &[&one.owner, &one.repo]))
        || requests
            .bitbucket_server
            .as_ref()
            .is_some_and(|one| of(Service::BitbucketServer, &one.api, &[&one.project, &one.repo]))
        || requests.azuredevops.as_ref().is_some_and(|one| {
            of(Service::AzureDevOps, &one.api, &[&one.organization, &one.project, &one.repo])
        })
        || requests.gitlab.as_ref().is_some_and(|one| {
            let is_it = match number(&one.project) {
                Some(number) => news.has_number(number),
                None => one.project.contains("{{") || news.is_of(&parts(&one.project)),
            };
            news.is_on(Service::GitLab, &one.api) && is_it
        })
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

fn parts(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}
