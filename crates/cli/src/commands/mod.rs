//! What each command does.

mod app;
mod diff;
mod events;
mod example;
mod explain;
mod health;
mod ops;
mod plan;
mod report;
mod resume;
mod serve;
mod sim;
mod sync;

use clap::CommandFactory as _;

use crate::args::{Cli, Command};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

/// Carries out a command.
pub async fn run(command: Command, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        Command::Plan(args) => plan::run(&args, printer).await,
        Command::Diff(args) => diff::run(&args, printer).await,
        Command::Sync(args) => sync::run(&args, printer).await,
        Command::Resume(args) => resume::run(&args, printer).await,
        Command::Explain(args) => explain::run(&args, printer).await,
        Command::Ops(args) => ops::run(args.command, printer).await,
        Command::Serve(args) => serve::run(&args, printer).await,
        Command::App(args) => app::run(args.command, printer).await,
        Command::Example(args) => example::run(&args.command, printer),
        Command::Health(args) => health::run(&args, printer),
        Command::Sim(args) => sim::run(args.command, printer).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
            printer.raw(&String::from_utf8_lossy(&script))?;
            Ok(Ended::Done)
        }
    }
}
