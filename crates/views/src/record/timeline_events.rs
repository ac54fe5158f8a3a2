//! Applies events to the timelines. Events without a visible effect are ignored.

use tidegate_lifecycle::operation::{ClaimEvent, DeadlineScope, OperationEvent, Stage, Verdict, WaveStep};
use tidegate_model::{OperationOutcome, OperationPhase, Requester};

use super::timeline::{OperationTimeline, Tone};

/// State of an operation while another one holds the claim.
const CLAIM_WAIT: &str = "Waiting for the claim";
/// Maximum number of objects to name in the description of a wave's wait.
const NAMED_OBJECTS_MAX: usize = 3;

impl OperationTimeline {
    /// Applies the next event.
    pub(super) fn apply_event(&mut self, event: &OperationEvent) {
        let at = self.latest_time;
        match event {
            OperationEvent::Accepted { request, .. } => {
                self.is_deletion = request.deletion.is_some();
                self.set_operation_state("Planning", Tone::Busy, "");
                let requester = Requester::from_operation(&request.initiated_by);
                if !requester.reason.is_empty() {
                    self.operation.add_mark(
                        at,
                        requester.describe_action("requested the operation"),
                        Tone::Busy,
                    );
                }
            }
            OperationEvent::Planned { plan, .. } => self.apply_plan(plan),
            OperationEvent::StageChanged { to, .. } => self.apply_stage(to),
            OperationEvent::GateEvaluated { gate, verdict, .. } => self.apply_gate_verdict(gate, verdict),
            OperationEvent::ClaimChanged { news, .. } => self.apply_claim(news),
            OperationEvent::DeadlineExceeded { scope: DeadlineScope::Wave, message, .. }
                if self.current_wave.is_some() =>
            {
                if let Some(wave) = self.current_wave_mut() {
                    wave.line.add_mark(at, format!("deadline passed: {message}"), Tone::Bad);
                }
            }
            OperationEvent::DeadlineExceeded {
                scope: DeadlineScope::Operation | DeadlineScope::Wave,
                message,
                ..
            } => {
                self.operation.add_mark(at, format!("deadline passed: {message}"), Tone::Bad);
            }
            OperationEvent::CallFailed { task: None, message, .. } => {
                self.set_operation_state("A call failed", Tone::Wait, message)
            }
            OperationEvent::AttemptFailed { message, .. } => {
                self.failure.clone_from(message);
                self.operation.add_mark(at, format!("attempt {} failed: {message}", self.attempt), Tone::Bad);
                self.end_all_lines("Failed");
            }
            OperationEvent::RetryStarted { attempt, .. } | OperationEvent::ReplanStarted { attempt, .. } => {
                self.attempt = *attempt;
                self.set_operation_state(&format!("Attempt {attempt}"), Tone::Busy, "");
                self.operation.add_mark(at, format!("attempt {attempt} started"), Tone::Busy);
            }
            OperationEvent::Finished { phase, message, .. } => {
                self.is_over = true;
                self.end_all_lines(if *phase == OperationPhase::Succeeded { "Passed" } else { "Stopped" });
                self.operation.end_span(at);
                let outcome = OperationOutcome::from_phase(*phase, message);
                let tone = if outcome == OperationOutcome::Superseded { Tone::Dull } else { tone_of(*phase) };
                self.operation.outcome = Some(outcome.to_string());
                self.operation.add_mark(at, format!("{outcome}: {message}"), tone);
            }
            _ => self.apply_decision(event),
        }
    }

    /// Applies a user's decision.
    fn apply_decision(&mut self, event: &OperationEvent) {
        let at = self.latest_time;
        match event {
            OperationEvent::Paused { by, reason, .. } => {
                let last = self.operation.spans.last();
                self.state_before_pause =
                    last.map(|span| (span.state.clone(), span.tone, span.reason.clone()));
                self.operation.add_mark(
                    at,
                    with_reason(&format!("{by} paused the operation"), reason),
                    Tone::Wait,
                );
                self.set_operation_state(
                    "Paused",
                    Tone::Wait,
                    &with_reason(&format!("paused by {by}"), reason),
                );
            }
            OperationEvent::Unpaused { by, .. } => {
                let (state, tone, why) =
                    self.state_before_pause.take().unwrap_or((String::new(), Tone::Busy, String::new()));
                self.set_operation_state(&state, tone, &why);
                self.operation.add_mark(
                    at,
                    Requester::parse(by).describe_action("resumed the operation"),
                    Tone::Good,
                );
            }
            OperationEvent::Approved { wave, by, reason, .. } => {
                let what = format!("{by} approved wave {}", wave.saturating_add(1));
                self.operation.add_mark(at, with_reason(&what, reason), Tone::Good);
            }
            OperationEvent::StoredPlanUsed { plan, .. } => {
                self.operation.add_mark(at, format!("executing {}", plan.describe()), Tone::Good);
            }
            OperationEvent::PruneConfirmed { by, .. } => {
                self.operation.add_mark(
                    at,
                    Requester::parse(by).describe_action("confirmed the prunes"),
                    Tone::Good,
                );
            }
            OperationEvent::TerminationRequested { by, .. } => self.operation.add_mark(
                at,
                Requester::parse(by).describe_action("terminated the operation"),
                Tone::Warn,
            ),
            _ => self.apply_task_event(event),
        }
    }

