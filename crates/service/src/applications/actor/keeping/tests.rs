//! What others write over what was kept.

use std::time::Duration;

use tidegate_application::refresh::Level;
use tidegate_model::OperationPhase;
use tidegate_model::argo::Application;

use crate::applications::messages::SupervisorMessage;
use crate::applications::store::{AppKey, Ended, StoreEvent};
use crate::applications::testing::{LIMIT, Served, application, manifests};

fn overwritten(served: &Served, ended: Option<Ended>) {
    let key = AppKey::named("web");
    served.send(SupervisorMessage::Store(StoreEvent::Overwritten { key, ended }));
}

fn told(app: &Application) -> Option<String> {
    let found = app.status.conditions.iter().find(|one| one.kind.to_string() == super::OVERWRITTEN);
    found.map(|one| one.message.clone())
}

/// It is written again though nothing of it is new; where that goes on, people are told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_put_back_and_told_where_it_goes_on() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "1ms"))]).await;
    served.compare("web", Level::Latest).await;
    served.compare("web", Level::Latest).await;
    for _ in 0..super::FIGHT {
        assert_eq!(served.until("web", |now, _| Some(told(now))).await, None);
        let before = served.writes();
        overwritten(&served, None);
        let written = async {
            while served.writes() == before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LIMIT, written).await.unwrap();
    }
    let words = served.until("web", |now, _| told(now)).await;
    assert!(words.contains("again and again"), "{words}");
    served.end().await;
}

/// The phase of another operation ends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operation_that_is_meant_ends() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "2h"))]).await;
    served.sync("web").await;
    let id = |app: &Application| app.operation.as_ref().and_then(tidegate_application::operation::id);
    let begun = |app: &Application| {
        app.status.operation_state.as_ref().filter(|state| state.phase == OperationPhase::Running)?;
        id(app)
    };
    let operation = served.until("web", |now, _| begun(now)).await;
    let other = served.next_id().await;
    overwritten(&served, Some(Ended { operation: Some(other) }));
    served.compare("web", Level::Latest).await;
    assert_eq!(served.until("web", |now, _| Some(id(now))).await, Some(operation));
    overwritten(&served, Some(Ended { operation: Some(operation) }));
    let ended = |app: &Application| {
        let state = app.status.operation_state.as_ref()?;
        app.operation.is_none().then(|| (state.phase, state.message.clone()))
    };
    let (phase, message) = served.until("web", |now, _| ended(now)).await;
    assert_eq!(phase, OperationPhase::Failed, "{message}");
    assert!(message.contains("terminated"), "{message}");
    served.end().await;
}

/// A store that does not answer keeps nobody from ending an operation, nor that from being shown; and what is known is written
/// when it answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_can_be_ended_while_a_write_hangs() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "2h"))]).await;
    served.sync("web").await;
    let phase = |app: &Application| app.status.operation_state.as_ref().map(|state| state.phase);
    let is = |app: &Application, wanted| (phase(app) == Some(wanted)).then_some(());
    served.until("web", |now, _| is(now, OperationPhase::Running)).await;
    served.kept_with("web", |kept| is(&kept, OperationPhase::Running)).await;

    let (held, before) = (served.hold_writes().await, served.begun_writes());
    let mut labelled = application("web");
    labelled.metadata.labels.insert("tier".to_owned(), "front".to_owned());
    served.write(&labelled);
    let hangs = async {
        while served.begun_writes() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, hangs).await.unwrap();

    let serving = served.serving();
    let ending = serving.terminate("web", None, ("somebody".to_owned(), String::new()));
    tokio::time::timeout(LIMIT, ending).await.unwrap().unwrap();
    served.until("web", |now, _| is(now, OperationPhase::Failed)).await;
    assert_eq!(phase(&served.kept("web")), Some(OperationPhase::Running));
    drop(held);
    served.kept_with("web", |kept| is(&kept, OperationPhase::Failed)).await;
    served.end().await;
}
