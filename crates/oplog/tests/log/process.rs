//! Guarantees that take a real process to test: acknowledged groups are on disk, and survive when the process
//! is killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_oplog::LogError;

use crate::child::{
    self, KEPT_EVENTS, LARGE_INTERVAL, OPERATIONS, PADDING, command, kill_after, output_lines,
};
use crate::kit::prelude::*;
use crate::kit::{self, Event, operation};

/// Checks that all acknowledged groups are present, and that the next group is either complete or absent.
fn check_acknowledged(directory: &Path, acknowledged: u64, padding: usize) -> u64 {
    check_acknowledged_from(directory, acknowledged, padding, 1)
}

/// Like [`check_acknowledged`], but for operations that may have lost their events before `kept_from` to a
/// compaction.
fn check_acknowledged_from(directory: &Path, acknowledged: u64, padding: usize, kept_from: u64) -> u64 {
    let log = kit::open_log(directory).unwrap();
    assert_eq!(log.damage(), [], "a crash must not cause damage");
    let mut lasts = Vec::new();
    for number in 1..=OPERATIONS {
        let (first, events) = match log.events_as::<Event>(operation(number)) {
            Err(LogError::UnknownStream { .. }) if acknowledged == 0 => (1, Vec::new()),
            history => history.map(|history| (history.first_sequence, history.events)).unwrap(),
        };
        let last = first - 1 + u64::try_from(events.len()).unwrap();
        assert!(last >= acknowledged, "operation {number}: {last} of {acknowledged} acknowledged events");
        assert!(first <= kept_from.max(1), "operation {number}: event {kept_from} must be kept, not {first}");
        assert_eq!(events, (first..=last).map(|number| child::event(number, padding)).collect::<Vec<_>>());
        lasts.push(last);
        if last > 0 {
            let loaded = log.load_as::<Event>(operation(number)).unwrap();
            assert_eq!(loaded.last_sequence, last);
            assert_eq!(loaded.snapshot.map_or(0, |(at, _)| at), last / 5 * 5);
        }
    }
    assert!(lasts.iter().all(|last| *last == lasts[0]), "each group must be complete or absent: {lasts:?}");
    assert!(lasts[0] <= acknowledged + 1, "at most one unacknowledged group may be present");
    lasts[0]
}

#[test]
fn no_acknowledged_group_is_lost_when_the_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let mut last = 0;
    // Number of acknowledgments to wait for. The kill then hits the next group at a point that depends on the
    // machine.
    for acks in [0, 1, 2, 3, 5, 8, 13, 0, 21, 1, 4, 30, 2, 6, 0, 9, 26, 3, 1, 17, 7, 11, 0, 5, 2] {
        let acknowledged = kill_after("append", &directory, acks).unwrap_or(last);
        last = check_acknowledged(&directory, acknowledged, PADDING);
    }
    assert!(last > 150);
}

/// The process may be killed at any point during a compaction of open operations.
#[test]
fn nothing_is_lost_when_the_process_is_killed_during_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let mut last = 0;
    for acks in [0, 1, 12, 3, 5, 8, 13, 0, 21, 1, 4, 3, 2, 6, 0, 9, 2, 3, 1, 7] {
        let acknowledged = kill_after("append-and-compact", &directory, acks).unwrap_or(last);
        last = check_acknowledged_from(
            &directory,
            acknowledged,
            PADDING,
            (acknowledged + 1).saturating_sub(KEPT_EVENTS),
        );
        let log = kit::open_log(&directory).unwrap();
        let kept = log.events_as::<Event>(operation(1)).map_or(0, |history| history.events.len());
        // The kept events are those not covered by the newest snapshot, and those since the interrupted
        // compaction.
        assert!(kept <= 20, "{kept} events of {last} are kept");
    }
    assert!(last > 80);
}

/// Parses strace's output into threads, and system calls with their results.
fn parse_calls(trace: &str) -> Vec<(u32, String)> {
    let mut started: BTreeMap<u32, String> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Ok(thread) = thread.parse() else { continue };
        let call = call.trim_start();
        if let Some(call) = call.strip_suffix("<unfinished ...>") {
            started.insert(thread, call.to_owned());
        } else if let Some((_, rest)) =
            call.strip_prefix("<... ").and_then(|call| call.split_once("resumed>"))
        {
            // A system call takes effect only when it returns.
            let begin = started.remove(&thread).unwrap_or_default();
            calls.push((thread, format!("{begin}{rest}")));
        } else {
            calls.push((thread, call.to_owned()));
        }
    }
    calls
}

