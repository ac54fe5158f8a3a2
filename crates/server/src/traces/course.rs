//! The spans of an operation, from what its log says.
//!
//! ```text
//! operation ─┬─ dry run ── the manifests that were refused
//!            └─ phase ── wave ── task
//! ```
//!
//! All of it is a function of recorded facts, ids included: whoever reads the log again, after a kill or because nobody took
//! the spans, makes the same ones. Each attempt has phases and waves of its own. What of a task has no time of its own lies
//! between the times around it: a task begins with the step of its wave that does it, and ends at the next time that is known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_lifecycle::operation::{Fact, Header, Narrator, Stage, State, WaveStep};
use tidegate_model::{
    Action, OperationId, OperationPhase, Override, Phase, Plan, SyncRequest, Task, TaskId, Timestamp,
    WaveNumbers, Wisher,
};
use tidegate_service::documents::events::EventDocument;

use self::OperationPhase::{Error, Failed, Succeeded};
use super::span::{Span, SpanId};

/// What is told as a span, or says nothing besides one.
const TOLD: [&str; 6] = ["accepted", "planned", "moved", "task-ended", "pruned", "finished"];
const OUTCOME: &str = "tidegate.outcome";
const SUCCEEDED: &str = "Succeeded";
/// What ended before it could end well or badly.
const STOPPED: &str = "Stopped";

/// A wave whose span is not ended.
struct OpenWave {
    index: u32,
    span: usize,
    pruning: Timestamp,
    applying: Timestamp,
}

/// How far the log was followed.
struct Course {
    operation: OperationId,
    application: String,
    attempt: u32,
    /// The application is deleted.
    is_deletion: bool,
    plan: Arc<Plan>,
    /// By which numbers people know the waves of the plan.
    numbers: WaveNumbers,
    now: Timestamp,
    /// When the stage began.
    moved: Timestamp,
    /// That of the operation is the first.
    spans: Vec<Span>,
    /// The phase, or the dry run, whose span is not ended.
    part: Option<(Option<Phase>, usize)>,
    wave: Option<OpenWave>,
    /// What was written in this wave and has not ended.
    written: BTreeMap<TaskId, Timestamp>,
    /// What has ended in this attempt.
    ended: BTreeMap<TaskId, usize>,
    /// What a person has had the operation go on without.
    passed_over: BTreeSet<TaskId>,
    /// Spans that end at the next time that is known.
    untimed: Vec<usize>,
}

/// The spans of an operation; nothing of one that is not over.
pub(super) fn spans(state: &State, facts: &[Fact], project: Option<&str>) -> Vec<Span> {
    let Some((header, outcome)) =
        state.header().zip(state.operation().and_then(|operation| operation.outcome.as_ref()))
    else {
        return Vec::new();
    };
    let mut course = Course::new(state, header, facts);
    let mut narrator = match facts.first() {
        Some(Fact::Accepted { .. }) => Narrator::default(),
        _ => Narrator::of_later(state, 0, facts),
    };
    for fact in facts {
        course.take(fact);
        if let Some(event) = narrator.tell(fact) {
            course.note(&EventDocument::from(&event));
        }
    }
    course.now = course.now.max(outcome.at);
    course.settle();
    course.close_part(STOPPED);
    let attempts = course.attempt;
    let Course { mut spans, now, .. } = course;
    if let Some(whole) = spans.first_mut() {
        whole.ended = now;
        whole.put("tidegate.project", project.unwrap_or_default());
        whole.put("tidegate.attempts", attempts);
        whole.put(OUTCOME, outcome.phase.to_string());
        whole.put("tidegate.message", outcome.message.as_str());
        if outcome.phase.is_unsuccessful() {
            whole.fail(&outcome.message);
        }
    }
    spans
}

