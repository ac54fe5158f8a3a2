//! Applications that require approval don't write anything until their plan is approved, and then write
//! exactly what was approved. The cluster's audit log shows the actual writes, and the stored plan shows the
//! expected writes.

use serde_json::json;
use tidegate_application::approval::{self, waiting_plan};
use tidegate_application::operation;
use tidegate_application::refresh::RefreshLevel;
use tidegate_application::rollout_operation::{RolloutDeployment, deployment_request};
use tidegate_cluster::Cluster as _;
use tidegate_lifecycle::rollout::OperationReport;
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Object, OperationPhase, PlanApproval, Requester, Timestamp};
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::PlanState;
use tokio::sync::mpsc::unbounded_channel;

use crate::messages::{AppMessage, ChildOperation, SupervisorMessage};
use crate::sync_request::{self, SyncParameters};
use crate::testing::{TEST_TIMEOUT, TestEnvironment, application, key, manifests};

/// Returns an Application that requires approval by the given approvers.
fn app_needing_approval(name: &str, approvers: Option<&str>) -> Application {
    let mut app = application(name);
    app.metadata.annotations.insert(approval::APPROVAL_ANNOTATION.to_owned(), "required".to_owned());
    if let Some(approvers) = approvers {
        app.metadata.annotations.insert(approval::APPROVERS_ANNOTATION.to_owned(), approvers.to_owned());
    }
    app
}

/// Starts an environment with an Application that requires approval.
async fn start_environment(approvers: Option<&str>) -> TestEnvironment {
    let environment = TestEnvironment::with_stored_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    environment.write(&app_needing_approval("web", approvers));
    environment
        .wait_until("web", |one, _| {
            one.metadata.annotations.contains_key(approval::APPROVAL_ANNOTATION).then_some(())
        })
        .await;
    environment
}

async fn request_sync(environment: &TestEnvironment, by: &str) -> Result<(), ServiceError> {
    request_sync_with_reason(environment, by, "").await
}

async fn request_sync_with_reason(
    environment: &TestEnvironment,
    by: &str,
    reason: &str,
) -> Result<(), ServiceError> {
    let sync = SyncOperation { prune: true, ..SyncOperation::default() };
    let mut request = OperationRequest { sync: Some(sync), ..OperationRequest::default() };
    request.initiated_by.username = by.to_owned();
    operation::set_reason(&mut request, reason);
    environment.service().sync("web", request).await
}

async fn approve(environment: &TestEnvironment, hash: &str, by: &str) -> Result<(), ServiceError> {
    let approver = Requester { name: by, reason: "looked at it" };
    environment.service().approve_plan(Some("web"), hash, approver).await.map(drop)
}

/// Waits until a plan is waiting for approval. Ignores the plan with the hash `but`.
async fn await_plan(environment: &TestEnvironment, but: &str) -> String {
    environment
        .wait_until("web", |one, _| waiting_plan(one).filter(|hash| *hash != but).map(str::to_owned))
        .await
}

/// Waits until the operation has finished.
async fn await_end(environment: &TestEnvironment) -> (OperationPhase, String) {
    environment
        .wait_until("web", |one, _| {
            let state = one.status.operation_state.as_ref().filter(|state| state.finished_at.is_some())?;
            one.operation.is_none().then(|| (state.phase, state.message.clone()))
        })
        .await
}

/// Asserts that no operation has written anything.
#[track_caller]
fn assert_untouched(environment: &TestEnvironment) {
    let audit = environment.sim.audit();
    let written: Vec<_> = audit.iter().filter(|one| !one.dry_run && one.operation_id.is_some()).collect();
    assert!(written.is_empty(), "{written:#?}");
}

