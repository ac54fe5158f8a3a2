//! Details of recorded events. Their names stay the same when an internal type is renamed.

use serde_json::{Value, json};
use tidegate_lifecycle::operation::{
    ClaimEvent, DeadlineScope, ObjectIdentity, OperationEvent, Stage, Verdict, WaveName, WaveStep,
};
use tidegate_model::{Plan, Requester, StoredPlanRef, SyncRequest, TaskId, WaveNumbers};

use crate::plan;

/// Returns the event's kind, in one word.
pub fn event_kind(event: &OperationEvent) -> &'static str {
    match event {
        OperationEvent::Accepted { .. } => "accepted",
        OperationEvent::Planned { .. } => "planned",
        OperationEvent::StageChanged { .. } => "stage-changed",
        OperationEvent::GateEvaluated { .. } => "gate-evaluated",
        OperationEvent::DryRunPassed { .. } => "dry-run-passed",
        OperationEvent::DryRunFailed { .. } => "dry-run-failed",
        OperationEvent::CallFailed { .. } => "call-failed",
        OperationEvent::ObjectDeleted { .. } => "object-deleted",
        OperationEvent::DeletionStarted { .. } => "deletion-started",
        OperationEvent::RecreationStarted { .. } => "recreation-started",
        OperationEvent::HookCleared { .. } => "hook-cleared",
        OperationEvent::HookNameInUse { .. } => "hook-name-in-use",
        OperationEvent::HookSuspended { .. } => "hook-suspended",
        OperationEvent::DeletionCompleted { .. } => "deletion-completed",
        OperationEvent::Applied { .. } => "applied",
        OperationEvent::RunnerStarted { .. } => "runner-started",
        OperationEvent::HealthChanged { .. } => "health-changed",
        OperationEvent::TaskCompleted { .. } => "task-completed",
        OperationEvent::TaskFailed { .. } => "task-failed",
        OperationEvent::HookFinalizerRemoved { .. } => "hook-finalizer-removed",
        OperationEvent::HookDeleted { .. } => "hook-deleted",
        OperationEvent::DeadlineExceeded { .. } => "deadline-exceeded",
        OperationEvent::HookStopped { .. } => "hook-stopped",
        OperationEvent::AttemptFailed { .. } => "attempt-failed",
        OperationEvent::RetryStarted { .. } => "retry-started",
        OperationEvent::ReplanStarted { .. } => "replan-started",
        OperationEvent::TerminationRequested { .. } => "termination-requested",
        OperationEvent::Paused { .. } => "paused",
        OperationEvent::Unpaused { .. } => "unpaused",
        OperationEvent::PruneConfirmed { .. } => "prune-confirmed",
        OperationEvent::Approved { .. } => "approved",
        OperationEvent::Finished { .. } => "finished",
        OperationEvent::ReasonChanged { .. } => "reason-changed",
        OperationEvent::LogsStored { .. } => "logs-stored",
        OperationEvent::WatchChanged { .. } => "watch-changed",
        OperationEvent::WarningsReceived { .. } => "warnings-received",
        OperationEvent::ClaimChanged { .. } => "claim-changed",
        OperationEvent::NamespaceLost { .. } => "namespace-lost",
        OperationEvent::NamespacesObserved { .. } => "namespaces-observed",
        OperationEvent::HealthRulesSet { .. } => "health-rules-set",
        OperationEvent::Overridden { .. } => "overridden",
        OperationEvent::StoredPlanUsed { .. } => "stored-plan-used",
    }
}

