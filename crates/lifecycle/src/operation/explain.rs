//! Why an operation is where it is: what it waits for, since when, how long it may, and what comes next.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::{Action, OperationPhase, Phase, Task, Timestamp, format_duration};

use super::gates::is_known_gate;
use super::messages::{self, named as name};
use super::rules::{awaits_establishment, has_runner, unapplied};
use super::state::{Calls, Claim, Header, Operation, Progress, Stage, State, TaskState, Verdict, WaveStep};
use super::view::{OperationView, ended_dry};
use crate::fleet::enumerate;

/// Why a gate keeps its wave closed that was asked and has not answered.
pub const NOT_ANSWERED: &str = "it has not answered yet";
/// Why something is awaited that was written a moment ago, and of which no sight has come yet.
pub const NOT_SEEN: &str = "not seen yet";
/// Ends the trouble of an operation: true as long as somebody works on it.
pub const TRYING_AGAIN: &str = "; trying again";
/// What goes on while another operation runs a hook in the place of one of ours.
pub const PLACE_TAKEN: &str = "the place of a hook is taken";
/// So much of the last line of a log is named.
const LAST_LINE_MAX: usize = 200;

/// The answer to "why is it waiting, and for what?". Prints as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Where it stands, in words: `wave 2 of 5 (Sync, wave 1)`.
    pub position: String,
    /// What is going on there: `3 of 14 healthy`.
    pub progress: String,
    /// What is awaited, the longest wait first.
    pub awaited: Vec<Awaited>,
    /// Time left to the nearest deadline, in seconds; absent without a deadline.
    pub deadline_in_seconds: Option<u64>,
    /// How long ago that deadline passed, in seconds; absent as long as there is time left.
    pub deadline_passed_seconds: Option<u64>,
    /// Since when, and why, the cluster does not answer.
    pub trouble: Option<String>,
    /// Who holds it, and why.
    pub paused: Option<String>,
    /// That the health rules changed while it ran.
    pub rules_changed: Option<String>,
    /// The kept plan that it carries out, and who has approved it: `plan 3f2a9c41d07b, approved by ann`.
    pub plan: Option<String>,
    /// What people decided about single tasks: `skipped by ann (the database is away): Deployment shop/api`.
    pub overridden: Vec<String>,
    /// What comes next: `wave 3, 6 objects`.
    pub next: Option<String>,
    /// An attempt has failed, and nothing is done before the next one.
    #[serde(skip)]
    pub awaits_attempt: bool,
    /// When this was true.
    pub at: Timestamp,
}

impl Explanation {
    /// One that says where the operation stands, and nothing else.
    pub fn at(position: &str, at: Timestamp) -> Self {
        Self {
            position: position.to_owned(),
            progress: String::new(),
            awaited: Vec::new(),
            deadline_in_seconds: None,
            deadline_passed_seconds: None,
            trouble: None,
            paused: None,
            rules_changed: None,
            plan: None,
            overridden: Vec::new(),
            next: None,
            awaits_attempt: false,
            at,
        }
    }
}

/// One thing an operation waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Awaited {
    /// What: `Deployment shop/api`, or `gate night-shift`.
    pub what: String,
    /// Why it is not there yet.
    pub why: String,
    /// Since when it is awaited.
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
            let waiting = format_duration(whole_seconds(self.at.since(first.since)));
            write!(f, "{separator}waiting {waiting} for {}", first.what)?;
            if !first.why.is_empty() {
                write!(f, " ({})", first.why)?;
            }
        }
        let more = [&self.trouble, &self.paused, &self.rules_changed, &self.plan].into_iter().flatten();
        for more in more.chain(&self.overridden) {
            write!(f, "; {more}")?;
        }
        let words = |seconds| format_duration(Duration::from_secs(seconds));
        match (self.deadline_passed_seconds, self.deadline_in_seconds) {
            (Some(seconds), _) => write!(f, "; its deadline passed {} ago", words(seconds))?,
            (None, Some(seconds)) => write!(f, "; deadline in {}", words(seconds))?,
            (None, None) => {}
        }
        match &self.next {
            Some(next) => write!(f, "; next: {next}"),
            None => Ok(()),
        }
    }
}

