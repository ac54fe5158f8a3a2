//! Recorded events of an operation, as shown by `ops log` and the API. The documents are a stable interface,
//! described in `docs/reference/json-output.md`, and independent of internal names.

pub(super) mod details;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_lifecycle::operation::{ClaimEvent, DeadlineScope, OperationEvent, Verdict};
use tidegate_model::{Override, Plan, Requester, StoredPlanRef, TaskId, Timestamp, WaveNumbers};

/// A recorded event, with its position in the log.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RecordedEvent")]
pub struct LogEntryDocument<'a> {
    /// Sequence number of the event, starting at 1.
    pub sequence: u64,
    /// Kind of event, in one word.
    pub kind: &'static str,
    /// Time of the event, if it was recorded.
    pub at: Option<Timestamp>,
    /// Human-readable description.
    pub text: String,
    /// Object that the event applies to, if any.
    object: Option<ObjectDocument<'a>>,
    /// Additional details. Their fields depend on the kind of event.
    pub details: Value,
}

/// Object that an event applies to.
#[derive(Debug, Serialize, JsonSchema)]
struct ObjectDocument<'a> {
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
}

/// Returns documents for recorded events. `first` is the sequence number of the first event.
pub fn documents(first: u64, events: &[OperationEvent]) -> Vec<LogEntryDocument<'_>> {
    let mut plan = None;
    let (mut numbers, mut is_deletion) = (WaveNumbers::default(), false);
    (first..)
        .zip(events)
        .map(|(sequence, event)| {
            match event {
                OperationEvent::Accepted { request, .. } => is_deletion = request.deletion.is_some(),
                OperationEvent::Planned { plan: made, .. } => {
                    numbers = made.wave_numbers(is_deletion);
                    plan = Some(&**made);
                }
                _ => {}
            }
            let task = details::event_task(event).and_then(|task| plan?.task(task));
            LogEntryDocument {
                sequence,
                kind: details::event_kind(event),
                at: event.at(),
                text: describe_event(event, plan),
                object: task.map(|task| ObjectDocument {
                    group: &task.gvk.group,
                    version: &task.gvk.version,
                    kind: &task.gvk.kind,
                    namespace: &task.namespace,
                    name: &task.name,
                }),
                details: details::event_details(event, plan, &numbers),
            }
        })
        .collect()
}

