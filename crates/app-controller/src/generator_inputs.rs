//! Inputs for ApplicationSet generators from repositories, files and HTTP servers.
//!
//! Calls block until the input is available, so that a single run of `generate` is enough. Don't make them on
//! an async thread.

mod http;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_generate::{
    Branch, Cluster, GeneratorInputs, GitTree, NoInputs, PullRequest, QueryError, Reply,
};
use tidegate_kube::ClusterSecret;
use tidegate_model::Object;
use tidegate_model::argo::{
    ApplicationSet, PluginGenerator, PullRequestGenerator, ScmGenerator, control_namespace,
};
pub use tidegate_scm::Policy;
use tidegate_scm::Web;
use tidegate_source::{Address, AddressContext, Limits, Repositories, Repository, SourceError};

use crate::RepositoryFiles;
pub use http::Providers;
pub use http::{HttpResponses, RequestInputs};
pub use objects::ObjectSources;
use tidegate_state::error::ServiceError;

/// Maximum size of a parameter file, in bytes. Ten times larger than any handwritten file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Inputs from repositories, and from clusters declared in files.
pub struct RepositoryInputs {
    repositories: Arc<Repositories>,
    /// Base directory for relative repository URLs.
    base: PathBuf,
    /// Project of the generated Applications, which determines which repositories may be used; empty if it
    /// can't be determined.
    project: String,
    clusters: Option<Arc<Vec<Cluster>>>,
    /// Trees, by repository and revision. Within a run, a revision always refers to the same commit.
    trees: BTreeMap<(String, String), Arc<GitTree>>,
    /// Files, by repository, commit and path. They are cached because a matrix generator repeats its
    /// requests.
    files: BTreeMap<(String, String, String), Arc<str>>,
    /// Repositories whose refs were observed during this run. `None` if the run may use earlier observations.
    refreshed: Option<BTreeSet<Address>>,
    /// Repositories whose refs have changed since the last observation.
    changed_repositories: BTreeSet<Address>,
    used_repositories: BTreeSet<Address>,
    /// HTTP requests and the Secrets for them. `None` if HTTP requests are disabled.
    http: Option<Box<HttpInputs>>,
}

/// HTTP requests made during a run.
struct HttpInputs {
    web: Web,
    secrets: Option<RepositoryFiles>,
    /// Namespace and name of the ApplicationSet.
    appset: (String, String),
    responses: HttpResponses,
}

impl RepositoryInputs {
    /// Creates inputs from these repositories, without clusters.
    pub fn new(repositories: impl Into<Arc<Repositories>>, base: PathBuf) -> Self {
        Self {
            repositories: repositories.into(),
            base,
            project: String::new(),
            clusters: None,
            trees: BTreeMap::new(),
            files: BTreeMap::new(),
            refreshed: None,
            changed_repositories: BTreeSet::new(),
            used_repositories: BTreeSet::new(),
            http: None,
        }
    }

    /// Enables requests to SCM providers and plugins. The Secrets and ConfigMaps for these requests come from
    /// files.
    #[must_use]
    pub fn with_http(self, secrets: Option<RepositoryFiles>) -> Self {
        let (web, appset, responses) = Default::default();
        Self { http: Some(Box::new(HttpInputs { web, secrets, appset, responses })), ..self }
    }

    /// Sets the project of the generated Applications. An empty string means that the project can't be
    /// determined.
    #[must_use]
    pub fn for_project(self, project: &str) -> Self {
        Self { project: project.to_owned(), ..self }
    }

    /// Observes each repository's refs once during the run instead of using earlier observations.
    #[must_use]
    pub fn with_fresh_refs(self) -> Self {
        Self { refreshed: Some(BTreeSet::new()), ..self }
    }

    /// Returns the repositories that the run has used.
    pub fn used_repositories(&self) -> &BTreeSet<Address> {
        &self.used_repositories
    }

    /// Returns the repositories whose refs have changed, as observed during this run. Later observations
    /// won't report the same changes again.
    pub fn changed_repositories(&self) -> &BTreeSet<Address> {
        &self.changed_repositories
    }

    /// Prepares the inputs for another ApplicationSet, keeping repositories and clusters. Relative repository
    /// URLs are resolved against `base`.
    pub fn set_appset(&mut self, set: &ApplicationSet, base: PathBuf) {
        self.base = base;
        project_of(set).unwrap_or_default().clone_into(&mut self.project);
        self.trees.clear();
        self.files.clear();
        if let Some(http) = &mut self.http {
            http.appset = (set.metadata.namespace_or_default().to_owned(), set.metadata.name.clone());
            http.responses = HttpResponses::default();
        }
    }

