//! Claim of an operation: permitted actions before the claim is held, and the effect of losing the claim.

use std::sync::Arc;

use tidegate_lifecycle::operation::Driver;
use tidegate_lifecycle::operation::{
    Answer, CallError, ClaimEvent, ClaimStatus, Command, DryRunResponse, Input, Stage, explain, view,
};
use tidegate_model::{
    ClaimConflictPolicy, ClaimHolder, ClaimLocation, ClaimRequest, OperationPhase, Phase, SyncRequest,
    TaskId, Timestamp,
};

use crate::build::*;

fn claiming_request(if_taken: ClaimConflictPolicy) -> SyncRequest {
    SyncRequest { claim: Some(ClaimRequest { namespace: None, if_taken }), ..request() }
}

fn other_holder() -> ClaimHolder {
    let since = Some("2026-11-21T09:00:00Z".parse().unwrap());
    ClaimHolder { operation: "other".into(), who: "bob on ci-2".into(), revision: "abc".into(), since }
}

fn held_claim() -> ClaimEvent {
    let place = ClaimLocation { namespace: "shop".into(), name: "tidegate-shop".into() };
    ClaimEvent::Held { place, epoch: 3 }
}

/// Operation whose events are durable immediately.
struct Operation(Driver);

impl Operation {
    fn start(request: SyncRequest) -> Self {
        let mut this = Self(Driver::default());
        this.offer(
            0,
            Input::Request { operation: id(), request: Box::new(request), targets: DIGEST, plan: None },
        );
        this
    }

    /// Creates an operation that holds its claim and is in its first wave.
    fn start_running(request: SyncRequest) -> Self {
        let mut this = Self::start(request);
        this.receive_claim(1, held_claim());
        let plan = plan([hook_task(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]);
        this.offer(2, Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() });
        for task in [0, 1] {
            this.offer(
                3,
                Input::Answer {
                    task: TaskId(task),
                    attempt: 1,
                    answer: Answer::Checked(Ok(DryRunResponse::default())),
                },
            );
        }
        this
    }

    fn offer(&mut self, millis: i64, input: Input) {
        self.0.handle_input(&input, at(millis)).unwrap();
        self.0.advance(at(millis)).unwrap();
        if self.0.take_batch(at(millis), true).is_some() {
            self.0.mark_persisted();
        }
    }

    fn receive_claim(&mut self, millis: i64, news: ClaimEvent) {
        self.offer(millis, Input::Claim(Ok(news)));
    }

    fn outstanding_commands(&self, millis: i64) -> Vec<Command> {
        self.0.outstanding(at(millis)).unwrap_or_default().commands
    }

    fn claim_state(&self) -> ClaimStatus {
        view(self.0.state()).unwrap().claim.unwrap().state
    }

    fn phase_and_message(&self) -> (OperationPhase, String) {
        let view = view(self.0.state()).unwrap();
        (view.phase, view.message)
    }

    fn stage(&self) -> Stage {
        self.0.state().operation().unwrap().stage.clone()
    }
}

fn taken_claim(at_work: bool) -> ClaimEvent {
    ClaimEvent::Taken { holder: other_holder(), at_work }
}

#[test]
fn nothing_is_planned_before_the_claim_is_held() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    assert_eq!(operation.outstanding_commands(0), [Command::Claim]);
    assert_eq!(operation.claim_state(), ClaimStatus::Wanted);
    operation.receive_claim(1, held_claim());
    assert_eq!(
        operation.outstanding_commands(1),
        [Command::Claim, Command::Plan],
        "planning starts when the claim is held"
    );
    assert_eq!(operation.claim_state(), ClaimStatus::Held);
    let written = operation.0.sequence();
    operation.receive_claim(2, held_claim());
    assert_eq!(operation.0.sequence(), written, "a renewal must not be recorded");
}

#[test]
fn an_operation_without_a_claim_requests_none() {
    let operation = Operation::start(request());
    assert_eq!(operation.outstanding_commands(0), [Command::Plan]);
    assert_eq!(view(operation.0.state()).unwrap().claim, None);
}

#[test]
fn a_running_operation_keeps_its_claim_while_paused_and_ending() {
    let mut operation = Operation::start_running(claiming_request(ClaimConflictPolicy::Refuse));
    assert!(operation.outstanding_commands(3).contains(&Command::Claim));
    operation.offer(4, Input::Pause { by: "cat".into(), reason: String::new() });
    assert_eq!(operation.outstanding_commands(4), [Command::Claim]);
    operation.offer(5, Input::Terminate { by: "cat".into() });
    assert!(operation.0.state().is_finished() || operation.outstanding_commands(5).contains(&Command::Claim));
}

