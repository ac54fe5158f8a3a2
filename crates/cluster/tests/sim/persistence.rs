//! A cluster survives its process, no matter when it is killed.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt;
use serde_json::json;
use tempfile::TempDir;
use tidegate_cluster::sim::{
    AuditEntry, Clock, SimCluster, SimConfig, SimError, has_stored_cluster, read_audit,
};
use tidegate_cluster::{ApplyRequest, ApplyResult, Cluster, ClusterError, ErrorKind, Propagation};
use tidegate_model::{Object, Timestamp};

use super::{REPLACE, SSA, START, config_map, delete_request, gvk, request, with_value, workload};

/// A manually set clock.
#[derive(Clone, Default)]
struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    fn clock(&self) -> Clock {
        let offset = self.0.clone();
        Clock::wall(move || Timestamp::from_millis(START.as_millis() + offset.load(Ordering::Relaxed)))
    }

    fn advance(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

fn open_cluster(dir: &Path, clock: &ManualClock) -> Result<SimCluster, SimError> {
    SimCluster::open(dir, SimConfig::default(), clock.clock())
}

fn apply(cluster: &SimCluster, request: ApplyRequest) -> Result<ApplyResult, ClusterError> {
    cluster.apply(request).now_or_never().expect("a call without latency does not wait")
}

fn cluster_state(cluster: &SimCluster, dir: &Path) -> (Vec<Object>, Vec<AuditEntry>, Option<Timestamp>) {
    (cluster.objects(), read_audit(dir).unwrap(), cluster.next_due())
}

/// Runs some activity: writes of every kind, refusals, controller steps.
fn run_activity(cluster: &SimCluster, clock: &ManualClock, step: usize) {
    let deployment = workload("Deployment", "api", &format!("api:{}", step / 5), json!({}));
    let job = workload("Job", &format!("m{step}"), "m:1", json!({"fail-times": "1"}));
    let _ = match step % 5 {
        0 => apply(cluster, request(&deployment, SSA)).map(drop),
        1 => apply(cluster, request(&job, REPLACE)).map(drop),
        2 => apply(
            cluster,
            request(&with_value(&config_map("c", json!({})), "/metadata/namespace", json!("nowhere")), SSA),
        )
        .map(drop),
        3 => apply(cluster, request(&config_map(&format!("c{step}"), json!({"a": "x".repeat(50)})), SSA))
            .map(drop),
        _ => cluster
            .delete(delete_request("Job", &format!("m{}", step - 3), Propagation::Foreground))
            .now_or_never()
            .unwrap()
            .map(drop),
    };
    clock.advance(i64::try_from(step * 7 % 90).unwrap());
}

#[test]
fn a_reopened_cluster_has_the_same_state() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let mut cluster = open_cluster(dir.path(), &clock).unwrap();
    for step in 0..60 {
        run_activity(&cluster, &clock, step);
        if step % 7 == 0 {
            let before = cluster_state(&cluster, dir.path());
            drop(cluster);
            cluster = open_cluster(dir.path(), &clock).unwrap();
            assert_eq!(cluster_state(&cluster, dir.path()), before, "after step {step}");
        }
    }
    let sequences: Vec<u64> = read_audit(dir.path()).unwrap().iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (1..=60).collect::<Vec<_>>());
}

#[test]
fn controllers_continue_as_if_the_process_had_not_stopped() {
    let results = [false, true].map(|away| {
        let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
        let mut cluster = open_cluster(dir.path(), &clock).unwrap();
        apply(&cluster, request(&workload("StatefulSet", "db", "db:1", json!({"ready-after": "10s"})), SSA))
            .unwrap();
        for _ in 0..40 {
            clock.advance(1000);
            if away {
                drop(cluster);
                cluster = open_cluster(dir.path(), &clock).unwrap();
            } else {
                cluster.objects();
            }
        }
        cluster.objects()
    });
    assert_eq!(results[0], results[1]);
    assert!(results[0].iter().any(|object| object.integer("/status/readyReplicas") == Some(3)));
}

#[test]
fn a_snapshot_replaces_a_long_journal_without_other_changes() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let mut cluster = open_cluster(dir.path(), &clock).unwrap();
    let mut snapshots = 0;
    for step in 0..400 {
        run_activity(&cluster, &clock, step);
        let filler =
            config_map(&format!("big{}", step % 3), json!({"a": format!("{step}{}", "x".repeat(3000))}));
        apply(&cluster, request(&filler, SSA)).unwrap();
        let journals = fs::read_dir(dir.path())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("journal-"));
        assert_eq!(journals.count(), 1);
        if step % 40 == 39 {
            snapshots += usize::from(dir.path().join("snapshot").exists());
            let before = cluster_state(&cluster, dir.path());
            drop(cluster);
            cluster = open_cluster(dir.path(), &clock).unwrap();
            assert_eq!(cluster_state(&cluster, dir.path()), before, "after step {step}");
            assert!(
                before.1.ends_with(&cluster.audit()) && before.1.len() >= 2 * step,
                "the audit is complete"
            );
        }
    }
    assert!(snapshots > 5);
}

