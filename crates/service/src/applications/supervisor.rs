//! All applications of a process: their actors, and who is told what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tidegate_application::conditions;
use tidegate_application::refresh::Level;
use tidegate_executor::{Clock as _, Engine, EngineError, Permits, SystemClock};
use tidegate_health::HealthRules;
use tidegate_lifecycle::operation::CallError;
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::OperationId;
use tidegate_model::argo::{Application, ApplicationSource, ConditionType, OperationRequest};
use tidegate_oplog::{Log, Lookup};
use tidegate_source::{Address, Reach};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{broadcast, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use super::actor::{AppArguments, ApplicationActor, end_in_engine};
use super::announcing::announce;
use super::asked::GitRequests;
use super::board::{Board, Deployments};
use super::depending::Depending;
use super::given::{self, Given};
use super::manifests::{Manifests, Sourcing};
use super::messages::{Answer, AppMessage, SupervisorMessage};
use super::places::Places;
use super::projects::globals::{Globals, GlobalsTold};
use super::projects::releasing::AGAIN_AFTER;
use super::projects::{self, Projects};
use super::pushed::Looks;
use super::reconciles::Reconciles;
use super::serving::Serving;
use super::shared::{Shared, Unwritten};
use super::store::{AppKey, ApplicationStore, StoreEvent, Stored};
use super::turns::Turns;
use super::watching::Watchings;
use crate::ending::end_children;
use crate::error::ServiceError;
use crate::gates::GateFile;
use crate::plans::Plans;
use crate::state_dir::StateDir;

/// So often an actor that fails is begun anew, before its application is left alone until it changes.
const FAILURES_MAX: u32 = 3;

/// So many pushes whoever follows may be behind.
const TOLD_KEPT: usize = 64;

/// All applications of a process, served.
pub struct Applications {
    serving: Serving,
    /// Open operations that this process cannot go on with, and why.
    pub left_alone: Vec<String>,
    /// What feeds the supervisor; ends with it.
    _feeding: JoinSet<()>,
}

impl Applications {
    /// Serves the applications of a store. Returns when all that are there are known; operations that are open in the log
    /// are gone on with.
    ///
    /// # Errors
    ///
    /// The engine has stopped, or the files of repositories cannot be read.
    pub async fn serve(
        engine: Engine,
        log: Log,
        (state_dir, store, plans): (StateDir, Arc<dyn ApplicationStore>, Option<Plans>),
        places: Places,
        (rules, gates, every): (HealthRules, GateFile, Duration),
        sourcing: Sourcing,
    ) -> Result<Self, ServiceError> {
        let mut reach = Reach::new(state_dir.repositories());
        let requests = GitRequests::default();
        reach.listener = requests.listener();
        let mut globals = None;
        if let Some(files) = &sourcing.files {
            reach.credentials = files.read()?;
            globals = Globals::of_files(files)?;
        }
        // From before anything is gone on with.
        let happening = engine.events_from_now().await?;
        let (watching, mut stirred) = Watchings::new();
        let secrets = sourcing.secrets.clone();
        let manifests = Arc::new(Manifests::new(store.base(), reach, state_dir.working(), sourcing));
        manifests.forget_unused();
        let cluster = Arc::clone(places.cluster());
        let given = match &secrets {
            Some(namespace) => given::list(cluster.as_ref(), namespace).await,
            None => Given::default(),
        };
        manifests.give(given::said_by(&given));
        let projects = Arc::new(Projects::new(store.home()).with_accounts(places.accounts()));
        projects.set_globals(GlobalsTold::Files(globals));
        projects.set_globals(GlobalsTold::Cluster(given.globals()));
        engine.set_permits(Arc::clone(&projects) as Arc<dyn Permits>);
        let mut events = store.watch();
        let board = Board::default();
        let plans = plans.map(Arc::new);
        let follows_secrets = secrets.clone().filter(|_| !places.has_files());
        if follows_secrets.is_some() {
            places.await_secrets();
        }
        let shared = Arc::new(Shared {
            engine,
            log,
            store,
            places,
            projects,
            manifests,
            rules,
            gates,
            plans,
            every,
            board,
            unwritten: Unwritten::default(),
            depending: Depending::default(),
            turns: Turns::default(),
            watching,
            reconciles: Reconciles::default(),
            requests,
            looks: Looks::default(),
            told: broadcast::Sender::new(TOLD_KEPT),
        });
        let (settled, is_settled) = oneshot::channel();
        let (supervisor, _) = Actor::spawn(None, Supervisor, (Arc::clone(&shared), settled))
            .await
            .map_err(|_| EngineError::Stopped)?;
        let mut feeding = JoinSet::new();
        let to = supervisor.clone();
        feeding.spawn(async move {
            while let Some(event) = events.recv().await {
                drop(to.send_message(SupervisorMessage::Store(event)));
            }
        });
        let to = supervisor.clone();
        feeding.spawn(async move {
            while let Some(key) = stirred.recv().await {
                drop(to.send_message(SupervisorMessage::Stirred(key)));
            }
        });
        if shared.store.is_shared() {
            feeding.spawn(announce(Arc::clone(&shared), happening));
        }
        let (asked, to) = (Arc::clone(&shared), supervisor.clone());
        feeding.spawn(async move {
            asked.places.keep(&asked.engine, || drop(to.send_message(SupervisorMessage::Places))).await;
        });
        if let Some(namespace) = follows_secrets {
            let places = shared.places.clone();
            feeding.spawn(async move { places.follow_secrets(namespace).await });
        }
        if let Some(namespace) = secrets {
            feeding.spawn(given::hear(
                cluster,
                namespace,
                given,
                Arc::clone(&shared.manifests),
                supervisor.clone(),
            ));
        }
        is_settled.await.map_err(|_| EngineError::Stopped)?;
        if !every.is_zero() {
            feeding.spawn(look_regularly(Arc::clone(&shared), every, supervisor.clone()));
        }
        // By now it is known what they may write.
        let left_alone = go_on(&shared.engine, &shared.places).await?;
        let serving = Serving { shared, supervisor };
        Ok(Self { serving, left_alone, _feeding: feeding })
    }

    /// What they are asked through.
    pub fn serving(&self) -> Serving {
        self.serving.clone()
    }

    /// What is known of all applications.
    pub fn board(&self) -> &Board {
        &self.serving.shared.board
    }

    /// Ends all actors, and returns when none of them writes any more. What was under way is gone on with next time.
    pub async fn stop(self) {
        self.serving.shared.manifests.stop();
        let _ = self.serving.supervisor.stop_and_wait(None, None).await;
    }
}

/// Goes on with the operations that are open in the log; those that this process cannot go on with, and why. Those on declared
/// clusters are gone on with by their applications, when their cluster has answered.
async fn go_on(engine: &Engine, places: &Places) -> Result<Vec<String>, ServiceError> {
    let mut left_alone = Vec::new();
    let own = places.own().to_string();
    for open in engine.find(Lookup::open()).await?.into_iter().filter(|open| open.destination == own) {
        match engine.resume(open.operation).await {
            // It came to its end meanwhile.
            Ok(()) | Err(EngineError::AlreadyFinished { .. }) => {}
            Err(error) => {
                left_alone.push(format!("operation {} of {}: {error}", open.operation, open.application));
            }
        }
    }
    Ok(left_alone)
}

async fn look_regularly(shared: Arc<Shared>, every: Duration, to: ActorRef<SupervisorMessage>) {
    loop {
        tokio::time::sleep(every).await;
        let (applications, sources) = in_use(&shared.board);
        shared.manifests.keep_only(applications, sources).await;
        if let Some(files) = shared.manifests.files().cloned() {
            match tokio::task::spawn_blocking(move || Globals::of_files(&files)).await {
                Ok(Ok(globals)) => {
                    drop(to.send_message(SupervisorMessage::Globals(GlobalsTold::Files(globals))));
                }
                Ok(Err(error)) => tracing::warn!(%error, "global projects are those read before"),
                Err(error) => tracing::warn!(%error, "reading the global projects met a fault"),
            }
        }
        let addresses = shared.manifests.look(None).await;
        if !addresses.is_empty() {
            drop(to.send_message(SupervisorMessage::Moved { addresses, but: None }));
        }
    }
}

/// All applications, with their sources and those of operations that are asked for.
fn in_use(board: &Board) -> (BTreeSet<AppKey>, Vec<ApplicationSource>) {
    let (mut applications, mut sources) = (BTreeSet::new(), Vec::new());
    for (key, application) in board.all() {
        applications.insert(key);
        let asked = application.operation.as_ref().and_then(|asked| asked.sync.as_ref());
        let asked = asked.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        sources.extend(application.sources().iter().chain(asked).cloned());
    }
    (applications, sources)
}

struct Supervisor;

struct Child {
    actor: Option<ActorRef<AppMessage>>,
    problem: Option<String>,
    failures: u32,
}

struct SupervisorState {
    shared: Arc<Shared>,
    children: BTreeMap<AppKey, Child>,
    linked: HashMap<ActorId, AppKey>,
    settled: Option<oneshot::Sender<()>>,
    /// When it is tried again to let projects go; there is one at most.
    releases_again: Option<AbortHandle>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMessage;
    type State = SupervisorState;
    type Arguments = (Arc<Shared>, oneshot::Sender<()>);

    async fn pre_start(
        &self,
        _: ActorRef<SupervisorMessage>,
        (shared, settled): Self::Arguments,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let settled = Some(settled);
        Ok(SupervisorState {
            shared,
            children: BTreeMap::new(),
            linked: HashMap::new(),
            settled,
            releases_again: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMessage>,
        message: SupervisorMessage,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Store(event) => state.happened(&myself, event).await,
            SupervisorMessage::Stirred(key) => state.tell(&key, AppMessage::Stirred),
            SupervisorMessage::Related(keys) => state.tell_related(&keys),
            SupervisorMessage::Moved { addresses, but } => state.moved(&addresses, but.as_ref()),
            SupervisorMessage::Places => state.places_are(),
            SupervisorMessage::ProjectLeft => state.release_projects(&myself),
            SupervisorMessage::Globals(told) => {
                state.look_at_projects(&state.shared.projects.set_globals(told));
            }
            SupervisorMessage::Compare { key, level } => state.tell(&key, AppMessage::Compare(level)),
            SupervisorMessage::Sync { key, asked, plan, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Sync { asked, plan, reply });
            }
            SupervisorMessage::Approve { key, hash, given, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Approve { hash, given, reply });
            }
            SupervisorMessage::Doubt { key } => state.tell(&key, AppMessage::Doubt),
            SupervisorMessage::Terminate { key, by, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Terminate { by, reply });
            }
            SupervisorMessage::Delete { key, cascade, by, reason, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Delete { cascade, by, reason, reply });
            }
            SupervisorMessage::Rollback { key, id, prune, asker, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Rollback { id, prune, asker, reply });
            }
            SupervisorMessage::Run { key, operation, asked, tell } => {
                state.run(&key, operation, asked, tell);
            }
            SupervisorMessage::TakeBack { key, operation } => {
                state.tell(&key, AppMessage::TakeBack { operation });
            }
            SupervisorMessage::StopRun { key, operation, by, reply } => {
                state.stop_run(&key, (operation, by), reply);
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        myself: ActorRef<SupervisorMessage>,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        end_children(myself.get_cell()).await;
        state.shared.write_what_is_left().await;
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMessage>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(key) = state.linked.remove(&cell.get_id()) {
                    state.failed(&myself, &key, &error.to_string()).await;
                }
            }
            SupervisionEvent::ActorTerminated(cell, _, _) => drop(state.linked.remove(&cell.get_id())),
            _ => {}
        }
        Ok(())
    }
}

