//! Many objects in one application.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_testkit::effort;

use crate::bench::Running;
use crate::kube_bench::KubeBench;

/// Number of objects in the quick form: just enough to detect a program that keeps everything in memory.
const OBJECTS: usize = 1500;
const OBJECTS_LONG: usize = 5000;
/// Memory limit of a release build: the target of 100 MiB, plus room for the allocator's arenas. A debug
/// build needs more.
const PEAK_MIB: u64 = if cfg!(debug_assertions) { 150 } else { 120 };
/// Time limit on a busy machine, shared with the API server.
const TIMEOUT: Duration = Duration::from_secs(1800);

pub async fn thousands_of_objects_fit_into_little_memory() {
    let mut bench = KubeBench::new("volume").await;
    let objects = if effort::is_long() { OBJECTS_LONG } else { OBJECTS };
    let manifests: String = (0..objects)
        .map(|n| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\ndata: {{number: \"{n}\", text: some words}}\n---\n"))
        .collect();
    bench.write("many.yaml", manifests);
    let namespace = bench.namespace.clone();
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace, "-o", "json"];
    for (what, more) in [("first", &[][..]), ("unchanged", &["--sync-option", "ApplyOutOfSyncOnly=true"])] {
        bench.reset_audit();
        let (peak, seconds) = wait_and_measure(bench.start(&[&sync[..], more].concat()));
        let writes = bench.writes().await.0.len();
        println!("{what} sync of {objects} objects: {seconds:.1} s, {writes} writes, peak memory {peak} MiB");
        assert_eq!(writes, if what == "first" { objects } else { 0 });
        assert!(peak <= PEAK_MIB, "{what} sync: {peak} MiB at {objects} objects");
    }
}

/// Waits until the command has finished. Returns the peak memory in MiB, and the duration.
fn wait_and_measure(mut running: Running) -> (u64, f64) {
    let (started, mut peak) = (Instant::now(), 0);
    let status = loop {
        if let Some(status) = running.wait_for_exit(Duration::from_millis(10)) {
            break status;
        }
        // The system records the peak itself, so only the last moments can be missed.
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        peak = peak.max(kib);
        assert!(started.elapsed() < TIMEOUT, "still running after {TIMEOUT:?}");
    };
    running.finish_with(status).expect_code(0);
    (peak / 1024, started.elapsed().as_secs_f64())
}
