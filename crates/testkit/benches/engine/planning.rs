//! Planning 10,000 resources in 100 waves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::{Cluster, LiveQuery};
use tidegate_executor::effects;
use tidegate_model::{LiveObject, OperationId, Timestamp};
use tidegate_planner::{PlanInput, plan};
use uuid::Uuid;

use crate::Line;
use crate::setup::{cluster, config, median, millis, request, server, targets};

const WAVES: usize = 100;
const WIDTH: usize = 100;
const RUNS: usize = 11;

/// Processor time of this thread so far: on a machine that does other things as well, the wall clock says little.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

pub fn measure() -> Vec<Line> {
    let yaml: String = (0..WAVES * WIDTH)
        .map(|i| {
            let make = if i % 2 == 0 { config } else { server };
            make(&format!("object-{i}"), i % WAVES)
        })
        .collect();
    let reading = Instant::now();
    let targets = targets(&yaml);
    let reading = reading.elapsed();
    let cluster = cluster();
    let runtime = crate::setup::runtime();
    let discovery = runtime.block_on(cluster.discover()).unwrap();
    let live = runtime.block_on(cluster.live(&LiveQuery::default())).unwrap().objects;
    let request = request("bench");
    let (known, none) = Default::default();
    let time = |live: &[LiveObject]| {
        let runs = (0..RUNS).map(|_| {
            let input = PlanInput {
                operation: OperationId(Uuid::nil()),
                request: &request,
                started_at: Timestamp::from_millis(0),
                targets: targets.targets.clone(),
                live,
                known: &known,
                unchanged: &known,
                terminating: &none,
                discovery: &discovery,
                offline: false,
            };
            let (begin, cpu) = (Instant::now(), cpu());
            let planned = plan(input);
            let took = (begin.elapsed(), self::cpu() - cpu);
            assert_eq!(planned.plan.tasks.len(), WAVES * WIDTH);
            took
        });
        let (wall, cpu) = runs.unzip();
        format!("{} ({} of processor time)", millis(median(wall)), millis(median(cpu)))
    };
    let fresh = time(&live);
    let planned = runtime.block_on(effects::plan(
        cluster.as_ref(),
        OperationId(Uuid::nil()),
        &request,
        targets.clone(),
        Timestamp::from_millis(0),
        None,
    ));
    // What the cluster would hold after the sync: the same objects, as it would return them.
    let applied = planned.unwrap().manifests.into_iter().map(|object| LiveObject::share(Arc::new(object)));
    let applied: Vec<LiveObject> = applied.collect();
    let again = time(&applied);
    vec![
        Line::new("plan 10,000 resources in 100 waves, empty cluster", fresh, "≤ 100 ms"),
        Line::new("plan them again, compared with 10,000 live objects", again, "≤ 100 ms"),
        Line::new("read their YAML (4 MB) before", millis(reading), ""),
    ]
}
