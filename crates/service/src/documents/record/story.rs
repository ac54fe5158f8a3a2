//! Who was at work when, what was waited for, and why: lines of time, for the operation, its waves and their objects.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_lifecycle::operation::Fact;
use tidegate_model::{ObjectKey, Phase, Plan, Task, TaskId, Timestamp};

/// What every object waits for that is applied or deleted.
const USUAL: [&str; 4] = ["Applied", "Running", "Progressing", "Deleting"];

/// How a span of time is told from others.
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
    /// The class of the style sheet.
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

/// A span of time in which one thing was so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: Timestamp,
    /// `None` while it goes on.
    pub to: Option<Timestamp>,
    pub state: String,
    pub tone: Tone,
    /// May be empty.
    pub why: String,
    /// From 1.
    pub attempt: u32,
}

/// A moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: Timestamp,
    pub text: String,
    pub tone: Tone,
}

/// A line of the timeline: spans one after the other, and moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub label: String,
    pub spans: Vec<Span>,
    pub marks: Vec<Mark>,
    /// How it has ended, where its last span does not say so.
    pub outcome: Option<String>,
    pub is_hook: bool,
}

impl Line {
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// What goes on.
    pub fn open(&mut self) -> Option<&mut Span> {
        self.spans.last_mut().filter(|span| span.to.is_none())
    }

    pub fn end(&mut self, at: Timestamp) {
        if let Some(open) = self.open() {
            open.to = Some(at.max(open.from));
        }
    }

    pub fn begin(&mut self, span: Span) {
        self.end(span.from);
        self.outcome = None;
        self.spans.push(span);
    }

    pub fn mark(&mut self, at: Timestamp, text: impl Into<String>, tone: Tone) {
        self.marks.push(Mark { at, text: text.into(), tone });
    }

    /// How long it took in all.
    pub fn took(&self, now: Timestamp) -> Duration {
        self.spans.iter().map(|span| span.to.unwrap_or(now).since(span.from)).sum()
    }

    /// How much of that it waited.
    pub fn waited(&self, now: Timestamp) -> Duration {
        let waits = self.spans.iter().filter(|span| span.tone == Tone::Wait);
        waits.map(|span| span.to.unwrap_or(now).since(span.from)).sum()
    }

    /// How it has ended, or how it stood last.
    pub fn state(&self) -> &str {
        if let Some(outcome) = &self.outcome {
            return outcome;
        }
        self.spans.last().map(|span| span.state.as_str()).unwrap_or_default()
    }

    /// What it waits for once it is written.
    pub fn awaits(&self) -> &'static str {
        if self.is_hook { "waits for its end" } else { "waits for its health" }
    }

    /// Whether it waited for what not every object waits for that is applied or deleted, or went wrong.
    pub fn is_notable(&self) -> bool {
        let is_usual = |span: &Span| USUAL.contains(&span.state.as_str());
        let is_bad = self.marks.iter().any(|mark| mark.tone == Tone::Bad);
        is_bad
            || self.spans.iter().any(|span| match span.tone {
                Tone::Wait => !is_usual(span),
                tone => tone == Tone::Bad,
            })
    }
}

/// A wave, and its objects in their order.
#[derive(Clone, Debug)]
pub struct WaveStory {
    pub phase: Phase,
    pub line: Line,
    pub objects: Vec<Line>,
    pub(super) gates: Vec<String>,
    number: i64,
    known: BTreeMap<ObjectKey, usize>,
}

impl WaveStory {
    fn new(phase: Phase, number: i64) -> Self {
        let line = Line::new(format!("{phase}, wave {number}"));
        Self { phase, line, objects: Vec::new(), gates: Vec::new(), number, known: BTreeMap::new() }
    }

    /// The place of the line of a task's object, which is made where there is none yet.
    fn place(&mut self, task: &Task) -> usize {
        let Self { objects, known, .. } = self;
        *known.entry(task.key()).or_insert_with(|| {
            let hook = if task.is_hook() { "hook " } else { "" };
            let namespace =
                if task.namespace.is_empty() { String::new() } else { format!("{}/", task.namespace) };
            let label = format!("{hook}{} {namespace}{}", task.gvk.kind, task.name);
            objects.push(Line { is_hook: task.is_hook(), ..Line::new(label) });
            objects.len().saturating_sub(1)
        })
    }
}

