//! What facts about one task add to the line of its object.

use tidegate_lifecycle::operation::{DeadlineScope, Fact};
use tidegate_model::{Health, HealthStatus, OperationPhase, Override, TaskId};

use super::story::{Line, Story, Tone};
use super::telling::{because, tone_of};

/// Why something waits that is told to go.
const GOING: &str = "waits until it is gone";

impl Story {
    /// Takes in a fact about a task; every other one adds nothing.
    pub(super) fn of_task(&mut self, fact: &Fact) {
        match fact {
            Fact::Applied { task, message, done, .. } => {
                if *done {
                    return self.is(*task, ("Succeeded", Tone::Good, message), true);
                }
                let awaits = self.object(*task).map_or("", |line| line.awaits());
                let why = if message.is_empty() { awaits.to_owned() } else { format!("{message}; {awaits}") };
                self.is(*task, ("Applied", Tone::Wait, &why), false);
            }
            Fact::RunnerStarted { task, .. } => {
                self.is(*task, ("Running", Tone::Wait, "handed to its runner, whose end it waits for"), false)
            }
            Fact::HealthSeen { task, health, fresh, .. } => self.seen(*task, health, *fresh),
            Fact::ReasonSeen { task, reason, .. } if !reason.is_empty() => {
                if let Some(open) = self.object(*task).and_then(|line| line.open()) {
                    open.why.clone_from(reason);
                }
            }
            Fact::CallFailed { task: Some(task), message, .. } => {
                self.is(*task, ("A call failed", Tone::Wait, message), false);
            }
            Fact::PlaceTaken { task, by: Some(by) } => {
                let why = format!("operation {} runs it", by.operation);
                self.is(*task, ("Place taken", Tone::Wait, &why), false);
            }
            Fact::PlaceTaken { task, by: None } => self.ends(*task),
            Fact::DeletionBegun { task } | Fact::PruneSent { task, gone: false } => {
                self.is(*task, ("Deleting", Tone::Wait, GOING), false);
            }
            Fact::RecreationBegun { task, .. } => {
                let why = format!("to be created again; {GOING}");
                self.is(*task, ("Deleting", Tone::Wait, &why), false);
            }
            Fact::PruneSent { task, gone: true } => self.is(*task, ("Gone", Tone::Good, ""), true),
            Fact::ObjectGone { task } => self.gone(*task),
            Fact::TaskCompleted { task, phase, message, .. }
            | Fact::TaskFailed { task, phase, message, .. } => {
                self.ended(*task, *phase, message);
            }
            Fact::HookStopped { task, phase, message, .. } => {
                self.ended(*task, *phase, if message.is_empty() { "stopped" } else { message });
            }
            Fact::Overridden { task, what, by, reason, .. } => {
                let words = because(&format!("{} by {by}", what.done()), reason);
                self.overridden(*task, *what, &words);
            }
            Fact::CheckFailed { task, message } => self.is(*task, ("Refused", Tone::Bad, message), true),
            Fact::DeadlinePassed { scope: DeadlineScope::Hook(task), message, .. } => {
                let at = self.at;
                if let Some(line) = self.object(*task) {
                    line.mark(at, format!("deadline passed: {message}"), Tone::Bad);
                }
            }
            _ => {}
        }
    }

    /// An object is like this from here on; or was for a moment.
    fn is(&mut self, task: TaskId, (state, tone, why): (&str, Tone, &str), for_a_moment: bool) {
        let span = self.span(state, tone, why);
        let at = self.at;
        let Some(line) = self.object(task) else { return };
        line.begin(span);
        if for_a_moment {
            line.end(at);
        }
    }

    /// A person has decided. What is tried again goes on; anything else is over, however it was.
    fn overridden(&mut self, task: TaskId, what: Override, words: &str) {
        if what.passes_over() && self.object(task).is_some_and(|line| line.spans.is_empty()) {
            self.is(task, (what.done(), Tone::Dull, words), true);
        }
        let at = self.at;
        let Some(line) = self.object(task) else { return };
        if !what.passes_over() {
            return line.mark(at, words.to_owned(), Tone::Busy);
        }
        line.end(at);
        if let Some(last) = line.spans.last_mut().filter(|last| last.why.is_empty()) {
            words.clone_into(&mut last.why);
        }
        line.outcome = Some(what.done().to_owned());
        line.mark(at, words.to_owned(), Tone::Warn);
    }

    fn ends(&mut self, task: TaskId) {
        let at = self.at;
        if let Some(line) = self.object(task) {
            line.end(at);
        }
    }

    fn seen(&mut self, task: TaskId, health: &Health, fresh: bool) {
        let status = format!("{:?}", health.status);
        let awaits = self.object(task).map_or("", |line| line.awaits());
        let told = match health.message.as_str() {
            "" if health.status == HealthStatus::Progressing => awaits,
            told => told,
        };
        let why = match (fresh, told) {
            (true, message) => message.to_owned(),
            (false, "") => format!("{status} (perhaps of an older spec)"),
            (false, message) => format!("{message} (perhaps of an older spec)"),
        };
        let tone = match health.status {
            HealthStatus::Healthy => Tone::Good,
            HealthStatus::Progressing => Tone::Wait,
            HealthStatus::Degraded => Tone::Bad,
            HealthStatus::Missing => Tone::Warn,
            HealthStatus::Suspended => Tone::Wait,
            HealthStatus::Unknown => Tone::Dull,
        };
        match self.object(task).and_then(Line::open).filter(|open| open.state == status) {
            Some(open) if !why.is_empty() => open.why = why,
            Some(_) => {}
            None => self.is(task, (&status, tone, &why), false),
        }
    }

    fn gone(&mut self, task: TaskId) {
        let at = self.at;
        let Some(line) = self.object(task) else { return };
        if line.open().is_some() {
            line.outcome = Some("Gone".to_owned());
        }
        line.end(at);
        line.mark(at, "gone", Tone::Good);
    }

    fn ended(&mut self, task: TaskId, phase: OperationPhase, message: &str) {
        let (at, word, tone) = (self.at, phase.to_string(), tone_of(phase));
        let span = self.span(word.clone(), tone, message);
        let Some(line) = self.object(task) else { return };
        if line.spans.is_empty() {
            line.begin(span);
        }
        line.end(at);
        // What it was waited for until then stays told, and how long: its end is a moment.
        let is_good = tone != Tone::Bad;
        if let Some(last) = line.spans.last_mut().filter(|last| is_good && last.why.is_empty()) {
            message.clone_into(&mut last.why);
        }
        line.outcome = Some(word.clone());
        line.mark(at, because(&word, message), tone);
    }
}
