//! A line for each thing that happens.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_executor::{Engine, Event, EventKind};
use tidegate_lifecycle::operation::{
    ClaimNews, Explanation, NOT_ANSWERED, NOT_SEEN, OperationView, PLACE_TAKEN, Stage, WaveStep, WaveView,
};
use tidegate_model::{OperationId, OperationPhase, Phase, Timestamp, Wisher, format_duration};
use tidegate_service::documents::output::OutputDocument;

use crate::output::hooks::HookLines;
use crate::output::operation::style_of;
use crate::output::{Printer, Style, Text, one_line};

/// A long wait is explained this often.
const REMIND_EVERY: Duration = Duration::from_secs(15);
/// Sights come a moment after a write, and then say more. A wait is not told without one until this has passed.
const SIGHT_WITHIN: Duration = Duration::from_secs(2);

pub struct Lines<'p> {
    printer: &'p Printer,
    /// Several operations: each line names its application.
    several: bool,
    seen: BTreeMap<OperationId, Seen>,
    /// What the first line was said of; times of several operations are counted from there.
    began: Option<Timestamp>,
    /// The last time that was said. A look and an event may come in another order than they happened.
    said_at: Timestamp,
    hooks: HookLines,
}

/// What is known of an operation.
#[derive(Default)]
struct Seen {
    started_at: Option<Timestamp>,
    waves: Vec<WaveView>,
    /// When the wave at work was begun.
    wave_since: Option<(u32, Timestamp)>,
    /// When something happened last.
    at: Timestamp,
    said_at: Option<Timestamp>,
    /// Why its wave is held, as it was said.
    held: Option<String>,
    /// The stage whose wait was not told, because nothing had been seen of what is awaited.
    untold: Option<(u32, WaveStep)>,
    /// The failure that was said last.
    failed: Option<String>,
    /// It was said that the cluster does not answer.
    troubled: bool,
}

impl<'p> Lines<'p> {
    pub fn new(printer: &'p Printer, several: bool) -> Self {
        let (seen, hooks) = (BTreeMap::new(), HookLines::default());
        Self { printer, several, seen, began: None, said_at: Timestamp::default(), hooks }
    }

    /// What a hook writes.
    pub fn output(&mut self, document: &OutputDocument) {
        self.printer.talk(&self.hooks.text(document));
    }

    pub async fn event(&mut self, engine: &Engine, event: &Event) {
        let moved_to = match &event.what {
            EventKind::Moved { to: Stage::Wave { index, step }, .. } => Some((*index, *step)),
            _ => None,
        };
        let seen = self.seen.entry(event.operation).or_default();
        seen.at = event.at.unwrap_or(seen.at);
        let at = seen.at;
        let mut waits = None;
        if (seen.started_at.is_none() || seen.waves.is_empty() || moved_to.is_some_and(may_wait))
            && let Ok((view, explanation)) = engine.inspect(event.operation).await
        {
            seen.started_at = Some(view.started_at);
            seen.waves = view.waves;
            // That it begins to apply is told first.
            let may_tell = moved_to.filter(|(_, step)| *step != WaveStep::Applying);
            waits = may_tell.and_then(|moved_to| why(moved_to, at, &seen.waves, &explanation));
        }
        if let EventKind::Moved { .. } = event.what {
            let is_untold = |at: &(u32, WaveStep)| may_wait(*at) && at.1 != WaveStep::Held && waits.is_none();
            seen.untold = moved_to.filter(is_untold);
        }
        if let Some((index, _)) = moved_to
            && seen.wave_since.is_none_or(|(known, _)| known != index)
        {
            seen.wave_since = Some((index, at));
        }
        match &event.what {
            // A deadline and the attempt that fails by it say the same.
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlinePassed { message, .. }
                if seen.failed.as_ref() == Some(message) =>
            {
                return;
            }
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlinePassed { message, .. } => {
                seen.failed = Some(message.clone());
            }
            // Another attempt may fail with the same words.
            EventKind::RetryStarted { .. } => seen.failed = None,
            EventKind::Moved { to: Stage::Wave { step: WaveStep::Held, .. }, .. } => {
                (seen.failed, seen.held) = (None, waits.clone());
            }
            _ => {}
        }
        let took = seen.wave_since.map(|(_, since)| at.since(since));
        let Some(text) = words(event, &seen.waves, waits, took.unwrap_or_default()) else { return };
        self.say(event.operation, &event.application, at, text);
    }

