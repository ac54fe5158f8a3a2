//! Behavior of an object according to its annotations and those of its owners, which take precedence.

use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::sim::{Behavior, Outcome};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{Node, RETRY_DELAY, is_final, object_path};

/// Simulated outcome of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectOutcome {
    pub(super) ready_after: Duration,
    pub(super) outcome: Option<Outcome>,
    /// True if the object belongs to a workload other than a Job.
    pub(super) is_of_workload: bool,
}

/// Maximum length of a chain of owners: a pod, a ReplicaSet, a Deployment.
const OWNER_DEPTH_MAX: usize = 4;

impl Node {
    /// Counts the earlier objects with the same name.
    pub(super) fn count_creation(&self, object: &Object) -> usize {
        let mut births = self.creations.lock().unwrap();
        let uids = births.entry(object.key().to_string()).or_default();
        uids.iter().position(|uid| uid == object.uid()).unwrap_or_else(|| {
            uids.push(object.uid().to_owned());
            uids.len() - 1
        })
    }

    pub(super) async fn object_outcome(&self, object: &Object) -> ObjectOutcome {
        let mut fate =
            ObjectOutcome { ready_after: self.timings.ready_after, outcome: None, is_of_workload: false };
        let mut next = Some(object.clone());
        for depth in 0..OWNER_DEPTH_MAX {
            let Some(object) = next.take() else { break };
            let behavior = Behavior::from_object(&object);
            fate.ready_after = behavior.ready_after.unwrap_or(fate.ready_after);
            // A stuck deletion affects only the object itself.
            let own = behavior.outcome.filter(|outcome| depth == 0 || *outcome != Outcome::StuckDeleting);
            fate.outcome = own.or(fate.outcome);
            fate.is_of_workload |= depth > 0 && !matches!(object.kind(), "Job" | "CronJob");
            if self.count_creation(&object) < usize::try_from(behavior.fail_times).unwrap_or(0) {
                fate.outcome = Some(Outcome::Fail);
            }
            next = self.find_owner(&object).await;
        }
        fate
    }

    /// Returns the controlling owner of an object.
    async fn find_owner(&self, object: &Object) -> Option<Object> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let reference = Object::try_from(serde_json::json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "metadata": {"name": owner["name"], "namespace": object.namespace()},
        }));
        let path = object_path(&reference.ok()?);
        loop {
            match self.client.get(&path).await {
                Ok(found) => {
                    return Object::try_from(found).ok().filter(|found| owner["uid"] == found.uid());
                }
                Err(error) if is_final(&error) => return None,
                Err(_) => sleep(RETRY_DELAY).await,
            }
        }
    }
}
