//! Control plane for all contenders, with a count of their requests.

use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tidegate_testkit::kube::{ApiClient, ControlPlane, Mark, Options, User};
use tokio::runtime::{Builder, Runtime};

/// Environment of the contenders. It has no controllers or nodes: ConfigMaps don't need them, and they would
/// use CPU time.
pub struct Environment {
    runtime: Runtime,
    control_plane: ControlPlane,
    observer: ApiClient,
    folder: TempDir,
}

/// Requests of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestCounts {
    /// All requests.
    pub total: usize,
    /// Writes, including dry runs.
    pub writes: usize,
    /// Dry runs.
    pub dry_runs: usize,
}

impl Environment {
    pub fn start() -> Self {
        let options = Options { has_nodes: false, has_controllers: false, ..Options::default() };
        let control_plane = ControlPlane::start(options).unwrap_or_else(|error| panic!("{error}"));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let observer = runtime.block_on(async { control_plane.client(User::OBSERVER) });
        // Next to the build output: a temporary folder may be in memory, where syncing to disk costs nothing.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { runtime, control_plane, observer, folder }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig(User::ENGINE)
    }

    pub fn minor(&self) -> u32 {
        self.control_plane.minor()
    }

    /// Creates a namespace.
    pub fn namespace(&self) -> String {
        self.runtime.block_on(self.control_plane.create_namespace("bench")).unwrap()
    }

    /// Checks that all objects exist, then removes them, so that the next contender starts under the same
    /// conditions.
    pub fn check_and_clear(&self, namespace: &str, expected: usize) {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        self.runtime.block_on(async {
            let label = "labelSelector=app%3Dbench";
            let list = self.observer.get(&format!("{path}?{label}")).await.unwrap();
            assert_eq!(list["items"].as_array().unwrap().len(), expected, "objects in {namespace}");
            self.observer.delete(&format!("{path}?{label}"), &json!({})).await.unwrap();
        });
    }

    pub fn audit_mark(&self) -> Mark {
        self.control_plane.audit_mark()
    }

    /// Returns the requests of the contender since a mark.
    pub fn count_requests(&self, since: Mark) -> RequestCounts {
        let audit =
            self.runtime.block_on(self.control_plane.audit_since(since)).unwrap().by_user(User::ENGINE);
        let writes = audit.0.iter().filter(|event| event.is_write());
        RequestCounts {
            total: audit.0.len(),
            writes: writes.clone().count(),
            dry_runs: writes.filter(|event| event.dry_run).count(),
        }
    }
}
