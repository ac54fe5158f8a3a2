//! A large public installation with CRDs of more than a megabyte, roles, workloads and network policies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::CommandOutput;
use crate::kube_bench::KubeBench;

/// Returns the folder of the installation, which is outside of the repository.
pub fn install() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/samples/argo-cd-install.yaml")
}

fn run(bench: &KubeBench, command: &str, more: &[&str]) -> CommandOutput {
    let (path, namespace) = (install().canonicalize().unwrap(), bench.namespace.as_str());
    let base = [command, path.to_str().unwrap(), "project.yaml", "--app", namespace, "-n", namespace];
    bench.run(&[&base[..], more].concat())
}

pub async fn argo_cd_becomes_healthy_and_stays_unchanged() {
    let mut bench = KubeBench::new("argocd").await;
    // Adds a custom resource whose definition is in the same sync.
    bench.write(
        "project.yaml",
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
            "spec": {"sourceRepos": ["*"], "destinations": [{"namespace": "shop", "server": "*"}]},
        })
        .to_string(),
    );
    run(&bench, "sync", &["--wait", "healthy"]).expect_code(0);
    assert!(bench.object("/apis/argoproj.io/v1alpha1", "appprojects", "shop").await.is_some());
    let servers = bench.object("/apis/apps/v1", "deployments", "argocd-server").await.unwrap();
    assert_eq!(servers["status"]["readyReplicas"], 1, "{servers}");
    let engine = |event: &tidegate_testkit::kube::AuditEvent| event.user == User::ENGINE.name();
    let mark = bench.control.audit_mark();
    bench.reset_audit();
    run(&bench, "sync", &["--wait", "healthy", "--sync-option", "ApplyOutOfSyncOnly=true"]).expect_code(0);
    // The audit covers the whole cluster, because definitions and roles don't have a namespace. Other tests
    // use their own namespaces.
    let writes = bench.control.audit_since(mark).await.unwrap().successful_writes().filter(engine);
    let writes = writes.filter(|event| event.kind != "Lease");
    let ours = writes.filter(|event| {
        event.namespace == bench.namespace || event.namespace.is_empty() && event.name.contains("argo")
    });
    assert_eq!(ours.summaries(), Vec::<String>::new());
    run(&bench, "diff", &[]).expect_code(0);
    let size = fs::metadata(install()).unwrap().len();
    assert!(size > 1_000_000, "the input is the large one");
}