impl Explanation {
    /// The same of an operation that is over, some time later.
    #[must_use]
    pub fn later(mut self, view: &OperationView, now: Timestamp) -> Self {
        if let Some(finished_at) = view.finished_at {
            self.position = end(&view.phase_words(), view.started_at, finished_at, now);
            self.at = now;
        }
        self
    }

    /// Whoever works on an operation ends what is too late at once; a deadline that passed long ago is one that nobody
    /// was there for.
    fn set_deadline(&mut self, deadline: Option<Timestamp>) {
        let passed = deadline.map(|deadline| self.at.since(deadline).as_secs());
        self.deadline_in_seconds = deadline.map(|deadline| deadline.since(self.at).as_secs());
        self.deadline_passed_seconds = passed.filter(|seconds| *seconds > 0);
    }
}

pub(crate) fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Explains an operation as it stands at `now`.
pub fn explain(state: &State, now: Timestamp) -> Explanation {
    let mut explanation = match state {
        State::New => Explanation::at("not started", now),
        State::Accepted(header) => accepted(header, now),
        State::Running(operation) => running(operation, now),
        State::Finished(operation) => finished(operation, now),
    };
    explanation.at = now;
    explanation.plan = state.header().and_then(|header| Some(header.plan.as_ref()?.words()));
    explanation.rules_changed = state.header().and_then(|header| header.health_rules.as_ref()?.change());
    if !state.is_finished() {
        let watches = state.operation().is_some_and(|operation| operation.current_wave().is_some());
        explanation.trouble = state.header().and_then(|header| trouble(header, watches, now));
    }
    if let (false, Some(pause)) =
        (state.is_finished(), state.header().and_then(|header| header.paused.as_ref()))
    {
        let since = format_duration(whole_seconds(now.since(pause.at)));
        let why = if pause.reason.is_empty() { String::new() } else { format!(" ({})", pause.reason) };
        explanation.paused = Some(format!("paused by {} for {since}{why}", pause.by));
        // While it is paused its deadlines stand still.
        explanation.set_deadline(None);
    }
    explanation
}

/// `the cluster has not answered for 12 s: connection refused; trying again`.
fn trouble(header: &Header, watches: bool, now: Timestamp) -> Option<String> {
    let (outage, what) = match (&header.outage, header.blind.as_ref().filter(|_| watches)) {
        (Some(outage), _) => (outage, "the cluster has not answered for"),
        (None, Some(blind)) => (blind, "changes in the cluster have not been seen for"),
        (None, None) => return None,
    };
    let since = format_duration(whole_seconds(now.since(outage.since)));
    Some(format!("{what} {since}: {}{TRYING_AGAIN}", outage.message))
}

fn accepted(header: &Header, now: Timestamp) -> Explanation {
    let calls = &header.calls;
    let cluster = Awaited {
        what: format!("the {}", header.request.destination),
        why: failed_calls(calls),
        since: header.started_at,
    };
    let awaited = if calls.failed > 0 { vec![cluster] } else { Vec::new() };
    let mut explanation = match header.claim.as_deref() {
        Some(Claim::Taken { holder, since }) => {
            let why = format!("it has the claim on application {}", header.request.application);
            let other = Awaited { what: holder.to_string(), why, since: *since };
            Explanation { awaited: vec![other], ..Explanation::at("waiting for the claim", now) }
        }
        _ if header.may_begin() => Explanation { awaited, ..Explanation::at("planning", now) },
        _ => Explanation { awaited, ..Explanation::at("taking the claim", now) },
    };
    explanation.set_deadline(header.request.deadline.map(|deadline| header.deadline_from + deadline));
    explanation
}

