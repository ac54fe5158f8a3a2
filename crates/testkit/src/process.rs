//! One process after the other on the same log and the same cluster, on virtual time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_cluster::Cluster;
use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::effects::cluster_of;
use tidegate_executor::{Clock, Engine, EngineError, Event, KeptPlan, RuntimeClock, Seen, Targets, replay};
use tidegate_lifecycle::operation::{OperationView, Scope};
use tidegate_model::{Destination, OperationId, PlanApproval, SyncRequest, Timestamp};
use tidegate_oplog::{Inventories as _, MemoryLog};
use uuid::Uuid;

use crate::crash::{CrashCluster, CrashLog, Points};
use crate::recorded::Recorded as _;
use crate::scenario::{Act, Sync, What};

/// When the tests begin: 2026-01-01T00:00:00Z.
pub const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// The clock of a world: it goes on where the last process left it.
#[derive(Default)]
pub struct WorldClock {
    now: Mutex<Option<RuntimeClock>>,
    left_at: Mutex<Option<Timestamp>>,
}

impl WorldClock {
    fn start(&self) {
        let from = self.left_at.lock().unwrap().unwrap_or(START);
        *self.now.lock().unwrap() = Some(RuntimeClock::starting_at(from));
    }

    fn stop(&self) {
        let now = self.now();
        *self.left_at.lock().unwrap() = Some(now);
        *self.now.lock().unwrap() = None;
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        match *self.now.lock().unwrap() {
            Some(clock) => clock.now(),
            None => self.left_at.lock().unwrap().unwrap_or(START),
        }
    }
}

/// What outlives a process: the log's storage, the cluster, the time, and what people remember.
pub struct World {
    /// The log.
    pub log: MemoryLog,
    /// The cluster.
    pub cluster: Arc<SimCluster>,
    clock: Arc<WorldClock>,
    submitted: u128,
    /// What the operation carries out, where that was kept before.
    kept: Mutex<Option<(SyncRequest, Targets)>>,
    heard: Mutex<Heard>,
}

/// What somebody was told who outlives processes.
#[derive(Default)]
struct Heard {
    seen: Seen,
    events: Vec<Event>,
}

/// How a process ended.
#[derive(Debug)]
pub enum End {
    /// The operation is over.
    Finished(Box<OperationView>),
    /// The process died.
    Died,
}

