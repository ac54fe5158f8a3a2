//! Rollouts and deletions of ApplicationSets in the log, and lookups of these runs by user input.

use std::collections::BTreeMap;

use tidegate_application::AppKey;
use tidegate_executor::creation_time;
use tidegate_lifecycle::{IllegalEvent, rollout, teardown};
use tidegate_model::{OperationId, StreamId, StreamKind, StreamRecords, Timestamp};
use tidegate_oplog::{History, ImpairedStream, Log, LogError, Lookup, RawEntry, StreamName, TypedLog as _};
use tidegate_state::error::ServiceError;
use tidegate_state::operations;

use tidegate_views::runs::{RunKind, RunSummary, RunWithEvents};

/// Converts a stream's kind to a run's kind. Returns `None` for streams that aren't runs.
fn run_kind(kind: &StreamKind) -> Option<RunKind> {
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

/// Returns a stream's summary, or `None` if it isn't a run.
fn summarize_entry(entry: RawEntry) -> Result<Option<RunSummary>, LogError> {
    Ok(match run_kind(&entry.kind) {
        Some(RunKind::Rollout) => Some(RunSummary::from_rollout(entry.decode::<rollout::Event>()?)),
        Some(RunKind::Deletion) => Some(RunSummary::from_deletion(entry.decode::<teardown::Event>()?)),
        None => None,
    })
}

/// Returns what is left of a damaged run, or `None` if the stream may not be a run.
fn summarize_damaged(ImpairedStream { stream, entry, reason }: ImpairedStream) -> Option<RunSummary> {
    let entry = entry?;
    let kind = run_kind(&entry.kind)?;
    let known = summarize_entry(entry).ok().flatten();
    let lost = || RunSummary {
        id: stream,
        kind,
        set: None,
        end: None,
        paused: false,
        message: String::new(),
        started_at: creation_time(OperationId::from(stream)).unwrap_or_default(),
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
    Some(RunSummary { damage: Some(reason), ..known.unwrap_or_else(lost) })
}

/// Returns all runs, or those of one ApplicationSet, oldest first. `set` is a name or `NAMESPACE/NAME`. The
/// ApplicationSet may have been deleted.
pub fn list_runs(log: &Log, set: Option<&str>) -> Result<Vec<RunSummary>, ServiceError> {
    let whole = set.filter(|set| set.contains('/')).map(str::to_owned);
    let mut lines = Vec::new();
    for kind in [StreamKind::ROLLOUT, StreamKind::TEARDOWN] {
        let lookup = Lookup { appset: whole.clone(), ..Lookup::all() };
        for entry in log.find(&lookup.and_kind(kind))? {
            lines.extend(summarize_entry(entry)?);
        }
    }
    for broken in log.impaired_streams().into_iter().filter_map(summarize_damaged) {
        lines.retain(|line: &RunSummary| line.id != broken.id);
        lines.push(broken);
    }
    // If the name of a run's ApplicationSet was lost, the run matches all of them.
    lines.retain(|line| set.is_none_or(|set| line.set.as_deref().is_none_or(|is| is_of_appset(is, set))));
    lines.sort_by_key(|line| line.id);
    Ok(lines)
}

/// Returns true if a recorded ApplicationSet matches the text.
fn is_of_appset(recorded: &str, text: &str) -> bool {
    AppKey::parse(recorded).matches(text)
}

/// Returns the runs that match a run ID, an ID prefix or an ApplicationSet name.
pub fn find_candidates(log: &Log, text: &str) -> Result<Vec<RunSummary>, ServiceError> {
    Ok(select_matching(list_runs(log, None)?, text))
}

/// Returns the runs in `all` (oldest first) that match a run ID, an ID prefix or an ApplicationSet name. For
/// an ApplicationSet, returns only the unfinished run or, without one, the newest.
pub fn select_matching(mut all: Vec<RunSummary>, text: &str) -> Vec<RunSummary> {
    let sets = all.iter().filter_map(|line| line.set.as_deref()).map(AppKey::parse);
    let matching = AppKey::resolve(sets, text);
    let is_of_set =
        |line: &RunSummary| line.set.as_deref().is_some_and(|set| matching.contains(&AppKey::parse(set)));
    let mut sets: BTreeMap<Option<String>, RunSummary> = BTreeMap::new();
    for line in all.iter().filter(|line| is_of_set(line)) {
        let is_open = |line: &RunSummary| line.finished_at.is_none() && line.damage.is_none();
        let known = sets.get(&line.set);
        if known.is_none_or(|known| is_open(line) || !is_open(known)) {
            sets.insert(line.set.clone(), line.clone());
        }
    }
    if !sets.is_empty() {
        return sets.into_values().collect();
    }
    let plain = |text: &str| text.chars().filter(|c| *c != '-').collect::<String>().to_lowercase();
    let name = plain(text);
    all.retain(|line| !name.is_empty() && plain(&line.id.to_string()).starts_with(&name));
    all
}

/// Returns the only candidate.
///
/// # Errors
///
/// Returns an error unless there is exactly one candidate.
pub fn select_candidate(candidates: Vec<RunSummary>, text: &str) -> Result<RunSummary, ServiceError> {
    match <[RunSummary; 1]>::try_from(candidates) {
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

/// Returns a run with all its recorded events, or only its summary if they were compacted.
///
/// # Errors
///
/// Returns an error if the run isn't in the log or the log is unreadable.
pub fn read_run(log: &Log, id: StreamId, now: Timestamp) -> Result<RunWithEvents, ServiceError> {
    let unknown = || ServiceError::UnknownRun { text: id.to_string() };
    if let Some(broken) = log.impaired_streams().into_iter().find(|one| one.stream == id) {
        let line = summarize_damaged(broken).ok_or_else(unknown)?;
        return Ok(RunWithEvents::from_summary(line, 0));
    }
    let entry = log.entry(id)?.ok_or_else(unknown)?;
    let last = entry.sequence;
    let line = summarize_entry(entry)?.ok_or_else(unknown)?;
    let run = match line.kind {
        RunKind::Rollout => {
            fold_events::<rollout::Event>(log, id, rollout::apply).map(|(first, events, state)| {
                // An unreadable operation has no known outcome, like an operation missing from the log.
                let end_of = |operation| operations::find_outcome(log, operation).ok().flatten();
                RunWithEvents::from_rollout(line.clone(), first, &events, &state, now, end_of)
            })
        }
        RunKind::Deletion => {
            fold_events::<teardown::Event>(log, id, teardown::apply).map(|(first, events, state)| {
                RunWithEvents::from_deletion(line.clone(), first, &events, &state, now)
            })
        }
    };
    match run {
        Err(ServiceError::Log(LogError::Compacted { .. })) => Ok(RunWithEvents::from_summary(line, last)),
        run => run,
    }
}

/// Returns the error for a run with compacted events.
pub fn compacted_error(run: &RunWithEvents) -> Option<LogError> {
    let line = &run.run.line;
    run.run
        .is_compacted()
        .then(|| LogError::Compacted { stream: StreamName::with_kind(stream_kind(line.kind), line.id) })
}

/// Sequence number of the first stored event, all stored events, and the resulting state.
type FoldedRun<F> = (u64, Vec<F>, <F as StreamRecords>::Snapshot);

fn fold_events<F: StreamRecords<Snapshot: Default>>(
    log: &Log,
    id: StreamId,
    evolve: impl Fn(F::Snapshot, &F) -> Result<F::Snapshot, IllegalEvent>,
) -> Result<FoldedRun<F>, ServiceError> {
    let History { first_sequence, events, .. } = log.events_as::<F>(id)?;
    if first_sequence == 1 {
        let mut state = F::Snapshot::default();
        for event in &events {
            state = evolve(state, event)?;
        }
        return Ok((first_sequence, events, state));
    }
    // The snapshot includes the effects of compacted events.
    let loaded = log.load_as::<F>(id)?;
    let mut state = loaded.snapshot.map(|(_, state)| state).unwrap_or_default();
    for event in &loaded.events {
        state = evolve(state, event)?;
    }
    Ok((first_sequence, events, state))
}
