//! Pods: binding, start, readiness or completion, and removal.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::sim::{Behavior, Outcome, PodStage, pod_status};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{NODE_NAME, Node, RETRY_DELAY, current_timestamp, is_final, object_path};

impl Node {
    pub(super) fn handle_pod(self: &Arc<Self>, pod: Object) {
        let ended = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
        if pod.is_deleting() {
            let stuck = Behavior::from_object(&pod).outcome == Some(Outcome::StuckDeleting);
            if !stuck && self.start_work(&pod, "end") {
                tokio::spawn(Arc::clone(self).end_pod(pod));
            }
        } else if !ended && self.start_work(&pod, "run") {
            tokio::spawn(Arc::clone(self).run_pod(pod));
        }
    }

    async fn run_pod(self: Arc<Self>, pod: Object) {
        let started = current_timestamp();
        let fate = self.object_outcome(&pod).await;
        if pod.text("/spec/nodeName").is_empty() && !self.bind_pod(&pod).await {
            return;
        }
        let stage = |done| PodStage::for_pod(&pod, fate.is_of_workload, fate.outcome, done);
        if !self.write_status(&pod, stage(false), &started).await {
            return;
        }
        sleep(fate.ready_after).await;
        self.write_status(&pod, stage(true), &started).await;
    }

    /// Binds a pod to the node. Returns false if the pod is gone.
    async fn bind_pod(&self, pod: &Object) -> bool {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        });
        loop {
            match self.client.post(&format!("{}/binding", object_path(pod)), &binding).await {
                Ok(_) => return true,
                // An earlier attempt bound the pod, but its response was lost.
                Err(error) if error.code == 409 && error.why.contains("already assigned") => return true,
                Err(error) if is_final(&error) => return false,
                Err(_) => sleep(RETRY_DELAY).await,
            }
        }
    }

    async fn write_status(&self, pod: &Object, stage: PodStage, started: &str) -> bool {
        let patch = json!({
            "metadata": {"uid": pod.uid()},
            "status": pod_status(pod, stage, started, &current_timestamp()),
        });
        self.write_patch(&format!("{}/status", object_path(pod)), &patch).await
    }

    /// Marks the pod's containers as stopped, so that the API server may remove the pod.
    async fn end_pod(self: Arc<Self>, pod: Object) {
        sleep(self.timings.grace).await;
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid()},
        });
        loop {
            match self.client.delete(&object_path(&pod), &options).await {
                Err(error) if !is_final(&error) => sleep(RETRY_DELAY).await,
                _ => return,
            }
        }
    }
}
