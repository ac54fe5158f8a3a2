//! A cluster outlives its process, killed at any instant.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures_util::FutureExt;
use serde_json::json;
use tempfile::TempDir;
use tidegate_cluster::sim::{AuditEntry, Clock, SimCluster, SimConfig, SimError, is_kept, read_audit};
use tidegate_cluster::{Applied, ApplyRequest, Cluster, ClusterError, ErrorKind, Propagation};
use tidegate_model::{Object, Timestamp};

use super::{REPLACE, SSA, START, config_map, deletion, gvk, request, with, workload};

/// A clock that a test sets.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn clock(&self) -> Clock {
        let hand = self.0.clone();
        Clock::wall(move || Timestamp::from_millis(START.as_millis() + hand.load(Ordering::Relaxed)))
    }

    fn forward(&self, millis: i64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }
}

fn open(dir: &Path, hand: &Hand) -> Result<SimCluster, SimError> {
    SimCluster::open(dir, SimConfig::default(), hand.clock())
}

fn apply(cluster: &SimCluster, request: ApplyRequest) -> Result<Applied, ClusterError> {
    cluster.apply(request).now_or_never().expect("without latency a call does not wait")
}

fn state(cluster: &SimCluster, dir: &Path) -> (Vec<Object>, Vec<AuditEntry>, Option<Timestamp>) {
    (cluster.objects(), read_audit(dir).unwrap(), cluster.next_due())
}

/// Some life: writes of every kind, refusals, controllers at work.
fn live(cluster: &SimCluster, hand: &Hand, step: usize) {
    let deployment = workload("Deployment", "api", &format!("api:{}", step / 5), json!({}));
    let job = workload("Job", &format!("m{step}"), "m:1", json!({"fail-times": "1"}));
    let _ = match step % 5 {
        0 => apply(cluster, request(&deployment, SSA)).map(drop),
        1 => apply(cluster, request(&job, REPLACE)).map(drop),
        2 => apply(
            cluster,
            request(&with(&config_map("c", json!({})), "/metadata/namespace", json!("nowhere")), SSA),
        )
        .map(drop),
        3 => apply(cluster, request(&config_map(&format!("c{step}"), json!({"a": "x".repeat(50)})), SSA))
            .map(drop),
        _ => cluster
            .delete(deletion("Job", &format!("m{}", step - 3), Propagation::Foreground))
            .now_or_never()
            .unwrap()
            .map(drop),
    };
    hand.forward(i64::try_from(step * 7 % 90).unwrap());
}

#[test]
fn a_reopened_cluster_is_the_same_cluster() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let mut cluster = open(dir.path(), &hand).unwrap();
    for step in 0..60 {
        live(&cluster, &hand, step);
        if step % 7 == 0 {
            let before = state(&cluster, dir.path());
            drop(cluster);
            cluster = open(dir.path(), &hand).unwrap();
            assert_eq!(state(&cluster, dir.path()), before, "after step {step}");
        }
    }
    let sequences: Vec<u64> = read_audit(dir.path()).unwrap().iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, (1..=60).collect::<Vec<_>>());
}

