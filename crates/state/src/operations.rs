//! List entries for operations in a log, and lookups by user input.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidegate_application::AppKey;
use tidegate_executor::{EngineError, Summary, find_wrong_summaries, list_summaries};
use tidegate_lifecycle::operation::{Driver, OperationEvent};
use tidegate_model::{
    Destination, OperationId, OperationPhase, StreamId, StreamKind, StreamRecords as _, Timestamp,
};
use tidegate_oplog::{ImpairedStream, Log, LogError, Lookup, RawEntry, StreamName, TypedLog as _};

use crate::error::ServiceError;
use crate::state_dir::StateDir;

/// List entry for an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationEntry {
    /// Operation ID, or stream ID if the kind is unknown.
    pub operation: OperationId,
    /// Summary, unless it was lost.
    pub summary: Option<Summary>,
    /// Description of the damage, if any.
    pub damage: Option<String>,
    /// Kind of an entry that isn't an operation: a run of an ApplicationSet, or a kind unknown to this
    /// version of Tidegate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_kind: Option<String>,
    /// True if a process is running the operation. `None` if unknown.
    pub at_work: Option<bool>,
}

impl OperationEntry {
    /// Creates the entry for an undamaged operation.
    pub fn from_summary(summary: Summary) -> Self {
        let operation = summary.operation;
        Self { operation, summary: Some(summary), damage: None, unknown_kind: None, at_work: None }
    }

    /// Returns the summary, or the damage as an error.
    pub fn into_summary(self) -> Result<Summary, LogError> {
        let Self { operation, summary, damage, .. } = self;
        summary.ok_or_else(|| {
            let stream = StreamName::with_kind(StreamKind::OPERATION, operation);
            LogError::Damaged { stream, reason: damage.unwrap_or_default() }
        })
    }
}

fn is_newly_damaged(log: &Log) -> bool {
    log.damage().iter().any(|damage| damage.is_new)
}

/// Returns the matching operations, oldest first, including the remains of damaged operations. The log
/// doesn't tell which ones are running. A lookup of all operations also includes streams of unknown kinds.
pub fn list_operations(log: &Log, lookup: &Lookup) -> Result<Vec<OperationEntry>, ServiceError> {
    let mut listed: Vec<OperationEntry> =
        list_summaries(log, lookup.clone())?.into_iter().map(OperationEntry::from_summary).collect();
    // Opening the log for writing has already corrected wrong summaries.
    let restated = if is_newly_damaged(log) { find_wrong_summaries(log)? } else { Vec::new() };
    for right in restated {
        let of_it = listed.iter_mut().filter(|listed| listed.operation == right.summary.operation);
        of_it.for_each(|listed| listed.summary = Some(right.summary.clone()));
    }
    for ImpairedStream { stream, entry, reason } in log.impaired_streams() {
        let operation = OperationId::from(stream);
        listed.retain(|listed| listed.operation != operation);
        let summary = entry.and_then(|entry| entry.decode::<OperationEvent>().ok()).map(Summary::from);
        if summary.as_ref().is_none_or(|summary| is_match(summary, lookup)) {
            let damaged = OperationEntry {
                operation,
                summary,
                damage: Some(reason),
                unknown_kind: None,
                at_work: None,
            };
            listed.push(damaged);
        }
    }
    listed.extend(
        log.find(&Lookup { has_known_kind: Some(false), ..lookup.clone() })?
            .into_iter()
            .map(unknown_kind_entry),
    );
    // Sort by ID, the log's order. The clock may have been wrong.
    listed.sort_by_key(|listed| listed.operation);
    Ok(listed)
}

/// Returns true if an operation matches. An operation that lost its application's name matches every
/// application.
fn is_match(summary: &Summary, lookup: &Lookup) -> bool {
    let Lookup { application, open, .. } = lookup;
    application.as_ref().is_none_or(|wanted| summary.application == *wanted)
        && open.is_none_or(|wanted| summary.finished_at.is_none() == wanted)
}

/// Creates the entry for a stream of an unknown kind.
fn unknown_kind_entry(entry: RawEntry) -> OperationEntry {
    let unknown_kind = Some(entry.kind.name().to_owned());
    OperationEntry {
        operation: entry.stream.into(),
        summary: None,
        damage: None,
        unknown_kind,
        at_work: None,
    }
}

/// Returns the entry for a single stream.
fn find_stream(log: &Log, stream: StreamId) -> Result<Option<OperationEntry>, ServiceError> {
    let impaired = log.impaired_streams().into_iter().find(|impaired| impaired.stream == stream);
    if let Some(ImpairedStream { entry, reason, .. }) = impaired {
        let summary = entry.and_then(|entry| entry.decode::<OperationEvent>().ok()).map(Summary::from);
        let operation = stream.into();
        let damage = Some(reason);
        return Ok(Some(OperationEntry { operation, summary, damage, unknown_kind: None, at_work: None }));
    }
    match log.entry(stream)? {
        None => Ok(None),
        Some(entry) if entry.kind == OperationEvent::KIND => {
            Ok(Some(OperationEntry::from_summary(entry.decode::<OperationEvent>()?.into())))
        }
        Some(entry) => Ok(Some(unknown_kind_entry(entry))),
    }
}

/// Returns the entry for the operation with this ID.
pub fn find_operation(log: &Log, operation: OperationId) -> Result<Option<OperationEntry>, ServiceError> {
    find_stream(log, operation.into())
}

