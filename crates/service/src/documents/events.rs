//! What happened to an operation, as documents. They are a stable interface, described in `docs/cli.md`, and name what they
//! tell as those of `ops log` do.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use tidegate_lifecycle::operation::{
    ClaimNews, Deadline, Event, EventKind, Stage, Verdict, WaveName, WaveStep,
};
use tidegate_model::{ObjectKey, OperationId, Timestamp, Wisher};

use super::facts;

/// An event with its number.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventDocument {
    /// The operation.
    pub operation: OperationId,
    /// Its application.
    pub app: String,
    /// Numbers of one operation only grow; many are left out.
    pub sequence: u64,
    /// What kind of event it is, in one word.
    pub kind: &'static str,
    /// When; nothing for a few that follow the event before them closely.
    pub at: Option<Timestamp>,
    /// What happened, for people.
    pub text: String,
    /// The object it is about.
    pub object: Option<ObjectKey>,
    /// What it says besides.
    pub details: Value,
}

/// The events as documents.
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
            kind: kind(what),
            at: *at,
            text: words(what),
            object: object(what).cloned(),
            details: details(what),
        }
    }
}

fn kind(what: &EventKind) -> &'static str {
    match what {
        EventKind::Accepted => "accepted",
        EventKind::Planned { .. } => "planned",
        EventKind::Moved { .. } => "moved",
        EventKind::Gate { .. } => "gate-answered",
        EventKind::Task { .. } => "task-ended",
        EventKind::Prune { .. } => "pruned",
        EventKind::HookStopped { .. } => "hook-stopped",
        EventKind::Warned { .. } => "warned",
        EventKind::DeadlinePassed { .. } => "deadline-passed",
        EventKind::NamespaceTerminating { .. } => "namespace-terminating",
        EventKind::NamespaceLost { .. } => "namespace-lost",
        EventKind::AttemptFailed { .. } => "attempt-failed",
        EventKind::RetryStarted { .. } => "retry-started",
        EventKind::Claim { .. } => "claim",
        EventKind::TerminateRequested { .. } => "terminate-requested",
        EventKind::Paused { .. } => "paused",
        EventKind::Unpaused { .. } => "unpaused",
        EventKind::PruneConfirmed { .. } => "prune-confirmed",
        EventKind::Approved { .. } => "approved",
        EventKind::Overridden { .. } => "overridden",
        EventKind::HealthRulesChanged { .. } => "health-rules-changed",
        EventKind::ClusterSilent { .. } => "cluster-silent",
        EventKind::Watching { .. } => "watching",
        EventKind::Finished { .. } => "finished",
        EventKind::PlanTaken { .. } => "plan-taken",
    }
}

fn object(what: &EventKind) -> Option<&ObjectKey> {
    match what {
        EventKind::Task { object, .. }
        | EventKind::Prune { object, .. }
        | EventKind::HookStopped { object, .. }
        | EventKind::Warned { object, .. }
        | EventKind::Overridden { object, .. }
        | EventKind::DeadlinePassed { of: Deadline::Hook(object), .. } => Some(object),
        _ => None,
    }
}

