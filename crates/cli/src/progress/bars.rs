//! Progress bars, one per wave, followed by what the operation is waiting for and why.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_executor::{Event, EventKind};
use tidegate_lifecycle::operation::{
    AwaitedItem, ClaimEvent, Explanation, OperationView, Stage, WaveStep, WaveView,
};
use tidegate_model::{Phase, Requester, format_duration};
use tidegate_views::output::OutputDocument;

use crate::output::hooks::HookLines;
use crate::output::{Printer, one_line};

/// Maximum number of bars. With more waves, only those around the current wave are shown.
const BARS_MAX: usize = 14;
/// Number of bars before the current wave's.
const BARS_BEFORE: usize = 4;
/// Maximum number of awaited objects to list.
const AWAITED_MAX: usize = 5;

/// Progress bars. The operation's view determines everything, so the display looks the same after a resume.
pub struct Bars<'p> {
    printer: &'p Printer,
    area: MultiProgress,
    waves: Vec<ProgressBar>,
    lines: Vec<ProgressBar>,
    styles: Styles,
    /// Last printed failure.
    failed: Option<String>,
    hooks: HookLines,
}

struct Styles {
    pending: ProgressStyle,
    active: ProgressStyle,
    passed: ProgressStyle,
    failed: ProgressStyle,
    line: ProgressStyle,
}

impl Styles {
    fn new(colour: bool, width: Option<u16>) -> Self {
        let (prefix, length) = wave_widths(width);
        let paint = |colour_name: &str| if colour { format!(".{colour_name}") } else { String::new() };
        let bar = |sign: &str, name: &str| {
            let template = format!(
                "{sign} {{prefix:{prefix}!}} {{bar:{length}{}}} {{pos:>4}}/{{len}}  {{wide_msg}}",
                paint(name)
            );
            parse_style(&template).progress_chars("━╸─")
        };
        Self {
            pending: bar("·", "dim"),
            active: bar("▸", "cyan"),
            passed: bar("✓", "green"),
            failed: bar("✗", "red"),
            line: parse_style("    {wide_msg}"),
        }
    }
}

/// Returns the widths of a wave's name and bar. A narrow terminal needs smaller ones, because a wrapped line
/// would be redrawn over and over.
fn wave_widths(width: Option<u16>) -> (u16, u16) {
    match width {
        Some(width) if width < FULL_WIDTH_MIN => {
            (16, width.saturating_sub(16 + FIXED_COLUMNS + NOTE_MIN).clamp(BAR_MIN, BAR_MAX))
        }
        _ => (26, BAR_MAX),
    }
}

/// Minimum terminal width for bars and names at full width.
const FULL_WIDTH_MIN: u16 = 80;
/// Columns for the sign, for counts up to 99999, and for spaces.
const FIXED_COLUMNS: u16 = 17;
/// Minimum number of columns for the description of the current activity.
const NOTE_MIN: u16 = 12;
const BAR_MIN: u16 = 4;
const BAR_MAX: u16 = 24;

