//! `tidegate sim`: a look into the simulated cluster.

use tidegate_cluster::sim::{AuditEntry, is_kept, read_audit};
use tidegate_executor::{Summary, operations};
use tidegate_model::{Destination, Object, ResourceSelector};
use tidegate_oplog::{Log, Lookup};
use tidegate_service::control::client::{self, Asked};
use tidegate_service::control::protocol::Request;
use tidegate_service::error::ServiceError;
use tidegate_service::route;
use tidegate_service::state_dir::StateDir;
use tidegate_service::{log, simulated};

use crate::args::{Format, SimCommand, StateArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, Text, counted, table};

pub async fn run(command: SimCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        SimCommand::Audit { output, state } => audit(output, &state, printer),
        SimCommand::Objects { output, state } => objects(output, &state, printer).await,
        SimCommand::Delete { object, state } => delete(&object, &state, printer).await,
        SimCommand::Reset { state } => reset(&state, printer).await,
    }
}

/// Reads the journal without opening the cluster, so it works while a sync is at work.
fn audit(output: Format, state: &StateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(state.named())?;
    simulated::tell_missing_beside(&state_dir, printer)?;
    let entries = match state_dir.has_cluster()? {
        true => read_audit(&state_dir.cluster()).map_err(ServiceError::simulated)?,
        false => Vec::new(),
    };
    if let Some(gone) = left_out(&entries) {
        printer.note(&gone);
    }
    match output {
        Format::Text if entries.is_empty() => {
            printer.note(&format!(
                "the simulated cluster of {} has received no writes",
                state_dir.path().display()
            ));
        }
        Format::Text => printer.out(&audit_table(&entries, printer.width()))?,
        format => printer.value(&entries, format)?,
    }
    Ok(Ended::Done)
}

/// What is no longer in an audit.
fn left_out(entries: &[AuditEntry]) -> Option<String> {
    // They are counted without gaps.
    let gone = entries.first()?.sequence.checked_sub(1).filter(|gone| *gone > 0)?;
    let writes = counted(u32::try_from(gone).unwrap_or(u32::MAX), "write", "writes");
    Some(format!("the audit keeps the newest writes only: the first {writes} of this cluster are not listed"))
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

async fn objects(output: Format, state: &StateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(state.named())?;
    let mut objects: Vec<Object> = Vec::new();
    if state_dir.has_log()? && state_dir.has_cluster()? {
        objects = match log::lock(&state_dir, printer).await {
            Ok(log) => simulated::open(&state_dir, &log, printer).await?.objects(),
            Err(ServiceError::Log(why)) if route::keeps_from_writing(&why) => {
                simulated::copied_objects(&state_dir).await?
            }
            Err(error) => return Err(error.into()),
        };
    } else {
        simulated::tell_missing_beside(&state_dir, printer)?;
    }
    match output {
        Format::Text if objects.is_empty() => {
            printer.note(&format!("the simulated cluster of {} is empty", state_dir.path().display()));
        }
        Format::Text => printer.out(&object_table(&objects, printer.width()))?,
        format => {
            let values: Vec<_> = objects.iter().map(Object::as_value).collect();
            printer.value(&values, format)?;
        }
    }
    Ok(Ended::Done)
}

fn object_table(objects: &[Object], width: Option<u16>) -> Text {
    let rows = objects.iter().map(|object| {
        let health = match tidegate_health::assess(object) {
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

/// Through the process at work, where there is one.
async fn delete(object: &ResourceSelector, state: &StateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(state.named())?;
    let request = Request::DeleteSimulated { object: object.clone() };
    match client::ask(&state_dir.socket(), &request).await? {
        Asked::Answered(reply) => drop(route::accept(reply)?),
        Asked::Nobody | Asked::Silent => {
            let log = log::lock(&state_dir, printer).await?;
            simulated::delete(&simulated::open(&state_dir, &log, printer).await?, object).await?;
        }
    }
    Ok(Ended::Done)
}

async fn reset(state: &StateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(state.named())?;
    let has_cluster = state_dir.has_cluster()?;
    if has_cluster || state_dir.has_log()? {
        let log = log::lock(&state_dir, printer).await?;
        if has_cluster {
            remove(&state_dir, &log, printer).await?;
        }
        // One that is there and empty is not missing.
        simulated::begin(&state_dir).await?;
    }
    printer.note("the simulated cluster is empty now");
    Ok(Ended::Done)
}

/// Removes the simulated cluster, unless an operation works on it that can be ended there.
async fn remove(state_dir: &StateDir, log: &Log, printer: &Printer) -> Result<(), CliError> {
    let dir = state_dir.cluster();
    if is_kept(&dir).map_err(ServiceError::simulated)? {
        let simulated = Destination::Simulated.to_string();
        let works_here = |summary: &Summary| summary.destination == simulated;
        if let Some(open) = operations(log, Lookup::open())?.into_iter().find(works_here) {
            let (id, hint) = (open.operation, state_dir.hint());
            match simulated::begin(state_dir).await {
                Ok(_) => {
                    return Err(CliError::refused(format!(
                        "operation {id} is not over and works on this cluster; end it first with `tidegate ops terminate {id}{hint}`"
                    )));
                }
                // Nor could it be ended there.
                Err(error) => printer.warn(&format!(
                    "{error}; operation {id}, which works on it and is not over, finds an empty cluster: end it with `tidegate ops terminate {id}{hint}`"
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
    fn what_the_audit_no_longer_has_is_said() {
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
        assert_eq!(left_out(&[]), None);
        assert_eq!(left_out(&[entry(1), entry(2)]), None);
        let gone = left_out(&[entry(70_001), entry(70_002)]).unwrap();
        assert!(gone.contains("the first 70000 writes"), "{gone}");
    }
}
