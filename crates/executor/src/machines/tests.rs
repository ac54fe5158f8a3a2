//! Panics of the log actor while machines are running. The machines continue from the log with the same
//! result.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_lifecycle::teardown::{
    Command, Details, End, Event, Input, MemberSpec, ObjectPresence, Options, Order, OrderedDeletion,
    Request, State,
};
use tidegate_model::{StreamId, Timestamp};
use tidegate_oplog::{Lookup, MemoryLog, Summary};
use uuid::Uuid;

use super::{MachineEffects, MachineSender, RunningMachine, SummaryOf};
use crate::clock::RuntimeClock;
use crate::engine::Engine;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Effects that query the machine's state on each notification, and count how often it matches or differs
/// from the notified state.
#[derive(Clone, Default)]
struct StateProbe {
    machine: Arc<OnceLock<RunningMachine<OrderedDeletion>>>,
    matching: Arc<AtomicUsize>,
    mismatching: Arc<AtomicUsize>,
}

impl StateProbe {
    fn query(&self, published: &State) {
        let Some(running) = self.machine.get() else { return };
        let found = running.state().now_or_never().unwrap().unwrap();
        let count = if found == *published { &self.matching } else { &self.mismatching };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Effects that let every deletion succeed immediately.
#[derive(Default)]
struct ImmediateDeletion(StateProbe);

impl MachineEffects for ImmediateDeletion {
    type Machine = OrderedDeletion;

    fn summary(state: &State) -> Option<SummaryOf<OrderedDeletion>> {
        let teardown = state.teardown()?;
        let ended_at = teardown.outcome.as_ref().map(|outcome| outcome.at);
        let details = Details::from_state(state)?;
        Some(Summary::of_appset(&teardown.set, teardown.started_at, ended_at, details))
    }

    fn execute(&mut self, _: &State, command: Command, _: Timestamp, post: MachineSender<OrderedDeletion>) {
        let about = command.subject();
        let (Command::Delete { member, uid }
        | Command::Read { member, uid }
        | Command::WatchMember { member, uid }) = command;
        let answering = post.clone();
        post.spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            answering.answer(about, Input::Answered { member, uid, presence: Ok(ObjectPresence::Gone) });
        });
    }

    fn start_subscription(
        &mut self,
        _: &State,
        _: &Command,
        _: Timestamp,
        _: MachineSender<OrderedDeletion>,
    ) {
    }

    fn end_subscription(&mut self, _: &State, _: &Command) {}

    fn publish_state(&mut self, state: &State) {
        self.0.query(state);
    }
}

fn start_input(set: &str) -> Option<Input> {
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
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    })))
}

/// Effects are notified of the end only once, so a caller that missed the notification would wait forever.
#[tokio::test(start_paused = true)]
async fn a_query_at_a_notification_returns_the_notified_state() {
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(MemoryLog::new())).clock(clock).start().await.unwrap();
    let asker = StateProbe::default();
    let effects = asker.clone();
    let started = engine.run_machine(StreamId(Uuid::from_u128(1)), start_input("argocd/s"), move || {
        ImmediateDeletion(effects.clone())
    });
    let running = started.await.unwrap();
    asker.machine.set(running.clone()).ok().unwrap();
    running.wait_until_over().await;
    let state = running.state().await.unwrap();
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    assert!(asker.matching.load(Ordering::Relaxed) > 0);
    assert_eq!(asker.mismatching.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn machines_survive_a_failure_of_the_log_actor() {
    let clock = Arc::new(RuntimeClock::starting_at(START));
    let engine = Engine::builder(Arc::new(MemoryLog::new())).clock(clock).start().await.unwrap();
    let mut running = Vec::new();
    for number in 1..=4 {
        let id = StreamId(Uuid::from_u128(number));
        let started = engine
            .run_machine(id, start_input(&format!("argocd/s{number}")), ImmediateDeletion::default)
            .await;
        running.push(started.unwrap());
    }
    // Four failures are fewer than the maximum.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(130)).await;
        engine.shared.log_actor.panic();
    }
    for machine in &running {
        machine.wait_until_over().await;
        let state = machine.state().await.unwrap();
        assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    }
    let open = engine.list_machines::<Event>(Lookup::open()).await.unwrap();
    assert!(open.is_empty(), "{open:?}");
    assert!(engine.failure().is_none());

    // After the log actor has failed for good, the machine ends with that failure as its reason.
    let started = engine
        .run_machine(StreamId(Uuid::from_u128(5)), start_input("argocd/last"), ImmediateDeletion::default)
        .await;
    let last = started.unwrap();
    while engine.failure().is_none() {
        engine.shared.log_actor.panic();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    last.wait_until_over().await;
    let error = last.state().await.unwrap_err().to_string();
    assert!(error.contains("the engine's log actor failed 6 times"), "{error}");
}
