//! Invariants, checked against the requests to the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tidegate_cluster::Verb;
use tidegate_cluster::sim::{AuditEntry, SimCluster};
use tidegate_executor::{StoredPlan, Summary, Targets, list_summaries};
use tidegate_lifecycle::operation::Driver;
use tidegate_model::{OperationId, OperationPhase, SyncRequest, Timestamp, annotations};
use tidegate_oplog::{Log, Lookup, MemoryLog, TypedLog as _};
use tidegate_state::stored_plans::StoredPlanMetadata;

use crate::approval::ApprovalApp;
use crate::faulty_cluster::Write;
use crate::user_actions::PERSON;
use crate::user_documents::{
    APP_NAMESPACE, BASE_APP, COMMIT_ANNOTATION, FORBIDDEN_NAMESPACE, Fleet, STANDALONE_APP,
};
use crate::world::REFRESH_INTERVAL;

/// Requester of a rollout's operations.
const ROLLOUT_REQUESTER: &str = SyncRequest::ROLLOUT_REQUESTER;

/// Returns the Application of an object, according to the object's name.
fn application_of(name: &str) -> Option<&str> {
    ["before-", "after-", "settings-", "web-", "stray-"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Returns all writes, except dry runs and writes to Applications themselves.
fn operation_writes(sim: &SimCluster) -> Vec<AuditEntry> {
    let mut audit = sim.audit();
    audit.retain(|one| !one.dry_run && one.code < 300 && one.operation_id.is_some());
    audit
}

/// Checks that a system at rest does little more than repeat outdated comparisons, and that no actor wakes
/// itself without a reason.
pub fn check_idle_effort(
    before: (u64, u64),
    after: (u64, u64),
    (long, applications): (Duration, usize),
) -> CheckResult {
    // A comparison takes a few messages for its Application and for the notified ApplicationSet.
    const STEPS_EACH: u64 = 10;
    let rounds = u64::try_from(long.as_millis() / REFRESH_INTERVAL.as_millis()).unwrap() + 1;
    let most = rounds * u64::try_from(applications).unwrap();
    let (steps, comparisons) = (after.0 - before.0, after.1 - before.1);
    ensure(comparisons <= most, || {
        format!("{comparisons} comparisons in {long:?}, expected at most {most}")
    })?;
    ensure(steps <= most * STEPS_EACH, || format!("{steps} messages in {long:?} for {most} comparisons"))
}

/// Checks that an Application never has two open syncs: after another operation has written for the
/// Application, an earlier one must not write again.
pub fn check_single_operation(sim: &SimCluster) {
    let mut newest: BTreeMap<String, OperationId> = BTreeMap::new();
    let mut over: BTreeSet<(String, OperationId)> = BTreeSet::new();
    for entry in operation_writes(sim) {
        let Some((application, operation)) = application_of(&entry.name).zip(entry.operation_id) else {
            continue;
        };
        let application = application.to_owned();
        assert!(
            !over.contains(&(application.clone(), operation)),
            "two operations of {application} write at once: {entry:?}"
        );
        if let Some(before) = newest.insert(application.clone(), operation).filter(|one| *one != operation) {
            over.insert((application, before));
        }
    }
}

/// Checks that there are no writes outside the project, whether successful or refused.
pub fn check_project_scope(sim: &SimCluster) {
    for entry in sim.audit() {
        let is_outside = entry.namespace == FORBIDDEN_NAMESPACE || entry.kind == "Secret";
        let is_ours = entry.operation_id.is_some() && !entry.dry_run;
        assert!(!(is_outside && is_ours), "the project does not allow that: {entry:?}");
    }
}

/// Checks that each operation creates every hook only once. These operations don't have retries.
pub fn check_hooks_run_once(sim: &SimCluster) {
    let mut made: BTreeMap<(OperationId, String), usize> = BTreeMap::new();
    for entry in operation_writes(sim).into_iter().filter(|one| one.kind == "Job" && one.code == 201) {
        let Some(operation) = entry.operation_id else { continue };
        let count = made.entry((operation, entry.name.clone())).or_default();
        *count += 1;
        assert!(*count == 1, "hook {} ran twice in {operation}", entry.name);
    }
}

/// Operation, identified by its hooks.
#[derive(Clone, Debug)]
pub struct DeployedCommit {
    pub operation: String,
    pub application: String,
    pub commit: u64,
    pub started: Timestamp,
    /// Creation time of the operation's last hook, which runs after all earlier objects are healthy.
    pub finished: Option<Timestamp>,
}

impl fmt::Display for DeployedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { application, commit, started, finished, .. } = self;
        let done = finished.map_or_else(|| "never".to_owned(), |at| at.to_string());
        write!(f, "{application} was synced to commit {commit} from {started} on, and had it at {done}")
    }
}

