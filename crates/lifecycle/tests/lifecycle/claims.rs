//! The claim of an operation: what may happen before it is held, and what its loss means.

use std::sync::Arc;

use tidegate_lifecycle::operation::Driver;
use tidegate_lifecycle::operation::{
    Answer, CallError, ClaimNews, ClaimStanding, Command, Input, Stage, Trial, explain, view,
};
use tidegate_model::{
    ClaimHolder, ClaimPlace, ClaimRequest, IfTaken, OperationPhase, Phase, SyncRequest, TaskId, Timestamp,
};

use crate::build::*;

fn claiming(if_taken: IfTaken) -> SyncRequest {
    SyncRequest { claim: Some(ClaimRequest { namespace: None, if_taken }), ..request() }
}

fn other() -> ClaimHolder {
    let since = Some("2026-11-21T09:00:00Z".parse().unwrap());
    ClaimHolder { operation: "other".into(), who: "bob on ci-2".into(), revision: "abc".into(), since }
}

fn held() -> ClaimNews {
    let place = ClaimPlace { namespace: "shop".into(), name: "tidegate-shop".into() };
    ClaimNews::Held { place, epoch: 3 }
}

/// An operation whose facts are always durable.
struct Operation(Driver);

impl Operation {
    fn begun(request: SyncRequest) -> Self {
        let mut this = Self(Driver::default());
        this.offer(
            0,
            Input::Request { operation: id(), request: Box::new(request), targets: DIGEST, plan: None },
        );
        this
    }

    /// One that holds its claim and is in its first wave.
    fn at_work(request: SyncRequest) -> Self {
        let mut this = Self::begun(request);
        this.hear(1, held());
        let plan = plan([hook(Phase::PreSync, 0, "Job/migrate"), resource(0, "ConfigMap/c")]);
        this.offer(2, Input::Planned { plan: Arc::new(plan), bundle: DIGEST, namespaces: Vec::new() });
        for task in [0, 1] {
            this.offer(
                3,
                Input::Answer {
                    task: TaskId(task),
                    attempt: 1,
                    answer: Answer::Checked(Ok(Trial::default())),
                },
            );
        }
        this
    }

    fn offer(&mut self, millis: i64, input: Input) {
        self.0.offer(&input, at(millis)).unwrap();
        self.0.advance(at(millis)).unwrap();
        if self.0.take_batch(at(millis), true).is_some() {
            self.0.persisted();
        }
    }

    fn hear(&mut self, millis: i64, news: ClaimNews) {
        self.offer(millis, Input::Claim(Ok(news)));
    }

    fn commands(&self, millis: i64) -> Vec<Command> {
        self.0.owed(at(millis)).unwrap_or_default().commands
    }

    fn standing(&self) -> ClaimStanding {
        view(self.0.state()).unwrap().claim.unwrap().state
    }

    fn stands(&self) -> (OperationPhase, String) {
        let view = view(self.0.state()).unwrap();
        (view.phase, view.message)
    }

    fn stage(&self) -> Stage {
        self.0.state().operation().unwrap().stage.clone()
    }
}

fn taken(at_work: bool) -> ClaimNews {
    ClaimNews::Taken { holder: other(), at_work }
}

#[test]
fn nothing_is_planned_before_the_claim_is_held() {
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    assert_eq!(operation.commands(0), [Command::Claim]);
    assert_eq!(operation.standing(), ClaimStanding::Wanted);
    operation.hear(1, held());
    assert_eq!(operation.commands(1), [Command::Claim, Command::Plan], "it is held from here on");
    assert_eq!(operation.standing(), ClaimStanding::Held);
    let written = operation.0.sequence();
    operation.hear(2, held());
    assert_eq!(operation.0.sequence(), written, "a renewal is no fact");
}

#[test]
fn an_operation_without_a_claim_asks_for_none() {
    let operation = Operation::begun(request());
    assert_eq!(operation.commands(0), [Command::Plan]);
    assert_eq!(view(operation.0.state()).unwrap().claim, None);
}

