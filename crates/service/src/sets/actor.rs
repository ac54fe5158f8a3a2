//! One ApplicationSet: its resource, and what is under way for it.
//!
//! A look at it ([`pass`](super::pass)) runs beside the actor, which answers meanwhile; what it has found comes back as a
//! message. What takes long is a machine of the engine: a rollout, or a teardown. The actor begins it, tells it what the set
//! has become, and shows how it stands.

mod calling;
mod deleting;
mod explaining;
mod milestones;
mod removing;
mod rolling;
mod telling;
mod wishing;
mod witnessing;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_applicationset::changes::{Generated, Wrong};
use tidegate_applicationset::requeue::{Ended, again_after};
use tidegate_applicationset::retry::Retry;
use tidegate_applicationset::rollout::NotAsked;
use tidegate_applicationset::status::{Failure, Reason};
use tidegate_applicationset::wake::{self, REFRESH_ANNOTATION, Wake};
use tidegate_executor::{Clock as _, EngineError, MachineError, Running, SystemClock};
use tidegate_lifecycle::Machine;
use tidegate_lifecycle::teardown::Order;
use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_planner::IgnoreError;
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use self::calling::Others;
use self::deleting::Teardowns;
use self::rolling::Rollouts;
use super::messages::{SetMessage, SetSupervisorMessage};
use super::pass::{Look, Passed, pass};
use super::shared::SetShared;
use super::standing::Standings;
use super::store::StoredSet;
use super::{key_of, members, wrote};
use crate::applications::store::AppKey;

/// While its Applications go on changing, it is looked at so many times the length of the last look after that, no sooner and
/// no later than this: a look may wait for others for minutes.
const REST: u32 = 4;
const REST_MIN: Duration = Duration::from_millis(500);
const REST_MAX: Duration = Duration::from_secs(10);
/// When it is looked at again, if nobody tells of what was written.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// So long it may not be known what the Applications of a progressive sync are to be brought to.
const RESOLVED_WITHIN: Duration = Duration::from_secs(30);
/// How long until something is tried again that the store did not allow.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How it stands is made out no more often than this.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// What others read is written no more often than this.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// And, for each of its Applications, no more often than this; up to a longest pause.
const WRITE_EACH: Duration = Duration::from_millis(10);
const WRITE_EVERY_MAX: Duration = Duration::from_secs(10);

