//! `tidegate sim`: shows the simulated cluster.

use tidegate_cluster::sim::{AuditEntry, has_stored_cluster, read_audit};
use tidegate_daemon::control::client::{self, RequestOutcome};
use tidegate_daemon::operation_access;
use tidegate_executor::{Summary, list_summaries};
use tidegate_model::{Destination, Object, ResourceSelector};
use tidegate_oplog::{Log, Lookup};
use tidegate_state::error::ServiceError;
use tidegate_state::state_dir::StateDir;
use tidegate_state::{log, simulated};
use tidegate_views::protocol::Request;

use crate::args::{Format, SimCommand, StateArgs};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, Text, format_count, table};

pub async fn run(command: SimCommand, printer: &Printer) -> Result<CommandOutcome, CliError> {
    match command {
        SimCommand::Audit { output, state } => audit(output, &state, printer),
        SimCommand::Objects { output, state } => objects(output, &state, printer).await,
        SimCommand::Delete { object, state } => delete(&object, &state, printer).await,
        SimCommand::Reset { state } => reset(&state, printer).await,
    }
}

/// Reads the journal without opening the cluster, so that the command works during a sync.
fn audit(output: Format, state: &StateArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(state.state_dir())?;
    simulated::warn_if_missing_without_log(&state_dir, printer)?;
    let entries = match state_dir.has_cluster()? {
        true => read_audit(&state_dir.cluster()).map_err(ServiceError::simulation)?,
        false => Vec::new(),
    };
    if let Some(gone) = describe_omitted_entries(&entries) {
        printer.note(&gone);
    }
    match output {
        Format::Text if entries.is_empty() => {
            printer.note(&format!(
                "the simulated cluster in {} has received no writes",
                state_dir.path().display()
            ));
        }
        Format::Text => printer.print(&audit_table(&entries, printer.width()))?,
        format => printer.print_value(&entries, format)?,
    }
    Ok(CommandOutcome::Done)
}

/// Describes the entries dropped from the audit log.
fn describe_omitted_entries(entries: &[AuditEntry]) -> Option<String> {
    // Sequence numbers have no gaps.
    let gone = entries.first()?.sequence.checked_sub(1).filter(|gone| *gone > 0)?;
    let writes = format_count(u32::try_from(gone).unwrap_or(u32::MAX), "write", "writes");
    Some(format!(
        "the audit log contains only the newest writes: the first {writes} to this cluster are not listed"
    ))
}

fn audit_table(entries: &[AuditEntry], width: Option<u16>) -> Text {
    let rows = entries.iter().map(|entry| {
        let verb = format!("{:?}", entry.verb).to_lowercase();
        [
            entry.sequence.to_string(),
            if entry.dry_run { format!("{verb} (dry run)") } else { verb },
            entry.key().to_string(),
            entry.code.to_string(),
            entry.operation_id.map(|id| id.to_string()).unwrap_or_default(),
        ]
    });
    table(["NUMBER", "VERB", "OBJECT", "CODE", "OPERATION"], rows, width)
}

async fn objects(output: Format, state: &StateArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(state.state_dir())?;
    let mut objects: Vec<Object> = Vec::new();
    if state_dir.has_log()? && state_dir.has_cluster()? {
        objects = match log::open_locked(&state_dir, printer, client::is_process_running).await {
            Ok(log) => simulated::open(&state_dir, &log, printer).await?.objects(),
            Err(ServiceError::Log(reason)) if operation_access::prevents_writing(&reason) => {
                simulated::read_objects(&state_dir).await?
            }
            Err(error) => return Err(error.into()),
        };
    } else {
        simulated::warn_if_missing_without_log(&state_dir, printer)?;
    }
    match output {
        Format::Text if objects.is_empty() => {
            printer.note(&format!("the simulated cluster in {} is empty", state_dir.path().display()));
        }
        Format::Text => printer.print(&object_table(&objects, printer.width()))?,
        format => {
            let values: Vec<_> = objects.iter().map(Object::as_value).collect();
            printer.print_value(&values, format)?;
        }
    }
    Ok(CommandOutcome::Done)
}

