//! Opening the operation log, and finding operations in it.

use std::sync::Arc;

use tidegate_executor::{Clock as _, EngineError, SystemClock};
use tidegate_lifecycle::Driver;
use tidegate_lifecycle::operation::{Fact, State};
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::{Damage, Holder, LogKey, OpenOptions, OperationLog, SledLog, Summary};

use crate::error::CliError;
use crate::output::Printer;
use crate::state_dir::StateDir;

/// The key of the log, instead of the one in the state directory.
const LOG_KEY: &str = "TIDEGATE_LOG_KEY";

/// The operation log.
pub type Log = Arc<dyn OperationLog<Fact, State>>;

/// Opens the log, and says what was found damaged.
pub fn open(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    let log = open_quietly(state_dir)?;
    tell_damage(&log, state_dir, printer);
    Ok(log)
}

/// Opens the log as it is now, to read it and no more: nothing is written to the state directory, and whoever has its
/// lock keeps it.
pub fn open_to_read(state_dir: &StateDir, printer: &Printer) -> Result<Log, CliError> {
    let log: Log = Arc::new(SledLog::open_to_read(state_dir.path(), given_key()?)?);
    tell_damage(&log, state_dir, printer);
    Ok(log)
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

/// The operation meant by an id, the beginning of one, or the name of an application: then the newest of it.
pub fn find(summaries: &[Summary], text: &str, state_dir: &StateDir) -> Result<Summary, CliError> {
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let wanted = plain(text);
    let by_id: Vec<&Summary> = summaries
        .iter()
        .filter(|summary| !wanted.is_empty() && plain(&summary.operation.to_string()).starts_with(&wanted))
        .collect();
    let by_application = summaries.iter().rev().find(|summary| summary.application == text);
    match (by_id.as_slice(), by_application) {
        ([], None) => Err(CliError::UnknownOperation {
            text: text.to_owned(),
            state_dir: state_dir.path().to_path_buf(),
        }),
        ([only], None) => Ok((*only).clone()),
        (_, Some(newest)) => Ok(newest.clone()),
        (several, None) => Err(CliError::AmbiguousOperation {
            text: text.to_owned(),
            matches: several.iter().map(|summary| summary.operation.to_string()).collect(),
        }),
    }
}

/// Where an operation was begun.
pub fn destination(log: &Log, operation: OperationId) -> Result<Destination, CliError> {
    let loaded = log.load(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.facts)?;
    let header = driver.state().header().ok_or(EngineError::Unknown { operation })?;
    Ok(header.request.destination.clone())
}

/// The operations that are not over.
pub fn open_operations(summaries: &[Summary]) -> Vec<Summary> {
    summaries.iter().filter(|summary| summary.finished_at.is_none()).cloned().collect()
}