/// Returns the task that an event applies to, if any.
pub fn event_task(event: &OperationEvent) -> Option<TaskId> {
    match event {
        OperationEvent::DryRunPassed { task, .. }
        | OperationEvent::DryRunFailed { task, .. }
        | OperationEvent::ObjectDeleted { task }
        | OperationEvent::DeletionStarted { task }
        | OperationEvent::RecreationStarted { task, .. }
        | OperationEvent::HookCleared { task, .. }
        | OperationEvent::HookNameInUse { task, .. }
        | OperationEvent::HookSuspended { task, .. }
        | OperationEvent::DeletionCompleted { task }
        | OperationEvent::Applied { task, .. }
        | OperationEvent::RunnerStarted { task, .. }
        | OperationEvent::HealthChanged { task, .. }
        | OperationEvent::TaskCompleted { task, .. }
        | OperationEvent::TaskFailed { task, .. }
        | OperationEvent::HookFinalizerRemoved { task }
        | OperationEvent::HookDeleted { task, .. }
        | OperationEvent::HookStopped { task, .. }
        | OperationEvent::ReasonChanged { task, .. }
        | OperationEvent::LogsStored { task, .. }
        | OperationEvent::WarningsReceived { task, .. }
        | OperationEvent::Overridden { task, .. }
        | OperationEvent::DeadlineExceeded { scope: DeadlineScope::Hook(task), .. } => Some(*task),
        OperationEvent::CallFailed { task, .. } => *task,
        _ => None,
    }
}

/// Returns the event's additional details, with wave numbers as shown to users.
pub fn event_details(event: &OperationEvent, plan: Option<&Plan>, numbers: &WaveNumbers) -> Value {
    match event {
        OperationEvent::Accepted { request, .. } => request_details(request),
        OperationEvent::Planned { plan, .. } => json!(plan::plan_document(plan, numbers, &[])),
        OperationEvent::StageChanged { to, .. } => stage_details(to, plan, numbers),
        OperationEvent::GateEvaluated { gate, verdict, .. } => match verdict {
            Verdict::Open => {
                json!({"gate": gate, "open": true, "reason": null, "recheckAfterSeconds": null})
            }
            Verdict::Closed { reason, ask_again_after } => json!({
                "gate": gate,
                "open": false,
                "reason": reason,
                "recheckAfterSeconds": ask_again_after.as_secs_f64(),
            }),
        },
        OperationEvent::CallFailed { message, retry_at, outage, .. } => {
            json!({"message": message, "retryAt": retry_at, "outage": outage})
        }
        OperationEvent::DeadlineExceeded { scope, message, .. } => {
            let of = match scope {
                DeadlineScope::Operation => "operation",
                DeadlineScope::Wave => "wave",
                DeadlineScope::Hook(_) => "hook",
            };
            json!({"scope": of, "message": message})
        }
        OperationEvent::AttemptFailed { message, retriable, .. } => {
            json!({"message": message, "retriable": retriable})
        }
        OperationEvent::RetryStarted { attempt, .. } | OperationEvent::ReplanStarted { attempt, .. } => {
            json!({"attempt": attempt})
        }
        OperationEvent::Paused { by, reason, .. } => json!({"by": by, "reason": reason}),
        OperationEvent::Approved { wave, by, reason, .. } => {
            let planned = plan.and_then(|plan| plan.waves.get(TaskId(*wave).index()));
            let name = planned.map(|wave| WaveName::from_planned(wave, numbers));
            let (phase, number) = name.map(|name| (name.phase, name.wave)).unzip();
            json!({"number": wave.saturating_add(1), "phase": phase, "wave": number, "by": by, "reason": reason})
        }
        OperationEvent::Overridden { task, what, by, reason, .. } => {
            let task = plan.and_then(|plan| plan.task(*task));
            let (phase, wave) =
                task.map(|task| (task.phase, numbers.displayed(task.phase, task.wave))).unzip();
            json!({"action": what.past_participle(), "phase": phase, "wave": wave, "by": by, "reason": reason})
        }
        OperationEvent::TerminationRequested { by, .. }
        | OperationEvent::Unpaused { by, .. }
        | OperationEvent::PruneConfirmed { by, .. } => {
            let Requester { name: by, reason } = Requester::parse(by);
            json!({"by": by, "reason": reason})
        }
        OperationEvent::StoredPlanUsed { plan, .. } => stored_plan_details(plan),
        OperationEvent::Finished { phase, message, .. } => json!({"phase": phase, "message": message}),
        OperationEvent::WatchChanged { trouble, .. } => json!({"error": trouble}),
        OperationEvent::HealthRulesSet { digest, .. } => json!({"digest": digest}),
        OperationEvent::ClaimChanged { news, .. } => claim_details(news),
        OperationEvent::NamespaceLost { namespace, loss, .. } => {
            json!({"namespace": namespace, "loss": loss.as_str()})
        }
        OperationEvent::NamespacesObserved { namespaces } => {
            let one =
                |(name, identity): &(String, ObjectIdentity)| json!({"name": name, "uid": identity.uid});
            json!({"namespaces": namespaces.iter().map(one).collect::<Vec<_>>()})
        }
        _ => task_event_details(event),
    }
}