fn object_table(objects: &[Object], width: Option<u16>) -> Text {
    let rows = objects.iter().map(|object| {
        let health = match tidegate_health::assess(object) {
            // As in `kubectl get`, a deletion takes precedence over the object's health.
            _ if object.is_deleting() => "Terminating".to_owned(),
            None => String::new(),
            Some(Ok(health)) => format!("{:?}", health.status),
            Some(Err(error)) => error.to_string(),
        };
        [
            object.gvk().group,
            object.kind().to_owned(),
            object.namespace().to_owned(),
            object.name().to_owned(),
            health,
        ]
    });
    table(["GROUP", "KIND", "NAMESPACE", "NAME", "HEALTH"], rows, width)
}

/// Deletes an object, through the running process if any.
async fn delete(
    object: &ResourceSelector,
    state: &StateArgs,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(state.state_dir())?;
    let request = Request::DeleteSimulated { object: object.clone() };
    match client::send_request(&state_dir.socket(), &request).await? {
        RequestOutcome::Reply(reply) => drop(operation_access::check_reply(reply)?),
        RequestOutcome::NoProcess | RequestOutcome::NoResponse => {
            let log = log::open_locked(&state_dir, printer, client::is_process_running).await?;
            simulated::delete_object(&simulated::open(&state_dir, &log, printer).await?, object).await?;
        }
    }
    Ok(CommandOutcome::Done)
}

async fn reset(state: &StateArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(state.state_dir())?;
    let has_cluster = state_dir.has_cluster()?;
    if has_cluster || state_dir.has_log()? {
        let log = log::open_locked(&state_dir, printer, client::is_process_running).await?;
        if has_cluster {
            remove_cluster(&state_dir, &log, printer).await?;
        }
        // Create an empty cluster, which differs from a missing one.
        simulated::open_unchecked(&state_dir).await?;
    }
    printer.note("the simulated cluster is now empty");
    Ok(CommandOutcome::Done)
}

/// Removes the simulated cluster, unless an operation that can still finish uses it.
async fn remove_cluster(state_dir: &StateDir, log: &Log, printer: &Printer) -> Result<(), CliError> {
    let dir = state_dir.cluster();
    if has_stored_cluster(&dir).map_err(ServiceError::simulation)? {
        let simulated = Destination::Simulated.to_string();
        let works_here = |summary: &Summary| summary.destination == simulated;
        if let Some(open) = list_summaries(log, Lookup::open())?.into_iter().find(works_here) {
            let (id, hint) = (open.operation, state_dir.command_arguments());
            match simulated::open_unchecked(state_dir).await {
                Ok(_) => {
                    return Err(CliError::refused(format!(
                        "operation {id} is unfinished and uses this cluster; end it first with `tidegate \
                         ops terminate {id}{hint}`"
                    )));
                }
                // `ops terminate` would fail with the same error, so don't refuse the reset.
                Err(error) => printer.warn(&format!(
                    "{error}; the cluster is now empty, but the unfinished operation {id} uses it; end the \
                     operation with `tidegate ops terminate {id}{hint}`"
                )),
            }
        }
    }
    std::fs::remove_dir_all(&dir).map_err(|source| CliError::io("remove", dir, source))
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::sim::Verb;

    use super::*;

    #[test]
    fn omitted_audit_entries_are_reported() {
        let entry = |sequence| AuditEntry {
            sequence,
            verb: Verb::Apply,
            dry_run: false,
            group: String::new(),
            kind: "ConfigMap".to_owned(),
            namespace: "default".to_owned(),
            name: "a".to_owned(),
            operation_id: None,
            code: 200,
        };
        assert_eq!(describe_omitted_entries(&[]), None);
        assert_eq!(describe_omitted_entries(&[entry(1), entry(2)]), None);
        let gone = describe_omitted_entries(&[entry(70_001), entry(70_002)]).unwrap();
        assert!(gone.contains("the first 70000 writes"), "{gone}");
    }
}
