use serde_json::{Value, json};

use crate::{ExpectedResult, check, degraded, healthy, progressing, suspended};

fn conditions_status(list: &[(&str, &str, &str)]) -> Value {
    let all: Vec<_> = list
        .iter()
        .map(|(kind, status, message)| json!({"type": kind, "status": status, "message": message}))
        .collect();
    json!({"status": {"conditions": all}})
}

#[test]
fn job() {
    let rows = vec![
        (json!({}), progressing("Waiting for completion: 0 of 1 pods succeeded")),
        (
            json!({"spec": {"completions": 4}, "status": {"succeeded": 2, "active": 1, "failed": 3}}),
            progressing("Waiting for completion: 2 of 4 pods succeeded, 1 active, 3 failed"),
        ),
        (conditions_status(&[("Complete", "True", "")]), healthy("Job completed")),
        (conditions_status(&[("Complete", "True", "as expected")]), healthy("as expected")),
        (conditions_status(&[("Failed", "True", "back-off limit")]), degraded("back-off limit")),
        (conditions_status(&[("Failed", "True", "")]), degraded("Job failed")),
        // The status of `Failed` and `Complete` conditions is ignored.
        (conditions_status(&[("Failed", "False", "odd")]), degraded("odd")),
        (conditions_status(&[("Complete", "Unknown", "")]), healthy("Job completed")),
        // A failure takes precedence over everything else, in any order.
        (conditions_status(&[("Complete", "True", ""), ("Failed", "True", "late")]), degraded("late")),
        (conditions_status(&[("Failed", "True", "early"), ("Suspended", "True", "")]), degraded("early")),
        (conditions_status(&[("Suspended", "True", "")]), suspended("Job suspended")),
        // A resumed Job is still running.
        (
            conditions_status(&[("Suspended", "False", "")]),
            progressing("Waiting for completion: 0 of 1 pods succeeded"),
        ),
        (
            conditions_status(&[("Suspended", "False", ""), ("Complete", "True", "")]),
            healthy("Job completed"),
        ),
        // An announced completion doesn't count as completed.
        (
            conditions_status(&[("FailureTarget", "True", "")]),
            progressing("Waiting for completion: 0 of 1 pods succeeded"),
        ),
        (
            conditions_status(&[("SuccessCriteriaMet", "True", "")]),
            progressing("Waiting for completion: 0 of 1 pods succeeded"),
        ),
    ];
    check("batch/v1", "Job", rows);
    let other = ExpectedResult::Error("no health rule for batch/v2 Job: only batch/v1 is supported");
    check("batch/v2", "Job", vec![(json!({}), other)]);
}

#[test]
fn cron_job() {
    let (early, late) = ("2026-11-20T03:00:00Z", "2026-11-21T03:00:00Z");
    let rows = vec![
        (json!({"spec": {"suspend": true}}), healthy("CronJob is suspended")),
        (json!({}), progressing("Waiting for the controller to observe the CronJob")),
        (json!({"status": {}}), healthy("CronJob has not been scheduled yet")),
        (
            json!({"status": {"lastScheduleTime": late}}),
            healthy("CronJob has been scheduled but has not succeeded yet"),
        ),
        (
            json!({"status": {"lastScheduleTime": late, "lastSuccessfulTime": early, "active": [{"name": "x-1"}]}}),
            healthy("CronJob has running jobs"),
        ),
        (
            json!({"status": {"lastScheduleTime": late, "lastSuccessfulTime": early}}),
            degraded(
                "The run scheduled at 2026-11-21T03:00:00.000Z did not succeed; the last success was at 2026-11-20T03:00:00.000Z",
            ),
        ),
        (
            json!({"status": {"lastScheduleTime": early, "lastSuccessfulTime": late}}),
            healthy("Last run succeeded at 2026-11-21T03:00:00.000Z"),
        ),
        (
            json!({"status": {"lastScheduleTime": "today"}}),
            ExpectedResult::Error("field status.lastScheduleTime must be an RFC 3339 time, found \"today\""),
        ),
    ];
    check("batch/v1", "CronJob", rows.clone());
    check("batch/v1beta1", "CronJob", rows);
}
