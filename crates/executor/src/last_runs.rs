//! Last runs of hooks that run only when their inputs change.
//!
//! Last runs come from the operation log. If it was compacted or is unreadable, the last run of a hook is
//! unknown, and the hook runs.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_lifecycle::operation::{Driver, Header, Operation, TaskState};
use tidegate_model::{Digest, ObjectKey, OperationId, SyncRequest, Task};
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tidegate_planner::{LastRun, Target, runs_when_inputs_change};

use crate::effects::Targets;
use crate::log::Log;
use crate::offline::list_summaries;

/// Maximum number of operations to read, newest first. A hook that didn't run in any of them runs again.
const OPERATIONS_MAX: usize = 100;

/// Result of a hook's last run, and the manifests of that run.
struct RunRecord {
    has_succeeded: bool,
    targets: Digest,
}

/// Returns the last runs of those hooks in `targets` that run only when their inputs change. Reads earlier
/// operations for the same application and destination. Omits hooks without a successful last run.
pub(crate) fn last_runs(
    log: &Log,
    operation: OperationId,
    request: &SyncRequest,
    targets: &[Target],
) -> Vec<LastRun> {
    let wanted: BTreeSet<(&str, &str, &str)> =
        targets.iter().filter(|one| runs_when_inputs_change(&one.object)).map(hook_name).collect();
    if wanted.is_empty() || request.deletion.is_some() {
        return Vec::new();
    }
    let found = search_log(log, operation, request, &wanted).unwrap_or_else(|error| {
        tracing::warn!(%operation, %error, "failed to read earlier operations; running all hooks");
        BTreeMap::new()
    });
    let mut read: BTreeMap<Digest, Option<Vec<Target>>> = BTreeMap::new();
    let succeeded = found.into_iter().filter(|(_, found)| found.has_succeeded);
    succeeded
        .filter_map(|(hook, found)| {
            let targets =
                read.entry(found.targets).or_insert_with(|| read_manifests(log, found.targets)).clone()?;
            Some(LastRun { hook, targets })
        })
        .collect()
}

fn hook_name(target: &Target) -> (&str, &str, &str) {
    (target.object.group(), target.object.kind(), target.object.name())
}

fn search_log(
    log: &Log,
    operation: OperationId,
    request: &SyncRequest,
    wanted: &BTreeSet<(&str, &str, &str)>,
) -> Result<BTreeMap<ObjectKey, RunRecord>, LogError> {
    let mut found: BTreeMap<ObjectKey, RunRecord> = BTreeMap::new();
    let mut earlier: Vec<OperationId> = list_summaries(log, Lookup::of_application(&request.application))?
        .iter()
        .map(|one| one.operation)
        .collect();
    earlier.retain(|one| *one < operation);
    earlier.sort_unstable();
    for one in earlier.into_iter().rev().take(OPERATIONS_MAX) {
        // A compacted operation has only a summary, so the last runs of all remaining hooks are unknown.
        let Ok(loaded) = log.load_as(one) else { break };
        let Ok(driver) = Driver::recover(loaded.snapshot, loaded.events) else { break };
        let state = driver.state();
        let Some(header) = state.header() else { break };
        if header.request.options.dry_run || !has_same_target(&header.request, request) {
            continue;
        }
        if let Some(operation) = state.operation() {
            add_runs(&mut found, header, operation, wanted);
        }
        let names: BTreeSet<(&str, &str, &str)> =
            found.keys().map(|key| (key.group.as_str(), key.kind.as_str(), key.name.as_str())).collect();
        if names.len() == wanted.len() {
            break;
        }
    }
    Ok(found)
}

fn has_same_target(one: &SyncRequest, other: &SyncRequest) -> bool {
    one.destination.is_same_cluster(&other.destination) && one.namespace == other.namespace
}

/// Adds an operation's hooks, except those with a known newer run. A hook with several phases succeeds only
/// if it succeeds in each.
fn add_runs(
    found: &mut BTreeMap<ObjectKey, RunRecord>,
    header: &Header,
    operation: &Operation,
    wanted: &BTreeSet<(&str, &str, &str)>,
) {
    let is_wanted =
        |task: &Task| wanted.contains(&(task.gvk.group.as_str(), task.gvk.kind.as_str(), task.name.as_str()));
    let mut here: BTreeMap<ObjectKey, (bool, bool)> = BTreeMap::new();
    let hooks = operation.all_tasks().filter(|(_, task, _)| task.is_hook() && is_wanted(task));
    for (_, task, state) in hooks {
        let (began, well) = here.entry(task.key()).or_insert((false, true));
        *began |= state.has_started();
        *well &= TaskState::has_succeeded(state);
    }
    for (hook, (_, has_succeeded)) in here.into_iter().filter(|(_, (began, _))| *began) {
        found.entry(hook).or_insert(RunRecord { has_succeeded, targets: header.targets });
    }
}

fn read_manifests(log: &Log, digest: Digest) -> Option<Vec<Target>> {
    let bytes = log.blob(digest).ok()?;
    serde_json::from_slice::<Targets>(&bytes).ok().map(|kept| kept.targets)
}
