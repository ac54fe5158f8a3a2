//! Peak memory of syncs with many objects, measured on the command itself with the simulated cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::Line;
use crate::fixtures::config_map;

const OBJECTS: usize = 20_000;
const FILES: usize = 10;
const TARGET: &str = "≤ 350 MiB";
/// Polling interval. The kernel records the peak, so only the last moments before the exit are missed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

pub fn measure() -> Vec<Line> {
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let per_file = OBJECTS / FILES;
    for file in 0..FILES {
        let documents =
            (0..per_file).map(|number| config_map(&format!("settings-{:05}", file * per_file + number), 0));
        fs::write(manifests.join(format!("{file:02}.yaml")), documents.collect::<String>()).unwrap();
    }
    let sync = |which: &str, aim| {
        let peak = peak_mib(&manifests, &folder.path().join("state"));
        Line::new(
            format!(
                "{which} sync of {OBJECTS} config maps on the simulated cluster: peak of resident memory, the cluster's own included"
            ),
            format!("{peak:.0} MiB"),
            aim,
        )
    };
    vec![sync("first", ""), sync("second", TARGET)]
}

fn peak_mib(manifests: &Path, state: &Path) -> f64 {
    let mut command = Command::new(program_path());
    command.arg("sync").arg(manifests).args(["--app", "bench", "--sim", "--state-dir"]).arg(state);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        peak = high_water_kib(&status).unwrap_or(0).max(peak);
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success(), "{command:?}: {status}");
            return f64::from(peak) / 1024.0;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn high_water_kib(status: &str) -> Option<u32> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}

/// Returns the release build, which is next to this benchmark.
fn program_path() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("tidegate");
    assert!(program.exists(), "{} is missing: run cargo build --release", program.display());
    program
}
