//! Planning 10,000 resources: in 100 waves, and in one wave with dependencies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_cluster::{Cluster, LiveQuery};
use tidegate_executor::{Targets, effects};
use tidegate_model::annotations::DEPENDS_ON;
use tidegate_model::{LiveObject, OperationId, Timestamp};
use tidegate_planner::{PlanInput, plan};
use uuid::Uuid;

use crate::Line;
use crate::fixtures::{
    config_map, deployment, format_millis, median, new_cluster, parse_targets, sync_request,
};

const WAVES: usize = 100;
const WIDTH: usize = 100;
const RUNS: usize = 11;

/// Distances between a resource and those that it depends on.
const STEPS: [usize; 3] = [1, 7, 100];
/// Number of dependencies between the resources.
const DEPENDENCIES: usize = 3 * WAVES * WIDTH - (1 + 7 + 100);

/// Returns this thread's CPU time. Wall time means little on a shared machine.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
}

/// Returns the manifests of resources that depend on three earlier ones each, as far as there are any.
fn dependent_objects() -> String {
    let object = |number: usize| {
        let earlier = STEPS.iter().filter_map(|step| number.checked_sub(*step));
        let entries: Vec<String> = earlier.map(|other| format!(":ConfigMap:object-{other}")).collect();
        let (name, annotation) = (format!("object-{number}"), entries.join(","));
        let object = config_map(&name, 0);
        match annotation.is_empty() {
            true => object,
            false => {
                object.replace("annotations: {", &format!("annotations: {{{DEPENDS_ON}: \"{annotation}\", "))
            }
        }
    };
    (0..WAVES * WIDTH).map(object).collect()
}

pub fn measure() -> Vec<Line> {
    let yaml: String = (0..WAVES * WIDTH)
        .map(|i| {
            let make = if i % 2 == 0 { config_map } else { deployment };
            make(&format!("object-{i}"), i % WAVES)
        })
        .collect();
    let reading = Instant::now();
    let targets = parse_targets(&yaml);
    let reading = reading.elapsed();
    let cluster = new_cluster();
    let runtime = crate::fixtures::runtime();
    let discovery = runtime.block_on(cluster.discover()).unwrap();
    let live = runtime.block_on(cluster.list_live(&LiveQuery::default())).unwrap().objects;
    let request = sync_request("bench");
    let (known, none) = Default::default();
    let time = |targets: &Targets, live: &[LiveObject], dependencies: usize| {
        let runs = (0..RUNS).map(|_| {
            let input = PlanInput {
                operation: OperationId(Uuid::nil()),
                request: &request,
                started_at: Timestamp::from_millis(0),
                targets: targets.targets.clone(),
                live,
                inventory: &known,
                unchanged_hooks: &known,
                terminating_namespaces: &none,
                discovery: &discovery,
                is_offline: false,
            };
            let (begin, cpu) = (Instant::now(), cpu_time());
            let planned = plan(input);
            let took = (begin.elapsed(), self::cpu_time() - cpu);
            assert_eq!(planned.plan.tasks.len(), WAVES * WIDTH);
            assert_eq!(planned.plan.dependencies.len(), dependencies);
            took
        });
        let (wall, cpu) = runs.unzip();
        format!("{} ({} of processor time)", format_millis(median(wall)), format_millis(median(cpu)))
    };
    let fresh = time(&targets, &live, 0);
    let with_dependencies = time(&parse_targets(&dependent_objects()), &live, DEPENDENCIES);
    let planned = runtime.block_on(effects::plan(
        cluster.as_ref(),
        OperationId(Uuid::nil()),
        &request,
        targets.clone(),
        Timestamp::from_millis(0),
        None,
    ));
    // The cluster after the sync has the same objects, as it returns them.
    let applied = planned.unwrap().manifests.into_iter().map(|object| LiveObject::share(Arc::new(object)));
    let applied: Vec<LiveObject> = applied.collect();
    let again = time(&targets, &applied, 0);
    vec![
        Line::new("plan 10,000 resources in 100 waves, empty cluster", fresh, "≤ 100 ms"),
        Line::new("plan the same resources, compared with 10,000 live objects", again, "≤ 100 ms"),
        Line::new(
            "plan 10,000 resources in one wave with 30,000 dependencies, empty cluster",
            with_dependencies,
            "≤ 200 ms",
        ),
        Line::new("read the YAML of these resources (4 MB)", format_millis(reading), ""),
    ]
}
