//! An operation's spans, derived from its log.
//!
//! ```text
//! operation ─┬─ dry run ── the rejected manifests
//!            └─ phase ── wave ── task
//! ```
//!
//! All spans and their IDs derive from the recorded events. Reading the log again, after a crash or a
//! rejected export, therefore yields the same spans. Each attempt has its own phases and waves. If a task
//! event has no time, the surrounding events supply it. A task starts when its wave starts to apply or prune
//! objects, and ends at the next known time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_lifecycle::operation::{EventEmitter, Header, OperationEvent, Stage, State, WaveStep};
use tidegate_model::{
    Action, OperationId, OperationOutcome, OperationPhase, Override, Phase, Plan, Requester, SyncRequest,
    Task, TaskId, Timestamp, WaveNumbers,
};
use tidegate_views::events::EventDocument;

use self::OperationPhase::{Error, Failed, Succeeded};
use super::span::{Span, SpanId};

/// Events that spans already represent, or that add nothing to a span.
const REPRESENTED_EVENTS: [&str; 6] =
    ["accepted", "planned", "stage-changed", "task-ended", "pruned", "finished"];
const OUTCOME_ATTRIBUTE: &str = "tidegate.outcome";
const SUCCEEDED: &str = "Succeeded";
/// Outcome of a span that neither succeeded nor failed.
const STOPPED: &str = "Stopped";

/// A wave with an open span.
struct OpenWave {
    index: u32,
    span: usize,
    pruning_since: Timestamp,
    applying_since: Timestamp,
}

/// State of the conversion from events to spans.
struct SpanBuilder {
    operation: OperationId,
    application: String,
    attempt: u32,
    /// True if the operation deletes the application.
    is_deletion: bool,
    plan: Arc<Plan>,
    /// Display numbers of the plan's waves.
    wave_numbers: WaveNumbers,
    now: Timestamp,
    /// Start time of the stage.
    stage_started_at: Timestamp,
    /// Spans. The first span represents the operation itself.
    spans: Vec<Span>,
    /// Open phase (`None` for the dry run), and the index of its span.
    open_phase: Option<(Option<Phase>, usize)>,
    open_wave: Option<OpenWave>,
    /// Unfinished tasks that were written in this wave.
    running_tasks: BTreeMap<TaskId, Timestamp>,
    /// Finished tasks of this attempt.
    ended_tasks: BTreeMap<TaskId, usize>,
    /// Tasks that a user has skipped or marked as done.
    overridden_tasks: BTreeSet<TaskId>,
    /// Spans that end at the next event with a time.
    untimed_spans: Vec<usize>,
}

/// Returns the spans of a finished operation. An open operation has none.
pub(super) fn build_spans(state: &State, events: &[OperationEvent], project: Option<&str>) -> Vec<Span> {
    let Some((header, outcome)) =
        state.header().zip(state.operation().and_then(|operation| operation.outcome.as_ref()))
    else {
        return Vec::new();
    };
    let mut progress = SpanBuilder::new(state, header, events);
    let mut emitter = match events.first() {
        Some(OperationEvent::Accepted { .. }) => EventEmitter::default(),
        _ => EventEmitter::from_later_state(state, 0, events),
    };
    for recorded_event in events {
        progress.apply_event(recorded_event);
        if let Some(event) = emitter.emit(recorded_event) {
            progress.add_event(&EventDocument::from(&event));
        }
    }
    progress.now = progress.now.max(outcome.at);
    progress.end_untimed_spans();
    progress.close_phase(STOPPED);
    let attempts = progress.attempt;
    let SpanBuilder { mut spans, now, .. } = progress;
    if let Some(whole) = spans.first_mut() {
        whole.ended_at = now;
        whole.set_attribute("tidegate.project", project.unwrap_or_default());
        whole.set_attribute("tidegate.attempts", attempts);
        let result = OperationOutcome::from_phase(outcome.phase, &outcome.message);
        whole.set_attribute(OUTCOME_ATTRIBUTE, result.to_string());
        whole.set_attribute("tidegate.message", outcome.message.as_str());
        if result.is_unsuccessful() {
            whole.mark_failed(&outcome.message);
        }
    }
    spans
}