impl SupervisorState {
    fn actor(&self, key: &AppKey) -> Option<&ActorRef<AppMessage>> {
        self.children.get(key)?.actor.as_ref()
    }

    /// Passes on what somebody waits for the answer of.
    fn pass_on(&self, key: &AppKey, reply: Answer, message: impl FnOnce(Answer) -> AppMessage) {
        match self.actor(key) {
            Some(actor) => drop(actor.send_message(message(reply))),
            None => drop(
                reply.send(Err(format!("application {key} is left alone after a fault; see its conditions"))),
            ),
        }
    }

    /// Passes on which operation a progressive sync wants.
    fn run(
        &self,
        key: &AppKey,
        operation: OperationId,
        asked: Box<OperationRequest>,
        tell: UnboundedSender<ChildNews>,
    ) {
        let problem = match self.children.get(key) {
            Some(Child { actor: Some(actor), .. }) => {
                return drop(actor.send_message(AppMessage::Run { operation, asked, tell }));
            }
            Some(_) => format!("application {key} is left alone after a fault; see its conditions"),
            None => format!("application {key} is not there"),
        };
        // It may come, or change.
        let _ = tell.send(ChildNews::Failed(CallError::transient(problem)));
    }

    /// Passes on which operation is to be over. Its application may be gone.
    fn stop_run(&self, key: &AppKey, (operation, by): (OperationId, String), reply: Answer) {
        match self.actor(key) {
            Some(actor) => drop(actor.send_message(AppMessage::StopRun { operation, by, reply })),
            None => drop(tokio::spawn(end_in_engine(Arc::clone(&self.shared), (operation, by), reply))),
        }
    }

