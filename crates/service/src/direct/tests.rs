mod operations;
mod rivals;
mod waiting;

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tidegate_application::superseding::POLICY_REMARK;
use tidegate_cluster::{Call, Layer, Verb};
use tidegate_model::Cascade;
use tidegate_model::argo::{Application, OperationRequest};

use super::*;
use crate::applications::store::kubernetes::testing::{apply, bare, cluster};
use crate::error::Kind;

fn application(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "Application", "metadata": {"name": name, "namespace": namespace},
        "spec": {"project": "default", "destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo"}},
    })
}

fn direct(cluster: &Arc<dyn Cluster>, namespaces: &[&str]) -> Direct {
    let namespaces = namespaces.iter().map(|one| (*one).to_owned()).collect();
    Direct::of(Arc::clone(cluster), Destination::Simulated, namespaces, "ann".to_owned())
}

async fn live(cluster: &Arc<dyn Cluster>) -> Value {
    let found = cluster.get(&kind::<Applications>(), "argocd", "web").await.unwrap();
    found.unwrap().as_value().clone()
}

/// Writes into the resource as its service or another person would.
async fn change(cluster: &Arc<dyn Cluster>, change: impl FnOnce(&mut Value)) {
    let mut now = live(cluster).await;
    change(&mut now);
    cluster.put(Object::try_from(now).unwrap(), None).await.unwrap();
}

fn asked(value: Value) -> OperationRequest {
    serde_json::from_value(value).unwrap()
}

