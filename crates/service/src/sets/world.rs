//! What the generators of a set ask, answered by what the service knows: repositories, the clusters that are declared,
//! objects of the cluster that is served; and over HTTP, by others.
//!
//! It blocks, as `generate` does: it belongs on a thread that may wait.

mod decisions;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{Branch, Cluster, Decisions, GitTree, PullRequest, Reply, Unanswered, World};
use tidegate_model::argo::{
    ApplicationSet, ApplicationSource, ClusterDecisionResourceGenerator, PluginGenerator,
    PullRequestGenerator, ScmGenerator,
};
use tidegate_source::{Address, Home};

use crate::applications::manifests::Manifests;
use crate::applications::projects::{Missing, Projects};
use crate::applications::store::AppKey;
use crate::applications::{Places, Shared};
use crate::generating::{FoundWorld, Http, Objects, With, cluster, project_of};

/// Whom the generators of one set ask in one run. All of the run sees the same clusters, and one commit of each repository
/// and revision.
pub(crate) struct LiveWorld {
    known: Known,
    set: AppKey,
    /// The project of the template; nothing where parameters say which it is.
    project: Option<String>,
    found: FoundWorld,
    clusters: Option<Arc<Vec<Cluster>>>,
    http: Http,
    /// What is fetched for it is kept no longer than for others.
    is_passing: bool,
}

/// What a set is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// For what is then done. `is_fresh`: repositories are asked what is new, instead of by the next look at them.
    Pass { is_fresh: bool },
    /// For somebody who looks ahead, by what is new; nothing follows from it.
    Preview,
}

impl Occasion {
    fn is_fresh(self) -> bool {
        !matches!(self, Self::Pass { is_fresh: false })
    }
}

/// What the service knows.
struct Known {
    manifests: Arc<Manifests>,
    places: Places,
    projects: Arc<Projects>,
    /// The namespace of the control plane.
    home: String,
}

impl LiveWorld {
    /// For a set.
    pub fn new(shared: &Shared, set: &ApplicationSet, occasion: Occasion) -> Self {
        let known = Known {
            manifests: Arc::clone(&shared.manifests),
            places: shared.places.clone(),
            projects: Arc::clone(&shared.projects),
            home: shared.store.home(),
        };
        let mut world = Self::of(known, set, occasion.is_fresh());
        world.is_passing = occasion == Occasion::Preview;
        world
    }

    fn of(known: Known, set: &ApplicationSet, is_fresh: bool) -> Self {
        let (repositories, base) = known.manifests.repositories();
        let project = project_of(set).map(str::to_owned);
        let mut found =
            FoundWorld::new(repositories, base).for_project(project.as_deref().unwrap_or_default());
        if is_fresh {
            known.manifests.read_credentials();
            found = found.anew();
        }
        let (is_passing, http) = (false, Http::default());
        Self { known, set: key(set), project, found, clusters: None, http, is_passing }
    }

    /// Repositories of which this run has found that their names have moved: no later look finds that again.
    pub fn moved(&self) -> Vec<Address> {
        self.found.moved().iter().cloned().collect()
    }

    /// What was fetched for a set that is gone is kept no longer.
    pub fn forget(shared: &Shared, set: AppKey) {
        shared.manifests.asked_by(set, BTreeSet::new());
    }

    /// The project of the template, on whose behalf repositories are asked.
    fn project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// What is generated from is signed as the project of the template wants it, like what is deployed.
    fn check_signed(&self, repository: &str, revision: &str, commit: &str) -> Result<(), Unanswered> {
        let wanted = self.project().map(|name| self.known.projects.signers(name)).transpose();
        let Some(wanted) = wanted.map_err(Unanswered::new)?.flatten() else { return Ok(()) };
        let (repositories, base) = self.known.manifests.repositories();
        let source = ApplicationSource { repo_url: repository.to_owned(), ..ApplicationSource::default() };
        let home = Home { base: &base, project: self.project().unwrap_or_default() };
        let (place, now) = ((&source, home), SystemClock.now());
        let checked = repositories.check_signed(place, commit, &[revision], (&wanted, now));
        checked.map_err(|error| Unanswered::new(error.to_string()))
    }

    /// Whether the project of the template is there.
    fn check_project(&self) -> Result<(), Unanswered> {
        let Some(name) = self.project() else { return Ok(()) };
        let missing = match self.known.projects.find(name) {
            Ok(_) => return Ok(()),
            Err(missing) => missing,
        };
        Err(Unanswered::new(match missing {
            Missing::Absent(_) => format!(
                "error getting project {name}: it does not exist; write an AppProject of that name, or name another one in spec.template.spec.project"
            ),
            other => format!("error getting project {name}: {other}"),
        }))
    }
}

impl Known {
    fn objects(&self) -> Objects<'_> {
        Objects {
            files: self.manifests.files(),
            cluster: Some(self.places.cluster().as_ref()),
            home: &self.home,
        }
    }

    fn with<'w>(&'w self, set: &'w AppKey) -> With<'w> {
        With {
            web: self.manifests.web(),
            providers: self.manifests.providers(),
            objects: self.objects(),
            namespace: &set.namespace,
            set: &set.name,
        }
    }
}

impl Drop for LiveWorld {
    fn drop(&mut self) {
        if self.is_passing {
            return;
        }
        self.known.manifests.asked_by(self.set.clone(), self.found.used().clone());
    }
}

fn key(set: &ApplicationSet) -> AppKey {
    AppKey { namespace: set.metadata.home().to_owned(), name: set.metadata.name.clone() }
}

impl World for LiveWorld {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        if let Some(known) = &self.clusters {
            return Ok(Some(Arc::clone(known)));
        }
        let declared = self.known.places.declared().ok_or_else(|| {
            Unanswered::new("the Secrets that declare clusters were not seen yet; it is looked at again")
        })?;
        let mut clusters = Vec::new();
        for one in declared {
            // One that cannot be reached is a cluster all the same, as in Argo CD; but this is none yet.
            if one.declared.server.is_empty() {
                return Err(Unanswered::new(format!(
                    "Secret {} declares a cluster without a server; mend it, or take away its label",
                    one.secret
                )));
            }
            clusters.push(cluster(one));
        }
        let clusters = Arc::new(clusters);
        self.clusters = Some(Arc::clone(&clusters));
        Ok(Some(clusters))
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        self.check_project()?;
        let tree = self.found.git_tree(repository, revision)?;
        if let Some(tree) = &tree {
            self.check_signed(repository, revision, &tree.commit)?;
        }
        Ok(tree)
    }

    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        self.found.git_file(repository, commit, path)
    }

    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        let decisions = decisions::find(&self.known.objects(), &self.set.namespace, generator);
        decisions.map(|decisions| Some(Arc::new(decisions))).map_err(Unanswered::new)
    }
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        self.http.branches(&self.known.with(&self.set), generator, paths)
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        self.http.pull_requests(&self.known.with(&self.set), generator)
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        self.http.plugin(&self.known.with(&self.set), generator)
    }
}
