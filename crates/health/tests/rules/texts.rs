//! Messages that users and programs match, grouped by kind as in Argo CD's rules. All other messages are
//! Tidegate's own.

use serde_json::{Value, json};
use tidegate_health::assess;

use crate::object;

#[test]
fn messages_are_those_of_argo_cd() {
    let condition = |kind: &str, reason: &str, message: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]}});
    let pod = |spec: Value, status: Value| json!({"spec": spec, "status": status});
    let (always, never) = (json!({"restartPolicy": "Always"}), json!({"restartPolicy": "Never"}));
    let waiting =
        |reason: &str, message: &str| json!({"state": {"waiting": {"reason": reason, "message": message}}});
    let ended = |state: Value| json!({"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": state}}]});
    let init = json!({"phase": "Failed",
        "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 2}}}],
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]});
    let two = json!({"phase": "Pending", "containerStatuses": [
        waiting("ErrImagePull", "first"), waiting("CrashLoopBackOff", "second"),
        waiting("ContainerCreating", "third"), waiting("CreateContainerConfigError", "fourth")]});
    let scaling = |text: &str| json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/conditions": text}}});
    let rows = [
        (
            "v1",
            "ConfigMap",
            json!({"metadata": {"deletionTimestamp": "2026-11-21T09:30:00Z"}}),
            "Pending deletion",
        ),
        ("apps/v1", "Deployment", json!({"spec": {"paused": true}}), "Deployment is paused"),
        (
            "apps/v1",
            "Deployment",
            condition("Progressing", "ProgressDeadlineExceeded", "ignored"),
            "Deployment \"x\" exceeded its progress deadline",
        ),
        ("apps/v1", "ReplicaSet", condition("ReplicaFailure", "FailedCreate", "no quota"), "no quota"),
        ("v1", "Pod", pod(always, two), "first, second, fourth"),
        ("v1", "Pod", pod(never.clone(), json!({"phase": "Failed", "message": "evicted"})), "evicted"),
        (
            "v1",
            "Pod",
            pod(never.clone(), ended(json!({"message": "last words", "exitCode": 3}))),
            "last words",
        ),
        (
            "v1",
            "Pod",
            pod(never.clone(), ended(json!({"reason": "OOMKilled", "exitCode": 137}))),
            "OOMKilled",
        ),
        (
            "v1",
            "Pod",
            pod(never.clone(), ended(json!({"exitCode": 3}))),
            "container \"c\" failed with exit code 3",
        ),
        ("v1", "Pod", pod(never, init), "container \"i\" failed with exit code 2"),
        ("batch/v1", "Job", condition("Failed", "DeadlineExceeded", "too late"), "too late"),
        ("batch/v1", "Job", condition("Complete", "", "all done"), "all done"),
        ("batch/v1", "Job", condition("Suspended", "JobSuspended", "Job suspended"), "Job suspended"),
        (
            "apiregistration.k8s.io/v1",
            "APIService",
            condition("Available", "Passed", "all good"),
            "Passed: all good",
        ),
        ("apiregistration.k8s.io/v1", "APIService", json!({}), "Waiting to be processed"),
        ("autoscaling/v1", "HorizontalPodAutoscaler", json!({}), "Waiting to Autoscale"),
        ("autoscaling/v1", "HorizontalPodAutoscaler", scaling(""), "Waiting to Autoscale"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", json!({}), "Waiting to Autoscale"),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            condition("AbleToScale", "FailedGetScale", "cannot read"),
            "cannot read",
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            condition("AbleToScale", "ReadyForNewScale", "ready to scale"),
            "ready to scale",
        ),
        (
            "argoproj.io/v1alpha1",
            "Workflow",
            json!({"status": {"phase": "Running", "message": "step 2"}}),
            "step 2",
        ),
        ("argoproj.io/v1alpha1", "Workflow", json!({"status": {"phase": "Odd", "message": "odd"}}), "odd"),
    ];
    for (api_version, kind, fields, message) in rows {
        let described = fields.to_string();
        let verdict = assess(&object(api_version, kind, fields)).expect("it is judged").unwrap();
        assert_eq!(verdict.message, message, "{kind} {described}");
    }
}
