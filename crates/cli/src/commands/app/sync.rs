//! `tidegate app sync`: a sync of one application, or of several.

use tidegate_application::operation::give_reason;
use tidegate_model::ResourceSelector;
use tidegate_model::argo::{Application, OperationResource};
use tidegate_service::applications::asking::{self, SyncWish};
use tidegate_service::control::protocol::Request;

use super::desk::Desk;
use super::waiting::{Asked, finished};
use super::way::{Shown, Way};
use super::{chosen, each, hooks};
use crate::args::{AppSyncArgs, RevisionArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, counted};

pub async fn run(args: &AppSyncArgs, printer: &Printer) -> Result<Ended, CliError> {
    if let Some(hash) = args.plan.clone() {
        return carry_out(args, hash, printer).await;
    }
    if args.follow_hooks {
        only(args, "--follow-hooks")?;
        Way::service(&args.way, "what hooks write")?;
    }
    let way = Way::of(&args.way, printer).await?;
    let names = chosen(&way, (&args.names, &args.which), printer).await?;
    let all = each(&way, names, printer).await?;
    let (asked, refused) = ask(args, &way, &all, printer).await?;
    let finished = async {
        let ended = match asked.as_slice() {
            [] => Ended::Done,
            asked => finished(&way, asked, (&args.end, args.output), printer).await?,
        };
        Ok(Ended::worst(refused.then_some(Ended::Refused).into_iter().chain([ended])))
    };
    match (&way, all.as_slice()) {
        (Way::Service(desk), [(_, known)]) if args.follow_hooks => {
            hooks::beside(desk, known, finished, printer).await
        }
        _ => finished.await,
    }
}

/// Asks for the syncs; also whether one was refused, of several.
async fn ask(
    args: &AppSyncArgs,
    way: &Way,
    all: &[(String, Shown)],
    printer: &Printer,
) -> Result<(Vec<Asked>, bool), CliError> {
    let (mut asked, mut refused) = (Vec::new(), false);
    // What is wrong with the revisions of one is found before any is asked for.
    let wishes = all.iter().map(|(_, known)| wished(args, known)).collect::<Result<Vec<_>, _>>()?;
    for ((name, known), wish) in all.iter().zip(wishes) {
        let mut operation = asking::sync(known, wish);
        give_reason(&mut operation, &args.why.reason);
        let request = Request::SyncApplication { name: name.clone(), operation: Box::new(operation) };
        match way.tell(request).await {
            Ok(()) => asked.push(Asked::before(name, known)),
            Err(error) if all.len() == 1 => return Err(error),
            Err(error) => {
                printer.error(&error);
                refused = true;
            }
        }
    }
    Ok((asked, refused))
}

fn wished(args: &AppSyncArgs, known: &Application) -> Result<SyncWish, CliError> {
    Ok(SyncWish {
        revision: args.revisions.revision.clone().unwrap_or_default(),
        revisions: several(&args.revisions, known)?,
        prune: args.prune,
        dry_run: args.dry_run,
        resources: args.resources.iter().map(named).collect(),
        policy: args.policy.into(),
    })
}

/// Carries out a kept plan.
async fn carry_out(args: &AppSyncArgs, hash: String, printer: &Printer) -> Result<Ended, CliError> {
    let desk: Desk = Way::service(&args.way, "a kept plan")?;
    let name = only(args, "--plan")?;
    let (allow_drift, by, reason) = (args.allow_drift, String::new(), args.why.reason.clone());
    let known = desk.one(name, printer).await?;
    desk.plans(&Request::SyncPlan { name: name.to_owned(), hash, allow_drift, by, reason }).await?;
    let asked = [Asked::before(name, &known)];
    finished(&Way::Service(desk), &asked, (&args.end, args.output), printer).await
}

/// The only application, where an option is about one.
fn only<'a>(args: &'a AppSyncArgs, option: &str) -> Result<&'a str, CliError> {
    match args.names.as_slice() {
        [only] => Ok(only),
        _ => Err(CliError::usage(format!("{option} is about one application; name it and no other"))),
    }
}

/// The revisions of several sources that are named one by one: all others are left empty.
pub(super) fn several(given: &RevisionArgs, application: &Application) -> Result<Vec<String>, CliError> {
    let RevisionArgs { revisions, positions, .. } = given;
    if revisions.len() != positions.len() {
        return Err(CliError::usage("say one --source-positions for each of --revisions, in the same order"));
    }
    let sources = application.sources().len();
    let mut all = vec![String::new(); if revisions.is_empty() { 0 } else { sources }];
    for (revision, position) in revisions.iter().zip(positions) {
        let place = position.checked_sub(1).and_then(|index| all.get_mut(index));
        let Some(place) = place else {
            let sources = counted(u32::try_from(sources).unwrap_or(u32::MAX), "source", "sources");
            let name = &application.metadata.name;
            return Err(CliError::usage(format!(
                "--source-positions {position}: application {name} has {sources}, counted from 1"
            )));
        };
        if !place.is_empty() {
            return Err(CliError::usage(format!("--source-positions {position} is there twice")));
        }
        revision.clone_into(place);
    }
    Ok(all)
}

pub(super) fn named(selector: &ResourceSelector) -> OperationResource {
    let ResourceSelector { group, kind, namespace, name } = selector.clone();
    OperationResource { group, kind, namespace, name, ..OperationResource::default() }
}
