//! Documents for the events of an operation. Their format is a stable interface, described in
//! `docs/reference/json-output.md`, and uses the same names as `ops log`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_lifecycle::operation::{
    ClaimEvent, Deadline, Event, EventKind, Stage, Verdict, WaveName, WaveStep,
};
use tidegate_model::{ObjectKey, OperationId, OperationOutcome, Requester, Timestamp};

use super::log_entries;

/// An event, with its sequence number.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventDocument {
    /// The operation.
    pub operation: OperationId,
    /// The operation's application.
    pub app: String,
    /// Sequence number of the event. It increases within an operation, but there may be gaps.
    pub sequence: u64,
    /// Kind of event, in one word.
    pub kind: &'static str,
    /// Time of the event; absent for some events that closely follow another event.
    pub at: Option<Timestamp>,
    /// Human-readable description.
    pub text: String,
    /// Object to which the event applies.
    pub object: Option<ObjectKey>,
    /// Additional details.
    pub details: Value,
}

/// Returns the documents for the given events.
pub fn documents(events: &[Event]) -> Vec<EventDocument> {
    events.iter().map(EventDocument::from).collect()
}

impl From<&Event> for EventDocument {
    fn from(event: &Event) -> Self {
        let Event { operation, application, sequence, at, what } = event;
        Self {
            operation: *operation,
            app: application.clone(),
            sequence: *sequence,
            kind: event_kind(what),
            at: *at,
            text: describe_event(what),
            object: event_object(what).cloned(),
            details: event_details(what),
        }
    }
}

fn event_kind(what: &EventKind) -> &'static str {
    match what {
        EventKind::Accepted => "accepted",
        EventKind::Planned { .. } => "planned",
        EventKind::StageChanged { .. } => "stage-changed",
        EventKind::Gate { .. } => "gate-evaluated",
        EventKind::Task { .. } => "task-ended",
        EventKind::Prune { .. } => "pruned",
        EventKind::HookStopped { .. } => "hook-stopped",
        EventKind::WarningsReceived { .. } => "warnings-received",
        EventKind::DeadlineExceeded { .. } => "deadline-exceeded",
        EventKind::NamespaceTerminating { .. } => "namespace-terminating",
        EventKind::NamespaceLost { .. } => "namespace-lost",
        EventKind::AttemptFailed { .. } => "attempt-failed",
        EventKind::RetryStarted { .. } => "retry-started",
        EventKind::ClaimChanged { .. } => "claim-changed",
        EventKind::TerminationRequested { .. } => "termination-requested",
        EventKind::Paused { .. } => "paused",
        EventKind::Unpaused { .. } => "unpaused",
        EventKind::PruneConfirmed { .. } => "prune-confirmed",
        EventKind::Approved { .. } => "approved",
        EventKind::Overridden { .. } => "overridden",
        EventKind::HealthRulesChanged { .. } => "health-rules-changed",
        EventKind::ClusterUnreachable { .. } => "cluster-unreachable",
        EventKind::WatchChanged { .. } => "watch-changed",
        EventKind::Finished { .. } => "finished",
        EventKind::StoredPlanUsed { .. } => "stored-plan-used",
    }
}

fn event_object(what: &EventKind) -> Option<&ObjectKey> {
    match what {
        EventKind::Task { object, .. }
        | EventKind::Prune { object, .. }
        | EventKind::HookStopped { object, .. }
        | EventKind::WarningsReceived { object, .. }
        | EventKind::Overridden { object, .. }
        | EventKind::DeadlineExceeded { of: Deadline::Hook(object), .. } => Some(object),
        _ => None,
    }
}

fn describe_event(what: &EventKind) -> String {
    match what {
        EventKind::Accepted => "accepted".to_owned(),
        EventKind::Planned { waves, tasks } => format!("planned: {tasks} objects in {waves} waves"),
        EventKind::StageChanged { to, wave } => match wave {
            Some(WaveName { phase, wave }) => format!("→ {} ({phase}, wave {wave})", to.name()),
            None => format!("→ {}", to.name()),
        },
        EventKind::Gate { gate, verdict: Verdict::Open } => format!("gate {gate} is open"),
        EventKind::Gate { gate, verdict: Verdict::Closed { reason, .. } } => {
            format!("gate {gate} is closed: {reason}")
        }
        EventKind::Task { object, phase, message } => with_message(&format!("{object}: {phase}"), message),
        EventKind::Prune { object, gone: true } => format!("{object}: deleted"),
        EventKind::Prune { object, gone: false } => format!("{object}: deletion started"),
        EventKind::HookStopped { object, phase, message, clean } => {
            let how = if *clean { "stopped" } else { "could not be stopped" };
            with_message(&format!("hook {object}: {how}, {phase}"), message)
        }
        EventKind::WarningsReceived { object, warnings } => {
            with_message(&format!("{object}: warnings from the API server"), &warnings.join("; "))
        }
        EventKind::DeadlineExceeded { of, message } => {
            let whose = match of {
                Deadline::Operation => "the operation's deadline has passed".to_owned(),
                Deadline::Wave => "the wave's deadline has passed".to_owned(),
                Deadline::Hook(object) => format!("hook {object}: its deadline has passed"),
            };
            with_message(&whose, message)
        }
        EventKind::NamespaceTerminating { namespace } => {
            format!("namespace {namespace} is being deleted, so the wave ends")
        }
        EventKind::NamespaceLost { namespace, loss } => loss.describe(namespace),
        EventKind::AttemptFailed { message, retriable } => with_message(
            &format!("the attempt failed{}", if *retriable { "" } else { " permanently" }),
            message,
        ),
        EventKind::RetryStarted { attempt } => format!("attempt {attempt} started"),
        EventKind::ClaimChanged { message, .. } => message.clone(),
        EventKind::TerminationRequested { by } => {
            Requester::parse(by).describe_action("terminated the operation")
        }
        EventKind::Paused { by, reason } => with_message(&format!("{by} paused the operation"), reason),
        EventKind::Unpaused { by } => Requester::parse(by).describe_action("resumed the operation"),
        EventKind::PruneConfirmed { by } => Requester::parse(by).describe_action("confirmed the prunes"),
        EventKind::Approved { wave, by, reason } => {
            with_message(&format!("{by} approved wave {}", wave.saturating_add(1)), reason)
        }
        EventKind::Overridden { object, what, by, reason } => {
            log_entries::describe_override(&object.to_string(), *what, by, reason)
        }
        EventKind::HealthRulesChanged { digest } => {
            format!("health rules changed: {}", digest.short())
        }
        EventKind::ClusterUnreachable { message } => with_message("the cluster does not respond", message),
        EventKind::WatchChanged { trouble: Some(trouble) } => {
            with_message("changes in the cluster are not being observed", trouble)
        }
        EventKind::WatchChanged { trouble: None } => {
            "changes in the cluster are being observed again".to_owned()
        }
        EventKind::Finished { phase, message } => {
            with_message(&OperationOutcome::from_phase(*phase, message).to_string(), message)
        }
        EventKind::StoredPlanUsed { plan } => log_entries::describe_stored_plan(plan),
    }
}

