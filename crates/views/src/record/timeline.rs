//! Timelines of an operation, its waves and their objects: periods of work, waits, and the reasons for
//! waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_lifecycle::operation::OperationEvent;
use tidegate_model::{ObjectKey, Phase, Plan, Task, TaskId, Timestamp};

use super::dependency_waits::DependencyWaits;

/// Waits that every applied or deleted object goes through.
const USUAL_WAITS: [&str; 4] = ["Applied", "Running", "Progressing", "Deleting"];

/// Color class of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Good,
    Busy,
    Wait,
    Warn,
    Bad,
    Dull,
}

impl Tone {
    /// Returns the class name in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Wait => "wait",
            Self::Warn => "warn",
            Self::Bad => "bad",
            Self::Dull => "dull",
        }
    }
}

/// A period of time in a single state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Timestamp,
    /// End time. `None` while the state lasts.
    pub to: Option<Timestamp>,
    pub state: String,
    pub tone: Tone,
    /// Reason; may be empty.
    pub reason: String,
    /// Attempt, starting at 1.
    pub attempt: u32,
}

/// A momentary event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub text: String,
    pub tone: Tone,
}

/// A line in the timeline: consecutive spans and momentary events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub label: String,
    pub spans: Vec<Span>,
    pub marks: Vec<Mark>,
    /// Outcome, if the last span doesn't show it.
    pub outcome: Option<String>,
    pub is_hook: bool,
}

impl Line {
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Returns the open span, if any.
    pub fn open_span(&mut self) -> Option<&mut Span> {
        self.spans.last_mut().filter(|span| span.to.is_none())
    }

    pub fn end_span(&mut self, at: Timestamp) {
        if let Some(open) = self.open_span() {
            open.to = Some(at.max(open.from));
        }
    }

    pub fn begin_span(&mut self, span: Span) {
        self.end_span(span.from);
        self.outcome = None;
        self.spans.push(span);
    }

    pub fn add_mark(&mut self, at: Timestamp, text: impl Into<String>, tone: Tone) {
        self.marks.push(Mark { at, text: text.into(), tone });
    }

    /// Returns the total duration.
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.spans.iter().map(|span| span.to.unwrap_or(now).since(span.from)).sum()
    }

    /// Returns the total duration of all waits.
    pub fn wait_duration(&self, now: Timestamp) -> Duration {
        let waits = self.spans.iter().filter(|span| span.tone == Tone::Wait);
        waits.map(|span| span.to.unwrap_or(now).since(span.from)).sum()
    }

    /// Returns the outcome, or the last state if there is no outcome.
    pub fn state(&self) -> &str {
        if let Some(outcome) = &self.outcome {
            return outcome;
        }
        self.spans.last().map(|span| span.state.as_str()).unwrap_or_default()
    }

    /// Describes the condition that the object waits for once applied.
    pub fn awaited_condition(&self) -> &'static str {
        if self.is_hook {
            "waiting for the hook to finish"
        } else {
            "waiting for the object to become healthy"
        }
    }

    /// Returns true if the object failed or waited for something unusual.
    pub fn is_notable(&self) -> bool {
        let is_usual = |span: &Span| USUAL_WAITS.contains(&span.state.as_str());
        let is_bad = self.marks.iter().any(|mark| mark.tone == Tone::Bad);
        is_bad
            || self.spans.iter().any(|span| match span.tone {
                Tone::Wait => !is_usual(span),
                tone => tone == Tone::Bad,
            })
    }
}

/// A wave with its objects, in order.
#[derive(Clone, Debug)]
pub struct WaveTimeline {
    pub phase: Phase,
    pub line: Line,
    pub objects: Vec<Line>,
    pub(super) gates: Vec<String>,
    number: i64,
    object_indices: BTreeMap<ObjectKey, usize>,
}

impl WaveTimeline {
    fn new(phase: Phase, number: i64) -> Self {
        let line = Line::new(format!("{phase}, wave {number}"));
        Self { phase, line, objects: Vec::new(), gates: Vec::new(), number, object_indices: BTreeMap::new() }
    }

    /// Returns the index of the line for a task's object, creating the line if necessary.
    fn object_index(&mut self, task: &Task) -> usize {
        let Self { objects, object_indices, .. } = self;
        *object_indices.entry(task.key()).or_insert_with(|| {
            let hook = if task.is_hook() { "hook " } else { "" };
            let namespace =
                if task.namespace.is_empty() { String::new() } else { format!("{}/", task.namespace) };
            let label = format!("{hook}{} {namespace}{}", task.gvk.kind, task.name);
            objects.push(Line { is_hook: task.is_hook(), ..Line::new(label) });
            objects.len().saturating_sub(1)
        })
    }
}

