//! Guarantees of every log implementation. Each test runs on all of them.

use std::thread;

use tidegate_model::Digest;
use tidegate_oplog::{CompactionResult, LoadedStream, LogError, Store};

use crate::kit::prelude::*;
use crate::kit::{
    Append, Disk, Event, Memory, ReopenableLog, State, append_to_shop, ended_listing, finished_summary,
    loaded_stream, open_listing, operation, operation_summary, waves_passed,
};
use crate::postgres::Postgres;

macro_rules! on_every_log {
    ($($(#[$about:meta])* $test:ident)*) => {
        mod memory {
            $(#[test] fn $test() { super::$test(<super::Memory as super::ReopenableLog>::create()); })*
        }
        mod disk {
            $(#[test] fn $test() { super::$test(<super::Disk as super::ReopenableLog>::create()); })*
        }
        mod postgres {
            $(#[test] fn $test() {
                let Some(kept) = super::Postgres::available() else { return };
                super::$test(kept);
            })*
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
    summaries_follow_the_events
    compaction_keeps_the_newest
    compaction_keeps_events_that_a_snapshot_covers
    compaction_leaves_open_operations_alone
    compaction_leaves_new_blobs_alone
    an_empty_group_is_fine
    many_threads_append
}

fn reads_back_what_was_appended(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=3))]).unwrap();
    log.append_all(vec![append_to_shop(1, 4, waves_passed(4..=4))]).unwrap();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=4), 4));
    let log = kept.reopen();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=4), 4));
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=4));
    assert_eq!(log.damage(), []);
    log.append_all(vec![append_to_shop(1, 5, waves_passed(5..=5))]).unwrap();
    assert_eq!(kept.reopen().load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=5), 5));
}

fn groups_hold_many_operations_and_one_operation_twice(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![
        append_to_shop(1, 1, waves_passed(1..=2)),
        append_to_shop(2, 1, waves_passed(9..=9)),
        append_to_shop(1, 3, waves_passed(3..=3)),
    ])
    .unwrap();
    let log = kept.reopen();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=3), 3));
    assert_eq!(log.load_as::<Event>(operation(2)).unwrap(), loaded_stream(waves_passed(9..=9), 1));
}

fn refuses_gaps_and_leaves_no_trace(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=2))]).unwrap();
    for (offered, expected) in [(2, 3), (4, 3), (0, 3), (u64::MAX, 3)] {
        let error = log
            .append_all(vec![
                append_to_shop(2, 1, waves_passed(1..=1)),
                append_to_shop(1, offered, waves_passed(7..=7)),
            ])
            .unwrap_err();
        assert!(
            matches!(error, LogError::Gap { expected: e, found, .. } if (e, found) == (expected, offered)),
            "{error}"
        );
    }
    assert!(matches!(
        log.append_all(vec![append_to_shop(3, 2, waves_passed(1..=1))]),
        Err(LogError::Gap { expected: 1, .. })
    ));
    let log = kept.reopen();
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), loaded_stream(waves_passed(1..=2), 2));
    assert!(
        matches!(log.load_as::<Event>(operation(2)), Err(LogError::UnknownStream { .. })),
        "the whole group must be rejected"
    );
    log.append_all(vec![append_to_shop(1, 3, waves_passed(3..=3))]).unwrap();
}

fn refuses_what_it_could_not_read_back(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let long = Append {
        summary: operation_summary(1, &"x".repeat(2_000)),
        ..append_to_shop(1, 1, waves_passed(1..=1))
    };
    assert!(matches!(log.append_all(vec![long]), Err(LogError::TooLarge { .. })));
    let notes = vec!["x".repeat(65 << 20)];
    let phase = tidegate_model::OperationPhase::Failed;
    let huge = append_to_shop(1, 1, vec![Event::Ended { phase, notes }]);
    assert!(matches!(log.append_all(vec![huge]), Err(LogError::TooLarge { .. })));
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
}

fn unknown_operations_have_a_name(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let error = log.load_as::<Event>(operation(7)).unwrap_err();
    assert!(error.to_string().contains(&operation(7).to_string()));
    assert!(matches!(log.all_events(operation(7)), Err(LogError::UnknownStream { .. })));
    assert_eq!(log.listing(), []);
}

fn state_after(waves: u32) -> State {
    State { waves: (1..=waves).collect(), padding: String::new() }
}

