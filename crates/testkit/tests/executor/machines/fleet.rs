//! Applications of a set, as rollouts and teardowns meet them. They outlive processes, and are the witness of what was done to
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_executor::{Clock as _, Post, RuntimeClock, SummaryOf, Work};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{self, ChildNews, Progressive};
use tidegate_lifecycle::teardown::{self, Found, OrderedDeletion};
use tidegate_model::{HealthStatus, OperationId, OperationPhase, Timestamp};
use tidegate_oplog::Summary;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::requests::target;

/// How long an operation takes, an Application to become healthy after it, a gate to open, and a finalizer.
const TAKES: Duration = Duration::from_secs(5);
/// How often those who watch look.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct Operation {
    member: String,
    ends_at: Timestamp,
    fails: bool,
}

#[derive(Default)]
struct Known {
    /// The operations that were begun, by their ids.
    operations: BTreeMap<OperationId, Operation>,
    /// So many ids were given out.
    chosen: u128,
    /// Members whose first operation fails.
    fails: BTreeSet<String>,
    /// When the Applications that are being deleted will be gone.
    gone_at: BTreeMap<String, Timestamp>,
    /// What was done, in order.
    deeds: Vec<String>,
    /// So often something was asked of the hands.
    calls: u64,
    /// The call that panics, from 1.
    panics_at: u64,
    /// What always panics.
    panics: &'static str,
    /// Nothing is answered.
    is_silent: bool,
    /// It was told that the rollout is over.
    is_told_the_end: bool,
}

/// The Applications of a set.
#[derive(Clone, Default)]
pub struct Fleet(Arc<Mutex<Known>>);

impl Fleet {
    /// One where the first operations of some members fail.
    pub fn where_fails(members: &[&str]) -> Self {
        let fleet = Self::default();
        fleet.lock().fails = members.iter().map(|name| (*name).to_owned()).collect();
        fleet
    }

    /// The hands panic at this call, from 1.
    pub fn panics_at(&self, call: u64) {
        self.lock().panics_at = call;
    }

    /// This panics from now on, whenever it is called.
    pub fn always_panics(&self, what: &'static str) {
        self.lock().panics = what;
    }

    /// No command is answered from now on, or all are again.
    pub fn is_silent(&self, is_silent: bool) {
        self.lock().is_silent = is_silent;
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was done, in order.
    pub fn deeds(&self) -> Vec<String> {
        self.lock().deeds.clone()
    }

    /// Whether it was told that the rollout is over.
    pub fn is_told_the_end(&self) -> bool {
        self.lock().is_told_the_end
    }

    /// The operations that were begun.
    pub fn begun(&self) -> BTreeSet<OperationId> {
        self.lock().operations.keys().copied().collect()
    }

    /// How often something was asked of the hands.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    fn call(&self, what: &str) {
        let (number, panics) = {
            let mut known = self.lock();
            known.calls += 1;
            (known.calls, known.panics == what || known.calls == known.panics_at)
        };
        assert!(!panics, "injected into call {number}, {what}");
    }

