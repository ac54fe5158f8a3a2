//! The hands of a rollout: operations of Applications are run by their actors, and what is seen of Applications comes from
//! what they show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{ActorRef, ActorStatus};
use tidegate_application::automated;
use tidegate_application::running::{BY, Deploy, request, request_back};
use tidegate_applicationset::rollout::Targets;
use tidegate_executor::{EngineError, Post, StepQuestion, SummaryOf, Work};
use tidegate_lifecycle::fleet::Said;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::{
    ChildNews, Command, Details, Input, Progress, Progressive, Rollout, State, Then, Work as Direction,
};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{Digest, OperationId, StreamId, Timestamp};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::standing::{member, sight};
use super::watched::{Kept, Watched};
use crate::applications::store::AppKey;
use crate::applications::{Shared, SupervisorMessage, is_known};

/// So long after an Application was not to be had it is asked again, though nothing of it has changed.
const AGAIN_AFTER: Duration = Duration::from_secs(30);
/// How often it is looked whether names of gates stand for something else.
const GATES_EVERY: Duration = Duration::from_secs(60);

/// Whose objects are deleted when they are no longer in the manifests: the Applications that are generated with
/// `automated.prune`, and not turned off. What is written of them says that no more. Nothing before the set was looked at.
#[derive(Clone, Default)]
pub(crate) struct Prunes(Arc<Mutex<Option<BTreeSet<String>>>>);

impl Prunes {
    /// These are generated now.
    pub fn set<'a>(&self, generated: impl IntoIterator<Item = &'a Application>) {
        let prunes = |one: &&Application| automated(one).is_some_and(|policy| policy.prune == Some(true));
        let names = generated.into_iter().filter(prunes).map(|one| one.metadata.name.clone()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(names);
    }

    /// Before it is known what is generated, what was written counts.
    fn has(&self, live: &Application) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_ref() {
            Some(names) => names.contains(&live.metadata.name),
            None => {
                let policy = live.spec.sync_policy.as_ref().and_then(|policy| policy.automated.as_ref());
                policy.is_some_and(|automated| automated.prune == Some(true))
            }
        }
    }
}

/// What the hands of a rollout work with.
#[derive(Clone)]
pub(crate) struct RollingParts {
    /// What the Applications share.
    pub shared: Arc<Shared>,
    /// Their supervisor.
    pub applications: ActorRef<SupervisorMessage>,
    /// The set.
    pub set: AppKey,
    /// The rollout.
    pub id: StreamId,
    /// How specifications are told apart.
    pub targets: Arc<Targets>,
    pub prunes: Prunes,
    /// Told whenever what is durable of the rollout has changed. It must not wait.
    pub moved: Arc<dyn Fn(&State) + Send + Sync>,
}

/// The hands of a rollout.
pub(crate) struct Rolling {
    parts: RollingParts,
    runs: BTreeMap<String, (Kept, Line)>,
    gates: BTreeMap<String, Kept>,
    watched: Watched,
}

impl Rolling {
    pub fn new(parts: RollingParts) -> Self {
        Self { parts, runs: BTreeMap::new(), gates: BTreeMap::new(), watched: Watched::default() }
    }

    /// Asks for the operation of a member no more. What is sent of it from now on comes after all that was asked.
    fn end_run(&mut self, name: &str) {
        if let Some((_, line)) = self.runs.remove(name) {
            line.close();
        }
    }

    fn watch(&mut self, name: &str, post: &Post<Progressive>) {
        let key = member(&self.parts.set, name);
        let (parts, tell) = (self.parts.clone(), post.clone());
        let look = move |key: &AppKey| {
            let Some((live, deployments)) = parts.shared.board.sight(key) else { return };
            let sight = sight(&live, &deployments, &parts.targets);
            tell.tell(Input::Sighted { member: key.name.clone(), sight });
        };
        self.watched.begin(key, || self.parts.shared.board.changes(), post, look);
    }

    fn ask_gate(&mut self, rollout: &Rollout, (step, gate): (u32, &str), post: &Post<Progressive>) {
        let question = StepQuestion {
            gate: gate.to_owned(),
            rollout: OperationId::from(self.parts.id),
            set: rollout.set.clone(),
            step: step.saturating_add(1),
            began: rollout.started_at,
            destination: self.parts.shared.places.own().clone(),
        };
        let asking = ask_gate(Arc::clone(&self.parts.shared), question, step, post.clone());
        self.gates.insert(gate.to_owned(), Kept::spawn(post, asking));
    }
}

