//! Explanation of an operation's current position: awaited items with the length of each wait, deadlines, and
//! the next step.

mod dependencies;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Action, OperationOutcome, OperationPhase, Phase, Task, Timestamp, format_duration};

pub use self::dependencies::PathStep;
use self::dependencies::{critical_path, dependency_items};
use super::gates::is_built_in_gate;
use super::messages::{self, describe_task as name};
use super::rules::{has_runner, is_unapplied, needs_establishment};
use super::state::{
    CallFailures, Claim, Header, Operation, Progress, Stage, State, TaskState, Verdict, WaveStep,
};
use super::view::{OperationView, format_dry_run_outcome};
use crate::NextAction;
use crate::names::join_names;

/// Reason for a closed gate that hasn't returned a verdict yet.
pub const GATE_NOT_ANSWERED: &str = "no result yet";
/// Reason for waiting for an object that was written but hasn't been observed yet.
pub const NOT_OBSERVED: &str = "not observed yet";
/// Suffix of a problem's description while an engine is running the operation.
pub const RETRYING: &str = "; trying again";
/// Progress text while another operation runs a hook of the same name.
pub const PLACE_OCCUPIED: &str = "another operation is running the same hook";

/// Explanation of what an operation is waiting for and why. Displayed as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Human-readable current position, such as `wave 2 of 5 (Sync, wave 1)`.
    pub position: String,
    /// Progress at this position, such as `3 of 14 healthy`.
    pub progress: String,
    /// Items that the operation is waiting for, longest wait first.
    pub awaited: Vec<AwaitedItem>,
    /// Objects of the current wave that determined its progress so far, from the first one to those that still
    /// wait. Each object waits for the previous one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub critical_path: Vec<PathStep>,
    /// Time left until the nearest deadline, in seconds. `None` if there is no deadline.
    #[serde(rename = "secondsUntilDeadline")]
    pub deadline_in_seconds: Option<u64>,
    /// Time since the deadline passed, in seconds. `None` while there is time left.
    #[serde(rename = "secondsSinceDeadline")]
    pub deadline_passed_seconds: Option<u64>,
    /// Duration and cause of a cluster outage. [`Self::add_outage`] sets this field and the next action.
    #[serde(rename = "outage")]
    pub trouble: Option<String>,
    /// User who paused the operation, the length of the pause, and the reason.
    #[serde(rename = "pausedBy")]
    pub paused: Option<String>,
    /// Note that the health rules changed during the operation.
    #[serde(rename = "healthRulesChange")]
    pub rules_changed: Option<String>,
    /// Stored plan that the operation executes, and its approvals, such as `plan 3f2a9c41d07b, approved by
    /// ann`.
    pub plan: Option<String>,
    /// Users' overrides of individual tasks, such as
    /// `skipped by ann (the database is away): Deployment shop/api`.
    #[serde(rename = "overrides")]
    pub overridden: Vec<String>,
    /// Next position, such as `wave 3, 6 objects`.
    #[serde(rename = "nextPosition")]
    pub next: Option<String>,
    /// Next action for the user.
    #[serde(rename = "nextAction")]
    pub action: NextAction,
    /// True if an attempt failed and the operation is waiting for the next attempt.
    #[serde(skip)]
    pub awaits_attempt: bool,
    /// True if a user must act next. A user can do so even during an outage.
    #[serde(skip)]
    pub awaits_person: bool,
    /// Time of the explanation.
    pub at: Timestamp,
}

impl Explanation {
    /// Creates an explanation that contains only the position.
    pub fn new(position: &str, at: Timestamp) -> Self {
        Self {
            position: position.to_owned(),
            progress: String::new(),
            awaited: Vec::new(),
            critical_path: Vec::new(),
            deadline_in_seconds: None,
            deadline_passed_seconds: None,
            trouble: None,
            paused: None,
            rules_changed: None,
            plan: None,
            overridden: Vec::new(),
            next: None,
            action: NextAction::default(),
            awaits_attempt: false,
            awaits_person: false,
            at,
        }
    }
}

