//! What a fact says, under names that stay: renaming a type inside changes nothing here.

use serde_json::{Value, json};
use tidegate_lifecycle::operation::{
    ClaimNews, DeadlineScope, Fact, Identity, Stage, Verdict, WaveName, WaveStep,
};
use tidegate_model::{Plan, SyncRequest, TakenPlan, TaskId, WaveNumbers, Wisher};

use crate::documents::plan;

/// The kind of a fact, as one word.
pub fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Accepted { .. } => "accepted",
        Fact::Planned { .. } => "planned",
        Fact::Moved { .. } => "moved",
        Fact::GateAnswered { .. } => "gate-answered",
        Fact::Checked { .. } => "checked",
        Fact::CheckFailed { .. } => "check-failed",
        Fact::CallFailed { .. } => "call-failed",
        Fact::PruneSent { .. } => "prune-sent",
        Fact::DeletionBegun { .. } => "deletion-begun",
        Fact::RecreationBegun { .. } => "recreation-begun",
        Fact::HookCleared { .. } => "hook-cleared",
        Fact::PlaceTaken { .. } => "place-taken",
        Fact::ObjectGone { .. } => "object-gone",
        Fact::Applied { .. } => "applied",
        Fact::RunnerStarted { .. } => "runner-started",
        Fact::HealthSeen { .. } => "health-seen",
        Fact::TaskCompleted { .. } => "task-completed",
        Fact::TaskFailed { .. } => "task-failed",
        Fact::HookReleased { .. } => "hook-released",
        Fact::HookDeleted { .. } => "hook-deleted",
        Fact::DeadlinePassed { .. } => "deadline-passed",
        Fact::HookStopped { .. } => "hook-stopped",
        Fact::AttemptFailed { .. } => "attempt-failed",
        Fact::RetryStarted { .. } => "retry-started",
        Fact::RetryPlansAnew { .. } => "retry-plans-anew",
        Fact::TerminateRequested { .. } => "terminate-requested",
        Fact::Paused { .. } => "paused",
        Fact::Unpaused { .. } => "unpaused",
        Fact::PruneConfirmed { .. } => "prune-confirmed",
        Fact::Approved { .. } => "approved",
        Fact::Finished { .. } => "finished",
        Fact::ReasonSeen { .. } => "reason-seen",
        Fact::LogsKept { .. } => "logs-kept",
        Fact::Watching { .. } => "watching",
        Fact::Warned { .. } => "warned",
        Fact::Claim { .. } => "claim",
        Fact::NamespaceTerminating { .. } => "namespace-terminating",
        Fact::NamespaceLost { .. } => "namespace-lost",
        Fact::NamespacesSeen { .. } => "namespaces-seen",
        Fact::HealthRulesKnown { .. } => "health-rules-known",
        Fact::Overridden { .. } => "overridden",
        Fact::PlanTaken { .. } => "plan-taken",
    }
}

/// The task a fact is about, where it is about one.
pub fn task(fact: &Fact) -> Option<TaskId> {
    match fact {
        Fact::Checked { task, .. }
        | Fact::CheckFailed { task, .. }
        | Fact::PruneSent { task, .. }
        | Fact::DeletionBegun { task }
        | Fact::RecreationBegun { task, .. }
        | Fact::HookCleared { task, .. }
        | Fact::PlaceTaken { task, .. }
        | Fact::ObjectGone { task }
        | Fact::Applied { task, .. }
        | Fact::RunnerStarted { task, .. }
        | Fact::HealthSeen { task, .. }
        | Fact::TaskCompleted { task, .. }
        | Fact::TaskFailed { task, .. }
        | Fact::HookReleased { task }
        | Fact::HookDeleted { task, .. }
        | Fact::HookStopped { task, .. }
        | Fact::ReasonSeen { task, .. }
        | Fact::LogsKept { task, .. }
        | Fact::Warned { task, .. }
        | Fact::Overridden { task, .. }
        | Fact::DeadlinePassed { scope: DeadlineScope::Hook(task), .. } => Some(*task),
        Fact::CallFailed { task, .. } => *task,
        _ => None,
    }
}

