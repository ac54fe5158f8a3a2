//! Many Applications that share a repository, each with a folder of four ConfigMaps.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Number of objects in each Application.
pub const OBJECTS: usize = 4;
/// Number of Applications in each file.
const APPLICATIONS_PER_FILE: usize = 100;

/// A folder with a repository and Applications.
pub struct Fleet {
    folder: TempDir,
    pub application_count: usize,
}

/// Sync policy of the Applications.
#[derive(Clone, Copy, PartialEq)]
pub enum Policy {
    Automated,
    Manual,
}

pub fn application_name(at: usize) -> String {
    format!("shop-{at:05}")
}

/// Returns the release build, which is next to this benchmark.
pub fn program_path() -> PathBuf {
    if let Some(program) = std::env::var_os("TIDEGATE_BENCH_PROGRAM") {
        return program.into();
    }
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("tidegate");
    assert!(program.exists(), "{} is missing: run cargo build --release", program.display());
    program
}

impl Fleet {
    /// Creates a repository with a folder for each Application, but without Applications.
    pub fn new(application_count: usize) -> Self {
        // Next to the build output: a temporary folder may be in memory, where syncing to disk costs nothing.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let fleet = Self { folder, application_count };
        fs::create_dir_all(fleet.path().join("apps")).unwrap();
        (0..application_count).for_each(|at| fleet.write_manifests(at, 1, ""));
        fleet.commit();
        fleet
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn apps(&self) -> PathBuf {
        self.path().join("apps")
    }

    pub fn repository(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(program_path());
        command
            .current_dir(self.path())
            .env("HOME", self.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null());
        command
    }

    /// Writes another version of an Application's manifests, with these annotations on each object.
    pub fn write_manifests(&self, at: usize, version: usize, annotations: &str) {
        let folder = self.repository().join(application_name(at));
        fs::create_dir_all(&folder).unwrap();
        let map = |number: usize| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}-{number}\n  labels: {{app.kubernetes.io/part-of: bench}}\n  \
                 annotations: {{{annotations}}}\ndata:\n  VERSION: \"{version}\"\n  DATABASE_URL: postgres://db.default.svc:5432/shop\n---\n",
                application_name(at)
            )
        };
        fs::write(folder.join("all.yaml"), (0..OBJECTS).map(map).collect::<String>()).unwrap();
    }

    pub fn commit(&self) {
        let made = self.command().args(["example", "commit", "repo"]).stdout(Stdio::null()).status().unwrap();
        assert!(made.success());
    }

    /// Changes all Applications with one commit.
    pub fn change_all(&self, version: usize) {
        (0..self.application_count).for_each(|at| self.write_manifests(at, version, ""));
        self.commit();
    }

    pub fn spec(&self, name: &str, namespace: &str, policy: Policy) -> Value {
        let automated = (policy == Policy::Automated).then(|| json!({"prune": true, "selfHeal": true}));
        json!({
            "project": "default",
            "source": {"repoURL": self.repository(), "path": name, "targetRevision": "main"},
            "destination": {"name": "in-cluster", "namespace": namespace},
            "syncPolicy": {"automated": automated},
        })
    }

    pub fn application(&self, at: usize, namespace: &str, policy: Policy) -> Value {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": application_name(at), "namespace": "argocd"},
            "spec": self.spec(&application_name(at), namespace, policy),
        })
    }

    /// Writes all Applications into the managed folder.
    pub fn write_applications(&self, policy: Policy) {
        let all: Vec<usize> = (0..self.application_count).collect();
        for (number, some) in all.chunks(APPLICATIONS_PER_FILE).enumerate() {
            let documents =
                some.iter().map(|at| format!("{}\n---\n", self.application(*at, "default", policy)));
            let path = self.apps().join(format!("some-{number:03}.yaml"));
            fs::write(path, documents.collect::<String>()).unwrap();
        }
    }
}
