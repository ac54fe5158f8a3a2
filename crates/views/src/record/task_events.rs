//! Applies task events to the objects' timelines.

use tidegate_lifecycle::operation::{DeadlineScope, OperationEvent, Stage};
use tidegate_model::{Health, HealthStatus, OperationPhase, Override, TaskId};

use super::timeline::{Line, OperationTimeline, Tone};
use super::timeline_events::{tone_of, with_reason};

/// Reason shown while a requested deletion is in progress.
const DELETION_REASON: &str = "waiting for the deletion to finish";

/// State of an object that waits for its dependencies.
const WAITING: &str = "Waiting";

impl OperationTimeline {
    /// Applies an event if it belongs to a task. Ignores all other events.
    pub(super) fn apply_task_event(&mut self, event: &OperationEvent) {
        match event {
            OperationEvent::Applied { task, message, done, .. } => {
                if *done {
                    return self.set_object_state(*task, "Succeeded", Tone::Good, message, true);
                }
                let awaits = self.object_line(*task).map_or("", |line| line.awaited_condition());
                let why = if message.is_empty() { awaits.to_owned() } else { format!("{message}; {awaits}") };
                self.set_object_state(*task, "Applied", Tone::Wait, &why, false);
            }
            OperationEvent::RunnerStarted { task, .. } => {
                self.set_object_state(*task, "Running", Tone::Wait, "waiting for the runner", false)
            }
            OperationEvent::HealthChanged { task, health, fresh, .. } => {
                self.apply_health(*task, health, *fresh)
            }
            OperationEvent::ReasonChanged { task, reason, .. } if !reason.is_empty() => {
                if let Some(open) = self.object_line(*task).and_then(|line| line.open_span()) {
                    open.reason.clone_from(reason);
                }
            }
            OperationEvent::CallFailed { task: Some(task), message, .. } => {
                self.set_object_state(*task, "A call failed", Tone::Wait, message, false);
            }
            OperationEvent::HookNameInUse { task, by: Some(by) } => {
                let why = format!("operation {} runs it", by.operation);
                self.set_object_state(*task, "Blocked", Tone::Wait, &why, false);
            }
            OperationEvent::HookNameInUse { task, by: None } => self.end_object_span(*task),
            OperationEvent::DeletionStarted { task } => {
                self.set_object_state(*task, "Deleting", Tone::Wait, DELETION_REASON, false);
            }
            OperationEvent::RecreationStarted { task, .. } => {
                let why = format!("will be recreated; {DELETION_REASON}");
                self.set_object_state(*task, "Deleting", Tone::Wait, &why, false);
            }
            OperationEvent::ObjectDeleted { task } => {
                self.set_object_state(*task, "Gone", Tone::Good, "", true)
            }
            OperationEvent::DeletionCompleted { task } => self.apply_object_deleted(*task),
            OperationEvent::TaskCompleted { task, phase, message, .. }
            | OperationEvent::TaskFailed { task, phase, message, .. } => {
                self.apply_hook_end(*task, *phase, message);
            }
            OperationEvent::HookStopped { task, phase, message, .. } => {
                self.apply_hook_end(*task, *phase, if message.is_empty() { "stopped" } else { message });
            }
            OperationEvent::Overridden { task, what, by, reason, .. } => {
                let text = with_reason(&format!("{} by {by}", what.past_participle()), reason);
                self.apply_override(*task, *what, &text);
            }
            OperationEvent::DryRunFailed { task, message } => {
                self.set_object_state(*task, "Refused", Tone::Bad, message, true)
            }
            OperationEvent::DeadlineExceeded { scope: DeadlineScope::Hook(task), message, .. } => {
                let at = self.latest_time;
                if let Some(line) = self.object_line(*task) {
                    line.add_mark(at, format!("deadline passed: {message}"), Tone::Bad);
                }
            }
            _ => {}
        }
    }

    /// Starts a new state for an object, or records a momentary state.
    fn set_object_state(&mut self, task: TaskId, state: &str, tone: Tone, reason: &str, for_a_moment: bool) {
        let span = self.new_span(state, tone, reason);
        let at = self.latest_time;
        let Some(line) = self.object_line(task) else { return };
        line.begin_span(span);
        if for_a_moment {
            line.end_span(at);
        }
    }

