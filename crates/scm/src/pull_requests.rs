//! Requests for the pull requests of a pull request generator.

use tidegate_generate::{PullRequest, QueryError};
use tidegate_model::argo::PullRequestGenerator;

use crate::github_apps::retry_stale_token;
use crate::hosts::{
    AzureRequests, BitbucketRequests, BitbucketServerRequests, GitlabRequests, PullRequestHost,
    gitea_requests, github_requests,
};
use crate::problem::Problem;
use crate::repositories::check_one_server;
use crate::secrets::RequestContext;

impl RequestContext<'_> {
    /// Returns the pull requests of a generator, without applying its filters. This function blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the generator doesn't specify exactly one server, or if any request fails. If the
    /// repository doesn't exist, the error is [missing](QueryError::is_missing).
    pub fn pull_requests(self, generator: &PullRequestGenerator) -> Result<Vec<PullRequest>, QueryError> {
        check_one_server([
            ("github", generator.github.is_some()),
            ("gitlab", generator.gitlab.is_some()),
            ("gitea", generator.gitea.is_some()),
            ("bitbucket", generator.bitbucket.is_some()),
            ("bitbucketServer", generator.bitbucket_server.is_some()),
            ("azuredevops", generator.azuredevops.is_some()),
        ])?;
        if let Some(github) = &generator.github {
            return Ok(retry_stale_token(|| self.web.run(github_requests(self, github)?.pull_requests()))?);
        }
        if let Some(gitlab) = &generator.gitlab {
            return self.run(GitlabRequests::new(self, gitlab));
        }
        if let Some(gitea) = &generator.gitea {
            return self.run(gitea_requests(self, gitea));
        }
        if let Some(bitbucket) = &generator.bitbucket {
            return self.run(BitbucketRequests::new(self, bitbucket));
        }
        if let Some(bitbucket) = &generator.bitbucket_server {
            return self.run(BitbucketServerRequests::new(self, bitbucket));
        }
        match &generator.azuredevops {
            Some(azure) => self.run(AzureRequests::new(self, azure)),
            None => Ok(Vec::new()),
        }
    }

    fn run<R: PullRequestHost>(self, repository: Result<R, Problem>) -> Result<Vec<PullRequest>, QueryError> {
        let repository = repository?;
        Ok(self.web.run(repository.pull_requests())?)
    }
}
