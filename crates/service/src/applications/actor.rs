//! One application: its resource, and what is under way for it.

mod approving;
mod comparing;
mod confirming;
mod deleting;
mod keeping;
mod operation;
mod refreshing;
mod running;
mod stirring;
mod superseding;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_application::approval;
use tidegate_application::automation::{self, Next};
use tidegate_application::comparison;
use tidegate_application::conditions;
use tidegate_application::operation as request;
use tidegate_application::recorded as remembered;
use tidegate_application::refresh::{self, Level};
use tidegate_application::running as runs;
use tidegate_application::superseding::is_request;
use tidegate_application::unheeded::{UNHEEDED, unheeded};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::{Application, ConditionType};
use tidegate_model::{OperationId, Timestamp};
use tokio::task::{AbortHandle, JoinSet};

use self::approving::Approving;
pub(crate) use self::comparing::With;
pub(crate) use self::keeping::forget as forget_unwritten;
use self::keeping::{Overwritten, Unkept, Writing};
use self::refreshing::Refresh;
use self::running::Runs;
pub(crate) use self::running::end_in_engine;
use self::stirring::{Stirred, Why};
use self::superseding::Superseding;
use super::board::Deployments;
use super::held::Held;
use super::messages::{AppMessage, ByPlan, SupervisorMessage};
use super::projects;
use super::recorded;
use super::remembered::Memory;
use super::shared::Shared;
use super::store::{AppKey, Stored};

/// How long until something is tried again that the state directory did not allow.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Conditions of our own.
const UNKNOWN_FIELD: &str = "UnknownFieldWarning";
const UNSEEN: &str = "WatchWarning";
/// So many kinds are named that may not be watched.
const UNSEEN_MAX: usize = 5;

/// A message to come, which does not when this is dropped: or each would be followed by one more.
struct Alarm(AbortHandle);

impl Drop for Alarm {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) struct ApplicationActor;

/// What the actor needs.
pub(crate) struct AppArguments {
    pub shared: Arc<Shared>,
    pub stored: Box<Stored>,
    /// It is as this process had it, and not as somebody may have written it.
    pub is_own: bool,
    /// Operations before this one are of another application, which had its name.
    pub own_since: Option<OperationId>,
    pub supervisor: ActorRef<SupervisorMessage>,
}

pub(crate) struct AppState {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMessage>,
    key: AppKey,
    application: Held,
    problem: Option<String>,
    /// As it was written down last, and when.
    kept: Option<Arc<Application>>,
    kept_at: Timestamp,
    /// How long that has taken.
    took: Duration,
    /// Since when there is something else to write down, and whether that may not be late.
    unwritten: Option<Timestamp>,
    is_urgent: bool,
    /// How it came to be as it is, and what of that was shown last.
    deployments: Deployments,
    shown: Deployments,
    /// The operation that is written down with its id.
    durable: Option<OperationId>,
    /// The write that is under way.
    writing: Option<Box<Writing>>,
    /// What could not be written down.
    unkept: Option<Unkept>,
    /// What others have written over what was.
    overwritten: Overwritten,
    asked: Option<Level>,
    /// Who waits for a comparison.
    refreshes: Vec<Refresh>,
    comparing: bool,
    /// What the last comparison has found, for the next one; and how many operations had ended before that began.
    memory: Memory,
    ended: u64,
    preparing: bool,
    /// What its branch meant when its operation was prepared, which waits since then for those it depends on.
    found: Option<Vec<String>>,
    /// Its deletion waits for others, and until then it is compared.
    waits_to_go: bool,
    /// Whom it waits for and has had looked at for that, and with which commits.
    looked_at: Option<(AppKey, Vec<String>)>,
    /// What progressive syncs want of it.
    runs: Runs,
    carried: Option<OperationId>,
    /// What waits for its operation.
    superseding: Superseding,
    /// What its operation waits for, where that needs an approval.
    approving: Approving,
    /// The operation whose deletions were confirmed by an annotation, and how often it had been tried again by then.
    confirmed: Option<(OperationId, i64)>,
    /// The deletion that goes on although nobody wants it any more, because it was begun.
    taken_back: Option<OperationId>,
    stirred: Option<Stirred>,
    /// Before this, changes of its objects are no reason for another comparison.
    rests_until: Timestamp,
    /// Its alarm; there is one at most.
    alarm: Option<(Timestamp, Alarm)>,
    /// All that is under way; it ends with the actor.
    tasks: JoinSet<()>,
    /// What prepares or follows its operation.
    carrying: JoinSet<()>,
}

