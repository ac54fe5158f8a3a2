//! Gates that open a wave. The machine itself evaluates two of them: a user's approval, and a soak time after
//! the previous wave. All others are queried, and those that limit the number of concurrent operations in a
//! group come last. An operation keeps its slot in a group from wave to wave.

use std::time::Duration;

use tidegate_model::{Timestamp, parse_duration};

use super::state::{GateAnswer, Operation, State, Verdict};

/// Name of the gate that a user's approval opens.
pub const APPROVAL_GATE: &str = "approval";
/// Prefix of gates that open after a soak time, measured from the end of the previous wave.
const SOAK_PREFIX: &str = "soak:";
/// Prefix of gates that limit the concurrent operations in a group.
const CONCURRENCY_PREFIX: &str = "concurrency:";
/// Reason for a closed concurrency gate while the wave is also waiting for other gates.
const EVALUATED_LAST: &str = "evaluated last, when nothing else blocks the wave";
/// Prefix of the names of stored approvals. A wave can be approved in advance, so the name ends with the
/// wave's position.
const APPROVAL_PREFIX: &str = "approval/";

/// Gate that the machine evaluates itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuiltInGate {
    Approval,
    Soak(Duration),
}

fn parse_built_in_gate(gate: &str) -> Option<BuiltInGate> {
    match gate.strip_prefix(SOAK_PREFIX) {
        Some(time) => parse_duration(time).ok().map(BuiltInGate::Soak),
        None => (gate == APPROVAL_GATE).then_some(BuiltInGate::Approval),
    }
}

/// Returns true for gates that every engine provides: `approval`, and `soak:` with a duration.
pub fn is_built_in_gate(gate: &str) -> bool {
    parse_built_in_gate(gate).is_some()
}

/// Returns the soak time of a gate such as `soak:10m`, or `None` for all other gates.
pub(crate) fn soak_duration(gate: &str) -> Option<Duration> {
    match parse_built_in_gate(gate)? {
        BuiltInGate::Soak(time) => Some(time),
        BuiltInGate::Approval => None,
    }
}

/// Returns an error for a malformed built-in gate: a soak gate without a valid duration.
pub fn gate_error(gate: &str) -> Option<String> {
    parse_duration(gate.strip_prefix(SOAK_PREFIX)?).err().map(|error| error.to_string())
}

/// Returns the concurrency group of a gate, such as `db` for `concurrency:db`, or `None` for all other gates.
pub fn concurrency_group(gate: &str) -> Option<&str> {
    gate.strip_prefix(CONCURRENCY_PREFIX)
}

fn is_concurrency_gate(gate: &str) -> bool {
    concurrency_group(gate).is_some()
}

impl State {
    /// Returns the concurrency groups in which the operation holds a slot. The operation keeps a slot until it
    /// ends or reaches a wave that doesn't use the group. A SyncFail wave counts as part of the failed wave.
    pub fn held_groups(&self) -> impl Iterator<Item = &str> {
        let operation = self.operation().filter(|_| !self.is_finished());
        operation.into_iter().flat_map(|operation| &operation.gates).filter_map(GateAnswer::held_group)
    }
}

impl GateAnswer {
    /// Returns the concurrency group in which this verdict grants a slot.
    fn held_group(&self) -> Option<&str> {
        concurrency_group(&self.gate).filter(|_| self.verdict == Verdict::Open)
    }

    /// Creates the verdict for an approved wave. The approval applies to every attempt.
    pub(super) fn approval(wave: u32, at: Timestamp) -> Self {
        Self { gate: format!("{APPROVAL_PREFIX}{wave}"), verdict: Verdict::Open, at }
    }

    pub(super) fn is_approval(&self) -> bool {
        self.gate.starts_with(APPROVAL_PREFIX)
    }
}

impl Operation {
    pub(super) fn wave_gates(&self, index: u32) -> &[String] {
        self.wave(index).map(|wave| wave.gates.as_slice()).unwrap_or_default()
    }

    /// Returns the gates of a wave that must be queried.
    pub(super) fn external_gates(&self, index: u32) -> impl Iterator<Item = &String> {
        self.wave_gates(index).iter().filter(|gate| !is_built_in_gate(gate))
    }

    /// Returns true if a wave needs an approval and doesn't have it yet.
    pub(super) fn needs_approval(&self, index: u32) -> bool {
        self.wave_gates(index).iter().any(|gate| gate == APPROVAL_GATE) && !self.is_approved(index)
    }

    pub(super) fn is_approved(&self, index: u32) -> bool {
        let approval = format!("{APPROVAL_PREFIX}{index}");
        self.gates.iter().any(|answer| answer.gate == approval)
    }

    /// Returns the opening time of a wave's last soak gate. `None` without soak gates or without a passed
    /// earlier wave. Soak times start at the end of the previous wave.
    pub(super) fn soak_end(&self, index: u32) -> Option<Timestamp> {
        let soaks = self.wave_gates(index).iter().filter_map(|gate| match parse_built_in_gate(gate)? {
            BuiltInGate::Soak(time) => self.soak_gate_end(index, time),
            BuiltInGate::Approval => None,
        });
        soaks.max()
    }

    fn soak_gate_end(&self, index: u32, time: Duration) -> Option<Timestamp> {
        let before = (0..index).filter_map(|wave| self.wave_times(wave).passed_at).max()?;
        Some(before + time)
    }

