//! Implementation of each command.

mod api;
mod app;
mod appset;
mod complete;
mod delete;
mod diff;
mod events;
mod example;
mod explain;
mod export;
mod health;
mod log;
mod manual;
mod operation;
mod ops;
mod output;
mod peers;
mod plan;
mod replicas;
mod report;
mod resume;
mod serve;
mod serve_appsets;
mod serve_config;
mod serve_impersonation;
mod serve_startup;
mod sim;
mod stored_plan;
mod sync;

use serde_json::json;
use tidegate_model::argo::all_crds;

use crate::args::{Command, Format};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::invocation::Invocation;
use crate::output::Printer;

/// Runs a command.
pub async fn run(command: Command, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        Command::Plan(args) => plan::run(&args, printer).await,
        Command::Diff(args) => diff::run(&args, printer).await,
        Command::Sync(args) => sync::run(&args, printer).await,
        Command::Delete(args) => delete::run(&args, printer).await,
        Command::Resume(args) => resume::run(&args, printer).await,
        Command::Explain(args) => explain::run(&args, printer).await,
        Command::Ops(args) => ops::run(args.command, printer).await,
        Command::Log(args) => log::run(args.command, printer),
        Command::Replicas(args) => replicas::run(args.command, printer).await,
        Command::Serve(args) => serve::run(&args, printer).await,
        Command::App(args) => app::run(args.command, printer).await,
        Command::Appset(args) => appset::run(args.command, printer).await,
        Command::Example(args) => example::run(&args.command, printer),
        Command::Crds { output } => crds(output, printer),
        Command::Health(args) => health::run(&args, printer),
        Command::Sim(args) => sim::run(args.command, printer).await,
        Command::Completions { shell } => manual::completions(shell, printer),
        Command::Man { folder } => manual::man(&folder, printer),
        Command::Complete { words } => {
            printer.print_raw(&complete::complete_words(&Invocation::current().command(), &words))?;
            Ok(CommandOutcome::Done)
        }
    }
}

/// Prints the definitions as consecutive documents, or as a list if the format allows only a single document.
fn crds(output: Format, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let definitions = all_crds();
    match output {
        Format::Text | Format::Yaml => {
            for definition in definitions {
                printer.print_entry(&definition, Format::Yaml)?;
            }
        }
        Format::Json => {
            printer
                .print_value(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}), output)?;
        }
    }
    Ok(CommandOutcome::Done)
}
