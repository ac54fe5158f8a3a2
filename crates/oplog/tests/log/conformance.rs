//! What every implementation of the log must do; each test runs on all of them.

use std::thread;

use tidegate_model::Digest;
use tidegate_oplog::{Compacted, Loaded, LogError, Store};

use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Fact, Kept, Memory, State, append, ended_line, finished, loaded, open_line, operation,
    passed, summary,
};

macro_rules! on_every_log {
    ($($(#[$about:meta])* $test:ident)*) => {
        mod memory {
            $(#[test] fn $test() { super::$test(<super::Memory as super::Kept>::fresh()); })*
        }
        mod disk {
            $(#[test] fn $test() { super::$test(<super::Disk as super::Kept>::fresh()); })*
        }
    };
}

on_every_log! {
    reads_back_what_was_appended
    groups_hold_many_operations_and_one_operation_twice
    refuses_gaps_and_leaves_no_trace
    refuses_what_it_could_not_read_back
    unknown_operations_have_a_name
    snapshots_shorten_loading
    large_records_and_snapshots_survive
    blobs_come_back
    referring_to_a_missing_blob_is_refused
    summaries_follow_the_facts
    compaction_keeps_the_newest
    compaction_keeps_facts_that_a_snapshot_covers
    compaction_leaves_open_operations_alone
    compaction_leaves_new_blobs_alone
    an_empty_group_is_fine
    many_threads_append
}

fn reads_back_what_was_appended(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![append(1, 1, passed(1..=3))]).unwrap();
    log.append_all(vec![append(1, 4, passed(4..=4))]).unwrap();
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=4), 4));
    let log = kept.reopen();
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=4), 4));
    assert_eq!(log.all(operation(1)).unwrap(), passed(1..=4));
    assert_eq!(log.damage(), []);
    log.append_all(vec![append(1, 5, passed(5..=5))]).unwrap();
    assert_eq!(kept.reopen().load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=5), 5));
}

fn groups_hold_many_operations_and_one_operation_twice(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![
        append(1, 1, passed(1..=2)),
        append(2, 1, passed(9..=9)),
        append(1, 3, passed(3..=3)),
    ])
    .unwrap();
    let log = kept.reopen();
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=3), 3));
    assert_eq!(log.load_as::<Fact>(operation(2)).unwrap(), loaded(passed(9..=9), 1));
}

fn refuses_gaps_and_leaves_no_trace(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![append(1, 1, passed(1..=2))]).unwrap();
    for (offered, expected) in [(2, 3), (4, 3), (0, 3), (u64::MAX, 3)] {
        let error =
            log.append_all(vec![append(2, 1, passed(1..=1)), append(1, offered, passed(7..=7))]).unwrap_err();
        assert!(
            matches!(error, LogError::Gap { expected: e, found, .. } if (e, found) == (expected, offered)),
            "{error}"
        );
    }
    assert!(matches!(
        log.append_all(vec![append(3, 2, passed(1..=1))]),
        Err(LogError::Gap { expected: 1, .. })
    ));
    let log = kept.reopen();
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), loaded(passed(1..=2), 2));
    assert!(
        matches!(log.load_as::<Fact>(operation(2)), Err(LogError::UnknownStream { .. })),
        "the whole group was refused"
    );
    log.append_all(vec![append(1, 3, passed(3..=3))]).unwrap();
}

fn refuses_what_it_could_not_read_back(mut kept: impl Kept) {
    let log = kept.open();
    let long = Append { summary: summary(1, &"x".repeat(2_000)), ..append(1, 1, passed(1..=1)) };
    assert!(matches!(log.append_all(vec![long]), Err(LogError::TooLarge { .. })));
    let notes = vec!["x".repeat(65 << 20)];
    let phase = tidegate_model::OperationPhase::Failed;
    let huge = append(1, 1, vec![Fact::Ended { phase, notes }]);
    assert!(matches!(log.append_all(vec![huge]), Err(LogError::TooLarge { .. })));
    log.append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
}

fn unknown_operations_have_a_name(mut kept: impl Kept) {
    let log = kept.open();
    let error = log.load_as::<Fact>(operation(7)).unwrap_err();
    assert!(error.to_string().contains(&operation(7).to_string()));
    assert!(matches!(log.all(operation(7)), Err(LogError::UnknownStream { .. })));
    assert_eq!(log.lines(), []);
}