/// Who has what is at work for an Application stopped; nobody where its rollout does by itself.
fn who_stops<'a>(rollout: &'a Rollout, member: &str) -> Option<&'a Said> {
    let skipped = || match &rollout.members.get(member)?.progress {
        Progress::Stopping { then: Then::Skip(said), .. } => Some(said),
        _ => None,
    };
    rollout.terminated.as_ref().or_else(skipped)
}

impl Work for Rolling {
    type Machine = Progressive;

    fn summary(state: &State) -> Option<SummaryOf<Progressive>> {
        let (rollout, details) = state.rollout().zip(Details::of(state))?;
        Some(tidegate_oplog::Summary {
            application: None,
            set: Some(rollout.set.clone()),
            started_at: rollout.started_at,
            finished_at: rollout.outcome.as_ref().map(|outcome| outcome.at),
            details,
        })
    }

    fn resumed() -> Option<Input> {
        Some(Input::Recovered)
    }

    fn carry_out(&mut self, state: &State, command: Command, _: Timestamp, post: Post<Progressive>) {
        let (parts, about, to) = (self.parts.clone(), command.subject(), post.clone());
        match command {
            Command::Choose { member } => {
                post.spawn(async move {
                    if let Some(operation) = choose(&parts.shared).await {
                        to.answer(about, Input::Chosen { member, operation });
                    }
                });
            }
            Command::Stop { member, operation } => {
                self.end_run(&member);
                let said = state.rollout().and_then(|rollout| who_stops(rollout, &member));
                let by = said.map_or_else(|| BY.to_owned(), |said| said.wisher().text());
                post.spawn(async move {
                    if let Some(result) = stop(&parts, &member, (operation, by)).await {
                        to.answer(about, Input::Stopped { member, operation, result });
                    }
                });
            }
            // These are kept up.
            Command::Run { .. } | Command::Watch { .. } | Command::AskGate { .. } => {}
        }
    }

    fn begin(&mut self, state: &State, standing: &Command, _: Timestamp, post: Post<Progressive>) {
        let Some(rollout) = state.rollout() else { return };
        match standing {
            Command::Run { member, operation, work } => {
                let Some(wanted) = Wanted::of(rollout, member, (*operation, *work)) else { return };
                let line = Line::to(&self.parts.applications);
                let running = run(self.parts.clone(), wanted, line.clone(), post.clone());
                self.runs.insert(member.clone(), (Kept::spawn(&post, running), line));
            }
            Command::Watch { member } => self.watch(member, &post),
            Command::AskGate { step, gate } => self.ask_gate(rollout, (*step, gate), &post),
            Command::Choose { .. } | Command::Stop { .. } => {}
        }
    }

    fn end(&mut self, _: &State, standing: &Command) {
        match standing {
            Command::Run { member: name, operation, .. } => {
                self.end_run(name);
                let key = member(&self.parts.set, name);
                let message = SupervisorMessage::TakeBack { key, operation: *operation };
                drop(self.parts.applications.send_message(message));
            }
            Command::Watch { member: name } => self.watched.end(&member(&self.parts.set, name)),
            Command::AskGate { gate, .. } => drop(self.gates.remove(gate)),
            Command::Choose { .. } | Command::Stop { .. } => {}
        }
    }

    fn announce(&mut self, state: &State) {
        (self.parts.moved)(state);
    }
}

/// An id after those of all operations there are; nothing when the engine stops.
async fn choose(shared: &Shared) -> Option<Result<OperationId, CallError>> {
    match shared.engine.next_id().await {
        Err(EngineError::ShuttingDown | EngineError::Stopped | EngineError::LogFailed { .. }) => None,
        chosen => Some(chosen.map_err(|error| CallError::transient(error.to_string()))),
    }
}

/// Whether an operation is over, or sure never to begin; nothing when the engine stops.
async fn stop(
    parts: &RollingParts,
    name: &str,
    (operation, by): (OperationId, String),
) -> Option<Result<(), CallError>> {
    let (reply, answer) = oneshot::channel();
    let key = member(&parts.set, name);
    let message = SupervisorMessage::StopRun { key, operation, by, reply: reply.into() };
    parts.applications.send_message(message).ok()?;
    match answer.await {
        Ok(result) => Some(result.map_err(CallError::transient)),
        Err(_) if is_over(parts) => None,
        // Its actor has failed, or has ended with its Application: the next one answers.
        Err(_) => Some(Err(CallError::transient(format!("application {name} gave no answer")))),
    }
}

