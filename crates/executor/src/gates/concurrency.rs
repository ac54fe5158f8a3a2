//! Places in groups of operations, for `concurrency:GROUP`: so many operations of a group may be in the waves that name it at
//! once.
//!
//! Who has a place is recorded: an operation has one from the answer of the gate on for as long as its state says so
//! (`State::places`). This only gives out those that are free, in the order in which they were asked for, and knows
//! whom it has told so and who has not recorded it yet. A place is free again when that is durable, so that no kill
//! lets more operations in than the limit says. All places that a wave needs are given at once.
//!
//! ```text
//! ask ─▶ queue ─▶ given (told, not recorded yet) ─▶ recorded (durable) ─▶ free
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::OperationId;

/// What a gate's name begins with that gives a place in a group.
pub(crate) const CONCURRENCY: &str = "concurrency:";
/// So many operations are named to one that waits for them.
const NAMED_MAX: usize = 3;
/// Why one waits that is not the next.
const NOT_NEXT: &str = "other operations of the group have asked before";
/// Why one waits whose place is free, but not all of them.
const NOT_ALL: &str = "the wave gets its places in all its groups at once, and another group has none";

/// How a gate is told what it stands at. Called under a lock, so it must not ask back.
pub(crate) type Tell = Box<dyn Fn(Verdict) + Send>;

/// Which question of which operation is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What an operation has according to its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Id of the operation whose log it is.
    pub operation: OperationId,
    /// Name of the application that it works on.
    pub application: String,
    /// The groups it has a place in.
    pub places: BTreeSet<String>,
}

/// A group of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Concurrency {
    /// So many operations of the group may be in the waves that name it at once.
    pub limit: usize,
}

impl Concurrency {
    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.limit {
            0 => Err("limit: with 0 nobody ever gets in; write 1 or more".to_owned()),
            _ => Ok(()),
        }
    }
}

/// The groups of an engine.
#[derive(Default)]
pub(crate) struct Groups {
    inner: Mutex<Inner>,
    /// Held by whoever reads who has places according to the log.
    pub reading: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Inner {
    places: BTreeMap<OperationId, Places>,
    /// Those that wait, in the order in which they asked.
    queue: Vec<Waiting>,
    tickets: u64,
    /// It is known who has places according to the log. Before that none is given.
    is_known: bool,
}

/// The places of an operation.
struct Places {
    application: String,
    /// Told, and perhaps not recorded.
    given: BTreeSet<String>,
    /// As it was recorded last.
    recorded: BTreeSet<String>,
    /// An actor of this engine works on it, or did.
    is_here: bool,
}

/// An operation that asks.
struct Waiting {
    ticket: Ticket,
    operation: OperationId,
    /// What its wave needs. A gate that has not asked yet has no entry.
    groups: BTreeMap<String, Option<Want>>,
    is_given: bool,
    /// One of the groups is not defined: it never gets in.
    is_refused: bool,
}

struct Want {
    limit: Option<usize>,
    tell: Tell,
    told: Option<Verdict>,
}

impl Want {
    fn tell(&mut self, verdict: Verdict) {
        if !self.told.as_ref().is_some_and(|told| told.says_the_same(&verdict)) {
            (self.tell)(verdict.clone());
            self.told = Some(verdict);
        }
    }
}

impl Groups {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in between leaves somebody waiting who could get in, until the next change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an operation into the queue, as far as one of the groups of its wave is concerned. What is told comes through
    /// `tell`, from [`Groups::allow`] on.
    pub fn ask(
        &self,
        (operation, application): (OperationId, &str),
        all: &BTreeSet<String>,
        group: &str,
        tell: Tell,
    ) -> Ticket {
        let mut inner = self.lock();
        inner.places_of(operation, application).is_here = true;
        let want = Want { limit: None, tell, told: None };
        if let Some(waiting) = inner.queue.iter_mut().find(|waiting| waiting.operation == operation) {
            // It asks again, and may have its places already.
            waiting.is_given = false;
            waiting.groups.insert(group.to_owned(), Some(want));
            return waiting.ticket;
        }
        inner.tickets = inner.tickets.saturating_add(1);
        let ticket = Ticket(inner.tickets);
        let mut groups: BTreeMap<String, Option<Want>> =
            all.iter().map(|group| (group.clone(), None)).collect();
        groups.insert(group.to_owned(), Some(want));
        inner.queue.push(Waiting { ticket, operation, groups, is_given: false, is_refused: false });
        ticket
    }

