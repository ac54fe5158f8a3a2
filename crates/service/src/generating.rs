//! What the generators of ApplicationSets ask, answered by repositories, by files, and over HTTP.
//!
//! It blocks, so that one run of `generate` is enough; callers keep it off their async threads.

mod http;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::project::DEFAULT_PROJECT;
use tidegate_generate::{Branch, Cluster, GitTree, NoWorld, PullRequest, Reply, Unanswered, World};
use tidegate_kube::Declaration;
use tidegate_model::Object;
use tidegate_model::argo::{
    ApplicationSet, CONTROL_NAMESPACE, PluginGenerator, PullRequestGenerator, ScmGenerator,
};
pub use tidegate_scm::Policy;
use tidegate_scm::Web;
use tidegate_source::{Address, Home, Limits, Repositories, Repository, SourceError};

use crate::applications::RepositoryFiles;
use crate::error::ServiceError;
pub use http::Providers;
pub(crate) use http::{Http, With};
pub(crate) use objects::Objects;

/// The largest file that parameters are read from, in bytes. Ten times what people write down by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Repositories, and clusters that files declare.
pub struct FoundWorld {
    repositories: Arc<Repositories>,
    /// What relative addresses of repositories are relative to.
    base: PathBuf,
    /// For whose Applications they are asked; empty where that is not known.
    project: String,
    clusters: Option<Arc<Vec<Cluster>>>,
    /// By repository and revision: one run sees one commit of each.
    trees: BTreeMap<(String, String), Arc<GitTree>>,
    /// By repository, commit and path: a matrix asks for the same ones again and again.
    files: BTreeMap<(String, String, String), Arc<str>>,
    /// Those that were asked for their names in this run; nothing where what was seen before counts.
    looked: Option<BTreeSet<Address>>,
    /// Those of which that has found that their names have moved.
    moved: BTreeSet<Address>,
    used: BTreeSet<Address>,
    /// What is asked over HTTP, and with which Secrets; nothing where nobody is.
    asked: Option<Box<Asked>>,
}

/// What is asked over HTTP.
struct Asked {
    web: Web,
    secrets: Option<RepositoryFiles>,
    /// Namespace and name of the set.
    set: (String, String),
    http: Http,
}

impl FoundWorld {
    /// These repositories, and no clusters.
    pub fn new(repositories: impl Into<Arc<Repositories>>, base: PathBuf) -> Self {
        Self {
            repositories: repositories.into(),
            base,
            project: String::new(),
            clusters: None,
            trees: BTreeMap::new(),
            files: BTreeMap::new(),
            looked: None,
            moved: BTreeSet::new(),
            used: BTreeSet::new(),
            asked: None,
        }
    }

    /// Asks SCM providers and plugins too, with the Secrets and ConfigMaps of files.
    #[must_use]
    pub fn with_http(self, secrets: Option<RepositoryFiles>) -> Self {
        let (web, set, http) = Default::default();
        Self { asked: Some(Box::new(Asked { web, secrets, set, http })), ..self }
    }

    /// For Applications of this project; empty where that is not known.
    #[must_use]
    pub fn for_project(self, project: &str) -> Self {
        Self { project: project.to_owned(), ..self }
    }

    /// Asks each repository anew what its names mean, once.
    #[must_use]
    pub fn anew(self) -> Self {
        Self { looked: Some(BTreeSet::new()), ..self }
    }

    /// The repositories that were asked for.
    pub(crate) fn used(&self) -> &BTreeSet<Address> {
        &self.used
    }

    /// Repositories of which this run has found that their names have moved: no later look finds that again.
    pub(crate) fn moved(&self) -> &BTreeSet<Address> {
        &self.moved
    }

    /// The same repositories and clusters, for an ApplicationSet whose relative addresses are relative to `base`.
    pub fn at(&mut self, set: &ApplicationSet, base: PathBuf) {
        self.base = base;
        project_of(set).unwrap_or_default().clone_into(&mut self.project);
        self.trees.clear();
        self.files.clear();
        if let Some(asked) = &mut self.asked {
            asked.set = (set.metadata.home().to_owned(), set.metadata.name.clone());
            asked.http = Http::default();
        }
    }

