//! The `tidegate` command.
//!
//! ```text
//! args ──▶ request ──▶ commands ──▶ service::session ──▶ wait ──▶ commands::report ──▶ exit
//!             ▲            │                              │
//!           input          └── operation_access           └──▶ progress, output
//! ```
//!
//! Data goes to standard output, messages to standard error, and only [`output::Printer`] writes either.
//! [`exit::exit_code`] determines the exit code.

mod args;
mod commands;
mod control_namespace;
mod customizations;
mod error;
mod exit;
mod input;
mod invocation;
mod output;
mod progress;
#[cfg(test)]
mod reference;
mod request;
mod signals;
mod wait;

use std::ffi::OsString;
use std::io::ErrorKind;

use clap::FromArgMatches as _;
use rustix::fs::Mode;
use rustix::process::umask;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::invocation::Invocation;
use crate::output::Printer;

/// jemalloc instead of glibc, which holds on to memory that threads free and needs about a third more with
/// many objects (BENCHMARKS.md).
#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let code = run();
    // Don't wait for the remaining threads: all files are written and closed.
    std::process::exit(code);
}

fn run() -> i32 {
    let cli = match command_line() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, usage errors to standard error. A closed pipe isn't an
            // error.
            return match error.print() {
                Err(source) if !error.use_stderr() && source.kind() != ErrorKind::BrokenPipe => {
                    report_outcome(&Printer::from_environment(), &Err(source.into()))
                }
                _ => error.exit_code(),
            };
        }
    };
    close_new_files(&cli.command);
    let printer = Printer::from_environment();
    init_tracing(cli.verbose, &cli.command, &printer);
    if let Err(error) = control_namespace::initialize(&cli.command) {
        return report_outcome(&printer, &Err(error));
    }
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(async {
                signals::ignore_size_limit_signal();
                commands::run(cli.command, &printer).await
            });
            runtime.shutdown_background();
            outcome
        }
        Err(source) => Err(CliError::io("start", "threads", source)),
    };
    report_outcome(&printer, &outcome)
}

/// Parses the command line. Adds the hidden `__complete` subcommand if kubectl requests completions, because
/// kubectl passes only the words to complete.
fn command_line() -> Result<Cli, clap::Error> {
    let called = Invocation::current();
    let mut given: Vec<OsString> = std::env::args_os().collect();
    if called == Invocation::Completer {
        given.insert(1.min(given.len()), "__complete".into());
    }
    let mut command = called.command();
    let matches = command.try_get_matches_from_mut(given)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Makes all new files of this process and its children private to their owner. Examples and man pages are an
/// exception, because others may read them. Must be called before the first thread starts.
fn close_new_files(command: &Command) {
    if !matches!(command, Command::Example(_) | Command::Man { .. }) {
        umask(Mode::RWXG | Mode::RWXO);
    }
}

/// Prints a command's error, if any, and returns the exit code.
fn report_outcome(printer: &Printer, outcome: &Result<CommandOutcome, CliError>) -> i32 {
    if let Err(error) = outcome {
        printer.error(error);
    }
    exit::exit_code(outcome)
}

/// Default log filter of `serve`: events of applications and ApplicationSets, and warnings of `serve` itself.
/// Libraries' connection logs are off.
const SERVE_LOG_FILTER: &str = "tidegate=warn,tidegate_app_controller=info,tidegate_appset_controller=info";

/// Enables structured logs on standard error if requested. Long-running commands log events by default.
fn init_tracing(verbose: u8, command: &Command, printer: &Printer) {
    let level = match verbose {
        0 if matches!(command, Command::Serve(_)) => SERVE_LOG_FILTER,
        0 => "off",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| output::MessageStream)
        .log_internal_errors(false)
        .with_ansi(printer.has_message_colors())
        .init();
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn serve_logs_warnings_of_its_own_crates_but_of_no_library() {
        let log_buffer = LogBuffer::default();
        let writer = log_buffer.clone();
        let telling = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(SERVE_LOG_FILTER))
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(telling, || {
            tracing::info!(target: "tidegate_app_controller::status_log", "logged: applications");
            tracing::info!(target: "tidegate_appset_controller::actor", "logged: ApplicationSets");
            tracing::warn!(target: "tidegate_server::notify", "logged: a rejected message");
            tracing::error!(target: "tidegate_executor::actors", "logged: a failed actor");
            tracing::warn!(target: "tidegate_source::remote", "logged: a repository");
            tracing::info!(target: "tidegate_executor::actors", "hidden: an informational event");
            tracing::warn!(target: "hyper_util::client", "hidden: a library");
        });
        let logged = log_buffer.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let logged = String::from_utf8_lossy(&logged);
        assert_eq!(
            (logged.matches("logged: ").count(), logged.matches("hidden: ").count()),
            (5, 0),
            "{logged}"
        );
    }
}
