//! Logs written by earlier formats, which must be read for ever.
//!
//! `golden/v1` was written by the first format. A new format gets a folder of its own: write it once with
//! `TIDEGATE_WRITE_GOLDEN=v2 cargo test -p tidegate-oplog --test log golden`, and add it to `FORMATS`. Existing folders
//! are never written again.

use std::env;
use std::path::{Path, PathBuf};

use tidegate_model::{OperationPhase, Timestamp};
use tidegate_oplog::{Append, LogError, OperationLog};

use crate::files::copy;
use crate::kit::{self, Fact, Log, State, append, finished, operation, passed, summary};

const FORMATS: [&str; 1] = ["v1"];

const CONTENT: &[u8] = b"kind: ConfigMap\n";
const BLOB: &str = "b4437f31639609795019a9dc438c2d3d5095d6fe2db7f9a34920dae44e76404d";

fn folder(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format)
}

fn began() -> Fact {
    Fact::Began { name: "a plan of many tasks; ".repeat(400), at: Timestamp::from_millis(1_795_253_400_250) }
}

fn ended() -> Fact {
    Fact::Ended {
        phase: OperationPhase::Succeeded, notes: vec!["all well".to_owned(), "größer".to_owned()]
    }
}

fn state() -> State {
    State { waves: vec![1, 300, 70_000, u32::MAX], padding: "snapshot".to_owned() }
}

/// An operation that ended, one that is open, one of which only the summary is left.
fn write(log: &Log) {
    let blob = log.put_blob(CONTENT).unwrap();
    let over = Append { summary: finished(1, "shop"), ..append(1, 1, passed(1..=3)) };
    log.append(vec![over]).unwrap();
    let facts = vec![began(), Fact::Passed { wave: 1 }, ended()];
    log.append(vec![Append { summary: finished(2, "shop"), blobs: vec![blob], ..append(2, 1, facts) }])
        .unwrap();
    log.append(vec![Append { snapshot: Some(state()), ..append(3, 1, passed(1..=2)) }]).unwrap();
    log.append(vec![append(3, 3, passed(3..=3))]).unwrap();
    log.compact(1).unwrap();
}

fn read(log: &Log) {
    assert_eq!(log.damage(), []);
    assert_eq!(log.summaries().unwrap(), [finished(1, "shop"), finished(2, "shop"), summary(3, "shop")]);
    assert!(matches!(log.load(operation(1)), Err(LogError::Compacted { .. })));
    assert_eq!(log.facts(operation(2)).unwrap(), [began(), Fact::Passed { wave: 1 }, ended()]);
    let loaded = log.load(operation(3)).unwrap();
    assert_eq!(loaded.snapshot, Some((2, state())));
    assert_eq!(loaded.facts, passed(3..=3));
    assert_eq!(log.blob(BLOB.parse().unwrap()).unwrap(), CONTENT);
}

#[test]
fn golden_logs_are_read_for_ever() {
    if let Ok(format) = env::var("TIDEGATE_WRITE_GOLDEN") {
        let written = tempfile::tempdir().unwrap();
        let state = written.path().join("state");
        write(&kit::open(&state).unwrap());
        drop(kit::raw(&state));
        assert!(!folder(&format).exists(), "golden logs are written once");
        copy(&state, &folder(&format));
    }
    for format in FORMATS {
        let copied = tempfile::tempdir().unwrap();
        let path = copied.path().join("state");
        copy(&folder(format), &path);
        let log = kit::open(&path).unwrap();
        read(&log);
        // It can be gone on with.
        log.append(vec![append(3, 4, passed(4..=4))]).unwrap();
        drop(log);
        assert_eq!(kit::open(&path).unwrap().facts(operation(3)).unwrap(), passed(1..=4));
    }
}
