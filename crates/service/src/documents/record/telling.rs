//! What each fact adds to the story. Facts that change nothing that is shown add nothing.

use tidegate_lifecycle::operation::{ClaimNews, DeadlineScope, Fact, Stage, Verdict, WaveStep};
use tidegate_model::{OperationPhase, Wisher};

use super::story::{Story, Tone};

/// The state of an operation that waits for another one's claim.
const AWAITS_CLAIM: &str = "Waiting for the claim";
/// So many objects that a wave waits for are named.
const NAMED: usize = 3;

impl Story {
    /// Takes in the next fact.
    pub(super) fn take(&mut self, fact: &Fact) {
        let at = self.at;
        match fact {
            Fact::Accepted { request, .. } => {
                self.is_deletion = request.deletion.is_some();
                self.goes_on("Planning", Tone::Busy, "");
                let asker = Wisher::of_operation(&request.initiated_by);
                if !asker.reason.is_empty() {
                    self.operation.mark(at, asker.does("asks for it"), Tone::Busy);
                }
            }
            Fact::Planned { plan, .. } => self.planned(plan),
            Fact::Moved { to, .. } => self.moved(to),
            Fact::GateAnswered { gate, verdict, .. } => self.gate_answered(gate, verdict),
            Fact::Claim { news, .. } => self.claim(news),
            Fact::DeadlinePassed { scope: DeadlineScope::Wave, message, .. } if self.current.is_some() => {
                if let Some(wave) = self.wave() {
                    wave.line.mark(at, format!("deadline passed: {message}"), Tone::Bad);
                }
            }
            Fact::DeadlinePassed {
                scope: DeadlineScope::Operation | DeadlineScope::Wave, message, ..
            } => {
                self.operation.mark(at, format!("deadline passed: {message}"), Tone::Bad);
            }
            Fact::CallFailed { task: None, message, .. } => {
                self.goes_on("A call failed", Tone::Wait, message)
            }
            Fact::AttemptFailed { message, .. } => {
                self.failure.clone_from(message);
                self.operation.mark(at, format!("attempt {} failed: {message}", self.attempt), Tone::Bad);
                self.end_all("Failed");
            }
            Fact::RetryStarted { attempt, .. } | Fact::RetryPlansAnew { attempt, .. } => {
                self.attempt = *attempt;
                self.goes_on(&format!("Attempt {attempt}"), Tone::Busy, "");
                self.operation.mark(at, format!("attempt {attempt} begins"), Tone::Busy);
            }
            Fact::Finished { phase, message, .. } => {
                self.is_over = true;
                self.end_all(if *phase == OperationPhase::Succeeded { "Passed" } else { "Stopped" });
                self.operation.end(at);
                self.operation.outcome = Some(phase.to_string());
                self.operation.mark(at, format!("{phase}: {message}"), tone_of(*phase));
            }
            _ => self.said(fact),
        }
    }

    /// What people have said.
    fn said(&mut self, fact: &Fact) {
        let at = self.at;
        match fact {
            Fact::Paused { by, reason, .. } => {
                let last = self.operation.spans.last();
                self.held = last.map(|span| (span.state.clone(), span.tone, span.why.clone()));
                self.operation.mark(at, because(&format!("{by} holds it"), reason), Tone::Wait);
                self.goes_on("Paused", Tone::Wait, &because(&format!("held by {by}"), reason));
            }
            Fact::Unpaused { by, .. } => {
                let (state, tone, why) =
                    self.held.take().unwrap_or((String::new(), Tone::Busy, String::new()));
                self.goes_on(&state, tone, &why);
                self.operation.mark(at, Wisher::read(by).does("lets it go on"), Tone::Good);
            }
            Fact::Approved { wave, by, reason, .. } => {
                let what = format!("{by} approves wave {}", wave.saturating_add(1));
                self.operation.mark(at, because(&what, reason), Tone::Good);
            }
            Fact::PlanTaken { plan, .. } => {
                self.operation.mark(at, format!("carries out {}", plan.words()), Tone::Good);
            }
            Fact::PruneConfirmed { by, .. } => {
                self.operation.mark(at, Wisher::read(by).does("confirms prunes"), Tone::Good);
            }
            Fact::TerminateRequested { by, .. } => {
                self.operation.mark(at, Wisher::read(by).does("ends it"), Tone::Warn)
            }
            _ => self.of_task(fact),
        }
    }

    /// The operation is in another state from here on.
    fn goes_on(&mut self, state: &str, tone: Tone, why: &str) {
        let span = self.span(state, tone, why);
        self.operation.begin(span);
    }

