//! A repository, and what is made of it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate_model::argo::ApplicationSource;
use tidegate_source::{
    Located, Making, Purpose, Repositories, Repository, SourceError, Tools, commit_folder,
};
use tidegate_testkit::{program::write_script, tools};

pub struct Bench {
    pub folder: TempDir,
    pub repositories: Repositories,
    pub making: Making,
}

impl Bench {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let purpose = Purpose {
            cluster: tidegate_source::Served::NoCluster,
            name: "web".into(),
            instance: "team_web".into(),
            project: "default".into(),
            namespace: "shop".into(),
        };
        let making =
            Making { tools: Tools::new(folder.path().join("working")), purpose, ..Making::default() };
        Self { folder, repositories: Repositories::default(), making }
    }

    /// With the real Helm; nothing where it is not there.
    pub fn with_helm() -> Option<Self> {
        let mut bench = Self::new();
        bench.making.tools.helm = Some(tools::helm()?);
        Some(bench)
    }

    /// A program of our own in the place of Helm.
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
        opened.look().unwrap();
        opened
    }

    pub fn locate(&self, source: &ApplicationSource) -> Result<Located, SourceError> {
        let repository = self.open("repo");
        let commit = repository.resolve(&source.target_revision)?;
        repository.locate(source, &commit, &self.making)
    }

    /// What is made of a source, as one text.
    pub fn made(&self, source: &ApplicationSource) -> Result<String, SourceError> {
        let located = self.locate(source)?;
        let files = self.open("repo").read(&located, &self.making)?;
        Ok(files.iter().map(|file| String::from_utf8(file.content.clone()).unwrap()).collect())
    }

    /// The objects that are made of a source.
    pub fn objects(&self, source: &ApplicationSource) -> Result<Vec<Value>, SourceError> {
        let text = self.made(source)?;
        let documents = text.split("\n---\n").map(|one| one.trim_start_matches("---\n"));
        let objects =
            documents.filter(|one| !one.trim().is_empty()).map(|one| serde_saphyr::from_str(one).unwrap());
        Ok(objects.filter(|one: &Value| !one.is_null()).collect())
    }

    /// Why nothing is made of a source. Nobody is told where that was tried.
    pub fn error(&self, source: &ApplicationSource) -> String {
        let error = self.made(source).unwrap_err().to_string();
        assert!(!error.contains("working/work-"), "{error}");
        let left = fs::read_dir(self.folder.path().join("working")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "nothing is left");
        error
    }
}

/// A chart, and what Helm is told of it.
pub fn chart(helm: Value) -> ApplicationSource {
    source(json!({"repoURL": "./repo", "path": "charts/web", "helm": helm}))
}

pub fn source(value: Value) -> ApplicationSource {
    serde_json::from_value(value).unwrap()
}
