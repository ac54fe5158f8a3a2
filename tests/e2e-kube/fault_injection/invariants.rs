//! Invariants, checked with the API server's audit log and the operation log.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_testkit::kube::{Audit, AuditEvent, User};

use super::fleet;

/// Annotation with the attempt of a hook's operation.
const HOOK_ATTEMPT: &str = "tidegate.dev/hook-attempt";

/// A hook in an operation.
type Hook = (String, String);

/// Observations in the audit log, over all rounds.
#[derive(Default)]
pub struct Witness {
    /// Jobs that were started for each hook, by attempt: their UIDs, and the time of the first start.
    starts: BTreeMap<Hook, BTreeMap<String, BTreeMap<String, String>>>,
    /// Hooks with writes whose outcome is unknown.
    unknown: BTreeSet<Hook>,
    /// Times when Jobs completed, by UID.
    completions: BTreeMap<String, String>,
    /// Times of writes to each operation's ConfigMaps.
    writes: BTreeMap<Hook, BTreeSet<String>>,
    /// Operations in any request.
    pub operations: BTreeSet<String>,
}

/// An operation in the log.
pub struct LoggedOperation {
    pub id: String,
    pub phase: String,
    pub reason: String,
    pub number: usize,
    pub is_finished: bool,
}

impl LoggedOperation {
    /// Reads an entry of `ops list`. Returns `None` for other Applications.
    pub fn from_entry(entry: &Value) -> Option<Self> {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let app = text("app");
        let name = app.rsplit('_').next()?;
        let number = fleet::numbers().find(|number| fleet::name(*number) == name)?;
        let is_finished = !entry["finishedAt"].is_null();
        Some(Self { id: text("id"), phase: text("phase"), reason: text("reason"), number, is_finished })
    }
}

impl Witness {
    /// Adds the requests of a section of the audit log. Sections may overlap.
    pub fn add(&mut self, audit: &Audit) {
        let writes = audit.0.iter().filter(|event| event.is_write() && !event.dry_run);
        for event in writes {
            self.operations.extend(event.operation.clone());
            match event.resource.as_str() {
                "jobs" => self.add_job_write(event),
                "configmaps" => self.add_resource_write(event),
                _ => {}
            }
        }
    }

    fn add_job_write(&mut self, event: &AuditEvent) {
        let Some(job) = &event.job else { return };
        if event.has_succeeded() && job.is_complete {
            let time = self.completions.entry(job.uid.clone()).or_insert_with(|| event.received_at.clone());
            *time = event.received_at.clone().min(time.clone());
        }
        let operation = job.annotations.get(fleet::OPERATION_ID).or(event.operation.as_ref());
        let Some(operation) = operation.filter(|_| event.user != User::CONTROLLERS.name()) else { return };
        self.operations.insert(operation.clone());
        let hook = (operation.clone(), event.name.clone());
        if event.has_unknown_outcome() {
            self.unknown.insert(hook);
        } else if event.has_succeeded() && job.is_start {
            let attempt = job.annotations.get(HOOK_ATTEMPT).cloned().unwrap_or_default();
            let jobs = self.starts.entry(hook).or_default().entry(attempt).or_default();
            let time = jobs.entry(job.uid.clone()).or_insert_with(|| event.received_at.clone());
            *time = event.received_at.clone().min(time.clone());
        }
    }

    fn add_resource_write(&mut self, event: &AuditEvent) {
        let Some(operation) = &event.operation else { return };
        if event.verb != "delete" && (event.has_succeeded() || event.has_unknown_outcome()) {
            let times = self.writes.entry((operation.clone(), event.name.clone())).or_default();
            times.insert(event.received_at.clone());
        }
    }

    /// Checks that no attempt of an operation has started two Jobs for a hook. The service can't know the hooks of the
    /// operations in `lost`.
    pub fn check_starts(&self, lost: &BTreeSet<String>) {
        for (hook, attempts) in self.starts.iter().filter(|(hook, _)| !lost.contains(&hook.0)) {
            for (attempt, jobs) in attempts {
                assert!(
                    jobs.len() == 1,
                    "{hook:?} was started {} times in attempt {attempt}: {jobs:?}",
                    jobs.len()
                );
            }
        }
    }

    /// Checks a finished operation. `has_hooks` is true if it ran hooks according to the log.
    pub fn check_operation(&self, operation: &LoggedOperation, has_hooks: bool) {
        let LoggedOperation { id, phase, number, .. } = operation;
        let [prepare, announce] = fleet::hooks(*number).map(|hook| (id.clone(), hook));
        if phase == "Succeeded" {
            for hook in [&prepare, &announce] {
                let count = self.starts.get(hook).map_or(0, BTreeMap::len);
                let is_expected = match has_hooks {
                    true => count > 0 || self.unknown.contains(hook),
                    false => count == 0,
                };
                assert!(
                    is_expected,
                    "{hook:?} was started in {count} attempts, but the operation has succeeded"
                );
            }
        }
        let [settings, routes] = fleet::resources(*number).map(|name| self.writes.get(&(id.clone(), name)));
        if has_hooks {
            let completed = self.completions_of(&prepare);
            for time in [settings, routes].into_iter().flatten().flatten() {
                assert!(
                    self.unknown.contains(&prepare) || completed.iter().any(|completed| *completed < time),
                    "{id} wrote a resource at {time}, but {prepare:?} completed at {completed:?}"
                );
            }
        }
        // Times of the first write to each wave, and of the first start of the later hook.
        let first = |times: Option<&BTreeSet<String>>| times.and_then(BTreeSet::first).cloned();
        let started = self.start_times(&announce).into_iter().min().cloned();
        let steps: Vec<String> = [first(settings), first(routes), started].into_iter().flatten().collect();
        assert!(steps.is_sorted(), "{id} is out of order: {steps:?}");
    }

    /// Returns the number of hooks that were started more than once in one attempt.
    pub fn count_repeated(&self) -> usize {
        self.starts.values().filter(|attempts| attempts.values().any(|jobs| jobs.len() > 1)).count()
    }

    fn start_times(&self, hook: &Hook) -> Vec<&String> {
        self.starts.get(hook).into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::values).collect()
    }

    fn completions_of(&self, hook: &Hook) -> Vec<&String> {
        let jobs = self.starts.get(hook).into_iter().flat_map(BTreeMap::values).flat_map(BTreeMap::keys);
        jobs.filter_map(|uid| self.completions.get(uid)).collect()
    }

    /// Checks that the IDs of an Application's operations are in the order of their first writes, whatever the clocks of
    /// the services.
    pub fn check_id_order(&self, operations: &[LoggedOperation]) {
        let mut writes: BTreeMap<(usize, &str), &String> = BTreeMap::new();
        for LoggedOperation { id, number, .. } in operations {
            let names = fleet::resources(*number).into_iter();
            let times = names.filter_map(|name| self.writes.get(&(id.clone(), name))?.first());
            let starts =
                fleet::hooks(*number).into_iter().flat_map(|hook| self.start_times(&(id.clone(), hook)));
            if let Some(first) = times.chain(starts).min() {
                writes.insert((*number, id), first);
            }
        }
        let all: Vec<_> = writes.into_iter().collect();
        for pair in all.windows(2) {
            let [((app, id), first), ((next_app, next_id), next)] = pair else { unreachable!() };
            assert!(app != next_app || first < next, "{next_id} wrote at {next}, before {id} at {first}");
        }
    }

    /// Returns the numbers of started hooks and of hooks with an unknown outcome.
    pub fn counts(&self) -> (usize, usize) {
        (self.starts.len(), self.unknown.len())
    }
}