    fn tell_related(&self, keys: &BTreeSet<AppKey>) {
        keys.iter().for_each(|key| self.tell(key, AppMessage::Related));
    }

    fn tell(&self, key: &AppKey, message: AppMessage) {
        if let Some(actor) = self.actor(key) {
            drop(actor.send_message(message));
        }
    }

    async fn happened(&mut self, myself: &ActorRef<SupervisorMessage>, event: StoreEvent) {
        match event {
            StoreEvent::Applied(stored) => {
                let key = AppKey::of(&stored.application);
                match self.children.get_mut(&key) {
                    Some(Child { actor: Some(actor), problem, .. }) => {
                        problem.clone_from(&stored.problem);
                        drop(actor.send_message(AppMessage::Changed(stored)));
                    }
                    _ => self.begin(myself, stored, 0).await,
                }
            }
            StoreEvent::Overwritten { key, ended } => self.tell(&key, AppMessage::Overwritten(ended)),
            StoreEvent::Gone(key) => {
                if let Some(actor) = self.children.remove(&key).and_then(|child| child.actor) {
                    let _ = actor.stop_and_wait(None, None).await;
                }
                self.shared.watching.forget(&key);
                self.shared.board.remove(&key);
                self.shared.unwritten.remove(&key);
                self.tell_related(&self.shared.depending.related(&key));
                self.shared.depending.set(&key, BTreeSet::new());
                self.release_projects(myself);
                if let Err(error) = self.shared.store.forget(&key).await {
                    tracing::warn!(application = %key, %error, "an application that is gone is still known");
                }
            }
            StoreEvent::Projects(set) => {
                self.look_at_projects(&self.shared.projects.set(set));
                self.release_projects(myself);
            }
            StoreEvent::Problems(problems) => self.shared.board.set_problems(problems),
            StoreEvent::Settled => {
                let Some(settled) = self.settled.take() else { return };
                // Not before: whoever asks for thousands would wait until the first of them have been worked on.
                for actor in self.children.values().filter_map(|child| child.actor.as_ref()) {
                    drop(actor.send_message(AppMessage::Begin));
                }
                let _ = settled.send(());
                self.release_projects(myself);
            }
        }
    }