fn finished(operation: &Operation, now: Timestamp) -> Explanation {
    let Some(outcome) = &operation.outcome else { return Explanation::at("over", now) };
    let phase = match operation.header.request.options.dry_run {
        true => ended_dry(outcome.phase),
        false => outcome.phase.to_string(),
    };
    let position = end(&phase, operation.header.started_at, outcome.at, now);
    let failed = operation
        .all_tasks()
        .filter(|(_, _, state)| state.is_unsuccessful())
        .map(|(_, task, state)| format!("{}: {}", name(task), failure(state)));
    let mut explanation =
        Explanation { progress: outcome.message.clone(), ..Explanation::at(&position, now) };
    for failure in failed {
        explanation.progress = format!("{}; {failure}", explanation.progress);
    }
    explanation
}

/// `Succeeded 2 min ago after 14 s`.
fn end(phase: &str, started_at: Timestamp, finished_at: Timestamp, now: Timestamp) -> String {
    let took = format_duration(whole_seconds(finished_at.since(started_at)));
    let ago = format_duration(whole_seconds(now.since(finished_at)));
    format!("{phase} {ago} ago after {took}")
}

/// Why a task has failed: its message, what its pods told, and the last line that one of its containers wrote.
fn failure(state: &TaskState) -> String {
    let reason = if state.message.contains(state.reason()) { "" } else { state.reason() };
    let message = messages::with_cause(&state.message, reason);
    let last = state
        .logs()
        .iter()
        .rev()
        .find_map(|log| log.text.lines().rev().map(str::trim).find(|line| !line.is_empty()));
    match last {
        None => message,
        Some(line) => {
            let line: String = line.chars().take(LAST_LINE_MAX).collect();
            format!("{message} (its log ends with {line:?}; `tidegate ops show` has more)")
        }
    }
}

fn running(operation: &Operation, now: Timestamp) -> Explanation {
    let mut explanation = match &operation.stage {
        Stage::Planned => Explanation::at("planned", now),
        Stage::DryRun => dry_run(operation, now),
        Stage::Wave { index, step } => wave(operation, *index, *step, now),
        Stage::AwaitingRetry { until } => retry(operation, *until, now),
        Stage::Terminating => Explanation {
            progress: why_terminating(operation),
            awaited: stopping(operation),
            ..Explanation::at("terminating", now)
        },
        Stage::Finishing { phase, message } => Explanation {
            progress: format!("{phase}: {message}"),
            awaited: cleaning(operation, *phase),
            ..Explanation::at("cleaning up hooks", now)
        },
    };
    explanation.overridden = overridden(operation);
    if !operation.is_ending() {
        let hooks = operation.all_tasks().filter_map(|(_, task, state)| operation.hook_deadline(task, state));
        explanation.set_deadline(hooks.chain(operation.wave_deadline()).chain(operation.deadline()).min());
    }
    explanation
}

/// What people decided, one line for each who and why.
fn overridden(operation: &Operation) -> Vec<String> {
    let mut decided: Vec<(String, Vec<String>)> = Vec::new();
    for (id, overridden) in &operation.overrides {
        let (words, Some(task)) = (overridden.words(), operation.plan.task(*id)) else { continue };
        match decided.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(name(task)),
            None => decided.push((words, vec![name(task)])),
        }
    }
    let line = |(words, names): (String, Vec<String>)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("{words}: {}", enumerate(&names))
    };
    decided.into_iter().map(line).collect()
}

fn dry_run(operation: &Operation, now: Timestamp) -> Explanation {
    let checks = operation
        .all_tasks()
        .filter(|(_, task, _)| task.action.writes() && !task.options.dry_run_at_wave && !has_runner(task));
    let (done, all) =
        checks.fold((0, 0), |(done, all), (_, _, state)| (done + usize::from(state.checked), all + 1));
    Explanation {
        progress: format!("{done} of {all} manifests tried"),
        awaited: failing_calls(operation.all_tasks(), operation.since),
        next: operation.next_wave(0, false).map(|index| describe(operation, index)),
        ..Explanation::at("dry run", now)
    }
}

