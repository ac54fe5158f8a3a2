//! When hooks ran last: for those that run only when their inputs have changed.
//!
//! The log of operations is what says it. Where it has been made smaller, or cannot be read, nothing is known of a hook, and
//! it runs.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_lifecycle::operation::{Driver, Header, Operation, TaskState};
use tidegate_model::{Digest, ObjectKey, OperationId, SyncRequest, Task};
use tidegate_oplog::{LogError, Lookup, TypedLog as _};
use tidegate_planner::{LastRun, Target, runs_when_inputs_change};

use crate::effects::Targets;
use crate::log::Log;
use crate::offline::operations;

/// So many operations are looked at, newest first. A hook that ran in none of them runs.
const OPERATIONS_MAX: usize = 100;

/// How the last run of a hook ended, and with which manifests.
struct Found {
    has_succeeded: bool,
    targets: Digest,
}

/// The last runs of the hooks among these manifests that run only when their inputs have changed, in the operations of the
/// same application at the same place before this one; without those that did not succeed.
pub(crate) fn last_runs(
    log: &Log,
    operation: OperationId,
    request: &SyncRequest,
    targets: &[Target],
) -> Vec<LastRun> {
    let wanted: BTreeSet<(&str, &str, &str)> =
        targets.iter().filter(|one| runs_when_inputs_change(&one.object)).map(named).collect();
    if wanted.is_empty() || request.deletion.is_some() {
        return Vec::new();
    }
    let found = search(log, operation, request, &wanted).unwrap_or_else(|error| {
        tracing::warn!(%operation, %error, "earlier operations cannot be read: all hooks run");
        BTreeMap::new()
    });
    let mut read: BTreeMap<Digest, Option<Vec<Target>>> = BTreeMap::new();
    let succeeded = found.into_iter().filter(|(_, found)| found.has_succeeded);
    succeeded
        .filter_map(|(hook, found)| {
            let targets =
                read.entry(found.targets).or_insert_with(|| manifests(log, found.targets)).clone()?;
            Some(LastRun { hook, targets })
        })
        .collect()
}

fn named(target: &Target) -> (&str, &str, &str) {
    (target.object.group(), target.object.kind(), target.object.name())
}

fn search(
    log: &Log,
    operation: OperationId,
    request: &SyncRequest,
    wanted: &BTreeSet<(&str, &str, &str)>,
) -> Result<BTreeMap<ObjectKey, Found>, LogError> {
    let mut found: BTreeMap<ObjectKey, Found> = BTreeMap::new();
    let mut earlier: Vec<OperationId> = operations(log, Lookup::of_application(&request.application))?
        .iter()
        .map(|one| one.operation)
        .collect();
    earlier.retain(|one| *one < operation);
    earlier.sort_unstable();
    for one in earlier.into_iter().rev().take(OPERATIONS_MAX) {
        // Of one that was compacted, only a line is left: what ran there is not known, nor what ran before.
        let Ok(loaded) = log.load_as(one) else { break };
        let Ok(driver) = Driver::recover(loaded.snapshot, loaded.facts) else { break };
        let state = driver.state();
        let Some(header) = state.header() else { break };
        if header.request.options.dry_run || !is_same_place(&header.request, request) {
            continue;
        }
        if let Some(operation) = state.operation() {
            take_in(&mut found, header, operation, wanted);
        }
        let names: BTreeSet<(&str, &str, &str)> =
            found.keys().map(|key| (key.group.as_str(), key.kind.as_str(), key.name.as_str())).collect();
        if names.len() == wanted.len() {
            break;
        }
    }
    Ok(found)
}

fn is_same_place(one: &SyncRequest, other: &SyncRequest) -> bool {
    one.destination.is_same_cluster(&other.destination) && one.namespace == other.namespace
}

/// Takes in the hooks of an operation of which nothing newer is known. One of several phases has succeeded when it has in each.
fn take_in(
    found: &mut BTreeMap<ObjectKey, Found>,
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
        *began |= state.has_begun();
        *well &= TaskState::has_run_well(state);
    }
    for (hook, (_, has_succeeded)) in here.into_iter().filter(|(_, (began, _))| *began) {
        found.entry(hook).or_insert(Found { has_succeeded, targets: header.targets });
    }
}

fn manifests(log: &Log, digest: Digest) -> Option<Vec<Target>> {
    let bytes = log.blob(digest).ok()?;
    serde_json::from_slice::<Targets>(&bytes).ok().map(|kept| kept.targets)
}
