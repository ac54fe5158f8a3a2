//! Handling of gate verdicts.

use tidegate_model::Timestamp;

use crate::operation::command::GATE_RETRY_INTERVAL;
use crate::operation::gates::concurrency_group;
use crate::operation::recorded_event::OperationEvent;
use crate::operation::state::{GateAnswer, Operation, Stage, Verdict, WaveStep};

/// Reason shown for a gate after a restart withdrew its open verdict. The gate counts as closed.
const AWAITING_NEW_ANSWER: &str = "waiting for a new result after a restart";

/// Handles a gate's verdict, ignoring duplicates. Returns `None` if the operation isn't waiting for the gate.
pub(super) fn handle_verdict(
    operation: &Operation,
    wave: u32,
    gate: &str,
    verdict: &Verdict,
    now: Timestamp,
) -> Option<Vec<OperationEvent>> {
    let asked = operation.stage == Stage::Wave { index: wave, step: WaveStep::Held }
        && operation.external_gates(wave).any(|asked| asked == gate);
    if !asked {
        return None;
    }
    let known = operation.gates.iter().find(|answer| answer.gate == gate);
    if known.is_some_and(|known| known.verdict.is_same_as(verdict)) {
        return Some(Vec::new());
    }
    Some(vec![OperationEvent::GateEvaluated { gate: gate.to_owned(), verdict: verdict.clone(), at: now }])
}

/// Withdraws open verdicts after a restart, because they may be stale. Each stays withdrawn until its gate
/// repeats it. Places in concurrency groups are kept.
pub(super) fn withdraw_open_verdicts(operation: &Operation, now: Timestamp) -> Vec<OperationEvent> {
    let Stage::Wave { index, step: WaveStep::Held } = operation.stage else { return Vec::new() };
    let is_asked = |answer: &&GateAnswer| {
        operation.external_gates(index).any(|gate| *gate == answer.gate && concurrency_group(gate).is_none())
    };
    let closed =
        || Verdict::Closed { reason: AWAITING_NEW_ANSWER.to_owned(), ask_again_after: GATE_RETRY_INTERVAL };
    let open = operation.gates.iter().filter(is_asked).filter(|answer| answer.verdict == Verdict::Open);
    open.map(|answer| OperationEvent::GateEvaluated { gate: answer.gate.clone(), verdict: closed(), at: now })
        .collect()
}
