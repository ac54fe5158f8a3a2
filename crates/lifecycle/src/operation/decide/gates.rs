//! What the answers of gates mean.

use tidegate_model::Timestamp;

use crate::operation::command::ASK_AGAIN_AFTER;
use crate::operation::fact::Fact;
use crate::operation::gates::concurrency_group;
use crate::operation::state::{GateAnswer, Operation, Stage, Verdict, WaveStep};

/// Why a gate is closed that was open when an earlier engine ended.
const ASKED_ANEW: &str = "it is asked again, after a restart";

/// A gate has answered; `None` where nobody asks it. The same answer once more is no fact, however often it comes.
pub(super) fn answered(
    operation: &Operation,
    wave: u32,
    gate: &str,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<Vec<Fact>> {
    let asked = operation.stage == Stage::Wave { index: wave, step: WaveStep::Held }
        && operation.asked_gates(wave).any(|asked| asked == gate);
    if !asked {
        return None;
    }
    let known = operation.gates.iter().find(|answer| answer.gate == gate);
    if known.is_some_and(|known| known.verdict.says_the_same(verdict)) {
        return Some(Vec::new());
    }
    Some(vec![Fact::GateAnswered { gate: gate.to_owned(), verdict: verdict.clone(), at: now }])
}

/// What was open before a restart is not taken for open until it says so again: a night may lie between. A place in a group
/// stays the operation's.
pub(super) fn resumed(operation: &Operation, now: Timestamp) -> Vec<Fact> {
    let Stage::Wave { index, step: WaveStep::Held } = operation.stage else { return Vec::new() };
    let is_asked = |answer: &&GateAnswer| {
        operation.asked_gates(index).any(|gate| *gate == answer.gate && concurrency_group(gate).is_none())
    };
    let closed = || Verdict::Closed { reason: ASKED_ANEW.to_owned(), ask_again_after: ASK_AGAIN_AFTER };
    let open = operation.gates.iter().filter(is_asked).filter(|answer| answer.verdict == Verdict::Open);
    open.map(|answer| Fact::GateAnswered { gate: answer.gate.clone(), verdict: closed(), at: now }).collect()
}