fn snapshots_shorten_loading(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![Append {
        snapshot: Some(state_after(3)),
        ..append_to_shop(1, 1, waves_passed(1..=3))
    }])
    .unwrap();
    log.append_all(vec![append_to_shop(1, 4, waves_passed(4..=5))]).unwrap();
    let expected =
        LoadedStream { snapshot: Some((3, state_after(3))), ..loaded_stream(waves_passed(4..=5), 5) };
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), expected);
    assert_eq!(kept.reopen().load_as::<Event>(operation(1)).unwrap(), expected);
    let log = kept.open();
    assert_eq!(log.all_events(operation(1)).unwrap(), waves_passed(1..=5), "all events must be kept");
    log.append_all(vec![Append { snapshot: Some(state_after(5)), ..append_to_shop(1, 6, Vec::new()) }])
        .unwrap();
    let expected = LoadedStream { snapshot: Some((5, state_after(5))), ..loaded_stream(Vec::new(), 5) };
    assert_eq!(kept.reopen().load_as::<Event>(operation(1)).unwrap(), expected);
}

fn large_records_and_snapshots_survive(mut kept: impl ReopenableLog) {
    let big: Vec<Event> = (0..4_u32)
        .map(|number| Event::Began {
            name: format!("{number}").repeat(200_000),
            at: tidegate_model::Timestamp::from_millis(i64::from(number)),
        })
        .collect();
    let snapshot = State { waves: vec![1], padding: "p".repeat(300_000) };
    let log = kept.open();
    log.append_all(vec![append_to_shop(1, 1, big.clone())]).unwrap();
    log.append_all(vec![Append {
        snapshot: Some(snapshot.clone()),
        ..append_to_shop(1, 5, waves_passed(1..=1))
    }])
    .unwrap();
    let log = kept.reopen();
    assert_eq!(log.all_events(operation(1)).unwrap(), [big, waves_passed(1..=1)].concat());
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap().snapshot, Some((5, snapshot)));
    assert_eq!(
        log.compact_to_history(10).unwrap(),
        CompactionResult::default(),
        "all blobs are still referenced"
    );
    assert!(kept.reopen().load_as::<Event>(operation(1)).is_ok());
}

fn blobs_come_back(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let contents = [Vec::new(), b"kind: ConfigMap".to_vec(), vec![7; 1 << 20]];
    let digests: Vec<Digest> = contents.iter().map(|content| log.put_blob(content).unwrap()).collect();
    assert_eq!(log.put_blob(&contents[1]).unwrap(), digests[1], "the same content must have the same digest");
    let log = kept.reopen();
    for (content, digest) in contents.iter().zip(digests) {
        assert_eq!(&log.blob(digest).unwrap(), content);
    }
    assert!(matches!(log.blob(Digest([9; 32])), Err(LogError::BlobMissing { .. })));
}

fn referring_to_a_missing_blob_is_refused(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let dangling = Append { blobs: vec![Digest([9; 32])], ..append_to_shop(1, 1, waves_passed(1..=1)) };
    assert!(matches!(log.append_all(vec![dangling]), Err(LogError::BlobMissing { .. })));
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
}

fn summaries_follow_the_events(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![append_to_shop(2, 1, waves_passed(1..=1))]).unwrap();
    log.append_all(vec![append_to_shop(1, 1, waves_passed(1..=1))]).unwrap();
    log.append_all(vec![Append {
        summary: finished_summary(2, "shop"),
        ..append_to_shop(2, 2, waves_passed(2..=2))
    }])
    .unwrap();
    assert_eq!(log.listing(), [open_listing(1, "shop"), ended_listing(2, "shop")], "oldest first");
    assert_eq!(kept.reopen().listing(), [open_listing(1, "shop"), ended_listing(2, "shop")]);
}

fn finish_operation(log: &impl Store, number: u128, application: &str) -> Digest {
    let digest = log.put_blob(format!("manifests of {number}").as_bytes()).unwrap();
    log.append_all(vec![Append {
        summary: finished_summary(number, application),
        blobs: vec![digest],
        ..append_to_shop(number, 1, waves_passed(1..=4))
    }])
    .unwrap();
    digest
}