#[test]
fn a_second_operation_is_rejected_once_the_first_is_running() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.receive_claim(1, taken_claim(false));
    assert_eq!(operation.claim_state(), ClaimStatus::Awaited, "the first operation may have crashed");
    assert_eq!(operation.outstanding_commands(1), [Command::Claim]);
    operation.receive_claim(2, taken_claim(true));
    assert_eq!(operation.claim_state(), ClaimStatus::Refused);
    let (phase, message) = operation.phase_and_message();
    assert_eq!(phase, OperationPhase::Error);
    assert_eq!(
        message,
        "application shop has another operation running: operation other of bob on ci-2 (revision abc), since 2026-11-21T09:00:00.000Z; wait for it \
         with `tidegate sync --queue` or `tidegate app sync --policy queue`, or end it with `tidegate sync --supersede` or `tidegate app sync \
         --policy supersede`"
    );
}

#[test]
fn a_waiting_operation_explains_the_wait_and_its_deadline_counts() {
    for if_taken in [ClaimConflictPolicy::Queue, ClaimConflictPolicy::Supersede] {
        let request = SyncRequest { deadline: Some(seconds(60)), ..claiming_request(if_taken) };
        let mut operation = Operation::start(request);
        operation.receive_claim(1000, taken_claim(true));
        operation.receive_claim(5000, taken_claim(true));
        assert_eq!(operation.claim_state(), ClaimStatus::Awaited);
        let explained = explain(operation.0.state(), at(11_000)).to_string();
        assert_eq!(
            explained,
            "waiting for the claim, waiting 10 s for operation other of bob on ci-2 (revision abc), since 2026-11-21T09:00:00.000Z (it holds the \
             claim on application shop); deadline in 49 s"
                .replacen("claim, ", "claim: ", 1)
        );
        assert!(operation.phase_and_message().1.starts_with("waiting for the end of operation other"));
        assert_eq!(operation.0.outstanding(at(11_000)).unwrap().wake_at, Some(at(60_000)));
        operation.0.advance(at(60_000)).unwrap();
        assert_eq!(operation.phase_and_message().0, OperationPhase::Failed, "{if_taken:?}");
        assert_eq!(operation.claim_state(), ClaimStatus::Awaited, "a deadline must not count as a refusal");
    }
}

#[test]
fn a_waiting_operation_continues_when_the_claim_is_free() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Queue));
    operation.receive_claim(1, taken_claim(true));
    operation.receive_claim(2, held_claim());
    assert_eq!(operation.outstanding_commands(2), [Command::Claim, Command::Plan]);
}

#[test]
fn a_superseded_holder_terminates_and_names_the_requester() {
    let mut operation = Operation::start_running(claiming_request(ClaimConflictPolicy::Refuse));
    assert!(matches!(operation.stage(), Stage::Wave { .. }), "{:?}", operation.stage());
    operation.receive_claim(4, ClaimEvent::EndWanted { by: other_holder() });
    operation.receive_claim(5, ClaimEvent::EndWanted { by: other_holder() });
    let (phase, message) = operation.phase_and_message();
    assert_eq!(phase, OperationPhase::Failed);
    assert!(
        message.starts_with("Operation terminated, superseded by operation other of bob on ci-2"),
        "{message}"
    );
}

#[test]
fn a_holder_that_is_superseded_before_its_plan_ends() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.receive_claim(1, held_claim());
    operation.receive_claim(2, ClaimEvent::EndWanted { by: other_holder() });
    assert_eq!(operation.phase_and_message().0, OperationPhase::Failed);
}

#[test]
fn an_operation_that_lost_its_claim_ends_with_the_reason() {
    for holder in [Some(other_holder()), None] {
        let mut operation = Operation::start_running(claiming_request(ClaimConflictPolicy::Refuse));
        operation.offer(4, Input::Pause { by: "cat".into(), reason: String::new() });
        operation.receive_claim(5, ClaimEvent::Lost { holder: holder.clone() });
        let (phase, message) = operation.phase_and_message();
        assert_eq!(phase, OperationPhase::Error);
        for text in ["without writing anything else", "leaves its running hooks in place", "sync again"] {
            assert!(message.contains(text), "{message}");
        }
        let holds = format!("is now held by {}", other_holder());
        assert_eq!(message.contains(&holds), holder.is_some(), "{message}");
        assert!(
            !message.contains("no engine worked on this operation"),
            "the other operation may be running: {message}"
        );
        assert_eq!(operation.claim_state(), ClaimStatus::Lost);
        assert!(operation.outstanding_commands(6).is_empty());
    }
}

