//! A plan for programs. The field names are a stable interface, documented in `docs/cli.md`.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_model::{DeletePolicy, Hook, Phase, Plan, Task, Warning, WaveNumbers};

use crate::lines::PlanLine;

/// A plan.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plan")]
pub struct PlanDocument<'a> {
    /// In their order.
    waves: Vec<WaveDocument<'a>>,
    /// What was found beside.
    warnings: &'a [Warning],
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PlannedWave")]
struct WaveDocument<'a> {
    /// `PreSync`, `Sync` …
    phase: Phase,
    /// Its number in the phase, as the `sync-wave` annotations of its objects have it.
    wave: i64,
    /// What opens it; left out where nothing keeps it closed.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    gates: &'a [String],
    /// What is done in it.
    tasks: Vec<TaskDocument<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedTask")]
struct TaskDocument<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    /// `create`, `apply`, `replace`, `prune`, `prune-skipped` or `unchanged`.
    action: &'static str,
    /// Present when it is a hook.
    hook: Option<HookDocument<'a>>,
    /// Why that is done.
    reason: &'a str,
    /// It may be another's.
    found_elsewhere: bool,
    /// Who judges its health. Left out where nobody has asked, as in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Option<&'static str>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PlannedHook")]
struct HookDocument<'a> {
    /// When it is deleted.
    #[schemars(with = "Vec<String>")]
    delete_policies: &'a [DeletePolicy],
    timeout_seconds: Option<f64>,
    runner: Option<&'a str>,
}

/// A kept plan, with how it stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "KeptPlan")]
pub struct KeptPlanDocument<'a> {
    #[serde(flatten)]
    line: &'a PlanLine,
    /// What it does; values of Secrets are masked.
    plan: PlanDocument<'a>,
}

/// The document of a kept plan.
pub fn kept<'a>(line: &'a PlanLine, plan: &'a Plan) -> KeptPlanDocument<'a> {
    KeptPlanDocument { line, plan: of(plan, &WaveNumbers::default(), &[]) }
}

/// The document of a plan.
///
/// Its waves go by the numbers that people know them by; `judges` are those of the tasks' objects, in the order of the tasks.
pub fn of<'a>(plan: &'a Plan, numbers: &WaveNumbers, judges: &[Option<&'static str>]) -> PlanDocument<'a> {
    let mut judges = judges.iter().copied();
    let waves = plan.waves.iter().map(|wave| WaveDocument {
        phase: wave.phase,
        wave: numbers.shown(wave.phase, wave.wave),
        gates: &wave.gates,
        tasks: plan.tasks_of(wave).iter().map(|one| task(one, judges.next())).collect(),
    });
    PlanDocument { waves: waves.collect(), warnings: &plan.warnings }
}

fn task<'a>(task: &'a Task, health: Option<Option<&'static str>>) -> TaskDocument<'a> {
    TaskDocument {
        group: &task.gvk.group,
        version: &task.gvk.version,
        kind: &task.gvk.kind,
        namespace: &task.namespace,
        name: &task.name,
        action: task.action.as_str(),
        hook: task.hook.as_ref().map(hook),
        reason: &task.reason,
        found_elsewhere: task.options.found_elsewhere,
        health,
    }
}

fn hook(hook: &Hook) -> HookDocument<'_> {
    HookDocument {
        delete_policies: &hook.delete_policies,
        timeout_seconds: hook.timeout.map(|timeout| timeout.as_secs_f64()),
        runner: hook.runner.as_deref(),
    }
}