/// What it says besides; of waves by the numbers that people know those of the plan by.
pub fn details(fact: &Fact, plan: Option<&Plan>, numbers: &WaveNumbers) -> Value {
    match fact {
        Fact::Accepted { request, .. } => accepted(request),
        Fact::Planned { plan, .. } => json!(plan::of(plan, numbers, &[])),
        Fact::Moved { to, .. } => moved(to, plan, numbers),
        Fact::GateAnswered { gate, verdict, .. } => match verdict {
            Verdict::Open => {
                json!({"gate": gate, "open": true, "reason": null, "askAgainAfterSeconds": null})
            }
            Verdict::Closed { reason, ask_again_after } => json!({
                "gate": gate,
                "open": false,
                "reason": reason,
                "askAgainAfterSeconds": ask_again_after.as_secs_f64(),
            }),
        },
        Fact::CallFailed { message, retry_at, outage, .. } => {
            json!({"message": message, "retryAt": retry_at, "outage": outage})
        }
        Fact::DeadlinePassed { scope, message, .. } => {
            let of = match scope {
                DeadlineScope::Operation => "operation",
                DeadlineScope::Wave => "wave",
                DeadlineScope::Hook(_) => "hook",
            };
            json!({"of": of, "message": message})
        }
        Fact::AttemptFailed { message, retriable, .. } => json!({"message": message, "retriable": retriable}),
        Fact::RetryStarted { attempt, .. } | Fact::RetryPlansAnew { attempt, .. } => {
            json!({"attempt": attempt})
        }
        Fact::Paused { by, reason, .. } => json!({"by": by, "reason": reason}),
        Fact::Approved { wave, by, reason, .. } => {
            let planned = plan.and_then(|plan| plan.waves.get(TaskId(*wave).index()));
            let name = planned.map(|wave| WaveName::of(wave, numbers));
            let (phase, number) = name.map(|name| (name.phase, name.wave)).unzip();
            json!({"number": wave.saturating_add(1), "phase": phase, "wave": number, "by": by, "reason": reason})
        }
        Fact::Overridden { task, what, by, reason, .. } => {
            let task = plan.and_then(|plan| plan.task(*task));
            let (phase, wave) = task.map(|task| (task.phase, numbers.shown(task.phase, task.wave))).unzip();
            json!({"what": what.done(), "phase": phase, "wave": wave, "by": by, "reason": reason})
        }
        Fact::TerminateRequested { by, .. } | Fact::Unpaused { by, .. } | Fact::PruneConfirmed { by, .. } => {
            let Wisher { by, reason } = Wisher::read(by);
            json!({"by": by, "reason": reason})
        }
        Fact::PlanTaken { plan, .. } => taken(plan),
        Fact::Finished { phase, message, .. } => json!({"phase": phase, "message": message}),
        Fact::Watching { trouble, .. } => json!({"trouble": trouble}),
        Fact::HealthRulesKnown { digest, .. } => json!({"digest": digest}),
        Fact::Claim { news, .. } => claim(news),
        Fact::NamespaceTerminating { namespace, .. } => json!({"namespace": namespace}),
        Fact::NamespaceLost { namespace, loss, .. } => json!({"namespace": namespace, "loss": loss.as_str()}),
        Fact::NamespacesSeen { namespaces } => {
            let one = |(name, identity): &(String, Identity)| json!({"name": name, "uid": identity.uid});
            json!({"namespaces": namespaces.iter().map(one).collect::<Vec<_>>()})
        }
        _ => task_details(fact),
    }
}

/// The kept plan that an operation carries out.
pub fn taken(plan: &TakenPlan) -> Value {
    json!({"hash": plan.hash, "madeAt": plan.made_at, "approvals": plan.approvals})
}

fn claim(news: &ClaimNews) -> Value {
    let (what, lease, epoch, holder, reason) = match news {
        ClaimNews::Held { place, epoch } => ("held", Some(place), Some(epoch), None, None),
        ClaimNews::Taken { holder, at_work: true } => ("taken", None, None, Some(holder), None),
        ClaimNews::Taken { holder, at_work: false } => ("perhaps-taken", None, None, Some(holder), None),
        ClaimNews::Without { reason } => ("unavailable", None, None, None, Some(reason)),
        ClaimNews::Lost { holder } => ("lost", None, None, holder.as_ref(), None),
        ClaimNews::EndWanted { by } => ("superseded", None, None, Some(by), None),
    };
    let lease = lease.map(|place| format!("{}/{}", place.namespace, place.name));
    json!({"what": what, "lease": lease, "epoch": epoch, "holder": holder, "reason": reason})
}