    async fn begin(&mut self, myself: &ActorRef<SupervisorMessage>, stored: Box<Stored>, failures: u32) {
        let (key, problem) = (AppKey::of(&stored.application), stored.problem.clone());
        let (shared, is_own) = (Arc::clone(&self.shared), failures > 0);
        let arguments = AppArguments { shared, stored, is_own, supervisor: myself.clone() };
        let begun = Actor::spawn_linked(None, ApplicationActor, arguments, myself.get_cell()).await;
        let actor = match begun {
            Ok((actor, _)) => {
                if self.settled.is_none() {
                    drop(actor.send_message(AppMessage::Begin));
                }
                self.linked.insert(actor.get_id(), key.clone());
                Some(actor)
            }
            Err(error) => {
                tracing::error!(application = %key, %error, "the actor of an application cannot begin");
                None
            }
        };
        self.children.insert(key, Child { actor, problem, failures });
    }

    /// Begins an actor anew, from what it had kept; not for ever.
    async fn failed(&mut self, myself: &ActorRef<SupervisorMessage>, key: &AppKey, error: &str) {
        let Some(child) = self.children.get_mut(key) else { return };
        child.failures = child.failures.saturating_add(1);
        let (failures, problem) = (child.failures, child.problem.clone());
        tracing::error!(application = %key, %error, failures, "the actor of an application has failed");
        let Some(application) = self.shared.board.get(key) else { return };
        let mut application = application.as_ref().clone();
        if failures <= FAILURES_MAX {
            return self.begin(myself, Box::new(Stored { application, problem, lost: None }), failures).await;
        }
        child.actor = None;
        let message = format!("it met a fault {failures} times and is left alone until it changes: {error}");
        let found = [(ConditionType::UnknownError, message)];
        let kinds = [ConditionType::UnknownError];
        conditions::set(&mut application.status.conditions, &kinds, found, SystemClock.now());
        self.shared.board.post(key, Arc::new(application), Deployments::default());
    }