fn refusal(answer: Result<(), ServiceError>) -> String {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), Kind::Refusal, "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_name_means_one_application_or_it_is_said_which_there_are() {
    let cluster = cluster().await;
    for (namespace, name) in [("argocd", "web"), ("team", "web"), ("team", "shop"), ("argocd", "blog")] {
        apply(cluster.as_ref(), application(namespace, name)).await;
    }
    for (namespaces, name, expected) in [
        (&["argocd"][..], "web", Ok("argocd/web")),
        (&["argocd"], "team/shop", Ok("team/shop")),
        (&["team", "argocd"], "shop", Ok("team/shop")),
        (&[], "blog", Ok("argocd/blog")),
        (&[], "web", Err("there are several applications web: argocd/web, team/web; write NAMESPACE/NAME")),
        (
            &["argocd"],
            "shop",
            Err("no application shop in namespace argocd; there is team/shop, write it so"),
        ),
        (&["argocd"], "blgo", Err("no application blgo in namespace argocd; did you mean argocd/blog?")),
        (
            &["argocd"],
            "else/blog-eu",
            Err("no application blog-eu in namespace else; did you mean argocd/blog?"),
        ),
        (&[], "nothing", Err("no application nothing in any namespace; `tidegate app list` shows")),
        (&["argocd"], "Not A Name", Err("no application Not A Name in namespace argocd")),
    ] {
        let found = direct(&cluster, namespaces).one(name).await;
        match (found, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.full_name(), expected),
            (Err(error), Err(expected)) => {
                assert_eq!(error.kind(), Kind::BadInput);
                assert!(error.to_string().contains(expected), "{error}");
            }
            (found, _) => panic!("{namespaces:?} {name}: {found:?}"),
        }
    }
    let all = direct(&cluster, &[]).all().await.unwrap();
    let names: Vec<String> = all.iter().map(Resource::full_name).collect();
    assert_eq!(names, ["argocd/blog", "argocd/web", "team/shop", "team/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_definitions_is_told_apart() {
    let cluster = bare();
    let direct = direct(&cluster, &["argocd"]);
    for error in [direct.all().await.unwrap_err(), direct.one("web").await.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Refusal);
        assert!(error.to_string().contains("serves no Applications"), "{error}");
        assert!(error.to_string().contains("`tidegate crds`"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_would_refuse_is_refused_and_nothing_is_written() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = direct(&cluster, &["argocd"]);
    let known = direct.one("web").await.unwrap();
    let sync = || asked(json!({"sync": {"revision": "other"}}));
    let why = refusal(direct.rollback(&known, None, false, "").await);
    assert!(why.contains("no sync before the last one"), "{why}");
    change(&cluster, |app| app["spec"]["syncPolicy"] = json!({"automated": {}})).await;
    let before = live(&cluster).await;
    for (answer, words) in [
        (direct.sync(&known, sync()).await, "Cannot sync to other"),
        (direct.rollback(&known, Some(0), false, "").await, "auto-sync is enabled"),
        (direct.terminate(&known).await, "No operation is in progress"),
    ] {
        let why = refusal(answer);
        assert!(why.contains(words), "{why}");
    }
    assert_eq!(live(&cluster).await, before);
    let skip = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    change(&cluster, |app| app["metadata"]["annotations"] = skip).await;
    let before = live(&cluster).await;
    for answer in [
        direct.sync(&known, sync()).await,
        direct.refresh(&known, false).await,
        direct.delete(&known, Cascade::Foreground, "").await,
    ] {
        let why = refusal(answer);
        assert!(why.contains("is left alone"), "{why}");
    }
    assert_eq!(live(&cluster).await, before);
    // A document with a field of the wrong type is not synced.
    change(&cluster, |app| {
        app["metadata"]["annotations"] = json!({});
        app["spec"]["project"] = json!(7);
    })
    .await;
    let why = refusal(direct.sync(&known, sync()).await);
    assert!(why.contains("cannot be synced: spec.project"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn an_application_that_was_made_anew_is_another_one() {
    let cluster = cluster().await;
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let direct = direct(&cluster, &["argocd"]);
    let known = direct.one("web").await.unwrap();
    direct.delete(&known, Cascade::Orphan, "").await.unwrap();
    assert!(direct.find("web").await.unwrap().is_empty());
    apply(cluster.as_ref(), application("argocd", "web")).await;
    let before = live(&cluster).await;
    for answer in [
        direct.sync(&known, asked(json!({"sync": {}}))).await,
        direct.delete(&known, Cascade::Foreground, "").await,
    ] {
        assert!(refusal(answer).contains("argocd/web is gone"));
    }
    assert_eq!(live(&cluster).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_says_what_goes_and_who_has_asked_for_it() {
    let cluster = cluster().await;
    let mut app = application("argocd", "web");
    app["metadata"]["finalizers"] = json!(["example.com/other"]);
    apply(cluster.as_ref(), app).await;
    let direct = direct(&cluster, &["argocd"]);
    let known = direct.one("web").await.unwrap();
    direct.delete(&known, Cascade::Background, "it is withdrawn").await.unwrap();
    let app = live(&cluster).await;
    let finalizers = json!(["example.com/other", "resources-finalizer.argocd.argoproj.io/background"]);
    assert_eq!(app["metadata"]["finalizers"], finalizers);
    assert!(app["metadata"]["deletionTimestamp"].is_string());
    let asker = app["metadata"]["annotations"]["tidegate.dev/deletion-requested-by"].as_str().unwrap();
    assert!(asker.contains("\"ann\"") && asker.contains("it is withdrawn"), "{asker}");
    // It goes that way; another one is no longer to be had.
    let known = direct.one("web").await.unwrap();
    direct.delete(&known, Cascade::Background, "").await.unwrap();
    let why = refusal(direct.delete(&known, Cascade::Orphan, "").await);
    assert!(why.contains("being deleted already, in the way of --cascade background"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_printed_as_it_is_but_for_credentials() {
    let cluster = cluster().await;
    let mut app = application("argocd", "web");
    app["spec"]["source"]["repoURL"] = json!("https://me:hunter2@example.com/a.git");
    app["spec"]["colour"] = json!("green");
    app["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": "{\"repoURL\": \"https://me:hunter2@example.com/a.git\"}"});
    app["status"] = json!({"sync": {"status": "Odd"}, "history": [{"id": 1}]});
    apply(cluster.as_ref(), app).await;
    let one = direct(&cluster, &["argocd"]).one("web").await.unwrap();
    let printed = serde_json::to_value(&one).unwrap();
    assert!(!printed.to_string().contains("hunter2"), "{printed}");
    assert!(printed["metadata"].get("managedFields").is_none());
    let mut expected = live(&cluster).await;
    expected["metadata"].as_object_mut().unwrap().remove("managedFields");
    let shown = expected.to_string().replace("me:hunter2", "******");
    assert_eq!(printed, serde_json::from_str::<Value>(&shown).unwrap());
    let source = one.application.spec.source.as_ref().unwrap();
    assert_eq!(source.repo_url, "https://******@example.com/a.git");
    assert_eq!(one.history(), json!([{"id": 1}]), "also where the rest of the status cannot be read");
}