/// Returns the objects after a number of steps, read at a later time from a cluster that was never closed.
fn reference_objects(steps: usize, end: i64) -> Vec<Object> {
    let clock = ManualClock::default();
    let cluster = SimCluster::in_memory(SimConfig::default(), clock.clock());
    (0..steps).for_each(|step| run_activity(&cluster, &clock, step));
    clock.0.store(end, Ordering::Relaxed);
    cluster.objects()
}

/// Cuts the journal at every byte. Exactly the writes acknowledged before the cut must survive.
#[test]
fn a_journal_cut_anywhere_loses_no_acknowledged_write() {
    const STEPS: usize = 5;
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let journal = dir.path().join("journal-0");
    let length = || usize::try_from(fs::metadata(&journal).unwrap().len()).unwrap();
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    // Length of the journal after the first line and after each acknowledged write, and the stored length at
    // each of these times.
    let reached = || fs::read(dir.path().join("reached")).unwrap();
    let mut acknowledged = vec![length()];
    let mut remembered = vec![reached()];
    for step in 0..STEPS {
        run_activity(&cluster, &clock, step);
        acknowledged.push(length());
        remembered.push(reached());
    }
    clock.advance(5000);
    let end = clock.0.load(Ordering::Relaxed);
    let worlds: Vec<Vec<Object>> = (0..=STEPS).map(|steps| reference_objects(steps, end)).collect();
    let whole = fs::read(&journal).unwrap();
    let copy = TempDir::new().unwrap();
    for cut in 0..=whole.len() {
        fs::write(copy.path().join("journal-0"), &whole[..cut]).unwrap();
        let kept = acknowledged.iter().filter(|length| **length <= cut).count().saturating_sub(1);
        let written: &[u8] = if cut < acknowledged[0] { b"" } else { &remembered[kept] };
        fs::write(copy.path().join("reached"), written).unwrap();
        assert_eq!(read_audit(copy.path()).unwrap().len(), kept, "cut at {cut}");
        let reopened =
            open_cluster(copy.path(), &clock).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        // A folder whose journal lacks its first line counts as new, so the cluster is created now.
        if cut >= acknowledged[0] {
            assert_eq!(reopened.objects(), worlds[kept], "cut at {cut}");
        }
        // The cluster keeps working, and the torn tail does not disturb the next process that opens it.
        if cut % 50 == 0 {
            apply(&reopened, request(&config_map("after", json!({})), SSA)).unwrap();
            let before = cluster_state(&reopened, copy.path());
            drop(reopened);
            assert_eq!(
                cluster_state(&open_cluster(copy.path(), &clock).unwrap(), copy.path()),
                before,
                "cut at {cut}"
            );
        }
    }
}

#[test]
fn a_kill_during_a_snapshot_loses_nothing() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    (0..10).for_each(|step| run_activity(&cluster, &clock, step));
    let before = cluster_state(&cluster, dir.path());
    drop(cluster);
    // The next journal already exists, along with half of the snapshot.
    fs::write(dir.path().join("journal-1"), b"").unwrap();
    fs::write(dir.path().join("snapshot.new"), b"0000").unwrap();
    assert_eq!(cluster_state(&open_cluster(dir.path(), &clock).unwrap(), dir.path()), before);
    assert!(!dir.path().join("journal-1").exists());
}

#[test]
fn damage_is_reported_with_its_location() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    (0..6).for_each(|step| run_activity(&cluster, &clock, step));
    drop(cluster);
    let journal = dir.path().join("journal-0");
    let whole = fs::read(&journal).unwrap();
    for at in (0..whole.len()).step_by(37).filter(|at| whole[*at] != b'\n') {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&journal, &damaged).unwrap();
        let error = open_cluster(dir.path(), &clock).map(drop).unwrap_err();
        assert!(matches!(error, SimError::Damaged { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains("is damaged on line"), "{error}");
        assert_eq!(fs::read(&journal).unwrap(), damaged, "a damaged file is left as it is");
    }
    fs::write(dir.path().join("snapshot"), b"garbage\n").unwrap();
    assert!(open_cluster(dir.path(), &clock).is_err() && read_audit(dir.path()).is_err());
}

