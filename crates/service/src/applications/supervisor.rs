//! All applications of a process: their actors, and who is told what.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, ActorStatus, RpcReplyPort, SupervisionEvent};
use tidegate_application::pushes::Push;
use tidegate_application::refresh::Level;
use tidegate_application::{conditions, credentials};
use tidegate_executor::effects::ObjectDifference;
use tidegate_executor::{Clock as _, Counted, Engine, EngineError, Permits, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::argo::{Application, ApplicationSource, ConditionType, OperationRequest};
use tidegate_model::{Cascade, ResourceSelector, Warning};
use tidegate_oplog::{Log, Lookup};
use tidegate_source::{Address, Reach};
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;

use super::actor::{AppArguments, ApplicationActor};
use super::announcing::announce;
use super::board::{Board, Found};
use super::comparing;
use super::depending::Depending;
use super::given::{self, Given};
use super::listing::{self, OrderBy, Page, Wanted};
use super::manifests::{Manifests, Sourcing};
use super::messages::{AppMessage, SupervisorMessage};
use super::places::Places;
use super::projects::{self, ProjectSet, Projects};
use super::pushed::{self, Looks};
use super::reconciles::Reconciles;
use super::shared::Shared;
use super::store::{AppKey, ApplicationStore, StoreEvent, Stored};
use super::watching::Watchings;
use crate::error::ServiceError;
use crate::gates::GateFile;
use crate::lines::WindowLine;
use crate::simulated;
use crate::state_dir::StateDir;

/// So often an actor that fails is begun anew, before its application is left alone until it changes.
const FAILURES_MAX: u32 = 3;

/// All applications of a process, served.
pub struct Applications {
    serving: Serving,
    /// Open operations that this process cannot go on with, and why.
    pub left_alone: Vec<String>,
    /// What feeds the supervisor; ends with it.
    _feeding: JoinSet<()>,
}

/// What applications are asked through. Cheap to clone.
#[derive(Clone)]
pub struct Serving {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMessage>,
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
        (state_dir, store): (StateDir, Arc<dyn ApplicationStore>),
        places: Places,
        (rules, gates, every): (HealthRules, GateFile, Duration),
        sourcing: Sourcing,
    ) -> Result<Self, ServiceError> {
        let mut reach = Reach::new(state_dir.repositories());
        if let Some(files) = &sourcing.files {
            reach.credentials = files.read()?;
        }
        // From before anything is gone on with.
        let happening = engine.events_from_now().await?;
        let (watching, mut stirred) = Watchings::new();
        let secrets = sourcing.secrets.clone();
        let manifests = Arc::new(Manifests::new(store.base(), reach, state_dir.working(), sourcing));
        let cluster = Arc::clone(places.cluster());
        let given = match &secrets {
            Some(namespace) => given::list(cluster.as_ref(), namespace).await,
            None => Given::default(),
        };
        manifests.give(given::said_by(&given));
        let projects = Arc::new(Projects::new(store.home()));
        engine.set_permits(Arc::clone(&projects) as Arc<dyn Permits>);
        let mut events = store.watch();
        let board = Board::default();
        let follows_secrets = secrets.clone().filter(|_| !places.has_files());
        if follows_secrets.is_some() {
            places.await_secrets();
        }
        let shared = Arc::new(Shared {
            engine,
            log,
            state_dir,
            store,
            places,
            projects,
            manifests,
            rules,
            gates,
            every,
            board,
            depending: Depending::default(),
            watching,
            reconciles: Reconciles::default(),
            looks: Looks::default(),
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

    /// Ends all actors. What was under way is gone on with next time.
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
        shared.manifests.keep_only(sources_in_use(&shared.board)).await;
        let addresses = shared.manifests.look().await;
        if !addresses.is_empty() {
            drop(to.send_message(SupervisorMessage::Moved { addresses, but: None }));
        }
    }
}

/// The sources of all applications, and those of operations that are asked for.
fn sources_in_use(board: &Board) -> Vec<ApplicationSource> {
    let of = |(_, application): (AppKey, Arc<Application>)| {
        let asked = application.operation.as_ref().and_then(|asked| asked.sync.as_ref());
        let asked = asked.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        application.sources().iter().chain(asked).cloned().collect::<Vec<_>>()
    };
    board.all().into_iter().flat_map(of).collect()
}

impl Serving {
    /// Why nothing is done for the applications any more: the engine has failed, or what looks after them has ended. `None`
    /// while all is well.
    pub fn failure(&self) -> Option<EngineError> {
        let over = [ActorStatus::Stopping, ActorStatus::Stopped].contains(&self.supervisor.get_status());
        self.shared.engine.failure().or(over.then_some(EngineError::Stopped))
    }

    /// The applications, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> Found {
        self.shared.board.find(text)
    }

    /// A page of the applications that are wanted.
    pub fn page(
        &self,
        wanted: &Wanted,
        order: (OrderBy, bool),
        after: Option<&listing::Place>,
        limit: usize,
    ) -> Page {
        listing::page(self.shared.board.all(), wanted, order, after, limit)
    }

    /// All applications, by name.
    pub fn all(&self) -> Vec<(AppKey, Arc<Application>)> {
        self.shared.board.all()
    }

    /// An application as it is known here; what of it may be shown, [`Self::shown`] says.
    pub fn application(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.shared.board.get(key)
    }

    /// The application of this NAMESPACE/NAME, without credentials.
    pub fn shown(&self, text: &str) -> Option<Application> {
        let (namespace, name) = text.split_once('/')?;
        let key = AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Some(credentials::shown(self.application(&key)?.as_ref()))
    }

    /// How long comparisons took, by the namespace of the application and its cluster.
    pub fn reconciles(&self) -> Vec<((String, String), Counted)> {
        self.shared.reconciles.counted()
    }

    /// What cannot be read and belongs to no application.
    pub fn problems(&self) -> Vec<String> {
        self.shared.board.problems()
    }

    /// The applications that change from now on, those that go included. Whoever is too slow is told so.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.shared.board.changes()
    }

    fn one(&self, text: &str) -> Result<AppKey, ServiceError> {
        let found = self.find(Some(text)).applications;
        match found.as_slice() {
            [only] => Ok(AppKey::of(only)),
            [] => Err(ServiceError::refused(format!(
                "there is no application {text}; `tidegate app list` shows those there are"
            ))),
            _ => Err(ServiceError::refused(format!(
                "there are several applications {text}; write NAMESPACE/NAME"
            ))),
        }
    }

    /// Asks for an operation of the application that is meant. Returns when that is durable.
    pub async fn sync(&self, text: &str, asked: OperationRequest) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Sync { key, asked: Box::new(asked), reply }).await
    }

    /// Ends the operation of the application that is meant. Returns when that is durable.
    pub async fn terminate(&self, text: &str, by: String) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Terminate { key, by, reply }).await
    }

    /// Deletes the application that is meant. Returns when that is durable: then it is being deleted, or gone.
    pub async fn delete(&self, text: &str, cascade: Cascade) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Delete { key, cascade, reply }).await
    }

    /// Has the application that is meant go back to a sync of its history. Returns when that is durable.
    pub async fn rollback(
        &self,
        text: &str,
        id: Option<i64>,
        prune: bool,
        by: String,
    ) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        self.request(|reply| SupervisorMessage::Rollback { key, id, prune, by, reply }).await
    }

    /// What a sync of the application that is meant would change.
    pub async fn diff(
        &self,
        text: &str,
        revision: Option<String>,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let key = self.one(text)?;
        let gone = || ServiceError::refused(format!("application {key} is gone"));
        let application = self.shared.board.get(&key).ok_or_else(gone)?;
        comparing::differences(&self.shared, &application, revision).await.map_err(ServiceError::refused)
    }

    async fn request(&self, message: impl FnOnce(Answer) -> SupervisorMessage) -> Result<(), ServiceError> {
        let (reply, answer) = oneshot::channel();
        self.supervisor.send_message(message(reply.into())).map_err(|_| EngineError::Stopped)?;
        answer.await.map_err(|_| EngineError::Stopped)?.map_err(ServiceError::refused)
    }

    /// Deletes an object of the simulated cluster, where that is the one that is served.
    pub async fn delete_simulated(&self, object: &ResourceSelector) -> Result<(), ServiceError> {
        let places = &self.shared.places;
        if !places.is_simulated() {
            return Err(ServiceError::refused("the process at work serves no simulated cluster"));
        }
        simulated::delete(places.cluster().as_ref(), object).await
    }

    /// Whether sync windows let the application that is meant be synced now.
    pub fn window(&self, text: &str) -> Result<WindowLine, ServiceError> {
        let key = self.one(text)?;
        let gone = || ServiceError::refused(format!("application {key} is gone"));
        let application = self.shared.board.get(&key).ok_or_else(gone)?;
        let windows = self.shared.windows(&application);
        let now = SystemClock.now();
        let [automated, manual] = [false, true].map(|manual| windows.held(manual, now));
        let (is_automated, is_manual) = (automated.is_none(), manual.is_none());
        let reason = automated.map(|held| held.reason);
        Ok(WindowLine { automated: is_automated, manual: is_manual, reason })
    }

    /// Has the applications compared that pushes are about, after a look at their repositories. Returns how many these are.
    pub async fn pushed(&self, pushes: Vec<Push>) -> Result<u64, ServiceError> {
        let shared = Arc::clone(&self.shared);
        let find = move || pushed::meant(&pushes, &shared.board, &shared.manifests);
        let meant = tokio::task::spawn_blocking(find).await.map_err(|_| EngineError::Stopped)?;
        let all: BTreeSet<&AppKey> = meant.values().flatten().collect();
        let number = u64::try_from(all.len()).unwrap_or(u64::MAX);
        for (address, applications) in meant {
            self.shared.looks.begin(address, applications, &self.shared.manifests, &self.supervisor);
        }
        Ok(number)
    }

    /// Has the application that is meant compared.
    pub fn refresh(&self, text: &str, hard: bool) -> Result<(), ServiceError> {
        let key = self.one(text)?;
        let level = if hard { Level::Hard } else { Level::Forced };
        let message = SupervisorMessage::Compare { key, level };
        Ok(self.supervisor.send_message(message).map_err(|_| EngineError::Stopped)?)
    }
}