#[test]
fn controllers_go_on_as_if_the_process_had_never_been_away() {
    let results = [false, true].map(|away| {
        let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
        let mut cluster = open(dir.path(), &hand).unwrap();
        apply(&cluster, request(&workload("StatefulSet", "db", "db:1", json!({"ready-after": "10s"})), SSA))
            .unwrap();
        for _ in 0..40 {
            hand.forward(1000);
            if away {
                drop(cluster);
                cluster = open(dir.path(), &hand).unwrap();
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
fn a_snapshot_replaces_a_long_journal_and_changes_nothing() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let mut cluster = open(dir.path(), &hand).unwrap();
    let mut snapshots = 0;
    for step in 0..400 {
        live(&cluster, &hand, step);
        let filler =
            config_map(&format!("big{}", step % 3), json!({"a": format!("{step}{}", "x".repeat(3000))}));
        apply(&cluster, request(&filler, SSA)).unwrap();
        let journals = fs::read_dir(dir.path())
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("journal-"));
        assert_eq!(journals.count(), 1);
        if step % 40 == 39 {
            snapshots += usize::from(dir.path().join("snapshot").exists());
            let before = state(&cluster, dir.path());
            drop(cluster);
            cluster = open(dir.path(), &hand).unwrap();
            assert_eq!(state(&cluster, dir.path()), before, "after step {step}");
            assert!(before.1.ends_with(&cluster.audit()) && before.1.len() >= 2 * step, "the audit is whole");
        }
    }
    assert!(snapshots > 5);
}

/// The world after so many steps, seen at a later time, by a cluster that was never away.
fn reference(steps: usize, end: i64) -> Vec<Object> {
    let hand = Hand::default();
    let cluster = SimCluster::in_memory(SimConfig::default(), hand.clock());
    (0..steps).for_each(|step| live(&cluster, &hand, step));
    hand.0.store(end, Ordering::Relaxed);
    cluster.objects()
}

/// Cuts the journal at every byte. Whatever was acknowledged before the cut must be there, and nothing else.
#[test]
fn a_journal_cut_anywhere_loses_nothing_acknowledged() {
    const STEPS: usize = 5;
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let journal = dir.path().join("journal-0");
    let length = || usize::try_from(fs::metadata(&journal).unwrap().len()).unwrap();
    let cluster = open(dir.path(), &hand).unwrap();
    // How long the journal was when each write was acknowledged, the beginning first, and what was remembered of that.
    let reached = || fs::read(dir.path().join("reached")).unwrap();
    let mut acknowledged = vec![length()];
    let mut remembered = vec![reached()];
    for step in 0..STEPS {
        live(&cluster, &hand, step);
        acknowledged.push(length());
        remembered.push(reached());
    }
    hand.forward(5000);
    let end = hand.0.load(Ordering::Relaxed);
    let worlds: Vec<Vec<Object>> = (0..=STEPS).map(|steps| reference(steps, end)).collect();
    let whole = fs::read(&journal).unwrap();
    let copy = TempDir::new().unwrap();
    for cut in 0..=whole.len() {
        fs::write(copy.path().join("journal-0"), &whole[..cut]).unwrap();
        let kept = acknowledged.iter().filter(|length| **length <= cut).count().saturating_sub(1);
        let written: &[u8] = if cut < acknowledged[0] { b"" } else { &remembered[kept] };
        fs::write(copy.path().join("reached"), written).unwrap();
        assert_eq!(read_audit(copy.path()).unwrap().len(), kept, "cut at {cut}");
        let reopened = open(copy.path(), &hand).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        // A journal without its beginning is a new cluster, made now.
        if cut >= acknowledged[0] {
            assert_eq!(reopened.objects(), worlds[kept], "cut at {cut}");
        }
        // It goes on working, and the torn tail is not in the way at the next opening.
        if cut % 50 == 0 {
            apply(&reopened, request(&config_map("after", json!({})), SSA)).unwrap();
            let before = state(&reopened, copy.path());
            drop(reopened);
            assert_eq!(state(&open(copy.path(), &hand).unwrap(), copy.path()), before, "cut at {cut}");
        }
    }
}

#[test]
fn a_process_killed_while_it_makes_a_snapshot_loses_nothing() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let cluster = open(dir.path(), &hand).unwrap();
    (0..10).for_each(|step| live(&cluster, &hand, step));
    let before = state(&cluster, dir.path());
    drop(cluster);
    // The next journal is there already, and half of the snapshot.
    fs::write(dir.path().join("journal-1"), b"").unwrap();
    fs::write(dir.path().join("snapshot.new"), b"0000").unwrap();
    assert_eq!(state(&open(dir.path(), &hand).unwrap(), dir.path()), before);
    assert!(!dir.path().join("journal-1").exists());
}

#[test]
fn damage_is_named_and_nothing_is_guessed() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let cluster = open(dir.path(), &hand).unwrap();
    (0..6).for_each(|step| live(&cluster, &hand, step));
    drop(cluster);
    let journal = dir.path().join("journal-0");
    let whole = fs::read(&journal).unwrap();
    for at in (0..whole.len()).step_by(37).filter(|at| whole[*at] != b'\n') {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&journal, &damaged).unwrap();
        let error = open(dir.path(), &hand).map(drop).unwrap_err();
        assert!(matches!(error, SimError::Damaged { .. }), "byte {at}: {error}");
        assert!(error.to_string().contains("is damaged in line"), "{error}");
        assert_eq!(fs::read(&journal).unwrap(), damaged, "a damaged file is left as it is");
    }
    fs::write(dir.path().join("snapshot"), b"garbage\n").unwrap();
    assert!(open(dir.path(), &hand).is_err() && read_audit(dir.path()).is_err());
}