#[test]
fn an_operation_that_runs_keeps_its_claim_while_it_is_paused_and_while_it_ends() {
    let mut operation = Operation::at_work(claiming(IfTaken::Refuse));
    assert!(operation.commands(3).contains(&Command::Claim));
    operation.offer(4, Input::Pause { by: "cat".into(), reason: String::new() });
    assert_eq!(operation.commands(4), [Command::Claim]);
    operation.offer(5, Input::Terminate { by: "cat".into() });
    assert!(operation.0.state().is_finished() || operation.commands(5).contains(&Command::Claim));
}

#[test]
fn a_second_operation_is_refused_once_the_first_was_seen_at_work() {
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.hear(1, taken(false));
    assert_eq!(operation.standing(), ClaimStanding::Awaited, "the first may be dead");
    assert_eq!(operation.commands(1), [Command::Claim]);
    operation.hear(2, taken(true));
    assert_eq!(operation.standing(), ClaimStanding::Refused);
    let (phase, message) = operation.stands();
    assert_eq!(phase, OperationPhase::Error);
    assert_eq!(
        message,
        "application shop is being worked on by another operation: operation other of bob on ci-2 (revision abc), \
         since 2026-11-21T09:00:00.000Z; wait for it with --queue, or end it with --supersede"
    );
}

#[test]
fn a_second_operation_that_waits_says_for_what_and_its_deadline_counts() {
    for if_taken in [IfTaken::Queue, IfTaken::Supersede] {
        let request = SyncRequest { deadline: Some(seconds(60)), ..claiming(if_taken) };
        let mut operation = Operation::begun(request);
        operation.hear(1000, taken(true));
        operation.hear(5000, taken(true));
        assert_eq!(operation.standing(), ClaimStanding::Awaited);
        let explained = explain(operation.0.state(), at(11_000)).to_string();
        assert_eq!(
            explained,
            "waiting for the claim, waiting 10 s for operation other of bob on ci-2 (revision abc), since \
             2026-11-21T09:00:00.000Z (it has the claim on application shop); deadline in 49 s"
                .replacen("claim, ", "claim: ", 1)
        );
        assert!(operation.stands().1.starts_with("waiting for the end of operation other"));
        assert_eq!(operation.0.owed(at(11_000)).unwrap().wake_at, Some(at(60_000)));
        operation.0.advance(at(60_000)).unwrap();
        assert_eq!(operation.stands().0, OperationPhase::Failed, "{if_taken:?}");
        assert_eq!(operation.standing(), ClaimStanding::Awaited, "a deadline is no refusal");
    }
}

#[test]
fn whoever_waited_goes_on_when_the_claim_is_free() {
    let mut operation = Operation::begun(claiming(IfTaken::Queue));
    operation.hear(1, taken(true));
    operation.hear(2, held());
    assert_eq!(operation.commands(2), [Command::Claim, Command::Plan]);
}

#[test]
fn a_holder_that_is_asked_to_end_terminates_and_says_by_whom() {
    let mut operation = Operation::at_work(claiming(IfTaken::Refuse));
    assert!(matches!(operation.stage(), Stage::Wave { .. }), "{:?}", operation.stage());
    operation.hear(4, ClaimNews::EndWanted { by: other() });
    operation.hear(5, ClaimNews::EndWanted { by: other() });
    let (phase, message) = operation.stands();
    assert_eq!(phase, OperationPhase::Failed);
    assert!(
        message.starts_with("Operation terminated, superseded by operation other of bob on ci-2"),
        "{message}"
    );
}

#[test]
fn a_holder_that_is_asked_to_end_before_it_planned_ends() {
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.hear(1, held());
    operation.hear(2, ClaimNews::EndWanted { by: other() });
    assert_eq!(operation.stands().0, OperationPhase::Failed);
}

#[test]
fn an_operation_that_lost_its_claim_ends_and_says_why() {
    for holder in [Some(other()), None] {
        let mut operation = Operation::at_work(claiming(IfTaken::Refuse));
        operation.offer(4, Input::Pause { by: "cat".into(), reason: String::new() });
        operation.hear(5, ClaimNews::Lost { holder: holder.clone() });
        let (phase, message) = operation.stands();
        assert_eq!(phase, OperationPhase::Error);
        for words in ["nothing more is written", "its running hooks are left as they are", "begin anew"] {
            assert!(message.contains(words), "{message}");
        }
        let holds = format!("is that of {} now", other());
        assert_eq!(message.contains(&holds), holder.is_some(), "{message}");
        assert!(!message.contains("nobody worked on this operation"), "it may be at work: {message}");
        assert_eq!(operation.standing(), ClaimStanding::Lost);
        assert!(operation.commands(6).is_empty());
    }
}

