//! A gate is asked once, and listened to from then on. Asking again is only a safety net.

use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_lifecycle::operation::{ASK_AGAIN_AFTER, Verdict, gate_problem};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::extend::{ANSWER_WITHIN, GateQuestion, GateReply};

/// Shortest time between two questions to the same gate, whatever it asks for.
const ASK_AGAIN_MIN: Duration = Duration::from_secs(1);
/// So long a gate that has not answered in time is still listened to, before it is asked again.
const STILL_LISTENED_TO: Duration = Duration::from_secs(60);

/// Asks a gate, and tells what it answers, now and later, for as long as this is polled. Whatever goes wrong, the answer is
/// "closed because".
pub(crate) async fn ask(
    name: &str,
    gate: Option<&ActorRef<GateQuestion>>,
    question: impl Fn(GateReply) -> GateQuestion,
    tell: impl Fn(Verdict),
) {
    let mut teller = Teller { name, tell, told: None };
    let Some(gate) = gate else {
        let problem = gate_problem(name);
        let unregistered = || format!("no gate named {name} is registered with this engine");
        teller.tell(closed(problem.unwrap_or_else(unregistered)));
        // Gates are registered before an engine starts.
        return;
    };
    loop {
        let (reply, answers) = GateReply::new();
        if gate.send_message(question(reply)).is_err() {
            teller.failed("is not running");
            sleep(ASK_AGAIN_AFTER).await;
            continue;
        }
        teller.listen(gate, answers).await;
    }
}

fn closed(reason: String) -> Verdict {
    Verdict::Closed { reason, ask_again_after: ASK_AGAIN_AFTER }
}

/// Tells what is new.
struct Teller<'a, T> {
    name: &'a str,
    tell: T,
    told: Option<Verdict>,
}

impl<T: Fn(Verdict)> Teller<'_, T> {
    fn tell(&mut self, verdict: Verdict) {
        if !self.told.as_ref().is_some_and(|told| told.says_the_same(&verdict)) {
            (self.tell)(verdict.clone());
            self.told = Some(verdict);
        }
    }

    fn failed(&mut self, problem: &str) {
        self.tell(closed(format!("gate {} {problem}", self.name)));
    }

    /// Listens until it is time to ask again.
    async fn listen(&mut self, gate: &ActorRef<GateQuestion>, mut answers: watch::Receiver<Option<Verdict>>) {
        match timeout(ANSWER_WITHIN, answers.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                self.failed("ended without an answer");
                return sleep(ASK_AGAIN_AFTER).await;
            }
            Err(_) => {
                self.failed(&format!("did not answer within {} s", ANSWER_WITHIN.as_secs()));
                match timeout(STILL_LISTENED_TO, answers.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return self.failed("ended without an answer"),
                    Err(_) => return,
                }
            }
        }
        loop {
            let Some(verdict) = answers.borrow_and_update().clone() else { return };
            let asked_again = match &verdict {
                Verdict::Open => None,
                Verdict::Closed { ask_again_after, .. } => Some((*ask_again_after).max(ASK_AGAIN_MIN)),
            };
            self.tell(verdict);
            let again_at = asked_again.and_then(|after| Instant::now().checked_add(after));
            let next = match again_at {
                Some(at) => tokio::time::timeout_at(at, answers.changed()).await,
                None => Ok(answers.changed().await),
            };
            match next {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return self.outlive(gate, again_at).await,
                Err(_) => return,
            }
        }
    }

    /// A gate that has said all it will say: its answer stands until it is asked again, or is not there any more.
    async fn outlive(&mut self, gate: &ActorRef<GateQuestion>, again_at: Option<Instant>) {
        loop {
            let wait = again_at.map_or(ASK_AGAIN_AFTER, |at| {
                at.saturating_duration_since(Instant::now()).min(ASK_AGAIN_AFTER)
            });
            sleep(wait).await;
            if matches!(gate.get_status(), ActorStatus::Stopping | ActorStatus::Stopped) {
                return self.failed("is not running");
            }
            if again_at.is_some_and(|at| Instant::now() >= at) {
                return;
            }
        }
    }
}
