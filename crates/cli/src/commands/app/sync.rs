//! `tidegate app sync`: syncs one or more applications.

use tidegate_app_controller::sync_request::{self, SyncParameters};
use tidegate_application::operation::set_reason;
use tidegate_model::ResourceSelector;
use tidegate_model::argo::{Application, OperationResource};
use tidegate_views::protocol::Request;

use super::app_wait::{AwaitedOperation, wait_until_finished};
use super::service_client::ServiceClient;
use super::transport::{ReportedApplication, Transport};
use super::{find_each, hooks, select_names};
use crate::args::{AppSyncArgs, RevisionArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, format_count};

pub async fn run(args: &AppSyncArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    if let Some(hash) = args.plan.clone() {
        return execute_plan(args, hash, printer).await;
    }
    if args.follow_hooks {
        single_name(args, "--follow-hooks")?;
        Transport::service_client(&args.transport, "hook output")?;
    }
    let transport = Transport::from_args(&args.transport, printer).await?;
    let names = select_names(&transport, &args.names, &args.which, printer).await?;
    let all = find_each(&transport, names, printer).await?;
    let (awaited, refused) = request_syncs(args, &transport, &all, printer).await?;
    let finished = async {
        let ended = match awaited.as_slice() {
            [] => CommandOutcome::Done,
            awaited => wait_until_finished(&transport, awaited, &args.end, args.output, printer).await?,
        };
        Ok(CommandOutcome::worst(refused.then_some(CommandOutcome::ClaimConflict).into_iter().chain([ended])))
    };
    match (&transport, all.as_slice()) {
        (Transport::Service(desk), [(_, known)]) if args.follow_hooks => {
            hooks::show_while_waiting(desk, known, finished, printer).await
        }
        _ => finished.await,
    }
}

/// Requests the syncs. Also returns true if at least one of several was rejected.
async fn request_syncs(
    args: &AppSyncArgs,
    transport: &Transport,
    all: &[(String, ReportedApplication)],
    printer: &Printer,
) -> Result<(Vec<AwaitedOperation>, bool), CliError> {
    let (mut awaited, mut refused) = (Vec::new(), false);
    // Report errors in all applications' revisions before the first request.
    let requests =
        all.iter().map(|(_, known)| build_sync_parameters(args, known)).collect::<Result<Vec<_>, _>>()?;
    for ((name, known), action) in all.iter().zip(requests) {
        let mut operation = sync_request::sync_operation(known, action);
        set_reason(&mut operation, &args.reason.reason);
        let request = Request::SyncApplication { name: name.clone(), operation: Box::new(operation) };
        match transport.send(request).await {
            Ok(()) => awaited.push(AwaitedOperation::new(name, known)),
            Err(error) if all.len() == 1 => return Err(error),
            Err(error) => {
                printer.error(&error);
                refused = true;
            }
        }
    }
    Ok((awaited, refused))
}

fn build_sync_parameters(args: &AppSyncArgs, known: &Application) -> Result<SyncParameters, CliError> {
    Ok(SyncParameters {
        revision: args.revisions.revision.clone().unwrap_or_default(),
        revisions: source_revisions(&args.revisions, known)?,
        prune: args.prune,
        dry_run: args.dry_run,
        resources: args.resources.iter().map(operation_resource).collect(),
        policy: args.policy.into(),
    })
}

async fn execute_plan(
    args: &AppSyncArgs,
    hash: String,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let client: ServiceClient = Transport::service_client(&args.transport, "a stored plan")?;
    let name = single_name(args, "--plan")?;
    let (allow_drift, by, reason) = (args.allow_drift, String::new(), args.reason.reason.clone());
    let known = client.get(name, printer).await?;
    client
        .send_plan_request(&Request::SyncPlan { name: name.to_owned(), hash, allow_drift, by, reason })
        .await?;
    let awaited = [AwaitedOperation::new(name, &known)];
    wait_until_finished(&Transport::Service(client), &awaited, &args.end, args.output, printer).await
}

/// Returns the name of the only application, for an option that takes one application.
fn single_name<'a>(args: &'a AppSyncArgs, option: &str) -> Result<&'a str, CliError> {
    match args.names.as_slice() {
        [only] => Ok(only),
        _ => Err(CliError::usage(format!("{option} requires the name of exactly one application"))),
    }
}

/// Returns one revision per source, empty for sources that the arguments don't mention.
pub(super) fn source_revisions(
    given: &RevisionArgs,
    application: &Application,
) -> Result<Vec<String>, CliError> {
    let RevisionArgs { revisions, positions, .. } = given;
    if revisions.len() != positions.len() {
        return Err(CliError::usage(
            "specify one --source-positions for each --revisions, in the same order",
        ));
    }
    let sources = application.sources().len();
    let mut all = vec![String::new(); if revisions.is_empty() { 0 } else { sources }];
    for (revision, position) in revisions.iter().zip(positions) {
        let place = position.checked_sub(1).and_then(|index| all.get_mut(index));
        let Some(place) = place else {
            let sources = format_count(u32::try_from(sources).unwrap_or(u32::MAX), "source", "sources");
            let name = &application.metadata.name;
            return Err(CliError::usage(format!(
                "invalid --source-positions {position}: application {name} has {sources}, and positions \
                 start at 1"
            )));
        };
        if !place.is_empty() {
            return Err(CliError::usage(format!("--source-positions {position} is repeated")));
        }
        revision.clone_into(place);
    }
    Ok(all)
}

pub(super) fn operation_resource(selector: &ResourceSelector) -> OperationResource {
    let ResourceSelector { group, kind, namespace, name } = selector.clone();
    OperationResource { group, kind, namespace, name, ..OperationResource::default() }
}
