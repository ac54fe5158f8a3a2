//! Documents that describe plans. Their field names are a stable interface, documented in
//! `docs/reference/json-output.md`.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{DeletePolicy, Hook, Phase, Plan, ResourceSelector, Task, TaskId, Warning, WaveNumbers};

use tidegate_state::summaries::PlanSummary;

/// A plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanDocument<'a> {
    /// Waves, in order.
    waves: Vec<WaveDocument<'a>>,
    /// Warnings found during planning.
    warnings: &'a [Warning],
}

/// Wave of a plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlannedWave")]
struct WaveDocument<'a> {
    /// Phase, such as `PreSync` or `Sync`.
    phase: Phase,
    /// Wave number within the phase, as in the objects' `sync-wave` annotations.
    wave: i64,
    /// Gates of the wave; absent if there are none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    gates: &'a [String],
    /// Tasks in the wave.
    tasks: Vec<TaskDocument<'a>>,
}

/// Task in a wave of a plan.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedTask")]
struct TaskDocument<'a> {
    /// API group; empty for the core API.
    group: &'a str,
    /// API version, without the group.
    version: &'a str,
    /// Kind.
    kind: &'a str,
    /// Namespace; empty for cluster-scoped objects.
    namespace: &'a str,
    /// Name.
    name: &'a str,
    /// Action: `create`, `apply`, `replace`, `prune`, `prune-skipped` or `unchanged`.
    action: &'static str,
    /// Details of the hook, if the task is a hook.
    hook: Option<HookDocument<'a>>,
    /// Reason for the action.
    reason: &'a str,
    /// True if the object may belong to another application.
    is_ownership_uncertain: bool,
    /// Objects of the same wave that the task waits for, in the format of the annotation
    /// `tidegate.dev/depends-on`, such as `apps:Deployment:shop/database`. A prune waits for the prunes of the
    /// objects that depend on its object. Absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<String>,
    /// Source of the object's health rule. Absent if it wasn't determined, for example in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Option<&'static str>>,
}

/// Details of a hook in a plan.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedHook")]
struct HookDocument<'a> {
    /// Policies that determine when the hook is deleted.
    #[schemars(with = "Vec<String>")]
    delete_policies: &'a [DeletePolicy],
    /// Maximum duration of the hook, in seconds.
    timeout_seconds: Option<f64>,
    /// Name of the registered hook runner that runs the hook.
    runner: Option<&'a str>,
}

/// A stored plan, with its summary.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlanDetails")]
pub struct StoredPlanDocument<'a> {
    #[serde(flatten)]
    line: &'a PlanSummary,
    /// Content of the plan. Secret values are masked.
    plan: PlanDocument<'a>,
}

/// Returns the document for a stored plan.
pub fn stored_plan_document<'a>(line: &'a PlanSummary, plan: &'a Plan) -> StoredPlanDocument<'a> {
    StoredPlanDocument { line, plan: plan_document(plan, &WaveNumbers::default(), &[]) }
}

/// Returns the document for a plan.
///
/// Waves have the numbers shown to users. `judges` contains the sources of the health rules for the tasks'
/// objects, in task order.
pub fn plan_document<'a>(
    plan: &'a Plan,
    numbers: &WaveNumbers,
    judges: &[Option<&'static str>],
) -> PlanDocument<'a> {
    let mut judges = judges.iter().copied();
    let waves = plan.waves.iter().map(|wave| WaveDocument {
        phase: wave.phase,
        wave: numbers.displayed(wave.phase, wave.wave),
        gates: &wave.gates,
        tasks: wave
            .task_ids()
            .filter_map(|id| Some(task_document(plan, id, plan.task(id)?, judges.next())))
            .collect(),
    });
    PlanDocument { waves: waves.collect(), warnings: &plan.warnings }
}

fn task_document<'a>(
    plan: &Plan,
    id: TaskId,
    task: &'a Task,
    health: Option<Option<&'static str>>,
) -> TaskDocument<'a> {
    TaskDocument {
        group: &task.gvk.group,
        version: &task.gvk.version,
        kind: &task.gvk.kind,
        namespace: &task.namespace,
        name: &task.name,
        action: task.action.as_str(),
        hook: task.hook.as_ref().map(hook_document),
        reason: &task.reason,
        is_ownership_uncertain: task.options.found_elsewhere,
        waits_for: plan
            .dependencies_of(id)
            .map(|(_, other)| ResourceSelector::from(other.key()).to_string())
            .collect(),
        health,
    }
}

fn hook_document(hook: &Hook) -> HookDocument<'_> {
    HookDocument {
        delete_policies: &hook.delete_policies,
        timeout_seconds: hook.timeout.map(|timeout| timeout.as_secs_f64()),
        runner: hook.runner.as_deref(),
    }
}
