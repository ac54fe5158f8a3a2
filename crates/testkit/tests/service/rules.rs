//! What must hold whatever happens, by what the cluster has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use tidegate_cluster::Verb;
use tidegate_cluster::sim::{AuditEntry, SimCluster};
use tidegate_executor::KeptPlan;
use tidegate_model::{OperationId, Timestamp, annotations};
use tidegate_service::plans::KeptLine;

use crate::approval::Needing;
use crate::author::{ALONE, BASE, COMMIT, FORBIDDEN, Fleet, HOME};
use crate::front::Write;

/// The Application that an object is of, by its name.
fn application_of(name: &str) -> Option<&str> {
    ["before-", "after-", "settings-", "web-", "stray-"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// All that was written for good, and not for Applications themselves.
fn of_operations(sim: &SimCluster) -> Vec<AuditEntry> {
    let mut audit = sim.audit();
    audit.retain(|one| !one.dry_run && one.code < 300 && one.operation_id.is_some());
    audit
}

/// Never two open syncs of an Application: once another operation has written for it, an earlier one writes nothing more.
pub fn one_operation_at_a_time(sim: &SimCluster) {
    let mut newest: BTreeMap<String, OperationId> = BTreeMap::new();
    let mut over: BTreeSet<(String, OperationId)> = BTreeSet::new();
    for entry in of_operations(sim) {
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

/// Never a write outside the project, be it refused or done.
pub fn nothing_outside_the_project(sim: &SimCluster) {
    for entry in sim.audit() {
        let is_outside = entry.namespace == FORBIDDEN || entry.kind == "Secret";
        let is_ours = entry.operation_id.is_some() && !entry.dry_run;
        assert!(!(is_outside && is_ours), "the project does not allow that: {entry:?}");
    }
}

/// Every hook is made once by each operation: none asks for retries.
pub fn hooks_once(sim: &SimCluster) {
    let mut made: BTreeMap<(OperationId, String), usize> = BTreeMap::new();
    for entry in of_operations(sim).into_iter().filter(|one| one.kind == "Job" && one.code == 201) {
        let Some(operation) = entry.operation_id else { continue };
        let count = made.entry((operation, entry.name.clone())).or_default();
        *count += 1;
        assert!(*count == 1, "hook {} ran twice in {operation}", entry.name);
    }
}

/// An operation, as its hooks show it.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub application: String,
    pub commit: u64,
    pub began: Timestamp,
    /// When its last hook was made, which is when all before was well.
    pub done: Option<Timestamp>,
}

impl fmt::Display for Deployed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { application, commit, began, done } = self;
        let done = done.map_or_else(|| "never".to_owned(), |at| at.to_string());
        write!(f, "{application} was brought to commit {commit} from {began} on, and had it at {done}")
    }
}

/// The operations of which hooks were made, in order.
pub fn deployed(writes: &[Write]) -> Vec<Deployed> {
    let mut all: Vec<(String, Deployed)> = Vec::new();
    for write in writes.iter().filter(|one| one.key.kind == "Job" && one.has_made()) {
        let Some(job) = &write.after else { continue };
        let operation = job.annotation(annotations::OPERATION_ID).unwrap_or_default().to_owned();
        let commit = job.annotation(COMMIT).and_then(|text| text.parse().ok()).unwrap();
        let application = application_of(&write.key.name).unwrap().to_owned();
        match write.key.name.starts_with("before-") {
            true => {
                all.push((operation, Deployed { application, commit, began: write.at, done: None }));
            }
            false => {
                let known = all.iter_mut().rev().find(|(known, _)| *known == operation);
                let (_, known) = known.expect("the last hook of an operation that had no first one");
                known.done = Some(write.at);
            }
        }
    }
    all.into_iter().map(|(_, one)| one).collect()
}

/// Of which member its step is known for all the time that counts.
#[derive(Clone, Debug)]
pub struct Membership {
    pub step: usize,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// It was of another step, or gone, in between.
    pub is_unclear: bool,
}

/// A commit: when it was made, and whose manifests were wrong.
#[derive(Clone, Debug)]
pub struct Commit {
    pub at: Timestamp,
    pub wrong: Option<String>,
}

/// A rule, and what breaks it.
pub type Kept = Result<(), String>;

fn ensure(is_kept: bool, words: impl FnOnce() -> String) -> Kept {
    if is_kept { Ok(()) } else { Err(words()) }
}

/// Whether an Application had a commit, or a later one, by then.
fn had(deployed: &[Deployed], name: &str, commit: u64, by: Timestamp) -> bool {
    let is_it = |one: &&Deployed| one.application == name && one.commit >= commit;
    deployed.iter().filter(is_it).any(|one| one.done.is_some_and(|at| at <= by))
}

/// No step begins with a commit before all of the steps before it have it, but for those that may fail.
pub fn step_after_step(
    fleet: &Fleet,
    members: &BTreeMap<String, Membership>,
    commits: &BTreeMap<u64, Commit>,
    deployed: &[Deployed],
) -> Kept {
    let may_fail = fleet.rollout.is_some_and(|text| text.contains("maxFailures: 1"));
    for one in deployed {
        let Some(member) = members.get(&one.application).filter(|one| !one.is_unclear) else { continue };
        let commit = &commits[&one.commit];
        let before = members.iter().filter(|(name, other)| {
            let is_there = other.since < commit.at && other.until.is_none_or(|at| at > one.began);
            let is_left_out = may_fail && commit.wrong.as_ref() == Some(*name);
            other.step < member.step && !other.is_unclear && is_there && !is_left_out
        });
        for (name, _) in before {
            ensure(had(deployed, name, one.commit, one.began), || {
                format!("{one}; it is of step {}, and {name} before it had not", member.step)
            })?;
        }
    }
    Ok(())
}

/// No more Applications of a step are under way at once than its author allows.
pub fn within_budget(fleet: &Fleet, members: &BTreeMap<String, Membership>, deployed: &[Deployed]) -> Kept {
    for step in 0..fleet.max_update.len() {
        let of_step: BTreeSet<&String> =
            members.iter().filter(|(_, one)| one.step == step).map(|(name, _)| name).collect();
        let most = fleet.budget(step, of_step.len());
        let is_theirs =
            |one: &&Deployed| of_step.contains(&one.application) && !members[&one.application].is_unclear;
        for one in deployed.iter().filter(is_theirs) {
            let is_beside =
                |other: &&Deployed| other.began <= one.began && other.done.is_some_and(|at| at > one.began);
            let at_once: Vec<&Deployed> = deployed.iter().filter(is_theirs).filter(is_beside).collect();
            ensure(at_once.len() <= most, || {
                let names: Vec<String> = at_once.iter().map(ToString::to_string).collect();
                format!("of step {step} {most} may be under way at once, and these are: {names:#?}")
            })?;
        }
    }
    Ok(())
}

/// What depends on another Application gets no commit before that one has it.
pub fn after_what_it_depends_on(deployed: &[Deployed]) -> Kept {
    deployed.iter().filter(|one| one.application == ALONE).try_for_each(|one| {
        ensure(had(deployed, BASE, one.commit, one.began), || format!("{one}; {BASE} had not"))
    })
}

/// Nothing of an Application is written by an operation but what a kept plan says that somebody has approved before, and as it
/// says.
pub fn only_what_was_approved(
    sim: &SimCluster,
    writes: &[Write],
    plans: &[(KeptLine, KeptPlan)],
    application: &str,
) -> Kept {
    let is_its = |line: &KeptLine| line.application == application && !line.approvals.is_empty();
    let approved: Vec<_> = plans.iter().filter(|(line, _)| is_its(line)).collect();
    let is_about = |entry: &&AuditEntry| {
        entry.namespace == HOME && application_of(&entry.name).is_none_or(|one| one == application)
    };
    for entry in of_operations(sim).iter().filter(is_about) {
        let plan = approved.iter().find(|(line, _)| line.operation == entry.operation_id);
        let is_of = |plan: &KeptPlan| plan.plan.tasks.iter().any(|task| task.key() == entry.key());
        ensure(plan.is_some_and(|(_, plan)| is_of(plan)), || format!("nobody has approved that: {entry:?}"))?;
    }
    // What is deleted, or freed of a finalizer, is in a plan, by the audit.
    let has_content = |write: &&Write| {
        matches!(write.verb, Verb::Apply | Verb::Put)
            && write.key.namespace == HOME
            && application_of(&write.key.name) == Some(application)
    };
    for write in writes.iter().filter(has_content) {
        let Some(after) = &write.after else { continue };
        let is_it = |(line, plan): &&&(KeptLine, KeptPlan)| {
            line.approvals.iter().all(|approval| approval.at <= write.at)
                && plan
                    .manifests
                    .iter()
                    .any(|one| one.key() == write.key && is_part(one.as_value(), after.as_value()))
        };
        ensure(approved.iter().any(|one| is_it(&one)), || {
            format!("no plan that was approved by {} says what {} is then: {after:#?}", write.at, write.key)
        })?;
    }
    Ok(())
}

/// No plan is carried out that nobody has approved who may.
pub fn by_those_who_may(plans: &[(KeptLine, KeptPlan)], needing: Needing) -> Kept {
    let is_taken = |line: &&KeptLine| line.application == needing.name && line.operation.is_some();
    plans.iter().map(|(line, _)| line).filter(is_taken).try_for_each(|line| {
        let is_met = line.approvals.iter().any(|given| needing.allows(&line.by, &given.by));
        ensure(is_met, || format!("nobody has approved this who may by {needing:?}: {line:?}"))
    })
}

/// Whether all of a manifest is in an object as it says.
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

/// No Application is deleted before those that go before it are gone: those of a higher rank.
pub fn deleted_in_order(writes: &[Write], ranks: &BTreeMap<String, usize>) -> Kept {
    for write in writes.iter().filter(|one| one.verb == Verb::Delete && one.key.kind == "Application") {
        let Some(rank) = ranks.get(&write.key.name) else { continue };
        let before = |name: &&String| ranks.get(*name).is_some_and(|other| other > rank);
        let before: Vec<&String> = write.beside.iter().filter(before).collect();
        ensure(before.is_empty(), || format!("{} is deleted while there are {before:?}", write.key.name))?;
    }
    Ok(())
}

mod tests;
