//! The rollouts and deletions of ApplicationSets that the log has, and finding those that a person means.

use std::collections::BTreeMap;

use tidegate_executor::made_at;
use tidegate_lifecycle::{Illegal, rollout, teardown};
use tidegate_model::{OperationId, Records, StreamId, StreamKind, Timestamp};
use tidegate_oplog::{History, Impaired, Log, LogError, Lookup, RawEntry, StreamName, TypedLog as _};

use crate::applications::store::AppKey;
use crate::documents::runs::{Run, RunKind, RunLine};
use crate::error::ServiceError;
use crate::operations;

/// The kind of a stream, if it is one of these.
fn kind_of(kind: &StreamKind) -> Option<RunKind> {
    match kind {
        kind if *kind == StreamKind::ROLLOUT => Some(RunKind::Rollout),
        kind if *kind == StreamKind::TEARDOWN => Some(RunKind::Deletion),
        _ => None,
    }
}

fn stream_kind(kind: RunKind) -> StreamKind {
    match kind {
        RunKind::Rollout => StreamKind::ROLLOUT,
        RunKind::Deletion => StreamKind::TEARDOWN,
    }
}

/// The line of a stream; nothing where it is none of these.
fn line(entry: RawEntry) -> Result<Option<RunLine>, LogError> {
    Ok(match kind_of(&entry.kind) {
        Some(RunKind::Rollout) => Some(RunLine::of_rollout(entry.decode::<rollout::Fact>()?)),
        Some(RunKind::Deletion) => Some(RunLine::of_deletion(entry.decode::<teardown::Fact>()?)),
        None => None,
    })
}

/// What is known of one that is damaged; nothing where it is none of these, as far as can be told.
fn damaged(Impaired { stream, entry, reason }: Impaired) -> Option<RunLine> {
    let entry = entry?;
    let kind = kind_of(&entry.kind)?;
    let known = line(entry).ok().flatten();
    let lost = || RunLine {
        id: stream,
        kind,
        set: None,
        end: None,
        paused: false,
        message: String::new(),
        started_at: made_at(OperationId::from(stream)).unwrap_or_default(),
        finished_at: None,
        by: None,
        reason: None,
        targets: None,
        revisions: Vec::new(),
        steps_passed: None,
        steps: None,
        done: 0,
        skipped: None,
        applications: 0,
        damage: None,
    };
    Some(RunLine { damage: Some(reason), ..known.unwrap_or_else(lost) })
}

/// Those of an ApplicationSet, by its name or `NAMESPACE/NAME`, or of all, oldest first. The set may be gone.
pub fn listed(log: &Log, set: Option<&str>) -> Result<Vec<RunLine>, ServiceError> {
    let whole = set.filter(|set| set.contains('/')).map(str::to_owned);
    let mut lines = Vec::new();
    for kind in [StreamKind::ROLLOUT, StreamKind::TEARDOWN] {
        let lookup = Lookup { set: whole.clone(), ..Lookup::all() };
        for entry in log.find(&lookup.and_kind(kind))? {
            lines.extend(line(entry)?);
        }
    }
    for broken in log.impaired().into_iter().filter_map(damaged) {
        lines.retain(|line: &RunLine| line.id != broken.id);
        lines.push(broken);
    }
    // Of one whose set is lost it may be any.
    lines.retain(|line| set.is_none_or(|set| line.set.as_deref().is_none_or(|is| is_of(is, set))));
    lines.sort_by_key(|line| line.id);
    Ok(lines)
}

/// Whether a set, as it is recorded, is meant by a text.
fn is_of(recorded: &str, text: &str) -> bool {
    AppKey::named(recorded).is_meant(text)
}

/// Those that may be meant by an id, the beginning of one, or the name of an ApplicationSet.
pub fn candidates(log: &Log, text: &str) -> Result<Vec<RunLine>, ServiceError> {
    Ok(meant(listed(log, None)?, text))
}

