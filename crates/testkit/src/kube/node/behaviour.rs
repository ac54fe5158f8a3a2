//! What an object is told to do: by its own annotations, and by those of its owners, which are stronger.

use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::sim::{Behaviour, Outcome};
use tidegate_model::Object;
use tokio::time::sleep;

use super::{AGAIN, Node, is_final, path_of};

/// What will become of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    pub(super) ready_after: Duration,
    pub(super) outcome: Option<Outcome>,
    /// Whether it belongs to a workload that is not a Job.
    pub(super) of_workload: bool,
}

/// A pod, a ReplicaSet, a Deployment: no chain of owners is longer than this.
const OWNERS: usize = 4;

impl Node {
    /// Counts an object among those of its name.
    pub(super) fn born(&self, object: &Object) -> usize {
        let mut births = self.births.lock().unwrap();
        let uids = births.entry(object.key().to_string()).or_default();
        uids.iter().position(|uid| uid == object.uid()).unwrap_or_else(|| {
            uids.push(object.uid().to_owned());
            uids.len() - 1
        })
    }

    pub(super) async fn fate(&self, object: &Object) -> Fate {
        let mut fate = Fate { ready_after: self.pace.ready_after, outcome: None, of_workload: false };
        let mut next = Some(object.clone());
        for depth in 0..OWNERS {
            let Some(object) = next.take() else { break };
            let behaviour = Behaviour::of(&object);
            fate.ready_after = behaviour.ready_after.unwrap_or(fate.ready_after);
            // Being stuck is about the object itself.
            let own = behaviour.outcome.filter(|outcome| depth == 0 || *outcome != Outcome::StuckDeleting);
            fate.outcome = own.or(fate.outcome);
            fate.of_workload |= depth > 0 && !matches!(object.kind(), "Job" | "CronJob");
            if self.born(&object) < usize::try_from(behaviour.fail_times).unwrap_or(0) {
                fate.outcome = Some(Outcome::Fail);
            }
            next = self.owner(&object).await;
        }
        fate
    }

    /// The object that controls another.
    async fn owner(&self, object: &Object) -> Option<Object> {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
        let owner = owners.iter().find(|owner| owner["controller"] == true)?;
        let reference = Object::try_from(serde_json::json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "metadata": {"name": owner["name"], "namespace": object.namespace()},
        }));
        let path = path_of(&reference.ok()?);
        loop {
            match self.caller.get(&path).await {
                Ok(found) => {
                    return Object::try_from(found).ok().filter(|found| owner["uid"] == found.uid());
                }
                Err(error) if is_final(&error) => return None,
                Err(_) => sleep(AGAIN).await,
            }
        }
    }
}
