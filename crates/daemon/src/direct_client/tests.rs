mod concurrent_writes;
mod operations;
mod waiting;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tidegate_application::supersede::POLICY_INFO;
use tidegate_cluster::{Call, Layer, PendingCall, Verb};
use tidegate_model::Cascade;
use tidegate_model::argo::{Application, OperationRequest};
use tidegate_state::error::ErrorCategory;
use tidegate_testkit::argo_cluster::{apply, cluster, cluster_without_kind};

use super::*;

fn application(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Application", "metadata": {"name": name, "namespace": namespace},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    })
}

fn open_client(cluster: &Arc<dyn Cluster>, namespaces: &[&str]) -> DirectClient {
    let namespaces = namespaces.iter().map(|one| (*one).to_owned()).collect();
    DirectClient::new(Arc::clone(cluster), Destination::Simulated, namespaces, "ann".to_owned())
}

async fn live_application(cluster: &Arc<dyn Cluster>) -> Value {
    let found = cluster.get(&managed_kind::<ApplicationKind>(), "argocd", "web").await.unwrap();
    found.unwrap().as_value().clone()
}

/// Writes to the resource as the service or another user would.
async fn update_application(cluster: &Arc<dyn Cluster>, change: impl FnOnce(&mut Value)) {
    let mut now = live_application(cluster).await;
    change(&mut now);
    cluster.put(Object::try_from(now).unwrap(), None).await.unwrap();
}

fn parse_operation(value: Value) -> OperationRequest {
    serde_json::from_value(value).unwrap()
}

