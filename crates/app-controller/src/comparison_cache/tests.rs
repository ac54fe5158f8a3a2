//! Comparing again without changes doesn't send any requests, and changes are still detected. The test
//! cluster counts the requests.

use serde_json::{Value, json};
use tidegate_application::refresh::RefreshLevel;
use tidegate_cluster::{Cluster as _, DeleteRequest, Propagation, Verb};
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{Gvk, Object};

use crate::testing::{TestEnvironment, gadget_definition};

/// Maximum number of comparisons that send requests before the cache must take effect.
const ATTEMPTS_MAX: usize = 200;
const COMPARISONS: usize = 20;

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web"},
        "data": {"value": value}})
}

fn manifests(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

fn sync_status(application: &Application) -> Option<SyncStatusCode> {
    application.status.sync.as_ref().map(|sync| sync.status)
}

/// Changes an object, acting as another client.
async fn edit(environment: &TestEnvironment, name: &str, value: &str) {
    let found = environment.sim.get(&Gvk::new("", "v1", "ConfigMap"), "web", name).await.unwrap().unwrap();
    let mut changed = found.as_value().clone();
    changed["data"]["value"] = value.into();
    environment.sim.put(Object::try_from(changed).unwrap(), None).await.unwrap();
}

async fn compare_until(environment: &TestEnvironment, name: &str, expected: SyncStatusCode) {
    let is_it = |one: &Application| sync_status(one) == Some(expected) && one.operation.is_none();
    environment.wait_until(name, |one, _| is_it(one).then_some(())).await;
}

/// Compares until a comparison doesn't send any requests.
async fn compare_until_cached(environment: &TestEnvironment, name: &str) {
    for _ in 0..ATTEMPTS_MAX {
        let before = environment.calls().len();
        environment.compare(name, RefreshLevel::Latest).await;
        if environment.calls().len() == before {
            return;
        }
    }
    panic!("every comparison sends requests: {:?}", &environment.calls()[environment.calls().len() - 20..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unchanged_comparison_sends_no_requests_and_writes_nothing() {
    let text = manifests(&[config_map("one", "1"), config_map("two", "1")]);
    let mut environment =
        TestEnvironment::new(&[("web", &text), ("shop", &manifests(&[config_map("three", "1")]))]).await;
    for name in ["web", "shop"] {
        environment.sync(name).await;
        compare_until(&environment, name, SyncStatusCode::Synced).await;
    }
    for name in ["web", "shop"] {
        compare_until_cached(&environment, name).await;
    }
    let before = (environment.calls(), environment.writes(), environment.sim.audit().len());
    for _ in 0..COMPARISONS {
        environment.compare("web", RefreshLevel::Latest).await;
        environment.compare("shop", RefreshLevel::Recent).await;
    }
    assert_eq!((environment.calls(), environment.writes(), environment.sim.audit().len()), before);
    // A hard refresh always reads the cluster.
    environment.compare("web", RefreshLevel::Hard).await;
    let calls = environment.calls().split_off(before.0.len());
    assert!(calls.contains(&Verb::ListLive) && calls.contains(&Verb::Discover), "{calls:?}");
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_is_detected() {
    let mut environment =
        TestEnvironment::new(&[("web", &manifests(&[config_map("one", "1"), config_map("two", "1")]))]).await;
    environment.sync("web").await;
    compare_until(&environment, "web", SyncStatusCode::Synced).await;
    compare_until_cached(&environment, "web").await;
    // Change, restore, delete and recreate an object.
    edit(&environment, "one", "2").await;
    compare_until(&environment, "web", SyncStatusCode::OutOfSync).await;
    edit(&environment, "one", "1").await;
    compare_until(&environment, "web", SyncStatusCode::Synced).await;
    compare_until_cached(&environment, "web").await;
    let delete = DeleteRequest {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        namespace: "web".to_owned(),
        name: "two".to_owned(),
        uid: String::new(),
        resource_version: String::new(),
        propagation: Propagation::Background,
        dry_run: false,
        operation: None,
    };
    environment.sim.delete(delete).await.unwrap();
    compare_until(&environment, "web", SyncStatusCode::OutOfSync).await;
    environment.sync("web").await;
    compare_until(&environment, "web", SyncStatusCode::Synced).await;
    compare_until_cached(&environment, "web").await;
    // Change the manifests.
    environment.commit("web", &manifests(&[config_map("one", "1"), config_map("two", "2")]));
    environment.compare("web", RefreshLevel::Forced).await;
    compare_until(&environment, "web", SyncStatusCode::OutOfSync).await;
    // Change the manifests back, so that the cluster is in sync with them.
    compare_until_cached(&environment, "web").await;
    environment.commit("web", &manifests(&[config_map("one", "1"), config_map("two", "1")]));
    environment.compare("web", RefreshLevel::Forced).await;
    compare_until(&environment, "web", SyncStatusCode::Synced).await;
    environment.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newly_installed_kind_is_detected() {
    let gadget = json!({"apiVersion": "tools.example/v1", "kind": "Gadget",
        "metadata": {"name": "one", "namespace": "web"}, "spec": {"size": 1}});
    let text = manifests(&[config_map("one", "1"), gadget]);
    let mut environment = TestEnvironment::new(&[("web", &text)]).await;
    // These comparisons fill the discovery cache before the kind is installed.
    for _ in 0..COMPARISONS {
        environment.compare("web", RefreshLevel::Latest).await;
    }
    environment.apply(gadget_definition()).await;
    while environment
        .sim
        .discover()
        .await
        .unwrap()
        .get(&Gvk::new("tools.example", "v1", "Gadget").group_kind())
        .is_none()
    {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    // The operation creates an object of this kind. Only a comparison that has discovered the kind finds the
    // object.
    environment.sync("web").await;
    compare_until(&environment, "web", SyncStatusCode::Synced).await;
    environment.shutdown().await;
}
