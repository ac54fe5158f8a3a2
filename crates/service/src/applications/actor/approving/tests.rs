//! What needs an approval writes nothing without one, and then what was approved and nothing else. The audit of the cluster says
//! what was written, and the kept plan what was to be.

use serde_json::json;
use tidegate_application::approval::{self, waiting_plan};
use tidegate_application::operation;
use tidegate_application::refresh::Level;
use tidegate_application::running::{Deploy, request};
use tidegate_cluster::Cluster as _;
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Object, OperationPhase, PlanApproval, Timestamp};
use tokio::sync::mpsc::unbounded_channel;

use crate::applications::asking::{self, SyncWish};
use crate::applications::messages::SupervisorMessage;
use crate::applications::testing::{LIMIT, Served, application, key, manifests};
use crate::error::ServiceError;
use crate::lines::PlanState;

/// One that needs approvals, and whose.
fn needing(name: &str, approvers: Option<&str>) -> Application {
    let mut app = application(name);
    app.metadata.annotations.insert(approval::APPROVAL.to_owned(), "required".to_owned());
    if let Some(approvers) = approvers {
        app.metadata.annotations.insert(approval::APPROVERS.to_owned(), approvers.to_owned());
    }
    app
}

/// An application of this name that needs approvals, served.
async fn serve(approvers: Option<&str>) -> Served {
    let served = Served::keeping_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    served.write(&needing("web", approvers));
    served
        .until("web", |one, _| one.metadata.annotations.contains_key(approval::APPROVAL).then_some(()))
        .await;
    served
}

async fn ask(served: &Served, by: &str) -> Result<(), ServiceError> {
    ask_for(served, by, "").await
}

async fn ask_for(served: &Served, by: &str, reason: &str) -> Result<(), ServiceError> {
    let sync = SyncOperation { prune: true, ..SyncOperation::default() };
    let mut asked = OperationRequest { sync: Some(sync), ..OperationRequest::default() };
    asked.initiated_by.username = by.to_owned();
    operation::give_reason(&mut asked, reason);
    served.serving().sync("web", asked).await
}

async fn approve(served: &Served, hash: &str, by: &str) -> Result<(), ServiceError> {
    let said = (by.to_owned(), "looked at it".to_owned());
    served.serving().approve_plan(Some("web"), hash, said).await.map(drop)
}

/// The plan that waits, which is another one than that.
async fn waits(served: &Served, but: &str) -> String {
    served.until("web", |one, _| waiting_plan(one).filter(|hash| *hash != but).map(str::to_owned)).await
}

/// How its operation has ended that has begun.
async fn ended(served: &Served) -> (OperationPhase, String) {
    served
        .until("web", |one, _| {
            let state = one.status.operation_state.as_ref().filter(|state| state.finished_at.is_some())?;
            one.operation.is_none().then(|| (state.phase, state.message.clone()))
        })
        .await
}

/// Nothing was written by an operation.
#[track_caller]
fn assert_untouched(served: &Served) {
    let audit = served.sim.audit();
    let written: Vec<_> = audit.iter().filter(|one| !one.dry_run && one.operation_id.is_some()).collect();
    assert!(written.is_empty(), "{written:#?}");
}

