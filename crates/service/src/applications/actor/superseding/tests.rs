//! Something newer is wanted while an operation is under way. The audit of the cluster says what was made and deleted.

use serde_json::json;
use tidegate_application::refresh::Level;
use tidegate_application::superseding::{
    NOT_TAKEN, POLICY_REMARK, SUPERSEDES_REMARK, receive, waiting as waits,
};
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_model::{ClaimHolder, IfTaken, OperationPhase, SafePoint};
use tokio::sync::oneshot;

use crate::applications::messages::SupervisorMessage;
use crate::applications::testing::{LIMIT, Served, application, key};

/// A Job that runs before for so long, a Deployment that is ready after so long, and a Job behind it.
fn manifests(migrates: &str, ready: &str) -> String {
    let job = |name: &str, hook: &str, takes: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": {
            "argocd.argoproj.io/hook": hook, "sim.tidegate.dev/ready-after": takes,
        }}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}}})
    };
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "annotations": {
        "sim.tidegate.dev/ready-after": ready,
    }}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]},
    }}});
    let (before, behind) = (job("migrate", "PreSync", migrates), job("check", "PostSync", "1ms"));
    format!("---\n{before}\n---\n{web}\n---\n{behind}\n")
}

/// `web` is synced automatically, and its first operation waits: for a hook, or for a Deployment that never gets ready.
async fn waiting(first: &str, annotation: Option<&str>) -> Served {
    let served = Served::new(&[("web", first)]).await;
    let mut app = application("web");
    let spec = json!({"automated": {"prune": true}, "retry": {"limit": 0}});
    app.spec.sync_policy = serde_json::from_value(spec).unwrap();
    let said = annotation.map(|said| ("tidegate.dev/on-new-revision".to_owned(), said.to_owned()));
    app.metadata.annotations.extend(said);
    served.write(&app);
    served.until("web", |now, _| (now.metadata == app.metadata && now.spec == app.spec).then_some(())).await;
    served.until("web", |now, _| message(now).contains("waiting for").then_some(())).await;
    served
}

fn message(app: &Application) -> String {
    app.status.operation_state.as_ref().map(|state| state.message.clone()).unwrap_or_default()
}

