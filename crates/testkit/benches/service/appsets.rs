//! Progressive sync, and refresh of an unchanged ApplicationSet.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::json;

use crate::fleet::{Fleet, Policy, application_name};
use crate::service::{Cost, RunningService};
use crate::{Line, format_per_item, format_seconds};

const STEPS: usize = 10;

/// Writes an ApplicationSet that generates all Applications and syncs them in steps.
fn write_appset(fleet: &Fleet) {
    let element = |at: usize| json!({"name": application_name(at), "step": (at % STEPS).to_string()});
    let elements: Vec<_> = (0..fleet.application_count).map(element).collect();
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

/// Creates all Applications, then syncs them to another commit.
fn measure_change(fleet: &Fleet) -> Cost {
    let service = RunningService::simulated(fleet, &["--refresh-every", "0s"]);
    let number = fleet.application_count;
    service.wait_until(service.start_period(), |shown| shown.healthy == number && shown.succeeded >= number);
    service.wait_until_idle();
    let before = service.metrics().succeeded;
    fleet.change_all(2);
    let started = service.start_period();
    service.send_push(fleet, &[]);
    let cost =
        service.wait_until(started, |shown| shown.healthy == number && shown.succeeded >= before + number);
    service.stop();
    cost
}

pub fn measure_rollout(number: usize) -> Vec<Line> {
    let plain = Fleet::new(number);
    plain.write_applications(Policy::Automated);
    let without = measure_change(&plain);
    drop(plain);
    let fleet = Fleet::new(number);
    write_appset(&fleet);
    let with = measure_change(&fleet);
    let own = with.processor.saturating_sub(without.processor);
    let figure = |cost: Cost| {
        format!(
            "{} of processor time each ({} in all)",
            format_per_item(cost.processor, number),
            format_seconds(cost.cpu_time)
        )
    };
    vec![
        Line::new(
            format!("one commit brings {number} automated Applications to another version"),
            figure(without),
            "",
        ),
        Line::new(
            format!("the same as members of one ApplicationSet, rolled out in {STEPS} steps"),
            figure(with),
            "",
        ),
        Line::new("what the rollout adds, for each member", format_per_item(own, number), "≤ 10 ms"),
    ]
}

fn modification_times(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
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

/// Measures a refresh of an unchanged ApplicationSet and its unchanged Applications.
pub fn measure_refresh(number: usize) -> Vec<Line> {
    let fleet = Fleet::new(number);
    write_appset(&fleet);
    let service = RunningService::simulated(&fleet, &["--refresh-every", "0s"]);
    service.wait_until(service.start_period(), |shown| shown.healthy == number && shown.succeeded >= number);
    service.wait_until_idle();
    let compare = || {
        let before = service.metrics().comparisons;
        let started = service.start_period();
        service.send_push(&fleet, &[]);
        let cost = service.wait_until(started, |shown| shown.comparisons >= before + number);
        service.wait_until_idle();
        cost
    };
    // The first refresh sends extra requests, because it starts the watches.
    let first = compare();
    compare();
    let before = modification_times(&fleet.path().join("state"));
    let again = compare();
    let after = modification_times(&fleet.path().join("state"));
    let others = |before: &BTreeMap<PathBuf, SystemTime>, after: &BTreeMap<PathBuf, SystemTime>| {
        after.iter().filter(|(path, at)| before.get(*path) != Some(*at)).count()
    };
    let written = others(&before, &after);
    let (_, spent) = service.start_period();
    let mut refresh = fleet.command();
    let refreshed = refresh.args(["appset", "refresh", "shops", "--state-dir", "state"]).status().unwrap();
    assert!(refreshed.success());
    service.wait_until_idle();
    let set = service.cpu_time().saturating_sub(spent);
    let rewritten = others(&after, &modification_times(&fleet.path().join("state")));
    service.stop();
    let figure = |cost: Cost| {
        format!(
            "{} ({} of processor time each)",
            format_seconds(cost.cpu_time),
            format_per_item(cost.processor, number)
        )
    };
    vec![
        Line::new(
            format!("{number} unchanged Applications are compared for the first time after a sync"),
            figure(first),
            "",
        ),
        Line::new(format!("{number} unchanged Applications are compared again"), figure(again), ""),
        Line::new("files of the state directory that are written meanwhile", written.to_string(), "0"),
        Line::new(
            format!("their ApplicationSet is generated and reconciled again ({number} members)"),
            format!("{} of processor time", format_seconds(set)),
            "",
        ),
        Line::new("files of the state directory that are written meanwhile", rewritten.to_string(), "0"),
    ]
}
