//! Many objects in one application.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_testkit::effort;

use crate::bench::Running;
use crate::site::Site;

/// In the quick form as few as tell a program that keeps everything from one that does not.
const OBJECTS: usize = 1500;
const OBJECTS_LONG: usize = 5000;
/// What a release build may need: the aim of 100 with room for what the allocator's arenas happen to keep. A test build
/// is less thrifty.
const PEAK_MIB: u64 = if cfg!(debug_assertions) { 150 } else { 120 };
/// On a busy machine, with an API server that shares it.
const PATIENCE: Duration = Duration::from_secs(1800);

pub async fn thousands_of_objects_fit_into_little_memory() {
    let mut site = Site::new("volume").await;
    let objects = if effort::is_long() { OBJECTS_LONG } else { OBJECTS };
    let manifests: String = (0..objects)
        .map(|n| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\ndata: {{number: \"{n}\", text: some words}}\n---\n"))
        .collect();
    site.write("many.yaml", manifests);
    let namespace = site.namespace.clone();
    let sync = ["sync", "many.yaml", "--app", &namespace, "-n", &namespace, "-o", "json"];
    for (what, more) in [("first", &[][..]), ("unchanged", &["--sync-option", "ApplyOutOfSyncOnly=true"])] {
        site.look_from_now();
        let (peak, seconds) = watch(site.start(&[&sync[..], more].concat()));
        let writes = site.writes().await.0.len();
        println!("{what} sync of {objects} objects: {seconds:.1} s, {writes} writes, peak memory {peak} MiB");
        assert_eq!(writes, if what == "first" { objects } else { 0 });
        assert!(peak <= PEAK_MIB, "{what} sync: {peak} MiB at {objects} objects");
    }
}

/// Waits for the end; returns the most memory it had, in MiB, and how long it took.
fn watch(mut running: Running) -> (u64, f64) {
    let (begun, mut peak) = (Instant::now(), 0);
    let status = loop {
        if let Some(status) = running.is_over_within(Duration::from_millis(10)) {
            break status;
        }
        // The system keeps the high-water mark itself; only its last moments can be missed.
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: u64 = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
        peak = peak.max(kib);
        assert!(begun.elapsed() < PATIENCE, "still at work after {PATIENCE:?}");
    };
    running.finish_with(status).expect_code(0);
    (peak / 1024, begun.elapsed().as_secs_f64())
}