fn describe_event(event: &OperationEvent, plan: Option<&Plan>) -> String {
    let name = |task: &TaskId| object_name(*task, plan);
    match event {
        OperationEvent::Accepted { request, .. } => {
            let what = match request.deletion {
                None => "accepted: sync of",
                Some(cascade) if cascade.deletes_objects() => "accepted: deletion of",
                Some(_) => "accepted: non-cascading deletion of",
            };
            let Requester { name: by, reason } = Requester::from_operation(&request.initiated_by);
            let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{what} {} by {by}{suffix}", request.application)
        }
        OperationEvent::Planned { plan, .. } => format!(
            "planned: {} objects in {} waves, {} warnings",
            plan.tasks.len(),
            plan.waves.len(),
            plan.warnings.len()
        ),
        OperationEvent::StageChanged { to, .. } => format!("→ {}", to.name()),
        OperationEvent::GateEvaluated { gate, verdict: Verdict::Open, .. } => format!("gate {gate} is open"),
        OperationEvent::GateEvaluated { gate, verdict: Verdict::Closed { reason, .. }, .. } => {
            format!("gate {gate} is closed: {reason}")
        }
        OperationEvent::CallFailed { message, retry_at, outage: true, .. } => {
            format!("the cluster does not respond; next attempt at {retry_at}: {message}")
        }
        OperationEvent::WatchChanged { trouble: Some(trouble), .. } => {
            format!("changes are not being observed: {trouble}")
        }
        OperationEvent::WatchChanged { trouble: None, .. } => "changes are being observed again".to_owned(),
        OperationEvent::ClaimChanged { news, .. } => describe_claim(news),
        OperationEvent::HealthRulesSet { digest, .. } => format!("uses health rules {}", digest.short()),
        OperationEvent::NamespaceLost { namespace, loss, .. } => loss.describe(namespace),
        OperationEvent::NamespacesObserved { namespaces } => {
            let all = namespaces.iter().map(|(name, identity)| format!("{name} ({})", identity.uid));
            format!("deploys into namespace {}", all.collect::<Vec<_>>().join(", "))
        }
        OperationEvent::CallFailed { task, message, retry_at, .. } => {
            let what = task.as_ref().map_or_else(|| "planning".to_owned(), name);
            format!("{what}: a call failed; next attempt at {retry_at}: {message}")
        }
        OperationEvent::DeadlineExceeded { scope, message, .. } => match scope {
            DeadlineScope::Operation => format!("the operation's deadline has passed: {message}"),
            DeadlineScope::Wave => format!("the wave's deadline has passed: {message}"),
            DeadlineScope::Hook(task) => format!("{}: its deadline has passed: {message}", name(task)),
        },
        OperationEvent::AttemptFailed { message, retriable, .. } => {
            format!("the attempt failed{}: {message}", if *retriable { "" } else { " permanently" })
        }
        OperationEvent::RetryStarted { attempt, .. } => format!("attempt {attempt} started"),
        OperationEvent::ReplanStarted { attempt, .. } => format!("attempt {attempt} started with a new plan"),
        OperationEvent::TerminationRequested { by, .. } => {
            Requester::parse(by).describe_action("terminated the operation")
        }
        OperationEvent::Paused { by, reason, .. } if reason.is_empty() => {
            format!("{by} paused the operation")
        }
        OperationEvent::Paused { by, reason, .. } => format!("{by} paused the operation: {reason}"),
        OperationEvent::Unpaused { by, .. } => Requester::parse(by).describe_action("resumed the operation"),
        OperationEvent::PruneConfirmed { by, .. } => {
            Requester::parse(by).describe_action("confirmed the prunes")
        }
        OperationEvent::Approved { wave, by, reason, .. } => {
            let suffix = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{by} approved wave {}{suffix}", wave.saturating_add(1))
        }
        OperationEvent::Overridden { task, what, by, reason, .. } => {
            describe_override(&object_name_in_phase(*task, plan), *what, by, reason)
        }
        OperationEvent::StoredPlanUsed { plan, .. } => describe_stored_plan(plan),
        OperationEvent::Finished { phase, message, .. } => format!("{phase}: {message}"),
        _ => describe_task_event(event, plan),
    }
}

/// Describes a stored plan, such as `executing plan 3f2a9c41d07b, created at 2026-11-25T10:00:00Z, approved by ann`.
pub(super) fn describe_stored_plan(plan: &StoredPlanRef) -> String {
    let approvals = plan.approvals.iter().map(|approval| format!(", {}", approval.describe()));
    let (hash, made_at) = (plan.hash.short(), plan.made_at);
    format!("executing plan {hash}, created at {made_at}{}", approvals.collect::<String>())
}

/// Describes a decision about a task, such as `ann skipped Deployment shop/api: the database is unreachable`.
pub(super) fn describe_override(name: &str, what: Override, by: &str, reason: &str) -> String {
    let what = match what {
        Override::Skip => format!("{by} skipped {name}"),
        Override::MarkDone => format!("{by} marked {name} as done"),
        Override::Retry => format!("{by} retried {name}"),
    };
    if reason.is_empty() { what } else { format!("{what}: {reason}") }
}

fn describe_claim(news: &ClaimEvent) -> String {
    match news {
        ClaimEvent::Held { place, epoch } => format!("holds the claim: {place}, epoch {epoch}"),
        ClaimEvent::Taken { holder, at_work: true } => format!("waiting for {holder}, which holds the claim"),
        ClaimEvent::Taken { holder, at_work: false } => {
            format!("{holder} holds the claim; checking whether that operation is still running")
        }
        ClaimEvent::Without { reason } => format!("continuing without a claim: {reason}"),
        ClaimEvent::Lost { holder: Some(holder) } => format!("lost the claim to {holder}"),
        ClaimEvent::Lost { holder: None } => "lost the claim to an operation that has ended".to_owned(),
        ClaimEvent::EndWanted { by } => format!("is superseded by {by}"),
    }
}

