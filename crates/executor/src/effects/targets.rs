//! An operation's manifests, and the data that is stored with them.

use serde::{Deserialize, Serialize};
use tidegate_model::{Phase, Plan, ProjectPolicy, Warning};
use tidegate_oplog::Inventory;
use tidegate_planner::{LastRun, Target};

use super::mask::Mask;
use super::pinned_plan::PinnedPlan;
use crate::gates::GateDefinitions;

/// An operation's manifests, which are stored when the operation starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// Manifests with their origins.
    pub targets: Vec<Target>,
    /// Warnings that occurred while the manifests were read.
    pub warnings: Vec<Warning>,
    /// Gates for every wave, in addition to the gates of the wave's resources.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Gate definitions by name.
    #[serde(default)]
    pub definitions: GateDefinitions,
    /// Project policy of the operation. `None` if it isn't part of a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<ProjectPolicy>,
    /// Stored plan that the operation must execute unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Box<PinnedPlan>>,
    /// Objects that the application is known to own in addition to those in its manifests. When the
    /// application is deleted, these objects are also deleted if they carry its mark.
    #[serde(default, skip_serializing_if = "Inventory::is_empty")]
    pub owned: Inventory,
    /// Last runs of the hooks that run only when their inputs change. Read from the log for each plan.
    #[serde(skip)]
    pub last_runs: Vec<LastRun>,
}

impl Targets {
    /// Adds the gates that apply to every wave to the plan. Failure hooks don't get any.
    pub fn add_gates(gates: &[String], plan: &mut Plan) {
        for wave in plan.waves.iter_mut().filter(|wave| wave.phase != Phase::SyncFail) {
            wave.gates.extend_from_slice(gates);
            wave.gates.sort_unstable();
            wave.gates.dedup();
        }
    }

    /// Returns a mask for the Secret values in the manifests.
    pub fn mask(&self) -> Mask {
        Mask::from_objects(self.targets.iter().map(|target| &target.object))
    }
}