/// Timelines of an operation, derived from its events.
#[derive(Clone, Debug)]
pub struct OperationTimeline {
    pub operation: Line,
    /// Waves in plan order, with those of earlier plans first.
    pub waves: Vec<WaveTimeline>,
    /// Time of the latest event.
    pub latest_time: Timestamp,
    pub is_over: bool,
    /// True if the operation deletes the Application.
    pub(super) is_deletion: bool,
    pub(super) attempt: u32,
    /// Reason for the newest attempt's failure.
    pub(super) failure: String,
    /// State of the operation before it was paused.
    pub(super) state_before_pause: Option<(String, Tone, String)>,
    /// Index of the running wave.
    pub(super) current_wave: Option<usize>,
    /// Indices of the newest plan's waves and tasks.
    wave_indices: Vec<usize>,
    task_indices: Vec<(usize, usize)>,
    /// Waits for dependencies within the newest plan.
    pub(super) dependency_waits: DependencyWaits,
}

impl OperationTimeline {
    /// Builds the timelines from the events.
    pub fn from_events(events: &[OperationEvent]) -> Self {
        let mut story = Self {
            operation: Line::new("Operation"),
            waves: Vec::new(),
            latest_time: events.iter().find_map(OperationEvent::at).unwrap_or_default(),
            is_over: false,
            is_deletion: false,
            attempt: 1,
            failure: String::new(),
            state_before_pause: None,
            current_wave: None,
            wave_indices: Vec::new(),
            task_indices: Vec::new(),
            dependency_waits: DependencyWaits::default(),
        };
        for event in events {
            story.latest_time = event.at().map_or(story.latest_time, |at| at.max(story.latest_time));
            story.apply_event(event);
            story.update_dependency_waits(event);
        }
        story
    }

    /// Returns the start time.
    pub fn start_time(&self) -> Timestamp {
        self.operation.spans.first().map_or(self.latest_time, |span| span.from)
    }

    pub(super) fn apply_plan(&mut self, plan: &Plan) {
        self.wave_indices.clear();
        self.task_indices.clear();
        self.dependency_waits = DependencyWaits::from_plan(plan);
        let numbers = plan.wave_numbers(self.is_deletion);
        for planned in &plan.waves {
            let number = numbers.displayed(planned.phase, planned.wave);
            let is_it = |wave: &WaveTimeline| (wave.phase, wave.number) == (planned.phase, number);
            let place = self.waves.iter().position(is_it).unwrap_or(self.waves.len());
            if place == self.waves.len() {
                self.waves.push(WaveTimeline::new(planned.phase, number));
            }
            self.wave_indices.push(place);
            let Some(wave) = self.waves.get_mut(place) else { continue };
            wave.gates.clone_from(&planned.gates);
            let of_tasks = plan.tasks_of(planned).iter().map(|task| (place, wave.object_index(task)));
            self.task_indices.extend(of_tasks);
        }
    }

    /// Sets the running wave, given its index in the newest plan.
    pub(super) fn enter_wave(&mut self, index: Option<u32>) {
        self.current_wave = index.and_then(|index| self.wave_indices.get(TaskId(index).index()).copied());
    }

    /// Returns the running wave.
    pub(super) fn current_wave_mut(&mut self) -> Option<&mut WaveTimeline> {
        self.waves.get_mut(self.current_wave?)
    }

    /// Returns the line for a task's object.
    pub(super) fn object_line(&mut self, task: TaskId) -> Option<&mut Line> {
        let (wave, object) = *self.task_indices.get(task.index())?;
        self.waves.get_mut(wave)?.objects.get_mut(object)
    }

    /// Returns true if the newest plan has more than one wave.
    pub(super) fn has_waves(&self) -> bool {
        self.wave_indices.len() > 1
    }

    /// Creates a span that starts now.
    pub(super) fn new_span(&self, state: impl Into<String>, tone: Tone, reason: impl Into<String>) -> Span {
        Span {
            from: self.latest_time,
            to: None,
            state: state.into(),
            tone,
            reason: reason.into(),
            attempt: self.attempt,
        }
    }

    /// Ends all lines. The running wave, if any, gets the given outcome.
    pub(super) fn end_all_lines(&mut self, outcome: &str) {
        let at = self.latest_time;
        for wave in &mut self.waves {
            if wave.line.open_span().is_some() {
                wave.line.outcome = Some(outcome.to_owned());
            }
            wave.line.end_span(at);
            wave.objects.iter_mut().for_each(|line| line.end_span(at));
        }
    }
}
