//! Ordered deletions: requests to the store, their order, and the status during the deletion.

use std::collections::BTreeSet;
use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::json;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_lifecycle::fleet::{Expression, MaxUpdate, Operator};
use tidegate_lifecycle::teardown::{End, MemberSpec, Options, Order, Request, Selection};
use tidegate_model::argo::ApplicationSet;
use tidegate_state::error::ServiceError;
use tidegate_stores::appsets::AppSetEvent;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::applications::testing::{TEST_TIMEOUT, TestEnvironment, application, manifests};

/// Store that records its requests and deletes Applications immediately.
struct RecordingStore {
    requests: Mutex<Vec<String>>,
    deleted: Mutex<BTreeSet<String>>,
    on_delete: Box<dyn Fn(&AppKey) + Send + Sync>,
    on_write: Box<dyn Fn(&Application) + Send + Sync>,
}

impl RecordingStore {
    fn record(&self, what: String) {
        self.requests.lock().unwrap().push(what);
    }
}

#[async_trait]
impl AppSetStore for RecordingStore {
    fn base(&self) -> PathBuf {
        PathBuf::new()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn has_garbage_collector(&self) -> bool {
        false
    }

    fn watch(&self) -> UnboundedReceiver<AppSetEvent> {
        tokio::sync::mpsc::unbounded_channel().1
    }

    async fn write_status(&self, _: &ApplicationSet) -> Result<(), ServiceError> {
        panic!("not used by this test")
    }

    async fn write_finalizer(&self, _: &ApplicationSet) -> Result<(), ServiceError> {
        panic!("not used by this test")
    }

    async fn write_annotations(
        &self,
        _: &ApplicationSet,
        _: &'static [&'static str],
    ) -> Result<(), ServiceError> {
        panic!("not used by this test")
    }

    async fn is_being_deleted(&self, _: &ApplicationSet) -> Result<bool, ServiceError> {
        panic!("not used by this test")
    }

    async fn exists(&self, _: &ApplicationSet) -> Result<bool, ServiceError> {
        panic!("not used by this test")
    }

    async fn delete(&self, _: &ApplicationSet, _: bool) -> Result<(), ServiceError> {
        panic!("not used by this test")
    }

    async fn remove_state(&self, _: &AppKey) -> Result<(), ServiceError> {
        panic!("not used by this test")
    }

    async fn create(&self, _: &Application) -> Result<WriteResult, ServiceError> {
        panic!("not used by this test")
    }

    async fn update(&self, application: &Application) -> Result<WriteResult, ServiceError> {
        let is_first = !self.requests.lock().unwrap().iter().any(|one| one.starts_with("update"));
        self.record(format!("update {} {:?}", application.metadata.name, application.metadata.finalizers));
        if is_first {
            return Ok(WriteResult::Outdated("another client was faster".to_owned()));
        }
        (self.on_write)(application);
        Ok(WriteResult::Done)
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        self.record(format!("delete {} {uid}", key.name));
        self.deleted.lock().unwrap().insert(key.name.clone());
        (self.on_delete)(key);
        Ok(Existence::Exists)
    }

    async fn application_existence(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        self.record(format!("look {} {uid}", key.name));
        let is_gone = self.deleted.lock().unwrap().contains(&key.name);
        Ok(if is_gone { Existence::Gone } else { Existence::Exists })
    }
}

