//! Kinds that stand for something outside the cluster: storage, addresses, metrics.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::sim::{Turn, settled_status};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{Node, now, path_of};

impl Node {
    pub(super) fn see_settling(self: &Arc<Self>, object: Object) {
        // A Service that becomes a load balancer begins anew.
        let work = format!("settle {}", object.text("/spec/type"));
        if !object.is_deleting() && self.begin(&object, &work) {
            tokio::spawn(Arc::clone(self).settle(object));
        }
    }

    async fn settle(self: Arc<Self>, object: Object) {
        let path = path_of(&object);
        let fate = self.fate(&object).await;
        let status = |done| settled_status(&object, Turn::of(fate.outcome, done), &now());
        // An empty status is there already, and a write of it would only be noise.
        if object.kind() == "PersistentVolumeClaim"
            && let Some(status) = status(false)
        {
            self.write(
                &format!("{path}/status"),
                &json!({"metadata": {"uid": object.uid()}, "status": status}),
            )
            .await;
        }
        sleep(fate.ready_after).await;
        let good = Turn::of(fate.outcome, true) == Turn::Good;
        if good && object.kind() == "PersistentVolumeClaim" && object.text("/spec/volumeName").is_empty() {
            let volume = format!("pvc-{}", object.uid());
            let patch = json!({"metadata": {"uid": object.uid()}, "spec": {"volumeName": volume}});
            self.write(&path, &patch).await;
        }
        let Some(status) = status(true).filter(|status| *status != json!({"loadBalancer": {}})) else {
            return;
        };
        self.write(&format!("{path}/status"), &json!({"metadata": {"uid": object.uid()}, "status": status}))
            .await;
    }
}