/// Returns a finished operation's outcome from the log's list.
pub fn find_outcome(
    log: &Log,
    operation: OperationId,
) -> Result<Option<(OperationPhase, String)>, ServiceError> {
    let Some(listed) = find_operation(log, operation)? else { return Ok(None) };
    let summary = listed.into_summary()?;
    Ok(summary.finished_at.map(|_| (summary.phase, summary.message)))
}

/// Returns an operation's creation time, according to its ID.
pub fn creation_time(operation: OperationId) -> Timestamp {
    tidegate_executor::creation_time(operation).unwrap_or_default()
}

/// Converts an Application name entered by a user to the instance name in operations: `team/shop` becomes
/// `team_shop`, and `argocd/shop` becomes `shop`.
pub fn instance_name(text: &str) -> String {
    if text.contains('/') { AppKey::parse(text).instance_name() } else { text.to_owned() }
}

/// Returns the operations that match an ID, an ID prefix or an application name. For an application, returns
/// only the unfinished operation, or else the newest one.
pub fn find_candidates(log: &Log, text: &str) -> Result<Vec<OperationEntry>, ServiceError> {
    let app = instance_name(text);
    let of_application = list_operations(log, &Lookup::of_application(&app))?;
    let mut newest_first =
        of_application.into_iter().rev().filter(|listed| is_of_application(listed, &app)).collect::<Vec<_>>();
    let open = newest_first.iter().position(is_open).unwrap_or(0);
    if !newest_first.is_empty() {
        return Ok(vec![newest_first.swap_remove(open)]);
    }
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let name = plain(text);
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let impaired = log.impaired_streams().into_iter().map(|impaired| impaired.stream);
    let ids: BTreeSet<StreamId> = log.ids()?.into_iter().chain(impaired).collect();
    let matching = ids.into_iter().filter(|id| plain(&id.to_string()).starts_with(&name));
    let mut matching: Vec<OperationEntry> =
        matching.filter_map(|id| find_stream(log, id).transpose()).collect::<Result<_, _>>()?;
    if matching.len() > 1 {
        // If the prefix matches an operation, drop rollouts and deletions.
        matching.retain(|listed| {
            listed.unknown_kind.as_deref().is_none_or(|kind| describe_appset_stream(kind).is_none())
        });
    }
    Ok(matching)
}

/// Describes the kind of a run of an ApplicationSet.
fn describe_appset_stream(kind: &str) -> Option<&'static str> {
    let known = [(StreamKind::ROLLOUT, "a rollout"), (StreamKind::TEARDOWN, "a deletion")];
    known.iter().find(|(known, _)| known.name() == kind).map(|(_, what)| *what)
}

/// Returns the error for an ID of something other than an operation. It names the command that shows the
/// item.
pub fn not_an_operation_error(id: OperationId, kind: &str) -> ServiceError {
    let run = describe_appset_stream(kind);
    let what = match run {
        Some(run) => {
            format!("{run} of an ApplicationSet, not an operation; `tidegate appset show-run {id}` shows it")
        }
        None => format!(
            "a {kind}, which this version of tidegate does not support; use the version that started it or \
             a later one"
        ),
    };
    ServiceError::NotAnOperation { id, what, is_run: run.is_some() }
}

/// Returns the only candidate, or an error if there are none or several.
pub fn select_candidate(
    candidates: Vec<OperationEntry>,
    text: &str,
    state_dir: &StateDir,
) -> Result<OperationEntry, ServiceError> {
    match <[OperationEntry; 1]>::try_from(candidates) {
        Ok([OperationEntry { operation, unknown_kind: Some(kind), .. }]) => {
            Err(not_an_operation_error(operation, &kind))
        }
        Ok([only]) => Ok(only),
        Err(none) if none.is_empty() => Err(ServiceError::UnknownOperation {
            text: text.to_owned(),
            state_dir: state_dir.path().to_path_buf(),
        }),
        Err(several) => Err(ServiceError::AmbiguousOperation {
            text: text.to_owned(),
            matches: several.iter().map(|listed| listed.operation.to_string()).collect(),
        }),
    }
}

fn is_of_application(listed: &OperationEntry, application: &str) -> bool {
    listed.summary.as_ref().is_some_and(|known| known.application == application)
}

/// Returns an operation's cluster.
pub fn read_destination(log: &Log, operation: OperationId) -> Result<Destination, ServiceError> {
    let loaded = log.load_as(operation)?;
    let driver = Driver::recover(loaded.snapshot, loaded.events)?;
    let header = driver.state().header().ok_or(EngineError::UnknownOperation { operation })?;
    Ok(header.request.destination.clone())
}

/// Returns the unfinished operations that can be resumed.
pub fn open_operations(listed: &[OperationEntry]) -> Vec<Summary> {
    listed.iter().filter(|listed| is_open(listed)).filter_map(|listed| listed.summary.clone()).collect()
}

fn is_open(listed: &OperationEntry) -> bool {
    listed.damage.is_none() && listed.summary.as_ref().is_some_and(|summary| summary.finished_at.is_none())
}

/// Returns the damaged operations that can't be resumed. Omits those that certainly finished.
pub fn lost_operations(listed: &[OperationEntry]) -> Vec<&OperationEntry> {
    let is_over = |listed: &OperationEntry| {
        listed.summary.as_ref().is_some_and(|summary| summary.finished_at.is_some())
    };
    listed.iter().filter(|listed| listed.damage.is_some() && !is_over(listed)).collect()
}
