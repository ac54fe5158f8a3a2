//! Next action for every kind of wait, and the states that cause it.
#![allow(clippy::unwrap_used, reason = "test code")]

use tidegate_model::{Cascade, Gvk};

use super::*;

const ID: &str = "019f0000-0000-7000-8000-000000000007";

fn task(group: &str, kind: &str, namespace: &str) -> Task {
    Task::new(tidegate_model::Phase::Sync, 0, Gvk::new(group, "v1", kind), namespace, "api")
}

fn action(wait: &Wait<'_>, destination: Destination) -> String {
    let request = SyncRequest::new("team_shop", "shop", destination);
    wait.action(ID.parse().unwrap(), &request).to_string().replace(ID, "ID")
}

fn kubernetes() -> Destination {
    Destination::Kubernetes {
        context: String::new(),
        server: String::new(),
        kubeconfig: None,
        impersonate: tidegate_model::Impersonation::default(),
        uid: String::new(),
    }
}

#[test]
fn every_wait_has_a_next_action() {
    let (api, node) = (task("apps", "Deployment", "shop"), task("", "Namespace", ""));
    let at = Timestamp::from_millis(0);
    for (wait, expected) in [
        (Wait::Record, "nothing to do; it continues when the operation is recorded"),
        (Wait::Unpause, "`tidegate ops unpause ID` continues the operation"),
        (
            Wait::OtherClaim("operation 7".to_owned()),
            "nothing to do; it continues when operation 7 ends; `tidegate ops terminate ID` ends the operation",
        ),
        (Wait::Claim, "nothing to do; it continues when the operation acquires the claim"),
        (Wait::LostClaim, "nothing to do; the operation ends because another operation took its claim"),
        (Wait::Plan, "nothing to do; it continues when the plan is ready"),
        (Wait::DryRun, "nothing to do; it continues when the server validates the manifests"),
        (Wait::NextWave, "nothing to do; it continues when the next wave opens"),
        (Wait::Approval, "`tidegate ops approve ID` opens the wave"),
        (
            Wait::Confirmation,
            "`tidegate ops confirm ID` permits the deletions; `tidegate ops terminate ID` ends the operation",
        ),
        (Wait::Soak(at), "nothing to do; it continues when the soak time ends at 1970-01-01T00:00:00.000Z"),
        (Wait::Group("db"), "nothing to do; it continues when another operation in the group db ends"),
        (
            Wait::Gate("night", "it is day"),
            "nothing to do; it continues when the gate night opens (it is day)",
        ),
        (Wait::Gates, "nothing to do; it continues when the gates report their results"),
        (Wait::Deletions, "nothing to do; it continues when the deletions are requested"),
        (Wait::GoneCheck, "nothing to do; it continues when the deleted objects no longer exist"),
        (
            Wait::Gone(&api),
            "`kubectl describe Deployment.apps/api -n shop` shows what blocks the deletion; the operation continues when \
             Deployment shop/api no longer exists, and `tidegate ops terminate ID` ends the operation",
        ),
        (
            Wait::OtherHook("7"),
            "nothing to do; it continues when operation 7 finishes running the hook; `tidegate ops \
             terminate ID` ends the operation",
        ),
        (
            Wait::Call(&api),
            "nothing to do; it continues when the cluster accepts the call for Deployment shop/api; `tidegate ops \
             terminate ID` ends the operation",
        ),
        (Wait::Manifests, "nothing to do; it continues when the wave's manifests are applied"),
        (Wait::Observation(&api), "nothing to do; it continues when Deployment shop/api is observed"),
        (
            Wait::Hook(&api),
            "`tidegate ops output ID` prints the output of Deployment shop/api; the operation continues \
             when the hook finishes; `tidegate ops terminate ID` ends the operation",
        ),
        (
            Wait::Health(&node),
            "`kubectl describe Namespace/api` shows its status and its events; if it remains unhealthy, `tidegate ops \
             terminate ID` ends the operation, and `tidegate ops skip ID --task Namespace/api --reason TEXT` continues without the object",
        ),
        (
            Wait::Release(&api),
            "nothing to do; it continues when the finalizer of Deployment shop/api is removed",
        ),
        (
            Wait::Settling(at),
            "nothing to do; it continues when the wave has stayed healthy until 1970-01-01T00:00:00.000Z",
        ),
        (Wait::Namespaces, "nothing to do; it continues when the wave's namespaces are checked"),
        (
            Wait::Attempt(2, at),
            "nothing to do; it continues when attempt 2 starts at 1970-01-01T00:00:00.000Z; `tidegate ops terminate ID` \
             ends the operation",
        ),
        (Wait::Stop, "nothing to do; the operation ends when its running hooks stop"),
        (Wait::CleanUp, "nothing to do; the operation ends when its hooks are cleaned up"),
        (Wait::Succeeded, "nothing to do; sync again when the manifests change"),
        (Wait::Checked, "to write the changes, request the sync without a dry run"),
        (
            Wait::Failed,
            "fix the cause, then sync again: `tidegate app sync team/shop` for a managed Application, \
             otherwise the original sync command",
        ),
        (
            Wait::Terminated,
            "to deploy, sync again: `tidegate app sync team/shop` for a managed Application, otherwise the original \
             sync command",
        ),
        (Wait::Superseded, "nothing to do; the superseding operation takes over the work"),
        (Wait::Deleted, "nothing to do; the application is deleted"),
        (Wait::NotDeleted, "fix the cause, then request the deletion again"),
    ] {
        assert_eq!(action(&wait, kubernetes()), expected, "{wait:?}");
    }
    let mut deletion = SyncRequest::new("shop", "shop", kubernetes());
    deletion.deletion = Some(Cascade::Foreground);
    assert_eq!(
        Wait::Terminated.action(ID.parse().unwrap(), &deletion).to_string(),
        "to delete the application, request the deletion again"
    );
    let simulated = action(&Wait::Health(&api), Destination::Simulated);
    assert!(simulated.starts_with("`tidegate sim objects` shows its health and its pods; "), "{simulated}");
    let gone = action(&Wait::Gone(&api), Destination::Simulated);
    assert!(gone.starts_with("`tidegate sim objects` shows what blocks the deletion"), "{gone}");
}

