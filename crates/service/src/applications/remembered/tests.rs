//! A comparison of which nothing has changed costs nothing, and what changes is seen all the same. The cluster says what it
//! was asked.

use serde_json::{Value, json};
use tidegate_application::refresh::Level;
use tidegate_cluster::{Cluster as _, DeleteRequest, Propagation, Verb};
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{Gvk, Object};

use crate::applications::testing::Served;

/// So often a comparison may be real before it is known that nothing changes.
const TRIES: usize = 200;
const COMPARISONS: usize = 20;

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web"},
        "data": {"value": value}})
}

fn manifests(objects: &[Value]) -> String {
    objects.iter().map(|object| format!("---\n{object}\n")).collect()
}

fn code(application: &Application) -> Option<SyncStatusCode> {
    application.status.sync.as_ref().map(|sync| sync.status)
}

/// Somebody else changes an object, and nothing else of it.
async fn edit(served: &Served, name: &str, value: &str) {
    let found = served.sim.get(&Gvk::new("", "v1", "ConfigMap"), "web", name).await.unwrap().unwrap();
    let mut changed = found.as_value().clone();
    changed["data"]["value"] = value.into();
    served.sim.put(Object::try_from(changed).unwrap(), None).await.unwrap();
}

async fn until(served: &Served, name: &str, expected: SyncStatusCode) {
    let is_it = |one: &Application| code(one) == Some(expected) && one.operation.is_none();
    served.until(name, |one, _| is_it(one).then_some(())).await;
}

/// Compares until one costs nothing.
async fn settle(served: &Served, name: &str) {
    for _ in 0..TRIES {
        let before = served.calls().len();
        served.compare(name, Level::Latest).await;
        if served.calls().len() == before {
            return;
        }
    }
    panic!("each comparison asks: {:?}", &served.calls()[served.calls().len() - 20..]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_nothing_has_changed_it_costs_no_request_and_no_write() {
    let text = manifests(&[map("one", "1"), map("two", "1")]);
    let mut served = Served::new(&[("web", &text), ("shop", &manifests(&[map("three", "1")]))]).await;
    for name in ["web", "shop"] {
        served.sync(name).await;
        until(&served, name, SyncStatusCode::Synced).await;
    }
    for name in ["web", "shop"] {
        settle(&served, name).await;
    }
    let before = (served.calls(), served.writes(), served.sim.audit().len());
    for _ in 0..COMPARISONS {
        served.compare("web", Level::Latest).await;
        served.compare("shop", Level::Recent).await;
    }
    assert_eq!((served.calls(), served.writes(), served.sim.audit().len()), before);
    // Whoever asks for it gets another look.
    served.compare("web", Level::Hard).await;
    let asked = served.calls().split_off(before.0.len());
    assert!(asked.contains(&Verb::Live) && asked.contains(&Verb::Discover), "{asked:?}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_changes_is_seen() {
    let mut served = Served::new(&[("web", &manifests(&[map("one", "1"), map("two", "1")]))]).await;
    served.sync("web").await;
    until(&served, "web", SyncStatusCode::Synced).await;
    settle(&served, "web").await;
    // An object is changed, put back, deleted and made again.
    edit(&served, "one", "2").await;
    until(&served, "web", SyncStatusCode::OutOfSync).await;
    edit(&served, "one", "1").await;
    until(&served, "web", SyncStatusCode::Synced).await;
    settle(&served, "web").await;
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
    served.sim.delete(delete).await.unwrap();
    until(&served, "web", SyncStatusCode::OutOfSync).await;
    served.sync("web").await;
    until(&served, "web", SyncStatusCode::Synced).await;
    settle(&served, "web").await;
    // Other manifests.
    served.commit("web", &manifests(&[map("one", "1"), map("two", "2")]));
    served.compare("web", Level::Forced).await;
    until(&served, "web", SyncStatusCode::OutOfSync).await;
    // The same once more, and the manifests as the cluster has them.
    settle(&served, "web").await;
    served.commit("web", &manifests(&[map("one", "1"), map("two", "1")]));
    served.compare("web", Level::Forced).await;
    until(&served, "web", SyncStatusCode::Synced).await;
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_installed_meanwhile_is_known() {
    let gadget = json!({"apiVersion": "tools.example/v1", "kind": "Gadget",
        "metadata": {"name": "one", "namespace": "web"}, "spec": {"size": 1}});
    let text = manifests(&[map("one", "1"), gadget]);
    let mut served = Served::new(&[("web", &text)]).await;
    // What is served is known by now.
    for _ in 0..COMPARISONS {
        served.compare("web", Level::Latest).await;
    }
    served
        .apply(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.tools.example"},
            "spec": {
                "group": "tools.example", "scope": "Namespaced",
                "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        }))
        .await;
    while served
        .sim
        .discover()
        .await
        .unwrap()
        .get(&Gvk::new("tools.example", "v1", "Gadget").group_kind())
        .is_none()
    {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    // Its operation makes one, and only a comparison that knows the kind finds it.
    served.sync("web").await;
    until(&served, "web", SyncStatusCode::Synced).await;
    served.end().await;
}
