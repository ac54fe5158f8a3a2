//! The gates that follow from what is recorded and from the time alone: a person's approval, and a soak after the wave
//! before. All others are asked.

use std::time::Duration;

use tidegate_model::{Timestamp, parse_duration};

use super::fact::Verdict;
use super::state::{GateAnswer, Operation};

/// The name of the gate that a person opens.
pub const APPROVAL: &str = "approval";
/// What a gate's name begins with that opens some time after the wave before has passed.
const SOAK: &str = "soak:";
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

impl GateAnswer {
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
        let is_open = |gate: &String| {
            self.gates.iter().any(|answer| answer.gate == *gate && answer.verdict == Verdict::Open)
        };
        self.asked_gates(index).all(is_open)
            && !self.lacks_approval(index)
            && self.soaks_until(index).is_none_or(|until| now >= until)
    }

    /// Why a gate of a wave is closed that nobody is asked about; `None` for one that is open, and for the others.
    pub(super) fn why_closed(&self, index: u32, gate: &str, now: Timestamp) -> Option<String> {
        match known(gate)? {
            Known::Approval if self.is_approved(index) => None,
            Known::Approval => Some(self.wants_approval(index)),
            Known::Soak(time) => self.soaked_at(index, time).filter(|until| now < *until).map(soaks),
        }
    }

    /// The first gate of the current wave that is closed, and why, as far as it can be told without the time.
    pub(super) fn closed_gate(&self) -> Option<String> {
        let (index, _) = self.current_wave()?;
        let closed = |gate: &str, reason: &str| format!("gate {gate} is closed: {reason}");
        if self.lacks_approval(index) {
            return Some(closed(APPROVAL, &self.wants_approval(index)));
        }
        let answered = self.gates.iter().find_map(|answer| match &answer.verdict {
            Verdict::Closed { reason, .. } => Some(closed(&answer.gate, reason)),
            Verdict::Open => None,
        });
        let unanswered = || {
            let is_answered = |gate: &String| self.gates.iter().any(|answer| answer.gate == *gate);
            let gate = self.asked_gates(index).find(|gate| !is_answered(gate))?;
            Some(format!("gate {gate} has not answered yet"))
        };
        let soaking = || {
            let until = self.soaks_until(index)?;
            let is_it = |gate: &&String| match known(gate) {
                Some(Known::Soak(time)) => self.soaked_at(index, time) == Some(until),
                _ => false,
            };
            Some(closed(self.gates_of(index).iter().find(is_it)?, &soaks(until)))
        };
        answered.or_else(unanswered).or_else(soaking)
    }

    fn wants_approval(&self, index: u32) -> String {
        let id = self.header.operation;
        format!("wave {} waits for a person: `tidegate ops approve {id}`", index.saturating_add(1))
    }
}

fn soaks(until: Timestamp) -> String {
    format!("the wave before is watched until {until}")
}