fn retry(operation: &Operation, until: Timestamp, now: Timestamp) -> Explanation {
    let failure = operation.failure.as_ref().map(|failure| failure.message.clone()).unwrap_or_default();
    let left = format_duration(whole_seconds(until.since(now)));
    Explanation {
        progress: failure,
        next: Some(format!("attempt {} in {left}", operation.attempt.saturating_add(1))),
        awaits_attempt: true,
        ..Explanation::at(&format!("attempt {} failed", operation.attempt), now)
    }
}

fn wave(operation: &Operation, index: u32, step: WaveStep, now: Timestamp) -> Explanation {
    let (phase, number) = operation.wave_name(index).map_or((Phase::Sync, 0), |name| (name.phase, name.wave));
    let sync_fail = phase == Phase::SyncFail;
    let (place, total) = place(operation, index);
    let opened = operation.times(index).opened_at.unwrap_or(operation.since);
    let failing = || failing_calls(operation.wave_tasks(index), operation.since);
    let (progress, mut awaited) = match step {
        WaveStep::Held => ("held".to_owned(), held(operation, index, opened, now)),
        WaveStep::DryRun => ("dry run".to_owned(), failing()),
        WaveStep::Pruning => ("pruning".to_owned(), failing()),
        WaveStep::AwaitingGone | WaveStep::Clearing => deleting(operation, index),
        WaveStep::Applying => (applied(operation, index), applying(operation, index)),
        WaveStep::AwaitingHealth | WaveStep::Passed => {
            (healthy(operation, index), unhealthy(operation, index))
        }
        WaveStep::Verifying => ("looking whether its namespaces are still there".to_owned(), Vec::new()),
        WaveStep::Settling { until } => (healthy(operation, index), settling(operation, index, until, now)),
    };
    awaited.sort_by_key(|awaited| awaited.since);
    Explanation {
        progress,
        awaited,
        next: operation.next_wave(index.saturating_add(1), sync_fail).map(|next| describe(operation, next)),
        ..Explanation::at(&format!("wave {place} of {total} ({phase}, wave {number})"), now)
    }
}

/// What looks healthy and must look so for a while, or else the fixed delay between waves.
fn settling(operation: &Operation, index: u32, until: Timestamp, now: Timestamp) -> Vec<Awaited> {
    let left = format_duration(until.since(now));
    let mut awaited = unhealthy(operation, index);
    for awaited in &mut awaited {
        awaited.why = format!("looks healthy; settling for another {left}");
    }
    if awaited.is_empty() {
        let what = "the delay between waves".to_owned();
        awaited.push(Awaited { what, why: format!("another {left}"), since: operation.since });
    }
    awaited
}

fn describe(operation: &Operation, index: u32) -> String {
    let prunes = operation.wave_tasks(index).filter(|(_, task, _)| task.action == Action::Prune).count();
    let objects = count(operation.wave_tasks(index).count());
    let prunes = if prunes > 0 { format!(" ({prunes} to prune)") } else { String::new() };
    format!("wave {}, {objects}{prunes}", place(operation, index).0)
}

/// The number of a wave and of how many. The SyncFail waves come only after a failure, if at all, so they are counted
/// by themselves.
fn place(operation: &Operation, index: u32) -> (usize, usize) {
    let sync_fail = operation.is_sync_fail(index);
    let all =
        (0..).zip(&operation.plan.waves).filter(|(_, wave)| (wave.phase == Phase::SyncFail) == sync_fail);
    let before = all.clone().filter(|(other, _): &(u32, _)| *other < index).count();
    (before.saturating_add(1), all.count())
}

