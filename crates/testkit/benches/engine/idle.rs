//! Resident memory of waiting operations.

use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_executor::extensions::ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_executor::{Engine, GateRequest};
use tidegate_lifecycle::operation::Verdict;

use crate::Line;
use crate::fixtures::{
    config_map, deployment, engine_builder, new_cluster, open_log, parse_targets, runtime, sync_request,
};

const OPERATIONS: usize = 10_000;
const CONCURRENT_STARTS: usize = 32;

/// Gate that stays closed.
pub struct ClosedGate;

impl Actor for ClosedGate {
    type Msg = GateRequest;
    type State = tokio::sync::mpsc::UnboundedSender<()>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<GateRequest>,
        state: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<GateRequest>,
        question: GateRequest,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let ask_again_after = Duration::from_secs(24 * 3600);
        let _ = question.reply.send(Verdict::Closed { reason: "closed".into(), ask_again_after });
        let _ = state.send(());
        Ok(())
    }
}

/// Starts operations with three manifests each. Returns once all of them are waiting at a gate.
pub async fn start_waiting_operations(
    log: &std::sync::Arc<crate::fixtures::DiskLog>,
    operations: usize,
) -> Engine {
    let (sender, mut questions) = tokio::sync::mpsc::unbounded_channel();
    let (gate, _) = Actor::spawn(None, ClosedGate, sender).await.unwrap();
    let engine = engine_builder(log).gate("closed", gate).start().await.unwrap();
    let submits = (0..operations).map(|o| {
        let gated = deployment(&format!("o{o}-web"), 0)
            .replace("annotations: {", "annotations: {tidegate.dev/gate: closed, ");
        let yaml = [gated, config_map(&format!("o{o}-a"), 0), config_map(&format!("o{o}-b"), 1)].concat();
        let engine = &engine;
        async move {
            engine.submit(sync_request(&format!("app{o}")), parse_targets(&yaml)).await.unwrap();
        }
    });
    futures_util::stream::iter(submits).buffer_unordered(CONCURRENT_STARTS).collect::<()>().await;
    for _ in 0..operations {
        questions.recv().await.unwrap();
    }
    // The gate's answers are written with the next flush, which happens within two seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Closed gate that requests a check every half minute.
struct PollingGate;

impl Actor for PollingGate {
    type Msg = GateRequest;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<GateRequest>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<GateRequest>,
        question: GateRequest,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let ask_again_after = Duration::from_secs(30);
        question.reply.send(Verdict::Closed { reason: "closed".into(), ask_again_after });
        Ok(())
    }
}

/// Measures the number of events per hour of virtual time while operations wait. The log is in memory,
/// because virtual time doesn't wait for a disk.
fn measure_event_growth() -> Line {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (before, after) = runtime.unwrap().block_on(async {
        let (gate, _) = Actor::spawn(None, PollingGate, ()).await.unwrap();
        let engine = Engine::builder(std::sync::Arc::new(tidegate_oplog::MemoryLog::new()))
            .cluster(tidegate_model::Destination::Simulated, new_cluster())
            .gate("closed", gate)
            .start()
            .await
            .unwrap();
        let mut operations = Vec::new();
        for o in 0..OPERATIONS {
            let yaml = config_map(&format!("o{o}"), 0)
                .replace("annotations: {", "annotations: {tidegate.dev/gate: closed, ");
            operations
                .push(engine.submit(sync_request(&format!("app{o}")), parse_targets(&yaml)).await.unwrap());
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = count_events(&engine, &operations).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        (before, count_events(&engine, &operations).await)
    });
    let what = "facts that an hour adds while 10,000 operations wait at a gate, asked every 30 s (of so many before)";
    Line::new(what, format!("{} (of {before})", after - before), "0")
}

async fn count_events(engine: &Engine, operations: &[tidegate_model::OperationId]) -> usize {
    let mut events = 0;
    for operation in operations {
        events += engine.stored_events(*operation).await.unwrap().len();
    }
    events
}

pub fn measure() -> Vec<Line> {
    let folder = tempfile::tempdir().unwrap();
    let log = open_log(folder.path());
    let memory = runtime().block_on(async {
        // The first operations also allocate the shared data.
        let warm = resident_kib();
        let engine = start_waiting_operations(&log, OPERATIONS).await;
        let used = resident_kib().saturating_sub(warm);
        let per_operation = used as f64 / OPERATIONS as f64;
        let what = "resident memory per waiting operation, of 10,000 (3 manifests each; the log's own memory included)";
        drop(engine);
        Line::new(what, format!("{per_operation:.1} KiB"), "≤ 32 KiB")
    });
    vec![memory, measure_event_growth()]
}
