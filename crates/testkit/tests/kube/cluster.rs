//! `KubeCluster` on a real API server.

pub mod outages;
pub mod reads;
pub mod writes;

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{
    ApplyRequest, ApplyResult, Cluster as _, ClusterError, DeleteRequest, Propagation, WriteMode,
};
use tidegate_kube::{ConnectOptions, KubeCluster, connect};
use tidegate_model::{Gvk, Object};
use tidegate_testkit::kube::{ControlPlane, User};

const APPLY: WriteMode = WriteMode::Apply { force: true };
const REPLACE: WriteMode = WriteMode::Replace { recreate: false };
const OPERATION: &str = "0190b5a4-7c1e-7000-8000-000000000001";
/// Maximum time to wait.
const TIMEOUT: Duration = Duration::from_secs(600);

async fn cluster(control: &ControlPlane, user: &User) -> KubeCluster {
    connect(&options(control, user)).await.unwrap()
}

fn options(control: &ControlPlane, user: &User) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(control.kubeconfig(user)), ..ConnectOptions::default() }
}

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

fn config_map(namespace: &str, name: &str, data: Value) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data,
    }))
}

fn config_maps() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn deployment(namespace: &str, name: &str, env: Value) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "busybox", "env": env}]},
        }},
    }))
}

fn request(object: &Object, mode: WriteMode) -> ApplyRequest {
    ApplyRequest { operation: Some(OPERATION.parse().unwrap()), ..ApplyRequest::new(object.clone(), mode) }
}

async fn write(cluster: &KubeCluster, object: &Object, mode: WriteMode) -> Result<ApplyResult, ClusterError> {
    cluster.apply(request(object, mode)).await
}

fn delete(object: &Object, propagation: Propagation) -> DeleteRequest {
    DeleteRequest { propagation, ..DeleteRequest::for_object(object) }
}

async fn read(cluster: &KubeCluster, object: &Object) -> Option<Object> {
    cluster.get(&object.gvk(), object.namespace(), object.name()).await.unwrap()
}