fn state(waves: u32) -> State {
    State { waves: (1..=waves).collect(), padding: String::new() }
}

fn snapshots_shorten_loading(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![Append { snapshot: Some(state(3)), ..append(1, 1, passed(1..=3)) }]).unwrap();
    log.append_all(vec![append(1, 4, passed(4..=5))]).unwrap();
    let expected = Loaded { snapshot: Some((3, state(3))), ..loaded(passed(4..=5), 5) };
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), expected);
    assert_eq!(kept.reopen().load_as::<Fact>(operation(1)).unwrap(), expected);
    let log = kept.open();
    assert_eq!(log.all(operation(1)).unwrap(), passed(1..=5), "facts are kept from the first");
    log.append_all(vec![Append { snapshot: Some(state(5)), ..append(1, 6, Vec::new()) }]).unwrap();
    let expected = Loaded { snapshot: Some((5, state(5))), ..loaded(Vec::new(), 5) };
    assert_eq!(kept.reopen().load_as::<Fact>(operation(1)).unwrap(), expected);
}

fn large_records_and_snapshots_survive(mut kept: impl Kept) {
    let big: Vec<Fact> = (0..4_u32)
        .map(|number| Fact::Began {
            name: format!("{number}").repeat(200_000),
            at: tidegate_model::Timestamp::from_millis(i64::from(number)),
        })
        .collect();
    let snapshot = State { waves: vec![1], padding: "p".repeat(300_000) };
    let log = kept.open();
    log.append_all(vec![append(1, 1, big.clone())]).unwrap();
    log.append_all(vec![Append { snapshot: Some(snapshot.clone()), ..append(1, 5, passed(1..=1)) }]).unwrap();
    let log = kept.reopen();
    assert_eq!(log.all(operation(1)).unwrap(), [big, passed(1..=1)].concat());
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap().snapshot, Some((5, snapshot)));
    assert_eq!(log.tidy(10).unwrap(), Compacted::default(), "everything is still referred to");
    assert!(kept.reopen().load_as::<Fact>(operation(1)).is_ok());
}

fn blobs_come_back(mut kept: impl Kept) {
    let log = kept.open();
    let contents = [Vec::new(), b"kind: ConfigMap".to_vec(), vec![7; 1 << 20]];
    let digests: Vec<Digest> = contents.iter().map(|content| log.put_blob(content).unwrap()).collect();
    assert_eq!(log.put_blob(&contents[1]).unwrap(), digests[1], "putting twice is putting once");
    let log = kept.reopen();
    for (content, digest) in contents.iter().zip(digests) {
        assert_eq!(&log.blob(digest).unwrap(), content);
    }
    assert!(matches!(log.blob(Digest([9; 32])), Err(LogError::BlobMissing { .. })));
}

fn referring_to_a_missing_blob_is_refused(mut kept: impl Kept) {
    let log = kept.open();
    let dangling = Append { blobs: vec![Digest([9; 32])], ..append(1, 1, passed(1..=1)) };
    assert!(matches!(log.append_all(vec![dangling]), Err(LogError::BlobMissing { .. })));
    log.append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
}

fn summaries_follow_the_facts(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![append(2, 1, passed(1..=1))]).unwrap();
    log.append_all(vec![append(1, 1, passed(1..=1))]).unwrap();
    log.append_all(vec![Append { summary: finished(2, "shop"), ..append(2, 2, passed(2..=2)) }]).unwrap();
    assert_eq!(log.lines(), [open_line(1, "shop"), ended_line(2, "shop")], "oldest first");
    assert_eq!(kept.reopen().lines(), [open_line(1, "shop"), ended_line(2, "shop")]);
}

fn finish(log: &impl Store, number: u128, application: &str) -> Digest {
    let digest = log.put_blob(format!("manifests of {number}").as_bytes()).unwrap();
    log.append_all(vec![Append {
        summary: finished(number, application),
        blobs: vec![digest],
        ..append(number, 1, passed(1..=4))
    }])
    .unwrap();
    digest
}

