//! `tidegate appset delete`: deletes an ApplicationSet and, in the configured order, its Applications.

use std::time::Duration;

use tidegate_applicationset::rollout::qualified_name;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_lifecycle::teardown::{OrderKind, TeardownView};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Requester, format_duration};
use tidegate_views::appset_actions::AppSetDeletionPreview;
use tidegate_views::protocol::Request;

use super::files::AppSetFiles;
use super::{client, plan};
use crate::args::{AppSetDeleteArgs, PlanFormat};
use crate::commands::app::service_client::ServiceClient;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::appset_plan::{self, DeletionPlan};
use crate::output::{FILE_REMOVAL_WARNING, Printer, application_set};
use crate::signals::Signals;

pub async fn run(args: &AppSetDeleteArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    if !args.files.is_empty() && !args.plan {
        return Err(CliError::usage(
            "-f only previews a deletion: add --plan, or use the NAME of a managed ApplicationSet",
        ));
    }
    let Some(name) = &args.name else {
        return tokio::task::block_in_place(|| show_deletion_of_files(args, printer));
    };
    let service_client = ServiceClient::from_args(&args.service)?;
    if args.plan {
        let known = client::get_appset(&service_client, name).await?;
        show(&service_client, &known, args.output, printer).await?;
        return Ok(CommandOutcome::Done);
    }
    let known = client::get_appset(&service_client, name).await?;
    let is_going = known.metadata.deletion_timestamp.is_some() && !args.orphan;
    if is_going && !args.yes {
        printer.note(&describe_ongoing_deletion(&service_client, &known).await?);
        return Ok(CommandOutcome::Done);
    }
    if !args.yes {
        if args.orphan {
            printer.warn("the ApplicationSet's Applications will be kept");
            match client::plan_deletion(&service_client, &qualified_name(&known)).await {
                Ok(deletion) => warn_about_file(&deletion, printer),
                Err(error) => printer.warn(&format!(
                    "cannot determine whether the ApplicationSet's document will be removed: {error}"
                )),
            }
        } else {
            show(&service_client, &known, args.output, printer).await?;
        }
        return Err(CliError::usage(format!(
            "nothing was deleted; use --yes to delete ApplicationSet {name}"
        )));
    }
    let request = Request::DeleteApplicationSet {
        name: qualified_name(&known),
        orphan: args.orphan,
        by: String::new(),
        reason: args.reason.reason.clone(),
    };
    client::send(&service_client, &request).await?;
    if is_going {
        printer.note(&describe_ongoing_deletion(&service_client, &known).await?);
    }
    if args.is_async {
        return Ok(CommandOutcome::Done);
    }
    wait_until_gone(&service_client, &known, args.timeout, printer).await
}

/// Describes a deletion in progress: its requester, ID and progress.
async fn describe_ongoing_deletion(
    service_client: &ServiceClient,
    known: &ApplicationSet,
) -> Result<String, CliError> {
    let explanation = client::explain(service_client, &qualified_name(known)).await?;
    let started = format!("ApplicationSet {} is already being deleted", application_set::display_name(known));
    Ok(match (&explanation.teardown, explanation.teardown_id) {
        (Some(view), Some(id)) if view.finished_at.is_none() => {
            let asker = Requester { name: &view.by, reason: view.reason.as_deref().unwrap_or_default() };
            format!("{started}, requested by {}: deletion {id}, {}", asker.display(), describe_progress(view))
        }
        _ => format!("{started}: {}", explanation.line),
    })
}

async fn show(
    service_client: &ServiceClient,
    known: &ApplicationSet,
    format: PlanFormat,
    printer: &Printer,
) -> Result<(), CliError> {
    let deletion = client::plan_deletion(service_client, &qualified_name(known)).await?;
    let planned = DeletionPlan::from_preview(&deletion.preview, plan::order_kind(known));
    appset_plan::print_deletions(&[(application_set::display_name(known), planned)], format, printer)?;
    warn_about_file(&deletion, printer);
    Ok(())
}