/// A killed process leaves the beginning of a record it was writing, and never less than it told.
#[test]
fn what_no_kill_can_leave_of_a_journal_is_damage() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let cluster = open(dir.path(), &hand).unwrap();
    (0..6).for_each(|step| live(&cluster, &hand, step));
    drop(cluster);
    let journal = dir.path().join("journal-0");
    let whole = fs::read(&journal).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let fails = |content: &[u8], words: &str| {
        fs::write(&journal, content).unwrap();
        assert!(is_kept(dir.path()).unwrap(), "it is not missing");
        for error in [open(dir.path(), &hand).map(drop).unwrap_err(), read_audit(dir.path()).unwrap_err()] {
            assert!(
                matches!(error, SimError::Damaged { .. }) && error.to_string().contains(words),
                "{error}"
            );
        }
        assert_eq!(fs::read(&journal).unwrap(), content, "a damaged file is left as it is");
    };
    for cut in (first..whole.len()).step_by(29) {
        fails(&whole[..cut], "the file was cut");
    }
    for garbage in [&b"garbage\xff\x00"[..], b"00000000 {}", b"00000000 {\"write\": nothing", b"0000\0\0\0\0"]
    {
        fails(garbage, "not how a record begins");
        fails(&[&whole, garbage].concat(), "not how a record begins");
    }
    // Without its beginning it is as good as none; then nothing is kept, and what is remembered of it counts no more.
    for cut in [0, 1, 8, 9, 10, first - 1] {
        fs::write(&journal, &whole[..cut]).unwrap();
        assert!(!is_kept(dir.path()).unwrap(), "cut at {cut}");
        assert_eq!(read_audit(dir.path()).unwrap(), [], "cut at {cut}");
    }
    let begun = open(dir.path(), &hand).unwrap();
    assert!(begun.objects().iter().all(|object| object.kind() == "Namespace"), "{:?}", begun.objects());
    drop(begun);
    live(&open(dir.path(), &hand).unwrap(), &hand, 0);
    assert_eq!(read_audit(dir.path()).unwrap().len(), 1);
}

#[test]
fn a_journal_after_a_snapshot_that_was_cut_is_damage() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let cluster = open(dir.path(), &hand).unwrap();
    let big = |number: usize| config_map("big", json!({"a": format!("{number}{}", "x".repeat(100_000))}));
    let mut number = 0;
    while !dir.path().join("snapshot").exists() {
        apply(&cluster, request(&big(number), SSA)).unwrap();
        number += 1;
    }
    let snapshot = fs::read(dir.path().join("snapshot")).unwrap();
    let journal = dir.path().join("journal-1");
    assert_eq!(fs::read(&journal).unwrap(), b"", "nothing came after the snapshot");
    drop(cluster);
    let cluster = open(dir.path(), &hand).unwrap();
    live(&cluster, &hand, 0);
    let written = fs::read(&journal).unwrap();
    fs::write(&journal, b"").unwrap();
    assert!(read_audit(dir.path()).unwrap_err().to_string().contains("the file was cut"));
    fs::write(&journal, written).unwrap();
    while journal.exists() {
        apply(&cluster, request(&big(number), SSA)).unwrap();
        number += 1;
    }
    drop(cluster);
    fs::write(dir.path().join("snapshot"), snapshot).unwrap();
    fs::write(&journal, b"").unwrap();
    let error = open(dir.path(), &hand).map(drop).unwrap_err().to_string();
    assert!(error.contains("in the place of journal-2"), "{error}");
}

#[test]
fn a_cluster_that_cannot_keep_its_state_answers_nothing() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    let cluster = open(dir.path(), &hand).unwrap();
    // The folder goes away: the next snapshot cannot be written.
    fs::remove_dir_all(dir.path()).unwrap();
    let big = |number: usize| config_map("big", json!({"a": format!("{number}{}", "x".repeat(100_000))}));
    let error = (0..10).find_map(|number| apply(&cluster, request(&big(number), SSA)).err()).unwrap();
    assert_eq!(error.kind, ErrorKind::Server);
    assert!(error.message.contains("cannot keep its state"), "{error}");
    assert!(cluster.get(&gvk("ConfigMap"), "default", "big").now_or_never().unwrap().is_err());
}

#[test]
fn another_configuration_counts_from_now_on() {
    let (dir, hand) = (TempDir::new().unwrap(), Hand::default());
    drop(open(dir.path(), &hand).unwrap());
    let slow = SimConfig { ready_after: super::ms(60_000), seed: 99, ..SimConfig::default() };
    let cluster = SimCluster::open(dir.path(), slow, hand.clock()).unwrap();
    apply(&cluster, request(&workload("Pod", "p", "p:1", json!({})), SSA)).unwrap();
    hand.forward(59_000);
    let before = state(&cluster, dir.path());
    drop(cluster);
    let slow = SimConfig { ready_after: super::ms(60_000), ..SimConfig::default() };
    assert_eq!(state(&SimCluster::open(dir.path(), slow, hand.clock()).unwrap(), dir.path()), before);
}

#[test]
fn a_folder_without_a_cluster_has_an_empty_audit() {
    let dir = TempDir::new().unwrap();
    assert_eq!(read_audit(dir.path()).unwrap(), []);
    assert_eq!(read_audit(&dir.path().join("absent")).unwrap(), []);
}
