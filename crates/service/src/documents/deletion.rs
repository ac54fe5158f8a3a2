//! What the deletion of an application would do. The field names are a stable interface.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Action, Phase, Plan, Task, Warning};

/// What the deletion of an application would do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionPlan {
    /// The document that it is written down in is removed from the folder that is served.
    #[serde(default)]
    pub removes_file: bool,
    /// What goes, and the hooks that run, in their order.
    pub steps: Vec<DeletionStep>,
    /// What stays, and why.
    pub stays: Vec<DeletionStep>,
    /// What was found beside; a finding that is an error keeps it from running.
    pub warnings: Vec<Warning>,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionStep {
    /// `PreDelete`, `Sync` (when objects go) or `PostDelete`.
    pub phase: Phase,
    /// Its wave there, as its `sync-wave` annotation has it: the objects of the highest go first.
    pub wave: i64,
    /// API group, empty for the core API.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for objects of the cluster scope.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// It is a hook, which runs.
    pub hook: bool,
    /// It goes when somebody has confirmed that.
    #[serde(default)]
    pub needs_confirmation: bool,
    /// Why it goes or stays.
    pub reason: String,
}

impl DeletionPlan {
    /// What a plan does.
    pub fn of(plan: &Plan) -> Self {
        let numbers = plan.wave_numbers(true);
        let steps = plan.waves.iter().flat_map(|wave| {
            let number = numbers.shown(wave.phase, wave.wave);
            plan.tasks_of(wave).iter().map(move |task| (wave.phase, number, task))
        });
        let (stays, steps): (Vec<_>, Vec<_>) =
            steps.partition(|(_, _, task)| task.action == Action::PruneSkipped);
        let all = |steps: Vec<(Phase, i64, &Task)>| steps.into_iter().map(DeletionStep::of).collect();
        Self { removes_file: false, steps: all(steps), stays: all(stays), warnings: plan.warnings.clone() }
    }
}

impl DeletionStep {
    fn of((phase, wave, task): (Phase, i64, &Task)) -> Self {
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

    /// `ConfigMap shop/settings`
    pub fn object(&self) -> String {
        let slash = if self.namespace.is_empty() { "" } else { "/" };
        format!("{} {}{slash}{}", self.kind, self.namespace, self.name)
    }
}
