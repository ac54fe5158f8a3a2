//! Progress lines: one line for each event.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_executor::{Engine, Event, EventKind};
use tidegate_lifecycle::operation::{
    ClaimEvent, Explanation, GATE_NOT_ANSWERED, NOT_OBSERVED, OperationView, PLACE_OCCUPIED, Stage, WaveStep,
    WaveView,
};
use tidegate_model::{
    OperationId, OperationOutcome, OperationPhase, Phase, Requester, Timestamp, format_duration,
};
use tidegate_views::output::OutputDocument;

use crate::output::hooks::HookLines;
use crate::output::operation::outcome_style;
use crate::output::{Printer, Style, Text, one_line};

/// Interval between explanations during a long wait.
const REMINDER_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum time to wait for the first observation after a write before printing a wait. The observation makes
/// the message more precise.
const OBSERVATION_DELAY_MAX: Duration = Duration::from_secs(2);

pub struct Lines<'p> {
    printer: &'p Printer,
    /// True if there are several operations. Each line then starts with the application's name.
    has_several_operations: bool,
    operations: BTreeMap<OperationId, OperationProgress>,
    /// Time of the first line. With several operations, times are relative to it.
    started_at: Option<Timestamp>,
    /// Time of the last line. Observations and events may arrive out of order.
    last_line_at: Timestamp,
    hooks: HookLines,
}

/// Last observed state of an operation.
#[derive(Default)]
struct OperationProgress {
    started_at: Option<Timestamp>,
    waves: Vec<WaveView>,
    /// The current wave and its start.
    wave_since: Option<(u32, Timestamp)>,
    /// Time of the last event.
    last_event_at: Timestamp,
    last_line_at: Option<Timestamp>,
    /// Last printed reason for a gate that blocks its wave.
    hold_reason: Option<String>,
    /// Stage with a wait that hasn't been printed, because the awaited objects haven't been observed.
    unprinted_wait: Option<(u32, WaveStep)>,
    /// Last printed failure.
    failed: Option<String>,
    /// True if an unresponsive cluster was already reported.
    is_trouble_reported: bool,
}

impl<'p> Lines<'p> {
    pub fn new(printer: &'p Printer, has_several_operations: bool) -> Self {
        let (operations, hooks) = (BTreeMap::new(), HookLines::default());
        Self {
            printer,
            has_several_operations,
            operations,
            started_at: None,
            last_line_at: Timestamp::default(),
            hooks,
        }
    }

    /// Prints hook output.
    pub fn output(&mut self, document: &OutputDocument) {
        self.printer.print_message(&self.hooks.format_line(document));
    }

    pub async fn event(&mut self, engine: &Engine, event: &Event) {
        let moved_to = match &event.what {
            EventKind::StageChanged { to: Stage::Wave { index, step }, .. } => Some((*index, *step)),
            _ => None,
        };
        let seen = self.operations.entry(event.operation).or_default();
        seen.last_event_at = event.at.unwrap_or(seen.last_event_at);
        let at = seen.last_event_at;
        let mut waits = None;
        if (seen.started_at.is_none()
            || seen.waves.is_empty()
            || moved_to.is_some_and(|(_, step)| can_wait(step)))
            && let Ok((view, explanation)) = engine.inspect(event.operation).await
        {
            seen.started_at = Some(view.started_at);
            seen.waves = view.waves;
            // In the Applying step, first print that the wave is being applied, then its wait.
            let may_tell = moved_to.filter(|(_, step)| *step != WaveStep::Applying);
            waits = may_tell
                .and_then(|(index, step)| find_wait_reason(index, step, at, &seen.waves, &explanation));
        }
        if let EventKind::StageChanged { .. } = event.what {
            let is_untold =
                |(_, step): &(u32, WaveStep)| can_wait(*step) && *step != WaveStep::Held && waits.is_none();
            seen.unprinted_wait = moved_to.filter(is_untold);
        }
        if let Some((index, _)) = moved_to
            && seen.wave_since.is_none_or(|(known, _)| known != index)
        {
            seen.wave_since = Some((index, at));
        }
        match &event.what {
            // If an attempt fails because a deadline passes, both events have the same message.
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlineExceeded { message, .. }
                if seen.failed.as_ref() == Some(message) =>
            {
                return;
            }
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlineExceeded { message, .. } => {
                seen.failed = Some(message.clone());
            }
            // The next attempt may fail with the same message.
            EventKind::RetryStarted { .. } => seen.failed = None,
            EventKind::StageChanged { to: Stage::Wave { step: WaveStep::Held, .. }, .. } => {
                (seen.failed, seen.hold_reason) = (None, waits.clone());
            }
            _ => {}
        }
        let took = seen.wave_since.map(|(_, since)| at.since(since));
        let Some(text) = format_event(event, &seen.waves, waits, took.unwrap_or_default()) else { return };
        self.print_line(event.operation, &event.application, at, text);
    }