fn root_span(header: &Header) -> Span {
    let SyncRequest {
        application, namespace, destination, revision, options, initiated_by, deletion, ..
    } = &header.request;
    let kind = match deletion {
        Some(_) => "deletion",
        None if options.dry_run => "dry run",
        None => "sync",
    };
    Span::new(SpanId::derive(header.operation, &[]), None, kind, header.started_at)
        .with_attribute("tidegate.application", application.as_str())
        .with_attribute("tidegate.operation", header.operation.to_string())
        .with_attribute("tidegate.revision", revision.as_str())
        .with_attribute("tidegate.destination", destination.to_string())
        .with_attribute("tidegate.namespace", namespace.as_str())
        .with_attribute("tidegate.initiated_by", Requester::from_operation(initiated_by).name)
}

impl SpanBuilder {
    fn new(state: &State, header: &Header, events: &[OperationEvent]) -> Self {
        // If the first events were compacted, use the plan in the state until a later event replaces it.
        let plans = events.iter().any(|event| matches!(event, OperationEvent::Planned { .. }));
        let plan = state.operation().filter(|_| !plans).map(|operation| Arc::clone(&operation.plan));
        let next = events.iter().find_map(|event| match event {
            OperationEvent::RetryStarted { attempt, .. } | OperationEvent::ReplanStarted { attempt, .. } => {
                Some(*attempt)
            }
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
            wave_numbers: plan.wave_numbers(is_deletion),
            plan,
            now: header.started_at,
            stage_started_at: header.started_at,
            spans: vec![root_span(header)],
            open_phase: None,
            open_wave: None,
            running_tasks: BTreeMap::new(),
            ended_tasks: BTreeMap::new(),
            overridden_tasks: BTreeSet::new(),
            untimed_spans: Vec::new(),
        }
    }

    fn apply_event(&mut self, event: &OperationEvent) {
        if let Some(at) = event.at() {
            self.now = self.now.max(at);
            self.end_untimed_spans();
        }
        match event {
            OperationEvent::Planned { plan, .. } => {
                self.plan = Arc::clone(plan);
                self.wave_numbers = plan.wave_numbers(self.is_deletion);
            }
            OperationEvent::StageChanged { to, .. } => self.change_stage(to),
            OperationEvent::DryRunFailed { task, message } => self.end_task(*task, Failed, message, false),
            OperationEvent::RunnerStarted { task, .. } => drop(self.running_tasks.insert(*task, self.now)),
            OperationEvent::Applied { task, done: true, .. } => self.end_task(*task, Succeeded, "", true),
            OperationEvent::Applied { task, .. } => {
                let started = self.task_started_at(*task);
                self.running_tasks.entry(*task).or_insert(started);
            }
            OperationEvent::TaskCompleted { task, phase, message, .. }
            | OperationEvent::TaskFailed { task, phase, message, .. } => {
                self.end_task(*task, *phase, message, true)
            }
            OperationEvent::ObjectDeleted { task } => self.end_task(*task, Succeeded, "", false),
            // For other tasks, the old object is gone and a new one can be created.
            OperationEvent::DeletionCompleted { task } if self.is_prune(*task) => {
                self.end_task(*task, Succeeded, "", false)
            }
            // A user has already decided the outcome.
            OperationEvent::HookStopped { task, .. } if self.overridden_tasks.contains(task) => {}
            OperationEvent::HookStopped { task, phase, message, .. } => {
                self.end_task(*task, *phase, message, false)
            }
            OperationEvent::HookDeleted { task, error: Some(error) } => {
                self.end_task(*task, Error, error, false)
            }
            OperationEvent::Overridden { task, what, by, reason, .. } => {
                self.override_task(*task, *what, by, reason)
            }
            OperationEvent::AttemptFailed { message, .. } => self.mark_failed(message),
            OperationEvent::RetryStarted { attempt, .. } => self.start_attempt(*attempt),
            OperationEvent::ReplanStarted { attempt, .. } => {
                self.start_attempt(*attempt);
                self.plan = Arc::default();
            }
            _ => {}
        }
    }

    /// Ends the spans of events without a timestamp, at the time of the current event.
    fn end_untimed_spans(&mut self) {
        for span in std::mem::take(&mut self.untimed_spans) {
            if let Some(span) = self.spans.get_mut(span) {
                span.ended_at = self.now.max(span.started_at);
            }
        }
    }

    fn change_stage(&mut self, to: &Stage) {
        self.stage_started_at = self.now;
        match to {
            Stage::Wave { index, step } => self.start_wave_step(*index, *step),
            Stage::DryRun => self.open_phase(None),
            // Running hooks are stopped as part of their wave.
            Stage::Terminating => {}
            Stage::Planned | Stage::AwaitingRetry { .. } | Stage::Finishing { .. } => {
                self.close_phase(SUCCEEDED)
            }
        }
    }

    fn start_wave_step(&mut self, index: u32, step: WaveStep) {
        let plan = Arc::clone(&self.plan);
        let Some(planned) = plan.waves.get(TaskId(index).index()) else { return };
        if self.open_phase.is_none_or(|(phase, _)| phase != Some(planned.phase)) {
            self.open_phase(Some(planned.phase));
        }
        if self.open_wave.as_ref().is_none_or(|open| open.index != index) {
            self.close_wave(STOPPED);
            let parent = self.open_phase.and_then(|(_, span)| self.spans.get(span)).map(|span| span.id);
            let number = self.wave_numbers.displayed(planned.phase, planned.wave);
            let (phase, wave) = (planned.phase.to_string(), number.to_string());
            let span = self
                .new_span(parent, &[&phase, &wave], format!("wave {wave}"), self.now)
                .with_attribute("tidegate.phase", phase)
                .with_attribute("tidegate.wave", number)
                .with_attribute("tidegate.tasks", planned.count);
            let span = self.push_span(span);
            self.open_wave =
                Some(OpenWave { index, span, pruning_since: self.now, applying_since: self.now });
        }
        let now = self.now;
        match (&mut self.open_wave, step) {
            (Some(wave), WaveStep::Pruning) => wave.pruning_since = now,
            (Some(wave), WaveStep::Applying) => wave.applying_since = now,
            (_, WaveStep::Passed) => self.close_wave(SUCCEEDED),
            _ => {}
        }
    }

    /// Opens a phase or the dry run.
    fn open_phase(&mut self, phase: Option<Phase>) {
        self.close_phase(SUCCEEDED);
        let parent = self.spans.first().map(|whole| whole.id);
        let name = phase.map_or_else(|| "dry run".to_owned(), |phase| phase.to_string());
        let mut span = self.new_span(parent, &[&name], name.clone(), self.now);
        if phase.is_some() {
            span.set_attribute("tidegate.phase", name);
        }
        let span = self.push_span(span);
        self.open_phase = Some((phase, span));
    }

    /// Closes the open phase or dry run. A phase has the outcome of its last wave.
    fn close_phase(&mut self, outcome: &str) {
        self.close_wave(STOPPED);
        let Some((_, at)) = self.open_phase.take() else { return };
        match self.spans.get_mut(at) {
            Some(span) if span.has_attribute(OUTCOME_ATTRIBUTE) => span.ended_at = self.now,
            _ => drop(self.close_span(at, outcome)),
        }
    }

    fn close_wave(&mut self, outcome: &str) {
        let Some(OpenWave { span, .. }) = self.open_wave else { return };
        for (task, started) in std::mem::take(&mut self.running_tasks) {
            if let Some(mut span) = self.task_span(task, started) {
                span.ended_at = self.now;
                span.set_attribute(OUTCOME_ATTRIBUTE, outcome);
                let at = self.push_span(span);
                self.ended_tasks.insert(task, at);
            }
        }
        self.open_wave = None;
        let outcome = self.close_span(span, outcome);
        if let Some((_, part)) = self.open_phase
            && let Some(part) = self.spans.get_mut(part)
        {
            part.set_attribute(OUTCOME_ATTRIBUTE, outcome);
        }
    }

    /// Ends a span. Returns its outcome.
    fn close_span(&mut self, span: usize, outcome: &str) -> String {
        let now = self.now;
        let Some(span) = self.spans.get_mut(span) else { return outcome.to_owned() };
        let outcome = if span.failure.is_some() { "Failed" } else { outcome };
        span.ended_at = now.max(span.started_at);
        span.set_attribute(OUTCOME_ATTRIBUTE, outcome);
        outcome.to_owned()
    }

    /// Records that a task has finished. Later events replace the outcome.
    fn end_task(&mut self, task: TaskId, phase: OperationPhase, message: &str, is_timed: bool) {
        let started = self.running_tasks.remove(&task).unwrap_or_else(|| self.task_started_at(task));
        let now = self.now;
        let at = match self.ended_tasks.get(&task) {
            Some(at) => *at,
            None => {
                let Some(mut span) = self.task_span(task, started) else { return };
                span.ended_at = now.max(span.started_at);
                let at = self.push_span(span);
                self.ended_tasks.insert(task, at);
                if !is_timed {
                    self.untimed_spans.push(at);
                }
                at
            }
        };
        if let Some(span) = self.spans.get_mut(at) {
            span.set_attribute(OUTCOME_ATTRIBUTE, phase.to_string());
            span.set_attribute("tidegate.message", message);
            span.failure = None;
            if phase.is_unsuccessful() {
                span.mark_failed(message);
            }
        }
    }

    /// Records that a user has skipped a running or failed task, or marked it as done.
    fn override_task(&mut self, task: TaskId, what: Override, by: &str, reason: &str) {
        if !what.counts_as_done() {
            self.overridden_tasks.remove(&task);
            return;
        }
        self.overridden_tasks.insert(task);
        if self.running_tasks.contains_key(&task) || self.ended_tasks.contains_key(&task) {
            self.end_task(task, Succeeded, &format!("{} by {by}: {reason}", what.past_participle()), true);
        }
    }

    /// Marks the open wave and phase as failed.
    fn mark_failed(&mut self, message: &str) {
        let at_work = self
            .open_wave
            .as_ref()
            .map(|wave| wave.span)
            .into_iter()
            .chain(self.open_phase.map(|(_, span)| span));
        for span in at_work {
            if let Some(span) = self.spans.get_mut(span) {
                span.mark_failed(message);
            }
        }
    }

    fn start_attempt(&mut self, attempt: u32) {
        self.close_phase(STOPPED);
        self.ended_tasks.clear();
        self.attempt = attempt;
    }

    /// Returns a task's start time, approximated if it wasn't recorded.
    fn task_started_at(&self, task: TaskId) -> Timestamp {
        match &self.open_wave {
            None => self.stage_started_at,
            Some(wave) if self.is_prune(task) => wave.pruning_since,
            Some(wave) => wave.applying_since,
        }
    }

    fn is_prune(&self, task: TaskId) -> bool {
        self.plan.task(task).is_some_and(|task| task.action == Action::Prune)
    }

    fn task_span(&self, id: TaskId, started: Timestamp) -> Option<Span> {
        let plan = Arc::clone(&self.plan);
        let task @ Task { phase, wave, gvk, namespace, name, action, .. } = plan.task(id)?;
        let open = self.open_wave.as_ref().map(|wave| wave.span).or(self.open_phase.map(|(_, span)| span));
        let parent = self.spans.get(open.unwrap_or_default()).map(|span| span.id);
        let what = if task.is_hook() { "hook" } else { action.as_str() };
        let wave = self.wave_numbers.displayed(*phase, *wave);
        let (in_phase, in_wave) = (phase.to_string(), wave.to_string());
        let span = self
            .new_span(
                parent,
                &[&in_phase, &in_wave, &id.0.to_string()],
                format!("{what} {}", gvk.kind),
                started,
            )
            .with_attribute("tidegate.phase", in_phase)
            .with_attribute("tidegate.wave", wave)
            .with_attribute("tidegate.action", action.as_str())
            .with_attribute("tidegate.hook", task.is_hook())
            .with_attribute("k8s.resource.group", gvk.group.as_str())
            .with_attribute("k8s.resource.version", gvk.version.as_str())
            .with_attribute("k8s.resource.kind", gvk.kind.as_str())
            .with_attribute("k8s.resource.name", name.as_str())
            .with_attribute("k8s.namespace.name", namespace.as_str());
        Some(span)
    }

    /// Creates a span in the current attempt. `text` identifies the span within the attempt.
    fn new_span(&self, parent: Option<SpanId>, text: &[&str], name: String, started: Timestamp) -> Span {
        let attempt = self.attempt.to_string();
        let text: Vec<&str> = std::iter::once(attempt.as_str()).chain(text.iter().copied()).collect();
        Span::new(SpanId::derive(self.operation, &text), parent, name, started)
            .with_attribute("tidegate.application", self.application.as_str())
            .with_attribute("tidegate.attempt", self.attempt)
    }

    fn push_span(&mut self, span: Span) -> usize {
        self.spans.push(span);
        self.spans.len().saturating_sub(1)
    }

    /// Adds any other event to a span: a wave's if a gate is blocking it, otherwise the operation's.
    fn add_event(&mut self, event: &EventDocument) {
        if REPRESENTED_EVENTS.contains(&event.kind) {
            return;
        }
        let of_wave =
            self.open_wave.as_ref().filter(|_| event.kind == "gate-evaluated").map(|wave| wave.span);
        let now = self.now;
        if let Some(span) = self.spans.get_mut(of_wave.unwrap_or_default()) {
            span.add_event(now, event.kind, event.text.clone());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
