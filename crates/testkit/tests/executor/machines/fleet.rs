//! Applications of an ApplicationSet for rollouts and teardowns. They outlive processes and record all
//! effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_executor::{Clock as _, MachineEffects, MachineSender, RuntimeClock, SummaryOf};
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{self, OperationReport, ProgressiveSync};
use tidegate_lifecycle::teardown::{self, ObjectPresence, OrderedDeletion};
use tidegate_model::{HealthStatus, OperationId, OperationPhase, Timestamp};
use tidegate_oplog::Summary;
use tokio::task::AbortHandle;
use uuid::Uuid;

use super::requests::target;

/// Duration of operations, gates and finalizers, and delay from an operation's end to the Application's
/// health.
const DURATION: Duration = Duration::from_secs(5);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
struct Operation {
    member: String,
    ends_at: Timestamp,
    fails: bool,
}

#[derive(Default)]
struct FleetState {
    /// Started operations, by ID.
    operations: BTreeMap<OperationId, Operation>,
    /// Number of assigned IDs.
    assigned_ids: u128,
    /// Members with a failing first operation.
    fails: BTreeSet<String>,
    /// Removal time of each Application that is being deleted.
    gone_at: BTreeMap<String, Timestamp>,
    /// Actions in order.
    actions: Vec<String>,
    /// Number of requested effects.
    calls: u64,
    /// Number of the call that panics, starting at 1.
    panicking_call: u64,
    /// Name of the effect that always panics.
    panicking_effect: &'static str,
    /// True if commands get no results.
    is_silent: bool,
    /// True if the fleet was notified of the rollout's end.
    has_end_notification: bool,
}

/// The Applications of an ApplicationSet.
#[derive(Clone, Default)]
pub struct Fleet(Arc<Mutex<FleetState>>);

impl Fleet {
    /// Creates a fleet with a failing first operation for each of these members.
    pub fn with_failing(members: &[&str]) -> Self {
        let fleet = Self::default();
        fleet.lock().fails = members.iter().map(|name| (*name).to_owned()).collect();
        fleet
    }

    /// Makes the effects panic at the given call, starting at 1.
    pub fn panic_at_call(&self, call: u64) {
        self.lock().panicking_call = call;
    }

    /// Makes an effect panic at every call.
    pub fn panic_always_at(&self, what: &'static str) {
        self.lock().panicking_effect = what;
    }

    /// Withholds the results of all commands, or delivers them again.
    pub fn set_silent(&self, is_silent: bool) {
        self.lock().is_silent = is_silent;
    }

    fn lock(&self) -> MutexGuard<'_, FleetState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the actions in order.
    pub fn actions(&self) -> Vec<String> {
        self.lock().actions.clone()
    }

    /// Returns true if the fleet was notified of the rollout's end.
    pub fn has_end_notification(&self) -> bool {
        self.lock().has_end_notification
    }

    /// Returns the started operations.
    pub fn started_operations(&self) -> BTreeSet<OperationId> {
        self.lock().operations.keys().copied().collect()
    }

    /// Returns the number of requested effects.
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    fn record_call(&self, what: &str) {
        let (number, panics) = {
            let mut known = self.lock();
            known.calls += 1;
            (known.calls, known.panicking_effect == what || known.calls == known.panicking_call)
        };
        assert!(!panics, "injected into call {number}, {what}");
    }

