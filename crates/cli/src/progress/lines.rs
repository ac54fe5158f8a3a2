//! A line for each thing that happens.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_executor::{Engine, Event, EventKind};
use tidegate_lifecycle::operation::{Explanation, OperationView, WaveView};
use tidegate_model::{OperationId, OperationPhase, Phase, Timestamp, format_duration};

use crate::output::operation::style_of;
use crate::output::{Printer, Style, Text, one_line};

/// A long wait is explained this often.
const REMIND_EVERY: Duration = Duration::from_secs(15);

/// Writes lines.
pub struct Lines<'p> {
    printer: &'p Printer,
    /// Several operations: each line names its application.
    several: bool,
    seen: BTreeMap<OperationId, Seen>,
}

/// What is known of an operation.
#[derive(Default)]
struct Seen {
    started_at: Option<Timestamp>,
    waves: Vec<WaveView>,
    /// When the wave at work was begun.
    wave_since: Option<(String, Timestamp)>,
    said_at: Option<Timestamp>,
}

impl<'p> Lines<'p> {
    pub fn new(printer: &'p Printer, several: bool) -> Self {
        Self { printer, several, seen: BTreeMap::new() }
    }

    pub async fn event(&mut self, engine: &Engine, event: &Event) {
        let moved_to = match &event.what {
            EventKind::Moved { stage } => stage.as_str(),
            _ => "",
        };
        let seen = self.seen.entry(event.operation).or_default();
        let mut waits = None;
        if (seen.started_at.is_none() || seen.waves.is_empty() || may_wait(moved_to))
            && let Ok((view, explanation)) = engine.inspect(event.operation).await
        {
            seen.started_at = Some(view.started_at);
            seen.waves = view.waves;
            waits = why(moved_to, &explanation);
        }
        if let Some(number) = moved_to.split_whitespace().nth(1)
            && seen.wave_since.as_ref().is_none_or(|(known, _)| known != number)
        {
            seen.wave_since = Some((number.to_owned(), event.at));
        }
        let took = seen.wave_since.as_ref().map(|(_, since)| event.at.since(*since));
        let Some(text) = words(event, &seen.waves, waits, took.unwrap_or_default()) else { return };
        self.say(event.operation, &event.application, event.at, text);
    }

    /// Explains a long wait.
    pub fn remind(&mut self, view: &OperationView, explanation: &Explanation) {
        let said_at = self.seen.get(&view.id).and_then(|seen| seen.said_at).unwrap_or(view.started_at);
        if explanation.at.since(said_at) >= REMIND_EVERY {
            self.say(view.id, &view.app, explanation.at, Text::plain(one_line(&explanation.to_string())));
        }
    }

    fn say(&mut self, operation: OperationId, application: &str, at: Timestamp, text: Text) {
        let seen = self.seen.entry(operation).or_default();
        seen.said_at = Some(at);
        let elapsed = at.since(seen.started_at.unwrap_or(at));
        let mut line = Text::new();
        line.add(Style::Dim, format!("[{:>5}.{} s] ", elapsed.as_secs(), elapsed.subsec_millis() / 100));
        if self.several {
            line.add(Style::Bold, format!("{application}: "));
        }
        line.append(text);
        self.printer.talk(&line);
    }
}

/// Steps that may take long, and then say why.
fn may_wait(stage: &str) -> bool {
    ["Held", "AwaitingGone", "AwaitingHealth"].iter().any(|step| stage.ends_with(step))
}

/// What is awaited, if the operation is still there.
fn why(stage: &str, explanation: &Explanation) -> Option<String> {
    let wave = stage.split_whitespace().nth(1).filter(|_| may_wait(stage))?;
    if !explanation.position.starts_with(&format!("wave {wave} of ")) {
        return None;
    }
    let first = explanation.awaited.first()?;
    let more = match explanation.awaited.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = if first.why.is_empty() { String::new() } else { format!(" ({})", first.why) };
    Some(format!("{}{why}{more}", first.what))
}

fn words(event: &Event, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    Some(match &event.what {
        EventKind::Accepted => Text::plain("operation ")
            .push(Style::Bold, event.operation.to_string())
            .push(Style::Plain, " accepted"),
        EventKind::Moved { stage } => moved(stage, waves, waits, took)?,
        EventKind::Task { object, phase, message } => {
            let message = if message.is_empty() { String::new() } else { format!(": {}", one_line(message)) };
            let style = if *phase == OperationPhase::Running { Style::Plain } else { style_of(*phase) };
            Text::plain(format!("  {object} ")).push(style, phase.to_string()).push(Style::Plain, message)
        }
        EventKind::AttemptFailed { message } => {
            Text::new().push(Style::Bad, "failed").push(Style::Plain, format!(": {}", one_line(message)))
        }
        EventKind::Paused { by, held: true } => Text::new().push(Style::Warn, format!("paused by {by}")),
        EventKind::Paused { by, held: false } => Text::plain(format!("{by} lets it go on")),
        EventKind::Finished { phase, message } => Text::new()
            .push(style_of(*phase), phase.to_string())
            .push(Style::Plain, format!(": {}", one_line(message))),
    })
}

/// The steps of a wave that take no time are passed over.
fn moved(stage: &str, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    let mut parts = stage.split_whitespace();
    let (Some("Wave"), Some(number), Some(step)) = (parts.next(), parts.next(), parts.next()) else {
        return Some(Text::plain(match stage {
            "Planned" => return None,
            "DryRun" => "trying everything on the server",
            "AwaitingRetry" => "waiting for the next attempt",
            "Terminating" => "terminating: running hooks are being stopped",
            "Finishing" => "cleaning up hooks",
            other => other,
        }));
    };
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    let wave = waves.get(index)?;
    let objects = crate::output::counted(wave.tasks, "object", "objects");
    let words = match (step, waits) {
        ("Held", Some(waits)) => format!("held, waiting for {}", one_line(&waits)),
        ("AwaitingGone", Some(waits)) => format!("waiting for the deletion of {}", one_line(&waits)),
        ("AwaitingHealth", Some(waits)) => format!("waiting for {}", one_line(&waits)),
        ("Pruning", _) => "pruning".to_owned(),
        ("Applying", _) => format!("applying {objects}"),
        ("Settling", _) => "settling".to_owned(),
        ("Passed", _) => format!("passed after {}", format_duration(took)),
        _ => return None,
    };
    let mut text = Text::new();
    let in_failure = wave.phase == Phase::SyncFail;
    let total = waves.iter().filter(|wave| in_failure || wave.phase != Phase::SyncFail).count();
    text.add(Style::Accent, format!("wave {number} of {total}"));
    text.add(Style::Dim, format!(" ({}, wave {})", wave.phase, wave.wave));
    text.add(Style::Plain, format!(": {words}"));
    Some(text)
}