fn approval_message(app: &Application) -> String {
    approval::approval_condition_message(app).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_waits_and_writes_nothing_until_its_plan_is_approved() {
    let mut environment = start_environment(None).await;
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    let (text, message) = environment
        .wait_until("web", |one, _| {
            let state = one.status.operation_state.as_ref()?;
            (!approval_message(one).is_empty()).then(|| (approval_message(one), state.message.clone()))
        })
        .await;
    let short = &hash[..12];
    assert!(text.starts_with(&format!("plan {short} (2 to create, including 1 hook; revision ")), "{text}");
    assert!(
        text.ends_with(&format!(") is waiting for an approval: tidegate app approve web {short}")),
        "{text}"
    );
    assert!(message.starts_with("waiting for an approval for plan "), "{message}");
    // Without changes, there is neither a new plan nor a write.
    environment.compare("web", RefreshLevel::Latest).await;
    let writes = environment.writes();
    for _ in 0..3 {
        environment.compare("web", RefreshLevel::Latest).await;
    }
    assert_eq!((await_plan(&environment, "").await, environment.writes()), (hash.clone(), writes));
    // The plan also remains valid after a restart.
    environment.restart().await;
    environment.compare("web", RefreshLevel::Latest).await;
    environment.compare("web", RefreshLevel::Latest).await;
    assert_eq!(await_plan(&environment, "").await, hash);
    assert_untouched(&environment);
    approve(&environment, short, "ann").await.unwrap();
    // The published state no longer shows the plan as waiting.
    let now = environment.shared().application_cache.get(&key("web")).unwrap();
    let message = now.status.operation_state.as_ref().unwrap().message.clone();
    assert!(approval_message(&now).is_empty() && !message.contains("an approval"), "{message}");
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    let created = environment.operations_that_created("ConfigMap");
    assert_eq!((created.len(), environment.operations_that_created("Job").len()), (1, 1));
    let (line, _) = environment.service().stored_plan(Some("web"), &hash, None).await.unwrap();
    assert_eq!((line.state, line.operation), (PlanState::Executed, Some(created[0])));
    assert_eq!(line.approvals[0].by, "ann");
    assert_eq!(
        environment.wait_until("web", |one, _| Some(approval_message(one)).filter(String::is_empty)).await,
        ""
    );
    let again = approve(&environment, short, "ann").await.unwrap_err().to_string();
    assert!(again.contains("was already executed by operation"), "{again}");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requester_and_reason_are_shown_while_a_sync_waits_and_while_it_runs() {
    let mut environment = start_environment(Some("ben, others")).await;
    request_sync_with_reason(&environment, "ann", "a hotfix").await.unwrap();
    let first = await_plan(&environment, "").await;
    // The newer plan is created by another process and keeps the requester and the reason.
    environment.restart().await;
    environment.commit("web", &manifests("web", "2", "20ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    let hash = await_plan(&environment, &first).await;
    let (line, _) = environment.service().stored_plan(Some("web"), &hash, None).await.unwrap();
    assert_eq!((line.initiated_by.as_str(), line.reason.as_str()), ("ann", "a hotfix"));
    approve(&environment, &hash, "ben").await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    let (view, _) =
        environment.engine.inspect(environment.operations_that_created("ConfigMap")[0]).await.unwrap();
    assert_eq!((view.initiated_by.as_deref(), view.reason.as_deref()), (Some("ann"), Some("a hotfix")));
    let plan = view.plan.unwrap();
    let given = &plan.approvals[0];
    assert_eq!((plan.hash, plan.approvals.len()), (hash, 1));
    assert_eq!((given.by.as_str(), given.reason.as_str()), ("ben", "looked at it"));
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_options_are_rejected_before_planning() {
    let mut environment = start_environment(None).await;
    let sync = SyncOperation { sync_options: vec!["Prunes=true".to_owned()], ..SyncOperation::default() };
    let request = OperationRequest { sync: Some(sync), ..OperationRequest::default() };
    environment.service().sync("web", request).await.unwrap();
    let (phase, message) = await_end(&environment).await;
    assert_eq!(phase, OperationPhase::Error);
    assert!(message.contains("operation.sync.syncOptions") && message.contains("Prunes=true"), "{message}");
    assert!(environment.service().plans(Some("web"), None).await.unwrap().is_empty());
    assert_untouched(&environment);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_approvals_name_the_approvers_and_unknown_plans_fail() {
    let mut environment = start_environment(Some("ben, others")).await;
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    for (hash, by, part) in [
        (hash.as_str(), "ann", "ann may not approve the plan: it needs an approval by ben other than ann"),
        (&hash, "cleo", "cleo may not approve the plan"),
        (&hash, "", "needs the name of the approver"),
    ] {
        let error = approve(&environment, hash, by).await.unwrap_err();
        assert!(matches!(error, ServiceError::NotAllowed { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    for (text, part) in [
        (&hash[..5], "use at least the first 6"),
        ("0123456789ab", "the plan that is waiting for approval is "),
    ] {
        let error = approve(&environment, text, "ben").await.unwrap_err();
        assert!(matches!(error, ServiceError::UnknownPlan { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let (line, _) = environment.service().stored_plan(None, &hash[..6], None).await.unwrap();
    assert_eq!((line.state, line.approvals.len()), (PlanState::Waiting, 0));
    assert!(line.missing_approval.unwrap().starts_with("an approval by ben other than ann"));
    assert_untouched(&environment);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_and_its_project_each_need_their_own_approval() {
    let mut environment = start_environment(Some("ann, ben")).await;
    environment.annotated_project(
        json!({}),
        json!({approval::APPROVERS_ANNOTATION: "cleo", approval::APPROVAL_ANNOTATION: "please"}),
    );
    let wrong = environment.wait_until("web", |one, _| {
        let mut all = one.status.conditions.iter();
        all.find(|one| one.kind.to_string() == approval::APPROVAL_WARNING_CONDITION)
            .map(|one| one.message.clone())
    });
    assert!(wrong.await.contains("of project default is \"please\", but its only valid value is required"));
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    approve(&environment, &hash, "ann").await.unwrap();
    let text = environment
        .wait_until("web", |one, _| Some(approval_message(one)).filter(|message| !message.contains("ben")));
    assert!(text.await.contains("is waiting for an approval by cleo (required by project default)"));
    assert_untouched(&environment);
    let again = approve(&environment, &hash, "ann").await.unwrap_err().to_string();
    assert!(again.contains("ann has already approved the plan"), "{again}");
    approve(&environment, &hash, "cleo").await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_commit_or_a_changed_cluster_replaces_the_plan() {
    let mut environment = start_environment(None).await;
    request_sync(&environment, "ann").await.unwrap();
    let first = await_plan(&environment, "").await;
    environment.commit("web", &manifests("web", "2", "20ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    let second = await_plan(&environment, &first).await;
    let old = approve(&environment, &first, "ben").await.unwrap_err().to_string();
    let expected = format!(
        "plan {} is not the newest plan for application web; the newest is {}",
        &first[..12],
        &second[..12]
    );
    assert_eq!(old, expected);
    // Tidegate hasn't noticed the change yet when the plan is approved.
    environment
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings-web", "namespace": "web"},
            "data": {"value": "by hand"}}))
        .await;
    if let Err(moved) = approve(&environment, &second, "ben").await {
        let moved = moved.to_string();
        assert!(moved.contains("is no longer valid") || moved.contains("not the newest"), "{moved}");
    }
    let third = await_plan(&environment, &second).await;
    assert_untouched(&environment);
    environment.compare("web", RefreshLevel::Latest).await;
    let newest = await_plan(&environment, &second).await;
    assert_eq!(third, newest);
    approve(&environment, &newest, "ben").await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    let states = |hash: String| {
        let serving = environment.service();
        async move { serving.stored_plan(None, &hash, None).await.unwrap().0.state }
    };
    assert_eq!(states(first).await, PlanState::Replaced);
    assert_eq!(states(second).await, PlanState::Replaced);
    assert_eq!(states(newest).await, PlanState::Executed);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_operation_begins_once_after_a_kill() {
    let mut environment = start_environment(None).await;
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    // Store the approval without notifying the actor, as if the actor had crashed.
    let given = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: Timestamp::from_millis(1) };
    environment.plans().await.unwrap().approve(hash.parse().unwrap(), given).unwrap();
    assert_untouched(&environment);
    environment.restart().await;
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    environment.restart().await;
    environment.compare("web", RefreshLevel::Latest).await;
    assert_eq!(
        (environment.operations_that_created("ConfigMap").len(), environment.operations().await.len()),
        (1, 1)
    );
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_operation_begins_after_a_kill_despite_a_newer_commit() {
    let mut environment = start_environment(None).await;
    let mut automated = app_needing_approval("web", None);
    automated.spec.sync_policy = Some(serde_json::from_value(json!({"automated": {}})).unwrap());
    environment.write(&automated);
    let hash = await_plan(&environment, "").await;
    // Store the approval without notifying the actor, as if the actor had crashed.
    let given = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: Timestamp::from_millis(1) };
    environment.plans().await.unwrap().approve(hash.parse().unwrap(), given).unwrap();
    assert_untouched(&environment);
    environment.stop_managing().await;
    environment.commit("web", &manifests("web", "2", "20ms"));
    environment.restart().await;
    // The plan is executed, and the newer commit needs its own approval.
    let newer = await_plan(&environment, &hash).await;
    assert_ne!(newer, hash);
    let (line, _) = environment.service().stored_plan(None, &hash, None).await.unwrap();
    assert_eq!(
        (line.state, line.operation),
        (PlanState::Executed, Some(environment.operations_that_created("ConfigMap")[0]))
    );
    let map = environment.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!((map.text("/data/value"), environment.operations_that_created("Job").len()), ("1", 1));
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn termination_withdraws_the_plan_and_a_dry_run_needs_none() {
    let mut environment = start_environment(None).await;
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    environment
        .service()
        .terminate("web", None, Requester { name: "ben", reason: "no thanks" })
        .await
        .unwrap();
    let (line, _) = environment.service().stored_plan(None, &hash, None).await.unwrap();
    assert_eq!(line.state, PlanState::Withdrawn, "the plan was not replaced by a newer plan");
    assert_eq!(
        line.withdrawn_by.as_ref().map(PlanApproval::approver_text).as_deref(),
        Some("ben (no thanks)")
    );
    let (phase, message) = await_end(&environment).await;
    let outcome = "Operation terminated by ben before it began: no thanks";
    assert_eq!((phase, message.as_str()), (OperationPhase::Failed, outcome));
    let request = sync_request::sync_operation(
        &application("web"),
        SyncParameters { dry_run: true, ..SyncParameters::default() },
    );
    environment.service().sync("web", request).await.unwrap();
    let over = environment.wait_until("web", |one, _| {
        let state = one.status.operation_state.as_ref()?;
        let is_dry = state.operation.sync.as_ref()?.dry_run;
        (is_dry && state.finished_at.is_some()).then_some(state.phase)
    });
    assert_eq!(over.await, OperationPhase::Succeeded);
    assert_eq!(environment.service().plans(Some("web"), None).await.unwrap().len(), 1);
    environment.shutdown().await;
}

/// Rejecting a requested sync also rejects its revision, not only the request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejected_revision_is_not_synced_automatically_until_something_changes() {
    let mut environment = start_environment(None).await;
    request_sync(&environment, "ann").await.unwrap();
    let hash = await_plan(&environment, "").await;
    environment
        .service()
        .terminate("web", None, Requester { name: "ben", reason: "no thanks" })
        .await
        .unwrap();
    await_end(&environment).await;
    let mut automated = app_needing_approval("web", None);
    let policy = json!({"automated": {"prune": true, "selfHeal": true}});
    automated.spec.sync_policy = Some(serde_json::from_value(policy).unwrap());
    environment.write(&automated);
    let refused = environment
        .wait_until("web", |one, _| {
            let all = one.status.conditions.iter();
            all.map(|condition| condition.message.clone()).find(|text| text.starts_with("Failed last sync"))
        })
        .await;
    assert!(refused.ends_with("Operation terminated by ben before it began: no thanks"), "{refused}");
    environment.compare("web", RefreshLevel::Latest).await;
    let now = environment.shared().application_cache.get(&key("web")).unwrap();
    assert!(now.operation.is_none() && waiting_plan(&now).is_none(), "{:?}", now.operation);
    // Other commits are not affected by the rejection.
    environment.commit("web", &manifests("web", "2", "20ms"));
    environment.compare("web", RefreshLevel::Forced).await;
    assert_ne!(await_plan(&environment, "").await, hash);
    assert_untouched(&environment);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_progressive_sync_reports_that_it_waits_and_continues_when_approved() {
    let mut environment = start_environment(None).await;
    let commit = environment.commit("web", &manifests("web", "2", "20ms"));
    let operation = environment.next_id().await;
    let deploy =
        RolloutDeployment { appset: "argocd/fleet", revisions: std::slice::from_ref(&commit), prune: false };
    let request = Box::new(deployment_request(&application("web"), deploy));
    let (progress, mut reports) = unbounded_channel();
    let child = Box::new(ChildOperation { request: request.clone(), adoption: None, progress });
    environment.send(SupervisorMessage::Forward(key("web"), AppMessage::RunChild { operation, child }));
    let hash = await_plan(&environment, "").await;
    let mut plans = Vec::new();
    while plans.last().is_none_or(|plan: &String| !plan.contains(&hash[..12])) {
        match tokio::time::timeout(TEST_TIMEOUT, reports.recv()).await.unwrap() {
            Some(OperationReport::Unapproved { plan }) => plans.push(plan),
            other => panic!("{other:?}"),
        }
    }
    // The plan is still valid after a restart. The rollout requests the operation again and gets the same
    // plan.
    environment.restart().await;
    let (progress, mut reports) = unbounded_channel();
    let child = Box::new(ChildOperation { request, adoption: None, progress });
    environment.send(SupervisorMessage::Forward(key("web"), AppMessage::RunChild { operation, child }));
    assert!(matches!(
        tokio::time::timeout(TEST_TIMEOUT, reports.recv()).await.unwrap(),
        Some(OperationReport::Unapproved { .. })
    ));
    assert_eq!(await_plan(&environment, "").await, hash);
    assert_untouched(&environment);
    approve(&environment, &hash, "ben").await.unwrap();
    loop {
        match tokio::time::timeout(TEST_TIMEOUT, reports.recv()).await.unwrap() {
            Some(OperationReport::Unapproved { .. } | OperationReport::Started) => {}
            Some(OperationReport::Ended { phase, .. }) => break assert_eq!(phase, OperationPhase::Succeeded),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(environment.operations_that_created("ConfigMap"), [operation]);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn approving_the_plan_of_another_requester_does_not_run_it_alone() {
    let mut environment = start_environment(Some("others")).await;
    let mut request = sync_request::sync_operation(&application("web"), SyncParameters::default());
    request.initiated_by.username = "ann".to_owned();
    let (line, _) = environment.service().make_plan("web", request).await.unwrap();
    let carry_out = async |environment: &TestEnvironment, by: &str| {
        environment
            .service()
            .sync_plan(Some("web"), &line.hash, false, Requester { name: by, reason: "" })
            .await
    };
    approve(&environment, &line.hash, "ben").await.unwrap();
    let refused = carry_out(&environment, "ben").await.unwrap_err().to_string();
    let both = "other than ann, who created the plan, and ben, who requested the sync";
    assert!(refused.contains(both), "{refused}");
    assert_untouched(&environment);
    // An approval by one other user is enough. The requester may then execute the plan.
    approve(&environment, &line.hash, "cleo").await.unwrap();
    carry_out(&environment, "ben").await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_plan_runs_unchanged_and_once() {
    let mut environment =
        TestEnvironment::with_stored_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    let make = async |environment: &TestEnvironment, by: &str| {
        let mut request = sync_request::sync_operation(&application("web"), SyncParameters::default());
        request.initiated_by.username = by.to_owned();
        environment.service().make_plan("web", request).await.unwrap()
    };
    let carry_out = async |environment: &TestEnvironment, hash: &str| {
        environment
            .service()
            .sync_plan(Some("web"), hash, false, Requester { name: "ann", reason: "checked" })
            .await
    };
    let (line, plan) = make(&environment, "ann").await;
    assert_eq!((line.state, line.missing_approval.clone(), plan.tasks.len()), (PlanState::Stored, None, 2));
    assert_untouched(&environment);
    // The plan doesn't include later commits.
    environment.commit("web", &manifests("web", "2", "20ms"));
    carry_out(&environment, &line.hash[..8]).await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    let map = environment.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!(map.text("/data/value"), "1");
    let again = carry_out(&environment, &line.hash).await.unwrap_err().to_string();
    assert!(again.contains("a plan can be executed only once"), "{again}");
    // If approval is required, having a plan isn't enough to start an operation.
    environment.write(&app_needing_approval("web", Some("others")));
    environment
        .wait_until("web", |one, _| {
            one.metadata.annotations.contains_key(approval::APPROVAL_ANNOTATION).then_some(())
        })
        .await;
    let (line, _) = make(&environment, "ann").await;
    let refused = carry_out(&environment, &line.hash).await.unwrap_err().to_string();
    assert!(refused.contains("needs an approval by someone other than ann"), "{refused}");
    approve(&environment, &line.hash, "ben").await.unwrap();
    assert_eq!(environment.operations_that_created("ConfigMap").len(), 1);
    carry_out(&environment, &line.hash).await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    environment.wait_until("web", |one, _| (one.status.history.len() == 2).then_some(())).await;
    let map = environment.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!(map.text("/data/value"), "2");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_plan_runs_if_drift_is_allowed() {
    let mut environment =
        TestEnvironment::with_stored_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    let make = async |environment: &TestEnvironment| {
        let request = sync_request::sync_operation(&application("web"), SyncParameters::default());
        environment.service().make_plan("web", request).await.unwrap().0
    };
    let carry_out = async |environment: &TestEnvironment, hash: &str, allow_drift: bool| {
        environment
            .service()
            .sync_plan(Some("web"), hash, allow_drift, Requester { name: "ann", reason: "" })
            .await
    };
    let first = make(&environment).await;
    carry_out(&environment, &first.hash, false).await.unwrap();
    assert_eq!(await_end(&environment).await.0, OperationPhase::Succeeded);
    environment.commit("web", &manifests("web", "2", "20ms"));
    let second = make(&environment).await;
    // Another client writes a field that isn't in the plan.
    let map = || {
        let found = environment.sim.objects().into_iter().find(|one| one.name() == "settings-web");
        found.unwrap().as_value().clone()
    };
    let mut changed = map();
    changed["data"]["more"] = "x".into();
    environment.sim.put(Object::try_from(changed).unwrap(), None).await.unwrap();
    let refused = carry_out(&environment, &second.hash, false).await.unwrap_err().to_string();
    assert!(refused.contains("/data/more") && refused.contains("--allow-drift"), "{refused}");
    let stored = environment.service().stored_plan(None, &second.hash, None).await.unwrap().0;
    assert_eq!((stored.state, stored.operation), (PlanState::Stored, None));
    assert_eq!(environment.operations_that_created("ConfigMap").len(), 1, "nothing was written");
    carry_out(&environment, &second.hash, true).await.unwrap();
    environment.wait_until("web", |one, _| (one.status.history.len() == 2).then_some(())).await;
    assert_eq!((&map()["data"]["value"], &map()["data"]["more"]), (&json!("2"), &json!("x")));
    environment.shutdown().await;
}
