//! Pull requests: whom a generator asks.

use tidegate_generate::{PullRequest, Unanswered};
use tidegate_model::argo::PullRequestGenerator;

use crate::apps::twice;
use crate::hosts::{
    AzureRequests, BitbucketRequests, BitbucketServerRequests, GiteaRequests, GithubRequests, GitlabRequests,
    Requests,
};
use crate::problem::Problem;
use crate::repositories::only;
use crate::secrets::Asking;

impl Asking<'_> {
    /// The pull requests that a generator is about, before its filters. Blocks.
    ///
    /// # Errors
    ///
    /// The generator names no server or several, its server cannot be asked, or a page is missing. A repository that is not
    /// there is [missing](Unanswered::is_missing).
    pub fn pull_requests(self, generator: &PullRequestGenerator) -> Result<Vec<PullRequest>, Unanswered> {
        only([
            ("github", generator.github.is_some()),
            ("gitlab", generator.gitlab.is_some()),
            ("gitea", generator.gitea.is_some()),
            ("bitbucket", generator.bitbucket.is_some()),
            ("bitbucketServer", generator.bitbucket_server.is_some()),
            ("azuredevops", generator.azuredevops.is_some()),
        ])?;
        if let Some(github) = &generator.github {
            return Ok(twice(|| self.web.run(GithubRequests::new(self, github)?.requests()))?);
        }
        if let Some(gitlab) = &generator.gitlab {
            return self.of(GitlabRequests::new(self, gitlab));
        }
        if let Some(gitea) = &generator.gitea {
            return self.of(GiteaRequests::new(self, gitea));
        }
        if let Some(bitbucket) = &generator.bitbucket {
            return self.of(BitbucketRequests::new(self, bitbucket));
        }
        if let Some(bitbucket) = &generator.bitbucket_server {
            return self.of(BitbucketServerRequests::new(self, bitbucket));
        }
        match &generator.azuredevops {
            Some(azure) => self.of(AzureRequests::new(self, azure)),
            None => Ok(Vec::new()),
        }
    }

    fn of<R: Requests>(self, repository: Result<R, Problem>) -> Result<Vec<PullRequest>, Unanswered> {
        let repository = repository?;
        Ok(self.web.run(repository.requests())?)
    }
}