/// A killed process leaves the beginning of the record that it was writing, and never loses an acknowledged
/// record.
#[test]
fn a_journal_that_no_kill_can_leave_is_damaged() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    (0..6).for_each(|step| run_activity(&cluster, &clock, step));
    drop(cluster);
    let journal = dir.path().join("journal-0");
    let whole = fs::read(&journal).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let fails = |content: &[u8], text: &str| {
        fs::write(&journal, content).unwrap();
        assert!(has_stored_cluster(dir.path()).unwrap(), "the cluster is damaged, not missing");
        for error in
            [open_cluster(dir.path(), &clock).map(drop).unwrap_err(), read_audit(dir.path()).unwrap_err()]
        {
            assert!(matches!(error, SimError::Damaged { .. }) && error.to_string().contains(text), "{error}");
        }
        assert_eq!(fs::read(&journal).unwrap(), content, "a damaged file is left as it is");
    };
    for cut in (first..whole.len()).step_by(29) {
        fails(&whole[..cut], "the file was truncated");
    }
    for garbage in [&b"garbage\xff\x00"[..], b"00000000 {}", b"00000000 {\"write\": nothing", b"0000\0\0\0\0"]
    {
        fails(garbage, "not the start of a record");
        fails(&[&whole, garbage].concat(), "not the start of a record");
    }
    // A journal that lacks its first line counts as absent. The folder then contains no cluster, and the
    // stored length is ignored.
    for cut in [0, 1, 8, 9, 10, first - 1] {
        fs::write(&journal, &whole[..cut]).unwrap();
        assert!(!has_stored_cluster(dir.path()).unwrap(), "cut at {cut}");
        assert_eq!(read_audit(dir.path()).unwrap(), [], "cut at {cut}");
    }
    let started = open_cluster(dir.path(), &clock).unwrap();
    assert!(started.objects().iter().all(|object| object.kind() == "Namespace"), "{:?}", started.objects());
    drop(started);
    run_activity(&open_cluster(dir.path(), &clock).unwrap(), &clock, 0);
    assert_eq!(read_audit(dir.path()).unwrap().len(), 1);
}

#[test]
fn a_truncated_journal_after_a_snapshot_is_damaged() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    let big = |number: usize| config_map("big", json!({"a": format!("{number}{}", "x".repeat(100_000))}));
    let mut number = 0;
    while !dir.path().join("snapshot").exists() {
        apply(&cluster, request(&big(number), SSA)).unwrap();
        number += 1;
    }
    let snapshot = fs::read(dir.path().join("snapshot")).unwrap();
    let journal = dir.path().join("journal-1");
    assert_eq!(fs::read(&journal).unwrap(), b"", "no write followed the snapshot");
    drop(cluster);
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    run_activity(&cluster, &clock, 0);
    let written = fs::read(&journal).unwrap();
    fs::write(&journal, b"").unwrap();
    assert!(read_audit(dir.path()).unwrap_err().to_string().contains("the file was truncated"));
    fs::write(&journal, written).unwrap();
    while journal.exists() {
        apply(&cluster, request(&big(number), SSA)).unwrap();
        number += 1;
    }
    drop(cluster);
    fs::write(dir.path().join("snapshot"), snapshot).unwrap();
    fs::write(&journal, b"").unwrap();
    let error = open_cluster(dir.path(), &clock).map(drop).unwrap_err().to_string();
    assert!(error.contains("older than the expected journal-2"), "{error}");
}

#[test]
fn a_cluster_that_cannot_persist_its_state_refuses_all_calls() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    let cluster = open_cluster(dir.path(), &clock).unwrap();
    // The folder disappears, so the next snapshot cannot be written.
    fs::remove_dir_all(dir.path()).unwrap();
    let big = |number: usize| config_map("big", json!({"a": format!("{number}{}", "x".repeat(100_000))}));
    let error = (0..10).find_map(|number| apply(&cluster, request(&big(number), SSA)).err()).unwrap();
    assert_eq!(error.kind, ErrorKind::Server);
    assert!(error.message.contains("cannot save its state"), "{error}");
    assert!(cluster.get(&gvk("ConfigMap"), "default", "big").now_or_never().unwrap().is_err());
}

#[test]
fn a_new_configuration_applies_from_reopening_on() {
    let (dir, clock) = (TempDir::new().unwrap(), ManualClock::default());
    drop(open_cluster(dir.path(), &clock).unwrap());
    let slow = SimConfig { ready_after: super::ms(60_000), seed: 99, ..SimConfig::default() };
    let cluster = SimCluster::open(dir.path(), slow, clock.clock()).unwrap();
    apply(&cluster, request(&workload("Pod", "p", "p:1", json!({})), SSA)).unwrap();
    clock.advance(59_000);
    let before = cluster_state(&cluster, dir.path());
    drop(cluster);
    let slow = SimConfig { ready_after: super::ms(60_000), ..SimConfig::default() };
    assert_eq!(
        cluster_state(&SimCluster::open(dir.path(), slow, clock.clock()).unwrap(), dir.path()),
        before
    );
}

#[test]
fn a_folder_without_a_cluster_has_an_empty_audit() {
    let dir = TempDir::new().unwrap();
    assert_eq!(read_audit(dir.path()).unwrap(), []);
    assert_eq!(read_audit(&dir.path().join("absent")).unwrap(), []);
}
