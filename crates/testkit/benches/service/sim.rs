//! Many Applications on the simulated cluster, inside the service's process.

use std::fs;
use std::thread;
use std::time::Duration;

use crate::fleet::{Fleet, OBJECTS, Policy};
use crate::service::RunningService;
use crate::{Line, format_per_item, format_seconds};

const IDLE: Duration = Duration::from_secs(30);
/// Time until unused comparison data has been dropped (within a minute) and the allocator has returned its
/// memory.
const CACHE_DROPPED_AFTER: Duration = Duration::from_secs(90);

/// Syncs all Applications, leaves them idle, then changes them all with a single commit.
pub fn measure_storm(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    fleet.write_applications(Policy::Automated);
    let service = RunningService::simulated(&fleet, &["--refresh-every", "0s"]);
    let started = service.start_period();
    let first = service.wait_until(started, |shown| shown.healthy == number && shown.succeeded >= number);
    service.wait_until_idle();
    let before = service.cpu_time();
    thread::sleep(IDLE);
    let idle = service.cpu_time().saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    fleet.change_all(2);
    let succeeded = service.metrics().succeeded;
    let started = service.start_period();
    service.send_push(&fleet, &[]);
    let storm =
        service.wait_until(started, |shown| shown.healthy == number && shown.succeeded >= succeeded + number);
    service.wait_until_idle();
    let writes = OBJECTS * number;
    service.stop();
    // Measure the memory with and without Applications. Cluster and log are the same both times.
    let with = measure_resident(&fleet, number);
    fs::remove_dir_all(fleet.apps()).unwrap();
    fs::create_dir(fleet.apps()).unwrap();
    let without = measure_resident(&fleet, 0);
    let memory = with.saturating_sub(without) as f64 / number as f64;
    vec![
        Line::new(
            format!("first sync of {number} Applications on the simulated cluster"),
            format!(
                "{} ({} of processor time each)",
                format_seconds(first.cpu_time),
                format_per_item(first.processor, number)
            ),
            "",
        ),
        Line::new(
            format!("one commit that touches {number} Applications, until all are Synced ({writes} writes)"),
            format!(
                "{} ({} of processor time each)",
                format_seconds(storm.cpu_time),
                format_per_item(storm.processor, number)
            ),
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

/// Returns the resident memory of a restarted service, after the first refresh.
fn measure_resident(fleet: &Fleet, number: usize) -> u64 {
    let service = RunningService::simulated(fleet, &["--refresh-every", "0s"]);
    service.wait_until(service.start_period(), |shown| {
        shown.applications == number && shown.comparisons >= number
    });
    thread::sleep(CACHE_DROPPED_AFTER);
    let resident = service.resident_kib();
    service.stop();
    resident
}

/// Kills and restarts a service while all its operations are waiting.
pub fn measure_restart(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    (0..number).for_each(|at| fleet.write_manifests(at, 1, "tidegate.dev/gate: approval"));
    fleet.commit();
    fleet.write_applications(Policy::Automated);
    let options = ["--refresh-every", "0s"];
    let service = RunningService::simulated(&fleet, &options);
    service.wait_until(service.start_period(), |_| count_open_operations(&service) >= number);
    service.kill();
    let service = RunningService::simulated(&fleet, &options);
    let ready = service.startup_time;
    let started = service.start_period();
    service.wait_until(started, |_| count_open_operations(&service) >= number);
    let processor = service.cpu_time();
    service.stop();
    vec![Line::new(
        format!("restart to ready with {number} open operations"),
        format!(
            "{} ({} of processor time until it shows all)",
            format_seconds(ready),
            format_seconds(processor)
        ),
        "≤ 5 s",
    )]
}

/// Returns the number of open operations.
fn count_open_operations(service: &RunningService) -> usize {
    let text = service.get("/metrics");
    let line = text.lines().find(|line| line.starts_with("tidegate_operations_open")).unwrap();
    line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as usize
}