/// Returns the details of the stored plan that an operation executes.
pub fn stored_plan_details(plan: &StoredPlanRef) -> Value {
    json!({"hash": plan.hash, "createdAt": plan.made_at, "approvals": plan.approvals})
}

fn claim_details(news: &ClaimEvent) -> Value {
    let (change, lease, epoch, holder, reason) = match news {
        ClaimEvent::Held { place, epoch } => ("acquired", Some(place), Some(epoch), None, None),
        ClaimEvent::Taken { holder, at_work: true } => ("held-by-other", None, None, Some(holder), None),
        ClaimEvent::Taken { holder, at_work: false } => {
            ("possibly-held-by-other", None, None, Some(holder), None)
        }
        ClaimEvent::Without { reason } => ("unavailable", None, None, None, Some(reason)),
        ClaimEvent::Lost { holder } => ("lost", None, None, holder.as_ref(), None),
        ClaimEvent::EndWanted { by } => ("superseded", None, None, Some(by), None),
    };
    let lease = lease.map(|place| format!("{}/{}", place.namespace, place.name));
    json!({"change": change, "lease": lease, "epoch": epoch, "holder": holder, "reason": reason})
}

/// Returns the details of an event about a single task, like [`event_details`].
fn task_event_details(event: &OperationEvent) -> Value {
    match event {
        OperationEvent::DryRunPassed { message, .. } | OperationEvent::DryRunFailed { message, .. } => {
            json!({"message": message})
        }
        OperationEvent::RecreationStarted { uid, .. } => json!({"deletingUid": uid}),
        OperationEvent::HookCleared { deleting, .. } => json!({"deletingUid": deleting}),
        OperationEvent::HookSuspended { uid, message, .. } => json!({"uid": uid, "message": message}),
        OperationEvent::HookNameInUse { by, .. } => {
            json!({"operation": by.as_ref().map(|by| &by.operation), "uid": by.as_ref().map(|by| &by.uid)})
        }
        OperationEvent::Applied { applied, message, done, .. } => json!({
            "uid": applied.uid,
            "resourceVersion": applied.resource_version,
            "generation": applied.generation,
            "message": message,
            "done": done,
        }),
        OperationEvent::HealthChanged { health, fresh, .. } => {
            json!({"status": health.status, "message": health.message, "current": fresh})
        }
        OperationEvent::TaskCompleted { phase, message, .. }
        | OperationEvent::TaskFailed { phase, message, .. } => {
            json!({"phase": phase, "message": message})
        }
        OperationEvent::HookDeleted { error, .. } => json!({"error": error}),
        OperationEvent::HookStopped { phase, message, clean, .. } => {
            json!({"phase": phase, "message": message, "clean": clean})
        }
        OperationEvent::ReasonChanged { reason, .. } => json!({"reason": reason}),
        OperationEvent::WarningsReceived { warnings, .. } => json!({"warnings": warnings}),
        OperationEvent::LogsStored { reason, logs, .. } => {
            let logs: Vec<Value> = logs
                .iter()
                .map(|log| json!({"pod": log.pod, "container": log.container, "text": log.text}))
                .collect();
            json!({"reason": reason, "logs": logs})
        }
        // The event has no details beyond its kind.
        _ => json!({}),
    }
}