    /// With the clusters that Secrets in files declare.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or a Secret declares a cluster that cannot be used.
    pub fn with_clusters(self, files: &RepositoryFiles) -> Result<Self, ServiceError> {
        let mut clusters = Vec::new();
        files.each(|object| {
            clusters.extend(declared(object)?);
            Ok(())
        })?;
        Ok(Self { clusters: Some(Arc::new(clusters)), ..self })
    }

    fn repository(&mut self, url: &str) -> Result<Arc<Repository>, Unanswered> {
        let repository = self
            .repositories
            .open(url, Home { base: &self.base, project: &self.project })
            .map_err(|error| unanswered(&error))?;
        self.used.insert(repository.address().clone());
        if self.looked.as_mut().is_some_and(|looked| looked.insert(repository.address().clone())) {
            let has_moved = repository.look().map_err(|error| unanswered(&error))?;
            self.moved.extend(has_moved.then(|| repository.address().clone()));
        }
        Ok(repository)
    }
}

impl Asked {
    /// Nobody is asked of whom the operator knows nothing: it is their own command.
    fn parts(&mut self) -> (&mut Http, With<'_>) {
        static ANYBODY: Providers =
            Providers { policy: Policy { is_off: false, allowed: Vec::new() }, only_labelled: false };
        let Self { web, secrets, set: (namespace, set), http } = self;
        let objects = Objects { files: secrets.as_ref(), cluster: None, home: CONTROL_NAMESPACE };
        (http, With { web, providers: &ANYBODY, objects, namespace, set })
    }
}

/// The project of the Applications that a set generates, on whose behalf repositories are asked; `None` where each may have
/// another one.
pub(crate) fn project_of(set: &ApplicationSet) -> Option<&str> {
    match set.spec.template.spec.project.as_str() {
        "" => Some(DEFAULT_PROJECT),
        name => Some(name).filter(|name| !name.contains("{{")),
    }
}

fn unanswered(error: &SourceError) -> Unanswered {
    Unanswered::new(error.to_string())
}

/// The cluster that a Secret declares, as generators know it; nothing of how it is reached.
fn declared(object: &Object) -> Result<Option<Cluster>, String> {
    let Some(declaration) = Declaration::of(object) else { return Ok(None) };
    match declaration.problem {
        Some(problem) => Err(format!("Secret {}: {problem}", declaration.secret)),
        None => Ok(Some(cluster(declaration))),
    }
}

/// A cluster as generators know it.
pub(crate) fn cluster(declaration: Declaration) -> Cluster {
    let Declaration { declared, project, labels, annotations, .. } = declaration;
    Cluster { name: declared.name, server: declared.server, project, labels, annotations }
}

impl World for FoundWorld {
    fn clusters(&mut self) -> Reply<Arc<Vec<Cluster>>> {
        match &self.clusters {
            Some(clusters) => Ok(Some(Arc::clone(clusters))),
            None => Err(Unanswered::new(
                "clusters are not known here; name the files of their Secrets with --clusters PATH",
            )),
        }
    }