fn held(operation: &Operation, index: u32, since: Timestamp, now: Timestamp) -> Vec<Awaited> {
    let closed = operation.gates_of(index).iter().filter_map(|gate| {
        let answer = operation.gates.iter().find(|answer| answer.gate == *gate);
        let why = match (operation.why_closed(index, gate, now), answer.map(|answer| &answer.verdict)) {
            (Some(why), _) => why,
            (None, Some(Verdict::Open)) => return None,
            (None, _) if is_known_gate(gate) => return None,
            (None, Some(Verdict::Closed { reason, .. })) => reason.clone(),
            (None, None) => NOT_ANSWERED.to_owned(),
        };
        Some(Awaited { what: format!("gate {gate}"), why, since })
    });
    let prunes = operation.unconfirmed_prunes(index).map(|task| Awaited {
        what: name(task),
        why: format!("its pruning needs confirmation: `tidegate ops confirm {}`", operation.header.operation),
        since,
    });
    let others = operation.prunes_confirmed_with(index).map(|(later, task)| Awaited {
        what: name(task),
        why: format!("pruned in wave {} by the same confirmation", place(operation, later).0),
        since,
    });
    closed.chain(prunes).chain(others).collect()
}

fn applied(operation: &Operation, index: u32) -> String {
    let writes = operation.wave_tasks(index).filter(|(_, task, _)| task.action.writes());
    let (done, all) =
        writes.fold((0, 0), |(done, all), (_, _, state)| (done + usize::from(!unapplied(state)), all + 1));
    format!("{done} of {all} applied")
}

/// Definitions whose kinds the next group may need, hooks whose place is not clear any more, resources that are to be
/// created again, and failing calls.
fn applying(operation: &Operation, index: u32) -> Vec<Awaited> {
    let definitions = operation
        .apply_group(index)
        .filter(|(_, task, state)| awaits_establishment(task, state))
        .map(|(_, task, state)| Awaited {
            what: name(task),
            why: why(operation, state),
            since: since(operation, state),
        });
    let holds_up = |(task, _): &(&Task, Awaited)| !task.action.is_prune();
    let in_the_way = leaving(operation, index).filter(holds_up).map(|(_, awaited)| awaited);
    let failing = failing_calls(operation.wave_tasks(index), operation.since);
    definitions.chain(in_the_way).chain(taken(operation, index)).chain(failing).collect()
}

fn healthy(operation: &Operation, index: u32) -> String {
    let (mut done, mut all) = (0_u32, 0_u32);
    // What is left where it is has no part in the wave.
    let at_work = operation.wave_tasks(index).filter(|(_, task, _)| task.action != Action::PruneSkipped);
    for (_, task, state) in at_work {
        let is_done = state.progress == Progress::Done || task.action == Action::Unchanged;
        done = done.saturating_add(u32::from(is_done && !state.is_unsuccessful()));
        all = all.saturating_add(1);
    }
    format!("{done} of {all} healthy")
}

fn unhealthy(operation: &Operation, index: u32) -> Vec<Awaited> {
    operation
        .awaited(index)
        .map(|(_, task, state)| Awaited {
            what: name(task),
            why: why(operation, state),
            since: since(operation, state),
        })
        .collect()
}

fn since(operation: &Operation, state: &TaskState) -> Timestamp {
    state.applied.as_ref().map_or(operation.since, |applied| applied.at)
}

fn failed_calls(calls: &Calls) -> String {
    match calls.failed {
        1 => format!("a call failed: {}", calls.message),
        failed => format!("{failed} calls failed, the last: {}", calls.message),
    }
}

fn why(operation: &Operation, state: &TaskState) -> String {
    if let Some(calls) = state.calls.as_deref().filter(|calls| calls.failed > 0) {
        return failed_calls(calls);
    }
    let what = match (&state.progress, &state.health) {
        (Progress::Deleting { .. }, _) => return messages::leaving(state.reason()),
        (Progress::Stopping { reason }, _) => format!("being stopped: {reason}"),
        (Progress::Done, _) if operation.header.paused.is_some() => {
            "it has ended; its finalizer is taken off when the operation goes on".to_owned()
        }
        (Progress::Done, _) => "its finalizer is being removed".to_owned(),
        (_, Some(seen)) if seen.health.message.is_empty() => format!("{:?}", seen.health.status),
        (_, Some(seen)) => seen.health.message.clone(),
        (_, None) => NOT_SEEN.to_owned(),
    };
    messages::with_cause(&what, state.reason())
}