/// Returns the operations with hooks, in order.
pub fn deployed_commits(writes: &[Write]) -> Vec<DeployedCommit> {
    let mut all: Vec<(String, DeployedCommit)> = Vec::new();
    for write in writes.iter().filter(|one| one.key.kind == "Job" && one.is_creation()) {
        let Some(job) = &write.after else { continue };
        let operation = job.annotation(annotations::OPERATION_ID).unwrap_or_default().to_owned();
        let commit = job.annotation(COMMIT_ANNOTATION).and_then(|text| text.parse().ok()).unwrap();
        let application = application_of(&write.key.name).unwrap().to_owned();
        match write.key.name.starts_with("before-") {
            true => {
                let (started, finished) = (write.at, None);
                let one =
                    DeployedCommit { operation: operation.clone(), application, commit, started, finished };
                all.push((operation, one));
            }
            false => {
                let known = all.iter_mut().rev().find(|(known, _)| *known == operation);
                let (_, known) = known.expect("the last hook of an operation that had no first one");
                known.finished = Some(write.at);
            }
        }
    }
    all.into_iter().map(|(_, one)| one).collect()
}

/// Recorded operation.
#[derive(Clone, Debug)]
pub struct RecordedOperation {
    pub operation: OperationId,
    pub application: String,
    pub requester: String,
    pub phase: OperationPhase,
    pub message: String,
    /// Manifests of the operation, in any order.
    pub manifests: BTreeSet<String>,
}

impl RecordedOperation {
    /// Returns true if the operation was superseded by an operation that no user requested.
    fn was_superseded_automatically(&self) -> bool {
        self.message.starts_with("Operation terminated, superseded by another sync (")
    }
}

/// Returns the operations of the log, oldest first.
pub fn recorded_operations(log: &MemoryLog) -> Vec<RecordedOperation> {
    let log: Log = Arc::new(log.clone());
    operations_in(&log)
}

/// Returns the operations of any log, oldest first.
pub fn operations_in(log: &Log) -> Vec<RecordedOperation> {
    let mut all = list_summaries(log, Lookup::all()).unwrap();
    all.sort_by_key(|one| one.operation);
    let read = |one: Summary| {
        let loaded = log.load_as(one.operation).unwrap();
        let driver = Driver::recover(loaded.snapshot, loaded.events).unwrap();
        let header = driver.state().header()?;
        let targets: Targets = serde_json::from_slice(&log.blob(header.targets).unwrap()).unwrap();
        let manifests = targets.targets.iter().map(|one| one.object.as_value().to_string()).collect();
        let (operation, requester) = (one.operation, header.request.initiated_by.clone());
        let (application, phase, message) = (one.application, one.phase, one.message);
        Some(RecordedOperation { operation, application, requester, phase, message, manifests })
    };
    all.into_iter().filter_map(read).collect()
}

/// Returns the operations of each Application, in order.
fn by_application(all: &[RecordedOperation]) -> BTreeMap<&str, Vec<&RecordedOperation>> {
    let mut by = BTreeMap::<&str, Vec<&RecordedOperation>>::new();
    all.iter().for_each(|one| by.entry(one.application.as_str()).or_default().push(one));
    by
}

/// Checks that no operation is superseded by one with the same manifests, despite other commits and crashes.
pub fn check_superseding(all: &[RecordedOperation]) -> CheckResult {
    by_application(all).into_values().try_for_each(|of_one| {
        of_one.windows(2).try_for_each(|pair| {
            let [before, after] = pair else { return Ok(()) };
            let is_broken = before.was_superseded_automatically()
                && after.requester != PERSON
                && before.manifests == after.manifests;
            ensure(!is_broken, || format!("{before:#?} was superseded by an equal one: {}", after.operation))
        })
    })
}