/// Those of all that may be meant by an id, the beginning of one, or the name of an ApplicationSet: of a set the one that is not
/// over, or else the newest. All are oldest first.
pub fn meant(mut all: Vec<RunLine>, text: &str) -> Vec<RunLine> {
    let is_of_set = |line: &RunLine| line.set.as_deref().is_some_and(|set| is_of(set, text));
    let mut sets: BTreeMap<Option<String>, RunLine> = BTreeMap::new();
    for line in all.iter().filter(|line| is_of_set(line)) {
        let is_open = |line: &RunLine| line.finished_at.is_none() && line.damage.is_none();
        let known = sets.get(&line.set);
        if known.is_none_or(|known| is_open(line) || !is_open(known)) {
            sets.insert(line.set.clone(), line.clone());
        }
    }
    if !sets.is_empty() {
        return sets.into_values().collect();
    }
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let wanted = plain(text);
    all.retain(|line| !wanted.is_empty() && plain(&line.id.to_string()).starts_with(&wanted));
    all
}

/// The one of those that a person may mean.
///
/// # Errors
///
/// There is none, or there are several.
pub fn find(candidates: Vec<RunLine>, text: &str) -> Result<RunLine, ServiceError> {
    match <[RunLine; 1]>::try_from(candidates) {
        Ok([only]) => Ok(only),
        Err(none) if none.is_empty() => Err(ServiceError::UnknownRun { text: text.to_owned() }),
        Err(several) => Err(ServiceError::AmbiguousRun {
            text: text.to_owned(),
            matches: several
                .iter()
                .map(|one| {
                    format!("{} ({} of {})", one.id, one.kind.word(), one.set.as_deref().unwrap_or("?"))
                })
                .collect(),
        }),
    }
}

/// One of them, and everything that was recorded about it. Of one whose facts were all compacted there is its line.
///
/// # Errors
///
/// The log has none of this id, or cannot be read.
pub fn read(log: &Log, id: StreamId, now: Timestamp) -> Result<Run, ServiceError> {
    let unknown = || ServiceError::UnknownRun { text: id.to_string() };
    if let Some(broken) = log.impaired().into_iter().find(|one| one.stream == id) {
        let line = damaged(broken).ok_or_else(unknown)?;
        return Ok(Run::of_line(line, 0));
    }
    let entry = log.entry(id)?.ok_or_else(unknown)?;
    let last = entry.sequence;
    let line = line(entry)?.ok_or_else(unknown)?;
    let run = match line.kind {
        RunKind::Rollout => fold::<rollout::Fact>(log, id, rollout::evolve).map(|(first, facts, state)| {
            // What cannot be read is as little known as what is not listed any more.
            let end_of = |operation| operations::ended(log, operation).ok().flatten();
            Run::of_rollout(line.clone(), (first, &facts), &state, now, end_of)
        }),
        RunKind::Deletion => fold::<teardown::Fact>(log, id, teardown::evolve)
            .map(|(first, facts, state)| Run::of_deletion(line.clone(), (first, &facts), &state, now)),
    };
    match run {
        Err(ServiceError::Log(LogError::Compacted { .. })) => Ok(Run::of_line(line, last)),
        run => run,
    }
}

/// Whether one is there whose facts are not kept any more.
pub fn compacted(run: &Run) -> Option<LogError> {
    let line = &run.run.line;
    run.run
        .is_compacted()
        .then(|| LogError::Compacted { stream: StreamName::of(stream_kind(line.kind), line.id) })
}

/// The number of the first fact that is kept, the facts, and the state after them.
type Folded<F> = (u64, Vec<F>, <F as Records>::Snapshot);

fn fold<F: Records<Snapshot: Default>>(
    log: &Log,
    id: StreamId,
    evolve: impl Fn(F::Snapshot, &F) -> Result<F::Snapshot, Illegal>,
) -> Result<Folded<F>, ServiceError> {
    let History { first_sequence, facts, .. } = log.facts_as::<F>(id)?;
    if first_sequence == 1 {
        let mut state = F::Snapshot::default();
        for fact in &facts {
            state = evolve(state, fact)?;
        }
        return Ok((first_sequence, facts, state));
    }
    // What the oldest said is in the snapshot that covers them.
    let loaded = log.load_as::<F>(id)?;
    let mut state = loaded.snapshot.map(|(_, state)| state).unwrap_or_default();
    for fact in &loaded.facts {
        state = evolve(state, fact)?;
    }
    Ok((first_sequence, facts, state))
}