/// Longest virtual time one process may need; reaching it means that something waits for ever.
const PATIENCE: Duration = Duration::from_secs(100_000);
/// When whoever was told to try again does so.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl World {
    /// An empty cluster and an empty log.
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
            submitted: 0,
            kept: Mutex::default(),
            heard: Mutex::default(),
        }
    }

    /// Runs an operation undisturbed.
    pub fn run(&mut self, sync: &Sync) -> OperationView {
        self.submitted += 1;
        self.finish(sync, &mut Vec::new())
    }

    /// Operations get ids counted from here.
    pub fn number_from(&mut self, number: u128) {
        self.submitted = number;
    }

    /// The number of the newest operation.
    pub fn submitted(&self) -> u128 {
        self.submitted
    }

    /// Runs the begun operation undisturbed, with people.
    pub fn finish(&self, sync: &Sync, script: &mut Vec<Act>) -> OperationView {
        match self.process(sync, script, &Points::dying_at(0)) {
            End::Finished(view) => *view,
            End::Died => unreachable!("this process never dies"),
        }
    }

    /// Keeps a plan of the cluster as it is. The operations from now on carry out that plan and no other.
    pub fn keep_plan(&self, sync: &Sync) -> KeptPlan {
        let (cluster, request) = (self.cluster.as_ref(), sync.request.clone());
        let known = cluster_of(&request.destination)
            .and_then(|cluster| self.log.inventory(&cluster, &request.application).unwrap());
        let making = KeptPlan::make(cluster, request, sync.targets(), self.clock.now(), known.as_ref());
        let (kept, _) = making.now_or_never().expect("the simulated cluster answers at once").unwrap();
        self.keep(&kept);
        kept
    }

    /// The operations from now on carry out this plan and no other.
    pub fn keep(&self, kept: &KeptPlan) {
        let approval = PlanApproval { by: "ann".to_owned(), reason: String::new(), at: self.clock.now() };
        *self.kept.lock().unwrap() = Some(kept.clone().pin(vec![approval], false));
    }

    /// The operations from now on make plans of their own.
    pub fn forget_plan(&self) {
        *self.kept.lock().unwrap() = None;
    }

    /// A new operation is begun by the next process.
    pub fn next_operation(&mut self) {
        self.submitted += 1;
    }

    /// One process: begins the operation, or goes on with it, until it is over or the process dies. Acts that were
    /// carried out are taken from the script.
    pub fn process(&self, sync: &Sync, script: &mut Vec<Act>, points: &Arc<Points>) -> End {
        match self.live(points, async |engine| self.drive(engine, sync, script).await) {
            Some(view) => End::Finished(Box::new(view)),
            None => End::Died,
        }
    }

    /// One process: an engine in this world, and what is done with it, until that is done; `None` when it dies.
    pub fn live<T>(
        &self,
        points: &Arc<Points>,
        work: impl AsyncFnOnce(Engine) -> Result<T, EngineError>,
    ) -> Option<T> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let work = async {
            let engine = self.engine(points).await?;
            work(engine).await
        };
        let end = runtime.block_on(async {
            self.clock.start();
            let end = tokio::select! {
                biased;
                () = points.death() => None,
                end = tokio::time::timeout(PATIENCE, work) => match end {
                    Ok(Ok(end)) => Some(end),
                    // The last words of a dying process.
                    _ if points.is_dead() => None,
                    Ok(Err(error)) => panic!("{error}"),
                    Err(_) => panic!("the operation waits for ever"),
                },
            };
            self.clock.stop();
            end
        });
        runtime.shutdown_background();
        end
    }

    async fn engine(&self, points: &Arc<Points>) -> Result<Engine, EngineError> {
        let inner = Arc::clone(&self.cluster) as Arc<dyn Cluster>;
        let cluster = Arc::new(CrashCluster { inner, points: Arc::clone(points) });
        let log = CrashLog { inner: self.log.clone(), points: Arc::clone(points) };
        let id = OperationId(Uuid::from_u128(self.submitted));
        Engine::builder(Arc::new(log))
            .cluster(Destination::Simulated, cluster)
            .clock(Arc::clone(&self.clock) as Arc<dyn Clock>)
            .ids(Arc::new(move |_| id))
            .start()
            .await
    }

    async fn drive(
        &self,
        engine: Engine,
        sync: &Sync,
        script: &mut Vec<Act>,
    ) -> Result<OperationView, EngineError> {
        let id = OperationId(Uuid::from_u128(self.submitted));
        let seen = self.heard.lock().unwrap().seen.clone();
        let mut events = engine.all_events(seen);
        let known = self.log.summaries()?.into_iter().find(|summary| summary.operation == id);
        match known {
            Some(summary) if summary.finished_at.is_some() => return Ok(engine.inspect(id).await?.0),
            Some(_) => engine.resume(id).await?,
            None => {
                let kept = self.kept.lock().unwrap().clone();
                let (request, targets) = kept.unwrap_or_else(|| (sync.request.clone(), sync.targets()));
                engine.submit(request, targets).await?;
            }
        }
        let waiting = engine.wait(id);
        tokio::pin!(waiting);
        loop {
            let asks_again = act(&engine, id, script).await;
            tokio::select! {
                biased;
                view = &mut waiting => return match view {
                    // It was over before we could ask.
                    Err(EngineError::NotRunning { .. }) => Ok(engine.inspect(id).await?.0),
                    view => view,
                },
                Some(event) = events.next() => self.hear(event.unwrap()),
                () = tokio::time::sleep(ASK_AGAIN), if asks_again => {}
            }
        }
    }

    fn hear(&self, event: Event) {
        let mut heard = self.heard.lock().unwrap();
        heard.seen.note(&event);
        heard.events.push(event);
    }

    /// Whoever was told by all processes, from what was seen on each time, and then reads the rest in the log, has heard
    /// each event of an operation once; otherwise what is wrong.
    pub fn told_wrongly(&self, operation: OperationId) -> Option<String> {
        let heard = self.heard.lock().unwrap();
        let mut told: Vec<Event> =
            heard.events.iter().filter(|event| event.operation == operation).cloned().collect();
        let after = told.last().map_or(0, |event| event.sequence);
        told.extend(replay(&self.log, operation, after).unwrap().unwrap().events);
        let recorded = replay(&self.log, operation, 0).unwrap().unwrap().events;
        (told != recorded).then(|| format!("told {told:#?}\nrecorded {recorded:#?}"))
    }
}

/// Does what a person would do now, and says whether they were told to try again. An act that was answered otherwise is not
/// done again.
pub async fn act(engine: &Engine, id: OperationId, script: &mut Vec<Act>) -> bool {
    let Some(next) = script.first().copied() else { return false };
    let Ok((view, _)) = engine.inspect(id).await else { return false };
    if !(next.when)(&view) {
        return false;
    }
    let done = match next.what {
        What::Terminate => engine.terminate(id, "test").await,
        What::Pause => engine.pause(id, "test", "").await,
        What::Unpause => engine.unpause(id, "test").await,
        What::Confirm => engine.confirm_prune(id, "test").await,
        What::Override(what, task) => {
            let scope = Scope::of_words(Some(task), None, None, None).expect("a task is named");
            engine.override_tasks(id, what, scope, "test", "it is in the way").await
        }
    };
    let asks_again =
        matches!(&done, Err(EngineError::Refused { reason, .. }) if reason.contains("try again"));
    if !asks_again && matches!(done, Ok(()) | Err(EngineError::Refused { .. })) {
        script.remove(0);
    }
    asks_again
}