fn said(app: &Application) -> String {
    approval::waiting(app).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_waits_with_its_plan_and_writes_nothing_until_that_is_approved() {
    let mut served = serve(None).await;
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    let (words, message) = served
        .until("web", |one, _| {
            let state = one.status.operation_state.as_ref()?;
            (!said(one).is_empty()).then(|| (said(one), state.message.clone()))
        })
        .await;
    let short = &hash[..12];
    assert!(words.starts_with(&format!("plan {short} (2 to create, 1 of them a hook; revision ")), "{words}");
    assert!(
        words.ends_with(&format!(") waits for an approval by somebody: tidegate app approve web {short}")),
        "{words}"
    );
    assert!(message.starts_with("waiting for an approval by somebody of plan "), "{message}");
    // A quiet system makes no other plan, and writes nothing down.
    served.compare("web", Level::Latest).await;
    let writes = served.writes();
    for _ in 0..3 {
        served.compare("web", Level::Latest).await;
    }
    assert_eq!((waits(&served, "").await, served.writes()), (hash.clone(), writes));
    // Neither does another process.
    served.restart().await;
    served.compare("web", Level::Latest).await;
    served.compare("web", Level::Latest).await;
    assert_eq!(waits(&served, "").await, hash);
    assert_untouched(&served);
    approve(&served, short, "ann").await.unwrap();
    // Whoever looks now finds that it waits no more.
    let now = served.shared().board.get(&key("web")).unwrap();
    let message = now.status.operation_state.as_ref().unwrap().message.clone();
    assert!(said(&now).is_empty() && !message.contains("an approval"), "{message}");
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    let made = served.made("ConfigMap");
    assert_eq!((made.len(), served.made("Job").len()), (1, 1));
    let (line, _) = served.serving().kept_plan(Some("web"), &hash, None).await.unwrap();
    assert_eq!((line.state, line.operation), (PlanState::Taken, Some(made[0])));
    assert_eq!(line.approvals[0].by, "ann");
    assert_eq!(served.until("web", |one, _| Some(said(one)).filter(String::is_empty)).await, "");
    let again = approve(&served, short, "ann").await.unwrap_err().to_string();
    assert!(again.contains("was carried out by operation"), "{again}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_asked_and_why_is_known_while_it_waits_and_of_what_is_carried_out() {
    let mut served = serve(Some("ben, others")).await;
    ask_for(&served, "ann", "a hotfix").await.unwrap();
    let first = waits(&served, "").await;
    // A newer plan, made by another process, is asked for by the same person for the same reason.
    served.restart().await;
    served.commit("web", &manifests("web", "2", "20ms"));
    served.compare("web", Level::Forced).await;
    let hash = waits(&served, &first).await;
    let (line, _) = served.serving().kept_plan(Some("web"), &hash, None).await.unwrap();
    assert_eq!((line.by.as_str(), line.reason.as_str()), ("ann", "a hotfix"));
    approve(&served, &hash, "ben").await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    let (view, _) = served.engine.inspect(served.made("ConfigMap")[0]).await.unwrap();
    assert_eq!((view.initiated_by.as_deref(), view.reason.as_deref()), (Some("ann"), Some("a hotfix")));
    let plan = view.plan.unwrap();
    let given = &plan.approvals[0];
    assert_eq!((plan.hash, plan.approvals.len()), (hash, 1));
    assert_eq!((given.by.as_str(), given.reason.as_str()), ("ben", "looked at it"));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_that_nobody_knows_are_refused_before_anything_is_planned() {
    let mut served = serve(None).await;
    let sync = SyncOperation { sync_options: vec!["Prunes=true".to_owned()], ..SyncOperation::default() };
    let asked = OperationRequest { sync: Some(sync), ..OperationRequest::default() };
    served.serving().sync("web", asked).await.unwrap();
    let (phase, message) = ended(&served).await;
    assert_eq!(phase, OperationPhase::Error);
    assert!(message.contains("operation.sync.syncOptions") && message.contains("Prunes=true"), "{message}");
    assert!(served.serving().plans(Some("web"), None).await.unwrap().is_empty());
    assert_untouched(&served);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_may_not_approve_are_told_who_may_and_unknown_plans_are_none() {
    let mut served = serve(Some("ben, others")).await;
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    for (hash, by, part) in [
        (hash.as_str(), "ann", "ann may not approve it: it needs an approval by ben other than ann"),
        (&hash, "cleo", "cleo may not approve it"),
        (&hash, "", "must have a name"),
    ] {
        let error = approve(&served, hash, by).await.unwrap_err();
        assert!(matches!(error, ServiceError::NotAllowed { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    for (text, part) in
        [(&hash[..5], "the first 6 may be enough"), ("0123456789ab", "what waits for an approval is plan ")]
    {
        let error = approve(&served, text, "ben").await.unwrap_err();
        assert!(matches!(error, ServiceError::UnknownPlan { .. }), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let (line, _) = served.serving().kept_plan(None, &hash[..6], None).await.unwrap();
    assert_eq!((line.state, line.approvals.len()), (PlanState::Waiting, 0));
    assert!(line.needs.unwrap().starts_with("an approval by ben other than ann"));
    assert_untouched(&served);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_and_its_project_each_need_their_own_approval() {
    let mut served = serve(Some("ann, ben")).await;
    served.annotated_project(json!({}), json!({approval::APPROVERS: "cleo", approval::APPROVAL: "please"}));
    let wrong = served.until("web", |one, _| {
        let mut all = one.status.conditions.iter();
        all.find(|one| one.kind.to_string() == approval::WRONG).map(|one| one.message.clone())
    });
    assert!(wrong.await.contains("of project default says \"please\""));
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    approve(&served, &hash, "ann").await.unwrap();
    let words = served.until("web", |one, _| Some(said(one)).filter(|said| !said.contains("ben")));
    assert!(words.await.contains("waits for an approval by cleo (says project default)"));
    assert_untouched(&served);
    let again = approve(&served, &hash, "ann").await.unwrap_err().to_string();
    assert!(again.contains("ann has approved it already"), "{again}");
    approve(&served, &hash, "cleo").await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_commit_and_a_changed_cluster_make_a_newer_plan() {
    let mut served = serve(None).await;
    ask(&served, "ann").await.unwrap();
    let first = waits(&served, "").await;
    served.commit("web", &manifests("web", "2", "20ms"));
    served.compare("web", Level::Forced).await;
    let second = waits(&served, &first).await;
    let old = approve(&served, &first, "ben").await.unwrap_err().to_string();
    let expected = format!(
        "plan {} is not the newest of application web; the newest is {}",
        &first[..12],
        &second[..12]
    );
    assert_eq!(old, expected);
    // Nobody has told of this by the time somebody approves.
    served
        .apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings-web", "namespace": "web"},
            "data": {"value": "by hand"}}))
        .await;
    if let Err(moved) = approve(&served, &second, "ben").await {
        let moved = moved.to_string();
        assert!(moved.contains("does not fit any more") || moved.contains("not the newest"), "{moved}");
    }
    let third = waits(&served, &second).await;
    assert_untouched(&served);
    served.compare("web", Level::Latest).await;
    let newest = waits(&served, &second).await;
    assert_eq!(third, newest);
    approve(&served, &newest, "ben").await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    let states = |hash: String| {
        let serving = served.serving();
        async move { serving.kept_plan(None, &hash, None).await.unwrap().0.state }
    };
    assert_eq!(states(first).await, PlanState::Replaced);
    assert_eq!(states(second).await, PlanState::Replaced);
    assert_eq!(states(newest).await, PlanState::Taken);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_approved_when_a_process_died_begins_with_the_next_one_and_once() {
    let mut served = serve(None).await;
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    // Its actor hears nothing of this, as if it had died then.
    let given = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: Timestamp::from_millis(1) };
    served.plans().await.unwrap().approve(hash.parse().unwrap(), given).unwrap();
    assert_untouched(&served);
    served.restart().await;
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    served.restart().await;
    served.compare("web", Level::Latest).await;
    assert_eq!((served.made("ConfigMap").len(), served.operations().await.len()), (1, 1));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_approved_when_a_process_died_begins_though_there_is_a_newer_commit() {
    let mut served = serve(None).await;
    let mut automated = needing("web", None);
    automated.spec.sync_policy = Some(serde_json::from_value(json!({"automated": {}})).unwrap());
    served.write(&automated);
    let hash = waits(&served, "").await;
    // As soon as somebody can have seen it, it is known to the next process.
    let given = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: Timestamp::from_millis(1) };
    served.plans().await.unwrap().approve(hash.parse().unwrap(), given).unwrap();
    assert_untouched(&served);
    served.leave().await;
    served.commit("web", &manifests("web", "2", "20ms"));
    served.restart().await;
    // It is carried out, and the newer commit waits for an approval of its own.
    let newer = waits(&served, &hash).await;
    assert_ne!(newer, hash);
    let (line, _) = served.serving().kept_plan(None, &hash, None).await.unwrap();
    assert_eq!((line.state, line.operation), (PlanState::Taken, Some(served.made("ConfigMap")[0])));
    let map = served.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!((map.text("/data/value"), served.made("Job").len()), ("1", 1));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_by_hand_takes_the_plan_back_and_a_dry_run_needs_none() {
    let mut served = serve(None).await;
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    served.serving().terminate("web", None, ("ben".to_owned(), "no thanks".to_owned())).await.unwrap();
    let (line, _) = served.serving().kept_plan(None, &hash, None).await.unwrap();
    assert_eq!(line.state, PlanState::Withdrawn, "there is no newer one");
    assert_eq!(line.withdrawn_by.as_ref().map(PlanApproval::who).as_deref(), Some("ben (no thanks)"));
    let (phase, message) = ended(&served).await;
    let told = "Operation terminated by ben before it began: no thanks";
    assert_eq!((phase, message.as_str()), (OperationPhase::Failed, told));
    let asked = asking::sync(&application("web"), SyncWish { dry_run: true, ..SyncWish::default() });
    served.serving().sync("web", asked).await.unwrap();
    let over = served.until("web", |one, _| {
        let state = one.status.operation_state.as_ref()?;
        let is_dry = state.operation.sync.as_ref()?.dry_run;
        (is_dry && state.finished_at.is_some()).then_some(state.phase)
    });
    assert_eq!(over.await, OperationPhase::Succeeded);
    assert_eq!(served.serving().plans(Some("web"), None).await.unwrap().len(), 1);
    served.end().await;
}

/// Whoever rejects what another has asked for by hand has rejected that revision, and not only that it was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_rejected_is_not_synced_by_itself_until_there_is_something_else() {
    let mut served = serve(None).await;
    ask(&served, "ann").await.unwrap();
    let hash = waits(&served, "").await;
    served.serving().terminate("web", None, ("ben".to_owned(), "no thanks".to_owned())).await.unwrap();
    ended(&served).await;
    let mut automated = needing("web", None);
    let policy = json!({"automated": {"prune": true, "selfHeal": true}});
    automated.spec.sync_policy = Some(serde_json::from_value(policy).unwrap());
    served.write(&automated);
    let refused = served
        .until("web", |one, _| {
            let all = one.status.conditions.iter();
            all.map(|condition| condition.message.clone()).find(|words| words.starts_with("Failed last sync"))
        })
        .await;
    assert!(refused.ends_with("Operation terminated by ben before it began: no thanks"), "{refused}");
    served.compare("web", Level::Latest).await;
    let now = served.shared().board.get(&key("web")).unwrap();
    assert!(now.operation.is_none() && waiting_plan(&now).is_none(), "{:?}", now.operation);
    // Another commit has not been rejected.
    served.commit("web", &manifests("web", "2", "20ms"));
    served.compare("web", Level::Forced).await;
    assert_ne!(waits(&served, "").await, hash);
    assert_untouched(&served);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_progressive_sync_is_told_that_its_operation_waits_and_goes_on_when_it_is_approved() {
    let mut served = serve(None).await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    let operation = served.next_id().await;
    let deploy = Deploy { set: "argocd/fleet", revisions: std::slice::from_ref(&commit), prune: false };
    let asked = Box::new(request(&application("web"), deploy));
    let (tell, mut told) = unbounded_channel();
    served.send(SupervisorMessage::Run { key: key("web"), operation, asked: asked.clone(), tell });
    let hash = waits(&served, "").await;
    let mut plans = Vec::new();
    while plans.last().is_none_or(|plan: &String| !plan.contains(&hash[..12])) {
        match tokio::time::timeout(LIMIT, told.recv()).await.unwrap() {
            Some(ChildNews::Unapproved { plan }) => plans.push(plan),
            other => panic!("{other:?}"),
        }
    }
    // The next process finds it as it was, and so does the rollout that asks again.
    served.restart().await;
    let (tell, mut told) = unbounded_channel();
    served.send(SupervisorMessage::Run { key: key("web"), operation, asked, tell });
    assert!(matches!(
        tokio::time::timeout(LIMIT, told.recv()).await.unwrap(),
        Some(ChildNews::Unapproved { .. })
    ));
    assert_eq!(waits(&served, "").await, hash);
    assert_untouched(&served);
    approve(&served, &hash, "ben").await.unwrap();
    loop {
        match tokio::time::timeout(LIMIT, told.recv()).await.unwrap() {
            Some(ChildNews::Unapproved { .. } | ChildNews::Begun) => {}
            Some(ChildNews::Ended { phase, .. }) => break assert_eq!(phase, OperationPhase::Succeeded),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(served.made("ConfigMap"), [operation]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_approves_the_plan_of_another_does_not_have_it_carried_out_alone() {
    let mut served = serve(Some("others")).await;
    let mut asked = asking::sync(&application("web"), SyncWish::default());
    asked.initiated_by.username = "ann".to_owned();
    let (line, _) = served.serving().make_plan("web", asked).await.unwrap();
    let carry_out = async |served: &Served, by: &str| {
        served.serving().sync_plan(Some("web"), &line.hash, (false, by.to_owned(), String::new())).await
    };
    approve(&served, &line.hash, "ben").await.unwrap();
    let refused = carry_out(&served, "ben").await.unwrap_err().to_string();
    let both = "other than ann, who has made the plan, and ben, who asks for the sync";
    assert!(refused.contains(both), "{refused}");
    assert_untouched(&served);
    // A second pair of eyes will do, and so will the author with the approval of the first.
    approve(&served, &line.hash, "cleo").await.unwrap();
    carry_out(&served, "ben").await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_somebody_has_made_is_carried_out_as_it_is_and_once() {
    let mut served = Served::keeping_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    let make = async |served: &Served, by: &str| {
        let mut asked = asking::sync(&application("web"), SyncWish::default());
        asked.initiated_by.username = by.to_owned();
        served.serving().make_plan("web", asked).await.unwrap()
    };
    let carry_out = async |served: &Served, hash: &str| {
        served.serving().sync_plan(Some("web"), hash, (false, "ann".to_owned(), "checked".to_owned())).await
    };
    let (line, plan) = make(&served, "ann").await;
    assert_eq!((line.state, line.needs.clone(), plan.tasks.len()), (PlanState::Kept, None, 2));
    assert_untouched(&served);
    // What is committed since is no part of it.
    served.commit("web", &manifests("web", "2", "20ms"));
    carry_out(&served, &line.hash[..8]).await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    let map = served.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!(map.text("/data/value"), "1");
    let again = carry_out(&served, &line.hash).await.unwrap_err().to_string();
    assert!(again.contains("a plan is carried out once"), "{again}");
    // Where an approval is asked for, it needs one, and nothing begins with that alone.
    served.write(&needing("web", Some("others")));
    served
        .until("web", |one, _| one.metadata.annotations.contains_key(approval::APPROVAL).then_some(()))
        .await;
    let (line, _) = make(&served, "ann").await;
    let refused = carry_out(&served, &line.hash).await.unwrap_err().to_string();
    assert!(refused.contains("needs an approval by somebody other than ann"), "{refused}");
    approve(&served, &line.hash, "ben").await.unwrap();
    assert_eq!(served.made("ConfigMap").len(), 1);
    carry_out(&served, &line.hash).await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    served.until("web", |one, _| (one.status.history.len() == 2).then_some(())).await;
    let map = served.sim.objects().into_iter().find(|one| one.name() == "settings-web").unwrap();
    assert_eq!(map.text("/data/value"), "2");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_was_refused_is_carried_out_when_drift_is_allowed() {
    let mut served = Served::keeping_plans(&[("web", &manifests("web", "1", "20ms"))]).await;
    let make = async |served: &Served| {
        let asked = asking::sync(&application("web"), SyncWish::default());
        served.serving().make_plan("web", asked).await.unwrap().0
    };
    let carry_out = async |served: &Served, hash: &str, allow_drift: bool| {
        served.serving().sync_plan(Some("web"), hash, (allow_drift, "ann".to_owned(), String::new())).await
    };
    let first = make(&served).await;
    carry_out(&served, &first.hash, false).await.unwrap();
    assert_eq!(ended(&served).await.0, OperationPhase::Succeeded);
    served.commit("web", &manifests("web", "2", "20ms"));
    let second = make(&served).await;
    // Somebody else writes a field that it says nothing about.
    let map = || {
        let found = served.sim.objects().into_iter().find(|one| one.name() == "settings-web");
        found.unwrap().as_value().clone()
    };
    let mut changed = map();
    changed["data"]["more"] = "x".into();
    served.sim.put(Object::try_from(changed).unwrap(), None).await.unwrap();
    let refused = carry_out(&served, &second.hash, false).await.unwrap_err().to_string();
    assert!(refused.contains("/data/more") && refused.contains("--allow-drift"), "{refused}");
    let kept = served.serving().kept_plan(None, &second.hash, None).await.unwrap().0;
    assert_eq!((kept.state, kept.operation), (PlanState::Kept, None));
    assert_eq!(served.made("ConfigMap").len(), 1, "nothing was written");
    carry_out(&served, &second.hash, true).await.unwrap();
    served.until("web", |one, _| (one.status.history.len() == 2).then_some(())).await;
    assert_eq!((&map()["data"]["value"], &map()["data"]["more"]), (&json!("2"), &json!("x")));
    served.end().await;
}
