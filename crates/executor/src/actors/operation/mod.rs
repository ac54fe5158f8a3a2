//! The operation actor: the shell of one operation's state machine, in a mailbox.
//!
//! Message → arrival → shell → its hands. Nothing that matters lives only here: the actor may end at any instant, and
//! another one goes on from the log.

mod asking;
mod calls;
mod claim;
mod hands;

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tidegate_cluster::Strain;
use tidegate_lifecycle::operation::{
    Command, Driver, Explanation, Input, Narrator, OperationView, Progress, SyncOperation, TRYING_AGAIN,
    explain, view,
};
use tidegate_lifecycle::{ShellError, Turn};
use tidegate_model::{Digest, OperationId, SyncRequest, TakenPlan, Timestamp};
use tokio::sync::oneshot;

use crate::error::EngineError;
use crate::inbox::{Arrival, Inbox, Note};
use crate::log::{AppendFailure, LogLost};
use crate::manifests::HandedOver;
use crate::output::{RunningHook, RunningHooks};
use crate::shared::Shared;

use self::hands::{Reply, SyncHands};

/// With so many commands on their way, answers come in crowds: others may run first, so that one look at a wave serves
/// many answers.
const CROWD: usize = 64;
/// With so many, a look is long enough to wait for a crowd: a wide wave stays linear however slowly answers come.
const MULTITUDE: usize = 512;
/// How long a crowd may gather.
const GATHER: Duration = Duration::from_millis(1);

/// A message to an operation actor.
pub(crate) enum OperationMessage {
    /// Something is in the inbox.
    Arrived,
    /// A person's wish; answered when it is durable.
    Person { input: Input, reply: RpcReplyPort<Result<(), EngineError>> },
    /// How does it stand?
    Inspect { reply: RpcReplyPort<Result<Inspection, EngineError>> },
    /// Which of its hooks run?
    RunningHooks { reply: RpcReplyPort<Result<RunningHooks, EngineError>> },
    /// The watches were lost: those that are needed are made again.
    WatchAgain,
    /// What a person ends has taken its time.
    StopsOverdue,
    /// Something happened that concerns the operation.
    Tell(Input),
    /// Stop as soon as what is on its way has been recorded.
    Shutdown,
}

/// So long the hooks of an operation that a person ends may take to be stopped: it is over within five seconds, whatever hangs.
const STOPPED_WITHIN: Duration = Duration::from_secs(4);
/// What is left of it then is given up as soon as this.
const GIVEN_UP_EVERY: Duration = Duration::from_millis(100);

/// So long whoever asks how an operation stands waits for the log at most.
const TOLD_WITHIN: Duration = Duration::from_secs(2);

/// How an operation stands.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// As users see it.
    pub view: OperationView,
    /// Why it is there.
    pub explanation: Explanation,
}

/// How an operation begins.
pub(crate) enum Start {
    /// One that the log has nothing of. Whoever submits it hands over what it needs for its first plan.
    New {
        request: Box<SyncRequest>,
        targets: Digest,
        /// The kept plan that it carries out.
        plan: Option<Box<TakenPlan>>,
        handed_over: Option<Box<HandedOver>>,
    },
    /// As the log left it; with a reason to end it at once.
    Recovered { driver: Box<Driver>, give_up: Option<String> },
}

/// What an operation says of itself, unasked.
pub(crate) enum Report {
    /// It is over. Its actor waits to be stopped.
    Finished { operation: OperationId, end: Box<Inspection> },
    /// The log does not take facts any more.
    LogFailed { reason: String },
}

/// Where an operation's reports go: to the supervisor.
pub(crate) type Reporter = Arc<dyn Fn(Report) + Send + Sync>;

/// What an operation actor needs.
pub(crate) struct OperationArguments {
    pub shared: Arc<Shared>,
    pub report: Reporter,
    pub operation: OperationId,
    pub start: Start,
}

pub(crate) struct OperationActor;

type Shell = tidegate_lifecycle::Shell<SyncOperation, SyncHands>;

pub(crate) struct OperationState {
    shared: Arc<Shared>,
    report: Reporter,
    id: OperationId,
    inbox: Inbox,
    shell: Shell,
    finished: bool,
    /// When what a person ends is given up; each process tries for as long.
    hurry: Hurry,
}

/// How it stands with hooks that are to be stopped at once.
enum Hurry {
    /// Nobody waits for the end.
    None,
    /// They are given up in a moment.
    Set,
    /// They were given up once.
    Overdue,
}

