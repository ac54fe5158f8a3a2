//! The operations of a log, as lists know them, and finding those that a person means.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidegate_executor::{EngineError, Summary, misstated, operations};
use tidegate_lifecycle::operation::{Driver, Fact};
use tidegate_model::{
    Destination, OperationId, OperationPhase, Records as _, StreamId, StreamKind, Timestamp,
};
use tidegate_oplog::{Impaired, Log, LogError, Lookup, RawEntry, StreamName, TypedLog as _};

use crate::applications::store::AppKey;
use crate::error::ServiceError;
use crate::state_dir::StateDir;

/// An operation as a list knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// Its id; of a kind this program does not know, that of the stream.
    pub operation: OperationId,
    /// What is known of it; nothing where even that was lost.
    pub summary: Option<Summary>,
    /// What is damaged of it.
    pub damage: Option<String>,
    /// What it is, where it is no operation: something of an ApplicationSet, or of a kind that this program does not know and
    /// keeps as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_kind: Option<String>,
    /// Whether a process works on it; `None` where that cannot be told.
    pub at_work: Option<bool>,
}

impl Listed {
    /// An operation that is whole.
    pub fn whole(summary: Summary) -> Self {
        let operation = summary.operation;
        Self { operation, summary: Some(summary), damage: None, unknown_kind: None, at_work: None }
    }

    /// Its summary; where that is lost, what is damaged.
    pub fn known(self) -> Result<Summary, LogError> {
        let Self { operation, summary, damage, .. } = self;
        summary.ok_or_else(|| {
            let stream = StreamName::of(StreamKind::OPERATION, operation);
            LogError::Damaged { stream, reason: damage.unwrap_or_default() }
        })
    }
}

fn is_newly_damaged(log: &Log) -> bool {
    log.damage().iter().any(|damage| damage.is_new)
}

/// The operations that are all that is asked for, oldest first: those that are whole, and what is known of the others. The
/// log does not know who works on them. What this program does not know is among all operations.
pub fn listed(log: &Log, lookup: &Lookup) -> Result<Vec<Listed>, ServiceError> {
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
fn listed_one(log: &Log, stream: StreamId) -> Result<Option<Listed>, ServiceError> {
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
pub fn known(log: &Log, operation: OperationId) -> Result<Option<Listed>, ServiceError> {
    listed_one(log, operation.into())
}

/// How an operation has ended, if it has, as the log lists it.
pub(crate) fn ended(
    log: &Log,
    operation: OperationId,
) -> Result<Option<(OperationPhase, String)>, ServiceError> {
    let Some(listed) = known(log, operation)? else { return Ok(None) };
    let summary = listed.known()?;
    Ok(summary.finished_at.map(|_| (summary.phase, summary.message)))
}

/// When an operation was made, as its id says.
pub fn made_at(operation: OperationId) -> Timestamp {
    tidegate_executor::made_at(operation).unwrap_or_default()
}

/// The application that people mean, as its operations name it: `team/shop` is `team_shop`, and `argocd/shop` is `shop`.
pub fn instance(text: &str) -> String {
    if text.contains('/') { AppKey::named(text).instance() } else { text.to_owned() }
}

/// The operations that may be meant by an id, the beginning of one, or the name of an application: of an application only
/// the one that is not over, or else the newest.
pub fn candidates(log: &Log, text: &str) -> Result<Vec<Listed>, ServiceError> {
    let app = instance(text);
    let of_application = listed(log, &Lookup::of_application(&app))?;
    let mut newest_first =
        of_application.into_iter().rev().filter(|listed| is_of(listed, &app)).collect::<Vec<_>>();
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
    let mut meant: Vec<Listed> =
        meant.filter_map(|id| listed_one(log, id).transpose()).collect::<Result<_, _>>()?;
    if meant.len() > 1 {
        // The beginning of an id means an operation, where one has it.
        meant.retain(|listed| listed.unknown_kind.as_deref().is_none_or(|kind| of_a_set(kind).is_none()));
    }
    Ok(meant)
}

/// What a stream of this kind is that is about an ApplicationSet: it is no operation, and this program knows it.
fn of_a_set(kind: &str) -> Option<&'static str> {
    let known = [(StreamKind::ROLLOUT, "a rollout"), (StreamKind::TEARDOWN, "a deletion")];
    known.iter().find(|(known, _)| known.name() == kind).map(|(_, what)| *what)
}

/// What an id is that is none of an operation, by the kind of its stream, and where to look.
pub(crate) fn no_operation(id: OperationId, kind: &str) -> ServiceError {
    let run = of_a_set(kind);
    let what = match run {
        Some(run) => {
            format!("{run} of an ApplicationSet and no operation; `tidegate appset show-run {id}` shows it")
        }
        None => format!(
            "a {kind}, which this program does not know; use the program that began it, or a later one"
        ),
    };
    ServiceError::NoOperation { id, what, is_run: run.is_some() }
}

/// The one operation of those a person may mean.
pub fn find(candidates: Vec<Listed>, text: &str, state_dir: &StateDir) -> Result<Listed, ServiceError> {
    match <[Listed; 1]>::try_from(candidates) {
        Ok([Listed { operation, unknown_kind: Some(kind), .. }]) => Err(no_operation(operation, &kind)),
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

fn is_of(listed: &Listed, application: &str) -> bool {
    listed.summary.as_ref().is_some_and(|known| known.application == application)
}

/// Where an operation was begun.
pub fn destination(log: &Log, operation: OperationId) -> Result<Destination, ServiceError> {
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