/// What the facts tell.
#[derive(Clone, Debug)]
pub struct Story {
    pub operation: Line,
    /// In the order of the plan; those of an earlier plan first.
    pub waves: Vec<WaveStory>,
    /// The newest moment that a fact knows.
    pub at: Timestamp,
    pub is_over: bool,
    /// It deletes the application.
    pub(super) is_deletion: bool,
    pub(super) attempt: u32,
    /// Why the newest attempt failed.
    pub(super) failure: String,
    /// What was under way before somebody held it.
    pub(super) held: Option<(String, Tone, String)>,
    /// The wave that is at work.
    pub(super) current: Option<usize>,
    /// Where the waves and the tasks of the newest plan are, by their places in it.
    of_waves: Vec<usize>,
    of_tasks: Vec<(usize, usize)>,
}

impl Story {
    /// The story that facts tell.
    pub fn of(facts: &[Fact]) -> Self {
        let mut story = Self {
            operation: Line::new("Operation"),
            waves: Vec::new(),
            at: facts.iter().find_map(Fact::at).unwrap_or_default(),
            is_over: false,
            is_deletion: false,
            attempt: 1,
            failure: String::new(),
            held: None,
            current: None,
            of_waves: Vec::new(),
            of_tasks: Vec::new(),
        };
        for fact in facts {
            story.at = fact.at().map_or(story.at, |at| at.max(story.at));
            story.take(fact);
        }
        story
    }

    /// When it began.
    pub fn from(&self) -> Timestamp {
        self.operation.spans.first().map_or(self.at, |span| span.from)
    }

    pub(super) fn planned(&mut self, plan: &Plan) {
        self.of_waves.clear();
        self.of_tasks.clear();
        let numbers = plan.wave_numbers(self.is_deletion);
        for planned in &plan.waves {
            let number = numbers.shown(planned.phase, planned.wave);
            let is_it = |wave: &WaveStory| (wave.phase, wave.number) == (planned.phase, number);
            let place = self.waves.iter().position(is_it).unwrap_or(self.waves.len());
            if place == self.waves.len() {
                self.waves.push(WaveStory::new(planned.phase, number));
            }
            self.of_waves.push(place);
            let Some(wave) = self.waves.get_mut(place) else { continue };
            wave.gates.clone_from(&planned.gates);
            let of_tasks = plan.tasks_of(planned).iter().map(|task| (place, wave.place(task)));
            self.of_tasks.extend(of_tasks);
        }
    }

    /// The wave at a place of the newest plan.
    pub(super) fn enter(&mut self, index: Option<u32>) {
        self.current = index.and_then(|index| self.of_waves.get(TaskId(index).index()).copied());
    }

    /// The line of the wave that is at work.
    pub(super) fn wave(&mut self) -> Option<&mut WaveStory> {
        self.waves.get_mut(self.current?)
    }

    /// The line of a task's object.
    pub(super) fn object(&mut self, task: TaskId) -> Option<&mut Line> {
        let (wave, object) = *self.of_tasks.get(task.index())?;
        self.waves.get_mut(wave)?.objects.get_mut(object)
    }

    /// Whether the newest plan has more than one wave.
    pub(super) fn has_waves(&self) -> bool {
        self.of_waves.len() > 1
    }

    /// From now on it is so.
    pub(super) fn span(&self, state: impl Into<String>, tone: Tone, why: impl Into<String>) -> Span {
        Span { from: self.at, to: None, state: state.into(), tone, why: why.into(), attempt: self.attempt }
    }

    /// All lines end; a wave that is at work has this outcome.
    pub(super) fn end_all(&mut self, outcome: &str) {
        let at = self.at;
        for wave in &mut self.waves {
            if wave.line.open().is_some() {
                wave.line.outcome = Some(outcome.to_owned());
            }
            wave.line.end(at);
            wave.objects.iter_mut().for_each(|line| line.end(at));
        }
    }
}