fn compaction_keeps_the_newest(mut kept: impl Kept) {
    let log = kept.open();
    let digests: Vec<Digest> = (1..=4).map(|number| finish(log, number, "shop")).collect();
    finish(log, 5, "bank");
    assert_eq!(log.tidy(2).unwrap(), Compacted { streams: 2, facts: 8, blobs: 2, ..Compacted::default() });
    assert_eq!(log.tidy(2).unwrap(), Compacted::default(), "twice is once");
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    for number in [1, 2] {
        assert!(matches!(log.load_as::<Fact>(operation(number)), Err(LogError::Compacted { .. })));
        assert!(matches!(log.all(operation(number)), Err(LogError::Compacted { .. })));
        assert!(matches!(
            log.append_all(vec![append(number, 5, passed(5..=5))]),
            Err(LogError::Compacted { .. })
        ));
        assert!(matches!(
            log.blob(digests[usize::try_from(number).unwrap() - 1]),
            Err(LogError::BlobMissing { .. })
        ));
    }
    for number in [3, 4, 5] {
        assert_eq!(log.load_as::<Fact>(operation(number)).unwrap(), loaded(passed(1..=4), 4));
    }
    assert_eq!(log.lines().len(), 5, "summaries stay");
    assert_eq!(log.blob(digests[3]).unwrap(), b"manifests of 4");
}

fn compaction_keeps_facts_that_a_snapshot_covers(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![Append { snapshot: Some(state(3)), ..append(1, 1, passed(1..=3)) }]).unwrap();
    log.append_all(vec![Append { summary: finished(1, "shop"), ..append(1, 4, passed(4..=4)) }]).unwrap();
    assert_eq!(log.tidy(10).unwrap(), Compacted::default());
    let log = kept.reopen();
    let expected = Loaded { snapshot: Some((3, state(3))), ..loaded(passed(4..=4), 4) };
    assert_eq!(log.load_as::<Fact>(operation(1)).unwrap(), expected);
    assert_eq!(log.all(operation(1)).unwrap(), passed(1..=4), "the newest keep everything");
    assert_eq!(log.tidy(0).unwrap(), Compacted { streams: 1, facts: 4, blobs: 0, ..Compacted::default() });
}

fn compaction_leaves_open_operations_alone(mut kept: impl Kept) {
    let log = kept.open();
    log.append_all(vec![Append { snapshot: Some(state(2)), ..append(1, 1, passed(1..=2)) }]).unwrap();
    assert_eq!(log.tidy(0).unwrap(), Compacted::default());
    assert_eq!(kept.reopen().all(operation(1)).unwrap(), passed(1..=2));
}

fn compaction_leaves_new_blobs_alone(mut kept: impl Kept) {
    let log = kept.open();
    let digest = log.put_blob(b"put, and not referred to yet").unwrap();
    assert_eq!(log.tidy(0).unwrap(), Compacted::default());
    log.append_all(vec![Append { blobs: vec![digest], ..append(1, 1, passed(1..=1)) }]).unwrap();
    let forgotten = log.put_blob(b"put, and then the process ended").unwrap();
    let log = kept.reopen();
    assert_eq!(log.tidy(0).unwrap(), Compacted { streams: 0, facts: 0, blobs: 1, ..Compacted::default() });
    assert!(log.blob(digest).is_ok() && log.blob(forgotten).is_err());
}

fn an_empty_group_is_fine(mut kept: impl Kept) {
    let log = kept.open();
    log.append(Vec::new()).unwrap();
    assert_eq!(kept.reopen().lines(), []);
}

fn many_threads_append(mut kept: impl Kept) {
    let log = kept.open();
    thread::scope(|scope| {
        for number in 1..=8 {
            scope.spawn(move || {
                for sequence in 1..=10_u32 {
                    log.append_all(vec![append(number, sequence.into(), passed(sequence..=sequence))])
                        .unwrap();
                    log.load_as::<Fact>(operation(number)).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..5 {
                log.tidy(1).unwrap();
            }
        });
    });
    let log = kept.reopen();
    for number in 1..=8 {
        assert_eq!(log.load_as::<Fact>(operation(number)).unwrap(), loaded(passed(1..=10), 10));
    }
}