/// As [`details`], for facts about one task.
fn task_details(fact: &Fact) -> Value {
    match fact {
        Fact::Checked { message, .. } | Fact::CheckFailed { message, .. } => json!({"message": message}),
        Fact::PruneSent { gone, .. } => json!({"gone": gone}),
        Fact::RecreationBegun { uid, .. } => json!({"deletingUid": uid}),
        Fact::HookCleared { deleting, .. } => json!({"deletingUid": deleting}),
        Fact::PlaceTaken { by, .. } => {
            json!({"byOperation": by.as_ref().map(|by| &by.operation), "uid": by.as_ref().map(|by| &by.uid)})
        }
        Fact::Applied { applied, message, done, .. } => json!({
            "uid": applied.uid,
            "resourceVersion": applied.resource_version,
            "generation": applied.generation,
            "message": message,
            "done": done,
        }),
        Fact::HealthSeen { health, fresh, .. } => {
            json!({"status": health.status, "message": health.message, "current": fresh})
        }
        Fact::TaskCompleted { phase, message, .. } | Fact::TaskFailed { phase, message, .. } => {
            json!({"phase": phase, "message": message})
        }
        Fact::HookDeleted { error, .. } => json!({"error": error}),
        Fact::HookStopped { phase, message, clean, .. } => {
            json!({"phase": phase, "message": message, "clean": clean})
        }
        Fact::ReasonSeen { reason, .. } => json!({"reason": reason}),
        Fact::Warned { warnings, .. } => json!({"warnings": warnings}),
        Fact::LogsKept { reason, logs, .. } => {
            let logs: Vec<Value> = logs
                .iter()
                .map(|log| json!({"pod": log.pod, "container": log.container, "text": log.text}))
                .collect();
            json!({"reason": reason, "logs": logs})
        }
        // The kind says it all.
        _ => json!({}),
    }
}

