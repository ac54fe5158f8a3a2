//! Repositories and their branches: whom a generator asks, and which questions that takes.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_generate::{Branch, Unanswered};
use tidegate_model::argo::ScmGenerator;

use crate::apps::twice;
use crate::hosts::{
    Azure, Bitbucket, BitbucketServer, Gitea, Github, Gitlab, Host, Protocol, Repository, Tip,
};
use crate::problem::Problem;
use crate::secrets::Asking;
use crate::sieve::Sieve;

impl Asking<'_> {
    /// The repositories that a generator is about, and their branches: all that its filters may let pass. Blocks.
    ///
    /// `paths` are those whose existence filters ask for.
    ///
    /// # Errors
    ///
    /// The generator names no server or several, its server cannot be asked, or one of the answers is missing: nothing is
    /// left out silently.
    pub fn branches(
        self,
        generator: &ScmGenerator,
        paths: &BTreeSet<String>,
    ) -> Result<Vec<Branch>, Unanswered> {
        only([
            ("github", generator.github.is_some()),
            ("gitlab", generator.gitlab.is_some()),
            ("gitea", generator.gitea.is_some()),
            ("bitbucket", generator.bitbucket.is_some()),
            ("bitbucketServer", generator.bitbucket_server.is_some()),
            ("azureDevOps", generator.azure_dev_ops.is_some()),
            ("awsCodeCommit", generator.aws_code_commit.is_some()),
        ])?;
        let protocol = Protocol::new(&generator.clone_protocol)?;
        let wanted = |all| Wanted { asking: self, sieve: Sieve::new(&generator.filters), paths, all };
        if let Some(github) = &generator.github {
            let wanted = wanted(github.all_branches);
            return Ok(twice(|| wanted.answer(&Github::new(self, github, protocol)?))?);
        }
        if let Some(gitlab) = &generator.gitlab {
            return wanted(gitlab.all_branches).of(Gitlab::new(self, gitlab, protocol));
        }
        if let Some(gitea) = &generator.gitea {
            return wanted(gitea.all_branches).of(Gitea::new(self, gitea, protocol));
        }
        if let Some(bitbucket) = &generator.bitbucket {
            return wanted(bitbucket.all_branches).of(Bitbucket::new(self, bitbucket, protocol));
        }
        if let Some(bitbucket) = &generator.bitbucket_server {
            return wanted(bitbucket.all_branches).of(BitbucketServer::new(self, bitbucket, protocol));
        }
        if let Some(azure) = &generator.azure_dev_ops {
            return wanted(azure.all_branches).of(Azure::new(self, azure, protocol));
        }
        Err(Unanswered::new("awsCodeCommit cannot be asked yet; name the repositories in a list generator"))
    }
}

/// Refuses a generator that names no server, or several.
pub(crate) fn only<const N: usize>(servers: [(&str, bool); N]) -> Result<(), Problem> {
    let named: Vec<&str> = servers.iter().filter(|(_, is_named)| *is_named).map(|(name, _)| *name).collect();
    match named.as_slice() {
        [_] => Ok(()),
        [] => {
            let all = servers.map(|(name, _)| name).join(", ");
            Err(Problem::new(format!("it names no server; give it one of {all}")))
        }
        several => Err(Problem::new(format!("it names several servers, {}; leave one", several.join(", ")))),
    }
}

/// What is wanted of a server.
struct Wanted<'a> {
    asking: Asking<'a>,
    sieve: Sieve,
    paths: &'a BTreeSet<String>,
    /// All branches, and not only the default one.
    all: bool,
}

impl Wanted<'_> {
    fn of<H: Host>(&self, host: Result<H, Problem>) -> Result<Vec<Branch>, Unanswered> {
        Ok(self.answer(&host?)?)
    }

    fn answer<H: Host>(&self, host: &H) -> Result<Vec<Branch>, Problem> {
        self.asking.web.run(self.asked(host))
    }

    async fn asked<H: Host>(&self, host: &H) -> Result<Vec<Branch>, Problem> {
        let at_once = self.asking.web.limits.at_once;
        let repositories = host.repositories().await?.into_iter();
        let counting = repositories.filter(|repository| self.sieve.may_pass(repository, None));
        let of_each = stream::iter(counting.map(|repository| self.of_one(host, repository)));
        of_each.buffered(at_once).try_concat().await
    }

    async fn of_one<H: Host>(&self, host: &H, repository: Repository) -> Result<Vec<Branch>, Problem> {
        let tips = match self.all {
            true => host.tips(&repository).await?,
            false => host.default_tip(&repository).await?.into_iter().collect(),
        };
        let mut branches = Vec::new();
        for tip in tips.into_iter().filter(|tip| self.sieve.may_pass(&repository, Some(&tip.name))) {
            let mut paths = BTreeSet::new();
            for path in self.sieve.paths(&repository, &tip.name, self.paths) {
                if host.has(&repository, &tip, path).await? {
                    paths.insert(path.clone());
                }
            }
            branches.push(branch(&repository, tip, paths));
        }
        Ok(branches)
    }
}

fn branch(repository: &Repository, tip: Tip, paths: BTreeSet<String>) -> Branch {
    let Repository { id, organization, name, url, labels, .. } = repository.clone();
    Branch {
        organization,
        repository: name,
        repository_id: id,
        url,
        branch: tip.name,
        sha: tip.sha,
        labels,
        paths,
    }
}