impl Actor for OperationActor {
    type Msg = OperationMessage;
    type State = OperationState;
    type Arguments = OperationArguments;

    async fn pre_start(
        &self,
        myself: ActorRef<OperationMessage>,
        arguments: OperationArguments,
    ) -> Result<OperationState, ActorProcessingErr> {
        let OperationArguments { shared, report, operation: id, start } = arguments;
        let inbox = Inbox::new({
            let myself = myself.clone();
            move || drop(myself.send_message(OperationMessage::Arrived))
        });
        let hands =
            |recovered, to_plan| SyncHands::new(Arc::clone(&shared), id, inbox.clone(), recovered, to_plan);
        let (shell, first) = match start {
            Start::New { request, targets, plan, handed_over } => {
                let begin = Input::Request { operation: id, request, targets, plan };
                (Shell::new(hands(None, handed_over)), Some(begin))
            }
            Start::Recovered { driver, give_up } => {
                let narrator = Narrator::of(driver.state(), driver.sequence());
                let first = give_up.map_or(Input::Resumed, |reason| Input::Abort { reason });
                let mut hands = hands(Some(narrator), None);
                hands.recover_places(driver.state());
                (Shell::recovered(*driver, hands), Some(first))
            }
        };
        inbox.push(first.map_or(Arrival::Alarm, Arrival::Input));
        Ok(OperationState { shared, report, id, inbox, shell, finished: false, hurry: Hurry::None })
    }

    async fn handle(
        &self,
        myself: ActorRef<OperationMessage>,
        message: OperationMessage,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            OperationMessage::Arrived => {
                match state.shell.on_the_way() {
                    MULTITUDE.. => tokio::time::sleep(GATHER).await,
                    CROWD.. => tokio::task::yield_now().await,
                    _ => {}
                }
                state.take_arrivals().await?;
            }
            OperationMessage::Person { input, reply } => {
                let now = state.now();
                state.shell.wish(&input, Reply::Wish(reply), now)?;
            }
            OperationMessage::Inspect { reply } => {
                // What is told is on the disk first: whoever looks after a kill finds it there. A log that hangs keeps
                // nobody from looking.
                let seen = state.inspect();
                let (teller, is_durable) = oneshot::channel();
                state.shell.when_durable(Reply::Sight(teller));
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(TOLD_WITHIN, is_durable).await;
                    let _ = reply.send(seen);
                });
            }
            OperationMessage::RunningHooks { reply } => drop(reply.send(state.running_hooks())),
            OperationMessage::WatchAgain => state.watch_again()?,
            OperationMessage::StopsOverdue => {
                state.hurry = Hurry::Overdue;
                let now = state.now();
                state.shell.take(Arrival::Input(Input::StopsOverdue), now)?;
            }
            OperationMessage::Tell(input) => {
                let now = state.now();
                state.shell.take(Arrival::Input(input), now)?;
            }
            OperationMessage::Shutdown => state.shell.stop(),
        }
        match state.turn()? {
            Turn::GoesOn => state.hurry(&myself),
            Turn::Stopped => myself.stop(None),
            Turn::Over => state.finish(),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _: ActorRef<OperationMessage>,
        state: &mut OperationState,
    ) -> Result<(), ActorProcessingErr> {
        state.leave();
        Ok(())
    }
}

impl OperationState {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    async fn take_arrivals(&mut self) -> Result<(), ActorProcessingErr> {
        self.note_health_rules()?;
        for mut arrival in self.inbox.take() {
            match &mut arrival {
                Arrival::Input(input) | Arrival::Answer { input, .. } => {
                    let targets = self.shell.state().header().map(|header| header.targets);
                    self.shell.hands_mut().mask(targets, input).await;
                }
                Arrival::Note(Note::NotWritten(failure)) => return Err(self.not_written(failure)),
                _ => {}
            }
            let now = self.now();
            self.shell.take(arrival, now)?;
        }
        Ok(())
    }

    /// What ends this actor: another one goes on from the log, if the log takes anything.
    fn not_written(&self, failure: &AppendFailure) -> ActorProcessingErr {
        match failure {
            AppendFailure::Final(reason) => {
                let reason = reason.clone();
                (self.report)(Report::LogFailed { reason: reason.clone() });
                reason.into()
            }
            AppendFailure::Refused(reason) => reason.clone().into(),
            AppendFailure::Lost => LogLost.into(),
        }
    }