impl Actor for ApplicationActor {
    type Msg = AppMessage;
    type State = AppState;
    type Arguments = AppArguments;

    async fn pre_start(
        &self,
        _: ActorRef<AppMessage>,
        arguments: AppArguments,
    ) -> Result<AppState, ActorProcessingErr> {
        let AppArguments { shared, stored, is_own, own_since, supervisor } = arguments;
        let Stored { mut application, problem, lost } = *stored;
        keeping::forget(&mut application);
        let written = application.operation.as_ref().and_then(request::id).filter(|_| !is_own);
        let mut state = AppState {
            key: AppKey::of(&application),
            shared,
            supervisor,
            application: application.into(),
            problem,
            kept: None,
            kept_at: Timestamp::default(),
            took: Duration::ZERO,
            unwritten: None,
            is_urgent: false,
            deployments: Deployments::default(),
            shown: Deployments::default(),
            durable: written,
            writing: None,
            unkept: None,
            overwritten: Overwritten::default(),
            asked: Some(Level::Latest),
            refreshes: Vec::new(),
            comparing: false,
            memory: Memory::default(),
            ended: 0,
            preparing: false,
            found: None,
            waits_to_go: false,
            looked_at: None,
            runs: Runs::default(),
            carried: None,
            superseding: Superseding::default(),
            approving: Approving::default(),
            confirmed: None,
            taken_back: None,
            stirred: None,
            rests_until: Timestamp::default(),
            alarm: None,
            tasks: JoinSet::new(),
            carrying: JoinSet::new(),
        };
        let to_end = keeping::to_end(&state.application);
        Box::pin(state.recall(lost, (is_own, own_since))).await;
        if let Some(to_end) = to_end {
            Box::pin(state.end_as_written(to_end)).await;
        }
        if !refresh::is_skipped(&state.application) {
            state.describe(state.now());
        }
        state.show();
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<AppMessage>,
        message: AppMessage,
        state: &mut AppState,
    ) -> Result<(), ActorProcessingErr> {
        // Apart: an actor that waits has no room for what it does when it is told something.
        Box::pin(state.take(&myself, message)).await;
        Ok(())
    }
}

impl AppState {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// Takes in what it is told, and does what follows from it.
    async fn take(&mut self, myself: &ActorRef<AppMessage>, message: AppMessage) {
        while self.tasks.try_join_next().is_some() {}
        while self.carrying.try_join_next().is_some() {}
        match message {
            AppMessage::Begin => {}
            AppMessage::Changed(stored) => self.changed(*stored),
            AppMessage::Overwritten(ended) => self.is_overwritten(ended).await,
            AppMessage::Compare(level) => self.ask(level),
            AppMessage::Refresh { level, reply } => self.refresh(level, reply),
            AppMessage::Show { reply } => {
                self.step(myself).await;
                return drop(reply.send(Ok(())));
            }
            AppMessage::Stirred => self.stir(myself, Why::News),
            // What it waits for is looked at below.
            AppMessage::Related => {}
            AppMessage::Compared { compared, with, began } => {
                self.has_compared(myself, (*compared, *with), began);
            }
            AppMessage::Prepared(prepared) => self.prepared(prepared),
            AppMessage::Waits { operation, why } => self.waits(operation, why),
            AppMessage::Moved { operation, progress } => self.moved(operation, *progress),
            AppMessage::Sync { asked, plan, reply } => {
                let answer = self.asked(myself, *asked, plan).await;
                drop(reply.send(answer));
            }
            AppMessage::Approve { hash, given, reply } => {
                let answer = self.approve(myself, hash, given).await;
                // Whoever is told that finds what was approved waiting no more.
                self.step(myself).await;
                return drop(reply.send(answer));
            }
            AppMessage::Doubt => self.doubt_plan(),
            AppMessage::Looked { about, looked } => self.looked(&about, looked),
            AppMessage::Rollback { id, prune, asker: (by, reason), reply } => {
                let answer = match request::rollback(&self.application, id, prune) {
                    _ if self.application.is_deleting() => {
                        Err(format!("application {} is deleting", self.key))
                    }
                    Ok(mut asked) => {
                        asked.initiated_by.username = by;
                        request::give_reason(&mut asked, &reason);
                        self.asked(myself, asked, None).await
                    }
                    Err(refused) => Err(refused.to_string()),
                };
                drop(reply.send(answer));
            }
            AppMessage::Delete { cascade, by, reason, reply } => {
                drop(reply.send(self.remove(cascade, &by, &reason).await));
            }
            AppMessage::Terminate { operation, by, reply } => {
                drop(reply.send(self.terminate_named(operation, &by).await));
            }
            AppMessage::Run { operation, asked, tell } => self.run(operation, asked, tell).await,
            AppMessage::TakeBack { operation } => self.take_back_run(operation, self.now()).await,
            AppMessage::StopRun { operation, by, reply } => {
                self.stop_run(myself, (operation, &by), reply).await;
            }
            AppMessage::Wake => {
                self.alarm = None;
                self.look_if_stirred(myself);
            }
        }
        self.step(myself).await;
    }

