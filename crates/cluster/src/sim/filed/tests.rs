use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidegate_model::{ObjectKey, Timestamp};

use super::*;
use crate::sim::audit::{Attempt, Verb};
use crate::sim::journal::{Journal, read_audit};
use crate::sim::{SimConfig, SimState};

/// A limit that is reached soon.
const MOST: u64 = 20_000;
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Writes that nobody did, straight into the audit: a long rehearsal would take too long.
fn pretend(state: &mut SimState, writes: usize) {
    for number in 0..writes {
        let key = ObjectKey::new("", "ConfigMap", "default", format!("settings-{number}"));
        let attempt = Attempt { verb: Verb::Apply, dry_run: false, key, operation: None };
        state.audit.record(attempt, 200);
    }
}

fn open(dir: &Path) -> (Journal, SimState) {
    Journal::open(dir, SimConfig::default(), START).unwrap()
}

/// First and last sequence of an audit without gaps.
fn span(entries: &[AuditEntry]) -> (u64, u64) {
    let sequences: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "there are gaps");
    (sequences[0], sequences[sequences.len() - 1])
}

fn audit_files(dir: &Path) -> Vec<(String, u64)> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let name = |file: &fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    files
        .filter(|file| is_one(&name(file)))
        .map(|file| (name(&file), file.metadata().unwrap().len()))
        .collect()
}

#[test]
fn a_long_audit_loses_its_oldest_entries_as_whole_records() {
    let dir = TempDir::new().unwrap();
    let (mut filed, mut state) = (Filed::default(), SimState::new(SimConfig::default(), START));
    let line = frame(&{
        pretend(&mut state, 1);
        state.audit.since(0)[0].clone()
    });
    let most = 20 * length(&line.unwrap());
    let mut first_kept = 1;
    for number in 1..=60 {
        let before = state.audit.last();
        pretend(&mut state, 3);
        filed = filed.with(dir.path(), number, state.audit.since(before), most).unwrap();
        let entries = filed.read(dir.path()).unwrap();
        let (first, last) = span(&entries);
        assert_eq!(last, state.audit.last(), "the newest are there");
        assert!(first >= first_kept && entries.len() >= 3.min(last as usize), "{first}");
        assert!(fs::metadata(filed.path(dir.path())).unwrap().len() <= most + most / 4, "it is bounded");
        first_kept = first;
    }
    assert!(first_kept > 100, "{first_kept}");
}

#[test]
fn the_audit_of_a_kept_cluster_is_bounded_and_tells_what_is_gone() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut state) = open(dir.path());
    pretend(&mut state, 2_000);
    journal.rotate_within(MOST, &state).unwrap();
    assert_eq!(span(&read_audit(dir.path()).unwrap()), (1, 2_000), "what is new is filed in any case");
    pretend(&mut state, 10);
    journal.rotate_within(MOST, &state).unwrap();
    let kept = read_audit(dir.path()).unwrap();
    let (first, last) = span(&kept);
    assert!(first > 1 && last == 2_010, "{first} to {last}");
    let files = audit_files(dir.path());
    assert!(files.len() == 1 && files[0].1 <= MOST, "{files:?}");
    // It goes on where it was, in this process and in the next.
    pretend(&mut state, 10);
    journal.rotate_within(MOST, &state).unwrap();
    drop(journal);
    let (mut journal, mut state) = open(dir.path());
    assert_eq!(state.audit.last(), 2_020);
    pretend(&mut state, 1);
    journal.rotate_within(MOST, &state).unwrap();
    assert_eq!(span(&read_audit(dir.path()).unwrap()), (first, 2_021));
}

#[test]
fn a_process_killed_while_it_leaves_entries_out_loses_none() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut state) = open(dir.path());
    pretend(&mut state, 2_000);
    journal.rotate_within(MOST, &state).unwrap();
    let snapshot = fs::read(dir.path().join("snapshot")).unwrap();
    let audit = fs::read(dir.path().join("audit")).unwrap();
    let reached = fs::read(dir.path().join("reached")).unwrap();
    pretend(&mut state, 1);
    journal.rotate_within(MOST, &state).unwrap();
    assert_eq!(audit_files(dir.path())[0].0, "audit-2");
    drop(journal);
    // As if the new snapshot had not taken its place: all that the old one names is there, and some more.
    fs::write(dir.path().join("snapshot"), snapshot).unwrap();
    fs::write(dir.path().join("audit"), audit).unwrap();
    fs::write(dir.path().join("reached"), reached).unwrap();
    fs::write(dir.path().join("journal-1"), "").unwrap();
    assert_eq!(span(&read_audit(dir.path()).unwrap()), (1, 2_000));
    let (mut journal, mut state) = open(dir.path());
    assert_eq!(audit_files(dir.path()).len(), 1, "what is left over goes");
    pretend(&mut state, 1);
    journal.rotate_within(MOST, &state).unwrap();
    assert_eq!(span(&read_audit(dir.path()).unwrap()).1, 2_001);
}