/// Whether nothing is done any more.
fn is_over(parts: &RollingParts) -> bool {
    let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&parts.applications.get_status());
    over || parts.shared.engine.failure().is_some()
}

/// What is wanted of a member.
struct Wanted {
    member: String,
    operation: OperationId,
    work: Direction,
    revisions: Vec<String>,
    /// The specification that the Application is to have before it is begun.
    spec: Option<Digest>,
}

impl Wanted {
    fn of(rollout: &Rollout, name: &str, (operation, work): (OperationId, Direction)) -> Option<Self> {
        let member = rollout.members.get(name)?;
        let (target, spec) = match work {
            Direction::Sync => (&member.target, Some(member.target.spec)),
            Direction::RollBack => (&member.before.as_ref()?.target, None),
        };
        Some(Self { member: name.to_owned(), operation, work, revisions: target.revisions.clone(), spec })
    }

    /// What the Application is asked for; nothing while it is not there, or not yet as it is to be deployed.
    async fn asked(&self, parts: &RollingParts, key: &AppKey) -> Option<Box<OperationRequest>> {
        let live = parts.shared.board.get(key)?;
        if self.spec.is_some_and(|spec| parts.targets.spec(&live) != spec) {
            // What has begun goes on, whatever is written since.
            if !is_known(&parts.shared, self.operation).await {
                return None;
            }
        }
        let set = format!("{}/{}", parts.set.namespace, parts.set.name);
        let prune = parts.prunes.has(&live);
        let deploy = Deploy { set: &set, revisions: &self.revisions, prune };
        Some(Box::new(match self.work {
            Direction::Sync => request(&live, deploy),
            Direction::RollBack => request_back(&live, deploy),
        }))
    }
}

/// The way to the supervisor of the Applications, until it is closed: then nothing more is on its way.
#[derive(Clone)]
struct Line(Arc<Mutex<Option<ActorRef<SupervisorMessage>>>>);

impl Line {
    fn to(applications: &ActorRef<SupervisorMessage>) -> Self {
        Self(Arc::new(Mutex::new(Some(applications.clone()))))
    }

    /// Whether it was sent.
    fn send(&self, message: SupervisorMessage) -> bool {
        let applications = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        applications.as_ref().is_some_and(|to| to.send_message(message).is_ok())
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Has the actor of the Application run an operation, and tells of it until it is over.
async fn run(parts: RollingParts, wanted: Wanted, line: Line, post: Post<Progressive>) {
    let key = member(&parts.set, &wanted.member);
    let mut changes = parts.shared.board.changes();
    let mut is_new = true;
    let tell = |news| {
        let (member, operation) = (wanted.member.clone(), wanted.operation);
        post.tell(Input::Child { member, operation, news });
    };
    loop {
        let asked = wanted.asked(&parts, &key).await;
        if let Some(asked) = asked {
            let (to, mut told) = mpsc::unbounded_channel();
            let (key, operation) = (key.clone(), wanted.operation);
            if !line.send(SupervisorMessage::Run { key, operation, asked, tell: to }) {
                return;
            }
            while let Some(news) = told.recv().await {
                let is_over = matches!(news, ChildNews::Ended { .. } | ChildNews::Failed(_));
                tell(news);
                if is_over {
                    return;
                }
            }
        } else if !is_new {
            return tell(ChildNews::Failed(CallError::transient(format!(
                "application {key} is not there, or not yet as it is generated"
            ))));
        }
        // It is to come, or to change; or its actor has ended, and the next one is asked.
        is_new = timeout(AGAIN_AFTER, changed(&mut changes, &key)).await.is_ok();
    }
}

/// Returns when an Application may have changed.
async fn changed(changes: &mut Receiver<AppKey>, key: &AppKey) {
    loop {
        match changes.recv().await {
            Ok(other) if other == *key => return,
            Ok(_) => {}
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Asks a gate, by what its name stands for now, and again once that is something else.
async fn ask_gate(shared: Arc<Shared>, question: StepQuestion, step: u32, post: Post<Progressive>) {
    loop {
        let definitions = shared.gates.read().await;
        let tell = |verdict| post.tell(Input::Gate { step, gate: question.gate.clone(), verdict });
        let asking = async {
            shared.engine.ask_gate(&question, &definitions, tell).await;
            std::future::pending::<()>().await;
        };
        let others = async {
            loop {
                sleep(GATES_EVERY).await;
                if shared.gates.read().await != definitions {
                    return;
                }
            }
        };
        tokio::select! {
            () = asking => {}
            () = others => {}
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