/// Item that an operation is waiting for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedItem {
    /// Name of the item, such as `Deployment shop/api` or `gate night-shift`.
    #[serde(rename = "subject")]
    pub what: String,
    /// Reason why the operation is still waiting for the item.
    #[serde(rename = "reason")]
    pub why: String,
    /// Start of the wait.
    pub since: Timestamp,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.position)?;
        let mut separator = ": ";
        if !self.progress.is_empty() {
            write!(f, "{separator}{}", self.progress)?;
            separator = ", ";
        }
        if let Some(first) = self.awaited.first() {
            let waiting = format_duration(truncate_to_seconds(self.at.since(first.since)));
            write!(f, "{separator}waiting {waiting} for {}", first.what)?;
            if !first.why.is_empty() {
                write!(f, " ({})", first.why)?;
            }
        }
        let more = [&self.trouble, &self.paused, &self.rules_changed, &self.plan].into_iter().flatten();
        for more in more.chain(&self.overridden) {
            write!(f, "; {more}")?;
        }
        let text = |seconds| format_duration(Duration::from_secs(seconds));
        match (self.deadline_passed_seconds, self.deadline_in_seconds) {
            (Some(seconds), _) => write!(f, "; the deadline passed {} ago", text(seconds))?,
            (None, Some(seconds)) => write!(f, "; deadline in {}", text(seconds))?,
            (None, None) => {}
        }
        match &self.next {
            Some(next) => write!(f, "; next: {next}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    /// Updates the explanation of a finished operation to a later time.
    #[must_use]
    pub fn refresh(mut self, view: &OperationView, now: Timestamp) -> Self {
        if let Some(finished_at) = view.finished_at {
            self.position = format_end(&view.describe_phase(), view.started_at, finished_at, now);
            self.at = now;
        }
        self
    }

    /// Sets the time left until a deadline, or the time since it passed. A running engine acts on deadlines
    /// immediately, so a deadline long past means that no engine is running.
    fn set_deadline(&mut self, deadline: Option<Timestamp>) {
        let passed = deadline.map(|deadline| self.at.since(deadline).as_secs());
        self.deadline_in_seconds = deadline.map(|deadline| deadline.since(self.at).as_secs());
        self.deadline_passed_seconds = passed.filter(|seconds| *seconds > 0);
    }
}

pub(crate) fn truncate_to_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Explains the state of an operation at the time `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    let mut explanation = match state {
        State::New => Explanation::new("not started", now),
        State::Accepted(header) => explain_accepted(header, now),
        State::Running(operation) => explain_running(operation, now),
        State::Finished(operation) => explain_finished(operation, now),
    };
    explanation.at = now;
    explanation.set_action(state, now);
    explanation.plan = state.header().and_then(|header| Some(header.plan.as_ref()?.describe()));
    explanation.rules_changed =
        state.header().and_then(|header| header.health_rules.as_ref()?.describe_change());
    if !state.is_finished() {
        let watches = state.operation().is_some_and(|operation| operation.current_wave().is_some());
        if let Some(trouble) = state.header().and_then(|header| describe_outage(header, watches, now)) {
            explanation.add_outage(trouble);
        }
    }
    if let (false, Some(pause)) =
        (state.is_finished(), state.header().and_then(|header| header.paused.as_ref()))
    {
        let since = format_duration(truncate_to_seconds(now.since(pause.at)));
        let reason = if pause.reason.is_empty() { String::new() } else { format!(" ({})", pause.reason) };
        explanation.paused = Some(format!("paused by {} for {since}{reason}", pause.by));
        // Time spent in a pause doesn't count toward the deadline.
        explanation.set_deadline(None);
    }
    explanation
}

/// Formats an outage, such as `the cluster has not responded for 12 s: connection refused; trying again`.
fn describe_outage(header: &Header, watches: bool, now: Timestamp) -> Option<String> {
    let (outage, what) = match (&header.outage, header.blind.as_ref().filter(|_| watches)) {
        (Some(outage), _) => (outage, "the cluster has not responded for"),
        (None, Some(blind)) => (blind, "watches of the cluster have been failing for"),
        (None, None) => return None,
    };
    let since = format_duration(truncate_to_seconds(now.since(outage.since)));
    Some(format!("{what} {since}: {}{RETRYING}", outage.message))
}

fn explain_accepted(header: &Header, now: Timestamp) -> Explanation {
    let calls = &header.calls;
    let cluster = AwaitedItem {
        what: format!("the {}", header.request.destination),
        why: describe_failed_calls(calls),
        since: header.started_at,
    };
    let awaited = if calls.failed > 0 { vec![cluster] } else { Vec::new() };
    let mut explanation = match header.claim.as_deref() {
        Some(Claim::Taken { holder, since }) => {
            let why = format!("it holds the claim on application {}", header.request.application);
            let other = AwaitedItem { what: holder.to_string(), why, since: *since };
            Explanation { awaited: vec![other], ..Explanation::new("waiting for the claim", now) }
        }
        _ if header.can_begin() => Explanation { awaited, ..Explanation::new("planning", now) },
        _ => Explanation { awaited, ..Explanation::new("acquiring the claim", now) },
    };
    explanation.set_deadline(header.request.deadline.map(|deadline| header.deadline_from + deadline));
    explanation
}

fn explain_finished(operation: &Operation, now: Timestamp) -> Explanation {
    let Some(outcome) = &operation.outcome else { return Explanation::new("over", now) };
    let text = OperationOutcome::from_phase(outcome.phase, &outcome.message);
    let text = match operation.header.request.options.dry_run {
        true => format_dry_run_outcome(text),
        false => text.to_string(),
    };
    let position = format_end(&text, operation.header.started_at, outcome.at, now);
    let failed = operation
        .all_tasks()
        .filter(|(_, _, state)| state.is_unsuccessful())
        .map(|(_, task, state)| messages::describe_failure(task, state));
    let mut explanation =
        Explanation { progress: outcome.message.clone(), ..Explanation::new(&position, now) };
    for failure in failed {
        // The operation's message already contains the failure, unless there were too many failures to list.
        if outcome.message.contains(&failure) {
            continue;
        }
        explanation.progress = format!("{}; {failure}", explanation.progress);
    }
    explanation
}

/// Formats the end of an operation, such as `Succeeded 2 min ago after 14 s`.
fn format_end(phase: &str, started_at: Timestamp, finished_at: Timestamp, now: Timestamp) -> String {
    let took = format_duration(truncate_to_seconds(finished_at.since(started_at)));
    let ago = format_duration(truncate_to_seconds(now.since(finished_at)));
    format!("{phase} {ago} ago after {took}")
}

fn explain_running(operation: &Operation, now: Timestamp) -> Explanation {
    let mut explanation = match &operation.stage {
        Stage::Planned => Explanation::new("planned", now),
        Stage::DryRun => explain_dry_run(operation, now),
        Stage::Wave { index, step } => explain_wave(operation, *index, *step, now),
        Stage::AwaitingRetry { until } => explain_retry(operation, *until, now),
        Stage::Terminating => Explanation {
            progress: termination_reason(operation),
            awaited: stopping_items(operation),
            ..Explanation::new("terminating", now)
        },
        Stage::Finishing { phase, message } => Explanation {
            progress: format!("{phase}: {message}"),
            awaited: cleanup_items(operation, *phase),
            ..Explanation::new("cleaning up hooks", now)
        },
    };
    explanation.overridden = describe_overrides(operation);
    if !operation.is_ending() {
        let hooks = operation.all_tasks().filter_map(|(_, task, state)| operation.hook_deadline(task, state));
        explanation.set_deadline(hooks.chain(operation.wave_deadline()).chain(operation.deadline()).min());
    }
    explanation
}

/// Describes users' overrides, with one line per requester and reason.
fn describe_overrides(operation: &Operation) -> Vec<String> {
    let mut decided: Vec<(String, Vec<String>)> = Vec::new();
    for (id, overridden) in &operation.overrides {
        let (text, Some(task)) = (overridden.describe(), operation.plan.task(*id)) else { continue };
        match decided.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(name(task)),
            None => decided.push((text, vec![name(task)])),
        }
    }
    let line = |(text, names): (String, Vec<String>)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("{text}: {}", join_names(&names))
    };
    decided.into_iter().map(line).collect()
}

fn explain_dry_run(operation: &Operation, now: Timestamp) -> Explanation {
    let checks = operation.all_tasks().filter(|(_, task, _)| {
        task.action.writes_manifest() && !task.options.dry_run_at_wave && !has_runner(task)
    });
    let (done, all) =
        checks.fold((0, 0), |(done, all), (_, _, state)| (done + usize::from(state.checked), all + 1));
    Explanation {
        progress: format!("{done} of {all} manifests checked"),
        awaited: failing_call_items(operation.all_tasks(), operation.since),
        next: operation.next_wave_with_work(0, false).map(|index| describe_wave(operation, index)),
        ..Explanation::new("dry run", now)
    }
}

fn explain_retry(operation: &Operation, until: Timestamp, now: Timestamp) -> Explanation {
    let failure = operation.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let left = format_duration(truncate_to_seconds(until.since(now)));
    Explanation {
        progress: failure,
        next: Some(format!("attempt {} in {left}", operation.attempt.saturating_add(1))),
        awaits_attempt: true,
        ..Explanation::new(&format!("attempt {} failed", operation.attempt), now)
    }
}

fn explain_wave(operation: &Operation, index: u32, step: WaveStep, now: Timestamp) -> Explanation {
    let (phase, number) = operation.wave_name(index).map_or((Phase::Sync, 0), |name| (name.phase, name.wave));
    let sync_fail = phase == Phase::SyncFail;
    let (place, total) = wave_position(operation, index);
    let opened = operation.wave_times(index).opened_at.unwrap_or(operation.since);
    let failing = || failing_call_items(operation.wave_tasks(index), operation.since);
    let (progress, mut awaited) = match step {
        WaveStep::Held => ("held".to_owned(), held_items(operation, index, opened, now)),
        WaveStep::DryRun => ("dry run".to_owned(), failing()),
        WaveStep::Pruning if operation.orders_prunes(index) => {
            let ordered = deletion_items(operation, index).map(|(_, awaited)| awaited);
            ("pruning in the order of dependencies".to_owned(), ordered.chain(failing()).collect())
        }
        WaveStep::Pruning => ("pruning".to_owned(), failing()),
        WaveStep::AwaitingGone | WaveStep::Clearing => explain_deletions(operation, index),
        WaveStep::Applying => (describe_applied(operation, index), applying_items(operation, index)),
        WaveStep::AwaitingHealth | WaveStep::Passed => {
            (describe_healthy(operation, index), unhealthy_items(operation, index))
        }
        WaveStep::Verifying => ("checking that the wave's namespaces still exist".to_owned(), Vec::new()),
        WaveStep::Settling { until } => {
            (describe_healthy(operation, index), settling_items(operation, index, until, now))
        }
    };
    awaited.sort_by_key(|awaited| awaited.since);
    let critical_path =
        if step == WaveStep::Applying { critical_path(operation, index, now) } else { Vec::new() };
    Explanation {
        progress,
        awaited,
        critical_path,
        next: operation
            .next_wave_with_work(index.saturating_add(1), sync_fail)
            .map(|next| describe_wave(operation, next)),
        ..Explanation::new(&format!("wave {place} of {total} ({phase}, wave {number})"), now)
    }
}

/// Returns the objects that must stay healthy until `until` or, without any, the fixed delay between waves.
fn settling_items(operation: &Operation, index: u32, until: Timestamp, now: Timestamp) -> Vec<AwaitedItem> {
    let left = format_duration(until.since(now));
    let mut awaited = unhealthy_items(operation, index);
    for awaited in &mut awaited {
        awaited.why = format!("healthy, but must stay healthy for another {left}");
    }
    if awaited.is_empty() {
        let what = "the delay between waves".to_owned();
        awaited.push(AwaitedItem { what, why: format!("another {left}"), since: operation.since });
    }
    awaited
}

fn describe_wave(operation: &Operation, index: u32) -> String {
    let prunes = operation.wave_tasks(index).filter(|(_, task, _)| task.action == Action::Prune).count();
    let objects = format_object_count(operation.wave_tasks(index).count());
    let prunes = if prunes > 0 { format!(" ({prunes} to prune)") } else { String::new() };
    format!("wave {}, {objects}{prunes}", wave_position(operation, index).0)
}

/// Returns the position of a wave, starting at 1, and the total number of waves. SyncFail waves are counted
/// separately, because they run only after a failure.
fn wave_position(operation: &Operation, index: u32) -> (usize, usize) {
    let sync_fail = operation.is_sync_fail_wave(index);
    let all =
        (0..).zip(&operation.plan.waves).filter(|(_, wave)| (wave.phase == Phase::SyncFail) == sync_fail);
    let before = all.clone().filter(|(other, _): &(u32, _)| *other < index).count();
    (before.saturating_add(1), all.count())
}

fn held_items(operation: &Operation, index: u32, since: Timestamp, now: Timestamp) -> Vec<AwaitedItem> {
    let closed = operation.wave_gates(index).iter().filter_map(|gate| {
        let answer = operation.gates.iter().find(|answer| answer.gate == *gate);
        let why = match (operation.closed_reason(index, gate, now), answer.map(|answer| &answer.verdict)) {
            (Some(why), _) => why,
            (None, Some(Verdict::Open)) => return None,
            (None, _) if is_built_in_gate(gate) => return None,
            (None, Some(Verdict::Closed { reason, .. })) => reason.clone(),
            (None, None) => GATE_NOT_ANSWERED.to_owned(),
        };
        Some(AwaitedItem { what: format!("gate {gate}"), why, since })
    });
    let prunes = operation.unconfirmed_prunes(index).map(|task| AwaitedItem {
        what: name(task),
        why: format!("pruning needs confirmation: `tidegate ops confirm {}`", operation.header.operation),
        since,
    });
    let others = operation.later_unconfirmed_prunes(index).map(|(later, task)| AwaitedItem {
        what: name(task),
        why: format!(
            "will be pruned in wave {}; the same confirmation covers it",
            wave_position(operation, later).0
        ),
        since,
    });
    closed.chain(prunes).chain(others).collect()
}

fn describe_applied(operation: &Operation, index: u32) -> String {
    let writes = operation.wave_tasks(index).filter(|(_, task, _)| task.action.writes_manifest());
    let (done, all) =
        writes.fold((0, 0), |(done, all), (_, _, state)| (done + usize::from(!is_unapplied(state)), all + 1));
    format!("{done} of {all} applied")
}

/// Returns the items that the applying step is waiting for: definitions that the next group may need, objects
/// that must be deleted before a hook or resource is created, hooks that another operation is still running,
/// and failing calls.
fn applying_items(operation: &Operation, index: u32) -> Vec<AwaitedItem> {
    let definitions = operation
        .current_apply_group(index)
        .filter(|(_, task, state)| needs_establishment(task, state))
        .map(|(_, task, state)| AwaitedItem {
            what: name(task),
            why: awaited_reason(operation, state),
            since: wait_start(operation, state),
        });
    let holds_up = |(task, _): &(&Task, AwaitedItem)| !task.action.is_prune();
    let in_the_way = deletion_items(operation, index).filter(holds_up).map(|(_, awaited)| awaited);
    let failing = failing_call_items(operation.wave_tasks(index), operation.since);
    definitions
        .chain(in_the_way)
        .chain(occupied_place_items(operation, index))
        .chain(failing)
        .chain(dependency_items(operation, index))
        .collect()
}

fn describe_healthy(operation: &Operation, index: u32) -> String {
    let (mut done, mut all) = (0_u32, 0_u32);
    // A skipped prune leaves its object unchanged, so its health doesn't count.
    let at_work = operation.wave_tasks(index).filter(|(_, task, _)| task.action != Action::PruneSkipped);
    for (_, task, state) in at_work {
        let is_done = state.progress == Progress::Done || task.action == Action::Unchanged;
        done = done.saturating_add(u32::from(is_done && !state.is_unsuccessful()));
        all = all.saturating_add(1);
    }
    format!("{done} of {all} healthy")
}

fn unhealthy_items(operation: &Operation, index: u32) -> Vec<AwaitedItem> {
    operation
        .awaited_task_states(index)
        .map(|(_, task, state)| AwaitedItem {
            what: name(task),
            why: awaited_reason(operation, state),
            since: wait_start(operation, state),
        })
        .collect()
}

fn wait_start(operation: &Operation, state: &TaskState) -> Timestamp {
    state.applied.as_ref().map_or(operation.since, |applied| applied.at)
}

fn describe_failed_calls(calls: &CallFailures) -> String {
    match calls.failed {
        1 => format!("a call failed: {}", calls.message),
        failed => format!("{failed} calls failed; last error: {}", calls.message),
    }
}

fn awaited_reason(operation: &Operation, state: &TaskState) -> String {
    if let Some(calls) = state.calls.as_deref().filter(|calls| calls.failed > 0) {
        return describe_failed_calls(calls);
    }
    let what = match (&state.progress, &state.health) {
        (Progress::Deleting { .. }, _) => return messages::deletion_message(state.reason()),
        (Progress::Stopping { reason }, _) => format!("being stopped: {reason}"),
        (Progress::Done, _) if operation.header.paused.is_some() => {
            "it has ended; its finalizer will be removed when the operation is unpaused".to_owned()
        }
        (Progress::Done, _) => "its finalizer is being removed".to_owned(),
        (_, Some(seen)) if seen.health.message.is_empty() => format!("{:?}", seen.health.status),
        (_, Some(seen)) => seen.health.message.clone(),
        (_, None) => NOT_OBSERVED.to_owned(),
    };
    messages::with_cause(&what, state.reason())
}

fn explain_deletions(operation: &Operation, index: u32) -> (String, Vec<AwaitedItem>) {
    let leaving: Vec<AwaitedItem> = deletion_items(operation, index).map(|(_, awaited)| awaited).collect();
    let taken = occupied_place_items(operation, index);
    let progress = match (leaving.len(), taken.is_empty()) {
        (0, true) => "checking which objects still exist".to_owned(),
        (0, false) => PLACE_OCCUPIED.to_owned(),
        (leaving, _) => format!("{} being deleted", format_object_count(leaving)),
    };
    let failing = failing_call_items(operation.wave_tasks(index), operation.since);
    (progress, leaving.into_iter().chain(taken).chain(failing).collect())
}

/// Returns the objects that are being deleted.
fn deletion_items(operation: &Operation, index: u32) -> impl Iterator<Item = (&Task, AwaitedItem)> {
    let leaving = operation
        .wave_tasks(index)
        .filter(|(_, _, state)| matches!(state.progress, Progress::Deleting { .. }));
    leaving.map(|(_, task, state)| {
        let why = messages::deletion_message(state.reason());
        (task, AwaitedItem { what: name(task), why, since: operation.since })
    })
}

/// Returns the hooks whose names are taken by other operations' running hooks.
fn occupied_place_items(operation: &Operation, index: u32) -> Vec<AwaitedItem> {
    let occupied = |(_, task, state): (_, &Task, &TaskState)| {
        let occupant = state.occupant.as_deref()?;
        let why = format!("operation {} is still running the same hook", occupant.operation);
        Some(AwaitedItem { what: name(task), why, since: occupant.since })
    };
    operation.wave_tasks(index).filter_map(occupied).collect()
}

fn format_object_count(objects: usize) -> String {
    let noun = if objects == 1 { "object" } else { "objects" };
    format!("{objects} {noun}")
}

/// Returns the hooks that are deleted at the end of the operation according to their policies.
fn cleanup_items(operation: &Operation, phase: OperationPhase) -> Vec<AwaitedItem> {
    operation
        .all_tasks()
        .filter(|(_, task, state)| operation.should_delete_at_end(task, state, phase))
        .map(|(_, task, state)| {
            let failing = state.calls.as_deref().is_some_and(|calls| calls.failed > 0);
            let calls = failing.then(|| awaited_reason(operation, state));
            let why = calls.unwrap_or_else(|| "its delete policy".to_owned());
            AwaitedItem { what: format!("the deletion of {}", name(task)), why, since: operation.since }
        })
        .collect()
}

/// Returns the reason for a termination, or an empty string if a user requested it.
fn termination_reason(operation: &Operation) -> String {
    let message = operation.termination.as_ref().map_or("", |termination| termination.message.as_str());
    if message == messages::TERMINATED { String::new() } else { message.to_owned() }
}

fn stopping_items(operation: &Operation) -> Vec<AwaitedItem> {
    operation
        .all_tasks()
        .filter(|(_, _, state)| state.needs_stop_or_release())
        .map(|(_, task, state)| AwaitedItem {
            what: name(task),
            why: awaited_reason(operation, state),
            since: operation.since,
        })
        .collect()
}

/// Returns the tasks whose newest call failed with a transient error.
fn failing_call_items<'a>(
    tasks: impl Iterator<Item = (tidegate_model::TaskId, &'a Task, &'a TaskState)>,
    since: Timestamp,
) -> Vec<AwaitedItem> {
    let failing = |(_, task, state): (_, &Task, &TaskState)| {
        let calls = state.calls.as_deref().filter(|calls| calls.failed > 0)?;
        Some(AwaitedItem { what: name(task), why: describe_failed_calls(calls), since })
    };
    tasks.filter_map(failing).collect()
}