/// A message to come, which does not when this is dropped: or each would be followed by one more.
struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why a machine could not be begun.
#[derive(Debug, thiserror::Error)]
enum Unbegun {
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("spec.ignoreApplicationDifferences: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Ignore(Vec<IgnoreError>),
}

pub(crate) struct ApplicationSetActor;

/// What the actor needs.
pub(crate) struct SetArguments {
    pub shared: Arc<SetShared>,
    pub stored: Box<StoredSet>,
    pub supervisor: ActorRef<SetSupervisorMessage>,
}

pub(crate) struct SetState {
    shared: Arc<SetShared>,
    /// Passes on what machines tell: they may outlive this actor.
    supervisor: ActorRef<SetSupervisorMessage>,
    key: AppKey,
    set: ApplicationSet,
    /// Why what is written down cannot be used.
    problem: Option<String>,
    /// As it was written down last, and when.
    kept: Option<ApplicationSet>,
    kept_at: Timestamp,
    /// When it was made out last how it stands.
    told_at: Timestamp,
    /// What it generates, as far as its generators have not failed; nothing before that is known, and where all have.
    generated: Option<Arc<Generated>>,
    /// Names that were refused when all was known that it generates, and why.
    known_refused: Arc<BTreeMap<String, String>>,
    /// What went wrong with the last look.
    failure: Option<Failure>,
    /// What the last look has found wrong with the set itself.
    wrong: Vec<Wrong>,
    /// Applications that are refused, and why.
    refused: BTreeMap<String, String>,
    /// Applications that are not as they are generated, and stay so, and why.
    left_alone: BTreeMap<String, String>,
    /// Its Applications, as they were when the last change of one was told.
    members: BTreeMap<String, Arc<Application>>,
    /// It is gone, or about to go: nobody is told of it any more.
    is_released: bool,
    /// What is to be looked at next.
    wake: Wake,
    /// The next look asks repositories for what is new.
    is_fresh: bool,
    /// The look that is under way, and whether it generates.
    looking: Option<(AbortHandle, bool)>,
    /// Before this, changes of its Applications are no reason for another look.
    rests_until: Timestamp,
    /// When it is generated again by itself.
    generate_at: Option<Timestamp>,
    /// Since when it is not known what a progressive sync would be about.
    unresolved_since: Option<Timestamp>,
    /// When it is looked at again, because nobody has told of what was written.
    told_by: Option<Timestamp>,
    rollouts: Rollouts,
    /// What was found out of its Applications for a rollout.
    standings: Arc<Mutex<Standings>>,
    teardowns: Teardowns,
    others: Others,
    /// A person wants what has ended to be begun again: the set says so until it was.
    asked: Option<Retry>,
    /// When what is at work for it is looked up in the log again, because a machine of it could not go on.
    recall_at: Option<Timestamp>,
    alarm: Option<(Timestamp, Alarm)>,
    /// All that is under way; it ends with the actor.
    tasks: JoinSet<()>,
    /// The Events of the cluster that are being written.
    events: JoinSet<()>,
}

impl Actor for ApplicationSetActor {
    type Msg = SetMessage;
    type State = SetState;
    type Arguments = SetArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<SetMessage>,
        arguments: SetArguments,
    ) -> Result<SetState, ActorProcessingErr> {
        let SetArguments { shared, stored, supervisor } = arguments;
        let StoredSet { set, problem, lost } = *stored;
        let key = key_of(&set);
        if let Some(lost) = lost {
            tracing::warn!(set = %key, lost, "the status of an ApplicationSet is made again");
        }
        let mut state = SetState {
            shared,
            supervisor,
            key,
            set,
            problem,
            kept: None,
            kept_at: Timestamp::default(),
            told_at: Timestamp::default(),
            unresolved_since: None,
            generated: None,
            known_refused: Arc::default(),
            failure: None,
            wrong: Vec::new(),
            refused: BTreeMap::new(),
            left_alone: BTreeMap::new(),
            members: BTreeMap::new(),
            is_released: false,
            wake: Wake::Reconcile,
            is_fresh: true,
            looking: None,
            rests_until: Timestamp::default(),
            generate_at: None,
            told_by: None,
            rollouts: Rollouts::default(),
            standings: Arc::default(),
            teardowns: Teardowns::default(),
            others: Others::default(),
            asked: None,
            recall_at: None,
            alarm: None,
            tasks: JoinSet::new(),
            events: JoinSet::new(),
        };
        state.members = members::of(&state.shared, &state.set, None);
        state.recall_rollout().await?;
        state.recall_teardown().await?;
        state.recall_retry();
        state.tell_rollout(true);
        state.tell_teardown(true);
        state.step(&myself).await;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SetMessage>,
        message: SetMessage,
        state: &mut SetState,
    ) -> Result<(), ActorProcessingErr> {
        while state.tasks.try_join_next().is_some() || state.events.try_join_next().is_some() {}
        match message {
            SetMessage::Changed(stored) => state.changed(*stored),
            SetMessage::Member(key) => state.member(&key),
            SetMessage::Looked(look, passed) => state.looked(look, *passed).await,
            SetMessage::RolloutMoved => state.rollout_moved().await,
            SetMessage::TeardownMoved => state.teardown_moved().await,
            SetMessage::Moved => {
                (state.wake, state.is_fresh) = (Wake::Reconcile, true);
            }
            SetMessage::Others { uids, is_going } => state.others(&myself, uids, is_going),
            SetMessage::Wake => state.alarm = None,
            SetMessage::Refresh { reply } => {
                (state.wake, state.is_fresh) = (Wake::Reconcile, true);
                state.rests_until = Timestamp::default();
                drop(reply.send(Ok(())));
            }
            SetMessage::Wish { wish, run, by, why, reply } => {
                drop(reply.send(state.wish(wish, run, by, why).await));
            }
            SetMessage::Explain { reply } => drop(reply.send(state.explained().await)),
            SetMessage::Delete { orphan, by, reason, reply } => {
                drop(reply.send(state.remove(orphan, &by, &reason).await));
            }
            SetMessage::Gone { reply } => {
                state.gone().await;
                state.told().await;
                drop(reply.send(()));
                return Ok(());
            }
        }
        state.step(&myself).await;
        Ok(())
    }
}