/// What happened, for people.
fn words(what: &EventKind) -> String {
    match what {
        EventKind::Accepted => "accepted".to_owned(),
        EventKind::Planned { waves, tasks } => format!("planned: {tasks} objects in {waves} waves"),
        EventKind::Moved { to, wave } => match wave {
            Some(WaveName { phase, wave }) => format!("→ {} ({phase}, wave {wave})", to.name()),
            None => format!("→ {}", to.name()),
        },
        EventKind::Gate { gate, verdict: Verdict::Open } => format!("gate {gate} is open"),
        EventKind::Gate { gate, verdict: Verdict::Closed { reason, .. } } => {
            format!("gate {gate} is closed: {reason}")
        }
        EventKind::Task { object, phase, message } => said(&format!("{object}: {phase}"), message),
        EventKind::Prune { object, gone: true } => format!("{object}: deleted"),
        EventKind::Prune { object, gone: false } => format!("{object}: its deletion has begun"),
        EventKind::HookStopped { object, phase, message, clean } => {
            let how = if *clean { "stopped" } else { "could not be stopped" };
            said(&format!("hook {object}: {how}, {phase}"), message)
        }
        EventKind::Warned { object, warnings } => {
            said(&format!("{object}: the cluster warns"), &warnings.join("; "))
        }
        EventKind::DeadlinePassed { of, message } => {
            let whose = match of {
                Deadline::Operation => "the operation's deadline has passed".to_owned(),
                Deadline::Wave => "the wave's deadline has passed".to_owned(),
                Deadline::Hook(object) => format!("hook {object}: its deadline has passed"),
            };
            said(&whose, message)
        }
        EventKind::NamespaceTerminating { namespace } => {
            format!("namespace {namespace} is being deleted, so the wave ends")
        }
        EventKind::NamespaceLost { namespace, loss } => loss.of(namespace),
        EventKind::AttemptFailed { message, retriable } => {
            said(&format!("the attempt failed{}", if *retriable { "" } else { " for good" }), message)
        }
        EventKind::RetryStarted { attempt } => format!("attempt {attempt} begins"),
        EventKind::Claim { message, .. } => message.clone(),
        EventKind::TerminateRequested { by } => Wisher::read(by).does("ends it"),
        EventKind::Paused { by, reason } => said(&format!("{by} holds it"), reason),
        EventKind::Unpaused { by } => Wisher::read(by).does("lets it go on"),
        EventKind::PruneConfirmed { by } => Wisher::read(by).does("approves its prunes"),
        EventKind::Approved { wave, by, reason } => {
            said(&format!("{by} approves wave {}", wave.saturating_add(1)), reason)
        }
        EventKind::Overridden { object, what, by, reason } => {
            facts::overridden(&object.to_string(), *what, by, reason)
        }
        EventKind::HealthRulesChanged { digest } => {
            format!("from here on judged by other health rules: {}", digest.short())
        }
        EventKind::ClusterSilent { message } => said("the cluster does not answer", message),
        EventKind::Watching { trouble: Some(trouble) } => {
            said("changes in the cluster are not seen", trouble)
        }
        EventKind::Watching { trouble: None } => "changes in the cluster are seen again".to_owned(),
        EventKind::Finished { phase, message } => said(&phase.to_string(), message),
        EventKind::PlanTaken { plan } => facts::taken(plan),
    }
}

fn said(what: &str, message: &str) -> String {
    if message.is_empty() { what.to_owned() } else { format!("{what}: {message}") }
}

/// What it says besides, under names that stay.
fn details(what: &EventKind) -> Value {
    match what {
        EventKind::Planned { waves, tasks } => json!({"waves": waves, "objects": tasks}),
        EventKind::Moved { to, wave } => moved(to, *wave),
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
        EventKind::Prune { gone, .. } => json!({"gone": gone}),
        EventKind::HookStopped { phase, message, clean, .. } => {
            json!({"phase": phase, "message": message, "clean": clean})
        }
        EventKind::Warned { warnings, .. } => json!({"warnings": warnings}),
        EventKind::DeadlinePassed { of, message } => {
            let of = match of {
                Deadline::Operation => "operation",
                Deadline::Wave => "wave",
                Deadline::Hook(_) => "hook",
            };
            json!({"of": of, "message": message})
        }
        EventKind::NamespaceTerminating { namespace } => json!({"namespace": namespace}),
        EventKind::NamespaceLost { namespace, loss } => {
            json!({"namespace": namespace, "loss": loss.as_str()})
        }
        EventKind::AttemptFailed { message, retriable } => {
            json!({"message": message, "retriable": retriable})
        }
        EventKind::RetryStarted { attempt } => json!({"attempt": attempt}),
        EventKind::Claim { news, message } => json!({"what": claim(news), "message": message}),
        EventKind::Paused { by, reason } => json!({"by": by, "reason": reason}),
        EventKind::Approved { wave, by, reason } => {
            json!({"number": wave.saturating_add(1), "by": by, "reason": reason})
        }
        EventKind::Overridden { what, by, reason, .. } => {
            json!({"what": what.done(), "by": by, "reason": reason})
        }
        EventKind::TerminateRequested { by }
        | EventKind::Unpaused { by }
        | EventKind::PruneConfirmed { by } => {
            let Wisher { by, reason } = Wisher::read(by);
            json!({"by": by, "reason": reason})
        }
        EventKind::HealthRulesChanged { digest } => json!({"digest": digest}),
        EventKind::ClusterSilent { message } => json!({"message": message}),
        EventKind::Watching { trouble } => json!({"trouble": trouble}),
        EventKind::PlanTaken { plan } => facts::details::taken(plan),
        EventKind::Accepted => json!({}),
    }
}

fn claim(news: &ClaimNews) -> &'static str {
    match news {
        ClaimNews::Held { .. } => "held",
        ClaimNews::Taken { at_work: true, .. } => "taken",
        ClaimNews::Taken { at_work: false, .. } => "perhaps-taken",
        ClaimNews::Without { .. } => "unavailable",
        ClaimNews::Lost { .. } => "lost",
        ClaimNews::EndWanted { .. } => "superseded",
    }
}

fn moved(to: &Stage, wave: Option<WaveName>) -> Value {
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
