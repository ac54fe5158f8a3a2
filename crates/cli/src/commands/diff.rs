//! `tidegate diff`: how the cluster differs from the manifests.

use tidegate_executor::effects::{self, Differences, ObjectDifference, ObjectStatus, Question};
use tidegate_executor::{Clock as _, SystemClock, Targets};
use tidegate_model::{Severity, Warning};
use tidegate_service::clusters;
use tidegate_service::error::ServiceError;
use tidegate_service::log;
use tidegate_service::outage;
use tidegate_service::state_dir::StateDir;

use crate::args::{DiffArgs, Format};
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::Printer;
use crate::output::diff;
use crate::request;

/// Whatever goes wrong, the exit code is that of an error and not that of a difference.
pub async fn run(args: &DiffArgs, printer: &Printer) -> Result<Ended, CliError> {
    match compare(args, printer).await {
        Err(error) => {
            printer.error(&error);
            Ok(Ended::NotCompared)
        }
        ended => ended,
    }
}

async fn compare(args: &DiffArgs, printer: &Printer) -> Result<Ended, CliError> {
    let manifests = input::load(&args.source.paths, args.source.wanted())?;
    let ignored = input::ignored(args.ignore.ignore_differences.as_deref())?;
    let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
    let request = request::of_diff(args, &chosen, &manifests, ignored)?;
    let state_dir = StateDir::resolve(args.state.named())?;
    let (cluster, lock) = chosen.look(&state_dir, printer).await?;
    let known = log::inventory(&state_dir, lock.as_ref(), &request);
    let targets = Targets { targets: manifests.targets, ..Targets::default() };
    let now = SystemClock.now();
    let comparing = effects::diff(cluster.as_ref(), (Question::Sync, &request), targets, now, known.as_ref());
    let Differences { objects, findings, .. } = outage::explained(cluster.as_ref(), printer, comparing)
        .await
        .map_err(|error| ServiceError::of_cluster(&chosen.destination(), &error.message))?;
    report(&objects, &findings, args.output, printer)
}

/// Prints differences, and says how that ends.
pub fn report(
    objects: &[ObjectDifference],
    findings: &[Warning],
    output: Format,
    printer: &Printer,
) -> Result<Ended, CliError> {
    if output == Format::Text {
        findings.iter().for_each(|finding| printer.warn(&finding.to_string()));
        printer.out(&diff::text(objects)?)?;
    } else {
        printer.value(&diff::document(objects, findings), output)?;
    }
    for ObjectDifference { task, refused, estimate, .. } in objects {
        if *estimate {
            let why = if task.options.take_over.is_some() {
                "has fields of another manager that a sync takes over, which cannot be tried"
            } else {
                "is deleted and created again (Replace with Force), which cannot be tried in its place"
            };
            printer.warn(&format!("{} {why}; its differences are an estimate", task.key()));
        }
        if let Some(reason) = refused {
            printer.warn(&format!(
                "the cluster refuses {}: {reason}; its differences are an estimate",
                task.key()
            ));
        }
    }
    let invalid = findings.iter().any(|finding| finding.severity == Severity::Error);
    let differs = |object: &ObjectDifference| object.status != ObjectStatus::Same && !object.ignored;
    Ok(if invalid || objects.iter().any(|object| object.refused.is_some()) {
        Ended::NotCompared
    } else if objects.iter().any(differs) {
        Ended::Different
    } else {
        Ended::Done
    })
}
