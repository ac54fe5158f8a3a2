//! The gates that follow from what is recorded and from the time alone: a person's approval, and a soak after the wave
//! before. All others are asked; those that count the operations of a group are asked last, and what they gave is kept
//! from wave to wave.

use std::time::Duration;

use tidegate_model::{Timestamp, parse_duration};

use super::state::{GateAnswer, Operation, State, Verdict};

/// The name of the gate that a person opens.
pub const APPROVAL: &str = "approval";
/// What a gate's name begins with that opens some time after the wave before has passed.
const SOAK: &str = "soak:";
/// What a gate's name begins with that opens for so many operations of a group at once.
const CONCURRENCY: &str = "concurrency:";
/// Why a gate is closed that gives a place in a group, while the wave waits for more than that.
const ASKED_LAST: &str = "its turn comes when the wave waits for nothing else";
/// An approval may come before its wave, so the answer bears the number of the wave.
const APPROVED: &str = "approval/";

/// A gate that nobody needs to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Approval,
    Soak(Duration),
}

fn known(gate: &str) -> Option<Known> {
    match gate.strip_prefix(SOAK) {
        Some(time) => parse_duration(time).ok().map(Known::Soak),
        None => (gate == APPROVAL).then_some(Known::Approval),
    }
}

/// Whether every operation has this gate, whatever the engine it runs in: `approval`, and `soak:` with a duration.
pub fn is_known_gate(gate: &str) -> bool {
    known(gate).is_some()
}

/// How long a gate soaks: `soak:10m`. `None` for every other gate.
pub(crate) fn soak_of(gate: &str) -> Option<Duration> {
    match known(gate)? {
        Known::Soak(time) => Some(time),
        Known::Approval => None,
    }
}

/// What is wrong with a gate that every operation would have, were it written well: a soak without a usable duration.
pub fn gate_problem(gate: &str) -> Option<String> {
    parse_duration(gate.strip_prefix(SOAK)?).err().map(|error| error.to_string())
}

/// The group that a gate gives places in: `db` of `concurrency:db`. `None` for every other gate.
pub fn concurrency_group(gate: &str) -> Option<&str> {
    gate.strip_prefix(CONCURRENCY)
}

fn gives_place(gate: &str) -> bool {
    concurrency_group(gate).is_some()
}

impl State {
    /// The groups that the operation has a place in: from the answer of their gate on, until it comes to a wave that does not
    /// name the group, or ends. SyncFail waves belong to the wave that failed.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        let operation = self.operation().filter(|_| !self.is_finished());
        operation.into_iter().flat_map(|operation| &operation.gates).filter_map(GateAnswer::place)
    }
}

impl GateAnswer {
    /// The group that the operation has a place in by this answer.
    fn place(&self) -> Option<&str> {
        concurrency_group(&self.gate).filter(|_| self.verdict == Verdict::Open)
    }

    /// A wave was approved, which holds in every attempt.
    pub(super) fn approval(wave: u32, at: Timestamp) -> Self {
        Self { gate: format!("{APPROVED}{wave}"), verdict: Verdict::Open, at }
    }

    pub(super) fn is_approval(&self) -> bool {
        self.gate.starts_with(APPROVED)
    }
}

impl Operation {
    /// The gates of a wave.
    pub(super) fn gates_of(&self, index: u32) -> &[String] {
        self.wave(index).map(|wave| wave.gates.as_slice()).unwrap_or_default()
    }

    /// The gates of a wave that somebody must be asked about.
    pub(super) fn asked_gates(&self, index: u32) -> impl Iterator<Item = &String> {
        self.gates_of(index).iter().filter(|gate| !is_known_gate(gate))
    }

    /// Whether a wave wants a person's approval, and has none.
    pub(super) fn lacks_approval(&self, index: u32) -> bool {
        self.gates_of(index).iter().any(|gate| gate == APPROVAL) && !self.is_approved(index)
    }

    /// Whether a person has approved a wave.
    pub(super) fn is_approved(&self, index: u32) -> bool {
        let approval = format!("{APPROVED}{index}");
        self.gates.iter().any(|answer| answer.gate == approval)
    }

    /// Until when a wave soaks: the longest of its gates, after the wave before has passed. The first wave does not soak.
    pub(super) fn soaks_until(&self, index: u32) -> Option<Timestamp> {
        let soaks = self.gates_of(index).iter().filter_map(|gate| match known(gate)? {
            Known::Soak(time) => self.soaked_at(index, time),
            Known::Approval => None,
        });
        soaks.max()
    }

    fn soaked_at(&self, index: u32, time: Duration) -> Option<Timestamp> {
        let before = (0..index).filter_map(|wave| self.times(wave).passed_at).max()?;
        Some(before + time)
    }

