//! Processes that run one after another on the same log and cluster, in virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::effects::cluster_identity;
use tidegate_executor::{
    Clock, Engine, EngineError, Event, EventCursor, RuntimeClock, StoredPlan, Targets, replay,
};
use tidegate_lifecycle::operation::{OperationView, Scope};
use tidegate_model::{Destination, OperationId, PlanApproval, SyncRequest, Timestamp};
use tidegate_oplog::{Inventories as _, MemoryLog};
use uuid::Uuid;

use crate::crash::{CrashCluster, CrashLog, CrashPoints};
use crate::operation_events::OperationEvents as _;
use crate::scenario::{Scenario, SyncSpec, UserAction, UserActionKind};

/// Start of the tests: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Clock of a world. Each new process picks up where the previous one left off.
#[derive(Default)]
pub struct WorldClock {
    now: Mutex<Option<RuntimeClock>>,
    stopped_at: Mutex<Option<Timestamp>>,
}

impl WorldClock {
    fn start(&self) {
        let from = self.stopped_at.lock().unwrap().unwrap_or(START);
        *self.now.lock().unwrap() = Some(RuntimeClock::starting_at(from));
    }

    fn stop(&self) {
        let now = self.now();
        *self.stopped_at.lock().unwrap() = Some(now);
        *self.now.lock().unwrap() = None;
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        match *self.now.lock().unwrap() {
            Some(clock) => clock.now(),
            None => self.stopped_at.lock().unwrap().unwrap_or(START),
        }
    }
}

/// State that outlives a process: the log's storage, the cluster, the time, and the received events.
pub struct World {
    /// The log.
    pub log: MemoryLog,
    /// The cluster.
    pub cluster: Arc<SimCluster>,
    clock: Arc<WorldClock>,
    operation_number: u128,
    /// Stored plan of the operation, if any.
    stored_plan: Mutex<Option<(SyncRequest, Targets)>>,
    subscriber: Mutex<Subscriber>,
}

/// Events of a subscriber that outlives the processes.
#[derive(Default)]
struct Subscriber {
    position: EventCursor,
    events: Vec<Event>,
}

/// Reason for the end of a process.
#[derive(Debug)]
pub enum ProcessEnd {
    /// The operation has finished.
    Finished(Box<OperationView>),
    /// The process has crashed.
    Crashed,
}

