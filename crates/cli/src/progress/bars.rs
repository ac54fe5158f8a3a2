//! A bar per wave, and below them what is awaited and why.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tidegate_executor::{Event, EventKind};
use tidegate_lifecycle::operation::{
    Awaited, ClaimNews, Explanation, OperationView, Stage, WaveStep, WaveView,
};
use tidegate_model::{Phase, Wisher, format_duration};
use tidegate_service::documents::output::OutputDocument;

use crate::output::hooks::HookLines;
use crate::output::{Printer, one_line};

/// With more waves than this, only those around the one at work have a bar.
const BARS_MAX: usize = 14;
/// Bars shown before the one at work.
const BARS_BEFORE: usize = 4;
/// Awaited objects that are named.
const AWAITED_MAX: usize = 5;

/// Draws bars. Everything is derived from the operation's view, so it shows the same after a resume.
pub struct Bars<'p> {
    printer: &'p Printer,
    area: MultiProgress,
    waves: Vec<ProgressBar>,
    lines: Vec<ProgressBar>,
    styles: Styles,
    /// The failure that was said last.
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
        let (prefix, length) = layout(width);
        let paint = |colour_name: &str| if colour { format!(".{colour_name}") } else { String::new() };
        let bar = |sign: &str, name: &str| {
            let template = format!(
                "{sign} {{prefix:{prefix}!}} {{bar:{length}{}}} {{pos:>4}}/{{len}}  {{wide_msg}}",
                paint(name)
            );
            style(&template).progress_chars("━╸─")
        };
        Self {
            pending: bar("·", "dim"),
            active: bar("▸", "cyan"),
            passed: bar("✓", "green"),
            failed: bar("✗", "red"),
            line: style("    {wide_msg}"),
        }
    }
}

/// Room for the name of a wave, and for its bar: less in a narrow terminal, where a line that breaks would be drawn over
/// and over.
fn layout(width: Option<u16>) -> (u16, u16) {
    match width {
        Some(width) if width < WIDE => {
            (16, width.saturating_sub(16 + BESIDES + NOTE_MIN).clamp(BAR_MIN, BAR_MAX))
        }
        _ => (26, BAR_MAX),
    }
}

/// From this width on there is room for everything.
const WIDE: u16 = 80;
/// Columns of the sign, the counts up to 99999, and the spaces.
const BESIDES: u16 = 17;
/// Columns that are left for what is going on.
const NOTE_MIN: u16 = 12;
const BAR_MIN: u16 = 4;
const BAR_MAX: u16 = 24;

/// A template that is wrong shows the default bar: worse, but no reason to stop a sync.
fn style(template: &str) -> ProgressStyle {
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
            styles: Styles::new(printer.colours_talk(), printer.width()),
            failed: None,
            hooks: HookLines::default(),
        }
    }

    /// What a hook writes stays on the screen, above the bars.
    pub fn output(&mut self, document: &OutputDocument) {
        let text = self.hooks.text(document);
        if self.area.println(text.render(self.printer.colours_talk())).is_err() {
            self.printer.talk(&text);
        }
    }

    /// What should stay on the screen.
    pub fn event(&mut self, event: &Event) {
        let line = match &event.what {
            EventKind::Accepted => format!("operation {} accepted", event.operation),
            // A deadline and the attempt that fails by it say the same.
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlinePassed { message, .. }
                if self.failed.as_ref() == Some(message) =>
            {
                return;
            }
            EventKind::AttemptFailed { message, .. } | EventKind::DeadlinePassed { message, .. } => {
                self.failed = Some(message.clone());
                format!("failed: {}", one_line(message))
            }
            EventKind::Moved { to: Stage::Wave { step: WaveStep::Held, .. }, .. } => {
                return self.failed = None;
            }
            EventKind::Claim { news: ClaimNews::Held { .. } | ClaimNews::Lost { .. }, .. } => return,
            EventKind::Claim { message, .. } => one_line(message),
            EventKind::TerminateRequested { by } => one_line(&Wisher::read(by).does("ends it")),
            EventKind::RetryStarted { attempt } => format!("attempt {attempt} begins"),
            EventKind::Paused { by, .. } => format!("paused by {}", one_line(by)),
            EventKind::Task { object, phase, message } if phase.is_unsuccessful() => {
                format!("{} {phase}: {}", one_line(&object.to_string()), one_line(message))
            }
            _ => return,
        };
        if self.area.println(&line).is_err() {
            self.printer.talk(&crate::output::Text::plain(line));
        }
    }

    /// Brings the screen up to date.
    pub fn draw(&mut self, view: &OperationView, explanation: &Explanation) {
        // Waves of a failure that has not happened would only frighten.
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
        let mut wanted: Vec<String> =
            explanation.awaited.iter().take(AWAITED_MAX).map(|awaited| line(awaited, explanation)).collect();
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

    /// Takes everything off the screen: the result follows.
    pub fn end(&mut self) {
        for bar in self.lines.drain(..).chain(self.waves.drain(..)) {
            bar.finish_and_clear();
        }
        // Nothing is drawn over what follows, whatever still holds a bar.
        let _ = self.area.clear();
        self.area.set_draw_target(ProgressDrawTarget::hidden());
    }
}

fn line(awaited: &Awaited, explanation: &Explanation) -> String {
    let waited = std::time::Duration::from_secs(explanation.at.since(awaited.since).as_secs());
    let why = if awaited.why.is_empty() { String::new() } else { format!(": {}", one_line(&awaited.why)) };
    format!("{} for {}{why}", one_line(&awaited.what), format_duration(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_forty_columns() {
        for width in 40..200 {
            let (prefix, bar) = layout(Some(width));
            assert!(prefix + bar + BESIDES <= width, "{width}: {prefix} and {bar}");
        }
        assert_eq!(layout(Some(80)), layout(None));
    }
}