    /// Whether all gates of a wave are open.
    pub(super) fn gates_are_open(&self, index: u32, now: Timestamp) -> bool {
        self.other_gates_are_open(index, now)
            && self.asked_gates(index).filter(|gate| gives_place(gate)).all(|gate| self.is_open(gate))
    }

    /// Whether all gates of a wave are open, but perhaps for those that give a place in a group.
    fn other_gates_are_open(&self, index: u32, now: Timestamp) -> bool {
        self.asked_gates(index).filter(|gate| !gives_place(gate)).all(|gate| self.is_open(gate))
            && !self.lacks_approval(index)
            && self.soaks_until(index).is_none_or(|until| now >= until)
    }

    fn is_open(&self, gate: &str) -> bool {
        self.gates.iter().any(|answer| answer.gate == gate && answer.verdict == Verdict::Open)
    }

    /// Whether a gate of a held wave is to be asked now. A place in a group is wanted when it can be used: others would wait
    /// for an operation that waits for a person.
    pub(super) fn is_asked_now(&self, index: u32, gate: &str, now: Timestamp) -> bool {
        !gives_place(gate)
            || self.other_gates_are_open(index, now) && self.unconfirmed_prunes(index).next().is_none()
    }

    /// Leaves of the answers of gates what holds in the next wave too: approvals, and places. A wave that names a further
    /// group gives all places back, to ask for all of them at once: two operations that each had what the other one asks
    /// for would wait for ever.
    pub(super) fn keep_answers(&mut self, next: u32) {
        let named: Vec<String> = self.asked_gates(next).filter(|gate| gives_place(gate)).cloned().collect();
        let needs_more = named.iter().any(|gate| !self.is_open(gate));
        let is_sync_fail = self.is_sync_fail(next);
        self.gates.retain(|answer| {
            let keeps_place =
                answer.place().is_some() && !needs_more && (is_sync_fail || named.contains(&answer.gate));
            answer.is_approval() || keeps_place
        });
    }

    /// Why a gate of a wave is closed as far as the machine knows it without asking; `None` for one that is open, and for
    /// those that are asked now.
    pub(super) fn why_closed(&self, index: u32, gate: &str, now: Timestamp) -> Option<String> {
        if gives_place(gate) && !self.is_open(gate) && !self.is_asked_now(index, gate, now) {
            return Some(ASKED_LAST.to_owned());
        }
        match known(gate)? {
            Known::Approval if self.is_approved(index) => None,
            Known::Approval => Some(self.wants_approval(index)),
            Known::Soak(time) => self.soaked_at(index, time).filter(|until| now < *until).map(soaks),
        }
    }

    /// The first gate of the current wave that is closed, and why, as far as it can be told without the time.
    pub(super) fn closed_gate(&self) -> Option<String> {
        let (index, _) = self.current_wave()?;
        if let Some(wanted) = self.wanted_approval(index) {
            return Some(wanted);
        }
        let answered = |places: bool| {
            let mut answers = self.gates.iter().filter(move |answer| gives_place(&answer.gate) == places);
            answers.find_map(|answer| match &answer.verdict {
                Verdict::Closed { reason, .. } => Some(closed(&answer.gate, reason)),
                Verdict::Open => None,
            })
        };
        let unanswered = |places: bool| {
            let is_answered = |gate: &String| self.gates.iter().any(|answer| answer.gate == *gate);
            let mut asked = self.asked_gates(index).filter(|gate| gives_place(gate) == places);
            Some(format!("gate {} has not answered yet", asked.find(|gate| !is_answered(gate))?))
        };
        let soaking = || {
            let until = self.soaks_until(index)?;
            let is_it = |gate: &&String| match known(gate) {
                Some(Known::Soak(time)) => self.soaked_at(index, time) == Some(until),
                _ => false,
            };
            Some(closed(self.gates_of(index).iter().find(is_it)?, &soaks(until)))
        };
        let others = answered(false).or_else(|| unanswered(false)).or_else(soaking);
        others.or_else(|| answered(true)).or_else(|| unanswered(true))
    }

    /// That a wave wants a person's approval, where it has none: what is known of its gates without asking, at any time.
    pub(super) fn wanted_approval(&self, index: u32) -> Option<String> {
        self.lacks_approval(index).then(|| closed(APPROVAL, &self.wants_approval(index)))
    }

    fn wants_approval(&self, index: u32) -> String {
        let id = self.header.operation;
        format!("wave {} waits for a person: `tidegate ops approve {id}`", index.saturating_add(1))
    }
}

fn closed(gate: &str, reason: &str) -> String {
    format!("gate {gate} is closed: {reason}")
}

fn soaks(until: Timestamp) -> String {
    format!("the wave before is watched until {until}")
}
