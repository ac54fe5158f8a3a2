//! Kinds that represent resources outside the cluster: storage, addresses, metrics.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::sim::{Readiness, standalone_status};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{Node, current_timestamp, object_path};

impl Node {
    pub(super) fn handle_standalone(self: &Arc<Self>, object: Object) {
        // A Service that changes its type, for example to a load balancer, starts its simulation over.
        let work = format!("settle {}", object.text("/spec/type"));
        if !object.is_deleting() && self.start_work(&object, &work) {
            tokio::spawn(Arc::clone(self).update_standalone_status(object));
        }
    }

    async fn update_standalone_status(self: Arc<Self>, object: Object) {
        let path = object_path(&object);
        let fate = self.object_outcome(&object).await;
        let status = |done| {
            standalone_status(&object, Readiness::from_outcome(fate.outcome, done), &current_timestamp())
        };
        // Other kinds already have an empty status, and writing it would only add noise to the audit log.
        if object.kind() == "PersistentVolumeClaim"
            && let Some(status) = status(false)
        {
            self.write_patch(
                &format!("{path}/status"),
                &json!({"metadata": {"uid": object.uid()}, "status": status}),
            )
            .await;
        }
        sleep(fate.ready_after).await;
        let good = Readiness::from_outcome(fate.outcome, true) == Readiness::Ready;
        if good && object.kind() == "PersistentVolumeClaim" && object.text("/spec/volumeName").is_empty() {
            let volume = format!("pvc-{}", object.uid());
            let patch = json!({"metadata": {"uid": object.uid()}, "spec": {"volumeName": volume}});
            self.write_patch(&path, &patch).await;
        }
        let Some(status) = status(true).filter(|status| *status != json!({"loadBalancer": {}})) else {
            return;
        };
        self.write_patch(
            &format!("{path}/status"),
            &json!({"metadata": {"uid": object.uid()}, "status": status}),
        )
        .await;
    }
}