/// Maximum virtual time of a process. After that, it is waiting forever.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(100_000);
/// Delay before repeating a rejected request.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl World {
    /// Creates an empty cluster and an empty log.
    pub fn new(config: SimConfig) -> Self {
        let clock = Arc::new(WorldClock::default());
        let cluster = {
            let clock = Arc::clone(&clock);
            Arc::new(SimCluster::in_memory(config, SimClock::wall(move || clock.now())))
        };
        Self {
            log: MemoryLog::default(),
            cluster,
            clock,
            operation_number: 0,
            stored_plan: Mutex::default(),
            subscriber: Mutex::default(),
        }
    }

    /// Runs an operation without crashes.
    pub fn run(&mut self, sync: &SyncSpec) -> OperationView {
        self.operation_number += 1;
        self.run_current_operation(sync, &mut Vec::new())
    }

    /// Runs all operations of a scenario without crashes. Returns the last one, and the number of crash
    /// points in its process.
    pub fn run_scenario(&mut self, scenario: &Scenario) -> (OperationView, u64) {
        for sync in &scenario.setup_syncs {
            self.run(sync);
        }
        self.next_operation();
        let points = CrashPoints::crash_at(0);
        match self.run_process(&scenario.sync, &mut scenario.actions.clone(), &points) {
            ProcessEnd::Finished(view) => (*view, points.passed()),
            ProcessEnd::Crashed => unreachable!("this process never dies"),
        }
    }

    /// Sets the first number for operation IDs.
    pub fn number_from(&mut self, number: u128) {
        self.operation_number = number;
    }

    /// Returns the number of the newest operation.
    pub fn operation_number(&self) -> u128 {
        self.operation_number
    }

    /// Runs the current operation to its end, with user actions but without crashes.
    pub fn run_current_operation(&self, sync: &SyncSpec, script: &mut Vec<UserAction>) -> OperationView {
        match self.run_process(sync, script, &CrashPoints::crash_at(0)) {
            ProcessEnd::Finished(view) => *view,
            ProcessEnd::Crashed => unreachable!("this process never dies"),
        }
    }

    /// Stores a plan based on the current cluster, for later operations to execute.
    pub fn store_plan(&self, sync: &SyncSpec) -> StoredPlan {
        let (cluster, request) = (self.cluster.as_ref(), sync.request.clone());
        let known = cluster_identity(&request.destination)
            .and_then(|cluster| self.log.inventory(&cluster, &request.application).unwrap());
        let making = StoredPlan::create(cluster, request, sync.targets(), self.clock.now(), known.as_ref());
        let (kept, _) = making.now_or_never().expect("the simulated cluster responds immediately").unwrap();
        self.use_stored_plan(&kept);
        kept
    }

    /// Uses the given stored plan in later operations.
    pub fn use_stored_plan(&self, plan: &StoredPlan) {
        let approval = PlanApproval { by: "ann".to_owned(), reason: String::new(), at: self.clock.now() };
        *self.stored_plan.lock().unwrap() = Some(plan.clone().pin(vec![approval], false));
    }

    /// Clears the stored plan, so that later operations make their own.
    pub fn clear_stored_plan(&self) {
        *self.stored_plan.lock().unwrap() = None;
    }

    /// Sets the ID of the next operation, so that the next process starts a new operation.
    pub fn next_operation(&mut self) {
        self.operation_number += 1;
    }

    /// Runs a process that starts or continues the operation. Returns when the operation has finished or the
    /// process has crashed. Removes performed actions from the script.
    pub fn run_process(
        &self,
        sync: &SyncSpec,
        script: &mut Vec<UserAction>,
        points: &Arc<CrashPoints>,
    ) -> ProcessEnd {
        match self.run_engine(points, async |engine| self.drive_operation(engine, sync, script).await) {
            Some(view) => ProcessEnd::Finished(Box::new(view)),
            None => ProcessEnd::Crashed,
        }
    }

    /// Runs a process: an engine in this world, along with the given work. Returns the result of the work, or
    /// `None` if the process crashes.
    pub fn run_engine<T>(
        &self,
        points: &Arc<CrashPoints>,
        work: impl AsyncFnOnce(Engine) -> Result<T, EngineError>,
    ) -> Option<T> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let work = async {
            let engine = self.build_engine(points).await?;
            work(engine).await
        };
        let end = runtime.block_on(async {
            self.clock.start();
            let end = tokio::select! {
                biased;
                () = points.wait_for_crash() => None,
                end = tokio::time::timeout(PROCESS_TIMEOUT, work) => match end {
                    Ok(Ok(end)) => Some(end),
                    // Ignore the output of a crashing process.
                    _ if points.has_crashed() => None,
                    Ok(Err(error)) => panic!("{error}"),
                    Err(_) => panic!("the operation waits forever"),
                },
            };
            self.clock.stop();
            end
        });
        runtime.shutdown_background();
        end
    }

    async fn build_engine(&self, points: &Arc<CrashPoints>) -> Result<Engine, EngineError> {
        let inner = Arc::clone(&self.cluster) as Arc<dyn Cluster>;
        let cluster = Arc::new(CrashCluster { inner, points: Arc::clone(points) });
        let log = CrashLog { inner: self.log.clone(), points: Arc::clone(points) };
        let id = OperationId(Uuid::from_u128(self.operation_number));
        Engine::builder(Arc::new(log))
            .cluster(Destination::Simulated, cluster)
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .ids(Arc::new(move |_| id))
            .start()
            .await
    }

    async fn drive_operation(
        &self,
        engine: Engine,
        sync: &SyncSpec,
        script: &mut Vec<UserAction>,
    ) -> Result<OperationView, EngineError> {
        let id = OperationId(Uuid::from_u128(self.operation_number));
        let seen = self.subscriber.lock().unwrap().position.clone();
        let mut events = engine.all_events(seen);
        let known = self.log.summaries()?.into_iter().find(|summary| summary.operation == id);
        match known {
            Some(summary) if summary.finished_at.is_some() => return Ok(engine.inspect(id).await?.0),
            Some(_) => engine.resume(id).await?,
            None => {
                let kept = self.stored_plan.lock().unwrap().clone();
                let (request, targets) = kept.unwrap_or_else(|| (sync.request.clone(), sync.targets()));
                engine.submit(request, targets).await?;
            }
        }
        let waiting = engine.wait(id);
        tokio::pin!(waiting);
        loop {
            let asks_again = perform_action(&engine, id, script).await;
            tokio::select! {
                biased;
                view = &mut waiting => return match view {
                    // The operation finished before `wait` was called.
                    Err(EngineError::NotRunning { .. }) => Ok(engine.inspect(id).await?.0),
                    view => view,
                },
                Some(event) = events.next() => self.receive_event(event.unwrap()),
                () = tokio::time::sleep(RETRY_DELAY), if asks_again => {}
            }
        }
    }

    fn receive_event(&self, event: Event) {
        let mut subscriber = self.subscriber.lock().unwrap();
        subscriber.position.record(&event);
        subscriber.events.push(event);
    }

    /// Returns an error if the subscriber didn't receive each event of an operation exactly once. It
    /// connected to every process, resuming at its last position, and the remaining events come from the log.
    pub fn find_event_error(&self, operation: OperationId) -> Option<String> {
        let subscriber = self.subscriber.lock().unwrap();
        let mut received: Vec<Event> =
            subscriber.events.iter().filter(|event| event.operation == operation).cloned().collect();
        let after = received.last().map_or(0, |event| event.sequence);
        received.extend(replay(&self.log, operation, after).unwrap().unwrap().events);
        let recorded = replay(&self.log, operation, 0).unwrap().unwrap().events;
        (received != recorded).then(|| format!("received {received:#?}\nrecorded {recorded:#?}"))
    }
}

/// Performs the next user action if its trigger matches. Returns true if the engine asks for a retry. After
/// any other response, the action isn't repeated.
pub async fn perform_action(engine: &Engine, id: OperationId, script: &mut Vec<UserAction>) -> bool {
    let Some(next) = script.first().copied() else { return false };
    let Ok((view, _)) = engine.inspect(id).await else { return false };
    if !(next.trigger)(&view) {
        return false;
    }
    let done = match next.kind {
        UserActionKind::Terminate => engine.terminate(id, "test").await,
        UserActionKind::Pause => engine.pause(id, "test", "").await,
        UserActionKind::Resume => engine.unpause(id, "test").await,
        UserActionKind::ApprovePrunes => engine.confirm_prune(id, "test").await,
        UserActionKind::Override(what, task) => {
            let scope = Scope::parse(Some(task), None, None, None).expect("tasks have names");
            engine.override_tasks(id, what, scope, "test", "it is in the way").await
        }
    };
    let asks_again =
        matches!(&done, Err(EngineError::Rejected { reason, .. }) if reason.contains("try again"));
    if !asks_again && matches!(done, Ok(()) | Err(EngineError::Rejected { .. })) {
        script.remove(0);
    }
    asks_again
}
