//! What the containers of failed hooks wrote last, in every attempt: how an operation stands tells it of the newest one alone.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_lifecycle::operation::{Fact, HookLogView};
use tidegate_model::Plan;

/// What a container of a failed hook wrote last, in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AttemptLog")]
pub struct AttemptLog {
    /// The attempt of the operation, from 1.
    pub attempt: u32,
    /// Which hook, which container, and what it wrote.
    #[serde(flatten)]
    pub log: HookLogView,
}

/// All that was kept, in order; of a hook that was read twice in an attempt, what was read last.
pub fn logs(facts: &[Fact]) -> Vec<AttemptLog> {
    let (mut all, mut attempt, mut plan): (Vec<AttemptLog>, u32, Option<&Plan>) = (Vec::new(), 1, None);
    for fact in facts {
        match fact {
            Fact::Planned { plan: made, .. } => plan = Some(made),
            Fact::RetryStarted { attempt: begun, .. } | Fact::RetryPlansAnew { attempt: begun, .. } => {
                attempt = *begun;
            }
            Fact::LogsKept { task, logs, .. } => {
                let Some(task) = plan.and_then(|plan| plan.task(*task)) else { continue };
                let of_hook = logs.iter().map(|log| HookLogView {
                    group: task.gvk.group.clone(),
                    kind: task.gvk.kind.clone(),
                    namespace: task.namespace.clone(),
                    name: task.name.clone(),
                    pod: log.pod.clone(),
                    container: log.container.clone(),
                    text: log.text.clone(),
                });
                let of_hook: Vec<_> = of_hook.map(|log| AttemptLog { attempt, log }).collect();
                if let Some(first) = of_hook.first() {
                    all.retain(|one| (one.attempt, hook(&one.log)) != (attempt, hook(&first.log)));
                }
                all.extend(of_hook);
            }
            _ => {}
        }
    }
    all
}

fn hook(log: &HookLogView) -> (&str, &str, &str, &str) {
    (&log.group, &log.kind, &log.namespace, &log.name)
}
