//! Simulated clusters with Argo CD's kinds.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster, WriteMode};
use tidegate_model::argo::{API_VERSION, all_crds};
use tidegate_model::{Gvk, Object, Timestamp};

/// Returns one of Argo CD's kinds.
pub fn argo_gvk(kind: &str) -> Gvk {
    Gvk::from_api_version(API_VERSION, kind)
}

/// Writes an object.
pub async fn apply(cluster: &dyn Cluster, value: Value) -> Object {
    let request = ApplyRequest::new(Object::try_from(value).unwrap(), WriteMode::Apply { force: true });
    cluster.apply(request).await.unwrap().object
}

/// Returns a cluster without the kind.
pub fn cluster_without_kind() -> Arc<dyn Cluster> {
    let clock = Clock::tokio(Timestamp::from_millis(1_700_000_000_000));
    Arc::new(SimCluster::in_memory(SimConfig::default(), clock))
}

/// Returns a cluster with the Application kind, without a status subresource, and with the namespaces
/// `argocd` and `team`.
pub async fn cluster() -> Arc<dyn Cluster> {
    let cluster = cluster_without_kind();
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = json!({
        "name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "applications.argoproj.io"},
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Application", "plural": "applications", "singular": "application"},
        },
    });
    apply(cluster.as_ref(), definition).await;
    while cluster.discover().await.unwrap().get(&argo_gvk("Application").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for namespace in ["argocd", "team"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        apply(cluster.as_ref(), object).await;
    }
    cluster
}

/// Installs the engine's own definitions. ApplicationSets have a status subresource if `is_apart` is true;
/// Applications never do.
pub async fn cluster_with_definitions(is_apart: bool) -> SimCluster {
    let clock = Clock::tokio(Timestamp::from_millis(1_700_000_000_000));
    let cluster = SimCluster::in_memory(SimConfig::default(), clock);
    for mut definition in all_crds() {
        if !is_apart {
            let version = definition.pointer_mut("/spec/versions/0").unwrap();
            version.as_object_mut().unwrap().remove("subresources");
        }
        apply(&cluster, definition).await;
    }
    while cluster.discover().await.unwrap().get(&argo_gvk("ApplicationSet").group_kind()).is_none() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
    apply(&cluster, namespace).await;
    cluster
}
