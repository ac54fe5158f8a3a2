//! Many Applications on the simulated cluster, which is in the same process.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::fleet::{Fleet, OBJECTS, Policy};
use crate::serving::Serving;
use crate::{Line, each, seconds};

const IDLE: Duration = Duration::from_secs(30);
/// What was read of manifests for a comparison is given up within a minute, and the allocator gives that back.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(90);

/// All are synced, lie idle, and change with one commit.
pub fn storm(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    fleet.write_applications(Policy::Automated);
    let serving = Serving::simulated(&fleet, &["--refresh-every", "0s"]);
    let begun = serving.begin();
    let first = serving.until(begun, |shown| shown.well == number && shown.succeeded >= number);
    serving.settle();
    let before = serving.processor();
    thread::sleep(IDLE);
    let idle = serving.processor().saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    fleet.change_all(2);
    let succeeded = serving.shown().succeeded;
    let begun = serving.begin();
    serving.push(&fleet, &[]);
    let storm = serving.until(begun, |shown| shown.well == number && shown.succeeded >= succeeded + number);
    serving.settle();
    let writes = OBJECTS * number;
    serving.end();
    // What it has with them, and without them: the cluster and the log are the same.
    let with = resident(&fleet, number);
    fs::remove_dir_all(fleet.apps()).unwrap();
    fs::create_dir(fleet.apps()).unwrap();
    let without = resident(&fleet, 0);
    let memory = with.saturating_sub(without) as f64 / number as f64;
    vec![
        Line::new(
            format!("first sync of {number} Applications on the simulated cluster"),
            format!("{} ({} of processor time each)", seconds(first.elapsed), each(first.processor, number)),
            "",
        ),
        Line::new(
            format!("one commit that touches {number} Applications, until all are Synced ({writes} writes)"),
            format!("{} ({} of processor time each)", seconds(storm.elapsed), each(storm.processor, number)),
            "≤ 60 s",
        ),
        Line::new(format!("idle with {number} Applications"), format!("{idle:.2} % of a core"), "≤ 1 %"),
        Line::new(
            format!("resident memory per idle Application, of {number} (the cluster and the log left out)"),
            format!("{memory:.1} KiB"),
            "≤ 40 KiB",
        ),
    ]
}

/// The resident memory of a service that has begun anew, when all was looked at.
fn resident(fleet: &Fleet, number: usize) -> u64 {
    let serving = Serving::simulated(fleet, &["--refresh-every", "0s"]);
    serving.until(serving.begin(), |shown| shown.applications == number && shown.comparisons >= number);
    thread::sleep(FORGOTTEN_AFTER);
    let resident = serving.resident_kib();
    serving.end();
    resident
}

/// A service is killed while all its operations wait.
pub fn restart(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    (0..number).for_each(|at| fleet.write(at, 1, "tidegate.dev/gate: approval"));
    fleet.commit();
    fleet.write_applications(Policy::Automated);
    let options = ["--refresh-every", "0s"];
    let serving = Serving::simulated(&fleet, &options);
    serving.until(serving.begin(), |_| open(&serving) >= number);
    serving.kill();
    let serving = Serving::simulated(&fleet, &options);
    let ready = serving.ready;
    let begun = serving.begin();
    serving.until(begun, |_| open(&serving) >= number);
    let processor = serving.processor();
    serving.end();
    vec![Line::new(
        format!("restart to ready with {number} open operations"),
        format!("{} ({} of processor time until it shows all)", seconds(ready), seconds(processor)),
        "≤ 5 s",
    )]
}

/// How many operations are open.
fn open(serving: &Serving) -> usize {
    let text = serving.get("/metrics");
    let line = text.lines().find(|line| line.starts_with("tidegate_operations_open")).unwrap();
    line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize
}
