//! The control plane all contenders meet, and its count of their requests.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tidegate_testkit::kube::{Caller, ControlPlane, Mark, Options, User};
use tokio::runtime::{Builder, Runtime};

/// Where the contenders run. No controllers and no nodes: config maps need none, and they would take their share of
/// the processors.
pub struct Site {
    runtime: Runtime,
    control: ControlPlane,
    observer: Caller,
    folder: TempDir,
}

/// Requests of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// All.
    pub all: usize,
    /// Those that change something, dry runs included.
    pub writes: usize,
    /// Those of them that are dry runs.
    pub dry_runs: usize,
}

impl Site {
    pub fn start() -> Self {
        let options = Options { nodes: false, controllers: false, ..Options::default() };
        let control = ControlPlane::start(options).unwrap_or_else(|error| panic!("{error}"));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let observer = runtime.block_on(async { control.caller(User::OBSERVER) });
        // Beside the build, because a temporary folder may be in memory, where syncing to disk costs nothing.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { runtime, control, observer, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.control.kubeconfig(User::ENGINE)
    }

    pub fn minor(&self) -> u32 {
        self.control.minor()
    }

    /// A new namespace.
    pub fn namespace(&self) -> String {
        self.runtime.block_on(self.control.namespace("bench")).unwrap()
    }

    /// Checks that everything is there, and removes it, so that the next contender meets the same server.
    pub fn clear(&self, namespace: &str, expected: usize) {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.runtime.block_on(async {
            let label = "labelSelector=app%3Dbench";
            let list = self.observer.get(&format!("{path}?{label}")).await.unwrap();
            assert_eq!(list["items"].as_array().unwrap().len(), expected, "objects in {namespace}");
            self.observer.delete(&format!("{path}?{label}"), &json!({})).await.unwrap();
        });
    }

    pub fn mark(&self) -> Mark {
        self.control.mark()
    }

    /// What the contender sent since.
    pub fn requests(&self, since: Mark) -> Requests {
        let audit = self.runtime.block_on(self.control.audit_since(since)).unwrap().of(User::ENGINE);
        let writes = audit.0.iter().filter(|event| event.is_write());
        Requests {
            all: audit.0.len(),
            writes: writes.clone().count(),
            dry_runs: writes.filter(|event| event.dry_run).count(),
        }
    }
}