async fn over(served: &Served, operations: usize) -> Vec<(OperationPhase, String)> {
    let mut changes = served.shared().board.changes();
    let waiting = async {
        loop {
            let all = served.operations().await;
            if all.len() == operations && all.iter().all(|one| one.finished_at.is_some()) {
                return all.into_iter().map(|one| (one.phase, one.message)).collect();
            }
            let _ = changes.recv().await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.unwrap()
}

fn deleted_jobs(served: &Served) -> usize {
    served
        .sim
        .audit()
        .iter()
        .filter(|entry| entry.kind == "Job" && entry.verb == tidegate_cluster::sim::Verb::Delete)
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_commit_takes_the_place_of_an_operation_that_waits() {
    let mut served = waiting(&manifests("1ms", "1h"), None).await;
    served.until("web", |now, _| message(now).contains("Deployment/web").then_some(())).await;
    let commit = served.commit("web", &manifests("1ms", "1ms"));
    served.compare("web", Level::Forced).await;
    let ended = over(&served, 2).await;
    assert_eq!(
        ended[0],
        (
            OperationPhase::Failed,
            format!("Operation terminated, superseded by another sync (revision {commit})")
        )
    );
    assert_eq!(ended[1].0, OperationPhase::Succeeded);
    let first = served.operations().await[0].operation;
    let is_told = |now: &Application| {
        let state = now.status.operation_state.as_ref()?;
        (now.operation.is_none() && state.finished_at.is_some()).then(|| state.clone())
    };
    let told = served.until("web", |now, _| is_told(now)).await;
    assert_eq!(told.operation.remark(SUPERSEDES_REMARK), Some(first.to_string().as_str()));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_commit_that_changes_nothing_of_it_leaves_it_alone() {
    let mut served = waiting(&manifests("1ms", "1h"), None).await;
    served.until("web", |now, _| message(now).contains("Deployment/web").then_some(())).await;
    let at = |now: &Application| now.status.sync.as_ref().map(|sync| sync.revision.clone());
    let elsewhere = served.commit("elsewhere", "");
    served.compare("web", Level::Forced).await;
    served
        .until("web", |now, _| (at(now).as_ref() == Some(&elsewhere)).then(|| assert_eq!(waits(now), None)))
        .await;
    let changed = served.commit("web", &manifests("1ms", "1ms"));
    served.compare("web", Level::Forced).await;
    let ended = over(&served, 2).await;
    assert!(ended[0].1.ends_with(&format!("superseded by another sync (revision {changed})")), "{ended:?}");
    assert_eq!(ended[1].0, OperationPhase::Succeeded);
    served.end().await;
}

/// A condition of it says so.
fn says(now: &Application, words: &str) -> Option<()> {
    now.status.conditions.iter().any(|one| one.message.contains(words)).then_some(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_hook_ends_before() {
    let mut served = waiting(&manifests("2s", "1h"), None).await;
    served.until("web", |now, _| message(now).contains("Job/migrate").then_some(())).await;
    served.commit("web", &manifests("1ms", "1ms"));
    served.compare("web", Level::Forced).await;
    served.until("web", |now, _| says(now, "hook Job web/migrate is at work")).await;
    assert_eq!((served.operations().await.len(), deleted_jobs(&served)), (1, 0));
    let ended = over(&served, 2).await;
    assert_eq!((ended[0].0, ended[1].0), (OperationPhase::Failed, OperationPhase::Succeeded));
    assert_eq!(served.made("Job").len(), 3, "the first ran to its end, and two of the second operation");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finish_goes_on_to_the_end() {
    let mut served = waiting(&manifests("1ms", "2s"), Some("finish")).await;
    served.commit("web", &manifests("1ms", "1ms"));
    served.compare("web", Level::Forced).await;
    served.until("web", |now, _| says(now, "on-new-revision says finish")).await;
    let ended = over(&served, 2).await;
    assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
    served.end().await;
}

/// What somebody asks for with this policy.
fn wish(policy: &str) -> OperationRequest {
    let info = json!([{"name": POLICY_REMARK, "value": policy}]);
    let asked = json!({"sync": {}, "initiatedBy": {"username": "ann"}, "info": info});
    serde_json::from_value(asked).unwrap()
}

/// Somebody asks for a sync with this policy.
async fn ask(served: &Served, policy: &str) -> Result<(), String> {
    let asked = Box::new(wish(policy));
    let (reply, answer) = oneshot::channel();
    served.send(SupervisorMessage::Sync { key: key("web"), asked, plan: None, reply: reply.into() });
    tokio::time::timeout(LIMIT, answer).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_asks_for_waits_or_takes_the_place_also_after_a_kill() {
    for (policy, first) in [("queue", OperationPhase::Succeeded), ("supersede", OperationPhase::Failed)] {
        let mut served =
            Served::new(&[("web", &manifests("2s", if policy == "queue" { "1ms" } else { "1h" }))]).await;
        served.sync("web").await;
        served.until("web", |now, _| message(now).contains("Job/migrate").then_some(())).await;
        let refused = ask(&served, "refuse").await.unwrap_err();
        assert!(refused.contains("another operation is already in progress"), "{refused}");
        served.commit("web", &manifests("1ms", "1ms"));
        assert_eq!(ask(&served, policy).await, Ok(()));
        if policy == "queue" {
            let second = ask(&served, policy).await.unwrap_err();
            assert!(second.contains("another sync of ann waits"), "{second}");
        }
        served.restart().await;
        let ended = over(&served, 2).await;
        assert_eq!((ended[0].0, ended[1].0), (first, OperationPhase::Succeeded), "{policy}: {ended:#?}");
        served.end().await;
    }
}

/// The first operation has ended for another one, and nobody was there to see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_end_of_one_and_the_begin_of_the_other_loses_neither() {
    for is_asked in [false, true] {
        let mut served = waiting(&manifests("1ms", "1h"), None).await;
        served.until("web", |now, _| message(now).contains("Deployment/web").then_some(())).await;
        served.leave().await;
        let commit = served.commit("web", &manifests("1ms", "1ms"));
        let mut kept = served.kept("web");
        if is_asked {
            let now = tidegate_model::Timestamp::from_millis(0);
            receive(&mut kept, wish("supersede"), (IfTaken::Supersede, false), now).unwrap();
            served.set_kept(&kept);
        }
        let first = served.operations().await[0].operation;
        let by = ClaimHolder { revision: commit.clone(), ..ClaimHolder::default() };
        served.engine.supersede(first, by, SafePoint::Waiting).await.unwrap();
        assert_eq!(served.engine.wait(first).await.unwrap().phase, OperationPhase::Failed);
        served.restart().await;
        let ended = over(&served, 2).await;
        assert_eq!((ended[0].0, ended[1].0), (OperationPhase::Failed, OperationPhase::Succeeded));
        let told = served.until("web", |now, _| ended_with(now)).await;
        let sync = told.operation.sync.as_ref().unwrap();
        assert_eq!(sync.revision, commit);
        assert_eq!(told.operation.initiated_by.username, if is_asked { "ann" } else { "" });
        assert_eq!(told.operation.remark(SUPERSEDES_REMARK), Some(first.to_string().as_str()));
        // Nothing is begun once more.
        served.restart().await;
        served.compare("web", Level::Forced).await;
        assert_eq!((over(&served, 2).await.len(), served.made("Job").len()), (2, 3));
        served.end().await;
    }
}

fn ended_with(now: &Application) -> Option<tidegate_model::argo::OperationState> {
    let state = now.status.operation_state.as_ref()?;
    let has_succeeded = now.operation.is_none() && state.phase == OperationPhase::Succeeded;
    has_succeeded.then(|| state.clone())
}

fn refusal(now: &Application) -> Option<String> {
    let found = now.status.conditions.iter().find(|one| one.kind.to_string() == NOT_TAKEN);
    found.map(|one| one.message.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_written_into_the_resource_meanwhile_is_taken_or_said_to_be_refused() {
    let mut served = Served::new(&[("web", &manifests("3s", "1ms"))]).await;
    served.sync("web").await;
    served.until("web", |now, _| message(now).contains("Job/migrate").then_some(())).await;
    let first = served.operations().await[0].operation;
    let mut theirs = served.kept("web");
    theirs.operation = Some(wish("refuse"));
    served.write(&theirs);
    let why = served.until("web", |now, _| refusal(now)).await;
    assert!(why.contains("already in progress") && why.contains(POLICY_REMARK), "{why}");
    // A patch keeps what it does not name: who began the one under way, and which that is.
    let mut patched = theirs.clone();
    patched.operation = served.kept("web").operation;
    let operation = patched.operation.as_mut().unwrap();
    operation.initiated_by.automated = true;
    operation.set_remark(POLICY_REMARK, "queue");
    served.write(&patched);
    served.until("web", |now, _| refusal(now).is_none().then_some(())).await;
    let ended = over(&served, 2).await;
    assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
    let told = served.until("web", |now, _| {
        ended_with(now).filter(|told| tidegate_application::operation::id(&told.operation) != Some(first))
    });
    assert!(!told.await.operation.initiated_by.automated);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_while_nobody_served_follows_what_is_under_way() {
    for knows_status in [true, false] {
        let mut served = Served::new(&[("web", &manifests("3s", "1ms"))]).await;
        served.sync("web").await;
        served.until("web", |now, _| message(now).contains("Job/migrate").then_some(())).await;
        served.end().await;
        let mut kept = served.kept("web");
        kept.operation = Some(wish("queue"));
        if !knows_status {
            kept.status = Default::default();
        }
        served.set_kept(&kept);
        served.restart().await;
        let ended = over(&served, 2).await;
        assert!(ended.iter().all(|(phase, _)| *phase == OperationPhase::Succeeded), "{ended:#?}");
        assert_eq!(served.made("Job").len(), 4, "each operation ran its two hooks once");
        served.end().await;
    }
}