#[test]
fn an_operation_that_lost_its_claim_before_planning_claims_again() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Queue));
    operation.receive_claim(1, held_claim());
    operation.receive_claim(2, ClaimEvent::Lost { holder: Some(other_holder()) });
    assert_eq!(operation.outstanding_commands(2), [Command::Claim]);
    // A plan that arrives while another operation holds the claim is outdated.
    let late = Input::Planned {
        plan: Arc::new(plan([resource(0, "ConfigMap/c")])),
        bundle: DIGEST,
        namespaces: Vec::new(),
    };
    operation.offer(3, late);
    assert_eq!(operation.outstanding_commands(3), [Command::Claim]);
}

#[test]
fn an_operation_continues_with_a_warning_if_claims_are_unavailable() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.receive_claim(1, ClaimEvent::Without { reason: "leases is forbidden".into() });
    assert_eq!(operation.outstanding_commands(1), [Command::Plan]);
    let view = view(operation.0.state()).unwrap();
    assert!(view.warnings.iter().any(|warning| warning.code == "no-claim"
        && warning.message.contains("leases is forbidden")
        && warning.message.contains("--no-claim")));
    assert_eq!(operation.claim_state(), ClaimStatus::Unavailable);
}

/// The operation still checks whether another operation has acquired its former Lease, even after a crash.
#[test]
fn an_operation_that_continues_without_its_claim_still_requests_it() {
    let place = ClaimLocation { namespace: "shop".into(), name: "tidegate-web".into() };
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.receive_claim(1, held_claim());
    operation.receive_claim(2, ClaimEvent::not_renewed(&place, "leases is forbidden"));
    assert_eq!(operation.outstanding_commands(2), [Command::Claim, Command::Plan]);
    assert_eq!(operation.0.state().header().unwrap().last_claim(), Some(place));
    let view = view(operation.0.state()).unwrap();
    let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
    assert!(warning.message.contains("Lease shop/tidegate-web cannot be renewed: leases is forbidden"));
    assert_eq!(operation.claim_state(), ClaimStatus::Unavailable);
}

#[test]
fn a_failed_claim_request_is_retried() {
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.offer(1000, Input::Claim(Err(CallError::outage("connection refused"))));
    let again = |millis| operation.outstanding_commands(millis).contains(&Command::Claim);
    assert!(!again(1000) && again(1200));
    assert!(explain(operation.0.state(), at(1100)).to_string().contains("connection refused"));
    let mut operation = Operation::start(claiming_request(ClaimConflictPolicy::Refuse));
    operation.offer(1000, Input::Claim(Err(CallError::permanent("namespaces \"ops\" not found"))));
    let (phase, message) = operation.phase_and_message();
    assert_eq!(phase, OperationPhase::Error);
    assert_eq!(message, "failed to acquire the claim: namespaces \"ops\" not found");
}

/// The state of the claim survives a crash, because it is part of the events.
#[test]
fn a_recovered_operation_keeps_its_claim() {
    let mut driver = Driver::default();
    let begin = Input::Request {
        operation: id(),
        request: Box::new(claiming_request(ClaimConflictPolicy::Refuse)),
        targets: DIGEST,
        plan: None,
    };
    let mut events = Vec::new();
    for (millis, input) in [(0, begin), (1, Input::Claim(Ok(held_claim())))] {
        driver.handle_input(&input, Timestamp::from_millis(millis)).unwrap();
        events.extend(driver.take_batch(at(millis), true).unwrap().events);
        driver.mark_persisted();
    }
    let recovered = Driver::recover(None, events).unwrap();
    let header = recovered.state().header().unwrap();
    assert_eq!(
        header.held_claim().map(|(place, epoch)| (place.to_string(), epoch)),
        Some(("Lease shop/tidegate-shop".into(), 3))
    );
    assert_eq!(recovered.outstanding(at(2)).unwrap().commands, [Command::Claim, Command::Plan]);
}