fn compaction_keeps_the_newest(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let digests: Vec<Digest> = (1..=4).map(|number| finish_operation(log, number, "shop")).collect();
    finish_operation(log, 5, "bank");
    assert_eq!(
        log.compact_to_history(2).unwrap(),
        CompactionResult { streams: 2, events: 8, blobs: 2, ..CompactionResult::default() }
    );
    assert_eq!(
        log.compact_to_history(2).unwrap(),
        CompactionResult::default(),
        "a second compaction must not change anything"
    );
    let log = kept.reopen();
    assert_eq!(log.damage(), []);
    for number in [1, 2] {
        assert!(matches!(log.load_as::<Event>(operation(number)), Err(LogError::Compacted { .. })));
        assert!(matches!(log.all_events(operation(number)), Err(LogError::Compacted { .. })));
        assert!(matches!(
            log.append_all(vec![append_to_shop(number, 5, waves_passed(5..=5))]),
            Err(LogError::Compacted { .. })
        ));
        assert!(matches!(
            log.blob(digests[usize::try_from(number).unwrap() - 1]),
            Err(LogError::BlobMissing { .. })
        ));
    }
    for number in [3, 4, 5] {
        assert_eq!(log.load_as::<Event>(operation(number)).unwrap(), loaded_stream(waves_passed(1..=4), 4));
    }
    assert_eq!(log.listing().len(), 5, "summaries must be kept");
    assert_eq!(log.blob(digests[3]).unwrap(), b"manifests of 4");
}

fn compaction_keeps_events_that_a_snapshot_covers(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![Append {
        snapshot: Some(state_after(3)),
        ..append_to_shop(1, 1, waves_passed(1..=3))
    }])
    .unwrap();
    log.append_all(vec![Append {
        summary: finished_summary(1, "shop"),
        ..append_to_shop(1, 4, waves_passed(4..=4))
    }])
    .unwrap();
    assert_eq!(log.compact_to_history(10).unwrap(), CompactionResult::default());
    let log = kept.reopen();
    let expected =
        LoadedStream { snapshot: Some((3, state_after(3))), ..loaded_stream(waves_passed(4..=4), 4) };
    assert_eq!(log.load_as::<Event>(operation(1)).unwrap(), expected);
    assert_eq!(
        log.all_events(operation(1)).unwrap(),
        waves_passed(1..=4),
        "the newest streams must keep all events"
    );
    assert_eq!(
        log.compact_to_history(0).unwrap(),
        CompactionResult { streams: 1, events: 4, blobs: 0, ..CompactionResult::default() }
    );
}

fn compaction_leaves_open_operations_alone(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append_all(vec![Append {
        snapshot: Some(state_after(2)),
        ..append_to_shop(1, 1, waves_passed(1..=2))
    }])
    .unwrap();
    assert_eq!(log.compact_to_history(0).unwrap(), CompactionResult::default());
    assert_eq!(kept.reopen().all_events(operation(1)).unwrap(), waves_passed(1..=2));
}

fn compaction_leaves_new_blobs_alone(mut kept: impl ReopenableLog) {
    let log = kept.open();
    let digest = log.put_blob(b"put, and not referred to yet").unwrap();
    assert_eq!(log.compact_to_history(0).unwrap(), CompactionResult::default());
    log.append_all(vec![Append { blobs: vec![digest], ..append_to_shop(1, 1, waves_passed(1..=1)) }])
        .unwrap();
    let forgotten = log.put_blob(b"put, and then the process ended").unwrap();
    let log = kept.reopen();
    assert_eq!(
        log.compact_to_history(0).unwrap(),
        CompactionResult { streams: 0, events: 0, blobs: 1, ..CompactionResult::default() }
    );
    assert!(log.blob(digest).is_ok() && log.blob(forgotten).is_err());
}

fn an_empty_group_is_fine(mut kept: impl ReopenableLog) {
    let log = kept.open();
    log.append(Vec::new()).unwrap();
    assert_eq!(kept.reopen().listing(), []);
}

fn many_threads_append(mut kept: impl ReopenableLog) {
    let log = kept.open();
    thread::scope(|scope| {
        for number in 1..=8 {
            scope.spawn(move || {
                for sequence in 1..=10_u32 {
                    log.append_all(vec![append_to_shop(
                        number,
                        sequence.into(),
                        waves_passed(sequence..=sequence),
                    )])
                    .unwrap();
                    log.load_as::<Event>(operation(number)).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..5 {
                log.compact_to_history(1).unwrap();
            }
        });
    });
    let log = kept.reopen();
    for number in 1..=8 {
        assert_eq!(log.load_as::<Event>(operation(number)).unwrap(), loaded_stream(waves_passed(1..=10), 10));
    }
}