/// Describes an event about a single task, like [`describe_event`].
fn describe_task_event(event: &OperationEvent, plan: Option<&Plan>) -> String {
    let name = |task: &TaskId| object_name(*task, plan);
    match event {
        OperationEvent::DryRunPassed { task, message } => {
            with_message(&name(task), "would be accepted", message)
        }
        OperationEvent::DryRunFailed { task, message } => {
            with_message(&name(task), "would be rejected", message)
        }
        OperationEvent::ObjectDeleted { task } => format!("{}: deleted", name(task)),
        OperationEvent::DeletionStarted { task } => format!("{}: deletion started", name(task)),
        OperationEvent::HookNameInUse { task, by: Some(by) } => {
            format!(
                "{}: operation {} is still running this hook, so the hook is not replaced",
                name(task),
                by.operation
            )
        }
        OperationEvent::HookNameInUse { task, by: None } => {
            format!("{}: no other operation is running this hook anymore", name(task))
        }
        OperationEvent::RecreationStarted { task, uid } => {
            format!("{}: being deleted, to be recreated afterwards ({uid})", name(task))
        }
        OperationEvent::HookCleared { task, deleting: None } => {
            format!("{}: no older object exists", name(task))
        }
        OperationEvent::HookCleared { task, deleting: Some(uid) } => {
            format!("{}: an older object ({uid}) is being deleted", name(task))
        }
        OperationEvent::HookSuspended { task, message, .. } => {
            with_message(&name(task), "created suspended, to be started next", message)
        }
        OperationEvent::DeletionCompleted { task } => format!("{}: gone", name(task)),
        OperationEvent::Applied { task, message, .. } => with_message(&name(task), "applied", message),
        OperationEvent::RunnerStarted { task, .. } => format!("{}: passed to its runner", name(task)),
        OperationEvent::HealthChanged { task, health, fresh, .. } => {
            let stale = if *fresh { "" } else { " (may reflect an older spec)" };
            with_message(&name(task), &format!("{:?}{stale}", health.status), &health.message)
        }
        OperationEvent::TaskCompleted { task, phase, message, .. }
        | OperationEvent::TaskFailed { task, phase, message, .. } => {
            with_message(&name(task), &phase.to_string(), message)
        }
        OperationEvent::HookFinalizerRemoved { task } => format!("{}: finalizer removed", name(task)),
        OperationEvent::HookDeleted { task, error: None } => format!("{}: deleted by its policy", name(task)),
        OperationEvent::HookDeleted { task, error: Some(error) } => {
            format!("{}: could not be deleted: {error}", name(task))
        }
        OperationEvent::HookStopped { task, phase, message, clean } => {
            let how = if *clean { "stopped" } else { "could not be stopped" };
            with_message(&name(task), &format!("{how}, {phase}"), message)
        }
        OperationEvent::ReasonChanged { task, reason, .. } if reason.is_empty() => {
            format!("{}: reason cleared", name(task))
        }
        OperationEvent::ReasonChanged { task, reason, .. } => format!("{}: {reason}", name(task)),
        OperationEvent::WarningsReceived { task, warnings } => {
            with_message(&name(task), "warnings from the API server", &warnings.join("; "))
        }
        OperationEvent::LogsStored { task, reason, logs } => {
            let bytes: usize = logs.iter().map(|log| log.text.len()).sum();
            with_message(&name(task), &format!("stored the last {bytes} bytes of its logs"), reason)
        }
        // All other events apply to the whole operation.
        other => details::event_kind(other).to_owned(),
    }
}

fn with_message(who: &str, what: &str, message: &str) -> String {
    if message.is_empty() { format!("{who}: {what}") } else { format!("{who}: {what}: {message}") }
}

/// Returns the name of a task's object. Includes the phase of a hook, because a hook may run in several
/// phases.
fn object_name_in_phase(id: TaskId, plan: Option<&Plan>) -> String {
    match plan.and_then(|plan| plan.task(id)).filter(|task| task.is_hook()) {
        Some(task) => format!("{} hook {}", task.phase, task.key()),
        None => object_name(id, plan),
    }
}

fn object_name(id: TaskId, plan: Option<&Plan>) -> String {
    match plan.and_then(|plan| plan.task(id)) {
        Some(task) if task.is_hook() => format!("hook {}", task.key()),
        Some(task) => task.key().to_string(),
        None => id.to_string(),
    }
}