fn deleting(operation: &Operation, index: u32) -> (String, Vec<Awaited>) {
    let leaving: Vec<Awaited> = leaving(operation, index).map(|(_, awaited)| awaited).collect();
    let taken = taken(operation, index);
    let progress = match (leaving.len(), taken.is_empty()) {
        (0, true) => "looking what is still there".to_owned(),
        (0, false) => PLACE_TAKEN.to_owned(),
        (leaving, _) => format!("{} being deleted", count(leaving)),
    };
    let failing = failing_calls(operation.wave_tasks(index), operation.since);
    (progress, leaving.into_iter().chain(taken).chain(failing).collect())
}

/// Objects that are being deleted.
fn leaving(operation: &Operation, index: u32) -> impl Iterator<Item = (&Task, Awaited)> {
    let leaving = operation
        .wave_tasks(index)
        .filter(|(_, _, state)| matches!(state.progress, Progress::Deleting { .. }));
    leaving.map(|(_, task, state)| {
        let why = messages::leaving(state.reason());
        (task, Awaited { what: name(task), why, since: operation.since })
    })
}

/// Hooks of other operations that still run where ours are to be created.
fn taken(operation: &Operation, index: u32) -> Vec<Awaited> {
    let occupied = |(_, task, state): (_, &Task, &TaskState)| {
        let occupant = state.occupant.as_deref()?;
        let why = format!("operation {} runs it; it is left alone until it has ended", occupant.operation);
        Some(Awaited { what: name(task), why, since: occupant.since })
    };
    operation.wave_tasks(index).filter_map(occupied).collect()
}

fn count(objects: usize) -> String {
    let noun = if objects == 1 { "object" } else { "objects" };
    format!("{objects} {noun}")
}

/// Hooks that their policy deletes now that the operation ends.
fn cleaning(operation: &Operation, phase: OperationPhase) -> Vec<Awaited> {
    operation
        .all_tasks()
        .filter(|(_, task, state)| operation.deletes_at_end(task, state, phase))
        .map(|(_, task, state)| {
            let failing = state.calls.as_deref().is_some_and(|calls| calls.failed > 0);
            let calls = failing.then(|| why(operation, state));
            let why = calls.unwrap_or_else(|| "its delete policy".to_owned());
            Awaited { what: format!("the deletion of {}", name(task)), why, since: operation.since }
        })
        .collect()
}

/// What made an operation too late; that somebody ended it is nothing to explain.
fn why_terminating(operation: &Operation) -> String {
    let message = operation.termination.as_ref().map_or("", |termination| termination.message.as_str());
    if message == messages::TERMINATED { String::new() } else { message.to_owned() }
}

fn stopping(operation: &Operation) -> Vec<Awaited> {
    operation
        .all_tasks()
        .filter(|(_, _, state)| state.is_closing())
        .map(|(_, task, state)| Awaited {
            what: name(task),
            why: why(operation, state),
            since: operation.since,
        })
        .collect()
}

/// Tasks whose calls keep failing in a way that may pass.
fn failing_calls<'a>(
    tasks: impl Iterator<Item = (tidegate_model::TaskId, &'a Task, &'a TaskState)>,
    since: Timestamp,
) -> Vec<Awaited> {
    let failing = |(_, task, state): (_, &Task, &TaskState)| {
        let calls = state.calls.as_deref().filter(|calls| calls.failed > 0)?;
        Some(Awaited { what: name(task), why: failed_calls(calls), since })
    };
    tasks.filter_map(failing).collect()
}
