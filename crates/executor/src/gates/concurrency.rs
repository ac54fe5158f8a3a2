//! Slots in concurrency groups, for `concurrency:GROUP` gates. The code calls a slot a place. A group limits
//! the number of operations that may execute waves with this gate at the same time.
//!
//! Slots are recorded in the log. An operation holds a slot from the moment the gate opens until the
//! operation's state drops the slot (`State::held_groups`). This module only assigns free slots in the order
//! of the requests, and tracks assignments that aren't recorded yet. A slot becomes free again once its
//! release is durable, so that a crash can't let more operations in than the limit. All slots that a wave
//! needs are assigned at once.
//!
//! ```text
//! request ─▶ queue ─▶ assigned (reported, not recorded yet) ─▶ recorded (durable) ─▶ free
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::OperationId;

/// Name prefix of concurrency gates.
pub(crate) const CONCURRENCY_PREFIX: &str = "concurrency:";
/// Maximum number of operations listed in the reason for waiting.
const NAMED_OPERATIONS_MAX: usize = 3;
/// Reason for waiting behind other operations in the queue.
const NOT_NEXT: &str = "other operations in the group are ahead in the queue";
/// Reason for waiting while only some of the required slots are free.
const NOT_ALL: &str =
    "the wave needs a free slot in each of its concurrency groups, but another group is full";

/// Callback that reports a verdict to a gate. Called under a lock, so it must not call back into this module.
pub(crate) type VerdictCallback = Box<dyn Fn(Verdict) + Send>;

/// ID of a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Slots of an operation according to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedPlaces {
    /// ID of the operation.
    pub operation: OperationId,
    /// Name of the operation's application.
    pub application: String,
    /// Groups in which the operation has a slot.
    pub places: BTreeSet<String>,
}

/// A group of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConcurrencyGroup {
    /// Maximum number of operations that may execute waves of the group at the same time.
    pub limit: usize,
}

