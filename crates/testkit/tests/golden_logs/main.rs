//! Golden logs: what an earlier program wrote must be read for ever.
//!
//! `tests/golden/v1` is a state directory with the golden operations as the first layout of facts had them, `v2` one
//! with those of the layout that has claims, warnings, adoption and hooks in each other's places, `v3` one with deletions
//! that take their time and namespaces that go, `v4` one with approvals, `v5` one with namespaces that are lost and plans
//! made anew, `v6` one with resources that are created again, `v7` one with health rules that change, `v8` one with an application that is
//! deleted, `v9` one with tasks that people skip, mark as done and retry, `v10` one with plans that were kept before, `v11` one whose lines
//! tell dry runs. `v1.json` and so on are what they meant to the program that wrote them. A change of the machine may not change what an old log says.
//! `TIDEGATE_WRITE_GOLDEN=v12` writes the folder of a *new* layout; one that is there is never written again.
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
const LAYOUTS: [&str; 11] = ["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11"];

/// Whether its lines tell them. What was written before is also shown in other words now.
fn tells_dry_runs(layout: &str) -> bool {
    layout == "v11"
}

fn meanings(layout: &str) -> BTreeMap<OperationId, Value> {
    let text = std::fs::read(golden(&format!("{layout}.json"))).unwrap();
    let meanings: BTreeMap<String, Value> = serde_json::from_slice(&text).unwrap();
    let now = |meaning| match tells_dry_runs(layout) {
        true => meaning,
        false => turned_round(held(without_skipped(without_failures(meaning)))),
    };
    meanings.into_iter().map(|(id, meaning)| (id.parse().unwrap(), now(meaning))).collect()
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

/// When these were written, what was skipped was counted among what is done of a wave.
fn without_skipped(mut meaning: Value) -> Value {
    let resources = meaning["resources"].clone();
    for wave in meaning["waves"].as_array_mut().into_iter().flatten() {
        let is_here = |one: &&Value| one["syncPhase"] == wave["phase"] && one["wave"] == wave["wave"];
        let is_skipped =
            |one: &&Value| one["overridden"]["what"] == "Skip" && one["hookPhase"] == "Succeeded";
        let skipped = resources.as_array().unwrap().iter().filter(is_here).filter(is_skipped).count();
        wave["done"] = (wave["done"].as_u64().unwrap() - u64::try_from(skipped).unwrap()).into();
    }
    meaning
}

/// When these were written, the message of what somebody held was what it would have done: here to wait for a hook of another
/// operation, of which nobody knows whether it still runs.
fn held(mut meaning: Value) -> Value {
    if meaning["pausedBy"].is_string() {
        meaning["message"] = "paused by ann: waiting for cat".into();
    }
    meaning
}

/// When these were written, the waves of the objects of a deletion were shown with the numbers of the plan, which has them in
/// the order in which they come: the highest first.
fn turned_round(mut meaning: Value) -> Value {
    if meaning["deletion"].is_null() {
        return meaning;
    }
    let mut planned: Vec<i64> = Vec::new();
    for wave in meaning["waves"].as_array().unwrap().iter().filter(|wave| wave["phase"] == "Sync") {
        planned.push(wave["wave"].as_i64().unwrap());
    }
    let own = |wave: &Value| {
        let place = planned.iter().position(|one| wave == one).unwrap();
        Value::from(planned[planned.len() - 1 - place])
    };
    for (part, phase) in [("waves", "phase"), ("resources", "syncPhase")] {
        let all = meaning[part].as_array_mut().unwrap().iter_mut();
        all.filter(|one| one[phase] == "Sync").for_each(|one| one["wave"] = own(&one["wave"]));
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
            let mut meaning = view(&state(&log, summary.operation)).unwrap();
            if summary.paused && !tells_dry_runs(layout) {
                // Its line says what was said when it was written.
                meaning.message =
                    format!("waiting for completion of hook batch/Job/backup of operation {}", words::id(99));
            }
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
            assert_eq!(summary.dry_run, tells_dry_runs(layout) && meaning.dry_run, "{layout}: {summary:?}");
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
