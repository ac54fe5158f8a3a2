//! The only place that writes to standard output and standard error.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use tidegate_service::notices::Notices;
use tidegate_service::state_dir::with_hints;

use super::text::{Style, Text};
use crate::args::Format;
use crate::called::Called;
use crate::error::CliError;

/// Standard error for those who cannot live with its end. Nobody listening is fine.
pub struct Talk;

impl Write for Talk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes results to standard output and talk to standard error.
#[derive(Debug)]
pub struct Printer {
    colour_out: bool,
    colour_err: bool,
    animated: bool,
    width: Option<u16>,
    /// The reader of standard output has gone away. That is its right, and no error.
    out_closed: AtomicBool,
}

impl Printer {
    /// A printer for this process: colour and movement only on terminals, and never with `NO_COLOR`.
    pub fn from_environment() -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = !is_set("NO_COLOR") && !dumb;
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let width = if out { terminal_size::terminal_size().map(|(width, _)| width.0) } else { None };
        Self {
            colour_out: colour && out,
            colour_err: colour && err,
            animated: err && !dumb,
            width,
            out_closed: AtomicBool::new(false),
        }
    }

    /// Whether standard error is a terminal that can redraw lines.
    pub fn is_animated(&self) -> bool {
        self.animated
    }

    /// Whether standard error shows colours.
    pub fn colours_talk(&self) -> bool {
        self.colour_err
    }

    /// Width of standard output where it is a terminal.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// A result for people.
    pub fn out(&self, text: &Text) -> Result<(), CliError> {
        self.write_out(Called::now().say(&text.render(self.colour_out)).as_bytes())
    }

    /// A result in a format of its own (SVG, Mermaid, shell script), already safe.
    pub fn raw(&self, document: &str) -> Result<(), CliError> {
        self.write_out(document.as_bytes())
    }

    /// A result for programs.
    pub fn value<T: Serialize + ?Sized>(&self, value: &T, format: Format) -> Result<(), CliError> {
        self.write_out(super::machine::document(value, format)?.as_bytes())
    }

    /// One of many results for programs.
    pub fn entry<T: Serialize + ?Sized>(&self, value: &T, format: Format) -> Result<(), CliError> {
        self.write_out(super::machine::entry(value, format)?.as_bytes())
    }

    fn write_out(&self, bytes: &[u8]) -> Result<(), CliError> {
        if self.out_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.out_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// A line of talk. Nobody listening is fine.
    pub fn talk(&self, text: &Text) {
        let mut line = text.render(self.colour_err);
        line.push('\n');
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    /// Something that needs a look.
    pub fn warn(&self, message: &str) {
        self.talk(
            &Text::new().push(Style::Warn, "warning").push(Style::Plain, format!(": {}", said(message))),
        );
    }

    /// Something that may help.
    pub fn note(&self, message: &str) {
        self.talk(
            &Text::new().push(Style::Accent, "note").push(Style::Plain, format!(": {}", said(message))),
        );
    }

    /// Why the command failed.
    pub fn error(&self, error: &CliError) {
        match error {
            CliError::BadInput { problems } => problems.iter().for_each(|problem| self.problem(problem)),
            CliError::Generate { problems, .. } => problems.iter().for_each(|problem| self.problem(problem)),
            CliError::Strict { warnings } => warnings.iter().for_each(|warning| self.problem(warning)),
            _ => {}
        }
        self.problem(error);
    }

    fn problem(&self, problem: &impl ToString) {
        self.talk(
            &Text::new()
                .push(Style::Bad, "error")
                .push(Style::Plain, format!(": {}", said(&problem.to_string()))),
        );
    }
}

/// The commands that are suggested name the state directory, and begin as people call the program.
fn said(message: &str) -> String {
    Called::now().say(&with_hints(message))
}

impl Notices for Printer {
    fn warn(&self, message: &str) {
        Self::warn(self, message);
    }

    fn note(&self, message: &str) {
        Self::note(self, message);
    }
}