    /// Applications of other clusters are looked at again.
    fn places_are(&self) {
        let is_elsewhere = |key: &AppKey| {
            let application = self.shared.board.get(key);
            application.is_some_and(|one| self.shared.places.is_elsewhere(&one.spec.destination))
        };
        for (key, child) in &self.children {
            if let Some(actor) = child.actor.as_ref().filter(|_| is_elsewhere(key)) {
                drop(actor.send_message(AppMessage::Compare(Level::Latest)));
            }
        }
    }

    /// Lets the projects go that are being deleted and that no application names any more. Not before all applications are known.
    fn release_projects(&mut self, myself: &ActorRef<SupervisorMessage>) {
        if self.settled.is_some() {
            return;
        }
        let named = || {
            let all = self.shared.board.all().into_iter();
            all.map(|(_, application)| projects::name_of(&application).to_owned()).collect()
        };
        let released = self.shared.projects.to_release(named);
        if let Some(before) = self.releases_again.take() {
            before.abort();
        }
        if !released.is_empty() {
            let again = myself.send_after(AGAIN_AFTER, || SupervisorMessage::ProjectLeft);
            self.releases_again = Some(again.abort_handle());
        }
        for project in released {
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                if let Err(error) = shared.store.release_project(&project).await {
                    let project = &project.metadata.name;
                    tracing::warn!(project, %error, "a project that no application names stays, as its finalizer cannot be taken off; it is tried again");
                }
            });
        }
    }

    /// Applications are looked at again whose projects say something else now.
    fn look_at_projects(&self, changed: &BTreeSet<String>) {
        for (key, child) in &self.children {
            let is_of = |application: &Arc<Application>| changed.contains(projects::name_of(application));
            if let Some(actor) =
                child.actor.as_ref().filter(|_| self.shared.board.get(key).as_ref().is_some_and(is_of))
            {
                drop(actor.send_message(AppMessage::Compare(Level::Latest)));
            }
        }
    }

    fn moved(&self, addresses: &[Address], but: Option<&AppKey>) {
        let addresses: BTreeSet<&Address> = addresses.iter().collect();
        for (key, child) in &self.children {
            let uses_one = || {
                let application = self.shared.board.get(key)?;
                let manifests = &self.shared.manifests;
                let is_one = |address: Address| addresses.contains(&address);
                let mut used = application.sources().iter().filter_map(|source| manifests.address(source));
                let beside = || manifests.fetched_for(key).into_iter().map(|used| used.address);
                (used.any(is_one) || beside().any(is_one)).then_some(())
            };
            if but != Some(key)
                && let Some(actor) = &child.actor
                && uses_one().is_some()
            {
                drop(actor.send_message(AppMessage::Compare(Level::Latest)));
            }
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