    /// Applies a user's decision. A retry continues the object's timeline, and any other decision ends it.
    fn apply_override(&mut self, task: TaskId, what: Override, text: &str) {
        if what.counts_as_done() && self.object_line(task).is_some_and(|line| line.spans.is_empty()) {
            self.set_object_state(task, what.past_participle(), Tone::Dull, text, true);
        }
        let at = self.latest_time;
        let Some(line) = self.object_line(task) else { return };
        if !what.counts_as_done() {
            return line.add_mark(at, text.to_owned(), Tone::Busy);
        }
        line.end_span(at);
        if let Some(last) = line.spans.last_mut().filter(|last| last.reason.is_empty()) {
            text.clone_into(&mut last.reason);
        }
        line.outcome = Some(what.past_participle().to_owned());
        line.add_mark(at, text.to_owned(), Tone::Warn);
    }

    fn end_object_span(&mut self, task: TaskId) {
        let at = self.latest_time;
        if let Some(line) = self.object_line(task) {
            line.end_span(at);
        }
    }

    fn apply_health(&mut self, task: TaskId, health: &Health, fresh: bool) {
        let status = format!("{:?}", health.status);
        let awaits = self.object_line(task).map_or("", |line| line.awaited_condition());
        let text = match health.message.as_str() {
            "" if health.status == HealthStatus::Progressing => awaits,
            text => text,
        };
        let reason = match (fresh, text) {
            (true, message) => message.to_owned(),
            (false, "") => format!("{status} (may reflect an older spec)"),
            (false, message) => format!("{message} (may reflect an older spec)"),
        };
        let tone = match health.status {
            HealthStatus::Healthy => Tone::Good,
            HealthStatus::Progressing => Tone::Wait,
            HealthStatus::Degraded => Tone::Bad,
            HealthStatus::Missing => Tone::Warn,
            HealthStatus::Suspended => Tone::Wait,
            HealthStatus::Unknown => Tone::Dull,
        };
        match self.object_line(task).and_then(Line::open_span).filter(|open| open.state == status) {
            Some(open) if !reason.is_empty() => open.reason = reason,
            Some(_) => {}
            None => self.set_object_state(task, &status, tone, &reason, false),
        }
    }

    fn apply_object_deleted(&mut self, task: TaskId) {
        let at = self.latest_time;
        let Some(line) = self.object_line(task) else { return };
        if line.open_span().is_some() {
            line.outcome = Some("Gone".to_owned());
        }
        line.end_span(at);
        line.add_mark(at, "gone", Tone::Good);
    }

    fn apply_hook_end(&mut self, task: TaskId, phase: OperationPhase, message: &str) {
        let (at, word, tone) = (self.latest_time, phase.to_string(), tone_of(phase));
        let span = self.new_span(word.clone(), tone, message);
        let Some(line) = self.object_line(task) else { return };
        if line.spans.is_empty() {
            line.begin_span(span);
        }
        line.end_span(at);
        // The end of a wait is momentary, so add the message to the wait itself, which has a duration.
        let is_good = tone != Tone::Bad;
        if let Some(last) = line.spans.last_mut().filter(|last| is_good && last.reason.is_empty()) {
            message.clone_into(&mut last.reason);
        }
        line.outcome = Some(word.clone());
        line.add_mark(at, with_reason(&word, message), tone);
    }
}

impl OperationTimeline {
    /// Starts and updates the waits for dependencies.
    pub(super) fn update_dependency_waits(&mut self, event: &OperationEvent) {
        match event {
            OperationEvent::StageChanged { to: Stage::Wave { index, step }, .. } => {
                for id in self.dependency_waits.tasks_in(*index, *step) {
                    self.begin_dependency_wait(id);
                }
            }
            OperationEvent::TaskCompleted { task, phase: OperationPhase::Succeeded, .. }
            | OperationEvent::Applied { task, done: true, .. }
            | OperationEvent::ObjectDeleted { task }
            | OperationEvent::DeletionCompleted { task } => {
                for dependent in self.dependency_waits.satisfy(*task) {
                    self.narrow_dependency_wait(dependent);
                }
            }
            _ => {}
        }
    }

    /// Starts the wait of an object that hasn't started yet.
    fn begin_dependency_wait(&mut self, id: TaskId) {
        let Some(reason) = self.dependency_waits.describe(id) else { return };
        let span = self.new_span(WAITING, Tone::Wait, reason);
        if let Some(line) = self.object_line(id).filter(|line| line.spans.is_empty()) {
            line.begin_span(span);
        }
    }

    /// Removes a satisfied dependency from the reason of a wait. The last reason stays.
    fn narrow_dependency_wait(&mut self, id: TaskId) {
        let Some(reason) = self.dependency_waits.describe(id) else { return };
        let open = self.object_line(id).and_then(|line| line.open_span());
        if let Some(open) = open.filter(|open| open.state == WAITING) {
            open.reason = reason;
        }
    }
}