    fn git_tree(&mut self, repository: &str, revision: &str) -> Reply<Arc<GitTree>> {
        let key = (repository.to_owned(), revision.to_owned());
        if let Some(tree) = self.trees.get(&key) {
            return Ok(Some(Arc::clone(tree)));
        }
        let found = self.repository(repository)?;
        let commit = found.resolve(revision).map_err(|error| unanswered(&error))?;
        let files = found.paths(&commit, &Limits::default()).map_err(|error| unanswered(&error))?;
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
                    Unanswered::new(format!("file {path} has more than {limit} {what}"))
                }
                other => unanswered(&other),
            })?;
        let content =
            content.ok_or_else(|| Unanswered::new(format!("{path} is a link to a folder, and no file")))?;
        let text = String::from_utf8(content)
            .map_err(|_| Unanswered::new(format!("{path} is no text in UTF-8; exclude it")))?;
        let text: Arc<str> = Arc::from(text);
        self.files.insert(key, Arc::clone(&text));
        Ok(Some(text))
    }
    fn branches(&mut self, generator: &ScmGenerator, paths: &BTreeSet<String>) -> Reply<Arc<Vec<Branch>>> {
        let Some(asked) = &mut self.asked else { return NoWorld.branches(generator, paths) };
        let (http, with) = asked.parts();
        http.branches(&with, generator, paths)
    }

    fn pull_requests(&mut self, generator: &PullRequestGenerator) -> Reply<Arc<Vec<PullRequest>>> {
        let Some(asked) = &mut self.asked else { return NoWorld.pull_requests(generator) };
        let (http, with) = asked.parts();
        http.pull_requests(&with, generator)
    }

    fn plugin(&mut self, generator: &PluginGenerator) -> Reply<Arc<Value>> {
        let Some(asked) = &mut self.asked else { return NoWorld.plugin(generator) };
        let (http, with) = asked.parts();
        http.plugin(&with, generator)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tidegate_generate::{Options, Outcome, generate};
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

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        folder
    }

    fn secret(name: &str, env: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\n  labels: {{argocd.argoproj.io/secret-type: cluster, env: {env}}}\nstringData: {{name: {name}, server: 'https://{name}.example.com', config: '{{\"bearerToken\": \"hunter2\"}}'}}\n"
        )
    }

    #[test]
    fn repositories_and_files_of_clusters_answer() {
        let set = serde_json::from_str(SET).unwrap();
        let folder = folder(&[
            ("repo/apps/web/a.json", r#"{"size": 3}"#),
            ("repo/apps/db/a.json", r#"{"size": 1}"#),
            ("repo/README.md", ""),
            ("clusters/eu.yaml", &secret("eu", "prod")),
            ("clusters/us.yaml", &secret("us", "dev")),
        ]);
        commit_folder(&folder.path().join("repo"), "all", 1).unwrap();
        let world = || FoundWorld::new(Repositories::default(), folder.path().to_path_buf());
        let files = RepositoryFiles::new(&folder.path().join("clusters"));
        let mut answering = world().with_clusters(&files).unwrap();
        let Ok(Outcome::Done(generated)) = generate(&set, &mut answering, &Options::default()) else {
            panic!("everything is known");
        };
        let applications: Vec<_> = generated.applications.iter().map(|made| &made.application).collect();
        let names: Vec<_> = applications.iter().map(|one| one.metadata.name.as_str()).collect();
        assert_eq!(names, ["eu-db-1", "eu-web-3"]);
        assert_eq!(applications[0].spec.destination.server, "https://eu.example.com");
        let error = generate(&set, &mut world(), &Options::default()).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "generators[0].matrix.generators[0].clusters: clusters are not known here; name"
            )
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let large = "a".repeat(1 << 21);
        let folder = folder(&[("repo/apps/web/a.json", &large)]);
        commit_folder(&folder.path().join("repo"), "all", 1).unwrap();
        let mut world = FoundWorld::new(Repositories::default(), folder.path().to_path_buf());
        let tree = world.git_tree("./repo", "HEAD").unwrap().unwrap();
        let error = world.git_file("./repo", &tree.commit, "apps/web/a.json").unwrap_err();
        assert!(error.reason.starts_with("file apps/web/a.json has more than 1048576 bytes"), "{error}");
        assert!(world.git_file("./repo", &tree.commit, "apps").is_err());
        let error = world.git_tree("./repo", "nowhere").unwrap_err();
        assert!(error.reason.contains("no branch, tag or commit \"nowhere\""), "{error}");
        assert!(world.git_tree("./none", "HEAD").is_err());
    }
}