#[test]
fn the_progress_of_an_object_decides_its_wait() {
    let (api, state) = (task("apps", "Deployment", "shop"), TaskState::default);
    let in_progress = |progress| TaskState { progress, ..state() };
    let uid = String::new;
    for (progress, expected) in [
        (Progress::Waiting, Wait::Manifests),
        (Progress::Ready, Wait::Manifests),
        (Progress::Suspended { uid: uid() }, Wait::Manifests),
        (Progress::Deleting { uid: uid() }, Wait::Gone(&api)),
        (Progress::Running, Wait::Observation(&api)),
        (Progress::Stopping { reason: uid() }, Wait::Stop),
        (Progress::Done, Wait::Release(&api)),
    ] {
        assert_eq!(task_wait(&api, &in_progress(progress)), expected);
    }
    let calls = super::super::state::CallFailures { failed: 1, ..Default::default() };
    assert_eq!(task_wait(&api, &TaskState { calls: Some(Box::new(calls)), ..state() }), Wait::Call(&api));
}

#[test]
fn operations_without_a_process_or_details_have_a_next_action() {
    let id: OperationId = ID.parse().unwrap();
    assert_eq!(resume_action(id, false).command.unwrap(), format!("tidegate resume {ID}"));
    assert_eq!(
        resume_action(id, true).to_string(),
        format!(
            "unpause the operation with `tidegate ops unpause {ID}`, then continue it with `tidegate resume {ID}`"
        )
    );
    let of = |phase| summary_action(id, "shop", phase, "").to_string();
    assert!(of(OperationPhase::Succeeded).starts_with("nothing to do; "));
    assert!(of(OperationPhase::Failed).starts_with("fix the cause"));
    assert!(of(OperationPhase::Error).starts_with("fix the cause"));
    let terminated = summary_action(id, "shop", OperationPhase::Failed, TERMINATED).to_string();
    assert!(terminated.starts_with("to deploy, sync again: `tidegate app sync shop`"), "{terminated}");
    for phase in [OperationPhase::Running, OperationPhase::Terminating] {
        assert!(of(phase).starts_with(&format!("`tidegate ops show {ID}`")));
    }
}

#[test]
fn an_outage_replaces_the_next_action_unless_a_person_can_act() {
    for (awaits_person, expected) in [
        (false, "nothing to do; it continues when the cluster responds"),
        (true, "`tidegate ops approve ID` opens the wave"),
    ] {
        let action = NextAction::run("tidegate ops approve ID", "opens the wave");
        let at = Explanation::new("wave 1 of 2", Timestamp::from_millis(0));
        let mut explanation = Explanation { action, awaits_person, ..at };
        explanation.add_outage("no answer".to_owned());
        assert_eq!(
            (explanation.action.to_string().as_str(), explanation.trouble.as_deref()),
            (expected, Some("no answer"))
        );
    }
}
