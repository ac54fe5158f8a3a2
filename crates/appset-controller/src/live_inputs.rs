//! Generator inputs that the service provides: repositories, declared clusters, objects in the managed
//! cluster, and HTTP responses from other servers.
//!
//! As in `generate`, calls block and need a thread that allows it.

mod decisions;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::AppKey;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{
    Branch, Cluster, Decisions, GeneratorInputs, GitTree, PullRequest, QueryError, Reply,
};
use tidegate_model::argo::{
    ApplicationSet, ApplicationSource, ClusterDecisionResourceGenerator, PluginGenerator,
    PullRequestGenerator, ScmGenerator,
};
use tidegate_source::{Address, AddressContext, SignatureCheck};

use tidegate_app_controller::generator_inputs::{
    HttpResponses, ObjectSources, RepositoryInputs, RequestInputs, generator_cluster, project_of,
};
use tidegate_app_controller::manifests::Manifests;
use tidegate_app_controller::projects::{MissingProject, Projects};
use tidegate_app_controller::{Destinations, SharedState};

/// Inputs for a single run of an ApplicationSet's generators. During the run, the clusters stay the same, and
/// a revision of a repository always resolves to the same commit.
pub struct LiveInputs {
    sources: InputSources,
    key: AppKey,
    /// Project in the template. `None` if it depends on parameters.
    project: Option<String>,
    inputs: RepositoryInputs,
    clusters: Option<Arc<Vec<Cluster>>>,
    http: HttpResponses,
    /// True if later runs must not reuse this run's repositories.
    is_temporary: bool,
}

/// Purpose of a run of the generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GenerationPurpose {
    /// A reconcile pass, which acts on the result. If `is_fresh` is true, repositories are queried for new
    /// revisions now instead of at their next observation.
    Reconcile { is_fresh: bool },
    /// A preview based on new revisions. It changes nothing.
    Preview,
}

impl GenerationPurpose {
    fn is_fresh(self) -> bool {
        !matches!(self, Self::Reconcile { is_fresh: false })
    }
}

/// Input sources shared with other components.
struct InputSources {
    manifests: Arc<Manifests>,
    destinations: Destinations,
    projects: Arc<Projects>,
    /// Namespace of the control plane.
    control_namespace: String,
}

impl LiveInputs {
    /// Creates the inputs for an ApplicationSet.
    pub fn new(shared: &SharedState, set: &ApplicationSet, occasion: GenerationPurpose) -> Self {
        let sources = InputSources {
            manifests: Arc::clone(&shared.manifests),
            destinations: shared.destinations.clone(),
            projects: Arc::clone(&shared.projects),
            control_namespace: shared.store.project_namespace(),
        };
        let mut world = Self::from_sources(sources, set, occasion.is_fresh());
        world.is_temporary = occasion == GenerationPurpose::Preview;
        world
    }

    fn from_sources(sources: InputSources, set: &ApplicationSet, is_fresh: bool) -> Self {
        let (repositories, base) = sources.manifests.repositories();
        let project = project_of(set).map(str::to_owned);
        let mut inputs =
            RepositoryInputs::new(repositories, base).for_project(project.as_deref().unwrap_or_default());
        if is_fresh {
            sources.manifests.read_credentials();
            inputs = inputs.with_fresh_refs();
        }
        let (is_temporary, http) = (false, HttpResponses::default());
        Self { sources, key: AppKey::of_appset(set), project, inputs, clusters: None, http, is_temporary }
    }

    /// Returns the repositories with changed refs, as observed during this run. Later observations don't
    /// report these changes again.
    pub fn changed_repositories(&self) -> Vec<Address> {
        self.inputs.changed_repositories().iter().cloned().collect()
    }

    /// Releases the content fetched for a deleted ApplicationSet.
    pub fn release(shared: &SharedState, set: AppKey) {
        shared.manifests.set_generator_repositories(set, BTreeSet::new());
    }

