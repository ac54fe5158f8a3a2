//! Server restarts, and canceled calls.

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tidegate_cluster::{ErrorKind, Scope};
use tidegate_testkit::kube::Options;
use tokio::time::Instant;

use super::*;

pub async fn one_connection_survives_a_killed_server() {
    let control =
        ControlPlane::start(Options { has_controllers: false, has_nodes: false, ..Options::default() })
            .unwrap();
    let (cluster, namespace) =
        (cluster(&control, User::ENGINE).await, control.create_namespace("killed").await.unwrap());
    let scope = Scope::complete_objects(config_maps());
    let listing = cluster.list(&scope).await.unwrap();
    let mut changes = cluster.watch(&scope, &listing.resource_version).await.unwrap();
    let writes = (0..200).map(|number| {
        let (cluster, map) = (cluster.clone(), config_map(&namespace, &format!("c{number}"), json!({})));
        tokio::spawn(async move { write(&cluster, &map, APPLY).await })
    });
    let writes: Vec<_> = writes.collect();
    // Wait until some of the writes have been executed.
    tokio::time::timeout(TIMEOUT, changes.next()).await.unwrap().unwrap().unwrap();
    control.kill_api_server();
    let answers = join_all(writes).await.into_iter().map(Result::unwrap);
    let failed: Vec<ClusterError> = answers.filter_map(Result::err).collect();
    assert!(!failed.is_empty());
    for error in &failed {
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        assert!(error.message.contains(control.url()), "{error}");
    }
    let ended = async { while changes.next().await.is_some_and(|change| change.is_ok()) {} };
    tokio::time::timeout(TIMEOUT, ended).await.unwrap();
    let down = cluster.get(&config_maps(), &namespace, "c1").await.unwrap_err();
    assert_eq!(down.kind, ErrorKind::Unavailable);
    assert!(down.message.starts_with("cannot reach the server at "), "{down}");

    control.restart_api_server().unwrap();
    let again = (0..200).map(|number| config_map(&namespace, &format!("c{number}"), json!({})));
    let again = again.map(|map| {
        let cluster = cluster.clone();
        async move { write(&cluster, &map, APPLY).await }
    });
    assert!(join_all(again).await.into_iter().all(|answer| answer.is_ok()));
}

pub async fn a_stalled_store_costs_the_time_limit() {
    let control =
        ControlPlane::start(Options { has_controllers: false, has_nodes: false, ..Options::default() })
            .unwrap();
    let namespace = control.create_namespace("still").await.unwrap();
    let limit = Duration::from_secs(2);
    let options = ConnectOptions { call_timeout: limit, ..options(&control, User::ENGINE) };
    let cluster = connect(&options).await.unwrap();
    let map = config_map(&namespace, "a", json!({}));
    write(&cluster, &map, APPLY).await.unwrap();
    control.pause_etcd().unwrap();
    let started = Instant::now();
    let error = write(&cluster, &map, APPLY).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
    assert!(error.message.contains("within 2s; the request may have taken effect"), "{error}");
    assert!(started.elapsed() >= limit && started.elapsed() < limit * 3);
    control.resume_etcd().unwrap();
    let well = async { while write(&cluster, &map, APPLY).await.is_err() {} };
    tokio::time::timeout(TIMEOUT, well).await.unwrap();
}

pub async fn dropped_calls_leave_nothing_behind() {
    let control = ControlPlane::shared();
    let (cluster, namespace) =
        (cluster(control, User::ENGINE).await, control.create_namespace("dropped").await.unwrap());
    cluster.discover().await.unwrap();
    for round in 0..40_u64 {
        let calls = (0..50).map(|number| {
            let (cluster, map) =
                (cluster.clone(), config_map(&namespace, &format!("c{number}"), json!({"r": "1"})));
            async move { write(&cluster, &map, APPLY).await }
        });
        let _ = tokio::time::timeout(Duration::from_micros(300 * round), join_all(calls)).await;
    }
    let scope = Scope::complete_objects(Gvk::new("", "v1", "Namespace"));
    let all = join_all((0..100).map(|_| cluster.list(&scope)));
    let answers = tokio::time::timeout(TIMEOUT, all).await.unwrap();
    assert!(answers.iter().all(Result::is_ok));
}