    /// Returns true if all gates of a wave are open.
    pub(super) fn has_open_gates(&self, index: u32, now: Timestamp) -> bool {
        self.has_other_gates_open(index, now)
            && self
                .external_gates(index)
                .filter(|gate| is_concurrency_gate(gate))
                .all(|gate| self.is_gate_open(gate))
    }

    /// Returns true if all gates of a wave except its concurrency gates are open.
    fn has_other_gates_open(&self, index: u32, now: Timestamp) -> bool {
        self.external_gates(index)
            .filter(|gate| !is_concurrency_gate(gate))
            .all(|gate| self.is_gate_open(gate))
            && !self.needs_approval(index)
            && self.soak_end(index).is_none_or(|until| now >= until)
    }

    fn is_gate_open(&self, gate: &str) -> bool {
        self.gates.iter().any(|answer| answer.gate == gate && answer.verdict == Verdict::Open)
    }

    /// Returns true if a gate of a waiting wave must be queried now. A slot in a concurrency group is
    /// requested only once nothing else blocks the wave, so that an operation waiting for a user doesn't hold
    /// up others.
    pub(super) fn should_query_gate(&self, index: u32, gate: &str, now: Timestamp) -> bool {
        !is_concurrency_gate(gate)
            || self.has_other_gates_open(index, now) && self.unconfirmed_prunes(index).next().is_none()
    }

    /// Keeps the gate verdicts that remain valid in the next wave: approvals and slots in concurrency groups.
    /// If that wave needs another group as well, all slots are given up and requested together. Otherwise,
    /// two operations could deadlock, each holding the slot that the other needs.
    pub(super) fn retain_gate_answers(&mut self, next: u32) {
        let named: Vec<String> =
            self.external_gates(next).filter(|gate| is_concurrency_gate(gate)).cloned().collect();
        let needs_more = named.iter().any(|gate| !self.is_gate_open(gate));
        let is_sync_fail = self.is_sync_fail_wave(next);
        self.gates.retain(|answer| {
            let keeps_place = answer.held_group().is_some()
                && !needs_more
                && (is_sync_fail || named.contains(&answer.gate));
            answer.is_approval() || keeps_place
        });
    }

    /// Returns the reason for a closed gate, if it is known without a query. `None` for open gates and gates
    /// being queried.
    pub(super) fn closed_reason(&self, index: u32, gate: &str, now: Timestamp) -> Option<String> {
        if is_concurrency_gate(gate) && !self.is_gate_open(gate) && !self.should_query_gate(index, gate, now)
        {
            return Some(EVALUATED_LAST.to_owned());
        }
        match parse_built_in_gate(gate)? {
            BuiltInGate::Approval if self.is_approved(index) => None,
            BuiltInGate::Approval => Some(self.approval_wait_message(index)),
            BuiltInGate::Soak(time) => {
                self.soak_gate_end(index, time).filter(|until| now < *until).map(soak_message)
            }
        }
    }

    /// Describes the gate that blocks the current wave, if any. Queried gates come before soak times, and
    /// concurrency groups come last.
    pub(super) fn first_closed_gate(&self) -> Option<String> {
        let (index, _) = self.current_wave()?;
        if let Some(wanted) = self.missing_approval_message(index) {
            return Some(wanted);
        }
        let answered = |places: bool| {
            let mut answers =
                self.gates.iter().filter(move |answer| is_concurrency_gate(&answer.gate) == places);
            answers.find_map(|answer| match &answer.verdict {
                Verdict::Closed { reason, .. } => Some(closed_gate_message(&answer.gate, reason)),
                Verdict::Open => None,
            })
        };
        let unanswered = |places: bool| {
            let is_answered = |gate: &String| self.gates.iter().any(|answer| answer.gate == *gate);
            let mut asked = self.external_gates(index).filter(|gate| is_concurrency_gate(gate) == places);
            Some(format!("gate {} has not reported a result yet", asked.find(|gate| !is_answered(gate))?))
        };
        let soaking = || {
            let until = self.soak_end(index)?;
            let is_it = |gate: &&String| match parse_built_in_gate(gate) {
                Some(BuiltInGate::Soak(time)) => self.soak_gate_end(index, time) == Some(until),
                _ => false,
            };
            Some(closed_gate_message(self.wave_gates(index).iter().find(is_it)?, &soak_message(until)))
        };
        let others = answered(false).or_else(|| unanswered(false)).or_else(soaking);
        others.or_else(|| answered(true)).or_else(|| unanswered(true))
    }

    /// Returns the message about a wave's missing approval, or `None` if no approval is missing.
    pub(super) fn missing_approval_message(&self, index: u32) -> Option<String> {
        self.needs_approval(index)
            .then(|| closed_gate_message(APPROVAL_GATE, &self.approval_wait_message(index)))
    }

    fn approval_wait_message(&self, index: u32) -> String {
        let id = self.header.operation;
        format!("wave {} needs approval: `tidegate ops approve {id}`", index.saturating_add(1))
    }
}

fn closed_gate_message(gate: &str, reason: &str) -> String {
    format!("gate {gate} is closed: {reason}")
}

fn soak_message(until: Timestamp) -> String {
    format!("the previous wave is soaking until {until}")
}