    fn moved(&mut self, to: &Stage) {
        let at = self.at;
        if let Some(before) = self.wave() {
            before.line.end(at);
        }
        let (index, name, tone) = match to {
            Stage::Wave { index, step } => {
                let waits = matches!(
                    step,
                    WaveStep::Held
                        | WaveStep::AwaitingHealth
                        | WaveStep::AwaitingGone
                        | WaveStep::Settling { .. }
                );
                (Some(*index), step.name().to_owned(), if waits { Tone::Wait } else { Tone::Busy })
            }
            Stage::AwaitingRetry { .. } => (None, to.name(), Tone::Wait),
            stage => (None, stage.name(), Tone::Busy),
        };
        self.enter(index);
        let gates = self.wave().map(|wave| wave.gates.join(", ")).unwrap_or_default();
        let why = match to {
            Stage::AwaitingRetry { .. } => self.failure.clone(),
            Stage::Wave { step: WaveStep::Held, .. } if !gates.is_empty() => {
                format!("waits for gate {gates}")
            }
            Stage::Wave { step: WaveStep::Settling { .. }, .. } => {
                "all is well, and has to stay so for a while".to_owned()
            }
            Stage::Wave { step: WaveStep::AwaitingHealth | WaveStep::AwaitingGone, .. } => self.awaited(),
            _ => String::new(),
        };
        let span = self.span(name.clone(), tone, why);
        if let Some(wave) = self.wave() {
            match to {
                Stage::Wave { step: WaveStep::Passed, .. } => {
                    wave.line.mark(at, "passed", Tone::Good);
                    wave.line.outcome = Some(WaveStep::Passed.name().to_owned());
                }
                _ => wave.line.begin(span.clone()),
            }
        }
        // Whoever holds it does so until they let it go on.
        match &mut self.held {
            Some(held) => *held = (name, tone, span.why),
            None => self.operation.begin(span),
        }
    }

    /// For which of its objects the wave waits that is at work.
    fn awaited(&mut self) -> String {
        let has_waves = self.has_waves();
        let Some(wave) = self.wave() else { return String::new() };
        let mut of: [(&str, Vec<&str>); 3] =
            [("the health of", Vec::new()), ("the end of", Vec::new()), ("the deletion of", Vec::new())];
        for line in &mut wave.objects {
            let is_hook = line.is_hook;
            let Some(open) = line.open().filter(|open| open.tone != Tone::Good) else { continue };
            let place = match (open.state.as_str(), is_hook) {
                ("Deleting", _) => 2,
                (_, true) => 1,
                // Of a plan of one wave nobody waits for more than its hooks.
                (_, false) if has_waves => 0,
                (_, false) => continue,
            };
            if let Some((_, names)) = of.get_mut(place) {
                names.push(&line.label);
            }
        }
        let parts: Vec<String> = of
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| {
                let more = names.len().saturating_sub(NAMED);
                let more = if more > 0 { format!(", {more} more") } else { String::new() };
                let named: Vec<&str> = names.iter().copied().take(NAMED).collect();
                format!("{what} {}{more}", named.join(", "))
            })
            .collect();
        if parts.is_empty() { String::new() } else { format!("waits for {}", parts.join(" and ")) }
    }

    fn gate_answered(&mut self, gate: &str, verdict: &Verdict) {
        let at = self.at;
        let (text, tone, why) = match verdict {
            Verdict::Open => (format!("gate {gate} is open"), Tone::Good, None),
            Verdict::Closed { reason, .. } => (
                format!("gate {gate} is closed: {reason}"),
                Tone::Wait,
                Some(format!("gate {gate}: {reason}")),
            ),
        };
        let held = WaveStep::Held.name();
        if let (Some(open), Some(why)) = (self.operation.open().filter(|open| open.state == held), &why) {
            open.why.clone_from(why);
        }
        let Some(wave) = self.wave() else { return };
        wave.line.mark(at, text, tone);
        if let (Some(open), Some(why)) = (wave.line.open().filter(|open| open.state == held), why) {
            open.why = why;
        }
    }

    fn claim(&mut self, news: &ClaimNews) {
        match news {
            ClaimNews::Taken { holder, .. } => {
                self.goes_on(AWAITS_CLAIM, Tone::Wait, &format!("{holder} has it"));
            }
            _ if self.operation.open().is_some_and(|open| open.state == AWAITS_CLAIM) => {
                self.goes_on("Planning", Tone::Busy, "");
            }
            _ => {}
        }
    }
}

pub(super) fn because(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

/// How an end looks.
pub(super) fn tone_of(phase: OperationPhase) -> Tone {
    match phase {
        OperationPhase::Succeeded => Tone::Good,
        OperationPhase::Failed | OperationPhase::Error => Tone::Bad,
        OperationPhase::Running | OperationPhase::Terminating => Tone::Busy,
    }
}