    fn ask(&mut self, level: Level) {
        self.asked = self.asked.max(Some(level));
    }

    /// Takes in what the log of operations knows and the status does not: nothing that was done is done again.
    async fn recall(&mut self, lost: Option<String>, (is_own, own_since): (bool, Option<OperationId>)) {
        let now = self.now();
        let (unknown, lines) = match recorded::known(&self.shared, &self.application, own_since).await {
            Ok(known) => known,
            Err(error) => {
                self.problem =
                    Some(format!("the operation log cannot be read, so it is left alone: {error}"));
                return;
            }
        };
        let asked = self.application.operation.clone().filter(is_request);
        if asked.is_some() {
            remembered::put_back(&mut self.application, &lines);
        }
        let taken = remembered::take_in(&mut self.application, unknown);
        if let Some(asked) = asked.filter(|asked| self.application.operation.as_ref() != Some(asked)) {
            // Somebody has written it while nobody was at work, and the log has what is under way.
            self.written(asked);
        }
        if is_own {
            self.recall_run(now).await;
        } else {
            let plan = self.application.operation.as_ref().and_then(ByPlan::of);
            remembered::verify(&mut self.application, &lines, now);
            self.keep_plan(plan);
            runs::placed(&self.application).into_iter().for_each(|placed| self.run_begun(placed));
        }
        self.recall_plan().await;
        self.deployments.newest = match runs::deployed(&self.application) {
            None if !lines.is_empty() => recorded::deployed(&self.shared, &self.application, own_since).await,
            deployed => deployed,
        };
        let from = match taken {
            0 if lost.is_none() => return,
            0 => "the operation log has none of its operations".to_owned(),
            1 => "its last operation is from the operation log".to_owned(),
            taken => format!("its last {taken} operations are from the operation log"),
        };
        let why = lost.unwrap_or_else(|| "no status was kept, or an older one".to_owned());
        let message = format!("{why}; {from}");
        tracing::warn!(application = %self.key, message, "the status of an application is made again");
        remembered::tell(&mut self.application, Some(message), now);
    }

    fn changed(&mut self, stored: Stored) {
        let Stored { application, problem, .. } = stored;
        self.problem = problem;
        // Other credentials may open what was closed.
        let is_same = self.application.sources() == application.sources();
        self.ask(if is_same { Level::Latest } else { Level::Forced });
        let leaves = projects::name_of(&self.application) != projects::name_of(&application);
        (self.application.metadata, self.application.spec) = (application.metadata, application.spec);
        if leaves {
            // Seen by whoever looks who is left.
            self.show();
            drop(self.supervisor.send_message(SupervisorMessage::ProjectLeft));
        }
        self.application.rest = application.rest;
        if let Some(asked) = application.operation {
            self.written(asked);
        }
        self.ask(Level::Latest);
    }

    /// A message at this time; an earlier one that is set already will do.
    fn set_alarm(&mut self, myself: &ActorRef<AppMessage>, at: Timestamp) {
        if self.alarm.as_ref().is_some_and(|(set, _)| *set <= at) {
            return;
        }
        let wait = at.since(self.now()) + Duration::from_millis(1);
        let alarm = Alarm(myself.send_after(wait, || AppMessage::Wake).abort_handle());
        self.alarm = Some((at, alarm));
    }

    /// Why it is not known yet whether its cluster is there.
    fn unasked(&self) -> Option<String> {
        self.shared.places.unasked(&self.application.spec.destination)
    }

