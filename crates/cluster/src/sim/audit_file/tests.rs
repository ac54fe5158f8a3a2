use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidegate_model::{ObjectKey, Timestamp};

use super::*;
use crate::sim::audit::{Verb, WriteAttempt};
use crate::sim::journal::{Journal, read_audit};
use crate::sim::{SimConfig, SimState};

/// A size limit that is small enough for tests.
const BYTES_MAX: u64 = 20_000;
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Adds synthetic writes to the audit, because actually performing this many writes would take too long.
fn add_synthetic_writes(state: &mut SimState, writes: usize) {
    for number in 0..writes {
        let key = ObjectKey::new("", "ConfigMap", "default", format!("settings-{number}"));
        let attempt = WriteAttempt { verb: Verb::Apply, dry_run: false, key, operation: None };
        state.audit.record(attempt, 200);
    }
}

fn open_journal(dir: &Path) -> (Journal, SimState) {
    Journal::open(dir, SimConfig::default(), START).unwrap()
}

/// Returns the first and last sequence number of an audit, after checking that there are no gaps.
fn sequence_range(entries: &[AuditEntry]) -> (u64, u64) {
    let sequences: Vec<u64> = entries.iter().map(|entry| entry.sequence).collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1), "there are gaps");
    (sequences[0], sequences[sequences.len() - 1])
}

fn audit_files(dir: &Path) -> Vec<(String, u64)> {
    let files = fs::read_dir(dir).unwrap().map(|file| file.unwrap());
    let name = |file: &fs::DirEntry| file.file_name().to_string_lossy().into_owned();
    files
        .filter(|file| is_audit_file(&name(file)))
        .map(|file| (name(&file), file.metadata().unwrap().len()))
        .collect()
}

#[test]
fn a_long_audit_loses_its_oldest_entries_as_whole_records() {
    let dir = TempDir::new().unwrap();
    let (mut filed, mut state) = (AuditFile::default(), SimState::new(SimConfig::default(), START));
    let line = format_line(&{
        add_synthetic_writes(&mut state, 1);
        state.audit.entries_since(0)[0].clone()
    });
    let most = 20 * byte_length(&line.unwrap());
    let mut first_kept = 1;
    for number in 1..=60 {
        let before = state.audit.last_sequence();
        add_synthetic_writes(&mut state, 3);
        filed = filed.append_entries(dir.path(), number, state.audit.entries_since(before), most).unwrap();
        let entries = filed.read_entries(dir.path()).unwrap();
        let (first, last) = sequence_range(&entries);
        assert_eq!(last, state.audit.last_sequence(), "the newest entries are kept");
        assert!(first >= first_kept && entries.len() >= 3.min(last as usize), "{first}");
        assert!(
            fs::metadata(filed.path(dir.path())).unwrap().len() <= most + most / 4,
            "the file's size is bounded"
        );
        first_kept = first;
    }
    assert!(first_kept > 100, "{first_kept}");
}

#[test]
fn the_audit_of_a_stored_cluster_is_bounded_and_names_the_gap() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut state) = open_journal(dir.path());
    add_synthetic_writes(&mut state, 2_000);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    assert_eq!(
        sequence_range(&read_audit(dir.path()).unwrap()),
        (1, 2_000),
        "new entries are always written"
    );
    add_synthetic_writes(&mut state, 10);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    let kept = read_audit(dir.path()).unwrap();
    let (first, last) = sequence_range(&kept);
    assert!(first > 1 && last == 2_010, "{first} to {last}");
    let files = audit_files(dir.path());
    assert!(files.len() == 1 && files[0].1 <= BYTES_MAX, "{files:?}");
    // The numbering continues without a gap, both in this process and after the cluster is reopened.
    add_synthetic_writes(&mut state, 10);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    drop(journal);
    let (mut journal, mut state) = open_journal(dir.path());
    assert_eq!(state.audit.last_sequence(), 2_020);
    add_synthetic_writes(&mut state, 1);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    assert_eq!(sequence_range(&read_audit(dir.path()).unwrap()), (first, 2_021));
}

#[test]
fn a_kill_while_old_entries_are_dropped_loses_no_others() {
    let dir = TempDir::new().unwrap();
    let (mut journal, mut state) = open_journal(dir.path());
    add_synthetic_writes(&mut state, 2_000);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    let snapshot = fs::read(dir.path().join("snapshot")).unwrap();
    let audit = fs::read(dir.path().join("audit")).unwrap();
    let reached = fs::read(dir.path().join("reached")).unwrap();
    add_synthetic_writes(&mut state, 1);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    assert_eq!(audit_files(dir.path())[0].0, "audit-2");
    drop(journal);
    // Simulate a process that was killed before the new snapshot replaced the old one. All files of the old
    // snapshot still exist alongside the new files.
    fs::write(dir.path().join("snapshot"), snapshot).unwrap();
    fs::write(dir.path().join("audit"), audit).unwrap();
    fs::write(dir.path().join("reached"), reached).unwrap();
    fs::write(dir.path().join("journal-1"), "").unwrap();
    assert_eq!(sequence_range(&read_audit(dir.path()).unwrap()), (1, 2_000));
    let (mut journal, mut state) = open_journal(dir.path());
    assert_eq!(audit_files(dir.path()).len(), 1, "stale files are removed");
    add_synthetic_writes(&mut state, 1);
    journal.rotate_with_limit(BYTES_MAX, &state).unwrap();
    assert_eq!(sequence_range(&read_audit(dir.path()).unwrap()).1, 2_001);
}