    /// Explains a long wait.
    pub fn print_reminder(&mut self, view: &OperationView, explanation: &Explanation) {
        let seen = self.operations.entry(view.id).or_default();
        let said_at = seen.last_line_at.unwrap_or(view.started_at);
        // A gate isn't evaluated before its wave, and the result may change.
        let held = find_hold_reason(explanation);
        let is_held = held.is_some() && held != seen.hold_reason;
        // A failing cluster causes many errors. Report it once.
        let is_troubled = explanation.trouble.is_some() && !seen.is_trouble_reported;
        let is_long = explanation.at.since(said_at) >= REMINDER_INTERVAL;
        if let Some((index, step)) = seen.unprinted_wait
            && let Some(waits) = find_wait_reason(index, step, said_at, &view.waves, explanation)
        {
            let text = format_stage(&Stage::Wave { index, step }, &view.waves, Some(waits), Duration::ZERO);
            seen.unprinted_wait = None;
            if let (Some(text), false) = (text, is_long) {
                self.print_line(view.id, &view.app, explanation.at, text);
                return;
            }
        }
        if is_held {
            seen.hold_reason = held;
        }
        if is_held || is_troubled || is_long {
            seen.is_trouble_reported = explanation.trouble.is_some();
            self.print_line(
                view.id,
                &view.app,
                explanation.at,
                Text::plain(one_line(&explanation.to_string())),
            );
        }
    }

    fn print_line(&mut self, operation: OperationId, application: &str, at: Timestamp, text: Text) {
        let seen = self.operations.entry(operation).or_default();
        seen.last_line_at = Some(at);
        let started_at = seen.started_at.unwrap_or(at);
        self.last_line_at = self.last_line_at.max(at);
        let began = *self.started_at.get_or_insert(if self.has_several_operations { at } else { started_at });
        let elapsed = self.last_line_at.since(began);
        let mut line = Text::new();
        line.add(Style::Dim, format!("[{:>5}.{} s] ", elapsed.as_secs(), elapsed.subsec_millis() / 100));
        if self.has_several_operations {
            line.add(Style::Bold, format!("{application}: "));
        }
        line.append(text);
        self.printer.print_message(&line);
    }
}

/// Returns true for steps that may take long, and therefore need an explanation.
fn can_wait(step: WaveStep) -> bool {
    matches!(
        step,
        WaveStep::Held
            | WaveStep::AwaitingGone
            | WaveStep::Clearing
            | WaveStep::Applying
            | WaveStep::AwaitingHealth
    )
}

/// Returns what this step of a wave is waiting for, if the operation is still in it.
fn find_wait_reason(
    index: u32,
    step: WaveStep,
    since: Timestamp,
    waves: &[WaveView],
    explanation: &Explanation,
) -> Option<String> {
    let index = usize::try_from(index).ok().filter(|_| can_wait(step))?;
    let (number, total) = wave_position(waves, index);
    let position = format!("wave {number} of {total} ({}, ", waves.get(index)?.phase);
    if !explanation.position.starts_with(&position) {
        return None;
    }
    if step == WaveStep::Held {
        return find_hold_reason(explanation);
    }
    if !is_for_step(step, &explanation.progress) {
        return None;
    }
    let waited = explanation.at.since(since);
    let first = explanation
        .awaited
        .first()
        .filter(|first| first.why != NOT_OBSERVED || waited >= OBSERVATION_DELAY_MAX)?;
    let more = match explanation.awaited.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let reason = if first.why.is_empty() { String::new() } else { format!(" ({})", first.why) };
    Some(format!("{}{reason}{more}", first.what))
}

/// Returns true if the progress is that of this step. The observed operation may have moved on.
fn is_for_step(step: WaveStep, progress: &str) -> bool {
    match step {
        WaveStep::AwaitingGone | WaveStep::Clearing => {
            progress == PLACE_OCCUPIED || progress.ends_with(" being deleted")
        }
        WaveStep::Applying => progress.ends_with(" applied"),
        _ => progress.ends_with(" healthy"),
    }
}

/// Returns the reason a gate blocks a wave or its hooks, once known.
fn find_hold_reason(explanation: &Explanation) -> Option<String> {
    let is_held = explanation.progress == "held" || explanation.progress == PLACE_OCCUPIED;
    let first = explanation.awaited.first().filter(|_| is_held)?;
    (first.why != GATE_NOT_ANSWERED).then(|| format!("{} ({})", first.what, first.why))
}

