//! What the generators of ApplicationSets ask, answered by repositories and by files.
//!
//! It blocks, so that one run of `generate` is enough; callers keep it off their async threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tidegate_generate::{Cluster, GitTree, Reply, Unanswered, World};
use tidegate_kube::Declaration;
use tidegate_model::Object;
use tidegate_source::{Limits, Repositories, Repository, SourceError};

use crate::applications::RepositoryFiles;
use crate::error::ServiceError;

/// The largest file that parameters are read from, in bytes. Ten times what people write down by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Repositories, and clusters that files declare.
pub struct FoundWorld {
    repositories: Repositories,
    /// What relative addresses of repositories are relative to.
    base: PathBuf,
    clusters: Option<Arc<Vec<Cluster>>>,
    /// By repository and revision: one run sees one commit of each.
    trees: BTreeMap<(String, String), Arc<GitTree>>,
}

impl FoundWorld {
    /// These repositories, and no clusters.
    pub fn new(repositories: Repositories, base: PathBuf) -> Self {
        Self { repositories, base, clusters: None, trees: BTreeMap::new() }
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

    fn repository(&self, url: &str) -> Result<Arc<Repository>, Unanswered> {
        self.repositories.open(url, &self.base).map_err(|error| unanswered(&error))
    }
}

fn unanswered(error: &SourceError) -> Unanswered {
    Unanswered::new(error.to_string())
}

/// The cluster that a Secret declares, as generators know it; nothing of how it is reached.
fn declared(object: &Object) -> Result<Option<Cluster>, String> {
    let Some(declaration) = Declaration::of(object) else { return Ok(None) };
    if let Some(problem) = declaration.problem {
        return Err(format!("Secret {}: {problem}", declaration.secret));
    }
    let texts = |section: &str| {
        let fields = object.as_value().pointer(section).and_then(serde_json::Value::as_object);
        let texts = fields.into_iter().flatten();
        texts.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    };
    Ok(Some(Cluster {
        name: declaration.declared.name,
        server: declaration.declared.server,
        project: declaration.project,
        labels: texts("/metadata/labels"),
        annotations: texts("/metadata/annotations"),
    }))
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
        Ok(Some(Arc::from(text)))
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