#[test]
fn every_acknowledged_group_was_synced_to_the_disk_first() {
    let found = Command::new("strace").arg("-V").output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "strace is missing: apt-get install -y strace"
    );
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    let report = folder.path().join("trace");
    let syscalls = "trace=fdatasync,fsync,sync_file_range,pwrite64,write,rename,renameat,renameat2";
    let strace = ["strace", "-f", "-y", "-s", "64", "-e", syscalls, "-o", report.to_str().unwrap()];
    let said = output_lines(command("append-20", &directory, &strace));
    assert!(said.contains(&"ack 20".to_owned()), "{said:?}");

    let db = "/state/log/db>";
    let (mut acknowledged, mut synced_blobs) = (0, 0);
    // Each acknowledgment takes three steps: sled writes its file, the file is synced, and the witness is
    // written.
    let (mut written, mut synced, mut witnessed) = (false, false, false);
    for (_, call) in parse_calls(&fs::read_to_string(&report).unwrap()) {
        let succeeded = !call.contains("= -1");
        if call.starts_with("pwrite64(") && call.contains(db) {
            (written, synced, witnessed) = (true, false, false);
        } else if call.starts_with("fdatasync(") && call.contains(db) && succeeded {
            synced = written;
        } else if call.starts_with("write(") && call.contains("/state/witness>") {
            witnessed = synced;
        } else if call.starts_with("fsync(")
            && call.contains("/state/blobs/")
            && call.contains(".tmp>")
            && succeeded
        {
            synced_blobs += 1;
        } else if call.starts_with("write(") && call.contains("\"ack ") {
            acknowledged += 1;
            assert!(written && synced, "group {acknowledged} was acknowledged before it was on the disk");
            assert!(witnessed, "group {acknowledged} was acknowledged before the witness was written");
            (written, synced, witnessed) = (false, false, false);
        }
    }
    assert_eq!(acknowledged, 20);
    assert_eq!(synced_blobs, 20 / LARGE_INTERVAL, "the operations share one blob per large event");
}

/// A file size limit simulates a full disk: the same system calls fail.
#[test]
fn a_file_size_limit_poisons_the_log_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("state");
    // In blocks of 512 bytes. The limit is 1.2 MiB, between two and three of sled's segments.
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 2400; exec \"$0\" \"$@\""];
    let said = output_lines(command("fill", &directory, &limited));
    let acknowledged =
        said.iter().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back().unwrap_or(0);
    assert!(acknowledged > 10, "{said:?}");
    let failed =
        said.iter().position(|line| line.starts_with("failed FileSizeLimit")).expect("a typed error");
    assert_eq!(said[failed + 1], "then Poisoned");
    assert!(!said.iter().any(|line| line.contains("panicked")), "{said:?}");
    check_acknowledged(&directory, acknowledged, 5_000);
}

/// Runs a task in its own mount namespace if the system allows it.
fn run_on_small_disk(task: &str, after_mounting: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "dir=\"${{TIDEGATE_OPLOG_CHILD#* }}\"; mount -t tmpfs -o size=4m tmpfs \"$dir\" && {after_mounting} exec \"$0\" \"$@\""
    );
    let said = output_lines(command(
        task,
        folder.path(),
        &["unshare", "--map-root-user", "--mount", "sh", "-c", &script],
    ));
    if said.is_empty() {
        eprintln!("not checked here: this system does not let tests mount a file system");
        return None;
    }
    Some(said)
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let Some(said) = run_on_small_disk("fill-and-free", "") else { return };
    let acknowledged: u64 =
        said.iter().filter_map(|line| line.strip_prefix("ack ")?.parse().ok()).next_back().unwrap();
    let failed = said.iter().position(|line| line.starts_with("failed DiskFull")).expect("a typed error");
    assert_eq!(said[failed + 1], "then Poisoned");
    assert!(
        said[failed + 2].starts_with("full, and refused") || said[failed + 2].starts_with("full, and opened"),
        "{said:?}"
    );
    let kept = said.iter().find_map(|line| line.strip_prefix("kept ")).expect("reopened once there was room");
    assert!(
        [acknowledged, acknowledged + 1].map(|last| format!("{last}, 0 reports")).contains(&kept.to_owned()),
        "{said:?}"
    );
    assert!(said.contains(&"went on".to_owned()));
}

#[test]
fn a_read_only_file_system_is_named() {
    let Some(said) = run_on_small_disk("open", "mount -o remount,ro \"$dir\" &&") else { return };
    assert!(said.iter().any(|line| line.starts_with("refused ReadOnly")), "{said:?}");
}