    /// Waits until commands get results again.
    async fn wait_until_responsive(&self) {
        while self.lock().is_silent {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn assign_id(&self) -> OperationId {
        let mut known = self.lock();
        known.assigned_ids += 1;
        OperationId(Uuid::from_u128(known.assigned_ids))
    }

    /// Ensures that an operation with this ID exists. Returns the operation with its future result and end
    /// time.
    fn ensure(&self, id: OperationId, member: &str, now: Timestamp) -> Operation {
        let mut known = self.lock();
        if !known.operations.contains_key(&id) {
            let fails = known.fails.remove(member);
            known.actions.push(format!("sync {member}"));
            let operation = Operation { member: member.to_owned(), ends_at: now + DURATION, fails };
            known.operations.insert(id, operation);
        }
        known.operations[&id].clone()
    }

    fn observe(&self, member: &str, now: Timestamp) -> rollout::MemberObservation {
        let known = self.lock();
        let over = |one: &Operation| one.member == member && !one.fails && one.ends_at <= now;
        let newest = known.operations.iter().rev().find(|(_, one)| over(one));
        let is_well = newest.is_some_and(|(_, one)| one.ends_at + DURATION <= now);
        rollout::MemberObservation {
            operation: newest.map(|(id, _)| *id),
            deployed: newest.map(|_| target("new")),
            synced: newest.is_some(),
            health: if is_well { HealthStatus::Healthy } else { HealthStatus::Progressing },
            message: String::new(),
        }
    }

    fn delete(&self, member: &str, now: Timestamp) -> ObjectPresence {
        let mut known = self.lock();
        if !known.gone_at.contains_key(member) {
            known.actions.push(format!("delete {member}"));
            known.gone_at.insert(member.to_owned(), now + DURATION);
        }
        drop(known);
        self.find(member, now)
    }

    fn find(&self, member: &str, now: Timestamp) -> ObjectPresence {
        let is_gone = self.lock().gone_at.get(member).is_some_and(|at| *at <= now);
        if is_gone { ObjectPresence::Gone } else { ObjectPresence::Exists }
    }
}

/// Effects of a rollout.
pub struct FakeRolloutEffects {
    pub fleet: Fleet,
    subscriptions: BTreeMap<rollout::Subject, AbortHandle>,
}

impl FakeRolloutEffects {
    pub fn for_fleet(fleet: &Fleet) -> Self {
        Self { fleet: fleet.clone(), subscriptions: BTreeMap::new() }
    }
}

impl MachineEffects for FakeRolloutEffects {
    type Machine = ProgressiveSync;

    fn summary(state: &rollout::State) -> Option<SummaryOf<ProgressiveSync>> {
        let rollout = state.rollout()?;
        let ended_at = rollout.outcome.as_ref().map(|outcome| outcome.at);
        let details = rollout::Details::from_state(state)?;
        Some(Summary::of_appset(&rollout.set, rollout.started_at, ended_at, details))
    }

    fn resume_input() -> Option<rollout::Input> {
        Some(rollout::Input::Recovered)
    }

    fn execute(
        &mut self,
        _: &rollout::State,
        command: rollout::Command,
        _: Timestamp,
        post: MachineSender<ProgressiveSync>,
    ) {
        self.fleet.record_call("carry_out");
        let (fleet, about) = (self.fleet.clone(), command.subject());
        let answering = post.clone();
        post.spawn(async move {
            fleet.record_call("answer");
            fleet.wait_until_responsive().await;
            let input = match command {
                rollout::Command::ChooseId { member } => {
                    rollout::Input::IdChosen { member, operation: Ok(fleet.assign_id()) }
                }
                rollout::Command::Stop { member, operation } => {
                    rollout::Input::Stopped { member, operation, result: Ok(()) }
                }
                standing => panic!("{standing:?} is still subscribed"),
            };
            answering.answer(about, input);
        });
    }

    fn start_subscription(
        &mut self,
        _: &rollout::State,
        standing: &rollout::Command,
        now: Timestamp,
        post: MachineSender<ProgressiveSync>,
    ) {
        self.fleet.record_call("begin");
        let (fleet, inbox, clock) = (self.fleet.clone(), post.clone(), RuntimeClock::starting_at(now));
        let kept = match standing.clone() {
            rollout::Command::Run { member, operation, .. } => post.spawn(async move {
                let run = fleet.ensure(operation, &member, now);
                let tell = |report| {
                    inbox.send_input(rollout::Input::OperationReported {
                        member: member.clone(),
                        operation,
                        report,
                    });
                };
                tell(OperationReport::Started);
                tokio::time::sleep(run.ends_at.since(now)).await;
                let phase = if run.fails { OperationPhase::Failed } else { OperationPhase::Succeeded };
                tell(OperationReport::Ended { phase, message: "over".into() });
            }),
            rollout::Command::WatchMember { member } => post.spawn(async move {
                loop {
                    let observation = fleet.observe(&member, clock.now());
                    inbox.send_input(rollout::Input::Observed { member: member.clone(), observation });
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }),
            rollout::Command::AskGate { step, gate } => post.spawn(async move {
                let say = |verdict| {
                    inbox.send_input(rollout::Input::Gate { step, gate: gate.clone(), verdict });
                };
                say(Verdict::closed("the approver is asleep"));
                tokio::time::sleep(DURATION).await;
                say(Verdict::Open);
            }),
            answered => panic!("{answered:?} has a response"),
        };
        self.subscriptions.insert(standing.subject(), kept);
    }

    fn end_subscription(&mut self, _: &rollout::State, standing: &rollout::Command) {
        self.fleet.record_call("end");
        self.subscriptions.remove(&standing.subject()).unwrap().abort();
    }

    fn publish_state(&mut self, state: &rollout::State) {
        self.fleet.record_call("announce");
        self.fleet.lock().has_end_notification |= state.is_finished();
    }
}

/// Effects of a teardown.
pub struct FakeTeardownEffects {
    pub fleet: Fleet,
    subscriptions: BTreeMap<teardown::Subject, AbortHandle>,
}

impl FakeTeardownEffects {
    pub fn for_fleet(fleet: &Fleet) -> Self {
        Self { fleet: fleet.clone(), subscriptions: BTreeMap::new() }
    }
}

impl MachineEffects for FakeTeardownEffects {
    type Machine = OrderedDeletion;

    fn summary(state: &teardown::State) -> Option<SummaryOf<OrderedDeletion>> {
        let teardown = state.teardown()?;
        let ended_at = teardown.outcome.as_ref().map(|outcome| outcome.at);
        let details = teardown::Details::from_state(state)?;
        Some(Summary::of_appset(&teardown.set, teardown.started_at, ended_at, details))
    }

    fn execute(
        &mut self,
        _: &teardown::State,
        command: teardown::Command,
        now: Timestamp,
        post: MachineSender<OrderedDeletion>,
    ) {
        self.fleet.record_call("carry_out");
        let (fleet, about) = (self.fleet.clone(), command.subject());
        let answering = post.clone();
        post.spawn(async move {
            fleet.record_call("answer");
            fleet.wait_until_responsive().await;
            let (member, uid, found) = match command {
                teardown::Command::Delete { member, uid } => {
                    let found = fleet.delete(&member, now);
                    (member, uid, found)
                }
                teardown::Command::Read { member, uid } | teardown::Command::WatchMember { member, uid } => {
                    let found = fleet.find(&member, now);
                    (member, uid, found)
                }
            };
            answering.answer(about, teardown::Input::Answered { member, uid, presence: Ok(found) });
        });
    }

    fn start_subscription(
        &mut self,
        _: &teardown::State,
        standing: &teardown::Command,
        now: Timestamp,
        post: MachineSender<OrderedDeletion>,
    ) {
        self.fleet.record_call("begin");
        let teardown::Command::WatchMember { member, uid } = standing.clone() else { panic!("{standing:?}") };
        let (fleet, inbox, clock) = (self.fleet.clone(), post.clone(), RuntimeClock::starting_at(now));
        let watch = post.spawn(async move {
            loop {
                let observation = match fleet.find(&member, clock.now()) {
                    ObjectPresence::Exists => teardown::MemberObservation::Exists { kept_by: String::new() },
                    ObjectPresence::Gone => teardown::MemberObservation::Gone,
                };
                let (member, uid) = (member.clone(), uid.clone());
                inbox.send_input(teardown::Input::Observed { member, uid, observation });
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        self.subscriptions.insert(standing.subject(), watch);
    }

    fn end_subscription(&mut self, _: &teardown::State, standing: &teardown::Command) {
        self.fleet.record_call("end");
        self.subscriptions.remove(&standing.subject()).unwrap().abort();
    }

    fn publish_state(&mut self, _: &teardown::State) {
        self.fleet.record_call("announce");
    }
}
