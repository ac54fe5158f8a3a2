//! Applies that take over fields, on a simulated cluster.

use serde_json::{Value, json};
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_health::HealthRules;
use tidegate_model::{
    Destination, LiveRef, OperationId, PackedObject, Phase, TaskOptions, Timestamp, annotations,
};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const ARGO_CD: &str = annotations::ARGO_CD_MANAGERS[0];

fn config_map(data: Value, application: &str) -> Object {
    let id = format!("{application}:/ConfigMap:default/a");
    Object::try_from(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "a", "namespace": "default", "annotations": {(annotations::TRACKING_ID): id}},
    }))
    .unwrap()
}

async fn apply_as(cluster: &SimCluster, manager: &str, object: Object) -> Object {
    let request = ApplyRequest::new(object, WriteMode::Apply { force: true });
    cluster.apply_as(manager, request).await.unwrap().object
}

/// Creates a task as in a plan made when the object was `live`.
fn task(live: &Object) -> Task {
    Task {
        action: Action::Apply,
        live: Some(LiveRef {
            uid: live.uid().to_owned(),
            resource_version: live.resource_version().to_owned(),
            generation: 0,
        }),
        options: TaskOptions { take_over: vec![ARGO_CD.to_owned()], ..TaskOptions::default() },
        ..Task::new(Phase::Sync, 0, live.gvk(), "default", "a")
    }
}

/// Executes the task and returns the object's data.
async fn sync(cluster: &SimCluster, task: &Task, is_repeated: bool) -> Value {
    let manifest = PackedObject::pack(config_map(json!({"kept": "1"}), "shop"));
    let request = SyncRequest::new("shop", "default", Destination::Simulated);
    let subject = Subject {
        operation: OperationId(uuid::Uuid::nil()),
        request: &request,
        attempt: 1,
        leftover: None,
        task,
        manifest: Some(&manifest),
        is_repeated,
        now: NOW,
        health: &HealthRules::built_in(),
    };
    let answer = apply(cluster, &subject).await;
    assert!(matches!(answer, Answer::Applied(Ok(_))), "{answer:?}");
    let found = cluster.get(&task.gvk, "default", "a").await.unwrap().unwrap();
    found.pointer("/data").unwrap().clone()
}

fn cluster() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), Clock::tokio(NOW))
}

#[tokio::test(start_paused = true)]
async fn fields_of_argo_cd_are_removed_and_those_of_others_stay() {
    let cluster = cluster();
    let live = apply_as(&cluster, ARGO_CD, config_map(json!({"kept": "1", "gone": "1"}), "shop")).await;
    apply_as(&cluster, "another", config_map(json!({"theirs": "1"}), "shop")).await;
    // A status controller has written to the object since the plan was made.
    assert_eq!(sync(&cluster, &task(&live), false).await, json!({"kept": "1", "theirs": "1"}));
    // After a crash, the same command is executed again.
    assert_eq!(sync(&cluster, &task(&live), true).await, json!({"kept": "1", "theirs": "1"}));
}

/// The process is killed between the two writes.
#[tokio::test(start_paused = true)]
async fn an_interrupted_takeover_is_completed() {
    let cluster = cluster();
    let both = json!({"kept": "1", "gone": "1"});
    let live = apply_as(&cluster, ARGO_CD, config_map(both.clone(), "shop")).await;
    let taking = ApplyRequest {
        take_over: vec![ARGO_CD.to_owned()],
        ..ApplyRequest::new(config_map(both.clone(), "shop"), WriteMode::Apply { force: true })
    };
    cluster.apply(taking).await.unwrap();
    let found = cluster.get(&live.gvk(), "default", "a").await.unwrap().unwrap();
    assert_eq!(found.pointer("/data"), Some(&both));
    assert_eq!(sync(&cluster, &task(&live), true).await, json!({"kept": "1"}));
}

/// The plan may be hours old. An object that now has another application's mark is applied, but none of its
/// fields are taken over.
#[tokio::test(start_paused = true)]
async fn no_fields_are_taken_over_from_an_object_with_another_owner() {
    let both = json!({"kept": "1", "gone": "1"});
    // Another application has marked the object in the meantime.
    let cluster = cluster();
    let live = apply_as(&cluster, ARGO_CD, config_map(both.clone(), "shop")).await;
    apply_as(&cluster, ARGO_CD, config_map(both.clone(), "other")).await;
    assert_eq!(sync(&cluster, &task(&live), false).await, both);
    // Another object now has the same name.
    let cluster = self::cluster();
    let mut live = apply_as(&cluster, ARGO_CD, config_map(both.clone(), "shop")).await;
    live.metadata_mut().insert("uid".to_owned(), "another".into());
    assert_eq!(sync(&cluster, &task(&live), false).await, both);
    // The fields belong to a manager that isn't in the plan.
    let cluster = self::cluster();
    let live = apply_as(&cluster, ARGO_CD, config_map(both.clone(), "shop")).await;
    let mut unnamed = task(&live);
    unnamed.options.take_over = vec![annotations::KUBECTL_MANAGER.to_owned()];
    assert_eq!(sync(&cluster, &unnamed, false).await, both);
}

/// The hint doesn't depend on the write mode: the server refuses unknown fields in all of them.
#[tokio::test(start_paused = true)]
async fn unknown_fields_are_refused_with_a_hint_in_every_write_mode() {
    let cluster = cluster();
    let mut stray = config_map(json!({"kept": "1"}), "shop");
    stray.fields_mut().insert("spec".to_owned(), json!({"replicaz": 1}));
    let task = task(&config_map(json!({}), "shop"));
    let request = SyncRequest::new("shop", "default", Destination::Simulated);
    let subject = Subject {
        operation: OperationId(uuid::Uuid::nil()),
        request: &request,
        attempt: 1,
        leftover: None,
        task: &task,
        manifest: None,
        is_repeated: false,
        now: NOW,
        health: &HealthRules::built_in(),
    };
    for mode in [
        WriteMode::ClientSideApply,
        WriteMode::Apply { force: true },
        WriteMode::Create { client_side: true },
    ] {
        let request = ApplyRequest::new(stray.clone(), mode);
        let answer = write_and_answer(&cluster, &subject, request).await;
        let Answer::Applied(Err(error)) = answer else { panic!("{mode:?}: {answer:?}") };
        let said = format!("{error:?}");
        assert!(said.contains("strict decoding error: unknown field"), "{mode:?}: {said}");
        assert!(said.contains("or ignore it by setting the sync option Validate=false"), "{mode:?}: {said}");
    }
}
