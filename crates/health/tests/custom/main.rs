//! Custom resources: statuses from their projects' documentation, and the expected results of the built-in
//! rules.
//!
//! `cases/` has one line per case, below its kinds:
//!
//! ```text
//! group/Kind,Kind
//!   Ready=False:Reason "words"; .phase=Failed; spec.suspend=true -> Degraded words
//! ```
//!
//! Each kind is also tested without a status: operations must wait for it, unless the kind's line ends in `!`
//! and an expected result.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests may panic")]

mod convention;
mod evidence;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tidegate_health::{HealthRules, built_in_kinds};
use tidegate_model::{Object, Timestamp};

const FILES: [(&str, &str); 6] = [
    ("documented", include_str!("cases/documented.txt")),
    ("delivery", include_str!("cases/delivery.txt")),
    ("network", include_str!("cases/network.txt")),
    ("data", include_str!("cases/data.txt")),
    ("cloud", include_str!("cases/cloud.txt")),
    ("clusters", include_str!("cases/clusters.txt")),
];
const WAITING: &str = "Progressing Waiting for the status to be reported";

/// Returns an object of a kind, named `x`, with generation 2.
fn object(group: &str, kind: &str, items: &str) -> Object {
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let mut all = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x", "generation": 2}});
    for item in items.split("; ").map(str::trim).filter(|item| !item.is_empty()) {
        let (left, right) = item.split_once('=').unwrap_or_else(|| panic!("{item}: no ="));
        let path = match left.strip_prefix('.') {
            Some(path) => Some(format!("status.{path}")),
            None => (left.starts_with("spec.") || left.starts_with("metadata.")).then(|| left.to_owned()),
        };
        match path {
            Some(path) => {
                set_at(&mut all, &path, serde_json::from_str(right).unwrap_or_else(|_| right.into()))
            }
            None => condition(&mut all, left, right),
        }
    }
    Object::try_from(all).unwrap()
}

fn set_at(all: &mut Value, path: &str, value: Value) {
    let maps = ["metadata.annotations.", "metadata.labels.", "spec.sparkConf."];
    let map = maps.iter().find(|map| path.starts_with(*map)).map_or(0, |map| map.len());
    let (map, key) = path.split_at(map);
    let rest: Vec<_> = if map.is_empty() { key.split('.').collect() } else { vec![key] };
    let place = map.split('.').filter(|step| !step.is_empty()).chain(rest).fold(all, |place, step| {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
    });
    *place = value;
}

/// Parses `True:Reason "message"`, with `@3` for the observed generation.
fn condition(all: &mut Value, kind: &str, text: &str) {
    let (head, message) = text.split_once('"').unwrap_or((text, ""));
    let (head, generation) = match head.trim().split_once('@') {
        Some((head, generation)) => (head, generation.parse::<i64>().ok()),
        None => (head.trim(), None),
    };
    let (status, reason) = head.split_once(':').unwrap_or((head, ""));
    let mut condition =
        json!({"type": kind, "status": status, "reason": reason, "message": message.trim_end_matches('"')});
    if let Some(generation) = generation {
        set_at(&mut condition, "observedGeneration", generation.into());
    }
    if all.pointer("/status/conditions").is_none() {
        set_at(all, "status.conditions", json!([]));
    }
    all.pointer_mut("/status/conditions").unwrap().as_array_mut().unwrap().push(condition);
}

fn verdict_text(object: &Object) -> String {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    match HealthRules::built_in().assess(object, now) {
        None => "None".to_owned(),
        Some(Ok(health)) => format!("{:?} {}", health.status, health.message),
        Some(Err(error)) => format!("error {error}"),
    }
}

#[test]
fn documented_statuses_have_the_expected_health() {
    let (mut count, mut wrong) = (0, Vec::new());
    let mut check = |name: &str, group: &str, kind: &str, items: &str, expected: &str| {
        count += 1;
        let found = verdict_text(&object(group, kind, items));
        if found != expected {
            wrong.push(format!("{name}: {group}/{kind} {items}\n  expected {expected}\n  found    {found}"));
        }
    };
    for (name, text) in FILES {
        let (mut group, mut kinds): (&str, Vec<&str>) = ("", Vec::new());
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(case) = line.strip_prefix("  ") {
                let (items, expected) = case.split_once("->").expect("a case has ->");
                for kind in &kinds {
                    check(name, group, kind, items.trim(), expected.trim());
                }
            } else {
                let (head, silent) = line.split_once(" ! ").unwrap_or((line, WAITING));
                let (new, list) = head.rsplit_once('/').expect("group/Kind");
                (group, kinds) = (new, list.split(',').collect());
                for kind in &kinds {
                    check(name, group, kind, "", silent);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 400, "only {count} cases");
}

#[test]
fn more_than_a_hundred_groups_have_rules_with_sources() {
    let groups: BTreeSet<_> =
        built_in_kinds().filter_map(|known| known.kind.split_once('/')).map(|(group, _)| group).collect();
    assert!(groups.len() > 100, "only {}", groups.len());
    for known in built_in_kinds() {
        assert!(known.source.starts_with("https://") && known.source.len() > 20, "{known:?}");
    }
}
