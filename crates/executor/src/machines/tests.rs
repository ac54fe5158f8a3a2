//! The log's actor panics while machines are at work: they go on from the log, and are over as if nothing had been.
#![allow(clippy::unwrap_used, reason = "test code: a broken assumption must stop the test at once")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_lifecycle::teardown::{
    Command, Details, End, Fact, Found, Input, MemberSpec, Options, Order, OrderedDeletion, Request, State,
};
use tidegate_model::{StreamId, Timestamp};
use tidegate_oplog::{Lookup, MemoryLog, Summary};
use uuid::Uuid;

use super::{Post, Running, SummaryOf, Work};
use crate::clock::RuntimeClock;
use crate::engine::Engine;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Who is told how it stands asks at once; how often that is found so, and how often not, is counted.
#[derive(Clone, Default)]
struct Asker {
    asked: Arc<OnceLock<Running<OrderedDeletion>>>,
    found: Arc<AtomicUsize>,
    missed: Arc<AtomicUsize>,
}

impl Asker {
    fn ask(&self, told: &State) {
        let Some(running) = self.asked.get() else { return };
        let found = running.state().now_or_never().unwrap().unwrap();
        let count = if found == *told { &self.found } else { &self.missed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everything is gone when it is deleted.
#[derive(Default)]
struct Gone(Asker);

impl Work for Gone {
    type Machine = OrderedDeletion;

    fn summary(state: &State) -> Option<SummaryOf<OrderedDeletion>> {
        let teardown = state.teardown()?;
        Some(Summary {
            application: None,
            set: Some(teardown.set.clone()),
            started_at: teardown.started_at,
            finished_at: teardown.outcome.as_ref().map(|outcome| outcome.at),
            details: Details::of(state)?,
        })
    }

    fn carry_out(&mut self, _: &State, command: Command, _: Timestamp, post: Post<OrderedDeletion>) {
        let about = command.subject();
        let (Command::Delete { member, uid }
        | Command::Look { member, uid }
        | Command::Watch { member, uid }) = command;
        let answering = post.clone();
        post.spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            answering.answer(about, Input::Answered { member, uid, found: Ok(Found::Gone) });
        });
    }

    fn begin(&mut self, _: &State, _: &Command, _: Timestamp, _: Post<OrderedDeletion>) {}

    fn end(&mut self, _: &State, _: &Command) {}

    fn announce(&mut self, state: &State) {
        self.0.ask(state);
    }
}

fn begin(set: &str) -> Option<Input> {
    let member = |number: u32| MemberSpec {
        name: format!("m{number}"),
        uid: format!("uid-{number}"),
        labels: Default::default(),
    };
    Some(Input::Begin(Box::new(Request {
        set: set.to_owned(),
        uid: "uid".to_owned(),
        by: "test".to_owned(),
        order: Order::reverse(Vec::new()),
        members: (0..30).map(member).collect(),
        options: Options::default(),
        kept: std::collections::BTreeMap::new(),
        approved: None,
    })))
}

/// What is missed here is missed for ever: nobody tells of the end of a machine again.
#[tokio::test(start_paused = true)]
async fn who_is_told_of_a_state_and_asks_at_once_finds_it() {
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(MemoryLog::new())).clock(clock).start().await.unwrap();
    let asker = Asker::default();
    let hands = asker.clone();
    let begun =
        engine.run_machine(StreamId(Uuid::from_u128(1)), begin("argocd/s"), move || Gone(hands.clone()));
    let running = begun.await.unwrap();
    asker.asked.set(running.clone()).ok().unwrap();
    running.over().await;
    let state = running.state().await.unwrap();
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert!(asker.found.load(Ordering::Relaxed) > 0);
    assert_eq!(asker.missed.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn machines_survive_the_log_actor() {
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(MemoryLog::new())).clock(clock).start().await.unwrap();
    let mut running = Vec::new();
    for number in 1..=4 {
        let id = StreamId(Uuid::from_u128(number));
        let begun = engine.run_machine(id, begin(&format!("argocd/s{number}")), Gone::default).await;
        running.push(begun.unwrap());
    }
    // Fewer than it may have.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(130)).await;
        engine.shared.log_actor.panic();
    }
    for machine in &running {
        machine.over().await;
        let state = machine.state().await.unwrap();
        assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    }
    let open = engine.machines::<Fact>(Lookup::open()).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
    assert!(engine.failure().is_none());

    // One that has lost its log actor for good ends with the reason.
    let begun = engine.run_machine(StreamId(Uuid::from_u128(5)), begin("argocd/last"), Gone::default).await;
    let last = begun.unwrap();
    while engine.failure().is_none() {
        engine.shared.log_actor.panic();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    last.over().await;
    let error = last.state().await.unwrap_err().to_string();
    assert!(error.contains("the engine's log actor failed 6 times"), "{error}");
}
