//! Opening the operation log, and finding operations in it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_executor::effects::cluster_of;
use tidegate_executor::{EngineError, Summary, codecs, misstated, open_log, operations};
use tidegate_lifecycle::operation::{Driver, Fact};
use tidegate_model::{Destination, OperationId, Records as _, StreamId, SyncRequest, Timestamp};
use tidegate_oplog::{Damage, Impaired, Known, LogKey, Lookup, RawEntry, SledLog, TypedLog as _};

pub use tidegate_oplog::Log;

use crate::control::Listed;
use crate::error::CliError;
use crate::output::Printer;
use crate::state_dir::StateDir;
use crate::timeline;

/// The key of the log, instead of the one in the state directory.
const LOG_KEY: &str = "TIDEGATE_LOG_KEY";

/// Opens the log, and says what was found damaged.
pub fn open(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    state_dir.close_to_others(printer)?;
    let log = open_log(state_dir.path(), given_key()?)?;
    tell_damage(&log, state_dir, printer);
    timeline::settle(state_dir, &log, printer);
    Ok(log)
}

/// Opens the log as it is now, to read it and no more: nothing is written to the state directory, and whoever has its
/// lock keeps it.
pub fn open_to_read(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    let log: Log = Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?, codecs())?);
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
        let stream = damage.stream.map(|id| format!("{id}: ")).unwrap_or_default();
        let copy = damage.quarantine.map(|path| format!("; the bytes are kept in {}", path.display()));
        printer.warn(&format!(
            "the operation log was damaged: {stream}{}{}",
            damage.reason,
            copy.unwrap_or_default()
        ));
    }
}

/// The key from the environment; without one the log uses its own, in the state directory.
fn given_key() -> Result<Option<LogKey>, CliError> {
    let Some(text) = std::env::var_os(LOG_KEY).filter(|text| !text.is_empty()) else { return Ok(None) };
    let key =
        text.into_string().map_err(|_| "it is not text".to_owned()).and_then(|text| LogKey::parse(&text));
    key.map(Some).map_err(|reason| CliError::usage(format!("{LOG_KEY} holds no key: {reason}")))
}

/// The operations that are all that is asked for, oldest first: those that are whole, and what is known of the others. The
/// log does not know who works on them. What this program does not know is among all operations.
pub fn listed(log: &Log, lookup: &Lookup) -> Result<Vec<Listed>, CliError> {
    let mut listed: Vec<Listed> = operations(log, lookup.clone())?.into_iter().map(Listed::whole).collect();
    // Where the log may be written to they were put right when it was opened.
    let restated = if is_newly_damaged(log) { misstated(log)? } else { Vec::new() };
    for right in restated {
        let of_it = listed.iter_mut().filter(|listed| listed.operation == right.summary.operation);
        of_it.for_each(|listed| listed.summary = Some(right.summary.clone()));
    }
    for Impaired { stream, entry, reason } in log.impaired() {
        let operation = OperationId::from(stream);
        listed.retain(|listed| listed.operation != operation);
        let summary = entry.and_then(|entry| entry.decode::<Fact>().ok()).map(Summary::from);
        if summary.as_ref().is_none_or(|summary| is_wanted(summary, lookup)) {
            let damaged =
                Listed { operation, summary, damage: Some(reason), unknown_kind: None, at_work: None };
            listed.push(damaged);
        }
    }
    listed.extend(log.find(&Lookup { known: Some(false), ..lookup.clone() })?.into_iter().map(unknown));
    // Ids are in the order of the log; times are those of clocks, which may have been wrong.
    listed.sort_by_key(|listed| listed.operation);
    Ok(listed)
}

/// One whose application is lost may be of any.
fn is_wanted(summary: &Summary, lookup: &Lookup) -> bool {
    let Lookup { application, open, .. } = lookup;
    application.as_ref().is_none_or(|wanted| summary.application == *wanted)
        && open.is_none_or(|wanted| summary.finished_at.is_none() == wanted)
}