/// Checks that no rollout deploys a revision that a member already has, so that no hook runs twice for a
/// revision.
pub fn check_no_repeated_deployment(
    fleet: &Fleet,
    members: &BTreeMap<String, Membership>,
    all: &[RecordedOperation],
) -> CheckResult {
    if fleet.rollout.is_some_and(|text| text.contains("rollback")) {
        return Ok(());
    }
    // A recreated member has no objects yet.
    let is_clear = |name: &&str| members.get(*name).is_some_and(|one| !one.is_unclear);
    by_application(all).into_iter().filter(|(name, _)| is_clear(name)).try_for_each(|(_, of_one)| {
        let mut has: Option<&RecordedOperation> = None;
        of_one.into_iter().try_for_each(|one| {
            let is_again =
                one.requester == ROLLOUT_REQUESTER && has.is_some_and(|has| has.manifests == one.manifests);
            ensure(!is_again, || format!("a rollout deploys the same targets again: {has:#?}\n{one:#?}"))?;
            // An unfinished deployment may have left the member in any state.
            has = Some(one).filter(|one| one.phase == OperationPhase::Succeeded);
            Ok(())
        })
    })
}

/// Assignment of a member to a step, with its period.
#[derive(Clone, Debug)]
pub struct Membership {
    pub step: usize,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// True if the member's step has changed, or the member was removed in the meantime.
    pub is_unclear: bool,
}

/// Commit, with its time and errors.
#[derive(Clone, Debug)]
pub struct Commit {
    pub at: Timestamp,
    pub wrong: Option<String>,
}

/// Result of a rule: the violation, if any.
pub type CheckResult = Result<(), String>;

fn ensure(is_kept: bool, text: impl FnOnce() -> String) -> CheckResult {
    if is_kept { Ok(()) } else { Err(text()) }
}

/// Returns true if an Application had the given commit, or a later one, at the given time.
fn had_commit(deployed: &[DeployedCommit], name: &str, commit: u64, by: Timestamp) -> bool {
    let is_it = |one: &&DeployedCommit| one.application == name && one.commit >= commit;
    deployed.iter().filter(is_it).any(|one| one.finished.is_some_and(|at| at <= by))
}

/// Returns the users' operations, which rollouts don't control.
pub fn user_operations(all: &[RecordedOperation]) -> BTreeSet<String> {
    all.iter().filter(|one| one.requester == PERSON).map(|one| one.operation.to_string()).collect()
}

/// Checks that no step starts to deploy a commit before all members of earlier steps have it, except for
/// members that may fail.
pub fn check_step_order(
    fleet: &Fleet,
    members: &BTreeMap<String, Membership>,
    commits: &BTreeMap<u64, Commit>,
    (deployed, people): (&[DeployedCommit], &BTreeSet<String>),
) -> CheckResult {
    let may_fail = fleet.rollout.is_some_and(|text| text.contains("maxFailures: 1"));
    for one in deployed.iter().filter(|one| !people.contains(&one.operation)) {
        let Some(member) = members.get(&one.application).filter(|one| !one.is_unclear) else { continue };
        let commit = &commits[&one.commit];
        let before = members.iter().filter(|(name, other)| {
            let is_there = other.since < commit.at && other.until.is_none_or(|at| at > one.started);
            let is_left_out = may_fail && commit.wrong.as_ref() == Some(*name);
            other.step < member.step && !other.is_unclear && is_there && !is_left_out
        });
        for (name, _) in before {
            ensure(had_commit(deployed, name, one.commit, one.started), || {
                format!("{one}; it is in step {}, and {name} of an earlier step was not done", member.step)
            })?;
        }
    }
    Ok(())
}

/// Checks that the number of a step's concurrently synced Applications doesn't exceed the step's limit.
pub fn check_update_limit(
    fleet: &Fleet,
    members: &BTreeMap<String, Membership>,
    (deployed, people): (&[DeployedCommit], &BTreeSet<String>),
) -> CheckResult {
    for step in 0..fleet.max_update.len() {
        let of_step: BTreeSet<&String> =
            members.iter().filter(|(_, one)| one.step == step).map(|(name, _)| name).collect();
        // A member that moved between steps may have counted toward a percentage.
        let moved = members.iter().filter(|(name, one)| one.is_unclear && !of_step.contains(name)).count();
        let most = fleet.update_limit(step, of_step.len() + moved);
        let is_theirs = |one: &&DeployedCommit| {
            of_step.contains(&one.application) && !members[&one.application].is_unclear
        };
        let is_theirs = |one: &&DeployedCommit| is_theirs(one) && !people.contains(&one.operation);
        for one in deployed.iter().filter(is_theirs) {
            let is_beside = |other: &&DeployedCommit| {
                other.started <= one.started && other.finished.is_some_and(|at| at > one.started)
            };
            let at_once: Vec<&DeployedCommit> = deployed.iter().filter(is_theirs).filter(is_beside).collect();
            ensure(at_once.len() <= most, || {
                let names: Vec<String> = at_once.iter().map(ToString::to_string).collect();
                format!("step {step} allows {most} at once, but these are running: {names:#?}")
            })?;
        }
    }
    Ok(())
}

