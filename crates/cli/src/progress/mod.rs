//! What is said while operations are waited for: bars on a terminal, lines elsewhere.

mod bars;
mod lines;

use std::time::Duration;

use tidegate_executor::{Engine, Event};
use tidegate_model::OperationId;
use tidegate_service::documents::output::OutputDocument;

use crate::output::Printer;

/// Fast enough to look alive, slow enough to cost nothing.
const REDRAW_EVERY: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells how operations go on.
pub enum Progress<'p> {
    /// On a terminal, for one operation.
    Bars(Box<bars::Bars<'p>>),
    /// Everywhere else.
    Lines(lines::Lines<'p>),
}

impl<'p> Progress<'p> {
    /// The right one for where standard error goes.
    pub fn new(printer: &'p Printer, operations: usize) -> Self {
        if printer.is_animated() && operations == 1 {
            Self::Bars(Box::new(bars::Bars::new(printer)))
        } else {
            Self::Lines(lines::Lines::new(printer, operations > 1))
        }
    }

    /// How often [`Progress::tick`] wants to be called.
    pub fn period(&self) -> Duration {
        match self {
            Self::Bars(_) => REDRAW_EVERY,
            Self::Lines(_) => LOOK_EVERY,
        }
    }

    /// Something happened.
    pub async fn event(&mut self, engine: &Engine, event: &Event) {
        match self {
            Self::Bars(bars) => bars.event(event),
            Self::Lines(lines) => lines.event(engine, event).await,
        }
    }

    /// Something is told of the output of hooks.
    pub fn output(&mut self, document: &OutputDocument) {
        match self {
            Self::Bars(bars) => bars.output(document),
            Self::Lines(lines) => lines.output(document),
        }
    }

    /// Time has passed.
    pub async fn tick(&mut self, engine: &Engine, open: impl Iterator<Item = OperationId> + Send) {
        for operation in open {
            if let Ok((view, explanation)) = engine.inspect(operation).await {
                match self {
                    Self::Bars(bars) => bars.draw(&view, &explanation),
                    Self::Lines(lines) => lines.remind(&view, &explanation),
                }
            }
        }
    }

    /// Nothing more happens.
    pub fn end(&mut self) {
        if let Self::Bars(bars) = self {
            bars.end();
        }
    }
}