    /// Says how many operations may have a place in a group, as far as one question is concerned; or why there is none.
    pub fn allow(&self, ticket: Ticket, group: &str, limit: Result<usize, String>) {
        let mut inner = self.lock();
        let waiting = inner.queue.iter_mut().find(|waiting| waiting.ticket == ticket);
        let Some(waiting) = waiting else { return };
        let Some(want) = waiting.groups.get_mut(group).and_then(Option::as_mut) else { return };
        match limit {
            Ok(limit) => want.limit = Some(limit),
            Err(reason) => {
                want.tell(Verdict::closed(reason));
                waiting.is_refused = true;
            }
        }
        inner.give();
    }

    /// Tells why nothing is known yet, as far as one question is concerned.
    pub fn say(&self, ticket: Ticket, group: &str, reason: String) {
        let mut inner = self.lock();
        let waiting = inner.queue.iter_mut().find(|waiting| waiting.ticket == ticket);
        if let Some(want) = waiting.and_then(|waiting| waiting.groups.get_mut(group)?.as_mut()) {
            want.tell(Verdict::closed(reason));
        }
    }

    /// Takes a question back. The operation may have been told meanwhile that it has its places: what becomes of them is
    /// said by [`Groups::resolve`].
    pub fn withdraw(&self, operation: OperationId, group: &str) {
        let mut inner = self.lock();
        for waiting in inner.queue.iter_mut().filter(|waiting| waiting.operation == operation) {
            waiting.groups.insert(group.to_owned(), None);
        }
        inner.queue.retain(|waiting| waiting.groups.values().any(Option::is_some));
        inner.give();
    }

    /// Whether an operation has taken what it was told before its question was taken back.
    pub fn resolve(&self, operation: OperationId, has_taken: bool) {
        let mut inner = self.lock();
        if inner.queue.iter().any(|waiting| waiting.operation == operation) {
            return;
        }
        if let Some(places) = inner.places.get_mut(&operation) {
            let given = std::mem::take(&mut places.given);
            if has_taken {
                places.recorded.extend(given);
            }
        }
        inner.give();
    }

    /// What an operation has by what is durable now.
    pub fn settle(&self, recorded: Recorded) {
        let mut inner = self.lock();
        let places = inner.places_of(recorded.operation, &recorded.application);
        places.is_here = true;
        places.given.retain(|group| !recorded.places.contains(group));
        places.recorded = recorded.places;
        inner.give();
    }

    /// Whether it is known who has places according to the log.
    pub fn is_known(&self) -> bool {
        self.lock().is_known
    }

    /// Who has places according to the log. What actors of this engine have said themselves is newer.
    pub fn learn(&self, recorded: impl IntoIterator<Item = Recorded>) {
        let mut inner = self.lock();
        for Recorded { operation, application, places } in recorded {
            let known = inner.places_of(operation, &application);
            if !known.is_here {
                known.recorded = places;
            }
        }
        inner.is_known = true;
        inner.give();
    }

    /// Nobody in this engine works on an operation any more, or for a moment. It keeps what it has.
    pub fn leave(&self, operation: OperationId) {
        if let Some(places) = self.lock().places.get_mut(&operation) {
            places.is_here = false;
        }
    }

    /// Those that have places and that nobody in this engine works on.
    pub fn left_alone(&self) -> Vec<OperationId> {
        let inner = self.lock();
        inner.places.iter().filter(|(_, places)| !places.is_here).map(|(operation, _)| *operation).collect()
    }

    /// Operations that nobody worked on are over.
    pub fn are_over(&self, over: &[OperationId]) {
        let mut inner = self.lock();
        inner.places.retain(|operation, places| places.is_here || !over.contains(operation));
        inner.give();
    }