    /// Returns the template's project, which determines the permitted repositories.
    fn project_name(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Checks a commit's signature against the template's project. The rules are those for deployed commits.
    fn check_signature(&self, repository: &str, revision: &str, commit: &str) -> Result<(), QueryError> {
        let keys = self.project_name().map(|name| self.sources.projects.required_keys(name)).transpose();
        let Some(keys) = keys.map_err(QueryError::new)?.flatten() else { return Ok(()) };
        let (repositories, base) = self.sources.manifests.repositories();
        let source = ApplicationSource { repo_url: repository.to_owned(), ..ApplicationSource::default() };
        let home = AddressContext { base: &base, project: self.project_name().unwrap_or_default() };
        let check = SignatureCheck { commit, names: &[revision], keys: &keys, now: SystemClock.now() };
        repositories.check_signed(&source, home, check).map_err(|error| QueryError::new(error.to_string()))
    }

    /// Checks that the template's project exists.
    fn check_project(&self) -> Result<(), QueryError> {
        let Some(name) = self.project_name() else { return Ok(()) };
        let missing = match self.sources.projects.find(name) {
            Ok(_) => return Ok(()),
            Err(missing) => missing,
        };
        Err(QueryError::new(match missing {
            MissingProject::Absent(_) => format!(
                "error getting project {name}: it does not exist; create an AppProject with that name, or change spec.template.spec.project"
            ),
            other => format!("error getting project {name}: {other}"),
        }))
    }
}

impl InputSources {
    fn objects(&self) -> ObjectSources<'_> {
        ObjectSources {
            files: self.manifests.files(),
            cluster: Some(self.destinations.cluster().as_ref()),
            control_namespace: &self.control_namespace,
        }
    }

    fn request_inputs<'w>(&'w self, set: &'w AppKey) -> RequestInputs<'w> {
        RequestInputs {
            web: self.manifests.web(),
            providers: self.manifests.providers(),
            objects: self.objects(),
            namespace: &set.namespace,
            appset: &set.name,
        }
    }
}

impl Drop for LiveInputs {
    fn drop(&mut self) {
        if self.is_temporary {
            return;
        }
        self.sources
            .manifests
            .set_generator_repositories(self.key.clone(), self.inputs.used_repositories().clone());
    }
}

impl GeneratorInputs for LiveInputs {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        if let Some(clusters) = &self.clusters {
            return Ok(Some(Arc::clone(clusters)));
        }
        let declared = self.sources.destinations.declared().ok_or_else(|| {
            QueryError::new("the Secrets that declare clusters have not been read yet; retrying")
        })?;
        let mut clusters = Vec::new();
        for one in declared {
            // As in Argo CD, an unreachable cluster is included, but a declaration without a server isn't.
            if one.connection.server.is_empty() {
                return Err(QueryError::new(format!(
                    "Secret {} declares a cluster without a server; add the server or remove the label",
                    one.secret_name
                )));
            }
            clusters.push(generator_cluster(one));
        }
        let clusters = Arc::new(clusters);
        self.clusters = Some(Arc::clone(&clusters));
        Ok(Some(clusters))
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        self.check_project()?;
        let tree = self.inputs.git_tree(repository, revision)?;
        if let Some(tree) = &tree {
            self.check_signature(repository, revision, &tree.commit)?;
        }
        Ok(tree)
    }

    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        self.inputs.git_file(repository, commit, path)
    }

    fn decisions(&mut self, generator: &ClusterDecisionResourceGenerator) -> Reply<Arc<Decisions>> {
        let decisions = decisions::find_decisions(&self.sources.objects(), &self.key.namespace, generator);
        decisions.map(|decisions| Some(Arc::new(decisions))).map_err(QueryError::new)
    }
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        self.http.branches(&self.sources.request_inputs(&self.key), generator, paths)
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        self.http.pull_requests(&self.sources.request_inputs(&self.key), generator)
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        self.http.plugin(&self.sources.request_inputs(&self.key), generator)
    }
}