    /// Whatever brought other rules, or brought the operation so far that it is judged: it is on record before anything
    /// is done or said by them.
    fn note_health_rules(&mut self) -> Result<(), ActorProcessingErr> {
        let digest = self.shared.health.digest();
        if self.shell.state().lacks_health_rules(digest) {
            let now = self.now();
            self.shell.take(Arrival::Input(Input::HealthRules { digest }), now)?;
        }
        Ok(())
    }

    /// Sees to it that what a person ends does end.
    fn hurry(&mut self, myself: &ActorRef<OperationMessage>) {
        if !self.shell.state().is_hurried() {
            return;
        }
        let within = match self.hurry {
            Hurry::None => STOPPED_WITHIN,
            Hurry::Set => return,
            Hurry::Overdue => GIVEN_UP_EVERY,
        };
        self.hurry = Hurry::Set;
        myself.send_after(within, || OperationMessage::StopsOverdue);
    }

    fn turn(&mut self) -> Result<Turn, ActorProcessingErr> {
        self.note_health_rules()?;
        let now = self.now();
        self.shell.turn(now).map_err(|error| match error {
            ShellError::Driver(error) => error.into(),
            ShellError::Append(failure) => failure,
        })
    }

    /// Takes what is watched for ended: what is still owed is then begun anew.
    fn watch_again(&mut self) -> Result<(), ActorProcessingErr> {
        let now = self.now();
        // A claim outlives the watches. One that nobody keeps, because the cluster was not known, is taken up now.
        let is_kept = self.shell.hands().keeper.is_some();
        let watched = self.shell.standing().filter(|command| !(is_kept && matches!(command, Command::Claim)));
        for subject in watched.map(Command::subject).collect::<Vec<_>>() {
            self.shell.take(Arrival::Ended(subject), now)?;
        }
        self.shell.take(Arrival::Input(Input::Watching { trouble: None, since: now }), now)?;
        Ok(())
    }

    fn inspect(&self) -> Result<Inspection, EngineError> {
        let (state, now) = (self.shell.state(), self.now());
        let mut explanation = explain(state, now);
        let strain = self.strain().filter(|strain| {
            // That it is silent is known once a call was given up; what it asks for is news of this moment.
            matches!(strain, Strain::AsksToWait { .. }) || explanation.trouble.is_none()
        });
        if let Some(strain) = strain.filter(|_| !state.is_finished()) {
            explanation.trouble = Some(format!("{}{TRYING_AGAIN}", strain.words(now)));
        }
        let view = view(state).ok_or(EngineError::Unknown { operation: self.id })?;
        Ok(Inspection { view, explanation })
    }

    /// The hooks that run now, as objects of the cluster. They are all of one wave.
    fn running_hooks(&self) -> Result<RunningHooks, EngineError> {
        let state = self.shell.state();
        let header = state.header().ok_or(EngineError::Unknown { operation: self.id })?;
        let at_work = state.operation().and_then(|operation| Some((operation, operation.current_wave()?.0)));
        let tasks = at_work.into_iter().flat_map(|(operation, wave)| operation.wave_tasks(wave));
        let hooks = tasks.filter(|(_, task, state)| task.is_hook() && state.progress == Progress::Running);
        // One that a runner works on has no object.
        let hooks = hooks.filter_map(|(_, task, state)| {
            let uid =
                state.applied.as_ref().map(|applied| applied.uid.clone()).filter(|uid| !uid.is_empty())?;
            let (gvk, namespace, name) = (task.gvk.clone(), task.namespace.clone(), task.name.clone());
            Some(RunningHook { gvk, namespace, name, uid })
        });
        let destination = header.request.destination.clone();
        Ok(RunningHooks { destination, targets: header.targets, hooks: hooks.collect() })
    }

    /// What keeps the calls to the operation's cluster waiting now.
    fn strain(&self) -> Option<Strain> {
        let destination = &self.shell.state().header()?.request.destination;
        self.shared.clusters.get(destination)?.connection().strain()
    }

    /// Says once that it is over. The supervisor then stops the actor: were it to stop by itself, that news would
    /// overtake this message.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if let Ok(end) = self.inspect() {
            (self.report)(Report::Finished { operation: self.id, end: Box::new(end) });
        }
    }

    fn leave(&mut self) {
        let (hands, state) = self.shell.parts();
        hands.leave(state);
    }
}

impl Drop for OperationState {
    fn drop(&mut self) {
        // After a panic nobody calls `post_stop`.
        self.leave();
    }
}
