//! Opening the operation log, and finding operations in it.

use std::sync::Arc;

use tidegate_executor::effects::cluster_of;
use tidegate_executor::{Clock as _, EngineError, SystemClock, misstated};
use tidegate_lifecycle::Driver;
use tidegate_lifecycle::operation::{Fact, State};
use tidegate_model::{Destination, OperationId, SyncRequest, Timestamp};
use tidegate_oplog::{Damage, Holder, Impaired, Known, LogKey, OpenOptions, OperationLog, SledLog, Summary};

use crate::control::Listed;
use crate::error::CliError;
use crate::output::Printer;
use crate::state_dir::StateDir;
use crate::timeline;

/// The key of the log, instead of the one in the state directory.
const LOG_KEY: &str = "TIDEGATE_LOG_KEY";

/// The operation log.
pub type Log = Arc<dyn OperationLog<Fact, State>>;

/// Opens the log, and says what was found damaged.
pub fn open(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    state_dir.close_to_others(printer)?;
    let log = open_quietly(state_dir)?;
    if is_newly_damaged(&log) {
        misstated(&log)?.into_iter().try_for_each(|append| log.append(vec![append]))?;
    }
    tell_damage(&log, state_dir, printer);
    timeline::settle(state_dir, &log, printer);
    Ok(log)
}

/// Opens the log as it is now, to read it and no more: nothing is written to the state directory, and whoever has its
/// lock keeps it.
pub fn open_to_read(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    let log: Log = Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?)?);
    tell_damage(&log, state_dir, printer);
    timeline::settle(state_dir, &log, printer);
    Ok(log)
}

fn is_newly_damaged(log: &Log) -> bool {
    log.damage().iter().any(|damage| damage.is_new)
}

fn tell_damage(log: &Log, state_dir: &StateDir, printer: &Printer) {
    let (new, known): (Vec<Damage>, Vec<Damage>) = log.damage().into_iter().partition(|damage| damage.is_new);
    if !known.is_empty() {
        let folder = state_dir.path().join("quarantine");
        printer.note(&format!(
            "the operation log was damaged before; what was found is in {}",
            folder.display()
        ));
    }
    for damage in new {
        let operation = damage.operation.map(|id| format!("operation {id}: ")).unwrap_or_default();
        let copy = damage.quarantine.map(|path| format!("; the bytes are kept in {}", path.display()));
        printer.warn(&format!(
            "the operation log was damaged: {operation}{}{}",
            damage.reason,
            copy.unwrap_or_default()
        ));
    }
}

fn open_quietly(state_dir: &StateDir) -> Result<Log, CliError> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let holder = Holder { pid: std::process::id(), command: words.join(" "), since: SystemClock.now() };
    Ok(Arc::new(SledLog::open(state_dir.path(), OpenOptions { holder, key: given_key()? })?))
}

/// The key from the environment; without one the log uses its own, in the state directory.
fn given_key() -> Result<Option<LogKey>, CliError> {
    let Some(text) = std::env::var_os(LOG_KEY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let key =
        text.into_string().map_err(|_| "it is not text".to_owned()).and_then(|text| LogKey::parse(&text));
    key.map(Some).map_err(|reason| CliError::usage(format!("{LOG_KEY} holds no key: {reason}")))
}

/// All operations, oldest first: those that are whole, and what is known of the others. The log does not know who works
/// on them.
pub fn listed(log: &Log) -> Result<Vec<Listed>, CliError> {
    let whole = |summary: Summary| Listed {
        operation: summary.operation,
        summary: Some(summary),
        damage: None,
        at_work: None,
    };
    let mut listed: Vec<Listed> = log.summaries()?.into_iter().map(whole).collect();
    // Where the log may be written to they were put right when it was opened.
    let restated = if is_newly_damaged(log) { misstated(log)? } else { Vec::new() };
    for append in restated {
        let of_it = listed.iter_mut().filter(|listed| listed.operation == append.operation);
        of_it.for_each(|listed| listed.summary = Some(append.summary.clone()));
    }
    for Impaired { operation, summary, reason } in log.impaired() {
        listed.retain(|listed| listed.operation != operation);
        listed.push(Listed { operation, summary, damage: Some(reason), at_work: None });
    }
    // Ids are in the order of the log; times are those of clocks, which may have been wrong.
    listed.sort_by_key(|listed| listed.operation);
    Ok(listed)
}

/// When an operation was made, as its id says.
pub fn made_at(operation: OperationId) -> Timestamp {
    tidegate_executor::made_at(operation).unwrap_or_default()
}

/// The operation meant by an id, the beginning of one, or the name of an application: then the one of it that is not
/// over, or else the newest.
pub fn find(listed: &[Listed], text: &str, state_dir: &StateDir) -> Result<Listed, CliError> {
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let wanted = plain(text);
    let by_id: Vec<&Listed> = listed
        .iter()
        .filter(|listed| !wanted.is_empty() && plain(&listed.operation.to_string()).starts_with(&wanted))
        .collect();
    let is_of = |listed: &&Listed| listed.summary.as_ref().is_some_and(|known| known.application == text);
    let of_application = || listed.iter().rev().filter(is_of);
    let by_application = of_application().find(|listed| is_open(listed)).or_else(|| of_application().next());
    match (by_id.as_slice(), by_application) {
        ([], None) => Err(CliError::UnknownOperation {
            text: text.to_owned(),
            state_dir: state_dir.path().to_path_buf(),
        }),
        ([only], None) => Ok((*only).clone()),
        (_, Some(newest)) => Ok(newest.clone()),
        (several, None) => Err(CliError::AmbiguousOperation {
            text: text.to_owned(),
            matches: several.iter().map(|listed| listed.operation.to_string()).collect(),
        }),
    }
}

/// What a sync of this application would know of its objects: the inventory in the log, if there is one. It is read
/// from a copy unless the log is open already, so that looking neither waits for a process at work nor stops one.
pub fn inventory(state_dir: &StateDir, open: Option<&Log>, request: &SyncRequest) -> Option<Known> {
    let cluster = cluster_of(&request.destination)?;
    let read = || -> Result<Option<Known>, CliError> {
        let log: Log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?)?),
            None => return Ok(None),
        };
        Ok(log.inventory(&cluster, &request.application)?)
    };
    // Without it the cluster is searched, as it is where there never was one.
    tokio::task::block_in_place(read).unwrap_or_else(|error| {
        tracing::warn!(%error, "the inventory cannot be read; the cluster is searched instead");
        None
    })
}

/// Where an operation was begun.
pub fn destination(log: &Log, operation: OperationId) -> Result<Destination, CliError> {
    let loaded = log.load(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
    let header = driver.state().header().ok_or(EngineError::Unknown { operation })?;
    Ok(header.request.destination.clone())
}

/// The operations that are not over and can go on.
pub fn open_operations(listed: &[Listed]) -> Vec<Summary> {
    listed.iter().filter(|listed| is_open(listed)).filter_map(|listed| listed.summary.clone()).collect()
}

fn is_open(listed: &Listed) -> bool {
    listed.damage.is_none() && listed.summary.as_ref().is_some_and(|summary| summary.finished_at.is_none())
}

/// The operations that are damaged and cannot go on, though they are not known to be over.
pub fn lost_operations(listed: &[Listed]) -> Vec<&Listed> {
    let is_over =
        |listed: &Listed| listed.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some());
    listed.iter().filter(|listed| listed.damage.is_some() && !is_over(listed)).collect()
}
