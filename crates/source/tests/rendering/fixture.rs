//! Test setup: a repository with manifests to render.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{
    LocatedManifests, RenderInputs, RenderTarget, Repositories, Repository, SourceError, Tools, commit_folder,
};
use tidegate_testkit::{program::write_script, tools};

pub struct RenderFixture {
    pub folder: TempDir,
    pub repositories: Repositories,
    pub making: RenderInputs,
}

impl RenderFixture {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let purpose = RenderTarget {
            cluster: tidegate_source::ClusterCapabilities::NoCluster,
            name: "web".into(),
            instance: "team_web".into(),
            project: "default".into(),
            namespace: "shop".into(),
        };
        let making = RenderInputs {
            tools: Tools::new(folder.path().join("working")),
            purpose,
            ..RenderInputs::default()
        };
        Self { folder, repositories: Repositories::default(), making }
    }

    /// Creates a test setup with the real Helm. Returns `None` if Helm isn't installed.
    pub fn with_helm() -> Option<Self> {
        let mut bench = Self::new();
        bench.making.tools.helm = Some(tools::helm()?);
        Some(bench)
    }

    /// Replaces Helm with a script that has this content.
    pub fn script(&mut self, text: &str) {
        let path = self.folder.path().join("helm");
        write_script(&path, text);
        self.making.tools.helm = Some(path);
    }

    pub fn path(&self, repository: &str) -> PathBuf {
        self.folder.path().join(repository)
    }

    pub fn write(&self, file: &str, content: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn commit(&self, repository: &str) -> String {
        commit_folder(&self.path(repository), "change", 1_795_253_400).unwrap().unwrap()
    }

    pub fn open(&self, repository: &str) -> Arc<Repository> {
        let opened = self.repositories.open(&format!("./{repository}"), self.folder.path()).unwrap();
        opened.observe().unwrap();
        opened
    }

    pub fn locate(&self, source: &ApplicationSource) -> Result<LocatedManifests, SourceError> {
        let repository = self.open("repo");
        let commit = repository.resolve(&source.target_revision)?;
        repository.locate_manifests(source, &commit, &self.making)
    }

    /// Renders a source and returns its manifests as text.
    pub fn rendered_text(&self, source: &ApplicationSource) -> Result<String, SourceError> {
        let located = self.locate(source)?;
        let files = self.open("repo").read(&located, &self.making)?;
        Ok(files.iter().map(|file| String::from_utf8(file.content.clone()).unwrap()).collect())
    }

    /// Renders a source and returns its objects.
    pub fn objects(&self, source: &ApplicationSource) -> Result<Vec<Value>, SourceError> {
        let text = self.rendered_text(source)?;
        let documents = text.split("\n---\n").map(|one| one.trim_start_matches("---\n"));
        let objects =
            documents.filter(|one| !one.trim().is_empty()).map(|one| serde_saphyr::from_str(one).unwrap());
        Ok(objects.filter(|one: &Value| !one.is_null()).collect())
    }

    /// Renders a source and returns the error. Fails if the error contains a path on this machine, or if a
    /// working folder remains.
    pub fn error(&self, source: &ApplicationSource) -> String {
        let error = self.rendered_text(source).unwrap_err().to_string();
        assert!(!error.contains("working/work-"), "{error}");
        let left = fs::read_dir(self.folder.path().join("working")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "no working folder remains");
        error
    }
}

/// Returns a source for the chart with these Helm settings.
pub fn chart(helm: Value) -> ApplicationSource {
    source(json!({"repoURL": "./repo", "path": "charts/web", "helm": helm}))
}

pub fn source(value: Value) -> ApplicationSource {
    serde_json::from_value(value).unwrap()
}