/// Warns that the deletion also deletes the ApplicationSet's file.
fn warn_about_file(deletion: &AppSetDeletionPreview, printer: &Printer) {
    if deletion.removes_file {
        printer.warn(FILE_REMOVAL_WARNING);
    }
}

fn show_deletion_of_files(args: &AppSetDeleteArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let mut files = AppSetFiles::read(&args.files, &args.generators, &AppSetRuleOptions::default(), printer)?;
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for (set, base) in files.appsets.clone() {
        let (generated, refused) = files.generate_applications(&set, &base, printer)?;
        problems.extend(refused);
        let applications: Vec<Application> =
            generated.applications.into_iter().map(|made| made.application).collect();
        match plan::build_deletion(&set, &applications, &AppSetRuleOptions::default()) {
            Ok(preview) => plans.push((
                application_set::display_name(&set),
                DeletionPlan::from_preview(&preview, plan::order_kind(&set)),
            )),
            Err(wrong) => problems.push(format!("ApplicationSet {}: {wrong}", set.metadata.name)),
        }
    }
    // Show the plans that could be created. The exit code shows that some are missing.
    if !plans.is_empty() {
        appset_plan::print_deletions(&plans, args.output, printer)?;
    }
    if problems.is_empty() {
        Ok(CommandOutcome::Done)
    } else {
        Err(CliError::Generate { problems, is_input: true })
    }
}

/// Warns that the accepted deletion waits for a service to continue it.
fn warn_without_service(known: &ApplicationSet, printer: &Printer) {
    printer.warn(&format!(
        "the deletion of ApplicationSet {} continues as soon as a service manages it",
        application_set::display_name(known)
    ));
}

/// Waits until the ApplicationSet is gone, printing the progress.
async fn wait_until_gone(
    service_client: &ServiceClient,
    known: &ApplicationSet,
    timeout: Option<Duration>,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let mut signals = Signals::listen()?;
    let metadata = &known.metadata;
    let name = qualified_name(known);
    let mut text = String::new();
    let poll = async {
        loop {
            let found = client::find(service_client, Some(&name))
                .await
                .inspect_err(|_| warn_without_service(known, printer))?
                .appsets;
            // A recreated ApplicationSet has a different UID.
            let is_left = found.iter().any(|one| one.metadata.uid == metadata.uid);
            if !is_left {
                return Ok::<_, CliError>(());
            }
            // The ApplicationSet may be gone by now.
            if let Ok(explanation) = client::explain(service_client, &name).await {
                let line = match (&explanation.teardown, &explanation.rollout) {
                    (Some(teardown), _) => Some(describe_progress(teardown)),
                    // The status still describes the rollout that the deletion is terminating.
                    (None, Some(_)) => None,
                    (None, None) => Some(explanation.line),
                };
                if let Some(line) = line.filter(|line| *line != text) {
                    printer.note(&line);
                    text = line;
                }
            }
            tokio::time::sleep(service_client.poll_interval()).await;
        }
    };
    let reason = tokio::select! {
        ended = poll => {
            ended?;
            printer.note(&format!("ApplicationSet {} deleted", application_set::display_name(known)));
            return Ok(CommandOutcome::Done);
        }
        signal = signals.next() => format!("interrupted by {signal}"),
        () = tokio::time::sleep(timeout.unwrap_or(Duration::MAX)) => {
            format!("not deleted after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&format!(
        "{reason}; the deletion continues: `tidegate appset status {}` shows its state",
        application_set::display_name(known)
    ));
    Ok(CommandOutcome::NotFinished)
}

/// Describes the progress of a deletion, such as `deleting step 1 of 3: 2 of 9 Applications gone`.
fn describe_progress(view: &TeardownView) -> String {
    let done = view.members.iter().filter(|member| view.order.is_intended_end(member.status)).count();
    let what = if view.order == OrderKind::Orphan { "released" } else { "deleted" };
    format!("{}: {done} of {} Applications {what}", view.message, view.members.len())
}