fn with_message(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}

/// Returns the event's additional details, under stable names.
fn event_details(what: &EventKind) -> Value {
    match what {
        EventKind::Planned { waves, tasks } => json!({"waves": waves, "objects": tasks}),
        EventKind::StageChanged { to, wave } => stage_details(to, *wave),
        EventKind::Gate { gate, verdict } => {
            let reason = match verdict {
                Verdict::Open => None,
                Verdict::Closed { reason, .. } => Some(reason),
            };
            json!({"gate": gate, "open": reason.is_none(), "reason": reason})
        }
        EventKind::Task { phase, message, .. } | EventKind::Finished { phase, message } => {
            json!({"phase": phase, "message": message})
        }
        EventKind::Prune { gone, .. } => json!({"isDeleted": gone}),
        EventKind::HookStopped { phase, message, clean, .. } => {
            json!({"phase": phase, "message": message, "clean": clean})
        }
        EventKind::WarningsReceived { warnings, .. } => json!({"warnings": warnings}),
        EventKind::DeadlineExceeded { of, message } => {
            let of = match of {
                Deadline::Operation => "operation",
                Deadline::Wave => "wave",
                Deadline::Hook(_) => "hook",
            };
            json!({"scope": of, "message": message})
        }
        EventKind::NamespaceTerminating { namespace } => json!({"namespace": namespace}),
        EventKind::NamespaceLost { namespace, loss } => {
            json!({"namespace": namespace, "loss": loss.as_str()})
        }
        EventKind::AttemptFailed { message, retriable } => {
            json!({"message": message, "retriable": retriable})
        }
        EventKind::RetryStarted { attempt } => json!({"attempt": attempt}),
        EventKind::ClaimChanged { news, message } => json!({"change": claim_state(news), "message": message}),
        EventKind::Paused { by, reason } => json!({"by": by, "reason": reason}),
        EventKind::Approved { wave, by, reason } => {
            json!({"number": wave.saturating_add(1), "by": by, "reason": reason})
        }
        EventKind::Overridden { what, by, reason, .. } => {
            json!({"action": what.past_participle(), "by": by, "reason": reason})
        }
        EventKind::TerminationRequested { by }
        | EventKind::Unpaused { by }
        | EventKind::PruneConfirmed { by } => {
            let Requester { name: by, reason } = Requester::parse(by);
            json!({"by": by, "reason": reason})
        }
        EventKind::HealthRulesChanged { digest } => json!({"digest": digest}),
        EventKind::ClusterUnreachable { message } => json!({"message": message}),
        EventKind::WatchChanged { trouble } => json!({"error": trouble}),
        EventKind::StoredPlanUsed { plan } => log_entries::details::stored_plan_details(plan),
        EventKind::Accepted => json!({}),
    }
}

fn claim_state(news: &ClaimEvent) -> &'static str {
    match news {
        ClaimEvent::Held { .. } => "acquired",
        ClaimEvent::Taken { at_work: true, .. } => "held-by-other",
        ClaimEvent::Taken { at_work: false, .. } => "possibly-held-by-other",
        ClaimEvent::Without { .. } => "unavailable",
        ClaimEvent::Lost { .. } => "lost",
        ClaimEvent::EndWanted { .. } => "superseded",
    }
}

fn stage_details(to: &Stage, wave: Option<WaveName>) -> Value {
    let (state, until) = match to {
        Stage::Wave { step: step @ WaveStep::Settling { until }, .. } => {
            (step.name().to_owned(), Some(until))
        }
        Stage::Wave { step, .. } => (step.name().to_owned(), None),
        Stage::AwaitingRetry { until } => (to.name(), Some(until)),
        stage => (stage.name(), None),
    };
    let (phase, wave) = wave.map(|name| (name.phase, name.wave)).unzip();
    json!({"state": state, "phase": phase, "wave": wave, "until": until})
}