    /// Adds the clusters that Secrets in files declare.
    ///
    /// # Errors
    ///
    /// Returns an error if a file is unreadable, or if a Secret declares a cluster that can't be used.
    pub fn with_clusters(self, files: &RepositoryFiles) -> Result<Self, ServiceError> {
        let mut clusters = Vec::new();
        files.for_each_object(|object| {
            clusters.extend(parse_cluster_secret(object)?);
            Ok(())
        })?;
        Ok(Self { clusters: Some(Arc::new(clusters)), ..self })
    }

    fn repository(&mut self, url: &str) -> Result<Arc<Repository>, QueryError> {
        let repository = self
            .repositories
            .open(url, AddressContext { base: &self.base, project: &self.project })
            .map_err(|error| source_error(&error))?;
        self.used_repositories.insert(repository.address().clone());
        if self.refreshed.as_mut().is_some_and(|looked| looked.insert(repository.address().clone())) {
            let has_moved = repository.observe().map_err(|error| source_error(&error))?;
            self.changed_repositories.extend(has_moved.then(|| repository.address().clone()));
        }
        Ok(repository)
    }
}

impl HttpInputs {
    /// Returns the response cache and the context for HTTP requests. All servers are permitted, because the
    /// user is running the command.
    fn request_parts(&mut self) -> (&mut HttpResponses, RequestInputs<'_>) {
        static ANY_SERVER: Providers =
            Providers { policy: Policy { is_disabled: false, allowed: Vec::new() }, requires_label: false };
        let Self { web, secrets, appset: (namespace, appset), responses } = self;
        let objects =
            ObjectSources { files: secrets.as_ref(), cluster: None, control_namespace: control_namespace() };
        (responses, RequestInputs { web, providers: &ANY_SERVER, objects, namespace, appset })
    }
}

/// Returns the project of the Applications that an ApplicationSet generates, which determines which
/// repositories may be used. Returns `None` if the Applications may have different projects.
pub fn project_of(set: &ApplicationSet) -> Option<&str> {
    match set.spec.template.spec.project.as_str() {
        "" => Some(DEFAULT_PROJECT),
        name => Some(name).filter(|name| !name.contains("{{")),
    }
}

fn source_error(error: &SourceError) -> QueryError {
    QueryError::new(error.to_string())
}

/// Returns the cluster that a Secret declares, as generators see it: without its connection.
fn parse_cluster_secret(object: &Object) -> Result<Option<Cluster>, String> {
    let Some(declaration) = ClusterSecret::from_object(object) else { return Ok(None) };
    match declaration.problem {
        Some(problem) => Err(format!("Secret {}: {problem}", declaration.secret_name)),
        None => Ok(Some(generator_cluster(declaration))),
    }
}

/// Converts a cluster declaration for use by generators.
pub fn generator_cluster(declaration: ClusterSecret) -> Cluster {
    let ClusterSecret { connection, project, labels, annotations, .. } = declaration;
    Cluster { name: connection.name, server: connection.server, project, labels, annotations }
}