    /// Returns when commands are answered.
    async fn awake(&self) {
        while self.lock().is_silent {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn choose(&self) -> OperationId {
        let mut known = self.lock();
        known.chosen += 1;
        OperationId(Uuid::from_u128(known.chosen))
    }

    /// An operation with this id exists; how it is going to end, and when.
    fn ensure(&self, id: OperationId, member: &str, now: Timestamp) -> Operation {
        let mut known = self.lock();
        if !known.operations.contains_key(&id) {
            let fails = known.fails.remove(member);
            known.deeds.push(format!("sync {member}"));
            let operation = Operation { member: member.to_owned(), ends_at: now + TAKES, fails };
            known.operations.insert(id, operation);
        }
        known.operations[&id].clone()
    }

    fn sight(&self, member: &str, now: Timestamp) -> rollout::Sight {
        let known = self.lock();
        let over = |one: &Operation| one.member == member && !one.fails && one.ends_at <= now;
        let newest = known.operations.iter().rev().find(|(_, one)| over(one));
        let is_well = newest.is_some_and(|(_, one)| one.ends_at + TAKES <= now);
        rollout::Sight {
            operation: newest.map(|(id, _)| *id),
            deployed: newest.map(|_| target("new")),
            synced: newest.is_some(),
            health: if is_well { HealthStatus::Healthy } else { HealthStatus::Progressing },
            message: String::new(),
        }
    }

    fn delete(&self, member: &str, now: Timestamp) -> Found {
        let mut known = self.lock();
        if !known.gone_at.contains_key(member) {
            known.deeds.push(format!("delete {member}"));
            known.gone_at.insert(member.to_owned(), now + TAKES);
        }
        drop(known);
        self.find(member, now)
    }

    fn find(&self, member: &str, now: Timestamp) -> Found {
        let is_gone = self.lock().gone_at.get(member).is_some_and(|at| *at <= now);
        if is_gone { Found::Gone } else { Found::There }
    }
}

/// The hands of a rollout.
pub struct Rolling {
    pub fleet: Fleet,
    kept: BTreeMap<rollout::Subject, AbortHandle>,
}

impl Rolling {
    pub fn of(fleet: &Fleet) -> Self {
        Self { fleet: fleet.clone(), kept: BTreeMap::new() }
    }
}

impl Work for Rolling {
    type Machine = Progressive;

    fn summary(state: &rollout::State) -> Option<SummaryOf<Progressive>> {
        let rollout = state.rollout()?;
        Some(Summary {
            application: None,
            set: Some(rollout.set.clone()),
            started_at: rollout.started_at,
            finished_at: rollout.outcome.as_ref().map(|outcome| outcome.at),
            details: rollout::Details::of(state)?,
        })
    }

    fn resumed() -> Option<rollout::Input> {
        Some(rollout::Input::Recovered)
    }

    fn carry_out(
        &mut self,
        _: &rollout::State,
        command: rollout::Command,
        _: Timestamp,
        post: Post<Progressive>,
    ) {
        self.fleet.call("carry_out");
        let (fleet, about) = (self.fleet.clone(), command.subject());
        let answering = post.clone();
        post.spawn(async move {
            fleet.call("answer");
            fleet.awake().await;
            let input = match command {
                rollout::Command::Choose { member } => {
                    rollout::Input::Chosen { member, operation: Ok(fleet.choose()) }
                }
                rollout::Command::Stop { member, operation } => {
                    rollout::Input::Stopped { member, operation, result: Ok(()) }
                }
                standing => panic!("{standing:?} is kept up"),
            };
            answering.answer(about, input);
        });
    }

    fn begin(
        &mut self,
        _: &rollout::State,
        standing: &rollout::Command,
        now: Timestamp,
        post: Post<Progressive>,
    ) {
        self.fleet.call("begin");
        let (fleet, telling, clock) = (self.fleet.clone(), post.clone(), RuntimeClock::starting_at(now));
        let kept = match standing.clone() {
            rollout::Command::Run { member, operation, .. } => post.spawn(async move {
                let run = fleet.ensure(operation, &member, now);
                let tell = |news| {
                    telling.tell(rollout::Input::Child { member: member.clone(), operation, news });
                };
                tell(ChildNews::Begun);
                tokio::time::sleep(run.ends_at.since(now)).await;
                let phase = if run.fails { OperationPhase::Failed } else { OperationPhase::Succeeded };
                tell(ChildNews::Ended { phase, message: "over".into() });
            }),
            rollout::Command::Watch { member } => post.spawn(async move {
                loop {
                    let sight = fleet.sight(&member, clock.now());
                    telling.tell(rollout::Input::Sighted { member: member.clone(), sight });
                    tokio::time::sleep(LOOK).await;
                }
            }),
            rollout::Command::AskGate { step, gate } => post.spawn(async move {
                let say = |verdict| {
                    telling.tell(rollout::Input::Gate { step, gate: gate.clone(), verdict });
                };
                say(Verdict::closed("somebody is asleep"));
                tokio::time::sleep(TAKES).await;
                say(Verdict::Open);
            }),
            answered => panic!("{answered:?} is answered"),
        };
        self.kept.insert(standing.subject(), kept);
    }

    fn end(&mut self, _: &rollout::State, standing: &rollout::Command) {
        self.fleet.call("end");
        self.kept.remove(&standing.subject()).unwrap().abort();
    }

    fn announce(&mut self, state: &rollout::State) {
        self.fleet.call("announce");
        self.fleet.lock().is_told_the_end |= state.is_finished();
    }
}

/// The hands of a teardown.
pub struct Tearing {
    pub fleet: Fleet,
    kept: BTreeMap<teardown::Subject, AbortHandle>,
}

impl Tearing {
    pub fn of(fleet: &Fleet) -> Self {
        Self { fleet: fleet.clone(), kept: BTreeMap::new() }
    }
}

impl Work for Tearing {
    type Machine = OrderedDeletion;

    fn summary(state: &teardown::State) -> Option<SummaryOf<OrderedDeletion>> {
        let teardown = state.teardown()?;
        Some(Summary {
            application: None,
            set: Some(teardown.set.clone()),
            started_at: teardown.started_at,
            finished_at: teardown.outcome.as_ref().map(|outcome| outcome.at),
            details: teardown::Details::of(state)?,
        })
    }

    fn carry_out(
        &mut self,
        _: &teardown::State,
        command: teardown::Command,
        now: Timestamp,
        post: Post<OrderedDeletion>,
    ) {
        self.fleet.call("carry_out");
        let (fleet, about) = (self.fleet.clone(), command.subject());
        let answering = post.clone();
        post.spawn(async move {
            fleet.call("answer");
            fleet.awake().await;
            let (member, uid, found) = match command {
                teardown::Command::Delete { member, uid } => {
                    let found = fleet.delete(&member, now);
                    (member, uid, found)
                }
                teardown::Command::Look { member, uid } | teardown::Command::Watch { member, uid } => {
                    let found = fleet.find(&member, now);
                    (member, uid, found)
                }
            };
            answering.answer(about, teardown::Input::Answered { member, uid, found: Ok(found) });
        });
    }

    fn begin(
        &mut self,
        _: &teardown::State,
        standing: &teardown::Command,
        now: Timestamp,
        post: Post<OrderedDeletion>,
    ) {
        self.fleet.call("begin");
        let teardown::Command::Watch { member, uid } = standing.clone() else { panic!("{standing:?}") };
        let (fleet, telling, clock) = (self.fleet.clone(), post.clone(), RuntimeClock::starting_at(now));
        let watch = post.spawn(async move {
            loop {
                let sight = match fleet.find(&member, clock.now()) {
                    Found::There => teardown::Sight::There { kept_by: String::new() },
                    Found::Gone => teardown::Sight::Gone,
                };
                let (member, uid) = (member.clone(), uid.clone());
                telling.tell(teardown::Input::Sighted { member, uid, sight });
                tokio::time::sleep(LOOK).await;
            }
        });
        self.kept.insert(standing.subject(), watch);
    }

    fn end(&mut self, _: &teardown::State, standing: &teardown::Command) {
        self.fleet.call("end");
        self.kept.remove(&standing.subject()).unwrap().abort();
    }

    fn announce(&mut self, _: &teardown::State) {
        self.fleet.call("announce");
    }
}
