//! Applications that go while a sync of theirs is under way. The audit of the cluster says what was made and deleted.

use tidegate_cluster::sim::Verb;
use tidegate_executor::Summary;
use tidegate_model::OperationPhase;
use tidegate_model::argo::Application;

use crate::applications::testing::{LIMIT, Served, application, manifests};

/// A sync of the application, whose hook is at work.
async fn at_work(served: &Served) -> Summary {
    served.sync("web").await;
    let made = async {
        while served.made("Job").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, made).await.unwrap();
    served.operations().await.remove(0)
}

async fn ended(served: &Served, begun: &Summary) -> String {
    let over = tokio::time::timeout(LIMIT, served.engine.wait(begun.operation)).await.unwrap().unwrap();
    assert_eq!(over.phase, OperationPhase::Failed);
    over.message
}

fn deletions(served: &Served) -> usize {
    served.sim.audit().iter().filter(|entry| entry.verb == Verb::Delete).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_ends_with_its_hook_and_is_nothing_to_another_one_of_the_same_name() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "3s"))]).await;
    let begun = at_work(&served).await;
    served.remove("web");
    let mut again = application("web");
    again.metadata.uid = "another".to_owned();
    served.write(&again);
    let is_new =
        |app: &Application| (app.metadata.uid == "another").then(|| app.status.operation_state.clone());
    assert_eq!(served.until("web", |app, _| is_new(app)).await, None);
    assert_eq!(ended(&served, &begun).await, "Operation terminated");
    assert_eq!((served.made("ConfigMap"), deletions(&served)), (Vec::new(), 0), "its hook ran to its end");
    served.sync("web").await;
    let own = |app: &Application| {
        let last = app.status.operation_state.as_ref()?;
        (last.phase == OperationPhase::Succeeded).then_some(app.status.conditions.len())
    };
    assert_eq!(served.until("web", |app, _| own(app)).await, 0, "nothing is told of a lost status");
    let made = served.made("ConfigMap");
    assert!(made.len() == 1 && made != [begun.operation], "{made:?}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_goes_while_nobody_is_at_work_is_missed_at_the_next_start() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "3s")), ("other", "")]).await;
    let begun = at_work(&served).await;
    served.end().await;
    served.lose("web");
    served.restart().await;
    assert_eq!(ended(&served, &begun).await, "Operation terminated");
    assert_eq!((served.made("ConfigMap"), deletions(&served)), (Vec::new(), 0));
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_was_about_to_end_ends_after_a_restart_too_and_is_not_taken_for_the_next_ones() {
    let mut served = Served::new(&[("web", &manifests("web", "1", "3s"))]).await;
    let begun = at_work(&served).await;
    served.remove("web");
    let held = async {
        while served.engine.inspect(begun.operation).await.unwrap().0.paused_by.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, held).await.unwrap();
    served.end().await;
    let mut again = application("web");
    again.metadata.uid = "another".to_owned();
    served.set_kept(&again);
    served.restart().await;
    let state = |app: &Application| Some(app.status.operation_state.clone());
    assert_eq!(served.until("web", |app, _| state(app)).await, None);
    assert_eq!(ended(&served, &begun).await, "Operation terminated");
    assert_eq!((served.made("ConfigMap"), deletions(&served)), (Vec::new(), 0));
    served.end().await;
}
