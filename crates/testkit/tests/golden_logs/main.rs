//! Golden logs. Records from earlier versions must remain readable forever.
//!
//! `tests/golden/layout-1` is a state directory in the first layout of events. It contains the golden
//! operations, and hand-written operations that together contain every kind of event. `layout-1.json`
//! contains their meaning according to the version that wrote them, and `layout-1-facts.json` contains the
//! hand-written events. A change to the machine must not change the meaning of an old log. An existing folder
//! is never written again. Each folder is written once, and then added to `GOLDEN_LOGS`:
//!
//! - A new layout gets a folder with all operations: `TIDEGATE_WRITE_GOLDEN=layout-2`.
//! - A new kind of event gets a folder with the hand-written operations that contain it:
//!   `TIDEGATE_WRITE_GOLDEN=layout-1-kind-42`.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "test code")]

mod event_builders;
mod golden_log;
mod handwritten;
mod meaning;
mod write;

use std::collections::BTreeMap;

use golden_log::{golden_path, load_state, open_copy, replay_events, without_new_fields};
use serde_json::Value;
use tidegate_lifecycle::operation::view;
use tidegate_model::OperationId;
use tidegate_testkit::operation_events::OperationEvents as _;

/// The existing golden logs, with the minimum number of operations in each.
const GOLDEN_LOGS: [(&str, usize); 3] = [("layout-1", 15), ("layout-1-kind-42", 1), ("layout-1-kind-43", 18)];

fn stored_meanings(layout: &str) -> BTreeMap<OperationId, Value> {
    let text = std::fs::read(golden_path(&format!("{layout}.json"))).unwrap();
    let meanings: BTreeMap<String, Value> = serde_json::from_slice(&text).unwrap();
    meanings.into_iter().map(|(id, meaning)| (id.parse().unwrap(), meaning)).collect()
}

#[test]
fn old_logs_keep_their_meaning() {
    if let Some(name) = std::env::var_os("TIDEGATE_WRITE_GOLDEN") {
        write::write_golden_log(&name.into_string().unwrap());
    }
    for (layout, minimum) in GOLDEN_LOGS {
        let (_scratch, log) = open_copy(layout);
        let expected = stored_meanings(layout);
        assert!(expected.len() >= minimum, "{layout}");
        let summaries = log.summaries().unwrap();
        assert_eq!(summaries.len(), expected.len());
        for summary in summaries {
            let meaning = view(&load_state(&log, summary.operation)).unwrap();
            assert_eq!(
                (
                    &summary.application,
                    summary.phase,
                    &summary.message,
                    summary.started_at,
                    summary.finished_at
                ),
                (&meaning.app, meaning.phase, &meaning.message, meaning.started_at, meaning.finished_at),
                "{layout}"
            );
            assert_eq!(summary.dry_run, meaning.dry_run, "{layout}: {summary:?}");
            assert!(!summary.destination.is_empty() && summary.waves.1 > 0, "{layout}: {summary:?}");
        }
        for (id, expected) in expected {
            for (how, state) in [
                ("its snapshot", load_state(&log, id)),
                ("all its facts", replay_events(log.recorded_events(id).unwrap())),
            ] {
                let found = serde_json::to_value(view(&state)).unwrap();
                assert_eq!(without_new_fields(&found, &expected), expected, "{layout}, {id}, from {how}");
            }
        }
    }
}