/// Returns a wave's position and the number of waves. SyncFail waves are counted separately.
fn wave_position(waves: &[WaveView], index: usize) -> (usize, usize) {
    let in_failure = waves.get(index).is_some_and(|wave| wave.phase == Phase::SyncFail);
    let is_alike = |wave: &&WaveView| (wave.phase == Phase::SyncFail) == in_failure;
    let before = waves.iter().take(index).filter(is_alike).count();
    (before.saturating_add(1), waves.iter().filter(is_alike).count())
}

fn format_event(event: &Event, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    Some(match &event.what {
        EventKind::Accepted => Text::plain("operation ")
            .push(Style::Bold, event.operation.to_string())
            .push(Style::Plain, " accepted"),
        EventKind::StageChanged { to, .. } => format_stage(to, waves, waits, took)?,
        EventKind::Task { object, phase, message } => {
            let message = if message.is_empty() { String::new() } else { format!(": {}", one_line(message)) };
            let style = match phase {
                OperationPhase::Running => Style::Plain,
                _ => outcome_style(OperationOutcome::from_phase(*phase, "")),
            };
            Text::plain(format!("  {object} ")).push(style, phase.to_string()).push(Style::Plain, message)
        }
        EventKind::AttemptFailed { message, .. } | EventKind::DeadlineExceeded { message, .. } => {
            Text::new().push(Style::Bad, "failed").push(Style::Plain, format!(": {}", one_line(message)))
        }
        EventKind::RetryStarted { attempt } => Text::plain(format!("attempt {attempt} started")),
        EventKind::ClaimChanged { news: ClaimEvent::Held { .. } | ClaimEvent::Lost { .. }, .. } => {
            return None;
        }
        EventKind::ClaimChanged { message, .. } => Text::new().push(Style::Warn, one_line(message)),
        EventKind::TerminationRequested { by } => {
            Text::new().push(Style::Warn, Requester::parse(by).describe_action("terminated the operation"))
        }
        EventKind::Paused { by, .. } => Text::new().push(Style::Warn, format!("paused by {by}")),
        EventKind::Unpaused { by } => {
            Text::plain(Requester::parse(by).describe_action("resumed the operation"))
        }
        EventKind::Finished { phase, message } => {
            let outcome = OperationOutcome::from_phase(*phase, message);
            Text::new()
                .push(outcome_style(outcome), outcome.to_string())
                .push(Style::Plain, format!(": {}", one_line(message)))
        }
        // The other events are printed elsewhere or show in the next observation.
        _ => return None,
    })
}

/// Formats a stage. Skips wave steps that take no time.
fn format_stage(stage: &Stage, waves: &[WaveView], waits: Option<String>, took: Duration) -> Option<Text> {
    let (index, step) = match stage {
        Stage::Planned => return None,
        Stage::DryRun => return Some(Text::plain("validating everything on the server")),
        Stage::AwaitingRetry { .. } => return Some(Text::plain("waiting for the next attempt")),
        Stage::Terminating => return Some(Text::plain("terminating: running hooks are being stopped")),
        Stage::Finishing { .. } => return Some(Text::plain("cleaning up hooks")),
        Stage::Wave { index, step } => (usize::try_from(*index).ok()?, step),
    };
    let wave = waves.get(index)?;
    let objects = |number| crate::output::format_count(number, "object", "objects");
    let words = match (step, waits) {
        (WaveStep::Held, Some(waits)) => format!("held, waiting for {}", one_line(&waits)),
        (WaveStep::AwaitingGone, Some(waits)) => {
            format!("waiting for the deletion of {}", one_line(&waits))
        }
        (WaveStep::Clearing | WaveStep::Applying | WaveStep::AwaitingHealth, Some(waits)) => {
            format!("waiting for {}", one_line(&waits))
        }
        // Nothing to prune: all candidates are retained.
        (WaveStep::Pruning, _) if wave.prunes == 0 => return None,
        (WaveStep::Pruning, _) => format!("pruning {}", objects(wave.prunes)),
        (WaveStep::Applying, _) => format!("applying {}", objects(wave.applies)),
        (WaveStep::Settling { .. }, _) => "settling".to_owned(),
        (WaveStep::Passed, _) => format!("passed after {}", format_duration(took)),
        _ => return None,
    };
    let mut text = Text::new();
    let (number, total) = wave_position(waves, index);
    text.add(Style::Accent, format!("wave {number} of {total}"));
    text.add(Style::Dim, format!(" ({}, wave {})", wave.phase, wave.wave));
    text.add(Style::Plain, format!(": {words}"));
    Some(text)
}