    /// Everything that is due. Begun is only what is on the disk, with the id of its operation.
    async fn step(&mut self, myself: &ActorRef<AppMessage>) {
        let now = self.now();
        if refresh::is_skipped(&self.application) && !self.is_at_work() {
            // What somebody has written into it stays as it is, until it is left alone no more.
            self.place_runs(myself, now);
            if self.keep(myself).await.is_ok() {
                self.tell_runs();
            }
            return self.answer_refreshes();
        }
        self.describe(now);
        self.tell_overwritten(myself, now);
        self.delete(myself, now).await;
        self.confirm().await;
        self.place_runs(myself, now);
        if !self.application.is_deleting() {
            self.compare(myself, now);
            self.automate(myself, now);
        }
        let superseding = self.compare_with_newer(now);
        let is_held = self.hold(now);
        let waited = std::mem::replace(&mut self.waits_to_go, is_held && self.application.is_deleting());
        if self.waits_to_go {
            if !waited {
                // What was asked for before was taken for its deletion.
                self.ask(if self.refreshes.is_empty() { Level::Latest } else { Level::Forced });
            }
            self.compare(myself, now);
        }
        if !is_held {
            self.tell_begin(now);
        }
        self.look_at_plan(myself, now);
        let is_kept = self.keep(myself).await.is_ok();
        if is_kept {
            self.tell_runs();
            self.supersede(myself, superseding).await;
        }
        if !is_held && (is_kept || self.is_durable().await) {
            self.carry_on(myself);
        }
        if let Some(at) = refresh::due_at(&self.application, now, self.shared.every) {
            self.set_alarm(myself, at);
        }
        self.answer_refreshes();
    }

    /// Whether an operation of it was begun, or is about to be.
    fn is_at_work(&self) -> bool {
        self.preparing
            || self.application.operation.as_ref().is_some_and(|asked| request::id(asked).is_some())
    }

    /// What is wrong with it, whatever a comparison finds.
    fn describe(&mut self, now: Timestamp) {
        if let Some(problem) = self.problem.clone() {
            comparison::refuse(&mut self.application, problem, now);
        } else if self.application.is_deleting() && !self.waits_to_go {
            // No comparison follows that would say so.
            let kind = ConditionType::InvalidSpecError;
            conditions::set(&mut self.application.status.conditions, &[kind], None, now);
        }
        let mut unknown = Vec::new();
        let own = self.application.unknown_fields();
        // What is made of a source that says more than is known would be a guess: it is refused when that is looked at.
        let (sources, others): (Vec<_>, Vec<_>) = own.into_iter().partition(|one| is_of_source(one));
        for (what, fields) in
            [("these fields have no effect", others), ("these fields are not known", sources)]
        {
            if !fields.is_empty() {
                unknown.push(format!("{what}: {}", fields.join(", ")));
            }
        }
        unknown.extend(self.shared.projects.unknown_fields(&self.application));
        self.say(UNKNOWN_FIELD, &unknown, now);
        self.say(UNHEEDED, &unheeded(&self.application), now);
        let approvals = self.shared.approvals(&self.application).unwrap_or_default();
        self.say(approval::WRONG, approvals.problems(), now);
        let mut unseen = self.shared.watching.forbidden(&self.key);
        let more = unseen.len().saturating_sub(UNSEEN_MAX);
        unseen.truncate(UNSEEN_MAX);
        unseen.extend((more > 0).then(|| format!("and so with {more} more")));
        self.say(UNSEEN, &unseen, now);
    }

    /// Says this in a condition of our own, which is not there where there is nothing to say.
    fn say(&mut self, kind: &str, words: &[String], now: Timestamp) {
        let kind = ConditionType::Other(kind.to_owned());
        let found = (!words.is_empty()).then(|| (kind.clone(), words.join("; ")));
        conditions::set(&mut self.application.status.conditions, &[kind], found, now);
    }

    fn automate(&mut self, myself: &ActorRef<AppMessage>, now: Timestamp) {
        if self.comparing || self.problem.is_some() || refresh::is_skipped(&self.application) {
            return;
        }
        // What is known may be old: it is decided when that has come.
        if self.unasked().is_some() {
            return;
        }
        // What is approved is carried out, whatever was committed since.
        if !self.preparing && !self.is_approved() {
            automation::renew(&mut self.application, now);
        }
        let windows = self.shared.windows(&self.application);
        match automation::take_in(&mut self.application, &windows, now) {
            Next::Nothing => {}
            Next::Begin(asked) => self.application.operation = Some(*asked),
            Next::Wait(until) => {
                self.set_alarm(myself, until);
            }
        }
    }
}

/// Whether an unknown field, by its path, is one that a source is refused for: its own, or one of what makes its manifests.
fn is_of_source(field: &str) -> bool {
    const PARTS: [&str; 3] = ["directory", "helm", "kustomize"];
    let Some((source, rest)) = field.strip_prefix("spec.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_source = source == "source" || source.starts_with("sources");
    is_source
        && match rest.split_once('.') {
            None => true,
            Some((part, field)) => PARTS.contains(&part) && !field.contains('.'),
        }
}