/// A stream of a kind this program does not know.
fn unknown(entry: RawEntry) -> Listed {
    let unknown_kind = Some(entry.kind.name().to_owned());
    Listed { operation: entry.stream.into(), summary: None, damage: None, unknown_kind, at_work: None }
}

/// One operation as a list has it.
fn listed_one(log: &Log, stream: StreamId) -> Result<Option<Listed>, CliError> {
    let impaired = log.impaired().into_iter().find(|impaired| impaired.stream == stream);
    if let Some(Impaired { entry, reason, .. }) = impaired {
        let summary = entry.and_then(|entry| entry.decode::<Fact>().ok()).map(Summary::from);
        let operation = stream.into();
        let damage = Some(reason);
        return Ok(Some(Listed { operation, summary, damage, unknown_kind: None, at_work: None }));
    }
    match log.entry(stream)? {
        None => Ok(None),
        Some(entry) if entry.kind == Fact::KIND => Ok(Some(Listed::whole(entry.decode::<Fact>()?.into()))),
        Some(entry) => Ok(Some(unknown(entry))),
    }
}

/// The operation of an id, as a list has it.
pub fn known(log: &Log, operation: OperationId) -> Result<Option<Listed>, CliError> {
    listed_one(log, operation.into())
}

/// When an operation was made, as its id says.
pub fn made_at(operation: OperationId) -> Timestamp {
    tidegate_executor::made_at(operation).unwrap_or_default()
}

/// The operations that may be meant by an id, the beginning of one, or the name of an application: of an application only
/// the one that is not over, or else the newest.
pub fn candidates(log: &Log, text: &str) -> Result<Vec<Listed>, CliError> {
    let of_application = listed(log, &Lookup::of_application(text))?;
    let mut newest_first =
        of_application.into_iter().rev().filter(|listed| is_of(listed, text)).collect::<Vec<_>>();
    let open = newest_first.iter().position(is_open).unwrap_or(0);
    if !newest_first.is_empty() {
        return Ok(vec![newest_first.swap_remove(open)]);
    }
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let wanted = plain(text);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let impaired = log.impaired().into_iter().map(|impaired| impaired.stream);
    let ids: BTreeSet<StreamId> = log.ids().into_iter().chain(impaired).collect();
    let meant = ids.into_iter().filter(|id| plain(&id.to_string()).starts_with(&wanted));
    meant.filter_map(|id| listed_one(log, id).transpose()).collect()
}

/// The one operation of those a person may mean.
pub fn find(candidates: Vec<Listed>, text: &str, state_dir: &StateDir) -> Result<Listed, CliError> {
    match <[Listed; 1]>::try_from(candidates) {
        Ok([Listed { operation, unknown_kind: Some(kind), .. }]) => Err(CliError::refused(format!(
            "{operation} is a {kind}, which this program does not know; use the program that began it, or a later one"
        ))),
        Ok([only]) => Ok(only),
        Err(none) if none.is_empty() => Err(CliError::UnknownOperation {
            text: text.to_owned(),
            state_dir: state_dir.path().to_path_buf(),
        }),
        Err(several) => Err(CliError::AmbiguousOperation {
            text: text.to_owned(),
            matches: several.iter().map(|listed| listed.operation.to_string()).collect(),
        }),
    }
}

fn is_of(listed: &Listed, application: &str) -> bool {
    listed.summary.as_ref().is_some_and(|known| known.application == application)
}

/// What a sync of this application would know of its objects: the inventory in the log, if there is one. It is read
/// from a copy unless the log is open already, so that looking neither waits for a process at work nor stops one.
pub fn inventory(state_dir: &StateDir, open: Option<&Log>, request: &SyncRequest) -> Option<Known> {
    let cluster = cluster_of(&request.destination)?;
    let read = || -> Result<Option<Known>, CliError> {
        let log: Log = match open {
            Some(log) => Arc::clone(log),
            None if state_dir.has_log()? => {
                Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?, codecs())?)
            }
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
    let loaded = log.load_as(operation)?;
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
