//! The `tidegate` command.
//!
//! ```text
//! args ──▶ request ──▶ commands ──▶ service::session ──▶ wait ──▶ commands::report ──▶ exit
//!             ▲            │                              │
//!           input          └── service::route             └──▶ progress, output
//! ```
//!
//! Data goes to standard output, talk to standard error; both through [`output::Printer`] only. The exit code is
//! decided in [`exit::code`].

mod args;
mod called;
mod commands;
mod customizations;
mod error;
mod exit;
mod input;
mod output;
mod progress;
mod request;
mod signals;
mod wait;

use std::ffi::OsString;
use std::io::ErrorKind;

use clap::FromArgMatches as _;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};
use crate::called::Called;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

/// glibc keeps what each thread has freed; of many objects that is about a third more (BENCHMARKS.md).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let code = run();
    // Everything is written and closed; threads that still run wait for nothing that matters.
    std::process::exit(code);
}

fn run() -> i32 {
    let cli = match command_line() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, mistakes to standard error. A closed pipe is no error.
            return match error.print() {
                Err(source) if !error.use_stderr() && source.kind() != ErrorKind::BrokenPipe => {
                    end(&Printer::from_environment(), &Err(source.into()))
                }
                _ => error.exit_code(),
            };
        }
    };
    let printer = Printer::from_environment();
    trace(cli.verbose, &cli.command, &printer);
    let outcome = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let outcome = runtime.block_on(async {
                signals::outlive_size_limits();
                commands::run(cli.command, &printer).await
            });
            runtime.shutdown_background();
            outcome
        }
        Err(source) => Err(CliError::io("start", "threads", source)),
    };
    end(&printer, &outcome)
}

/// What was asked for. kubectl gives the words alone to whoever is to say what could follow them.
fn command_line() -> Result<Cli, clap::Error> {
    let called = Called::now();
    let mut given: Vec<OsString> = std::env::args_os().collect();
    if called == Called::Completer {
        given.insert(1.min(given.len()), "__complete".into());
    }
    let mut command = called.command();
    let matches = command.try_get_matches_from_mut(given)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Says why a command failed; returns its exit code.
fn end(printer: &Printer, outcome: &Result<Ended, CliError>) -> i32 {
    if let Err(error) = outcome {
        printer.error(error);
    }
    exit::code(outcome)
}

/// What `serve` tells unasked: what happens to applications and ApplicationSets, and whatever else of its own goes wrong. What the libraries that
/// it uses have to say about their connections is for those who ask.
const SERVE_TELLS: &str = "tidegate=warn,tidegate_service::applications=info,tidegate_service::sets=info";

/// Structured lines on standard error, for those who ask for them. What lives for long tells what happens.
fn trace(verbose: u8, command: &Command, printer: &Printer) {
    let level = match verbose {
        0 if matches!(command, Command::Serve(_)) => SERVE_TELLS,
        0 => "off",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| output::Talk)
        .log_internal_errors(false)
        .with_ansi(printer.colours_talk())
        .init();
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn serve_says_what_goes_wrong_in_any_part_of_its_own_and_in_no_library() {
        let kept = Kept::default();
        let writer = kept.clone();
        let telling = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(SERVE_TELLS))
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(telling, || {
            tracing::info!(target: "tidegate_service::applications::telling", "told: applications");
            tracing::info!(target: "tidegate_service::sets::actor", "told: ApplicationSets");
            tracing::warn!(target: "tidegate_server::notify", "told: a message that is refused");
            tracing::error!(target: "tidegate_executor::actors", "told: an actor that has failed");
            tracing::warn!(target: "tidegate_source::remote", "told: a repository");
            tracing::info!(target: "tidegate_executor::actors", "kept: what is for those who ask");
            tracing::warn!(target: "hyper_util::client", "kept: a library");
        });
        let told = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = String::from_utf8_lossy(&told);
        assert_eq!((told.matches("told: ").count(), told.matches("kept: ").count()), (5, 0), "{told}");
    }
}