impl GeneratorInputs for RepositoryInputs {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        match &self.clusters {
            Some(clusters) => Ok(Some(Arc::clone(clusters))),
            None => Err(QueryError::new(
                "no clusters are declared; pass the files that contain the cluster Secrets with --clusters PATH",
            )),
        }
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        let key = (repository.to_owned(), revision.to_owned());
        if let Some(tree) = self.trees.get(&key) {
            return Ok(Some(Arc::clone(tree)));
        }
        let found = self.repository(repository)?;
        let commit = found.resolve(revision).map_err(|error| source_error(&error))?;
        let files = found.paths(&commit, &Limits::default()).map_err(|error| source_error(&error))?;
        let tree = Arc::new(GitTree { commit, files: files.into_iter().collect() });
        self.trees.insert(key, Arc::clone(&tree));
        Ok(Some(tree))
    }

    fn git_file(&mut self, repository: &str, commit: &str, path: &str) -> Reply<Arc<str>> {
        let key = (repository.to_owned(), commit.to_owned(), path.to_owned());
        if let Some(text) = self.files.get(&key) {
            return Ok(Some(Arc::clone(text)));
        }
        let limits = Limits { bytes: FILE_BYTES_MAX, ..Limits::default() };
        let content =
            self.repository(repository)?.content(commit, path, &limits).map_err(|error| match error {
                SourceError::Limit { limit, what, .. } => {
                    QueryError::new(format!("file {path} contains more than {limit} {what}"))
                }
                other => source_error(&other),
            })?;
        let content =
            content.ok_or_else(|| QueryError::new(format!("{path} is a link to a folder, not a file")))?;
        let text = String::from_utf8(content)
            .map_err(|_| QueryError::new(format!("{path} is not UTF-8 text; exclude it")))?;
        let text: Arc<str> = Arc::from(text);
        self.files.insert(key, Arc::clone(&text));
        Ok(Some(text))
    }
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        let Some(asked) = &mut self.http else { return NoInputs.branches(generator, paths) };
        let (http, with) = asked.request_parts();
        http.branches(&with, generator, paths)
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let Some(asked) = &mut self.http else { return NoInputs.pull_requests(generator) };
        let (http, with) = asked.request_parts();
        http.pull_requests(&with, generator)
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let Some(asked) = &mut self.http else { return NoInputs.plugin(generator) };
        let (http, with) = asked.request_parts();
        http.plugin(&with, generator)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidegate_generate::{GenerateOutcome, Options, generate};
    use tidegate_source::commit_folder;

    use super::*;

    const SET: &str = r#"{
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "all"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [{"matrix": {"generators": [
                {"clusters": {"selector": {"matchLabels": {"env": "prod"}}}},
                {"git": {"repoURL": "./repo", "revision": "HEAD", "files": [{"path": "apps/*.json"}]}}
            ]}}],
            "template": {
                "metadata": {"name": "{{ .name }}-{{ .path.basename }}-{{ .size }}"},
                "spec": {
                    "project": "default", "destination": {"server": "{{ .server }}"},
                    "source": {"repoURL": "./repo", "path": "{{ .path.path }}"}
                }
            }
        }
    }"#;

    fn folder_with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn cluster_secret(name: &str, env: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  labels: {{argocd.argoproj.io/secret-type: cluster, env: {env}}}\nstringData: {{name: {name}, server: 'https://{name}.example.com', config: '{{\"bearerToken\": \"hunter2\"}}'}}\n"
        )
    }

    #[test]
    fn generators_read_repositories_and_clusters_from_files() {
        let set = serde_json::from_str(SET).unwrap();
        let folder = folder_with_files(&[
            ("repo/apps/web/a.json", r#"{"size": 3}"#),
            ("repo/apps/db/a.json", r#"{"size": 1}"#),
            ("repo/README.md", ""),
            ("clusters/eu.yaml", &cluster_secret("eu", "prod")),
            ("clusters/us.yaml", &cluster_secret("us", "dev")),
        ]);
        commit_folder(&folder.path().join("repo"), "all", 1).unwrap();
        let world = || RepositoryInputs::new(Repositories::default(), folder.path().to_path_buf());
        let files = RepositoryFiles::new(&folder.path().join("clusters"));
        let mut answering = world().with_clusters(&files).unwrap();
        let Ok(GenerateOutcome::Done(generated)) = generate(&set, &mut answering, &Options::default()) else {
            panic!("all data is available");
        };
        let applications: Vec<_> = generated.applications.iter().map(|made| &made.application).collect();
        let names: Vec<_> = applications.iter().map(|one| one.metadata.name.as_str()).collect();
        assert_eq!(names, ["eu-db-1", "eu-web-3"]);
        assert_eq!(applications[0].spec.destination.server, "https://eu.example.com");
        let error = generate(&set, &mut world(), &Options::default()).unwrap_err().to_string();
        assert!(
            error.starts_with("generators[0].matrix.generators[0].clusters: no clusters are declared; pass")
        );
    }

    #[test]
    fn unreadable_inputs_are_named_in_the_error() {
        let large = "a".repeat(1 << 21);
        let folder = folder_with_files(&[("repo/apps/web/a.json", &large)]);
        commit_folder(&folder.path().join("repo"), "all", 1).unwrap();
        let mut world = RepositoryInputs::new(Repositories::default(), folder.path().to_path_buf());
        let tree = world.git_tree("./repo", "HEAD").unwrap().unwrap();
        let error = world.git_file("./repo", &tree.commit, "apps/web/a.json").unwrap_err();
        assert!(error.reason.starts_with("file apps/web/a.json contains more than 1048576 bytes"), "{error}");
        assert!(world.git_file("./repo", &tree.commit, "apps").is_err());
        let error = world.git_tree("./repo", "nowhere").unwrap_err();
        assert!(error.reason.contains("no branch, tag or commit \"nowhere\""), "{error}");
        assert!(world.git_tree("./none", "HEAD").is_err());
    }
}