fn whole(header: &Header) -> Span {
    let SyncRequest {
        application, namespace, destination, revision, options, initiated_by, deletion, ..
    } = &header.request;
    let kind = match deletion {
        Some(_) => "deletion",
        None if options.dry_run => "dry run",
        None => "sync",
    };
    Span::new(SpanId::of(header.operation, &[]), None, kind, header.started_at)
        .with("tidegate.application", application.as_str())
        .with("tidegate.operation", header.operation.to_string())
        .with("tidegate.revision", revision.as_str())
        .with("tidegate.destination", destination.to_string())
        .with("tidegate.namespace", namespace.as_str())
        .with("tidegate.initiated_by", Wisher::of_operation(initiated_by).by)
}

impl Course {
    fn new(state: &State, header: &Header, facts: &[Fact]) -> Self {
        // Where the first facts are gone, a later plan is the one there was, unless another is made.
        let plans = facts.iter().any(|fact| matches!(fact, Fact::Planned { .. }));
        let plan = state.operation().filter(|_| !plans).map(|operation| Arc::clone(&operation.plan));
        let next = facts.iter().find_map(|fact| match fact {
            Fact::RetryStarted { attempt, .. } | Fact::RetryPlansAnew { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let last = state.operation().map_or(header.attempt, |operation| operation.attempt);
        let is_deletion = header.request.deletion.is_some();
        let plan = plan.unwrap_or_default();
        Self {
            operation: header.operation,
            application: header.request.application.clone(),
            attempt: next.map_or(last, |next| next.saturating_sub(1)).max(1),
            is_deletion,
            numbers: plan.wave_numbers(is_deletion),
            plan,
            now: header.started_at,
            moved: header.started_at,
            spans: vec![whole(header)],
            part: None,
            wave: None,
            written: BTreeMap::new(),
            ended: BTreeMap::new(),
            passed_over: BTreeSet::new(),
            untimed: Vec::new(),
        }
    }

    fn take(&mut self, fact: &Fact) {
        if let Some(at) = fact.at() {
            self.now = self.now.max(at);
            self.settle();
        }
        match fact {
            Fact::Planned { plan, .. } => {
                self.plan = Arc::clone(plan);
                self.numbers = plan.wave_numbers(self.is_deletion);
            }
            Fact::Moved { to, .. } => self.go(to),
            Fact::CheckFailed { task, message } => self.end(*task, Failed, message, false),
            Fact::RunnerStarted { task, .. } => drop(self.written.insert(*task, self.now)),
            Fact::Applied { task, done: true, .. } => self.end(*task, Succeeded, "", true),
            Fact::Applied { task, .. } => {
                let begun = self.begun(*task);
                self.written.entry(*task).or_insert(begun);
            }
            Fact::TaskCompleted { task, phase, message, .. }
            | Fact::TaskFailed { task, phase, message, .. } => self.end(*task, *phase, message, true),
            Fact::PruneSent { task, .. } => self.end(*task, Succeeded, "", false),
            // Of anything else it only says that its place is free.
            Fact::ObjectGone { task } if self.is_prune(*task) => self.end(*task, Succeeded, "", false),
            // A person has said how it ends.
            Fact::HookStopped { task, .. } if self.passed_over.contains(task) => {}
            Fact::HookStopped { task, phase, message, .. } => self.end(*task, *phase, message, false),
            Fact::HookDeleted { task, error: Some(error) } => self.end(*task, Error, error, false),
            Fact::Overridden { task, what, by, reason, .. } => self.overrule(*task, *what, by, reason),
            Fact::AttemptFailed { message, .. } => self.fail(message),
            Fact::RetryStarted { attempt, .. } => self.try_again(*attempt),
            Fact::RetryPlansAnew { attempt, .. } => {
                self.try_again(*attempt);
                self.plan = Arc::default();
            }
            _ => {}
        }
    }

    /// What had no time of its own ends now.
    fn settle(&mut self) {
        for span in std::mem::take(&mut self.untimed) {
            if let Some(span) = self.spans.get_mut(span) {
                span.ended = self.now.max(span.begun);
            }
        }
    }

    fn go(&mut self, to: &Stage) {
        self.moved = self.now;
        match to {
            Stage::Wave { index, step } => self.work_on(*index, *step),
            Stage::DryRun => self.open_part(None),
            // Running hooks are stopped as those of their wave.
            Stage::Terminating => {}
            Stage::Planned | Stage::AwaitingRetry { .. } | Stage::Finishing { .. } => {
                self.close_part(SUCCEEDED)
            }
        }
    }

    fn work_on(&mut self, index: u32, step: WaveStep) {
        let plan = Arc::clone(&self.plan);
        let Some(planned) = plan.waves.get(TaskId(index).index()) else { return };
        if self.part.is_none_or(|(phase, _)| phase != Some(planned.phase)) {
            self.open_part(Some(planned.phase));
        }
        if self.wave.as_ref().is_none_or(|open| open.index != index) {
            self.close_wave(STOPPED);
            let parent = self.part.and_then(|(_, span)| self.spans.get(span)).map(|span| span.id);
            let number = self.numbers.shown(planned.phase, planned.wave);
            let (phase, wave) = (planned.phase.to_string(), number.to_string());
            let span = self
                .span(parent, &[&phase, &wave], format!("wave {wave}"), self.now)
                .with("tidegate.phase", phase)
                .with("tidegate.wave", number)
                .with("tidegate.tasks", planned.count);
            let span = self.push(span);
            self.wave = Some(OpenWave { index, span, pruning: self.now, applying: self.now });
        }
        let now = self.now;
        match (&mut self.wave, step) {
            (Some(wave), WaveStep::Pruning) => wave.pruning = now,
            (Some(wave), WaveStep::Applying) => wave.applying = now,
            (_, WaveStep::Passed) => self.close_wave(SUCCEEDED),
            _ => {}
        }
    }

    /// A phase begins, or the dry run.
    fn open_part(&mut self, phase: Option<Phase>) {
        self.close_part(SUCCEEDED);
        let parent = self.spans.first().map(|whole| whole.id);
        let name = phase.map_or_else(|| "dry run".to_owned(), |phase| phase.to_string());
        let mut span = self.span(parent, &[&name], name.clone(), self.now);
        if phase.is_some() {
            span.put("tidegate.phase", name);
        }
        let span = self.push(span);
        self.part = Some((phase, span));
    }

    /// What is at work ends; a phase as its last wave did.
    fn close_part(&mut self, outcome: &str) {
        self.close_wave(STOPPED);
        let Some((_, at)) = self.part.take() else { return };
        match self.spans.get_mut(at) {
            Some(span) if span.has(OUTCOME) => span.ended = self.now,
            _ => drop(self.close(at, outcome)),
        }
    }

    fn close_wave(&mut self, outcome: &str) {
        let Some(OpenWave { span, .. }) = self.wave else { return };
        for (task, begun) in std::mem::take(&mut self.written) {
            if let Some(mut span) = self.of_task(task, begun) {
                span.ended = self.now;
                span.put(OUTCOME, outcome);
                let at = self.push(span);
                self.ended.insert(task, at);
            }
        }
        self.wave = None;
        let outcome = self.close(span, outcome);
        if let Some((_, part)) = self.part
            && let Some(part) = self.spans.get_mut(part)
        {
            part.put(OUTCOME, outcome);
        }
    }

    /// Ends a span; what it came to.
    fn close(&mut self, span: usize, outcome: &str) -> String {
        let now = self.now;
        let Some(span) = self.spans.get_mut(span) else { return outcome.to_owned() };
        let outcome = if span.failure.is_some() { "Failed" } else { outcome };
        span.ended = now.max(span.begun);
        span.put(OUTCOME, outcome);
        outcome.to_owned()
    }

    /// A task has ended; what is known later counts.
    fn end(&mut self, task: TaskId, phase: OperationPhase, message: &str, is_timed: bool) {
        let begun = self.written.remove(&task).unwrap_or_else(|| self.begun(task));
        let now = self.now;
        let at = match self.ended.get(&task) {
            Some(at) => *at,
            None => {
                let Some(mut span) = self.of_task(task, begun) else { return };
                span.ended = now.max(span.begun);
                let at = self.push(span);
                self.ended.insert(task, at);
                if !is_timed {
                    self.untimed.push(at);
                }
                at
            }
        };
        if let Some(span) = self.spans.get_mut(at) {
            span.put(OUTCOME, phase.to_string());
            span.put("tidegate.message", message);
            span.failure = None;
            if phase.is_unsuccessful() {
                span.fail(message);
            }
        }
    }

    /// A person has skipped what was at work, or has failed, or marked it as done.
    fn overrule(&mut self, task: TaskId, what: Override, by: &str, reason: &str) {
        if !what.passes_over() {
            self.passed_over.remove(&task);
            return;
        }
        self.passed_over.insert(task);
        if self.written.contains_key(&task) || self.ended.contains_key(&task) {
            self.end(task, Succeeded, &format!("{} by {by}: {reason}", what.done()), true);
        }
    }

    /// The attempt has failed with what is at work.
    fn fail(&mut self, message: &str) {
        let at_work =
            self.wave.as_ref().map(|wave| wave.span).into_iter().chain(self.part.map(|(_, span)| span));
        for span in at_work {
            if let Some(span) = self.spans.get_mut(span) {
                span.fail(message);
            }
        }
    }

    fn try_again(&mut self, attempt: u32) {
        self.close_part(STOPPED);
        self.ended.clear();
        self.attempt = attempt;
    }

    /// When a task began, as far as is known.
    fn begun(&self, task: TaskId) -> Timestamp {
        match &self.wave {
            None => self.moved,
            Some(wave) if self.is_prune(task) => wave.pruning,
            Some(wave) => wave.applying,
        }
    }

    fn is_prune(&self, task: TaskId) -> bool {
        self.plan.task(task).is_some_and(|task| task.action == Action::Prune)
    }

    fn of_task(&self, id: TaskId, begun: Timestamp) -> Option<Span> {
        let plan = Arc::clone(&self.plan);
        let task @ Task { phase, wave, gvk, namespace, name, action, .. } = plan.task(id)?;
        let open = self.wave.as_ref().map(|wave| wave.span).or(self.part.map(|(_, span)| span));
        let parent = self.spans.get(open.unwrap_or_default()).map(|span| span.id);
        let what = if task.is_hook() { "hook" } else { action.as_str() };
        let wave = self.numbers.shown(*phase, *wave);
        let (in_phase, in_wave) = (phase.to_string(), wave.to_string());
        let span = self
            .span(parent, &[&in_phase, &in_wave, &id.0.to_string()], format!("{what} {}", gvk.kind), begun)
            .with("tidegate.phase", in_phase)
            .with("tidegate.wave", wave)
            .with("tidegate.action", action.as_str())
            .with("tidegate.hook", task.is_hook())
            .with("k8s.resource.group", gvk.group.as_str())
            .with("k8s.resource.version", gvk.version.as_str())
            .with("k8s.resource.kind", gvk.kind.as_str())
            .with("k8s.resource.name", name.as_str())
            .with("k8s.namespace.name", namespace.as_str());
        Some(span)
    }

    /// A span of this attempt, named by these words within it.
    fn span(&self, parent: Option<SpanId>, words: &[&str], name: String, begun: Timestamp) -> Span {
        let attempt = self.attempt.to_string();
        let words: Vec<&str> = std::iter::once(attempt.as_str()).chain(words.iter().copied()).collect();
        Span::new(SpanId::of(self.operation, &words), parent, name, begun)
            .with("tidegate.application", self.application.as_str())
            .with("tidegate.attempt", self.attempt)
    }

    fn push(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len().saturating_sub(1)
    }

    /// What has happened besides: to the wave that a gate holds, else to the operation.
    fn note(&mut self, event: &EventDocument) {
        if TOLD.contains(&event.kind) {
            return;
        }
        let of_wave = self.wave.as_ref().filter(|_| event.kind == "gate-answered").map(|wave| wave.span);
        let now = self.now;
        if let Some(span) = self.spans.get_mut(of_wave.unwrap_or_default()) {
            span.note(now, event.kind, event.text.clone());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]
mod tests;