#[test]
fn an_operation_that_lost_its_claim_before_it_planned_takes_it_anew() {
    let mut operation = Operation::begun(claiming(IfTaken::Queue));
    operation.hear(1, held());
    operation.hear(2, ClaimNews::Lost { holder: Some(other()) });
    assert_eq!(operation.commands(2), [Command::Claim]);
    // A plan that was on its way is of the past.
    let late = Input::Planned {
        plan: Arc::new(plan([resource(0, "ConfigMap/c")])),
        bundle: DIGEST,
        namespaces: Vec::new(),
    };
    operation.offer(3, late);
    assert_eq!(operation.commands(3), [Command::Claim]);
}

#[test]
fn where_there_is_no_claim_to_be_had_the_operation_goes_on_and_warns() {
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.hear(1, ClaimNews::Without { reason: "leases is forbidden".into() });
    assert_eq!(operation.commands(1), [Command::Plan]);
    let view = view(operation.0.state()).unwrap();
    assert!(view.warnings.iter().any(|warning| warning.code == "no-claim"
        && warning.message.contains("leases is forbidden")
        && warning.message.contains("--no-claim")));
    assert_eq!(operation.standing(), ClaimStanding::Unavailable);
}

/// Whether the Lease it has had is taken by somebody else is looked at, also after a crash.
#[test]
fn an_operation_that_goes_on_without_the_claim_it_had_still_asks_for_it() {
    let place = ClaimPlace { namespace: "shop".into(), name: "tidegate-web".into() };
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.hear(1, held());
    operation.hear(2, ClaimNews::not_renewed(&place, "leases is forbidden"));
    assert_eq!(operation.commands(2), [Command::Claim, Command::Plan]);
    assert_eq!(operation.0.state().header().unwrap().had_claim(), Some(place));
    let view = view(operation.0.state()).unwrap();
    let warning = view.warnings.iter().find(|warning| warning.code == "no-claim").unwrap();
    assert!(warning.message.contains("Lease shop/tidegate-web cannot be renewed: leases is forbidden"));
    assert_eq!(operation.standing(), ClaimStanding::Unavailable);
}

#[test]
fn a_claim_that_cannot_be_asked_for_is_tried_again() {
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.offer(1000, Input::Claim(Err(CallError::outage("connection refused"))));
    let again = |millis| operation.commands(millis).contains(&Command::Claim);
    assert!(!again(1000) && again(1200));
    assert!(explain(operation.0.state(), at(1100)).to_string().contains("connection refused"));
    let mut operation = Operation::begun(claiming(IfTaken::Refuse));
    operation.offer(1000, Input::Claim(Err(CallError::permanent("namespaces \"ops\" not found"))));
    let (phase, message) = operation.stands();
    assert_eq!(phase, OperationPhase::Error);
    assert_eq!(message, "failed to take the claim: namespaces \"ops\" not found");
}

/// What is known of the claim outlives a crash: it is part of the facts.
#[test]
fn a_recovered_operation_still_has_its_claim() {
    let mut driver = Driver::default();
    let begin = Input::Request {
        operation: id(),
        request: Box::new(claiming(IfTaken::Refuse)),
        targets: DIGEST,
        plan: None,
    };
    let mut facts = Vec::new();
    for (millis, input) in [(0, begin), (1, Input::Claim(Ok(held())))] {
        driver.offer(&input, Timestamp::from_millis(millis)).unwrap();
        facts.extend(driver.take_batch(at(millis), true).unwrap().facts);
        driver.persisted();
    }
    let recovered = Driver::recover(None, facts).unwrap();
    let header = recovered.state().header().unwrap();
    assert_eq!(
        header.held_claim().map(|(place, epoch)| (place.to_string(), epoch)),
        Some(("Lease shop/tidegate-shop".into(), 3))
    );
    assert_eq!(recovered.owed(at(2)).unwrap().commands, [Command::Claim, Command::Plan]);
}
