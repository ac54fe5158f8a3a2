//! Preview of an Application's deletion. The field names are a stable interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Action, Phase, Plan, Task, Warning};

/// Preview of an Application's deletion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// True if the deletion also removes the Application's document from the apps folder.
    #[serde(default)]
    pub removes_file: bool,
    /// Objects to delete and hooks to run, in order.
    pub steps: Vec<DeletionStep>,
    /// Objects that are kept, each with the reason.
    #[serde(rename = "remaining")]
    pub stays: Vec<DeletionStep>,
    /// Warnings and errors. An error prevents the deletion.
    pub warnings: Vec<Warning>,
}

/// An object to delete, a hook to run, or an object to keep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeletionObject")]
pub struct DeletionStep {
    /// `PreDelete`, `Sync` (the phase in which objects are deleted) or `PostDelete`.
    pub phase: Phase,
    /// Wave within the phase, as in the object's `sync-wave` annotation. Waves are deleted starting with the
    /// highest.
    pub wave: i64,
    /// API group; empty for the core API.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// True for a hook. Hooks are run, not deleted.
    #[serde(rename = "isHook")]
    pub hook: bool,
    /// True if the deletion requires confirmation.
    #[serde(default)]
    pub needs_confirmation: bool,
    /// Reason why the object is deleted or kept.
    pub reason: String,
}

impl DeletionPlan {
    /// Converts the plan of a deletion.
    pub fn from_plan(plan: &Plan) -> Self {
        let numbers = plan.wave_numbers(true);
        let steps = plan.waves.iter().flat_map(|wave| {
            let number = numbers.displayed(wave.phase, wave.wave);
            plan.tasks_of(wave).iter().map(move |task| (wave.phase, number, task))
        });
        let (stays, steps): (Vec<_>, Vec<_>) =
            steps.partition(|(_, _, task)| task.action == Action::PruneSkipped);
        let all = |steps: Vec<(Phase, i64, &Task)>| {
            steps.into_iter().map(|(phase, wave, task)| DeletionStep::from_task(phase, wave, task)).collect()
        };
        Self { removes_file: false, steps: all(steps), stays: all(stays), warnings: plan.warnings.clone() }
    }
}

impl DeletionStep {
    fn from_task(phase: Phase, wave: i64, task: &Task) -> Self {
        let Task { gvk, namespace, name, reason, .. } = task;
        Self {
            phase,
            wave,
            group: gvk.group.clone(),
            kind: gvk.kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            hook: task.is_hook(),
            needs_confirmation: task.options.confirm_prune,
            reason: reason.clone(),
        }
    }

    /// Returns the kind and name, such as `ConfigMap shop/settings`.
    pub fn object(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}
