//! `tidegate diff`: differences between the cluster and the manifests.

use tidegate_daemon::control::client;
use tidegate_executor::effects::{self, ComparisonPurpose, Differences, ObjectDifference, ObjectStatus};
use tidegate_executor::{Clock as _, SystemClock, Targets};
use tidegate_model::{Severity, Warning};
use tidegate_state::clusters;
use tidegate_state::error::ServiceError;
use tidegate_state::log;
use tidegate_state::outage;
use tidegate_state::state_dir::StateDir;

use crate::args::{DiffArgs, Format};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::Printer;
use crate::output::diff;
use crate::request;

/// Runs the command. Errors have their own exit code, so that no one mistakes them for differences.
pub async fn run(args: &DiffArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match compare(args, printer).await {
        Err(error) => {
            printer.error(&error);
            Ok(CommandOutcome::NotCompared)
        }
        ended => ended,
    }
}

async fn compare(args: &DiffArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let source = &args.application.source;
    let manifests = input::load(&source.paths, source.input_requirements())?;
    let chosen = clusters::select_cluster(args.cluster.connection().as_ref(), printer).await?;
    let request = request::diff_request(args, &chosen, &manifests)?;
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let (cluster, lock) = chosen.open_read_only(&state_dir, printer, client::is_process_running).await?;
    let known = log::find_inventory(&state_dir, lock.as_ref(), &request);
    let targets = Targets { targets: manifests.targets, ..Targets::default() };
    let now = SystemClock.now();
    let comparing =
        effects::diff(cluster.as_ref(), ComparisonPurpose::Sync, &request, targets, now, known.as_ref());
    let Differences { objects, findings, .. } =
        outage::with_delay_notices(cluster.as_ref(), printer, comparing)
            .await
            .map_err(|error| ServiceError::from_cluster_message(&chosen.destination(), &error.message))?;
    print_differences(&objects, &findings, args.output, printer)
}

/// Prints the differences. Returns the outcome.
pub fn print_differences(
    objects: &[ObjectDifference],
    findings: &[Warning],
    output: Format,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    if output == Format::Text {
        findings.iter().for_each(|finding| printer.warn(&finding.to_string()));
        printer.print(&diff::text(objects)?)?;
    } else {
        printer.print_value(&diff::build_document(objects, findings), output)?;
    }
    for ObjectDifference { task, refused, estimate, .. } in objects {
        if *estimate {
            let why = if !task.options.take_over.is_empty() {
                "a sync would take over fields from another field manager"
            } else {
                "a sync would delete and recreate the object (Replace with Force)"
            };
            printer.warn(&format!(
                "{}: {why}, which a dry run cannot show; the differences are an estimate",
                task.key()
            ));
        }
        if let Some(reason) = refused {
            printer.warn(&format!(
                "the cluster rejects {}: {reason}; its differences are an estimate",
                task.key()
            ));
        }
    }
    let invalid = findings.iter().any(|finding| finding.severity == Severity::Error);
    let differs = |object: &ObjectDifference| object.status != ObjectStatus::Same && !object.ignored;
    Ok(if invalid || objects.iter().any(|object| object.refused.is_some()) {
        CommandOutcome::NotCompared
    } else if objects.iter().any(differs) {
        CommandOutcome::HasDifferences
    } else {
        CommandOutcome::Done
    })
}
