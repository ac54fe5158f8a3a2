//! Resident memory of operations that wait.

use std::time::Duration;

use futures_util::StreamExt as _;
use tidegate_executor::extend::ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_executor::{Engine, GateQuestion};
use tidegate_lifecycle::operation::Verdict;

use crate::Line;
use crate::setup::{cluster, config, engine, open, request, runtime, server, targets};

const OPERATIONS: usize = 10_000;
const AT_ONCE: usize = 32;

/// A gate that stays closed.
pub struct Closed;

impl Actor for Closed {
    type Msg = GateQuestion;
    type State = tokio::sync::mpsc::UnboundedSender<()>;
    type Arguments = Self::State;

    async fn pre_start(
        &self,
        _: ActorRef<GateQuestion>,
        asked: Self::State,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(asked)
    }

    async fn handle(
        &self,
        _: ActorRef<GateQuestion>,
        question: GateQuestion,
        asked: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let ask_again_after = Duration::from_secs(24 * 3600);
        let _ = question.reply.send(Verdict::Closed { reason: "closed".into(), ask_again_after });
        let _ = asked.send(());
        Ok(())
    }
}

/// Begins operations of three manifests each that wait at a gate; returns when all of them do.
pub async fn wait_at_a_gate(log: &std::sync::Arc<crate::setup::Disk>, operations: usize) -> Engine {
    let (asked, mut questions) = tokio::sync::mpsc::unbounded_channel();
    let (gate, _) = Actor::spawn(None, Closed, asked).await.unwrap();
    let engine = engine(log).gate("closed", gate).start().await.unwrap();
    let submits = (0..operations).map(|o| {
        let gated = server(&format!("o{o}-web"), 0)
            .replace("annotations: {", "annotations: {tidegate.dev/gate: closed, ");
        let yaml = [gated, config(&format!("o{o}-a"), 0), config(&format!("o{o}-b"), 1)].concat();
        let engine = &engine;
        async move {
            engine.submit(request(&format!("app{o}")), targets(&yaml)).await.unwrap();
        }
    });
    futures_util::stream::iter(submits).buffer_unordered(AT_ONCE).collect::<()>().await;
    for _ in 0..operations {
        questions.recv().await.unwrap();
    }
    // The answers are written with the next flush, two seconds later at most.
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// A gate that stays closed and wants to be asked again every half minute.
struct Nagging;

impl Actor for Nagging {
    type Msg = GateQuestion;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<GateQuestion>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<GateQuestion>,
        question: GateQuestion,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let ask_again_after = Duration::from_secs(30);
        question.reply.send(Verdict::Closed { reason: "closed".into(), ask_again_after });
        Ok(())
    }
}

/// How many facts an hour of virtual time adds while operations wait. The log is in memory: virtual time waits for no disk.
fn growth() -> Line {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let (before, after) = runtime.unwrap().block_on(async {
        let (gate, _) = Actor::spawn(None, Nagging, ()).await.unwrap();
        let engine = Engine::builder(std::sync::Arc::new(tidegate_oplog::MemoryLog::new()))
            .cluster(tidegate_model::Destination::Simulated, cluster())
            .gate("closed", gate)
            .start()
            .await
            .unwrap();
        let mut operations = Vec::new();
        for o in 0..OPERATIONS {
            let yaml = config(&format!("o{o}"), 0)
                .replace("annotations: {", "annotations: {tidegate.dev/gate: closed, ");
            operations.push(engine.submit(request(&format!("app{o}")), targets(&yaml)).await.unwrap());
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = facts(&engine, &operations).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        (before, facts(&engine, &operations).await)
    });
    let what = "facts that an hour adds while 10,000 operations wait at a gate, asked every 30 s (of so many before)";
    Line::new(what, format!("{} (of {before})", after - before), "0")
}

async fn facts(engine: &Engine, operations: &[tidegate_model::OperationId]) -> usize {
    let mut facts = 0;
    for operation in operations {
        facts += engine.facts(*operation).await.unwrap().len();
    }
    facts
}

pub fn measure() -> Vec<Line> {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let memory = runtime().block_on(async {
        // The first operations pay for what all share.
        let warm = resident_kib();
        let engine = wait_at_a_gate(&log, OPERATIONS).await;
        let used = resident_kib().saturating_sub(warm);
        let per_operation = used as f64 / OPERATIONS as f64;
        let what = "resident memory per waiting operation, of 10,000 (3 manifests each; the log's own memory included)";
        drop(engine);
        Line::new(what, format!("{per_operation:.1} KiB"), "≤ 32 KiB")
    });
    vec![memory, growth()]
}
