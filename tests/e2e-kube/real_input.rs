//! A large public installation: CRDs of more than a megabyte, roles, workloads, network policies.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tidegate_testkit::kube::User;

use crate::bench::Ran;
use crate::site::Site;

/// Beside the repository, not in it.
pub fn install() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/samples/argo-cd-install.yaml")
}

fn run(site: &Site, command: &str, more: &[&str]) -> Ran {
    let (path, namespace) = (install().canonicalize().unwrap(), site.namespace.as_str());
    let base = [command, path.to_str().unwrap(), "project.yaml", "--app", namespace, "-n", namespace];
    site.run(&[&base[..], more].concat())
}

pub async fn argo_cd_becomes_healthy_and_stays_as_it_is() {
    let mut site = Site::new("argocd").await;
    // A custom resource of a definition that comes with the same sync.
    site.write(
        "project.yaml",
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"},
            "spec": {"sourceRepos": ["*"], "destinations": [{"namespace": "shop", "server": "*"}]},
        })
        .to_string(),
    );
    run(&site, "sync", &["--wait", "healthy"]).expect_code(0);
    assert!(site.object("/apis/argoproj.io/v1alpha1", "appprojects", "shop").await.is_some());
    let servers = site.object("/apis/apps/v1", "deployments", "argocd-server").await.unwrap();
    assert_eq!(servers["status"]["readyReplicas"], 1, "{servers}");
    let engine = |event: &tidegate_testkit::kube::AuditEvent| event.user == User::ENGINE.name();
    let mark = site.control.mark();
    site.look_from_now();
    run(&site, "sync", &["--wait", "healthy", "--sync-option", "ApplyOutOfSyncOnly=true"]).expect_code(0);
    // In the whole cluster: definitions and roles have no namespace. Others work in namespaces of their own.
    let writes = site.control.audit_since(mark).await.unwrap().writes().only(engine);
    let writes = writes.only(|event| event.kind != "Lease");
    let ours = writes.only(|event| {
        event.namespace == site.namespace || event.namespace.is_empty() && event.name.contains("argo")
    });
    assert_eq!(ours.summaries(), Vec::<String>::new());
    run(&site, "diff", &[]).expect_code(0);
    let size = fs::metadata(install()).unwrap().len();
    assert!(size > 1_000_000, "the input is the large one");
}
