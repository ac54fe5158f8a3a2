//! Evaluation of registered gates. The engine sends each gate one request, then listens for its verdicts, and
//! repeats the request only as a safety net.

use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_lifecycle::operation::{GATE_RETRY_INTERVAL, Verdict, gate_error};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::extensions::{ANSWER_TIMEOUT, GateReply, GateRequest};

/// Minimum time between requests to a gate, even if it asks for less.
const POLL_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Maximum time to wait for a late verdict before asking the gate again.
const LATE_ANSWER_WAIT: Duration = Duration::from_secs(60);

/// Asks a gate, and reports all its verdicts while the future is polled. Errors become closed verdicts with a
/// reason.
pub(crate) async fn poll_registered_gate(
    name: &str,
    gate: Option<&ActorRef<GateRequest>>,
    question: impl Fn(GateReply) -> GateRequest,
    report: impl Fn(Verdict),
) {
    let mut reporter = VerdictReporter { name, report, last_verdict: None };
    let Some(gate) = gate else {
        let problem = gate_error(name);
        let unregistered = || format!("no gate named {name} is registered with this engine");
        reporter.report_verdict(closed_verdict(problem.unwrap_or_else(unregistered)));
        // All gates are registered before the engine starts, so retrying won't help.
        return;
    };
    loop {
        let (reply, answers) = GateReply::new();
        if gate.send_message(question(reply)).is_err() {
            reporter.report_failure("is not running");
            sleep(GATE_RETRY_INTERVAL).await;
            continue;
        }
        reporter.listen_until_next_poll(gate, answers).await;
    }
}

fn closed_verdict(reason: String) -> Verdict {
    Verdict::Closed { reason, ask_again_after: GATE_RETRY_INTERVAL }
}

/// Reporter of a gate's verdicts that skips repetitions.
struct VerdictReporter<'a, T> {
    name: &'a str,
    report: T,
    last_verdict: Option<Verdict>,
}

impl<T: Fn(Verdict)> VerdictReporter<'_, T> {
    fn report_verdict(&mut self, verdict: Verdict) {
        if !self.last_verdict.as_ref().is_some_and(|last| last.is_same_as(&verdict)) {
            (self.report)(verdict.clone());
            self.last_verdict = Some(verdict);
        }
    }

    fn report_failure(&mut self, problem: &str) {
        self.report_verdict(closed_verdict(format!("gate {} {problem}", self.name)));
    }

    /// Listens for verdicts until the next request is due.
    async fn listen_until_next_poll(
        &mut self,
        gate: &ActorRef<GateRequest>,
        mut answers: watch::Receiver<Option<Verdict>>,
    ) {
        match timeout(ANSWER_TIMEOUT, answers.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                self.report_failure("ended without a result");
                return sleep(GATE_RETRY_INTERVAL).await;
            }
            Err(_) => {
                self.report_failure(&format!("did not respond within {} s", ANSWER_TIMEOUT.as_secs()));
                match timeout(LATE_ANSWER_WAIT, answers.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return self.report_failure("ended without a result"),
                    Err(_) => return,
                }
            }
        }
        loop {
            let Some(verdict) = answers.borrow_and_update().clone() else { return };
            let asked_again = match &verdict {
                Verdict::Open => None,
                Verdict::Closed { ask_again_after, .. } => Some((*ask_again_after).max(POLL_INTERVAL_MIN)),
            };
            self.report_verdict(verdict);
            let again_at = asked_again.and_then(|after| Instant::now().checked_add(after));
            let next = match again_at {
                Some(at) => tokio::time::timeout_at(at, answers.changed()).await,
                None => Ok(answers.changed().await),
            };
            match next {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return self.wait_for_next_poll(gate, again_at).await,
                Err(_) => return,
            }
        }
    }

    /// Handles a gate that won't send more verdicts. Its last verdict applies until the next request is due,
    /// or until its actor stops.
    async fn wait_for_next_poll(&mut self, gate: &ActorRef<GateRequest>, again_at: Option<Instant>) {
        loop {
            let wait = again_at.map_or(GATE_RETRY_INTERVAL, |at| {
                at.saturating_duration_since(Instant::now()).min(GATE_RETRY_INTERVAL)
            });
            sleep(wait).await;
            if matches!(gate.get_status(), ActorStatus::Stopping | ActorStatus::Stopped) {
                return self.report_failure("is not running");
            }
            if again_at.is_some_and(|at| Instant::now() >= at) {
                return;
            }
        }
    }
}
