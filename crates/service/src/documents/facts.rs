//! The recorded facts of an operation, as `ops log` and the API show them. The documents are a stable interface, described in `docs/cli.md`,
//! whatever the facts are called inside.

pub(super) mod details;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tidegate_lifecycle::operation::{ClaimNews, DeadlineScope, Fact, Verdict};
use tidegate_model::{Override, Plan, TakenPlan, TaskId, Timestamp, WaveNumbers, Wisher};

/// A fact with its place in the log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FactDocument<'a> {
    /// Its number, from 1.
    pub sequence: u64,
    /// What kind of fact it is, as one word.
    pub kind: &'static str,
    /// When it happened, where the fact says so.
    pub at: Option<Timestamp>,
    /// What happened, for people.
    pub text: String,
    object: Option<ObjectDocument<'a>>,
    /// What it says besides; which fields there are, the kind says.
    pub details: Value,
}

/// The object a fact is about.
#[derive(Debug, Serialize, JsonSchema)]
struct ObjectDocument<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// The facts as documents; the first of them has a number.
pub fn documents(first: u64, facts: &[Fact]) -> Vec<FactDocument<'_>> {
    let mut plan = None;
    let (mut numbers, mut is_deletion) = (WaveNumbers::default(), false);
    (first..)
        .zip(facts)
        .map(|(sequence, fact)| {
            match fact {
                Fact::Accepted { request, .. } => is_deletion = request.deletion.is_some(),
                Fact::Planned { plan: made, .. } => {
                    numbers = made.wave_numbers(is_deletion);
                    plan = Some(&**made);
                }
                _ => {}
            }
            let task = details::task(fact).and_then(|task| plan?.task(task));
            FactDocument {
                sequence,
                kind: details::kind(fact),
                at: fact.at(),
                text: words(fact, plan),
                object: task.map(|task| ObjectDocument {
                    group: &task.gvk.group,
                    version: &task.gvk.version,
                    kind: &task.gvk.kind,
                    namespace: &task.namespace,
                    name: &task.name,
                }),
                details: details::details(fact, plan, &numbers),
            }
        })
        .collect()
}

/// What happened, for people.
fn words(fact: &Fact, plan: Option<&Plan>) -> String {
    let name = |task: &TaskId| object(*task, plan);
    match fact {
        Fact::Accepted { request, .. } => {
            let what = match request.deletion {
                None => "accepted for",
                Some(cascade) if cascade.deletes() => "accepted: deletion of",
                Some(_) => "accepted: deletion, without its objects, of",
            };
            let Wisher { by, reason } = Wisher::of_operation(&request.initiated_by);
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{what} {} by {by}{why}", request.application)
        }
        Fact::Planned { plan, .. } => format!(
            "planned: {} objects in {} waves, {} findings",
            plan.tasks.len(),
            plan.waves.len(),
            plan.warnings.len()
        ),
        Fact::Moved { to, .. } => format!("→ {}", to.name()),
        Fact::GateAnswered { gate, verdict: Verdict::Open, .. } => format!("gate {gate} is open"),
        Fact::GateAnswered { gate, verdict: Verdict::Closed { reason, .. }, .. } => {
            format!("gate {gate} is closed: {reason}")
        }
        Fact::CallFailed { message, retry_at, outage: true, .. } => {
            format!("the cluster does not answer and is tried again at {retry_at}: {message}")
        }
        Fact::Watching { trouble: Some(trouble), .. } => format!("changes are not seen: {trouble}"),
        Fact::Watching { trouble: None, .. } => "changes are seen again".to_owned(),
        Fact::Claim { news, .. } => claim(news),
        Fact::HealthRulesKnown { digest, .. } => format!("judged by health rules {}", digest.short()),
        Fact::NamespaceTerminating { namespace, .. } => {
            format!("namespace {namespace} is being deleted, so the wave ends")
        }
        Fact::NamespaceLost { namespace, loss, .. } => loss.of(namespace),
        Fact::NamespacesSeen { namespaces } => {
            let all = namespaces.iter().map(|(name, identity)| format!("{name} ({})", identity.uid));
            format!("goes into namespace {}", all.collect::<Vec<_>>().join(", "))
        }
        Fact::CallFailed { task, message, retry_at, .. } => {
            let what = task.as_ref().map_or_else(|| "planning".to_owned(), name);
            format!("{what}: a call failed and is made again at {retry_at}: {message}")
        }
        Fact::DeadlinePassed { scope, message, .. } => match scope {
            DeadlineScope::Operation => format!("the operation's deadline has passed: {message}"),
            DeadlineScope::Wave => format!("the wave's deadline has passed: {message}"),
            DeadlineScope::Hook(task) => format!("{}: its deadline has passed: {message}", name(task)),
        },
        Fact::AttemptFailed { message, retriable, .. } => {
            format!("the attempt failed{}: {message}", if *retriable { "" } else { " for good" })
        }
        Fact::RetryStarted { attempt, .. } => format!("attempt {attempt} begins"),
        Fact::RetryPlansAnew { attempt, .. } => format!("attempt {attempt} begins, with a new plan"),
        Fact::TerminateRequested { by, .. } => Wisher::read(by).does("ends it"),
        Fact::Paused { by, reason, .. } if reason.is_empty() => format!("{by} holds it"),
        Fact::Paused { by, reason, .. } => format!("{by} holds it: {reason}"),
        Fact::Unpaused { by, .. } => Wisher::read(by).does("lets it go on"),
        Fact::PruneConfirmed { by, .. } => Wisher::read(by).does("approves its prunes"),
        Fact::Approved { wave, by, reason, .. } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("{by} approves wave {}{why}", wave.saturating_add(1))
        }
        Fact::Overridden { task, what, by, reason, .. } => {
            overridden(&object_in_phase(*task, plan), *what, by, reason)
        }
        Fact::PlanTaken { plan, .. } => taken(plan),
        Fact::Finished { phase, message, .. } => format!("{phase}: {message}"),
        _ => task_words(fact, plan),
    }
}

