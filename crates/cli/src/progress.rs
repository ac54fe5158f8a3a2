//! Progress of operations while a command waits for them: bars on a terminal, lines everywhere else.

mod bars;
mod lines;

use std::time::Duration;

use tidegate_executor::{Engine, Event};
use tidegate_model::OperationId;
use tidegate_views::output::OutputDocument;

use crate::output::Printer;

/// Redraw interval: short enough to look smooth, long enough to use little CPU time.
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Progress display.
pub enum Progress<'p> {
    /// Progress bars for one operation on a terminal.
    Bars(Box<bars::Bars<'p>>),
    /// Lines for several operations, or if standard error isn't a terminal.
    Lines(lines::Lines<'p>),
}

impl<'p> Progress<'p> {
    /// Creates a display for standard error: bars on a terminal, lines everywhere else.
    pub fn new(printer: &'p Printer, operations: usize) -> Self {
        if printer.is_animated() && operations == 1 {
            Self::Bars(Box::new(bars::Bars::new(printer)))
        } else {
            Self::Lines(lines::Lines::new(printer, operations > 1))
        }
    }

    /// Returns the interval at which to call [`Progress::tick`].
    pub fn period(&self) -> Duration {
        match self {
            Self::Bars(_) => REDRAW_INTERVAL,
            Self::Lines(_) => POLL_INTERVAL,
        }
    }

    /// Handles an event.
    pub async fn event(&mut self, engine: &Engine, event: &Event) {
        match self {
            Self::Bars(bars) => bars.event(event),
            Self::Lines(lines) => lines.event(engine, event).await,
        }
    }

    /// Handles hook output.
    pub fn output(&mut self, document: &OutputDocument) {
        match self {
            Self::Bars(bars) => bars.output(document),
            Self::Lines(lines) => lines.output(document),
        }
    }

    /// Updates the display. Call this every [`Progress::period`].
    pub async fn tick(&mut self, engine: &Engine, open: impl Iterator<Item = OperationId> + Send) {
        for operation in open {
            if let Ok((view, explanation)) = engine.inspect(operation).await {
                match self {
                    Self::Bars(bars) => bars.draw(&view, &explanation),
                    Self::Lines(lines) => lines.print_reminder(&view, &explanation),
                }
            }
        }
    }

    pub fn end(&mut self) {
        if let Self::Bars(bars) = self {
            bars.clear();
        }
    }
}
