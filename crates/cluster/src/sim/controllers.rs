//! Controllers of the simulation. Each step reads one object and its dependents, moves them toward the
//! object's spec, writes the status, and returns the time of the next step. Controllers are stateless: the
//! same state always produces the same step.

mod children;
pub(crate) mod controller;
pub(crate) mod crd;
mod cronjob;
mod daemonset;
mod deployment;
mod garbage_collector;
mod job;
mod namespace;
mod pod;
mod replicaset;
mod rolling_update;
mod standalone;
mod statefulset;

use tidegate_model::{ObjectKey, Timestamp};

use self::controller::Controller;
use super::SimState;

pub use pod::{PodStage, pod_status};
pub use standalone::{Readiness, standalone_status};

impl SimState {
    /// Runs all controller steps due by `now`. Returns the new current time.
    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        let now = now.max(self.now);
        while let Some((at, key)) = self.timers.pop(now) {
            self.now = self.now.max(at);
            if let Some(again) = step(self, &key) {
                self.timers.schedule(&key, again.max(self.now));
            }
        }
        self.now = now;
        now
    }
}

/// Runs one step for one object. Returns the time of the next step if nothing changes before then.
fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    if let Some(until) = garbage_collector::collect_object(state, key) {
        return Some(until);
    }
    state.find(key)?;
    match Controller::for_kind(key)? {
        Controller::Pod => pod::step(state, key),
        Controller::Namespace => namespace::step(state, key),
        Controller::Deployment => deployment::step(state, key),
        Controller::ReplicaSet => replicaset::step(state, key),
        Controller::StatefulSet => statefulset::step(state, key),
        Controller::DaemonSet => daemonset::step(state, key),
        Controller::Job => job::step(state, key),
        Controller::CronJob => cronjob::step(state, key),
        Controller::CustomResourceDefinition => crd::step(state, key),
        Controller::Standalone => standalone::step(state, key),
    }
}