struct Supervisor;

/// Where an answer goes.
type Answer = RpcReplyPort<Result<(), String>>;

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
        Ok(SupervisorState { shared, children: BTreeMap::new(), linked: HashMap::new(), settled })
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
            SupervisorMessage::Stood(key) => state.tell_related(&key),
            SupervisorMessage::Related(keys) => {
                keys.iter().for_each(|key| state.tell(key, AppMessage::Related));
            }
            SupervisorMessage::Moved { addresses, but } => state.moved(&addresses, but.as_ref()),
            SupervisorMessage::Places => state.places_are(),
            SupervisorMessage::Compare { key, level } => state.tell(&key, AppMessage::Compare(level)),
            SupervisorMessage::Sync { key, asked, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Sync { asked, reply });
            }
            SupervisorMessage::Terminate { key, by, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Terminate { by, reply });
            }
            SupervisorMessage::Delete { key, cascade, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Delete { cascade, reply });
            }
            SupervisorMessage::Rollback { key, id, prune, by, reply } => {
                state.pass_on(&key, reply, |reply| AppMessage::Rollback { id, prune, by, reply });
            }
        }
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

    fn tell_related(&self, key: &AppKey) {
        for related in self.shared.depending.related(key) {
            self.tell(&related, AppMessage::Related);
        }
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
            StoreEvent::Gone(key) => {
                if let Some(actor) = self.children.remove(&key).and_then(|child| child.actor) {
                    let _ = actor.stop_and_wait(None, None).await;
                }
                self.shared.watching.forget(&key);
                self.shared.board.remove(&key);
                self.tell_related(&key);
                self.shared.depending.set(&key, BTreeSet::new());
                if let Err(error) = self.shared.store.forget(&key).await {
                    tracing::warn!(application = %key, %error, "an application that is gone is still known");
                }
            }
            StoreEvent::Projects(set) => self.projects_are(set),
            StoreEvent::Problems(problems) => self.shared.board.set_problems(problems),
            StoreEvent::Settled => {
                if let Some(settled) = self.settled.take() {
                    let _ = settled.send(());
                }
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
        self.shared.board.post(key, Arc::new(application));
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

    /// Applications are looked at again whose projects say something else now.
    fn projects_are(&self, set: ProjectSet) {
        let changed = self.shared.projects.set(set);
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
                let mut used =
                    application.sources().iter().map(|source| self.shared.manifests.address(source));
                used.any(|address| address.is_some_and(|address| addresses.contains(&address))).then_some(())
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
