//! A wave with objects that become ready one by one. The time must grow linearly with their number.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Clock, Engine, Event, EventKind, RuntimeClock};
use tidegate_lifecycle::operation::{Stage, WaveStep};
use tidegate_model::{Destination, OperationPhase, Timestamp};
use tidegate_oplog::MemoryLog;

use crate::Line;
use crate::fixtures::{config_map, deployment, format_millis, median, parse_targets, sync_request};
use crate::throughput::process_cpu_time;

const RUNS: usize = 3;

/// Start of the virtual time. Each object becomes ready a millisecond after the previous one. The CPU time of
/// the engine and the cluster is measured.
const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// Delay between an object's apply and the first readiness, long enough to apply everything.
const FIRST_READY_AFTER: usize = 60_000;

fn manifests(width: usize) -> String {
    let servers = (0..width).map(|i| {
        let ready = format!("annotations: {{sim.tidegate.dev/ready-after: {}ms, ", FIRST_READY_AFTER + i);
        deployment(&format!("server-{i:05}"), 0).replace("annotations: {", &ready)
    });
    servers.chain([config_map("after-them", 1)]).collect()
}

/// Returns the CPU time between the apply of the last object and the end.
fn measure_run(width: usize) -> Duration {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = RuntimeClock::starting_at(START);
        let cluster = SimCluster::in_memory(SimConfig::without_delays(), SimClock::wall(move || clock.now()));
        let engine = Engine::builder(Arc::new(MemoryLog::default()))
            .cluster(Destination::Simulated, Arc::new(cluster))
            .clock(Arc::new(clock))
            .start()
            .await
            .unwrap();
        let mut events = engine.events_from_now().await.unwrap();
        let id = engine.submit(sync_request("wide"), parse_targets(&manifests(width))).await.unwrap();
        let began = loop {
            let Event { what, .. } = events.next().await.unwrap().unwrap();
            let to = if let EventKind::StageChanged { to, .. } = what { to } else { continue };
            if to == (Stage::Wave { index: 0, step: WaveStep::AwaitingHealth }) {
                break process_cpu_time();
            }
        };
        drop(events);
        let view = engine.wait(id).await.unwrap();
        let took = process_cpu_time() - began;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        engine.shutdown().await;
        took
    })
}

pub fn measure() -> Vec<Line> {
    [1000, 3000, 10_000]
        .map(|width| {
            let took = median((0..RUNS).map(|_| measure_run(width)).collect());
            let each = took.as_micros() as usize / width;
            Line::new(
                format!(
                    "{width} Deployments of a wave become ready one by one, processor time from the last apply to the end"
                ),
                format!("{} ({each} µs each)", format_millis(took)),
                "the same for each",
            )
        })
        .into()
}