    /// Who has a place in a group, for tests.
    #[cfg(test)]
    fn inside(&self, group: &str) -> BTreeSet<OperationId> {
        let inner = self.lock();
        inner.inside(group).map(|(operation, _)| operation).collect()
    }
}

impl Inner {
    fn places_of(&mut self, operation: OperationId, application: &str) -> &mut Places {
        self.places.entry(operation).or_insert_with(|| Places {
            application: application.to_owned(),
            given: BTreeSet::new(),
            recorded: BTreeSet::new(),
            is_here: false,
        })
    }

    fn inside(&self, group: &str) -> impl Iterator<Item = (OperationId, &Places)> {
        let inside = self.places.iter().filter(move |(_, places)| places.has(group));
        inside.map(|(operation, places)| (*operation, places))
    }

    /// Gives what can be given, in order, and tells the others why not.
    fn give(&mut self) {
        if !self.is_known {
            return;
        }
        self.forget();
        let mut queue = std::mem::take(&mut self.queue);
        let mut wanted = BTreeSet::new();
        for waiting in queue.iter_mut().filter(|waiting| !waiting.is_given && !waiting.is_refused) {
            // Whoever is still finding out what it may have keeps its turn.
            let reasons: Option<Vec<_>> = waiting
                .groups
                .iter()
                .map(|(group, want)| self.why_not(waiting, group, want, &wanted))
                .collect();
            match reasons {
                Some(reasons) if reasons.iter().all(Option::is_none) => self.let_in(waiting),
                reasons => {
                    wanted.extend(waiting.groups.keys().cloned());
                    for (want, reason) in waiting.groups.values_mut().zip(reasons.into_iter().flatten()) {
                        let reason = reason.unwrap_or_else(|| NOT_ALL.to_owned());
                        want.iter_mut().for_each(|want| want.tell(Verdict::closed(reason.clone())));
                    }
                }
            }
        }
        self.queue = queue;
    }

    /// Why an operation does not get a place in a group now; `None` inside if it does, outside if that is not known yet.
    #[expect(clippy::option_option, reason = "the outer one collects over all groups of a wave")]
    fn why_not(
        &self,
        waiting: &Waiting,
        group: &str,
        want: &Option<Want>,
        wanted: &BTreeSet<String>,
    ) -> Option<Option<String>> {
        let limit = want.as_ref()?.limit?;
        if self.places.get(&waiting.operation).is_some_and(|places| places.has(group)) {
            return Some(None);
        }
        if wanted.contains(group) {
            return Some(Some(NOT_NEXT.to_owned()));
        }
        let inside = self.inside(group).count();
        Some((inside >= limit).then(|| {
            let names: Vec<String> = self
                .inside(group)
                .take(NAMED_MAX)
                .map(|(operation, places)| places.named(operation))
                .collect();
            let more = match inside.saturating_sub(names.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let are = if inside == 1 { "operation of the group is" } else { "operations of the group are" };
            format!("{inside} {are} at work, of {limit} at most: {}{more}", names.join(", "))
        }))
    }

    fn let_in(&mut self, waiting: &mut Waiting) {
        if let Some(places) = self.places.get_mut(&waiting.operation) {
            places.given.extend(waiting.groups.keys().cloned());
        }
        waiting.is_given = true;
        waiting.groups.values_mut().flatten().for_each(|want| want.tell(Verdict::Open));
    }

    /// Forgets those that have nothing and ask for nothing.
    fn forget(&mut self) {
        let asking: BTreeSet<OperationId> = self.queue.iter().map(|waiting| waiting.operation).collect();
        self.places.retain(|operation, places| {
            !places.given.is_empty() || !places.recorded.is_empty() || asking.contains(operation)
        });
    }
}

impl Places {
    fn has(&self, group: &str) -> bool {
        self.given.contains(group) || self.recorded.contains(group)
    }

    fn named(&self, operation: OperationId) -> String {
        let nobody = if self.is_here { "" } else { ", which no process works on" };
        format!("{} ({operation}{nobody})", self.application)
    }
}

#[cfg(test)]
mod tests;
