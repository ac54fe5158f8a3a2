//! A wave whose objects become ready one by one: twice as many should take twice as long.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock, Engine, Event, EventKind, RuntimeClock};
use tidegate_lifecycle::operation::{Stage, WaveStep};
use tidegate_model::{Destination, OperationPhase, Timestamp};
use tidegate_oplog::MemoryLog;

use crate::Line;
use crate::setup::{config, median, millis, request, server, targets};
use crate::throughput::cpu;

const RUNS: usize = 3;

/// When the time of this measurement begins. It is virtual: each object is ready a millisecond after the one before, and
/// what is measured is how long the engine and the cluster are busy meanwhile.
const BEGIN: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// When the first is ready, after it was applied. By then all are.
const FIRST: usize = 60_000;

fn manifests(width: usize) -> String {
    let servers = (0..width).map(|i| {
        let ready = format!("annotations: {{sim.tidegate.dev/ready-after: {}ms, ", FIRST + i);
        server(&format!("server-{i:05}"), 0).replace("annotations: {", &ready)
    });
    servers.chain([config("after-them", 1)]).collect()
}

/// Processor time from the moment when all are applied to the end.
fn run(width: usize) -> Duration {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = RuntimeClock::starting_at(BEGIN);
        let cluster = SimCluster::in_memory(SimConfig::instant(), SimClock::wall(move || clock.now()));
        let engine = Engine::builder(Arc::new(MemoryLog::default()))
            .cluster(Destination::Simulated, Arc::new(cluster))
            .clock(Arc::new(clock))
            .start()
            .await
            .unwrap();
        let mut events = engine.events_from_now().await.unwrap();
        let id = engine.submit(request("wide"), targets(&manifests(width))).await.unwrap();
        let began = loop {
            let Event { what, .. } = events.next().await.unwrap().unwrap();
            let to = if let EventKind::Moved { to, .. } = what { to } else { continue };
            if to == (Stage::Wave { index: 0, step: WaveStep::AwaitingHealth }) {
                break cpu();
            }
        };
        drop(events);
        let view = engine.wait(id).await.unwrap();
        let took = cpu() - began;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        engine.shutdown().await;
        took
    })
}

pub fn measure() -> Vec<Line> {
    [1000, 3000, 10_000]
        .map(|width| {
            let took = median((0..RUNS).map(|_| run(width)).collect());
            let each = took.as_micros() as usize / width;
            Line::new(
                format!(
                    "{width} Deployments of a wave become ready one by one, processor time from the last apply to the end"
                ),
                format!("{} ({each} µs each)", millis(took)),
                "the same for each",
            )
        })
        .into()
}
