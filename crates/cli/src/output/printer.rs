//! The only module that writes to standard output and standard error.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use tidegate_state::notices::Notices;
use tidegate_state::state_dir::with_command_arguments;

use super::text::{Style, Text};
use crate::args::Format;
use crate::error::CliError;
use crate::invocation::Invocation;

/// Standard error. Ignores write errors: a command must work even if no one reads its messages.
pub struct MessageStream;

impl Write for MessageStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().lock().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writer of results to standard output and messages to standard error.
#[derive(Debug)]
pub struct Printer {
    has_color_out: bool,
    has_color_err: bool,
    is_animated: bool,
    width: Option<u16>,
    /// True if the reader closed standard output, which isn't an error.
    is_out_closed: AtomicBool,
}

impl Printer {
    /// Creates a printer for this process. Only terminals get colors and animation, and only if `NO_COLOR`
    /// isn't set.
    pub fn from_environment() -> Self {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = !is_set("NO_COLOR") && !dumb;
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let width = if out { terminal_size::terminal_size().map(|(width, _)| width.0) } else { None };
        Self {
            has_color_out: colour && out,
            has_color_err: colour && err,
            is_animated: err && !dumb,
            width,
            is_out_closed: AtomicBool::new(false),
        }
    }

    /// Returns true if standard error is a terminal that can redraw lines.
    pub fn is_animated(&self) -> bool {
        self.is_animated
    }

    /// Returns true if standard error shows colors.
    pub fn has_message_colors(&self) -> bool {
        self.has_color_err
    }

    /// Returns the terminal width, if standard output is a terminal.
    pub fn width(&self) -> Option<u16> {
        self.width
    }

    /// Prints a result in human-readable form.
    pub fn print(&self, text: &Text) -> Result<(), CliError> {
        self.write_out(Invocation::current().adapt_commands(&text.render(self.has_color_out)).as_bytes())
    }

    /// Prints a result in a format that needs no escaping (SVG, Mermaid, shell script).
    pub fn print_raw(&self, document: &str) -> Result<(), CliError> {
        self.write_out(document.as_bytes())
    }

    /// Prints a result as JSON or YAML.
    pub fn print_value<T: Serialize + ?Sized>(&self, value: &T, format: Format) -> Result<(), CliError> {
        self.write_out(super::encoding::encode_document(value, format)?.as_bytes())
    }

    /// Prints one of several results as JSON or YAML.
    pub fn print_entry<T: Serialize + ?Sized>(&self, value: &T, format: Format) -> Result<(), CliError> {
        self.write_out(super::encoding::encode_entry(value, format)?.as_bytes())
    }

    fn write_out(&self, bytes: &[u8]) -> Result<(), CliError> {
        if self.is_out_closed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_out_closed.store(true, Ordering::Relaxed);
                Ok(())
            }
            result => Ok(result?),
        }
    }

    /// Prints a message. Write errors are ignored.
    pub fn print_message(&self, text: &Text) {
        let mut line = text.render(self.has_color_err);
        line.push('\n');
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    pub fn warn(&self, message: &str) {
        self.print_message(
            &Text::new()
                .push(Style::Warn, "warning")
                .push(Style::Plain, format!(": {}", adapt_message(message))),
        );
    }

    pub fn note(&self, message: &str) {
        self.print_message(
            &Text::new()
                .push(Style::Accent, "note")
                .push(Style::Plain, format!(": {}", adapt_message(message))),
        );
    }

    /// Prints a command's error.
    pub fn error(&self, error: &CliError) {
        match error {
            CliError::InvalidInput { problems } => {
                problems.iter().for_each(|problem| self.print_problem(problem))
            }
            CliError::Generate { problems, .. } => {
                problems.iter().for_each(|problem| self.print_problem(problem))
            }
            CliError::Strict { warnings } => warnings.iter().for_each(|warning| self.print_problem(warning)),
            _ => {}
        }
        self.print_problem(error);
    }

    fn print_problem(&self, problem: &impl ToString) {
        self.print_message(
            &Text::new()
                .push(Style::Bad, "error")
                .push(Style::Plain, format!(": {}", adapt_message(&problem.to_string()))),
        );
    }
}

/// Adds the state directory to suggested commands, and adapts them to the program's name.
fn adapt_message(message: &str) -> String {
    Invocation::current().adapt_commands(&with_command_arguments(message))
}

impl Notices for Printer {
    fn warn(&self, message: &str) {
        Self::warn(self, message);
    }

    fn note(&self, message: &str) {
        Self::note(self, message);
    }
}
