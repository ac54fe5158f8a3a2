//! `tidegate appset delete`: an ApplicationSet, and its Applications in the order it says.

use std::time::Duration;

use tidegate_applicationset::policy::Options;
use tidegate_applicationset::rollout::full_name;
use tidegate_lifecycle::teardown::{OrderWord, TeardownView};
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_model::{Wisher, format_duration};
use tidegate_service::control::protocol::Request;
use tidegate_service::sets::SetDeletion;

use super::files::Files;
use super::{desk, plan};
use crate::args::{PlanFormat, SetDeleteArgs};
use crate::commands::app::desk::Desk;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::set_plan::{self, DeletionPlan};
use crate::output::{DOCUMENT_GOES, Printer, set};
use crate::signals::Signals;

pub async fn run(args: &SetDeleteArgs, printer: &Printer) -> Result<Ended, CliError> {
    if !args.files.is_empty() && !args.plan {
        return Err(CliError::usage(
            "a file is only looked at; say --plan, or the NAME of an ApplicationSet that is served",
        ));
    }
    let Some(name) = &args.name else { return tokio::task::block_in_place(|| of_files(args, printer)) };
    let desk = Desk::of(&args.service)?;
    if args.plan {
        let known = desk::one(&desk, name).await?;
        show(&desk, &known, args.output, printer).await?;
        return Ok(Ended::Done);
    }
    let known = desk::one(&desk, name).await?;
    let is_going = known.metadata.deletion_timestamp.is_some() && !args.orphan;
    if is_going && !args.yes {
        printer.note(&already(&desk, &known).await?);
        return Ok(Ended::Done);
    }
    if !args.yes {
        if args.orphan {
            printer.warn("its Applications will stay");
            match desk::plan_deletion(&desk, &full_name(&known)).await {
                Ok(deletion) => tell_of_file(&deletion, printer),
                Err(error) => printer.warn(&format!("whether its document goes cannot be told: {error}")),
            }
        } else {
            show(&desk, &known, args.output, printer).await?;
        }
        return Err(CliError::usage(format!("nothing was done; say --yes to delete ApplicationSet {name}")));
    }
    let request = Request::DeleteApplicationSet {
        name: full_name(&known),
        orphan: args.orphan,
        by: String::new(),
        reason: args.why.reason.clone(),
    };
    desk::tell(&desk, &request).await?;
    if is_going {
        printer.note(&already(&desk, &known).await?);
    }
    if args.is_async {
        return Ok(Ended::Done);
    }
    gone(&desk, &known, args.timeout, printer).await
}

/// That a set is being deleted already: by whose wish, which deletion that is, and how far it is.
async fn already(desk: &Desk, known: &ApplicationSet) -> Result<String, CliError> {
    let explanation = desk::explain(desk, &full_name(known)).await?;
    let begun = format!("ApplicationSet {} is being deleted already", set::name(known));
    Ok(match (&explanation.teardown, explanation.teardown_id) {
        (Some(view), Some(id)) if view.finished_at.is_none() => {
            let asker = Wisher { by: &view.by, reason: view.reason.as_deref().unwrap_or_default() };
            format!("{begun}, as {} has asked: deletion {id}, {}", asker.who(), words(view))
        }
        _ => format!("{begun}: {}", explanation.line),
    })
}

async fn show(
    desk: &Desk,
    known: &ApplicationSet,
    format: PlanFormat,
    printer: &Printer,
) -> Result<(), CliError> {
    let deletion = desk::plan_deletion(desk, &full_name(known)).await?;
    let planned = DeletionPlan::of(&deletion.preview, plan::word(known));
    set_plan::print_deletions(&[(set::name(known), planned)], format, printer)?;
    tell_of_file(&deletion, printer);
    Ok(())
}

/// Says that what a set is written down in goes with it.
fn tell_of_file(deletion: &SetDeletion, printer: &Printer) {
    if deletion.removes_file {
        printer.warn(DOCUMENT_GOES);
    }
}

fn of_files(args: &SetDeleteArgs, printer: &Printer) -> Result<Ended, CliError> {
    let mut files = Files::read(&args.files, &args.found, &Options::default(), printer)?;
    let (mut plans, mut problems) = (Vec::new(), Vec::new());
    for (set, base) in files.sets.clone() {
        let (generated, refused) = files.generated(&set, &base, printer)?;
        problems.extend(refused);
        let applications: Vec<Application> =
            generated.applications.into_iter().map(|made| made.application).collect();
        match plan::deletion(&set, &applications, &Options::default()) {
            Ok(preview) => plans.push((set::name(&set), DeletionPlan::of(&preview, plan::word(&set)))),
            Err(wrong) => problems.push(format!("ApplicationSet {}: {wrong}", set.metadata.name)),
        }
    }
    // As far as there are plans, they are shown; the exit code says that they are not all.
    if !plans.is_empty() {
        set_plan::print_deletions(&plans, args.output, printer)?;
    }
    if problems.is_empty() { Ok(Ended::Done) } else { Err(CliError::Generate { problems, is_input: true }) }
}

/// Nobody says how a deletion goes on that was accepted.
fn unfollowed(known: &ApplicationSet, printer: &Printer) {
    printer.warn(&format!(
        "ApplicationSet {} is being deleted, and goes on being so as soon as a service is at work for it",
        set::name(known)
    ));
}

/// Waits until it is gone; how its deletion goes on is told meanwhile.
async fn gone(
    desk: &Desk,
    known: &ApplicationSet,
    timeout: Option<Duration>,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let mut signals = Signals::listen()?;
    let metadata = &known.metadata;
    let name = full_name(known);
    let mut told = String::new();
    let asking = async {
        loop {
            let found = desk::find(desk, Some(&name)).await.inspect_err(|_| unfollowed(known, printer))?.sets;
            // One that was made anew is another one.
            let is_left = found.iter().any(|one| one.metadata.uid == metadata.uid);
            if !is_left {
                return Ok::<_, CliError>(());
            }
            // It may be gone by now.
            if let Ok(explanation) = desk::explain(desk, &name).await {
                let line = match (&explanation.teardown, &explanation.rollout) {
                    (Some(teardown), _) => Some(words(teardown)),
                    // It says how the rollout stands that ends now.
                    (None, Some(_)) => None,
                    (None, None) => Some(explanation.line),
                };
                if let Some(line) = line.filter(|line| *line != told) {
                    printer.note(&line);
                    told = line;
                }
            }
            tokio::time::sleep(desk.pause()).await;
        }
    };
    let why = tokio::select! {
        ended = asking => {
            ended?;
            printer.note(&format!("ApplicationSet {} is deleted", set::name(known)));
            return Ok(Ended::Done);
        }
        signal = signals.next() => format!("interrupted by {signal}"),
        () = tokio::time::sleep(timeout.unwrap_or(Duration::MAX)) => {
            format!("not gone after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&format!(
        "{why}; it is deleted all the same, and `tidegate appset status {}` tells how that stands",
        set::name(known)
    ));
    Ok(Ended::NotFinished)
}

/// `deleting step 1 of 3: 2 of 9 Applications gone`.
fn words(view: &TeardownView) -> String {
    let done = view.members.iter().filter(|member| view.order.is_end(member.status)).count();
    let what = if view.order == OrderWord::Orphan { "let go" } else { "gone" };
    format!("{}: {done} of {} Applications {what}", view.message, view.members.len())
}