impl SetState {
    /// What a machine calls when it has moved.
    fn teller(&self, message: fn() -> SetMessage) -> impl Fn() + Send + Sync + Clone + 'static {
        let (supervisor, key) = (self.supervisor.clone(), self.key.clone());
        move || drop(supervisor.send_message(SetSupervisorMessage::To(key.clone(), message())))
    }

    /// A machine tells nothing of an end that is not its own.
    fn hear_the_end<M: Machine>(&self, running: Running<M>, message: fn() -> SetMessage) {
        let tell = self.teller(message);
        tokio::spawn(async move {
            running.over().await;
            tell();
        });
    }

    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn is_deleting(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// It is written down in another way.
    fn changed(&mut self, stored: StoredSet) {
        let StoredSet { set, problem, .. } = stored;
        let woken = wake::of_set(Some(&self.set), Some(&set));
        if woken == Wake::Reconcile || problem != self.problem {
            // What was begun is about something else.
            self.give_up_look();
            (self.wake, self.is_fresh) = (Wake::Reconcile, true);
            self.rests_until = Timestamp::default();
            // Whoever has changed it may look right after that.
            self.told_at = Timestamp::default();
        }
        // One that was made again under its name has nothing of what was known.
        let is_same = set.metadata.uid == self.set.metadata.uid;
        let status = if is_same { std::mem::take(&mut self.set.status) } else { set.status.clone() };
        self.set = ApplicationSet { status, ..set };
        self.problem = problem;
    }

    /// The look that is under way is given up, if there is one; it is made again.
    fn give_up_look(&mut self) {
        if let Some((looking, generates)) = self.looking.take() {
            looking.abort();
            self.wake = self.wake.max(if generates { Wake::Reconcile } else { Wake::Status });
        }
    }

    /// An Application of its namespace has changed, or is gone.
    fn member(&mut self, key: &AppKey) {
        let now = self.shared.applications.board.get(key);
        let before = match &now {
            Some(now) => self.members.insert(key.name.clone(), Arc::clone(now)),
            None => self.members.remove(&key.name),
        };
        if before.is_none() && now.is_none() && !self.refused.contains_key(&key.name) {
            // Another set's, that is gone.
            return;
        }
        let woken = wake::of_application(before.as_deref(), now.as_deref());
        self.wake = self.wake.max(woken);
    }

    /// Everything that is due.
    async fn step(&mut self, myself: &ActorRef<SetMessage>) {
        let is_recalled = self.recall_lost(myself).await;
        match self.is_deleting() {
            false => self.look(myself),
            true if is_recalled => self.delete(myself).await,
            // What is at work for it is not known.
            true => {}
        }
        self.call(myself);
        self.warn();
        self.tell(myself).await;
    }

    /// What is at work for it is looked up in the log again, after a while.
    fn recall_later(&mut self) {
        self.recall_at = Some(self.now() + AGAIN_AFTER);
    }

    /// What could not be begun may be in the log all the same.
    fn doubt(&mut self, error: &Unbegun) {
        if matches!(error, Unbegun::Machine(_)) {
            self.recall_later();
        }
    }

    /// Looks up in the log what is at work for it, where that is due because a machine could not go on. Whether it is known.
    async fn recall_lost(&mut self, myself: &ActorRef<SetMessage>) -> bool {
        let (now, Some(at)) = (self.now(), self.recall_at) else { return true };
        if now < at {
            self.set_alarm(myself, at);
            return false;
        }
        self.recall_at = None;
        let recalled = match self.recall_rollout().await {
            Ok(()) => self.recall_teardown().await,
            failed => failed,
        };
        if let Err(error) = recalled {
            let message = format!("what is at work for it is not known: {error}");
            self.failure = Some(wrote(Reason::SyncApplicationError, &message));
            self.recall_later();
            self.set_alarm(myself, now + AGAIN_AFTER);
            return false;
        }
        self.tell_rollout(false);
        self.tell_teardown(false);
        self.wake = self.wake.max(Wake::Status);
        true
    }

    /// Begins a look, if one is due.
    fn look(&mut self, myself: &ActorRef<SetMessage>) {
        if self.looking.is_some() || self.problem.is_some() {
            return;
        }
        let now = self.now();
        if self.generate_at.is_some_and(|at| at <= now) {
            (self.generate_at, self.wake, self.is_fresh) = (None, Wake::Reconcile, true);
            self.rests_until = Timestamp::default();
        }
        if self.told_by.is_some_and(|at| at <= now) {
            self.told_by = None;
            self.wake = self.wake.max(Wake::Status);
        }
        let generates = match self.wake {
            Wake::Nothing => return self.rest(myself),
            // What is generated is not known: nothing is to be compared with it.
            Wake::Status if self.generated.is_none() => {
                self.wake = Wake::Nothing;
                return self.rest(myself);
            }
            Wake::Status => false,
            Wake::Reconcile => true,
        };
        if now < self.rests_until {
            return self.set_alarm(myself, self.rests_until);
        }
        let generated = self.generated.clone().filter(|_| !generates);
        let look = Look {
            set: self.set.clone(),
            generated,
            refused: Arc::clone(&self.known_refused),
            is_fresh: self.is_fresh,
            last: self.own_rollout().cloned(),
            standings: Arc::clone(&self.standings),
            prunes: self.rollouts.prunes.clone(),
        };
        (self.wake, self.is_fresh) = (Wake::Nothing, self.is_fresh && !generates);
        let (shared, actor) = (Arc::clone(&self.shared), myself.clone());
        let looking = self.tasks.spawn(async move {
            // A fault in it is told like any other; and given up, it does nothing more.
            let passed = AssertUnwindSafe(pass(shared, look)).catch_unwind().await.unwrap_or_else(|_| {
                let words = "looking at it met a fault inside this process, whose log says more";
                let failure = wrote(Reason::ApplicationGenerationFromParamsError, words);
                Passed { failure: Some(failure), ..Passed::default() }
            });
            drop(actor.send_message(SetMessage::Looked(tokio::task::id(), Box::new(passed))));
        });
        self.looking = Some((looking, generates));
    }

    /// Nothing is due now; sets the alarm for what is next.
    fn rest(&mut self, myself: &ActorRef<SetMessage>) {
        let next = [self.generate_at, self.told_by].into_iter().flatten().min();
        if let Some(at) = next {
            self.set_alarm(myself, at);
        }
    }

    /// A look has ended.
    async fn looked(&mut self, look: tokio::task::Id, passed: Passed) {
        // One that was given up may have told of itself before; the one that was begun since is still to come.
        let Some((_, generates)) = self.looking.take_if(|(looking, _)| looking.id() == look) else { return };
        let Passed { generated, changes, failure, finalizers, is_unsettled, request, saw_open, took } =
            passed;
        let now = self.now();
        self.shared.board.looked(&self.key, took);
        self.rests_until = now + took.saturating_mul(REST).clamp(REST_MIN, REST_MAX);
        if let Some(finalizers) = finalizers {
            self.set.metadata.finalizers = finalizers;
        }
        if generates {
            let ended = match (&generated, &failure) {
                (None, _) => Ended::Failed,
                (Some(generated), _) if !generated.failed.is_empty() => Ended::Failed,
                (Some(_), Some(_)) => Ended::Partly,
                (Some(_), None) => Ended::Well,
            };
            self.generate_at = again_after(&self.set, ended, &self.shared.options).map(|after| now + after);
            self.end_refresh().await;
        }
        if let Some(all) = generated.as_ref().filter(|all| all.failed.is_empty() && all.silent.is_empty()) {
            self.known_refused = Arc::new(all.refused.clone());
        }
        self.told_by = is_unsettled.then_some(now + TOLD_WITHIN);
        self.left_alone =
            changes.left_alone().map(|(name, why)| (name.to_owned(), why.to_string())).collect();
        self.refused = changes.refused().map(|(name, why)| (name.to_owned(), why.to_string())).collect();
        (self.generated, self.failure, self.wrong) = (generated, failure, changes.wrong);
        if changes.order != Order::AllAtOnce {
            let why = "it is not generated any more";
            self.tear_down(changes.order, (changes.delete, changes.permit), why).await;
        }
        self.keep_generated().await;
        if !is_unsettled {
            self.end_approval().await;
        }
        let is_unresolved = matches!(request, Some(Err(NotAsked::Unresolved(_))));
        match request {
            // What it was about to do then is done by now: how all stand is looked at once more.
            Some(Ok(_)) if saw_open && self.own_rollout().is_some_and(|last| last.is_finished()) => {
                self.wake = self.wake.max(Wake::Status);
            }
            Some(Ok(request)) => {
                self.unresolved_since = None;
                self.roll(request).await;
            }
            Some(Err(not)) => self.not_asked(&not),
            None if self.generated.is_some() && !is_unsettled => self.end_unwanted_rollout().await,
            None => {}
        }
        // It was for this look, unless that could not say yet what is to be begun.
        if self.is_whole() && !is_unsettled && !is_unresolved && self.recall_at.is_none() {
            self.end_retry().await;
        }
    }

    /// Whether all that it generates is known.
    fn is_whole(&self) -> bool {
        self.generated.as_ref().is_some_and(|generated| generated.failed.is_empty())
    }

    /// Why no progressive sync is asked for. What is not known yet will be, mostly: nothing is wrong before that lasts.
    fn not_asked(&mut self, not: &NotAsked) {
        let now = self.now();
        let since = *self.unresolved_since.get_or_insert(now);
        if matches!(not, NotAsked::Unresolved(_)) && now < since + RESOLVED_WITHIN {
            self.told_by = Some(since + RESOLVED_WITHIN);
            return;
        }
        let other = not.failure();
        match &mut self.failure {
            Some(failure) => failure.message = format!("{}; {}", failure.message, other.message),
            None => self.failure = Some(other),
        }
    }

    /// What was asked for by an annotation is done.
    async fn end_refresh(&mut self) {
        if self.set.metadata.annotations.remove(REFRESH_ANNOTATION).is_none() {
            return;
        }
        if let Err(error) = self.shared.store.mark(&self.set).await {
            tracing::warn!(set = %self.key, %error, "the annotation {REFRESH_ANNOTATION} cannot be taken away");
        }
    }

    /// A message at this time; an earlier one that is set already will do.
    fn set_alarm(&mut self, myself: &ActorRef<SetMessage>, at: Timestamp) {
        if self.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || SetMessage::Wake).abort_handle());
        self.alarm = Some((at, alarm));
    }
}
