//! What a progressive sync wants of an application is begun once, whatever happens in between. The audit of the cluster says
//! for which operations something was made.

use serde_json::json;
use tidegate_application::running::{Deploy, place, request};
use tidegate_lifecycle::rollout::ChildNews;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{OperationId, OperationPhase};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use crate::applications::messages::SupervisorMessage;
use crate::applications::testing::{LIMIT, Served, application, key, manifests};

fn asked(name: &str, revision: &str) -> Box<OperationRequest> {
    let deploy = Deploy { set: "argocd/fleet", revisions: &[revision.to_owned()], prune: false };
    Box::new(request(&application(name), deploy))
}

fn run(served: &Served, name: &str, operation: OperationId, revision: &str) -> UnboundedReceiver<ChildNews> {
    let (tell, told) = unbounded_channel();
    served.send(SupervisorMessage::Run { key: key(name), operation, asked: asked(name, revision), tell });
    told
}

async fn next(told: &mut UnboundedReceiver<ChildNews>) -> Option<ChildNews> {
    tokio::time::timeout(LIMIT, told.recv()).await.unwrap()
}

/// What it was told until it was told no more, but for its beginning: what is over soon may have been over when it was looked at.
async fn all(mut told: UnboundedReceiver<ChildNews>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(news) = next(&mut told).await {
        all.push(match news {
            ChildNews::Begun => continue,
            ChildNews::Held { window } => format!("held: {window}"),
            ChildNews::Unapproved { plan } => format!("unapproved: {plan}"),
            ChildNews::Ended { phase: OperationPhase::Succeeded, .. } => "succeeded".to_owned(),
            ChildNews::Ended { phase, message } => format!("{phase}: {message}"),
            ChildNews::Failed(error) if error.transient => format!("later: {}", error.message),
            ChildNews::Failed(error) => format!("failed: {}", error.message),
        });
    }
    all
}

async fn stop(served: &Served, name: &str, operation: OperationId) -> Result<(), String> {
    let (reply, answer) = oneshot::channel();
    let (key, by) = (key(name), "ann".to_owned());
    served.send(SupervisorMessage::StopRun { key, operation, by, reply: reply.into() });
    tokio::time::timeout(LIMIT, answer).await.unwrap().unwrap()
}

