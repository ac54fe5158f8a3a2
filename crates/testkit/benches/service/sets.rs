//! A progressive sync, and a set of which nothing changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use crate::fleet::{Fleet, Policy, name};
use crate::serving::{Cost, Serving};
use crate::{Line, each, seconds};

const STEPS: usize = 10;

/// An ApplicationSet of all, which are synced in steps.
fn write_set(fleet: &Fleet) {
    let element = |at: usize| json!({"name": name(at), "step": (at % STEPS).to_string()});
    let elements: Vec<_> = (0..fleet.number).map(element).collect();
    let step = |step: usize| json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [step.to_string()]}]});
    let set = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "shops", "namespace": "argocd"},
        "spec": {
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": (0..STEPS).map(step).collect::<Vec<_>>()}},
            "template": {
                "metadata": {"name": "{{name}}", "labels": {"step": "{{step}}"}},
                "spec": fleet.spec("{{name}}", "default", Policy::Manual),
            },
        },
    });
    fs::write(fleet.apps().join("set.yaml"), set.to_string()).unwrap();
}

/// Makes all of them, and then brings all to another commit.
fn change(fleet: &Fleet) -> Cost {
    let serving = Serving::simulated(fleet, &["--refresh-every", "0s"]);
    let number = fleet.number;
    serving.until(serving.begin(), |shown| shown.well == number && shown.succeeded >= number);
    serving.settle();
    let before = serving.shown().succeeded;
    fleet.change_all(2);
    let begun = serving.begin();
    serving.push(fleet, &[]);
    let cost = serving.until(begun, |shown| shown.well == number && shown.succeeded >= before + number);
    serving.end();
    cost
}

pub fn rollout(number: usize) -> Vec<Line> {
    let plain = Fleet::new(number);
    plain.write_applications(Policy::Automated);
    let without = change(&plain);
    drop(plain);
    let fleet = Fleet::new(number);
    write_set(&fleet);
    let with = change(&fleet);
    let own = with.processor.saturating_sub(without.processor);
    let told = |cost: Cost| {
        format!("{} of processor time each ({} in all)", each(cost.processor, number), seconds(cost.elapsed))
    };
    vec![
        Line::new(
            format!("one commit brings {number} automated Applications to another version"),
            told(without),
            "",
        ),
        Line::new(
            format!("the same as members of one ApplicationSet, rolled out in {STEPS} steps"),
            told(with),
            "",
        ),
        Line::new("what the rollout adds, for each member", each(own, number), "≤ 10 ms"),
    ]
}

/// When each file was written last.
fn files(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let found = entry.metadata().unwrap();
            match found.is_dir() {
                true => folders.push(entry.path()),
                false => drop(all.insert(entry.path(), found.modified().unwrap())),
            }
        }
    }
    all
}

/// A set and its Applications are looked at again, and nothing has changed.
pub fn unchanged(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    write_set(&fleet);
    let serving = Serving::simulated(&fleet, &["--refresh-every", "0s"]);
    serving.until(serving.begin(), |shown| shown.well == number && shown.succeeded >= number);
    serving.settle();
    let compare = || {
        let before = serving.shown().comparisons;
        let begun = serving.begin();
        serving.push(&fleet, &[]);
        let cost = serving.until(begun, |shown| shown.comparisons >= before + number);
        serving.settle();
        cost
    };
    // The first has something to ask yet: only now what they have is watched.
    let first = compare();
    compare();
    let before = files(&fleet.path().join("state"));
    let again = compare();
    let after = files(&fleet.path().join("state"));
    let others = |before: &BTreeMap<PathBuf, SystemTime>, after: &BTreeMap<PathBuf, SystemTime>| {
        after.iter().filter(|(path, at)| before.get(*path) != Some(*at)).count()
    };
    let written = others(&before, &after);
    let (_, spent) = serving.begin();
    let mut refresh = fleet.command();
    let refreshed = refresh.args(["appset", "refresh", "shops", "--state-dir", "state"]).status().unwrap();
    assert!(refreshed.success());
    serving.settle();
    let set = serving.processor().saturating_sub(spent);
    let rewritten = others(&after, &files(&fleet.path().join("state")));
    serving.end();
    let told = |cost: Cost| {
        format!("{} ({} of processor time each)", seconds(cost.elapsed), each(cost.processor, number))
    };
    vec![
        Line::new(
            format!("{number} unchanged Applications are compared for the first time after a sync"),
            told(first),
            "",
        ),
        Line::new(format!("{number} unchanged Applications are compared again"), told(again), ""),
        Line::new("files of the state directory that are written meanwhile", written.to_string(), "0"),
        Line::new(
            format!("their ApplicationSet is generated and reconciled again ({number} members)"),
            format!("{} of processor time", seconds(set)),
            "",
        ),
        Line::new("files of the state directory that are written meanwhile", rewritten.to_string(), "0"),
    ]
}