impl ConcurrencyGroup {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.limit {
            0 => Err("limit: 0 would block all operations; use 1 or more".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Groups of an engine.
#[derive(Default)]
pub(crate) struct Groups {
    inner: Mutex<GroupsState>,
    /// Lock held while the slots are read from the log.
    pub load_lock: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct GroupsState {
    places: BTreeMap<OperationId, OperationPlaces>,
    /// Waiting operations, in the order of their requests.
    queue: Vec<QueuedRequest>,
    tickets: u64,
    /// True once the slots in the log are known. No slots are assigned before then.
    is_known: bool,
}

/// Slots of an operation.
struct OperationPlaces {
    application: String,
    /// Slots assigned but not yet recorded.
    assigned: BTreeSet<String>,
    /// Slots according to the last record.
    recorded: BTreeSet<String>,
    /// True if this engine is running the operation, or has just stopped running it.
    is_local: bool,
}

/// A waiting operation.
struct QueuedRequest {
    ticket: Ticket,
    operation: OperationId,
    /// Groups in which the operation's wave needs a slot. `None` until the group's gate sends a request.
    groups: BTreeMap<String, Option<GroupRequest>>,
    is_assigned: bool,
    /// True if one of the groups is undefined, so that the operation never gets its slots.
    is_rejected: bool,
}

struct GroupRequest {
    limit: Option<usize>,
    report: VerdictCallback,
    last_verdict: Option<Verdict>,
}

impl GroupRequest {
    fn report_verdict(&mut self, verdict: Verdict) {
        if !self.last_verdict.as_ref().is_some_and(|told| told.is_same_as(&verdict)) {
            (self.report)(verdict.clone());
            self.last_verdict = Some(verdict);
        }
    }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, GroupsState> {
        // At worst, a panic under the lock delays a waiting operation until the next change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request to the queue: the operation's next wave needs a slot in every group in `all`, including
    /// `group`. Verdicts go to `report` once [`Groups::set_limit`] has been called.
    pub fn request_place(
        &self,
        operation: OperationId,
        application: &str,
        all: &BTreeSet<String>,
        group: &str,
        report: VerdictCallback,
    ) -> Ticket {
        let mut inner = self.lock();
        inner.places_of(operation, application).is_local = true;
        let want = GroupRequest { limit: None, report, last_verdict: None };
        if let Some(waiting) = inner.queue.iter_mut().find(|waiting| waiting.operation == operation) {
            // A duplicate request, so the operation may already have its slots.
            waiting.is_assigned = false;
            waiting.groups.insert(group.to_owned(), Some(want));
            return waiting.ticket;
        }
        inner.tickets = inner.tickets.saturating_add(1);
        let ticket = Ticket(inner.tickets);
        let mut groups: BTreeMap<String, Option<GroupRequest>> =
            all.iter().map(|group| (group.clone(), None)).collect();
        groups.insert(group.to_owned(), Some(want));
        inner.queue.push(QueuedRequest { ticket, operation, groups, is_assigned: false, is_rejected: false });
        ticket
    }

    /// Sets the limit of a group for one request, or the reason why it is unknown.
    pub fn set_limit(&self, ticket: Ticket, group: &str, limit: Result<usize, String>) {
        let mut inner = self.lock();
        let waiting = inner.queue.iter_mut().find(|waiting| waiting.ticket == ticket);
        let Some(waiting) = waiting else { return };
        let Some(want) = waiting.groups.get_mut(group).and_then(Option::as_mut) else { return };
        match limit {
            Ok(limit) => want.limit = Some(limit),
            Err(reason) => {
                want.report_verdict(Verdict::closed(reason));
                waiting.is_rejected = true;
            }
        }
        inner.assign_places();
    }

    /// Reports why a request is still undecided.
    pub fn report_reason(&self, ticket: Ticket, group: &str, reason: String) {
        let mut inner = self.lock();
        let waiting = inner.queue.iter_mut().find(|waiting| waiting.ticket == ticket);
        if let Some(want) = waiting.and_then(|waiting| waiting.groups.get_mut(group)?.as_mut()) {
            want.report_verdict(Verdict::closed(reason));
        }
    }

    /// Withdraws a request. If slots have been assigned in the meantime, [`Groups::resolve_withdrawal`]
    /// decides whether the operation keeps them.
    pub fn withdraw(&self, operation: OperationId, group: &str) {
        let mut inner = self.lock();
        for waiting in inner.queue.iter_mut().filter(|waiting| waiting.operation == operation) {
            waiting.groups.insert(group.to_owned(), None);
        }
        inner.queue.retain(|waiting| waiting.groups.values().any(Option::is_some));
        inner.assign_places();
    }

    /// Resolves an assignment made before a withdrawal. `has_taken` is true if the operation has accepted it.
    pub fn resolve_withdrawal(&self, operation: OperationId, has_taken: bool) {
        let mut inner = self.lock();
        if inner.queue.iter().any(|waiting| waiting.operation == operation) {
            return;
        }
        if let Some(places) = inner.places.get_mut(&operation) {
            let given = std::mem::take(&mut places.assigned);
            if has_taken {
                places.recorded.extend(given);
            }
        }
        inner.assign_places();
    }

    /// Records the durable slots of an operation.
    pub fn record_places(&self, recorded: RecordedPlaces) {
        let mut inner = self.lock();
        let places = inner.places_of(recorded.operation, &recorded.application);
        places.is_local = true;
        places.assigned.retain(|group| !recorded.places.contains(group));
        places.recorded = recorded.places;
        inner.assign_places();
    }

    /// Returns true once the slots in the log are known.
    pub fn is_known(&self) -> bool {
        self.lock().is_known
    }

    /// Adds the slots from the log. Reports from this engine's actors are newer, and take precedence.
    pub fn load_places(&self, recorded: impl IntoIterator<Item = RecordedPlaces>) {
        let mut inner = self.lock();
        for RecordedPlaces { operation, application, places } in recorded {
            let known = inner.places_of(operation, &application);
            if !known.is_local {
                known.recorded = places;
            }
        }
        inner.is_known = true;
        inner.assign_places();
    }

    /// Marks an operation that this engine has stopped running, for good or temporarily. It keeps its slots.
    pub fn mark_stopped(&self, operation: OperationId) {
        if let Some(places) = self.lock().places.get_mut(&operation) {
            places.is_local = false;
        }
    }

    /// Returns the total number of requests and of operations with slots.
    pub fn entries(&self) -> usize {
        let inner = self.lock();
        inner.places.len().saturating_add(inner.queue.len())
    }

    /// Returns operations with slots that aren't running in this engine.
    pub fn orphaned(&self) -> Vec<OperationId> {
        let inner = self.lock();
        inner.places.iter().filter(|(_, places)| !places.is_local).map(|(operation, _)| *operation).collect()
    }

    /// Removes finished operations, unless they are running in this engine.
    pub fn remove_finished(&self, over: &[OperationId]) {
        let mut inner = self.lock();
        inner.places.retain(|operation, places| places.is_local || !over.contains(operation));
        inner.assign_places();
    }

    /// Returns the operations with a slot in a group, for tests.
    #[cfg(test)]
    fn members(&self, group: &str) -> BTreeSet<OperationId> {
        let inner = self.lock();
        inner.members(group).map(|(operation, _)| operation).collect()
    }
}

impl GroupsState {
    fn places_of(&mut self, operation: OperationId, application: &str) -> &mut OperationPlaces {
        self.places.entry(operation).or_insert_with(|| OperationPlaces {
            application: application.to_owned(),
            assigned: BTreeSet::new(),
            recorded: BTreeSet::new(),
            is_local: false,
        })
    }

    fn members(&self, group: &str) -> impl Iterator<Item = (OperationId, &OperationPlaces)> {
        let inside = self.places.iter().filter(move |(_, places)| places.has(group));
        inside.map(|(operation, places)| (*operation, places))
    }

    /// Assigns free slots in the order of the requests. Reports the reason for waiting to all other requests.
    fn assign_places(&mut self) {
        if !self.is_known {
            return;
        }
        self.remove_unused();
        let mut queue = std::mem::take(&mut self.queue);
        let mut wanted = BTreeSet::new();
        for waiting in queue.iter_mut().filter(|waiting| !waiting.is_assigned && !waiting.is_rejected) {
            // A request keeps its position until its limit is known.
            let reasons: Option<Vec<_>> = waiting
                .groups
                .iter()
                .map(|(group, want)| self.blocking_reason(waiting, group, want, &wanted))
                .collect();
            match reasons {
                Some(reasons) if reasons.iter().all(Option::is_none) => self.admit(waiting),
                reasons => {
                    wanted.extend(waiting.groups.keys().cloned());
                    for (want, reason) in waiting.groups.values_mut().zip(reasons.into_iter().flatten()) {
                        let reason = reason.unwrap_or_else(|| NOT_ALL.to_owned());
                        want.iter_mut().for_each(|want| want.report_verdict(Verdict::closed(reason.clone())));
                    }
                }
            }
        }
        self.queue = queue;
    }

    /// Returns the reason why an operation doesn't get a slot in a group now. The inner value is `None` if it
    /// gets one. The outer value is `None` until the group's limit is known.
    #[expect(clippy::option_option, reason = "the outer option collects over all groups of a wave")]
    fn blocking_reason(
        &self,
        waiting: &QueuedRequest,
        group: &str,
        want: &Option<GroupRequest>,
        wanted: &BTreeSet<String>,
    ) -> Option<Option<String>> {
        let limit = want.as_ref()?.limit?;
        if self.places.get(&waiting.operation).is_some_and(|places| places.has(group)) {
            return Some(None);
        }
        if wanted.contains(group) {
            return Some(Some(NOT_NEXT.to_owned()));
        }
        let inside = self.members(group).count();
        Some((inside >= limit).then(|| {
            let names: Vec<String> = self
                .members(group)
                .take(NAMED_OPERATIONS_MAX)
                .map(|(operation, places)| places.describe(operation))
                .collect();
            let more = match inside.saturating_sub(names.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let are = if inside == 1 { "operation in the group is" } else { "operations in the group are" };
            format!("{inside} {are} running (maximum: {limit}): {}{more}", names.join(", "))
        }))
    }

    fn admit(&mut self, waiting: &mut QueuedRequest) {
        if let Some(places) = self.places.get_mut(&waiting.operation) {
            places.assigned.extend(waiting.groups.keys().cloned());
        }
        waiting.is_assigned = true;
        waiting.groups.values_mut().flatten().for_each(|want| want.report_verdict(Verdict::Open));
    }

    /// Removes operations without slots and requests.
    fn remove_unused(&mut self) {
        let asking: BTreeSet<OperationId> = self.queue.iter().map(|waiting| waiting.operation).collect();
        self.places.retain(|operation, places| {
            !places.assigned.is_empty() || !places.recorded.is_empty() || asking.contains(operation)
        });
    }
}

impl OperationPlaces {
    fn has(&self, group: &str) -> bool {
        self.assigned.contains(group) || self.recorded.contains(group)
    }

    fn describe(&self, operation: OperationId) -> String {
        let suffix = if self.is_local { "" } else { ", not running in any process" };
        format!("{} ({operation}{suffix})", self.application)
    }
}

#[cfg(test)]
mod tests;
