//! Tests of writes as another user, with reads under Tidegate's own identity.

use tidegate_cluster::{Cluster, DeleteRequest, Detail, FinalizerRemoval, Right, Scope};

use super::*;

const DEPLOYER: &str = "system:serviceaccount:shop:deployer";

/// Serves one object, and denies all permissions.
fn reply_without_rights(request: &ReceivedRequest) -> Option<Reply> {
    if request.path.starts_with("/apis/authorization.k8s.io/") {
        return Some(Reply::Json(201, json!({"status": {"allowed": false}})));
    }
    let mut object = live_config_map("a");
    object["metadata"]["finalizers"] = json!(["f"]);
    let (_, rest) = request.path.split_once("/configmaps")?;
    Some(match (request.method.as_str(), rest.contains("watch=true")) {
        ("GET", true) => Reply::Pieces(Vec::new(), End::Complete),
        ("GET", false) if rest.starts_with('?') => {
            Reply::Json(200, json!({"metadata": {"resourceVersion": "7"}, "items": [object]}))
        }
        ("POST", _) => Reply::Json(201, object),
        _ => Reply::Json(200, object),
    })
}

async fn write_all(cluster: &dyn Cluster) {
    for mode in [
        WriteMode::Apply { force: true },
        WriteMode::ClientSideApply,
        WriteMode::Create { client_side: false },
        WriteMode::Replace { recreate: false },
    ] {
        cluster.apply(apply_request(config_map_manifest("a"), mode)).await.unwrap();
    }
    let found = Object::try_from(live_config_map("a")).unwrap();
    cluster.put(found.clone(), None).await.unwrap();
    cluster.put_status(found.clone(), None).await.unwrap();
    cluster.delete(DeleteRequest::for_object(&found)).await.unwrap();
    let removal = FinalizerRemoval { uid: String::new(), ..FinalizerRemoval::for_object(&found, "f") };
    cluster.remove_finalizer(removal).await.unwrap();
}

async fn read_all(cluster: &dyn Cluster) {
    let scope = Scope { gvk: config_map_gvk(), namespace: Some("shop".to_owned()), detail: Detail::Full };
    cluster.get(&config_map_gvk(), "shop", "a").await.unwrap();
    cluster.list(&scope).await.unwrap();
    drop(cluster.watch(&scope, "7").await.unwrap());
}

#[tokio::test]
async fn only_writes_impersonate_the_user() {
    let (cluster, log) = scripted_cluster(reply_without_rights);
    let robot = cluster.as_user(DEPLOYER).unwrap();
    read_all(robot.as_ref()).await;
    write_all(robot.as_ref()).await;
    let requests = std::mem::take(&mut *log.lock().unwrap());
    let (reads, writes): (Vec<ReceivedRequest>, Vec<ReceivedRequest>) =
        requests.into_iter().partition(|one| one.method == "GET");
    assert!(reads.iter().all(|one| one.user.is_empty()), "{reads:?}");
    assert!(writes.iter().all(|one| one.user == DEPLOYER), "{writes:?}");
    let methods: std::collections::BTreeSet<&str> = writes.iter().map(|one| one.method.as_str()).collect();
    assert_eq!(methods.into_iter().collect::<Vec<_>>(), ["DELETE", "PATCH", "POST", "PUT"]);
    assert!(reads.iter().filter(|one| one.path.contains("/configmaps")).count() >= 3);
    // The original cluster still uses its own identity.
    write_all(&cluster).await;
    assert!(log.lock().unwrap().iter().all(|one| one.user.is_empty()));
}

#[tokio::test]
async fn rights_for_writes_are_reviewed_for_the_impersonated_user() {
    let (cluster, log) = scripted_cluster(reply_without_rights);
    let robot = cluster.as_user(DEPLOYER).unwrap();
    let right = |verb| Right { verb, gvk: config_map_gvk(), namespace: String::new(), name: String::new() };
    let missing = robot.missing_rights(&["get", "create", "watch"].map(right).into()).await.unwrap();
    assert_eq!(missing.len(), 3);
    let mut requests: Vec<(String, String)> = Vec::new();
    for one in log.lock().unwrap().iter().filter(|one| one.method == "POST") {
        let body: Value = serde_json::from_slice(&one.body).unwrap();
        let verb = body["spec"]["resourceAttributes"]["verb"].as_str().unwrap().to_owned();
        requests.push((verb, one.user.clone()));
    }
    requests.sort();
    let expected = [("create", DEPLOYER), ("get", ""), ("watch", "")];
    assert_eq!(requests, expected.map(|(verb, user)| (verb.to_owned(), user.to_owned())));
}

#[tokio::test]
async fn an_invalid_user_name_is_refused() {
    let (cluster, log) = scripted_cluster(reply_without_rights);
    let robot = cluster.as_user("deployer\r\nx: y").unwrap();
    let error = robot
        .apply(apply_request(config_map_manifest("a"), WriteMode::Apply { force: true }))
        .await
        .unwrap_err();
    assert_eq!(error.kind, tidegate_cluster::ErrorKind::Invalid, "{error}");
    assert!(log.lock().unwrap().iter().all(|one| one.method == "GET"));
}