fn refusal_message(answer: Result<(), ServiceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Refused, "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_name_matches_one_application_or_the_error_lists_the_candidates() {
    let cluster = cluster().await;
    for (namespace, name) in [("argocd", "web"), ("team", "web"), ("team", "shop"), ("argocd", "blog")] {
        apply(cluster.as_ref(), application(namespace, name)).await;
    }
    for (namespaces, name, expected) in [
        (&["argocd"][..], "web", Ok("argocd/web")),
        (&["argocd"], "team/shop", Ok("team/shop")),
        (&["team", "argocd"], "shop", Ok("team/shop")),
        (&[], "blog", Ok("argocd/blog")),
        // The Application in the control namespace is preferred.
        (&[], "web", Ok("argocd/web")),
        (&["argocd"], "shop", Err("application shop not found in namespace argocd; did you mean team/shop?")),
        (
            &["argocd"],
            "blgo",
            Err("application blgo not found in namespace argocd; did you mean argocd/blog?"),
        ),
        (
            &["argocd"],
            "else/blog-eu",
            Err("application blog-eu not found in namespace else; did you mean argocd/blog?"),
        ),
        (&[], "nothing", Err("application nothing not found in any namespace; `tidegate app list` lists")),
        (&["argocd"], "Not A Name", Err("application Not A Name not found in namespace argocd")),
    ] {
        let found = open_client(&cluster, namespaces).find_one(name).await;
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.full_name(), expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.category(), ErrorCategory::BadInput);
                assert!(error.to_string().contains(expected), "{error}");
            }
            (found, _) => panic!("{namespaces:?} {name}: {found:?}"),
        }
    }
    let all = open_client(&cluster, &[]).list_applications().await.unwrap();
    let names: Vec<String> = all.iter().map(Resource::full_name).collect();
    assert_eq!(names, ["argocd/blog", "argocd/web", "team/shop", "team/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_definitions_has_its_own_error() {
    let cluster = cluster_without_kind();
    let direct = open_client(&cluster, &["argocd"]);
    for error in [direct.list_applications().await.unwrap_err(), direct.find_one("web").await.unwrap_err()] {
        assert_eq!(error.category(), ErrorCategory::Refused);
        assert!(error.to_string().contains("does not serve Applications"), "{error}");
        assert!(error.to_string().contains("`tidegate crds`"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_service_would_refuse_is_refused_without_a_write() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    let sync = || parse_operation(json!({"sync": {"revision": "other"}}));
    let reason = refusal_message(direct.rollback(&known, None, false, "").await);
    assert!(reason.contains("no earlier sync"), "{reason}");
    update_application(&cluster, |app| app["spec"]["syncPolicy"] = json!({"automated": {}})).await;
    let before = live_application(&cluster).await;
    for (answer, text) in [
        (direct.sync(&known, sync()).await, "Cannot sync to other"),
        (direct.rollback(&known, Some(0), false, "").await, "auto-sync is enabled"),
        (direct.terminate(&known).await, "No operation is in progress"),
    ] {
        let reason = refusal_message(answer);
        assert!(reason.contains(text), "{reason}");
    }
    assert_eq!(live_application(&cluster).await, before);
    let skip = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    update_application(&cluster, |app| app["metadata"]["annotations"] = skip).await;
    let before = live_application(&cluster).await;
    for answer in [
        direct.sync(&known, sync()).await,
        direct.refresh(&known, false).await,
        direct.delete(&known, Cascade::Foreground.into(), "").await,
    ] {
        let reason = refusal_message(answer);
        assert!(reason.contains("is skipped"), "{reason}");
    }
    assert_eq!(live_application(&cluster).await, before);
    // An Application with a field of the wrong type isn't synced.
    update_application(&cluster, |app| {
        app["metadata"]["annotations"] = json!({});
        app["spec"]["project"] = json!(7);
    })
    .await;
    let reason = refusal_message(direct.sync(&known, sync()).await);
    assert!(reason.contains("cannot be synced: spec.project"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_recreated_application_is_a_different_one() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    direct.delete(&known, Cascade::Orphan.into(), "").await.unwrap();
    assert!(direct.find("web").await.unwrap().is_empty());
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let before = live_application(&cluster).await;
    for answer in [
        direct.sync(&known, parse_operation(json!({"sync": {}}))).await,
        direct.delete(&known, Cascade::Foreground.into(), "").await,
    ] {
        assert!(refusal_message(answer).contains("argocd/web no longer exists"));
    }
    assert_eq!(live_application(&cluster).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_records_its_policy_and_its_requester() {
    let cluster = cluster().await;
    let mut app = application("argocd", "web");
    app["metadata"]["finalizers"] = json!(["example.com/other"]);
    apply(cluster.as_ref(), app).await;
    let direct = open_client(&cluster, &["argocd"]);
    let known = direct.find_one("web").await.unwrap();
    direct.delete(&known, Cascade::Background.into(), "it is withdrawn").await.unwrap();
    let app = live_application(&cluster).await;
    let finalizers = json!(["example.com/other", "resources-finalizer.argocd.argoproj.io/background"]);
    assert_eq!(app["metadata"]["finalizers"], finalizers);
    assert!(app["metadata"]["deletionTimestamp"].is_string());
    let requester = app["metadata"]["annotations"]["tidegate.dev/deletion-requested-by"].as_str().unwrap();
    assert!(requester.contains("\"ann\"") && requester.contains("it is withdrawn"), "{requester}");
    // Once the deletion has been requested, its policy can't be changed.
    let known = direct.find_one("web").await.unwrap();
    direct.delete(&known, Cascade::Background.into(), "").await.unwrap();
    let reason = refusal_message(direct.delete(&known, Cascade::Orphan.into(), "").await);
    assert!(reason.contains("already being deleted with --cascade background"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_printed_unchanged_except_for_credentials() {
    let cluster = cluster().await;
    let mut app = application("argocd", "web");
    app["spec"]["source"]["repoURL"] = json!("https://me:hunter2@example.com/a.git");
    app["spec"]["colour"] = json!("green");
    app["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"repoURL\": \"https://me:hunter2@example.com/a.git\"}"});
    app["status"] = json!({"sync": {"status": "Odd"}, "history": [{"id": 1}]});
    apply(cluster.as_ref(), app).await;
    let one = open_client(&cluster, &["argocd"]).find_one("web").await.unwrap();
    let printed = serde_json::to_value(&one).unwrap();
    assert!(!printed.to_string().contains("hunter2"), "{printed}");
    assert!(printed["metadata"].get("managedFields").is_none());
    let mut expected = live_application(&cluster).await;
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    let shown = expected.to_string().replace("me:hunter2", "******");
    assert_eq!(printed, serde_json::from_str::<Value>(&shown).unwrap());
    let source = one.application.spec.source.as_ref().unwrap();
    assert_eq!(source.repo_url, "https://******@example.com/a.git");
    assert_eq!(one.history(), json!([{"id": 1}]), "also where the rest of the status cannot be read");
}
