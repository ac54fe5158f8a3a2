//! The CronJob controller, which creates Jobs according to the schedule.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, ObjectKey, Schedule, Timestamp};

use super::children::Child;
use super::job::is_finished;
use crate::Propagation;
use crate::sim::SimState;
use crate::sim::json::{has_condition, int_at, map_at, rfc3339};
use crate::sim::objects::StoredObject;

pub(crate) fn step(state: &mut SimState, key: &ObjectKey) -> Option<Timestamp> {
    let stored = state.find(key)?.clone();
    let object = &stored.object;
    if object.is_deleting() {
        return None;
    }
    let last = object.text("/status/lastScheduleTime").parse::<Timestamp>().ok();
    let suspended = object.pointer("/spec/suspend") == Some(&Value::Bool(true));
    let next = Schedule::parse_with_shorthands(object.text("/spec/schedule"))
        .ok()
        .filter(|_| !suspended)
        .and_then(|schedule| schedule.next_after_utc(last.unwrap_or(stored.created_at)));
    let due = next.filter(|next| *next <= state.now);
    if let Some(due) = due {
        start_job(state, &stored, due);
    }
    delete_finished_jobs(state, object);
    write_status(state, key, object, due.or(last));
    match due {
        Some(_) => Some(state.now),
        None => next,
    }
}

fn list_jobs<'a>(
    state: &'a SimState,
    object: &Object,
) -> impl Iterator<Item = (&'a ObjectKey, &'a StoredObject)> {
    state.children(object.uid()).filter(|(key, stored)| key.kind == "Job" && !stored.object.is_deleting())
}

fn start_job(state: &mut SimState, stored: &StoredObject, due: Timestamp) {
    let object = &stored.object;
    let active: Vec<ObjectKey> = list_jobs(state, object)
        .filter(|(_, job)| !is_finished(&job.object))
        .map(|(key, _)| key.clone())
        .collect();
    match object.text("/spec/concurrencyPolicy") {
        "Forbid" if !active.is_empty() => return,
        "Replace" => active.iter().for_each(|key| {
            state.start_deletion(key, Propagation::Background);
        }),
        _ => {}
    }
    let labels = map_at(object, "/spec/jobTemplate/metadata/labels");
    let annotations: Map<String, Value> =
        state.inherit_annotations(stored, map_at(object, "/spec/jobTemplate/metadata/annotations"));
    let spec = object.pointer("/spec/jobTemplate/spec").cloned().unwrap_or(Value::Null);
    let name = format!("{}-{}", object.name(), due.as_seconds() / 60);
    state.create_child(
        object,
        Child { api_version: "batch/v1", kind: "Job", name, labels, annotations, spec },
    );
}

/// Deletes finished Jobs except for the newest ones.
fn delete_finished_jobs(state: &mut SimState, object: &Object) {
    for (kind, field, default) in
        [("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)]
    {
        let limit = usize::try_from(int_at(object, &format!("/spec/{field}"), default)).unwrap_or(0);
        let mut finished: Vec<(Timestamp, ObjectKey)> = list_jobs(state, object)
            .filter(|(_, job)| has_condition(&job.object, kind, "True"))
            .map(|(key, job)| (job.created_at, key.clone()))
            .collect();
        finished.sort();
        for (_, key) in finished.iter().take(finished.len().saturating_sub(limit)) {
            state.start_deletion(key, Propagation::Background);
        }
    }
}

fn write_status(state: &mut SimState, key: &ObjectKey, object: &Object, scheduled: Option<Timestamp>) {
    let active: Vec<Value> = list_jobs(state, object)
        .filter(|(_, job)| !is_finished(&job.object))
        .map(|(key, job)| json!({"apiVersion": "batch/v1", "kind": "Job", "name": key.name, "namespace": key.namespace, "uid": job.object.uid()}))
        .collect();
    let completed = list_jobs(state, object)
        .filter_map(|(_, job)| job.object.text("/status/completionTime").parse::<Timestamp>().ok())
        .max();
    let known = object.text("/status/lastSuccessfulTime").parse::<Timestamp>().ok();
    let mut status = Map::new();
    if !active.is_empty() {
        status.insert("active".to_owned(), active.into());
    }
    for (name, time) in [("lastScheduleTime", scheduled), ("lastSuccessfulTime", completed.max(known))] {
        if let Some(time) = time {
            status.insert(name.to_owned(), rfc3339(time).into());
        }
    }
    state.set_status(key, status.into());
}