async fn ids(served: &Served) -> Vec<OperationId> {
    served.operations().await.into_iter().map(|one| one.operation).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_begun_once_and_told_to_the_end_and_what_is_seen_then_is_evidence_of_it() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let first = served.commit("web", &manifests("web", "2", "20ms"));
    // By the time it begins there is a newer commit, which is not meant.
    served.commit("web", &manifests("web", "3", "20ms"));
    let operation = served.next_id().await;
    let told = run(&served, "web", operation, &first);
    assert_eq!(all(told).await, ["succeeded"]);
    assert_eq!((ids(&served).await, served.made("ConfigMap")), (vec![operation], vec![operation]));
    let deployed = served.until("web", |_, deployed| deployed.evidence.clone()).await;
    assert_eq!((deployed.operation, deployed.revisions), (operation, vec![first.clone()]));
    let state = served.kept_with("web", |app| app.status.operation_state).await;
    assert_eq!(state.operation.initiated_by.username, "applicationset-controller");
    // Wanted again, now or by a later process, it is over as it was.
    assert_eq!(all(run(&served, "web", operation, &first)).await, ["succeeded"]);
    let other = served.next_id().await;
    assert_eq!(all(run(&served, "web", other, &first)).await, ["succeeded"]);
    served.restart().await;
    for operation in [operation, other] {
        assert_eq!(all(run(&served, "web", operation, &first)).await, ["succeeded"]);
    }
    assert_eq!(ids(&served).await, [operation, other]);
    let newest = served.until("web", |_, deployed| deployed.evidence.clone()).await;
    assert_eq!((newest.operation, newest.revisions), (other, vec![first]), "as the log knows it");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_waits_for_the_operation_of_somebody_else_and_can_be_taken_back_until_then() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let slow = served.commit("web", &manifests("web", "2", "1h"));
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    let (reply, answer) = oneshot::channel();
    let by_hand = json!({"sync": {"revision": slow}, "initiatedBy": {"username": "ann"}});
    let by_hand = Box::new(serde_json::from_value(by_hand).unwrap());
    served.send(SupervisorMessage::Sync { key: key("web"), asked: by_hand, plan: None, reply: reply.into() });
    answer.await.unwrap().unwrap();
    while served.made("Job").is_empty() {
        tokio::task::yield_now().await;
    }
    let (first, second, third) = (served.next_id().await, served.next_id().await, served.next_id().await);
    let first_told = run(&served, "web", first, &commit);
    let second_told = run(&served, "web", second, &commit);
    let third_told = run(&served, "web", third, &commit);
    served.send(SupervisorMessage::TakeBack { key: key("web"), operation: first });
    assert_eq!(stop(&served, "web", third).await, Ok(()));
    assert_eq!(all(first_told).await, [""; 0]);
    assert_eq!(all(third_told).await, [""; 0]);
    assert_eq!(ids(&served).await.len(), 1, "that of ann is at work");
    let (reply, answer) = oneshot::channel();
    let by = "ann".to_owned();
    served.send(SupervisorMessage::Terminate { key: key("web"), operation: None, by, reply: reply.into() });
    answer.await.unwrap().unwrap();
    assert_eq!(all(second_told).await, ["succeeded"]);
    let ran = ids(&served).await;
    assert_eq!((ran.len(), ran.contains(&second)), (2, true));
    let jobs = served.made("Job");
    assert_eq!((jobs.len(), jobs.last()), (2, Some(&second)), "one after the other");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_work_goes_on_when_it_is_not_wanted_any_more_and_is_over_when_its_stop_is_answered() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1h"))]).await;
    let commit = served.commit("web", &manifests("web", "2", "1h"));
    let operation = served.next_id().await;
    let mut told = run(&served, "web", operation, &commit);
    assert_eq!(next(&mut told).await, Some(ChildNews::Begun));
    served.send(SupervisorMessage::TakeBack { key: key("web"), operation });
    assert_eq!(next(&mut told).await, None);
    // Whoever wants it again is told how it stands; so is one that asks of an application which is not there any more.
    let mut told = run(&served, "web", operation, &commit);
    assert_eq!(next(&mut told).await, Some(ChildNews::Begun));
    assert_eq!(stop(&served, "web", operation).await, Ok(()));
    let ended = served.operations().await;
    assert_eq!(
        (ended.len(), ended[0].phase, ended[0].finished_at.is_some()),
        (1, OperationPhase::Failed, true)
    );
    assert_eq!(stop(&served, "web", operation).await, Ok(()), "once more");
    let unknown = served.next_id().await;
    assert_eq!(stop(&served, "web", unknown).await, Ok(()));
    served.remove("web");
    let mut changes = served.shared().board.changes();
    while served.shared().board.get(&key("web")).is_some() {
        let _ = changes.recv().await;
    }
    assert_eq!(stop(&served, "web", operation).await, Ok(()));
    let gone = all(run(&served, "web", unknown, &commit)).await;
    assert_eq!(gone, ["later: application web is not there"]);
    assert_eq!(ids(&served).await, [operation]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_holds_it_and_says_so() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    served.project(json!({"syncWindows": [{"kind": "deny", "schedule": "* * * * *", "duration": "1h",
        "applications": ["*"], "manualSync": true}]}));
    while served.shared().windows(&application("web")).given.is_empty() {
        tokio::task::yield_now().await;
    }
    let operation = served.next_id().await;
    let mut told = run(&served, "web", operation, &commit);
    let Some(ChildNews::Held { window }) = next(&mut told).await else { panic!("not held") };
    assert!(window.contains("denied by sync window") && window.contains("project default"), "{window}");
    assert_eq!(ids(&served).await, []);
    served.project(json!({}));
    assert_eq!(all(told).await, ["succeeded"]);
    assert_eq!(ids(&served).await, [operation]);
    served.end().await;
}

/// Somebody writes an application, and it is shown.
async fn shown(served: &Served, app: &Application) {
    served.write(app);
    let is_it = |now: &Application| now.spec == app.spec && now.metadata == app.metadata;
    served.until("web", |now, _| is_it(now).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_begin_says_why() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    let operation = served.next_id().await;
    let mut elsewhere = application("web");
    elsewhere.spec.destination.name = "nowhere".to_owned();
    let mut left_alone = application("web");
    left_alone.metadata.annotations.insert("argocd.argoproj.io/skip-reconcile".into(), "true".into());
    for (app, expected) in [
        (elsewhere, "failed: the cluster nowhere of spec.destination is not known here"),
        (left_alone, "later: application web is left alone by its annotation"),
    ] {
        shown(&served, &app).await;
        let told = all(run(&served, "web", operation, &commit)).await;
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }
    // The same is begun once nothing stands in its way.
    shown(&served, &application("web")).await;
    assert_eq!(all(run(&served, "web", operation, &commit)).await, ["succeeded"]);
    // A revision that is not there: it has ended, and its application says why.
    let other = served.next_id().await;
    let told = all(run(&served, "web", other, "0123456789012345678901234567890123456789")).await;
    assert!(told.len() == 1 && told[0].starts_with("Error: "), "{told:?}");
    assert_eq!(ids(&served).await, [operation]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_down_and_not_begun_begins_under_its_own_id_and_only_if_it_is_still_wanted() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "20ms"))]).await;
    let commit = served.commit("web", &manifests("web", "2", "20ms"));
    let operation = served.next_id().await;
    // A process died after it had written it down, and before the engine heard of it.
    let mut kept = application("web");
    place(&mut kept, operation, *asked("web", &commit));
    served.set_kept(&kept);
    served.restart().await;
    served
        .until("web", |app, deployed| (deployed.is_compared && app.operation.is_none()).then_some(()))
        .await;
    assert_eq!(ids(&served).await, []);
    assert_eq!(all(run(&served, "web", operation, &commit)).await, ["succeeded"]);
    assert_eq!(served.made("Job"), [operation]);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_work_is_gone_on_with_after_a_restart_and_whoever_wants_it_is_told() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1h"))]).await;
    let commit = served.commit("web", &manifests("web", "2", "1h"));
    let operation = served.next_id().await;
    let mut told = run(&served, "web", operation, &commit);
    assert_eq!(next(&mut told).await, Some(ChildNews::Begun));
    while served.made("Job").is_empty() {
        tokio::task::yield_now().await;
    }
    served.restart().await;
    assert_eq!(next(&mut told).await, None, "nothing is told when an engine stops");
    let mut told = run(&served, "web", operation, &commit);
    assert_eq!(next(&mut told).await, Some(ChildNews::Begun));
    assert_eq!(stop(&served, "web", operation).await, Ok(()));
    assert_eq!(all(told).await, [""; 0], "whoever stops it hears of that by the answer");
    assert_eq!((ids(&served).await, served.made("Job")), (vec![operation], vec![operation]));
    served.end().await;
}
