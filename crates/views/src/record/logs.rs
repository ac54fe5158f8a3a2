//! Final output from the containers of failed hooks, per attempt. An operation's status contains only the
//! newest attempt's output.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate_lifecycle::operation::{HookLogView, OperationEvent};
use tidegate_model::Plan;

/// Last output from a failed hook's container in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AttemptLog")]
pub struct AttemptLog {
    /// Number of the operation's attempt, starting at 1.
    pub attempt: u32,
    /// The hook, the container and its output.
    #[serde(flatten)]
    pub log: HookLogView,
}

/// Returns all stored output, in order. If a hook's output was read twice in an attempt, only the later
/// output is included.
pub fn hook_logs(events: &[OperationEvent]) -> Vec<AttemptLog> {
    let (mut all, mut attempt, mut plan): (Vec<AttemptLog>, u32, Option<&Plan>) = (Vec::new(), 1, None);
    for event in events {
        match event {
            OperationEvent::Planned { plan: made, .. } => plan = Some(made),
            OperationEvent::RetryStarted { attempt: started, .. }
            | OperationEvent::ReplanStarted { attempt: started, .. } => {
                attempt = *started;
            }
            OperationEvent::LogsStored { task, logs, .. } => {
                let Some(task) = plan.and_then(|plan| plan.task(*task)) else { continue };
                let of_hook = logs.iter().map(|log| AttemptLog { attempt, log: HookLogView::new(task, log) });
                let of_hook: Vec<AttemptLog> = of_hook.collect();
                if let Some(first) = of_hook.first() {
                    all.retain(|one| {
                        (one.attempt, hook_identity(&one.log)) != (attempt, hook_identity(&first.log))
                    });
                }
                all.extend(of_hook);
            }
            _ => {}
        }
    }
    all
}

fn hook_identity(log: &HookLogView) -> (&str, &str, &str, &str) {
    (&log.group, &log.kind, &log.namespace, &log.name)
}
