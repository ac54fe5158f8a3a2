//! An operation's manifests, and the data stored with them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tidegate_model::{Phase, Plan, ProjectPolicy, Warning};
use tidegate_oplog::Inventory;
use tidegate_planner::{ComparedPlan, LastRun, Target};

use super::mask::Mask;
use super::pinned_plan::PinnedPlan;
use crate::gates::GateDefinitions;

/// Manifests of an operation, stored when it starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// Manifests with their origins.
    pub targets: Vec<Target>,
    /// Warnings from reading the manifests.
    pub warnings: Vec<Warning>,
    /// Gates for every wave, in addition to those of its resources.
    #[serde(default)]
    pub gates: Vec<String>,
    /// Gate definitions by name.
    #[serde(default)]
    pub definitions: GateDefinitions,
    /// Project policy of the operation, or `None` outside a project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<ProjectPolicy>,
    /// Stored plan that the operation must execute unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Box<PinnedPlan>>,
    /// Other objects that the application is known to own. Deleting the application also deletes them if they
    /// carry its mark.
    #[serde(default, skip_serializing_if = "Inventory::is_empty")]
    pub owned: Inventory,
    /// Last runs of hooks that run only when their inputs change. Read from the log for each plan.
    #[serde(skip)]
    pub last_runs: Vec<LastRun>,
    /// Plan of the comparison that led to the operation. The operation executes it if no input has changed.
    #[serde(skip)]
    pub compared: Option<Arc<ComparedPlan>>,
}

impl Targets {
    /// Adds gates to every wave of the plan, except for failure hooks.
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