fn member_deletion(name: &str, keeps: Option<&[&str]>) -> MemberDeletion {
    let orphaned = |finalizers: &[&str]| Orphaning {
        finalizers: finalizers.iter().map(|one| (*one).to_owned()).collect(),
        reason: "its cluster is gone".to_owned(),
    };
    let mut application = application(name);
    application.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned(), "example.com/mine".to_owned()];
    MemberDeletion { application, orphaning: keeps.map(orphaned) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applications_are_deleted_in_order_and_orphaned_objects_stay() {
    let [a, b] = ["a", "b"].map(|name| manifests(name, "1", "20ms"));
    let mut environment = TestEnvironment::new(&[("a", &a), ("b", &b)]).await;
    let deletions = [member_deletion("a", None), member_deletion("b", Some(&["example.com/mine"]))];
    for MemberDeletion { application: app, .. } in &deletions {
        environment.write(app);
        let name = &app.metadata.name;
        environment.wait_until(name, |now, _| (now.metadata == app.metadata).then_some(())).await;
    }
    let witness = Arc::new(RecordingStore {
        requests: Mutex::default(),
        deleted: Mutex::default(),
        on_delete: Box::new(environment.remover()),
        on_write: Box::new(environment.writer()),
    });
    let before = RequiredUpdates::default();
    before.set(&deletions, None);
    let store: Arc<dyn AppSetStore> = Arc::clone(&witness) as Arc<dyn AppSetStore>;
    let set = AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() };
    let parts = TeardownContext {
        shared: environment.shared(),
        store,
        set,
        appset_cache: AppSetCache::default(),
        required_updates: before,
        on_change: Arc::new(|_| {}),
    };
    let step = |env: &str| Selection {
        expressions: vec![Expression {
            key: "env".to_owned(),
            operator: Operator::In,
            values: vec![env.to_owned()],
        }],
        max_update: MaxUpdate::All,
    };
    let member = |name: &str, env: &str| MemberSpec {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        labels: [("env".to_owned(), env.to_owned())].into(),
    };
    let request = Request {
        set: "argocd/fleet".to_owned(),
        uid: "u-fleet".to_owned(),
        by: "ann".to_owned(),
        order: Order::reverse(vec![step("dev"), step("prod")]),
        members: vec![member("a", "dev"), member("b", "prod")],
        options: Options::default(),
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    };
    let id = environment.next_id().await;
    let input = Some(Input::Begin(Box::new(request)));
    let running =
        environment.engine.run_machine(id, input, move || TeardownEffects::new(parts.clone())).await.unwrap();
    tokio::time::timeout(TEST_TIMEOUT, running.wait_until_over()).await.unwrap();
    let state = running.state().await.unwrap();
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    let requests = witness.requests.lock().unwrap().clone();
    let expected = [
        "update b [\"example.com/mine\"]",
        "update b [\"example.com/mine\"]",
        "delete b uid-of-b",
        "look b uid-of-b",
        "delete a uid-of-a",
        "look a uid-of-a",
    ];
    assert_eq!(requests, expected);
    let entries = environment
        .engine
        .list_machines::<tidegate_lifecycle::teardown::Event>(Default::default())
        .await
        .unwrap();
    let sets: Vec<_> = entries.iter().map(|entry| entry.summary.set.as_deref()).collect();
    assert_eq!(sets, [Some("argocd/fleet")]);
    environment.shutdown().await;
}

#[test]
fn what_blocks_the_deletion_of_an_application_is_reported() {
    let with = |rest: serde_json::Value| {
        let mut value = serde_json::to_value(member_deletion("web", None).application).unwrap();
        value.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        serde_json::from_value::<Application>(value).unwrap()
    };
    let state = |message: &str| {
        json!({"operationState": {"operation": {}, "phase": "Running", "message": message,
            "startedAt": "2026-01-01T00:00:00Z"}})
    };
    let deletes = json!({"sync": {}, "info": [{"name": "tidegate.dev/deletion", "value": "foreground"}]});
    for (app, expected) in [
        (with(json!({})), "its finalizers resources-finalizer.argocd.argoproj.io, example.com/mine"),
        (
            with(json!({"operation": deletes, "status": state("waiting for Job cleanup")})),
            "the deletion of its objects: waiting for Job cleanup",
        ),
        (with(json!({"operation": {"sync": {}}, "status": state("")})), "its operation"),
        (
            with(
                json!({"status": {"conditions": [{"type": "DeletionError", "message": "deletion failed: no"}]}}),
            ),
            "the next attempt to delete it; the previous attempt failed: no",
        ),
    ] {
        assert_eq!(describe_blocker(&app), expected);
    }
    let mut free = application("web");
    free.metadata.finalizers = Vec::new();
    assert_eq!(describe_blocker(&free), "", "no blocker is known");
}