    /// Starts a new state for the operation.
    fn set_operation_state(&mut self, state: &str, tone: Tone, reason: &str) {
        let span = self.new_span(state, tone, reason);
        self.operation.begin_span(span);
    }

    fn apply_stage(&mut self, to: &Stage) {
        let at = self.latest_time;
        if let Some(before) = self.current_wave_mut() {
            before.line.end_span(at);
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
        self.enter_wave(index);
        let gates = self.current_wave_mut().map(|wave| wave.gates.join(", ")).unwrap_or_default();
        let reason = match to {
            Stage::AwaitingRetry { .. } => self.failure.clone(),
            Stage::Wave { step: WaveStep::Held, .. } if !gates.is_empty() => {
                format!("waiting for gate {gates}")
            }
            Stage::Wave { step: WaveStep::Settling { .. }, .. } => {
                "all objects are healthy; waiting to see whether they stay healthy".to_owned()
            }
            Stage::Wave { step: WaveStep::AwaitingHealth | WaveStep::AwaitingGone, .. } => {
                self.describe_awaited()
            }
            _ => String::new(),
        };
        let span = self.new_span(name.clone(), tone, reason);
        if let Some(wave) = self.current_wave_mut() {
            match to {
                Stage::Wave { step: WaveStep::Passed, .. } => {
                    wave.line.add_mark(at, "passed", Tone::Good);
                    wave.line.outcome = Some(WaveStep::Passed.name().to_owned());
                }
                _ => wave.line.begin_span(span.clone()),
            }
        }
        // Show the operation as paused until it is resumed.
        match &mut self.state_before_pause {
            Some(held) => *held = (name, tone, span.reason),
            None => self.operation.begin_span(span),
        }
    }

    /// Describes the objects that the running wave is waiting for.
    fn describe_awaited(&mut self) -> String {
        let has_waves = self.has_waves();
        let Some(wave) = self.current_wave_mut() else { return String::new() };
        let mut of: [(&str, Vec<&str>); 3] =
            [("the health of", Vec::new()), ("the end of", Vec::new()), ("the deletion of", Vec::new())];
        for line in &mut wave.objects {
            let is_hook = line.is_hook;
            let Some(open) = line.open_span().filter(|open| open.tone != Tone::Good) else { continue };
            let place = match (open.state.as_str(), is_hook) {
                ("Deleting", _) => 2,
                (_, true) => 1,
                // With only one wave, the operation's own line shows only waits for hooks.
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
                let more = names.len().saturating_sub(NAMED_OBJECTS_MAX);
                let more = if more > 0 { format!(", {more} more") } else { String::new() };
                let named: Vec<&str> = names.iter().copied().take(NAMED_OBJECTS_MAX).collect();
                format!("{what} {}{more}", named.join(", "))
            })
            .collect();
        if parts.is_empty() { String::new() } else { format!("waiting for {}", parts.join(" and ")) }
    }

    fn apply_gate_verdict(&mut self, gate: &str, verdict: &Verdict) {
        let at = self.latest_time;
        let (text, tone, why) = match verdict {
            Verdict::Open => (format!("gate {gate} is open"), Tone::Good, None),
            Verdict::Closed { reason, .. } => (
                format!("gate {gate} is closed: {reason}"),
                Tone::Wait,
                Some(format!("gate {gate}: {reason}")),
            ),
        };
        let held = WaveStep::Held.name();
        if let (Some(open), Some(why)) = (self.operation.open_span().filter(|open| open.state == held), &why)
        {
            open.reason.clone_from(why);
        }
        let Some(wave) = self.current_wave_mut() else { return };
        wave.line.add_mark(at, text, tone);
        if let (Some(open), Some(why)) = (wave.line.open_span().filter(|open| open.state == held), why) {
            open.reason = why;
        }
    }

    fn apply_claim(&mut self, news: &ClaimEvent) {
        match news {
            ClaimEvent::Taken { holder, .. } => {
                self.set_operation_state(CLAIM_WAIT, Tone::Wait, &format!("held by {holder}"));
            }
            _ if self.operation.open_span().is_some_and(|open| open.state == CLAIM_WAIT) => {
                self.set_operation_state("Planning", Tone::Busy, "");
            }
            _ => {}
        }
    }
}

pub(super) fn with_reason(what: &str, reason: &str) -> String {
    if reason.is_empty() { what.to_owned() } else { format!("{what}: {reason}") }
}

/// Returns the color class for an outcome.
pub(super) fn tone_of(phase: OperationPhase) -> Tone {
    match phase {
        OperationPhase::Succeeded => Tone::Good,
        OperationPhase::Failed | OperationPhase::Error => Tone::Bad,
        OperationPhase::Running | OperationPhase::Terminating => Tone::Busy,
    }
}
