//! Pods: bound, started, ready or ended, and gone.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::sim::{Behaviour, Outcome, PodStage, pod_status};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{AGAIN, NODE, Node, is_final, now, path_of};

impl Node {
    pub(super) fn see_pod(self: &Arc<Self>, pod: Object) {
        let ended = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
        if pod.is_deleting() {
            let stuck = Behaviour::of(&pod).outcome == Some(Outcome::StuckDeleting);
            if !stuck && self.begin(&pod, "end") {
                tokio::spawn(Arc::clone(self).end(pod));
            }
        } else if !ended && self.begin(&pod, "run") {
            tokio::spawn(Arc::clone(self).run(pod));
        }
    }

    async fn run(self: Arc<Self>, pod: Object) {
        let started = now();
        let fate = self.fate(&pod).await;
        if pod.text("/spec/nodeName").is_empty() && !self.bind(&pod).await {
            return;
        }
        let stage = |done| PodStage::of(&pod, fate.of_workload, fate.outcome, done);
        if !self.write_status(&pod, stage(false), &started).await {
            return;
        }
        sleep(fate.ready_after).await;
        self.write_status(&pod, stage(true), &started).await;
    }

    /// Chooses the node. `false` when the pod has gone.
    async fn bind(&self, pod: &Object) -> bool {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        loop {
            match self.caller.post(&format!("{}/binding", path_of(pod)), &binding).await {
                Ok(_) => return true,
                // Bound already, by an attempt whose answer was lost.
                Err(error) if error.code == 409 && error.why.contains("already assigned") => return true,
                Err(error) if is_final(&error) => return false,
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    async fn write_status(&self, pod: &Object, stage: PodStage, started: &str) -> bool {
        let patch = json!({
            "metadata": {"uid": pod.uid()},
            "status": pod_status(pod, stage, started, &now()),
        });
        self.write(&format!("{}/status", path_of(pod)), &patch).await
    }

    /// Its containers have stopped: the API server may let it go.
    async fn end(self: Arc<Self>, pod: Object) {
        sleep(self.pace.grace).await;
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid()},
        });
        loop {
            match self.caller.delete(&path_of(&pod), &options).await {
                Err(error) if !is_final(&error) => sleep(AGAIN).await,
                _ => return,
            }
        }
    }
}
