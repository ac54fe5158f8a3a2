//! `tidegate delete`: an application and all it has, in the order opposite to that of its sync.

use tidegate_executor::Targets;
use tidegate_model::{Action, Cascade};
use tidegate_planner::{Planned, hooks_among};
use tidegate_service::clusters;
use tidegate_service::last::{LastSync, last_sync};
use tidegate_service::state_dir::StateDir;

use super::operation::{Work, carry_out};
use super::plan;
use crate::args::{DeleteArgs, Format, PlanFormat};
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input::{self, Manifests, wanted::Wanted};
use crate::output::plan::{self as plans, PlanReport};
use crate::output::{Printer, counted};
use crate::request;

pub async fn run(args: &DeleteArgs, printer: &Printer) -> Result<Ended, CliError> {
    let given = match args.paths.as_slice() {
        [] => None,
        paths => Some(input::load(paths, Wanted { empty: true, ..Wanted::default() })?),
    };
    let health = customizations::given(&args.scripts, printer)?;
    let state_dir = StateDir::resolve(args.state.named())?;
    let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
    let last = last_sync(&state_dir, None, (&chosen.destination(), &args.app), printer)?;
    let mut request = request::of_deletion(args, &chosen, given.as_ref(), last.as_ref())?;
    let known = last.as_ref().filter(|_| given.is_none());
    let deleted_by = known.filter(|last| last.is_deletion).map(|last| last.operation);
    let is_unknown = deleted_by.is_some() || (given.is_none() && last.is_none());
    request.options.skip_hooks |= deleted_by.is_some();
    let targets = hooks(given, last, args, printer);
    if !args.dry_run && (is_unknown || !args.yes) {
        let planned = plan::preview(&request, targets.clone(), &chosen, &state_dir, printer).await?;
        if is_unknown && planned.plan.tasks.is_empty() {
            return Err(CliError::usage(match deleted_by {
                Some(operation) => format!(
                    "application {} is not known here any more: operation {operation} has deleted it, and the cluster has nothing of it",
                    args.app
                ),
                None => format!(
                    "application {} is not known here: neither the operation log nor the cluster has anything of it; check --app, -n, --context and --state-dir",
                    args.app
                ),
            }));
        }
        if !args.yes {
            return show(args, &planned, &format!("the {}", chosen.destination()), printer);
        }
    }
    let work = Work { request, targets, chosen, health, claim: &args.claim, waiting: &args.waiting };
    carry_out(work, &state_dir, printer).await
}

/// The manifests that have the hooks of the deletion: those that are given, or else those of the last sync.
fn hooks(given: Option<Manifests>, last: Option<LastSync>, args: &DeleteArgs, printer: &Printer) -> Targets {
    let targets = match (given, last) {
        (Some(given), _) => Targets { targets: given.targets, ..Targets::default() },
        (None, Some(LastSync { operation, targets, is_deletion: true, .. })) => {
            printer.note(&format!(
                "operation {operation} has deleted the application, so the hooks of that do not run again; what is left of it goes"
            ));
            targets
        }
        (None, Some(LastSync { operation, targets, .. })) => {
            printer.note(&format!("hooks of the deletion are those of operation {operation}"));
            targets
        }
        (None, None) => {
            printer.warn(&format!(
                "the operation log has no manifests of application {}, so no hooks of its deletion are known; give the files that have them",
                args.app
            ));
            Targets::default()
        }
    };
    let hooks = u32::try_from(hooks_among(&targets.targets)).unwrap_or(u32::MAX);
    if args.no_hooks && hooks > 0 {
        printer.warn(&format!(
            "{} will not run",
            counted(hooks, "hook of the deletion", "hooks of the deletion")
        ));
    }
    // Gates hold the waves of a sync.
    Targets { gates: Vec::new(), ..targets }
}

/// Shows what would be done; nothing is.
fn show(
    args: &DeleteArgs,
    planned: &Planned,
    compared_with: &str,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let Planned { plan, left_out, .. } = planned;
    let numbers = &plan.wave_numbers(true);
    let report = PlanReport { application: &args.app, compared_with, plan, numbers, left_out, judges: &[] };
    let format = match args.waiting.output {
        Format::Text => PlanFormat::Tree,
        Format::Json => PlanFormat::Json,
        Format::Yaml => PlanFormat::Yaml,
    };
    plans::print(&report, format, printer)?;
    if !plan.errors().is_empty() {
        return Ok(Ended::InvalidPlan);
    }
    let goes = plan.tasks.iter().filter(|task| task.action == Action::Prune).count();
    let goes = counted(u32::try_from(goes).unwrap_or(u32::MAX), "object goes", "objects go");
    let what = if Cascade::from(args.cascade).deletes() { goes } else { "its objects stay".to_owned() };
    Err(CliError::usage(format!("nothing was done: {what}; say --yes to delete application {}", args.app)))
}