/// Parses a style. Falls back to the default bar if the template is invalid: a display problem must not stop
/// a sync.
fn parse_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl<'p> Bars<'p> {
    pub fn new(printer: &'p Printer) -> Self {
        let area = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        Self {
            printer,
            area,
            waves: Vec::new(),
            lines: Vec::new(),
            styles: Styles::new(printer.has_message_colors(), printer.width()),
            failed: None,
            hooks: HookLines::default(),
        }
    }

    /// Prints hook output permanently above the bars.
    pub fn output(&mut self, document: &OutputDocument) {
        let text = self.hooks.format_line(document);
        if self.area.println(text.render(self.printer.has_message_colors())).is_err() {
            self.printer.print_message(&text);
        }
    }

    /// Prints an event permanently above the bars.
    pub fn event(&mut self, event: &Event) {
        let line = match &event.what {
            EventKind::Accepted => format!("operation {} accepted", event.operation),
            // If an attempt fails because a deadline passes, both events have the same message.
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlineExceeded { message, .. }
                if self.failed.as_ref() == Some(message) =>
            {
                return;
            }
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlineExceeded { message, .. } => {
                self.failed = Some(message.clone());
                format!("failed: {}", one_line(message))
            }
            EventKind::StageChanged { to: Stage::Wave { step: WaveStep::Held, .. }, .. } => {
                return self.failed = None;
            }
            EventKind::ClaimChanged { news: ClaimEvent::Held { .. } | ClaimEvent::Lost { .. }, .. } => return,
            EventKind::ClaimChanged { message, .. } => one_line(message),
            EventKind::TerminationRequested { by } => {
                one_line(&Requester::parse(by).describe_action("terminated the operation"))
            }
            EventKind::RetryStarted { attempt } => format!("attempt {attempt} started"),
            EventKind::Paused { by, .. } => format!("paused by {}", one_line(by)),
            EventKind::Task { object, phase, message } if phase.is_unsuccessful() => {
                format!("{} {phase}: {}", one_line(&object.to_string()), one_line(message))
            }
            _ => return,
        };
        if self.area.println(&line).is_err() {
            self.printer.print_message(&crate::output::Text::plain(line));
        }
    }

    pub fn draw(&mut self, view: &OperationView, explanation: &Explanation) {
        // SyncFail waves run only after a failure. Showing them earlier would alarm users needlessly.
        let is_shown = |wave: &&WaveView| wave.phase != Phase::SyncFail || wave.opened_at.is_some();
        let waves: Vec<&WaveView> = view.waves.iter().filter(is_shown).collect();
        let at_work = waves.iter().position(|wave| wave.passed_at.is_none()).unwrap_or(waves.len());
        let skipped = match waves.len().checked_sub(BARS_MAX) {
            Some(most) => at_work.saturating_sub(BARS_BEFORE).min(most),
            None => 0,
        };
        let shown = waves.len().saturating_sub(skipped).min(BARS_MAX);
        while self.waves.len() < shown {
            self.waves.push(self.area.insert(self.waves.len(), ProgressBar::new(0)));
        }
        for (bar, (index, wave)) in self.waves.iter().zip(waves.into_iter().enumerate().skip(skipped)) {
            let note = if index == at_work { one_line(&explanation.progress) } else { String::new() };
            self.draw_wave(bar, wave, note);
        }
        self.draw_lines(explanation);
    }

    fn draw_wave(&self, bar: &ProgressBar, wave: &WaveView, note: String) {
        let (style, message) = match wave.state.as_str() {
            "Pending" => (&self.styles.pending, String::new()),
            "Passed" => {
                let took =
                    wave.opened_at.zip(wave.passed_at).map(|(from, to)| format_duration(to.since(from)));
                (&self.styles.passed, took.unwrap_or_default())
            }
            "Failed" | "Stopped" => (&self.styles.failed, wave.state.clone()),
            _ => (&self.styles.active, note),
        };
        bar.set_style(style.clone());
        bar.set_prefix(format!("{} wave {}", wave.phase, wave.wave));
        bar.set_length(wave.tasks.into());
        bar.set_position(wave.done.saturating_add(wave.skipped).into());
        bar.set_message(message);
    }

    fn draw_lines(&mut self, explanation: &Explanation) {
        let mut wanted: Vec<String> = explanation
            .awaited
            .iter()
            .take(AWAITED_MAX)
            .map(|awaited| format_line(awaited, explanation))
            .collect();
        wanted.extend(explanation.trouble.as_deref().map(one_line));
        if let more @ 1.. = explanation.awaited.len().saturating_sub(AWAITED_MAX) {
            wanted.push(format!("and {more} more"));
        }
        while self.lines.len() < wanted.len() {
            let bar = self.area.add(ProgressBar::new(0));
            bar.set_style(self.styles.line.clone());
            self.lines.push(bar);
        }
        while self.lines.len() > wanted.len() {
            if let Some(bar) = self.lines.pop() {
                bar.finish_and_clear();
                self.area.remove(&bar);
            }
        }
        for (bar, text) in self.lines.iter().zip(wanted) {
            bar.set_message(text);
            bar.tick();
        }
    }

    /// Clears the screen before the result is printed.
    pub fn clear(&mut self) {
        for bar in self.lines.drain(..).chain(self.waves.drain(..)) {
            bar.finish_and_clear();
        }
        // The remaining bars could otherwise be drawn over the output that follows.
        let _ = self.area.clear();
        self.area.set_draw_target(ProgressDrawTarget::hidden());
    }
}

fn format_line(awaited: &AwaitedItem, explanation: &Explanation) -> String {
    let waited = std::time::Duration::from_secs(explanation.at.since(awaited.since).as_secs());
    let reason = if awaited.why.is_empty() { String::new() } else { format!(": {}", one_line(&awaited.why)) };
    format!("{} for {}{reason}", one_line(&awaited.what), format_duration(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_forty_columns() {
        for width in 40..200 {
            let (prefix, bar) = wave_widths(Some(width));
            assert!(prefix + bar + FIXED_COLUMNS <= width, "{width}: {prefix} and {bar}");
        }
        assert_eq!(wave_widths(Some(80)), wave_widths(None));
    }
}