fn request_details(request: &SyncRequest) -> Value {
    let selection: Vec<Value> = request
        .selection
        .iter()
        .map(
            |one| json!({"group": one.group, "kind": one.kind, "namespace": one.namespace, "name": one.name}),
        )
        .collect();
    let options = &request.options;
    let Requester { name: by, reason } = Requester::from_operation(&request.initiated_by);
    json!({
        "app": request.application,
        "namespace": request.namespace,
        "destination": request.destination.to_string(),
        "revision": request.revision,
        "initiatedBy": by,
        "reason": reason,
        "sources": request.sources,
        "selection": selection,
        "prune": options.prune,
        "adopt": options.adopt,
        "dryRun": options.dry_run,
        "force": options.force,
        "skipHooks": options.skip_hooks,
        "syncOptions": options.flags,
        "retries": request.retry.limit,
        "deadlineSeconds": request.deadline.map(|deadline| deadline.as_secs_f64()),
        "deletion": request.deletion,
        "tracking": {
            "method": request.tracking.method.as_str(),
            "label": request.tracking.label,
            "installationId": request.tracking.installation,
        },
    })
}

fn stage_details(to: &Stage, plan: Option<&Plan>, numbers: &WaveNumbers) -> Value {
    let wave = |index: u32| {
        let planned = plan.and_then(|plan| plan.waves.get(TaskId(index).index()));
        planned.map(|wave| WaveName::from_planned(wave, numbers))
    };
    let (state, wave, until) = match to {
        Stage::Wave { index, step } => {
            let until = match step {
                WaveStep::Settling { until } => Some(*until),
                _ => None,
            };
            (step.name().to_owned(), wave(*index), until)
        }
        Stage::AwaitingRetry { until } => (to.name(), None, Some(*until)),
        stage => (stage.name(), None, None),
    };
    json!({
        "state": state,
        "phase": wave.map(|wave| wave.phase),
        "wave": wave.map(|wave| wave.wave),
        "until": until,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use tidegate_lifecycle::operation::{AppliedRef, HookLog, Loss};
    use tidegate_model::{
        Destination, Digest, Health, HealthStatus, LogRecord as _, OperationId, OperationPhase, Override,
        PlanApproval, Timestamp,
    };

    use super::*;

    fn message() -> String {
        "words".to_owned()
    }

    /// Returns an event of each kind, or two if the kind has two forms.
    #[allow(clippy::too_many_lines, reason = "one entry per kind of event")]
    fn all_events() -> Vec<OperationEvent> {
        let (at, task) = (Timestamp::from_millis(1_000), TaskId(0));
        let (by, reason) = (message(), message());
        let phase = OperationPhase::Failed;
        let request = SyncRequest::new("shop", "default", Destination::Simulated);
        let applied =
            AppliedRef { uid: "u1".to_owned(), resource_version: "7".to_owned(), generation: 2, at };
        let health = Health { status: HealthStatus::Degraded, message: message() };
        let approval = PlanApproval { by: message(), reason: message(), at };
        let taken = StoredPlanRef { hash: Digest([1; 32]), made_at: at, approvals: vec![approval] };
        let closed = Verdict::Closed { reason: message(), ask_again_after: Duration::from_millis(1_500) };
        vec![
            OperationEvent::Accepted {
                operation: OperationId("01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap()),
                request: Box::new(request),
                targets: Digest([0; 32]),
                at,
            },
            OperationEvent::Planned { plan: Arc::default(), bundle: Digest([0; 32]), at },
            OperationEvent::StageChanged {
                to: Stage::Wave { index: 0, step: WaveStep::Settling { until: at } },
                at,
            },
            OperationEvent::StageChanged { to: Stage::AwaitingRetry { until: at }, at },
            OperationEvent::GateEvaluated { gate: "office-hours".to_owned(), verdict: Verdict::Open, at },
            OperationEvent::GateEvaluated { gate: "office-hours".to_owned(), verdict: closed, at },
            OperationEvent::DryRunPassed { task, message: message() },
            OperationEvent::DryRunFailed { task, message: message() },
            OperationEvent::CallFailed { task: None, message: message(), retry_at: at, at, outage: true },
            OperationEvent::ObjectDeleted { task },
            OperationEvent::DeletionStarted { task },
            OperationEvent::RecreationStarted { task, uid: "u0".to_owned() },
            OperationEvent::HealthRulesSet { digest: Digest([7; 32]), at },
            OperationEvent::Overridden { task, what: Override::Skip, by: message(), reason: message(), at },
            OperationEvent::HookCleared { task, deleting: Some("u0".to_owned()) },
            OperationEvent::HookNameInUse { task, by: None },
            OperationEvent::HookSuspended { task, uid: "u0".to_owned(), message: message() },
            OperationEvent::DeletionCompleted { task },
            OperationEvent::Applied { task, applied, message: message(), done: true },
            OperationEvent::RunnerStarted { task, at },
            OperationEvent::HealthChanged { task, health, fresh: true, at },
            OperationEvent::TaskCompleted { task, phase, message: message(), at },
            OperationEvent::TaskFailed { task, phase, message: message(), at },
            OperationEvent::HookFinalizerRemoved { task },
            OperationEvent::HookDeleted { task, error: Some(message()) },
            OperationEvent::DeadlineExceeded { scope: DeadlineScope::Hook(task), message: message(), at },
            OperationEvent::HookStopped { task, phase, message: message(), clean: true },
            OperationEvent::AttemptFailed { message: message(), retriable: true, at },
            OperationEvent::RetryStarted { attempt: 2, at },
            OperationEvent::TerminationRequested { by: by.clone(), at },
            OperationEvent::Paused { by: by.clone(), reason: reason.clone(), at },
            OperationEvent::Unpaused { by: by.clone(), at },
            OperationEvent::Approved { wave: 0, by: by.clone(), reason: "words".to_owned(), at },
            OperationEvent::PruneConfirmed { by, at },
            OperationEvent::Finished { phase, message: message(), at },
            OperationEvent::ReasonChanged { task, reason: reason.clone(), at },
            OperationEvent::LogsStored {
                task,
                reason,
                logs: vec![HookLog { pod: "p".to_owned(), container: "c".to_owned(), text: message() }],
            },
            OperationEvent::WatchChanged { trouble: Some(message()), at },
            OperationEvent::WarningsReceived { task, warnings: vec![message()] },
            OperationEvent::ClaimChanged { news: ClaimEvent::Without { reason: message() }, at },
            OperationEvent::NamespaceLost { namespace: "shop".to_owned(), loss: Loss::MadeAgain, at },
            OperationEvent::NamespacesObserved { namespaces: Vec::new() },
            OperationEvent::ReplanStarted { attempt: 2, at },
            OperationEvent::StoredPlanUsed { plan: Box::new(taken), at },
        ]
    }

    #[test]
    fn every_kind_has_a_stable_name_and_fields() {
        let numbers: BTreeSet<u16> = all_events().iter().map(|event| event.kind()).collect();
        let known: BTreeSet<u16> =
            (1..=OperationEvent::HIGHEST_KIND).filter(|kind| !OperationEvent::is_earlier(*kind)).collect();
        assert_eq!(numbers, known, "a kind of event is missing here");
        let text: BTreeSet<&str> = all_events().iter().map(event_kind).collect();
        assert_eq!(text.len(), numbers.len(), "two kinds have the same name");
        let lines: Vec<String> = all_events()
            .iter()
            .map(|event| {
                format!("{}: {}", event_kind(event), event_details(event, None, &WaveNumbers::default()))
            })
            .collect();
        insta::assert_snapshot!("details", lines.join("\n"));
    }

    /// Programs rely on these names, so the documentation must cover all of them.
    #[test]
    fn every_kind_and_field_is_documented() {
        let docs = include_str!("../../../../docs/reference/json-output.md");
        let section = docs.split("\n## Log").nth(1).unwrap().split("\n## ").next().unwrap();
        for event in all_events() {
            let word = event_kind(&event);
            let row = section.lines().find(|line| line.starts_with(&format!("| `{word}` |")));
            let row = row.unwrap_or_else(|| panic!("`{word}` is not documented"));
            for field in event_details(&event, None, &WaveNumbers::default()).as_object().unwrap().keys() {
                assert!(row.contains(&format!("`{field}`")), "`{field}` of `{word}` is not documented");
            }
        }
    }
}
