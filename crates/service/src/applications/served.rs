//! All applications of a process: what serves them, from its beginning to its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tidegate_executor::{Engine, EngineError, Permits};
use tidegate_health::HealthRules;
use tidegate_model::argo::ApplicationSource;
use tidegate_oplog::{Log, Lookup};
use tidegate_source::Reach;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

use super::announcing::announce;
use super::asked::GitRequests;
use super::board::Board;
use super::depending::Depending;
use super::given::{self, Given};
use super::manifests::{Manifests, Sourcing};
use super::messages::SupervisorMessage;
use super::places::Places;
use super::projects::globals::{Globals, GlobalsTold};
use super::projects::{self, Projects};
use super::pushed::Looks;
use super::reconciles::Reconciles;
use super::serving::Serving;
use super::shared::{Moved, Shared, Unwritten};
use super::store::{AppKey, ApplicationStore, StoreEvent};
use super::supervisor::supervise;
use super::turns::Turns;
use super::watching::Watchings;
use crate::error::ServiceError;
use crate::gates::GateFile;
use crate::plans::Plans;
use crate::state_dir::StateDir;

/// So many pushes whoever follows may be behind.
const TOLD_KEPT: usize = 64;

/// What goes by time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// How often all are looked at though nothing is known to have changed; zero for never.
    pub every: Duration,
    /// How long a sync waits after every wave but the last, instead of for evidence of health; nothing where it does not.
    pub wave_delay: Option<Duration>,
}

impl From<Duration> for Pace {
    fn from(every: Duration) -> Self {
        Self { every, wave_delay: None }
    }
}

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
        (rules, gates, Pace { every, wave_delay }): (HealthRules, GateFile, Pace),
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
        let (watching, stirred) = Watchings::new();
        let (moved, has_moved) = unbounded_channel();
        let secrets = sourcing.secrets.clone();
        let manifests = Arc::new(Manifests::new(store.base(), reach, state_dir.working(), sourcing));
        manifests.forget_unused();
        let cluster = Arc::clone(places.cluster());
        let given = match &secrets {
            Some(namespace) => given::list(cluster.as_ref(), namespace).await,
            None => Given::default(),
        };
        manifests.give(given::said_by(&given));
        let projects = Arc::new(
            Projects::new(store.home())
                .with_accounts(places.accounts())
                .with_repositories(manifests.repositories().0),
        );
        projects.set_globals(GlobalsTold::Files(globals));
        projects.set_globals(GlobalsTold::Cluster(given.globals()));
        engine.set_permits(Arc::clone(&projects) as Arc<dyn Permits>);
        let events = store.watch();
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
            wave_delay,
            board,
            unwritten: Unwritten::default(),
            depending: Depending::default(),
            turns: Turns::default(),
            watching,
            reconciles: Reconciles::default(),
            requests,
            looks: Looks::default(),
            moved,
            told: broadcast::Sender::new(TOLD_KEPT),
            looked: watch::Sender::default(),
        });
        let (supervisor, is_settled) = supervise(Arc::clone(&shared)).await?;
        let mut feeding = feed(&shared, &supervisor, (events, stirred, has_moved));
        if shared.store.is_shared() {
            feeding.spawn(announce(Arc::clone(&shared), happening));
        }
        if let Some(namespace) = follows_secrets {
            let places = shared.places.clone();
            feeding.spawn(async move { places.follow_secrets(namespace).await });
        }
        if let Some(namespace) = secrets {
            let hearing = given::hear(cluster, namespace, given, Arc::clone(&shared), supervisor.clone());
            feeding.spawn(hearing);
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

/// Tells the supervisor what changes: resources, objects of theirs, and what is known of their clusters.
fn feed(
    shared: &Arc<Shared>,
    supervisor: &ActorRef<SupervisorMessage>,
    (events, stirred, has_moved): (
        UnboundedReceiver<StoreEvent>,
        UnboundedReceiver<AppKey>,
        UnboundedReceiver<Moved>,
    ),
) -> JoinSet<()> {
    let mut feeding = JoinSet::new();
    feeding.spawn(pass_on(events, SupervisorMessage::Store, supervisor.clone()));
    feeding.spawn(pass_on(stirred, SupervisorMessage::Stirred, supervisor.clone()));
    feeding.spawn(pass_on(has_moved, SupervisorMessage::Moved, supervisor.clone()));
    let (asked, to) = (Arc::clone(shared), supervisor.clone());
    feeding.spawn(async move {
        asked.places.keep(&asked.engine, || drop(to.send_message(SupervisorMessage::Places))).await;
    });
    feeding
}

async fn pass_on<T>(
    mut told: UnboundedReceiver<T>,
    message: fn(T) -> SupervisorMessage,
    to: ActorRef<SupervisorMessage>,
) {
    while let Some(news) = told.recv().await {
        drop(to.send_message(message(news)));
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
        shared.tell_moved(shared.manifests.look(None).await, None);
    }
}

/// All applications, with their sources and those of operations that are asked for.
fn in_use(board: &Board) -> (BTreeSet<AppKey>, Vec<(ApplicationSource, String)>) {
    let (mut applications, mut sources) = (BTreeSet::new(), Vec::new());
    for (key, application) in board.all() {
        applications.insert(key);
        let asked = application.operation.as_ref().and_then(|asked| asked.sync.as_ref());
        let asked = asked.into_iter().flat_map(|sync| sync.source.iter().chain(&sync.sources));
        let project = projects::name_of(&application);
        let with_project = |source: &ApplicationSource| (source.clone(), project.to_owned());
        sources.extend(application.sources().iter().chain(asked).map(with_project));
    }
    (applications, sources)
}
