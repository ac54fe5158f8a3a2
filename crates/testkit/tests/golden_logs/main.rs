//! Golden logs: what an earlier program wrote must be read for ever.
//!
//! `tests/golden/v1` is a state directory with the golden operations as the first layout of facts had them, `v2` one
//! with those of the layout that has claims, warnings, adoption and hooks in each other's places, `v3` one with deletions
//! that take their time and namespaces that go, `v4` one with approvals, `v5` one with namespaces that are lost and plans
//! made anew, `v6` one with resources that are created again, `v7` one with health rules that change, `v8` one with an application that is
//! deleted, `v9` one with tasks that people skip, mark as done and retry, `v10` one with plans that were kept before. `v1.json` and so on are what they meant to the program that wrote them. A change of the machine may not change what an old log says.
//! `TIDEGATE_WRITE_GOLDEN=v11` writes the folder of a *new* layout; one that is there is never written again.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "test code")]

mod kit;
mod meaning;
mod words;
mod write;
mod written;

use std::collections::BTreeMap;

use kit::{folded, golden, scratch, state, without_new_fields};
use serde_json::Value;
use tidegate_lifecycle::operation::view;
use tidegate_model::OperationId;
use tidegate_testkit::recorded::Recorded as _;

/// The layouts there are.
const LAYOUTS: [&str; 10] = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10"];

fn meanings(layout: &str) -> BTreeMap<OperationId, Value> {
    let text = std::fs::read(golden(&format!("{layout}.json"))).unwrap();
    let meanings: BTreeMap<String, Value> = serde_json::from_slice(&text).unwrap();
    meanings.into_iter().map(|(id, meaning)| (id.parse().unwrap(), without_failures(meaning))).collect()
}

/// When these were written, what had failed was counted among what is done of a wave.
fn without_failures(mut meaning: Value) -> Value {
    let resources = meaning["resources"].clone();
    for wave in meaning["waves"].as_array_mut().into_iter().flatten() {
        let is_here = |one: &&Value| one["syncPhase"] == wave["phase"] && one["wave"] == wave["wave"];
        let has_failed = |one: &&Value| one["hookPhase"] == "Failed" || one["hookPhase"] == "Error";
        let failed = resources.as_array().unwrap().iter().filter(is_here).filter(has_failed).count();
        if wave["state"] == "Failed" {
            wave["done"] = (wave["done"].as_u64().unwrap() - u64::try_from(failed).unwrap()).into();
        }
    }
    meaning
}

#[test]
fn old_logs_mean_what_they_meant() {
    if let Some(layout) = std::env::var_os("TIDEGATE_WRITE_GOLDEN") {
        write::layout(&layout.into_string().unwrap());
    }
    for layout in LAYOUTS {
        let (_scratch, log) = scratch(layout);
        let expected = meanings(layout);
        assert!(expected.len() >= 15);
        let summaries = log.summaries().unwrap();
        assert_eq!(summaries.len(), expected.len());
        for summary in summaries {
            let meaning = view(&state(&log, summary.operation)).unwrap();
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
            assert!(!summary.destination.is_empty() && summary.waves.1 > 0, "{layout}: {summary:?}");
        }
        for (id, expected) in expected {
            for (how, state) in
                [("its snapshot", state(&log, id)), ("all its facts", folded(log.facts(id).unwrap()))]
            {
                let found = serde_json::to_value(view(&state)).unwrap();
                assert_eq!(without_new_fields(&found, &expected), expected, "{layout}, {id}, from {how}");
            }
        }
    }
}
