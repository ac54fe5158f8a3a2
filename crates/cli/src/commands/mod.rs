//! What each command does.

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
mod kept;
mod manual;
mod operation;
mod ops;
mod output;
mod plan;
mod report;
mod resume;
mod serve;
mod serve_accounts;
mod serve_config;
mod serve_sets;
mod sim;
mod sync;

use serde_json::json;
use tidegate_model::argo::definitions;

use crate::args::{Command, Format};
use crate::called::Called;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;

/// Carries out a command.
pub async fn run(command: Command, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        Command::Plan(args) => plan::run(&args, printer).await,
        Command::Diff(args) => diff::run(&args, printer).await,
        Command::Sync(args) => sync::run(&args, printer).await,
        Command::Delete(args) => delete::run(&args, printer).await,
        Command::Resume(args) => resume::run(&args, printer).await,
        Command::Explain(args) => explain::run(&args, printer).await,
        Command::Ops(args) => ops::run(args.command, printer).await,
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
            printer.raw(&complete::answer(&Called::now().command(), &words))?;
            Ok(Ended::Done)
        }
    }
}

/// As documents that follow each other; as a list where they are to be one.
fn crds(output: Format, printer: &Printer) -> Result<Ended, CliError> {
    let definitions = definitions();
    match output {
        Format::Text | Format::Yaml => {
            for definition in definitions {
                printer.entry(&definition, Format::Yaml)?;
            }
        }
        Format::Json => {
            printer.value(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}), output)?;
        }
    }
    Ok(Ended::Done)
}
