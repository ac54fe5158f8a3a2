//! Ordered deletions at work: what the store is asked, in which order, and what people are told meanwhile.

use std::collections::BTreeSet;
use std::path::PathBuf;

use async_trait::async_trait;
use serde_json::json;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_lifecycle::fleet::{Expression, MaxUpdate, Operator};
use tidegate_lifecycle::teardown::{End, MemberSpec, Options, Order, Request, Selection};
use tidegate_model::argo::ApplicationSet;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::applications::testing::{LIMIT, Served, application, manifests};
use crate::error::ServiceError;
use crate::sets::store::SetEvent;

/// A store that writes down what it is asked; what it deletes goes at once.
struct Witness {
    asked: Mutex<Vec<String>>,
    gone: Mutex<BTreeSet<String>>,
    remove: Box<dyn Fn(&AppKey) + Send + Sync>,
    write: Box<dyn Fn(&Application) + Send + Sync>,
}

impl Witness {
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

#[async_trait]
impl SetStore for Witness {
    fn base(&self) -> PathBuf {
        PathBuf::new()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn collects_garbage(&self) -> bool {
        false
    }

    fn watch(&self) -> UnboundedReceiver<SetEvent> {
        tokio::sync::mpsc::unbounded_channel().1
    }

    async fn keep(&self, _: &ApplicationSet) -> Result<(), ServiceError> {
        panic!("nobody asks for that")
    }

    async fn mark(&self, _: &ApplicationSet) -> Result<(), ServiceError> {
        panic!("nobody asks for that")
    }

    async fn annotate(&self, _: &ApplicationSet, _: &'static [&'static str]) -> Result<(), ServiceError> {
        panic!("nobody asks for that")
    }

    async fn is_going(&self, _: &ApplicationSet) -> Result<bool, ServiceError> {
        panic!("nobody asks for that")
    }

    async fn is_there(&self, _: &ApplicationSet) -> Result<bool, ServiceError> {
        panic!("nobody asks for that")
    }

    async fn delete(&self, _: &ApplicationSet, _: bool) -> Result<(), ServiceError> {
        panic!("nobody asks for that")
    }

    async fn forget(&self, _: &AppKey) -> Result<(), ServiceError> {
        panic!("nobody asks for that")
    }

    async fn create(&self, _: &Application) -> Result<Written, ServiceError> {
        panic!("nobody asks for that")
    }

    async fn update(&self, application: &Application) -> Result<Written, ServiceError> {
        let is_first = !self.asked.lock().unwrap().iter().any(|one| one.starts_with("update"));
        self.note(format!("update {} {:?}", application.metadata.name, application.metadata.finalizers));
        if is_first {
            return Ok(Written::Outdated("somebody was faster".to_owned()));
        }
        (self.write)(application);
        Ok(Written::Done)
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<store::Found, ServiceError> {
        self.note(format!("delete {} {uid}", key.name));
        self.gone.lock().unwrap().insert(key.name.clone());
        (self.remove)(key);
        Ok(store::Found::There)
    }

    async fn look(&self, key: &AppKey, uid: &str) -> Result<store::Found, ServiceError> {
        self.note(format!("look {} {uid}", key.name));
        let is_gone = self.gone.lock().unwrap().contains(&key.name);
        Ok(if is_gone { store::Found::Gone } else { store::Found::There })
    }
}

fn deletion(name: &str, keeps: Option<&[&str]>) -> Deletion {
    let orphaned = |finalizers: &[&str]| Orphaned {
        finalizers: finalizers.iter().map(|one| (*one).to_owned()).collect(),
        why: "its cluster is gone".to_owned(),
    };
    let mut application = application(name);
    application.metadata.finalizers = vec![RESOURCES_FINALIZER.to_owned(), "example.com/mine".to_owned()];
    Deletion { application, before: keeps.map(orphaned) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applications_go_in_their_order_and_what_is_to_stay_stays() {
    let [a, b] = ["a", "b"].map(|name| manifests(name, "1", "20ms"));
    let mut served = Served::new(&[("a", &a), ("b", &b)]).await;
    let deletions = [deletion("a", None), deletion("b", Some(&["example.com/mine"]))];
    for Deletion { application: app, .. } in &deletions {
        served.write(app);
        let name = &app.metadata.name;
        served.until(name, |now, _| (now.metadata == app.metadata).then_some(())).await;
    }
    let witness = Arc::new(Witness {
        asked: Mutex::default(),
        gone: Mutex::default(),
        remove: Box::new(served.remover()),
        write: Box::new(served.writer()),
    });
    let before = Deletions::default();
    before.set(&deletions, None);
    let store: Arc<dyn SetStore> = Arc::clone(&witness) as Arc<dyn SetStore>;
    let set = AppKey { namespace: "argocd".to_owned(), name: "fleet".to_owned() };
    let parts = TearingParts {
        shared: served.shared(),
        store,
        set,
        sets: SetBoard::default(),
        deletions: before,
        moved: Arc::new(|_| {}),
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
        kept: std::collections::BTreeMap::new(),
        approved: None,
    };
    let id = served.next_id().await;
    let input = Some(Input::Begin(Box::new(request)));
    let running = served.engine.run_machine(id, input, move || Tearing::new(parts.clone())).await.unwrap();
    tokio::time::timeout(LIMIT, running.over()).await.unwrap();
    let state = running.state().await.unwrap();
    assert_eq!(state.teardown().unwrap().outcome.as_ref().unwrap().end, End::Completed);
    let asked = witness.asked.lock().unwrap().clone();
    let expected = [
        "update b [\"example.com/mine\"]",
        "update b [\"example.com/mine\"]",
        "delete b uid-of-b",
        "look b uid-of-b",
        "delete a uid-of-a",
        "look a uid-of-a",
    ];
    assert_eq!(asked, expected);
    let entries =
        served.engine.machines::<tidegate_lifecycle::teardown::Fact>(Default::default()).await.unwrap();
    let sets: Vec<_> = entries.iter().map(|entry| entry.summary.set.as_deref()).collect();
    assert_eq!(sets, [Some("argocd/fleet")]);
    served.end().await;
}

#[test]
fn what_keeps_an_application_is_told() {
    let with = |rest: serde_json::Value| {
        let mut value = serde_json::to_value(deletion("web", None).application).unwrap();
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
                json!({"status": {"conditions": [{"type": "DeletionError", "message": "deleting it has failed: no"}]}}),
            ),
            "its deletion, which has failed: no",
        ),
    ] {
        assert_eq!(kept_by(&app), expected);
    }
    let mut free = application("web");
    free.metadata.finalizers = Vec::new();
    assert_eq!(kept_by(&free), "", "nobody knows");
}