/// Checks that no Application gets a commit before its dependency.
pub fn check_dependency_order(deployed: &[DeployedCommit]) -> CheckResult {
    deployed.iter().filter(|one| one.application == STANDALONE_APP).try_for_each(|one| {
        ensure(had_commit(deployed, BASE_APP, one.commit, one.started), || {
            format!("{one}; {BASE_APP} was not done")
        })
    })
}

/// Checks that every write of an operation for the Application is an unchanged part of a stored plan that was
/// approved earlier.
pub fn check_approved_writes(
    sim: &SimCluster,
    writes: &[Write],
    plans: &[(StoredPlanMetadata, StoredPlan)],
    application: &str,
) -> CheckResult {
    let is_its = |line: &StoredPlanMetadata| line.application == application && !line.approvals.is_empty();
    let approved: Vec<_> = plans.iter().filter(|(line, _)| is_its(line)).collect();
    let is_about = |entry: &&AuditEntry| {
        entry.namespace == APP_NAMESPACE && application_of(&entry.name).is_none_or(|one| one == application)
    };
    for entry in operation_writes(sim).iter().filter(is_about) {
        let plan = approved.iter().find(|(line, _)| line.operation == entry.operation_id);
        let is_of = |plan: &StoredPlan| plan.plan.tasks.iter().any(|task| task.key() == entry.key());
        ensure(plan.is_some_and(|(_, plan)| is_of(plan)), || format!("a write without approval: {entry:?}"))?;
    }
    // Deletions and removals of finalizers have no content to compare with the plan.
    let has_content = |write: &&Write| {
        matches!(write.verb, Verb::Apply | Verb::Put)
            && write.key.namespace == APP_NAMESPACE
            && application_of(&write.key.name) == Some(application)
    };
    for write in writes.iter().filter(has_content) {
        let Some(after) = &write.after else { continue };
        let is_it = |(line, plan): &&&(StoredPlanMetadata, StoredPlan)| {
            line.approvals.iter().all(|approval| approval.at <= write.at)
                && plan
                    .manifests
                    .iter()
                    .any(|one| one.key() == write.key && is_part(one.as_value(), after.as_value()))
        };
        ensure(approved.iter().any(|one| is_it(&one)), || {
            format!("no plan approved before {} contains the result of {}: {after:#?}", write.at, write.key)
        })?;
    }
    Ok(())
}

/// Checks that an authorized user approved every executed plan.
pub fn check_approvers(plans: &[(StoredPlanMetadata, StoredPlan)], needing: ApprovalApp) -> CheckResult {
    let is_taken = |line: &&StoredPlanMetadata| line.application == needing.name && line.operation.is_some();
    plans.iter().map(|(line, _)| line).filter(is_taken).try_for_each(|line| {
        let is_met = line.approvals.iter().any(|given| needing.can_approve(&line.by, &given.by));
        ensure(is_met, || format!("no permitted approver of {needing:?} has approved this: {line:?}"))
    })
}

/// Returns true if an object contains all fields of a manifest.
fn is_part(manifest: &Value, object: &Value) -> bool {
    match (manifest, object) {
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(name, wanted)| found.get(name).is_some_and(|found| is_part(wanted, found)))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| is_part(wanted, found))
        }
        (wanted, found) => wanted == found,
    }
}

/// Checks that no Application is deleted before those with a higher rank are gone.
pub fn check_deletion_order(writes: &[Write], ranks: &BTreeMap<String, usize>) -> CheckResult {
    for write in writes.iter().filter(|one| one.verb == Verb::Delete && one.key.kind == "Application") {
        let Some(rank) = ranks.get(&write.key.name) else { continue };
        let before = |name: &&String| ranks.get(*name).is_some_and(|other| other > rank);
        let before: Vec<&String> = write.other_applications.iter().filter(before).collect();
        ensure(before.is_empty(), || format!("{} is deleted while {before:?} exist", write.key.name))?;
    }
    Ok(())
}

mod tests;