/// `carries out plan 3f2a9c41d07b of 2026-11-25T10:00:00Z, approved by ann`.
pub(super) fn taken(plan: &TakenPlan) -> String {
    let approvals = plan.approvals.iter().map(|approval| format!(", {}", approval.words()));
    let (hash, made_at) = (plan.hash.short(), plan.made_at);
    format!("carries out plan {hash} of {made_at}{}", approvals.collect::<String>())
}

/// `ann skips Deployment shop/api: the database is away`.
pub(super) fn overridden(name: &str, what: Override, by: &str, reason: &str) -> String {
    let what = match what {
        Override::Skip => format!("{by} skips {name}"),
        Override::MarkDone => format!("{by} marks {name} as done"),
        Override::Retry => format!("{by} has {name} tried again"),
    };
    if reason.is_empty() { what } else { format!("{what}: {reason}") }
}

fn claim(news: &ClaimNews) -> String {
    match news {
        ClaimNews::Held { place, epoch } => format!("has the claim: {place}, holder {epoch}"),
        ClaimNews::Taken { holder, at_work: true } => format!("waits for {holder}, which has the claim"),
        ClaimNews::Taken { holder, at_work: false } => {
            format!("{holder} has the claim, or had it when it died")
        }
        ClaimNews::Without { reason } => format!("goes on without a claim: {reason}"),
        ClaimNews::Lost { holder: Some(holder) } => format!("lost the claim to {holder}"),
        ClaimNews::Lost { holder: None } => "lost the claim to an operation that is over".to_owned(),
        ClaimNews::EndWanted { by } => format!("is superseded by {by}"),
    }
}

/// As [`words`], for facts about one task.
fn task_words(fact: &Fact, plan: Option<&Plan>) -> String {
    let name = |task: &TaskId| object(*task, plan);
    match fact {
        Fact::Checked { task, message } => said(&name(task), "would be accepted", message),
        Fact::CheckFailed { task, message } => said(&name(task), "would be refused", message),
        Fact::PruneSent { task, gone: true } => format!("{}: deleted", name(task)),
        Fact::PruneSent { task, gone: false } | Fact::DeletionBegun { task } => {
            format!("{}: its deletion has begun", name(task))
        }
        Fact::PlaceTaken { task, by: Some(by) } => {
            format!("{}: operation {} still runs it, so it is left alone", name(task), by.operation)
        }
        Fact::PlaceTaken { task, by: None } => format!("{}: it runs no more", name(task)),
        Fact::RecreationBegun { task, uid } => {
            format!("{}: told to go, and created again when it is gone ({uid})", name(task))
        }
        Fact::HookCleared { task, deleting: None } => format!("{}: its place is clear", name(task)),
        Fact::HookCleared { task, deleting: Some(uid) } => {
            format!("{}: an older one ({uid}) is being deleted", name(task))
        }
        Fact::ObjectGone { task } => format!("{}: gone", name(task)),
        Fact::Applied { task, message, .. } => said(&name(task), "applied", message),
        Fact::RunnerStarted { task, .. } => format!("{}: handed to its runner", name(task)),
        Fact::HealthSeen { task, health, fresh, .. } => {
            let stale = if *fresh { "" } else { " (perhaps of an older spec)" };
            said(&name(task), &format!("{:?}{stale}", health.status), &health.message)
        }
        Fact::TaskCompleted { task, phase, message, .. } | Fact::TaskFailed { task, phase, message, .. } => {
            said(&name(task), &phase.to_string(), message)
        }
        Fact::HookReleased { task } => format!("{}: its finalizer is off", name(task)),
        Fact::HookDeleted { task, error: None } => format!("{}: deleted by its policy", name(task)),
        Fact::HookDeleted { task, error: Some(error) } => {
            format!("{}: could not be deleted: {error}", name(task))
        }
        Fact::HookStopped { task, phase, message, clean } => {
            let how = if *clean { "stopped" } else { "could not be stopped" };
            said(&name(task), &format!("{how}, {phase}"), message)
        }
        Fact::ReasonSeen { task, reason, .. } if reason.is_empty() => {
            format!("{}: nothing more is known", name(task))
        }
        Fact::ReasonSeen { task, reason, .. } => format!("{}: {reason}", name(task)),
        Fact::Warned { task, warnings } => said(&name(task), "the cluster warns", &warnings.join("; ")),
        Fact::LogsKept { task, reason, logs } => {
            let bytes: usize = logs.iter().map(|log| log.text.len()).sum();
            said(&name(task), &format!("the last {bytes} bytes of its logs are kept"), reason)
        }
        // Every other fact is about the operation.
        other => details::kind(other).to_owned(),
    }
}

fn said(who: &str, what: &str, message: &str) -> String {
    if message.is_empty() { format!("{who}: {what}") } else { format!("{who}: {what}: {message}") }
}

/// A hook with its phase: it may run in several.
fn object_in_phase(id: TaskId, plan: Option<&Plan>) -> String {
    match plan.and_then(|plan| plan.task(id)).filter(|task| task.is_hook()) {
        Some(task) => format!("{} hook {}", task.phase, task.key()),
        None => object(id, plan),
    }
}

fn object(id: TaskId, plan: Option<&Plan>) -> String {
    match plan.and_then(|plan| plan.task(id)) {
        Some(task) if task.is_hook() => format!("hook {}", task.key()),
        Some(task) => task.key().to_string(),
        None => id.to_string(),
    }
}
