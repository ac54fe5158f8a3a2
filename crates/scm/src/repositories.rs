//! Requests for the repositories and branches of an SCM provider generator.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tidegate_generate::{Branch, QueryError};
use tidegate_model::argo::ScmGenerator;

use crate::early_filter::EarlyFilter;
use crate::github_apps::retry_stale_token;
use crate::hosts::{
    Azure, Bitbucket, BitbucketServer, BranchTip, Gitea, Github, Gitlab, Protocol, Repository, RepositoryHost,
};
use crate::problem::Problem;
use crate::secrets::RequestContext;

impl RequestContext<'_> {
    /// Returns the branches that may pass the generator's filters. This function blocks.
    ///
    /// `paths` contains the paths that the filters look for.
    ///
    /// # Errors
    ///
    /// Returns an error if the generator doesn't specify exactly one server, or if any request fails. The
    /// result is never incomplete.
    pub fn branches(
        self,
        generator: &ScmGenerator,
        paths: &BTreeSet<String>,
    ) -> Result<Vec<Branch>, QueryError> {
        check_one_server([
            ("github", generator.github.is_some()),
            ("gitlab", generator.gitlab.is_some()),
            ("gitea", generator.gitea.is_some()),
            ("bitbucket", generator.bitbucket.is_some()),
            ("bitbucketServer", generator.bitbucket_server.is_some()),
            ("azureDevOps", generator.azure_dev_ops.is_some()),
            ("awsCodeCommit", generator.aws_code_commit.is_some()),
        ])?;
        let protocol = Protocol::parse(&generator.clone_protocol)?;
        let wanted = |all| BranchQuery {
            asking: self,
            filter: EarlyFilter::new(&generator.filters),
            paths,
            includes_all_branches: all,
        };
        if let Some(github) = &generator.github {
            let wanted = wanted(github.all_branches);
            return Ok(retry_stale_token(|| {
                wanted.branches_or_problem(&Github::new(self, github, protocol)?)
            })?);
        }
        if let Some(gitlab) = &generator.gitlab {
            return wanted(gitlab.all_branches).run(Gitlab::new(self, gitlab, protocol));
        }
        if let Some(gitea) = &generator.gitea {
            return wanted(gitea.all_branches).run(Gitea::new(self, gitea, protocol));
        }
        if let Some(bitbucket) = &generator.bitbucket {
            return wanted(bitbucket.all_branches).run(Bitbucket::new(self, bitbucket, protocol));
        }
        if let Some(bitbucket) = &generator.bitbucket_server {
            return wanted(bitbucket.all_branches).run(BitbucketServer::new(self, bitbucket, protocol));
        }
        if let Some(azure) = &generator.azure_dev_ops {
            return wanted(azure.all_branches).run(Azure::new(self, azure, protocol));
        }
        Err(QueryError::new("awsCodeCommit is not supported yet; use a list generator with the repositories"))
    }
}

/// Returns an error unless the generator specifies exactly one server.
pub(crate) fn check_one_server<const N: usize>(servers: [(&str, bool); N]) -> Result<(), Problem> {
    let named: Vec<&str> = servers.iter().filter(|(_, is_named)| *is_named).map(|(name, _)| *name).collect();
    match named.as_slice() {
        [_] => Ok(()),
        [] => {
            let all = servers.map(|(name, _)| name).join(", ");
            Err(Problem::new(format!("no provider is set; set one of {all}")))
        }
        several => Err(Problem::new(format!(
            "several providers are set: {}; keep only one of them",
            several.join(", ")
        ))),
    }
}

/// A query for the branches of all repositories.
struct BranchQuery<'a> {
    asking: RequestContext<'a>,
    filter: EarlyFilter,
    paths: &'a BTreeSet<String>,
    /// True if the query includes all branches, not only the default ones.
    includes_all_branches: bool,
}

impl BranchQuery<'_> {
    fn run<H: RepositoryHost>(&self, host: Result<H, Problem>) -> Result<Vec<Branch>, QueryError> {
        Ok(self.branches_or_problem(&host?)?)
    }

    fn branches_or_problem<H: RepositoryHost>(&self, host: &H) -> Result<Vec<Branch>, Problem> {
        self.asking.web.run(self.query_branches(host))
    }

    async fn query_branches<H: RepositoryHost>(&self, host: &H) -> Result<Vec<Branch>, Problem> {
        let at_once = self.asking.web.limits.concurrency;
        let repositories = host.repositories().await?.into_iter();
        let counting = repositories.filter(|repository| self.filter.can_pass(repository, None));
        let of_each = stream::iter(counting.map(|repository| self.branches_of_repository(host, repository)));
        of_each.buffered(at_once).try_concat().await
    }

    async fn branches_of_repository<H: RepositoryHost>(
        &self,
        host: &H,
        repository: Repository,
    ) -> Result<Vec<Branch>, Problem> {
        let tips = match self.includes_all_branches {
            true => host.branch_tips(&repository).await?,
            false => host.default_tip(&repository).await?.into_iter().collect(),
        };
        let mut branches = Vec::new();
        for tip in tips.into_iter().filter(|tip| self.filter.can_pass(&repository, Some(&tip.name))) {
            let mut paths = BTreeSet::new();
            for path in self.filter.paths_to_check(&repository, &tip.name, self.paths) {
                if host.has_path(&repository, &tip, path).await? {
                    paths.insert(path.clone());
                }
            }
            branches.push(to_branch(&repository, tip, paths));
        }
        Ok(branches)
    }
}

fn to_branch(repository: &Repository, tip: BranchTip, paths: BTreeSet<String>) -> Branch {
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