    /// Explains a long wait.
    pub fn remind(&mut self, view: &OperationView, explanation: &Explanation) {
        let seen = self.seen.entry(view.id).or_default();
        let said_at = seen.said_at.unwrap_or(view.started_at);
        // A gate answers after its wave was reached, and may change its mind.
        let held = held_by(explanation);
        let is_held = held.is_some() && held != seen.held;
        // A cluster that has trouble may have it again and again.
        let is_troubled = explanation.trouble.is_some() && !seen.troubled;
        let is_long = explanation.at.since(said_at) >= REMIND_EVERY;
        if let Some((index, step)) = seen.untold
            && let Some(waits) = why((index, step), said_at, &view.waves, explanation)
        {
            let text = moved(&Stage::Wave { index, step }, &view.waves, Some(waits), Duration::ZERO);
            seen.untold = None;
            if let (Some(text), false) = (text, is_long) {
                self.say(view.id, &view.app, explanation.at, text);
                return;
            }
        }
        if is_held {
            seen.held = held;
        }
        if is_held || is_troubled || is_long {
            seen.troubled = explanation.trouble.is_some();
            self.say(view.id, &view.app, explanation.at, Text::plain(one_line(&explanation.to_string())));
        }
    }

    fn say(&mut self, operation: OperationId, application: &str, at: Timestamp, text: Text) {
        let seen = self.seen.entry(operation).or_default();
        seen.said_at = Some(at);
        let started_at = seen.started_at.unwrap_or(at);
        self.said_at = self.said_at.max(at);
        let began = *self.began.get_or_insert(if self.several { at } else { started_at });
        let elapsed = self.said_at.since(began);
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
fn may_wait((_, step): (u32, WaveStep)) -> bool {
    matches!(
        step,
        WaveStep::Held
            | WaveStep::AwaitingGone
            | WaveStep::Clearing
            | WaveStep::Applying
            | WaveStep::AwaitingHealth
    )
}

/// What is awaited in a step of a wave, if the operation is still there.
fn why(
    at: (u32, WaveStep),
    since: Timestamp,
    waves: &[WaveView],
    explanation: &Explanation,
) -> Option<String> {
    let index = usize::try_from(at.0).ok().filter(|_| may_wait(at))?;
    let (number, total) = place(waves, index);
    let position = format!("wave {number} of {total} ({}, ", waves.get(index)?.phase);
    if !explanation.position.starts_with(&position) {
        return None;
    }
    if at.1 == WaveStep::Held {
        return held_by(explanation);
    }
    if !is_about(at.1, &explanation.progress) {
        return None;
    }
    let waited = explanation.at.since(since);
    let first =
        explanation.awaited.first().filter(|first| first.why != NOT_SEEN || waited >= SIGHT_WITHIN)?;
    let more = match explanation.awaited.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let why = if first.why.is_empty() { String::new() } else { format!(" ({})", first.why) };
    Some(format!("{}{why}{more}", first.what))
}

/// Whether a step is what goes on: the operation may have come further before anybody looked.
fn is_about(step: WaveStep, progress: &str) -> bool {
    match step {
        WaveStep::AwaitingGone | WaveStep::Clearing => {
            progress == PLACE_TAKEN || progress.ends_with(" being deleted")
        }
        WaveStep::Applying => progress.ends_with(" applied"),
        _ => progress.ends_with(" healthy"),
    }
}

/// What keeps a wave closed or its hooks away, once it is known.
fn held_by(explanation: &Explanation) -> Option<String> {
    let is_held = explanation.progress == "held" || explanation.progress == PLACE_TAKEN;
    let first = explanation.awaited.first().filter(|_| is_held)?;
    (first.why != NOT_ANSWERED).then(|| format!("{} ({})", first.what, first.why))
}

/// The number of a wave, and of how many. The SyncFail waves are counted by themselves.
fn place(waves: &[WaveView], index: usize) -> (usize, usize) {
    let in_failure = waves.get(index).is_some_and(|wave| wave.phase == Phase::SyncFail);
    let is_alike = |wave: &&WaveView| (wave.phase == Phase::SyncFail) == in_failure;
    let before = waves.iter().take(index).filter(is_alike).count();
    (before.saturating_add(1), waves.iter().filter(is_alike).count())
}

fn words(event: &Event, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    Some(match &event.what {
        EventKind::Accepted => Text::plain("operation ")
            .push(Style::Bold, event.operation.to_string())
            .push(Style::Plain, " accepted"),
        EventKind::Moved { to, .. } => moved(to, waves, waits, took)?,
        EventKind::Task { object, phase, message } => {
            let message = if message.is_empty() { String::new() } else { format!(": {}", one_line(message)) };
            let style = if *phase == OperationPhase::Running { Style::Plain } else { style_of(*phase) };
            Text::plain(format!("  {object} ")).push(style, phase.to_string()).push(Style::Plain, message)
        }
        EventKind::AttemptFailed { message, .. } | EventKind::DeadlinePassed { message, .. } => {
            Text::new().push(Style::Bad, "failed").push(Style::Plain, format!(": {}", one_line(message)))
        }
        EventKind::RetryStarted { attempt } => Text::plain(format!("attempt {attempt} begins")),
        EventKind::Claim { news: ClaimNews::Held { .. } | ClaimNews::Lost { .. }, .. } => return None,
        EventKind::Claim { message, .. } => Text::new().push(Style::Warn, one_line(message)),
        EventKind::TerminateRequested { by } => {
            Text::new().push(Style::Warn, Wisher::read(by).does("ends it"))
        }
        EventKind::Paused { by, .. } => Text::new().push(Style::Warn, format!("paused by {by}")),
        EventKind::Unpaused { by } => Text::plain(Wisher::read(by).does("lets it go on")),
        EventKind::Finished { phase, message } => Text::new()
            .push(style_of(*phase), phase.to_string())
            .push(Style::Plain, format!(": {}", one_line(message))),
        // What follows from them is told, or the next look shows it.
        _ => return None,
    })
}

/// The steps of a wave that take no time are passed over.
fn moved(stage: &Stage, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    let (index, step) = match stage {
        Stage::Planned => return None,
        Stage::DryRun => return Some(Text::plain("trying everything on the server")),
        Stage::AwaitingRetry { .. } => return Some(Text::plain("waiting for the next attempt")),
        Stage::Terminating => return Some(Text::plain("terminating: running hooks are being stopped")),
        Stage::Finishing { .. } => return Some(Text::plain("cleaning up hooks")),
        Stage::Wave { index, step } => (usize::try_from(*index).ok()?, step),
    };
    let wave = waves.get(index)?;
    let objects = |number| crate::output::counted(number, "object", "objects");
    let words = match (step, waits) {
        (WaveStep::Held, Some(waits)) => format!("held, waiting for {}", one_line(&waits)),
        (WaveStep::AwaitingGone, Some(waits)) => {
            format!("waiting for the deletion of {}", one_line(&waits))
        }
        (WaveStep::Clearing | WaveStep::Applying | WaveStep::AwaitingHealth, Some(waits)) => {
            format!("waiting for {}", one_line(&waits))
        }
        // All that it could prune is left where it is.
        (WaveStep::Pruning, _) if wave.prunes == 0 => return None,
        (WaveStep::Pruning, _) => format!("pruning {}", objects(wave.prunes)),
        (WaveStep::Applying, _) => format!("applying {}", objects(wave.applies)),
        (WaveStep::Settling { .. }, _) => "settling".to_owned(),
        (WaveStep::Passed, _) => format!("passed after {}", format_duration(took)),
        _ => return None,
    };
    let mut text = Text::new();
    let (number, total) = place(waves, index);
    text.add(Style::Accent, format!("wave {number} of {total}"));
    text.add(Style::Dim, format!(" ({}, wave {})", wave.phase, wave.wave));
    text.add(Style::Plain, format!(": {words}"));
    Some(text)
}