fn accepted(request: &SyncRequest) -> Value {
    let selection: Vec<Value> = request
        .selection
        .iter()
        .map(
            |one| json!({"group": one.group, "kind": one.kind, "namespace": one.namespace, "name": one.name}),
        )
        .collect();
    let options = &request.options;
    let Wisher { by, reason } = Wisher::of_operation(&request.initiated_by);
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

fn moved(to: &Stage, plan: Option<&Plan>, numbers: &WaveNumbers) -> Value {
    let wave = |index: u32| {
        let planned = plan.and_then(|plan| plan.waves.get(TaskId(index).index()));
        planned.map(|wave| WaveName::of(wave, numbers))
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

    /// One of each kind, and both of those that say two things.
    #[allow(clippy::too_many_lines, reason = "one entry per kind of fact")]
    fn all() -> Vec<Fact> {
        let (at, task) = (Timestamp::from_millis(1_000), TaskId(0));
        let (by, reason) = (message(), message());
        let phase = OperationPhase::Failed;
        let request = SyncRequest::new("shop", "default", Destination::Simulated);
        let applied =
            AppliedRef { uid: "u1".to_owned(), resource_version: "7".to_owned(), generation: 2, at };
        let health = Health { status: HealthStatus::Degraded, message: message() };
        let approval = PlanApproval { by: message(), reason: message(), at };
        let taken = TakenPlan { hash: Digest([1; 32]), made_at: at, approvals: vec![approval] };
        let closed = Verdict::Closed { reason: message(), ask_again_after: Duration::from_millis(1_500) };
        vec![
            Fact::Accepted {
                operation: OperationId("01a1fdbf-da23-70f8-b7a6-18e4810d225a".parse().unwrap()),
                request: Box::new(request),
                targets: Digest([0; 32]),
                at,
            },
            Fact::Planned { plan: Arc::default(), bundle: Digest([0; 32]), at },
            Fact::Moved { to: Stage::Wave { index: 0, step: WaveStep::Settling { until: at } }, at },
            Fact::Moved { to: Stage::AwaitingRetry { until: at }, at },
            Fact::GateAnswered { gate: "office-hours".to_owned(), verdict: Verdict::Open, at },
            Fact::GateAnswered { gate: "office-hours".to_owned(), verdict: closed, at },
            Fact::Checked { task, message: message() },
            Fact::CheckFailed { task, message: message() },
            Fact::CallFailed { task: None, message: message(), retry_at: at, at, outage: true },
            Fact::PruneSent { task, gone: true },
            Fact::DeletionBegun { task },
            Fact::RecreationBegun { task, uid: "u0".to_owned() },
            Fact::HealthRulesKnown { digest: Digest([7; 32]), at },
            Fact::Overridden { task, what: Override::Skip, by: message(), reason: message(), at },
            Fact::HookCleared { task, deleting: Some("u0".to_owned()) },
            Fact::PlaceTaken { task, by: None },
            Fact::ObjectGone { task },
            Fact::Applied { task, applied, message: message(), done: true },
            Fact::RunnerStarted { task, at },
            Fact::HealthSeen { task, health, fresh: true, at },
            Fact::TaskCompleted { task, phase, message: message(), at },
            Fact::TaskFailed { task, phase, message: message(), at },
            Fact::HookReleased { task },
            Fact::HookDeleted { task, error: Some(message()) },
            Fact::DeadlinePassed { scope: DeadlineScope::Hook(task), message: message(), at },
            Fact::HookStopped { task, phase, message: message(), clean: true },
            Fact::AttemptFailed { message: message(), retriable: true, at },
            Fact::RetryStarted { attempt: 2, at },
            Fact::TerminateRequested { by: by.clone(), at },
            Fact::Paused { by: by.clone(), reason: reason.clone(), at },
            Fact::Unpaused { by: by.clone(), at },
            Fact::Approved { wave: 0, by: by.clone(), reason: "words".to_owned(), at },
            Fact::PruneConfirmed { by, at },
            Fact::Finished { phase, message: message(), at },
            Fact::ReasonSeen { task, reason: reason.clone(), at },
            Fact::LogsKept {
                task,
                reason,
                logs: vec![HookLog { pod: "p".to_owned(), container: "c".to_owned(), text: message() }],
            },
            Fact::Watching { trouble: Some(message()), at },
            Fact::Warned { task, warnings: vec![message()] },
            Fact::Claim { news: ClaimNews::Without { reason: message() }, at },
            Fact::NamespaceTerminating { namespace: "shop".to_owned(), at },
            Fact::NamespaceLost { namespace: "shop".to_owned(), loss: Loss::MadeAgain, at },
            Fact::NamespacesSeen { namespaces: Vec::new() },
            Fact::RetryPlansAnew { attempt: 2, at },
            Fact::PlanTaken { plan: Box::new(taken), at },
        ]
    }

    #[test]
    fn every_kind_has_its_word_and_its_fields() {
        let numbers: BTreeSet<u16> = all().iter().map(|fact| fact.kind()).collect();
        let known: BTreeSet<u16> = (1..=Fact::HIGHEST_KIND).filter(|kind| !Fact::is_earlier(*kind)).collect();
        assert_eq!(numbers, known, "a kind is missing here");
        let words: BTreeSet<&str> = all().iter().map(kind).collect();
        assert_eq!(words.len(), numbers.len(), "two kinds have one word");
        let lines: Vec<String> = all()
            .iter()
            .map(|fact| format!("{}: {}", kind(fact), details(fact, None, &WaveNumbers::default())))
            .collect();
        insta::assert_snapshot!("details", lines.join("\n"));
    }

    /// What programs rely on is written down.
    #[test]
    fn every_word_and_field_is_documented() {
        let docs = include_str!("../../../../../docs/cli.md");
        let section = docs.split("### Log").nth(1).unwrap().split("### ").next().unwrap();
        for fact in all() {
            let word = kind(&fact);
            let row = section.lines().find(|line| line.starts_with(&format!("| `{word}` |")));
            let row = row.unwrap_or_else(|| panic!("`{word}` is not documented"));
            for field in details(&fact, None, &WaveNumbers::default()).as_object().unwrap().keys() {
                assert!(row.contains(&format!("`{field}`")), "`{field}` of `{word}` is not documented");
            }
        }
    }
}
