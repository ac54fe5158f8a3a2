//! The simulated cluster behind the `Cluster` trait, with paused time.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{Cluster, Propagation, Scope, WatchEvent};
use tidegate_model::HealthStatus;
use tokio::time::Instant;

use super::{SSA, START, config_map, delete_request, gvk, ms, request, workload};

fn cluster(config: SimConfig) -> SimCluster {
    SimCluster::in_memory(config, Clock::tokio(START))
}

#[tokio::test(start_paused = true)]
async fn a_watch_sleeps_until_controllers_are_done() {
    let cluster = cluster(SimConfig::default());
    let mut pods = cluster.watch(&Scope::complete_objects(gvk("Deployment")), "").await.unwrap();
    let started = Instant::now();
    cluster
        .apply(request(&workload("Deployment", "api", "api:1", json!({"ready-after": "30s"})), SSA))
        .await
        .unwrap();
    loop {
        match pods.next().await.unwrap().unwrap() {
            WatchEvent::Applied(object)
                if tidegate_health::assess(&object).unwrap().unwrap().status == HealthStatus::Healthy =>
            {
                break;
            }
            _ => {}
        }
    }
    let took = started.elapsed();
    assert!(took >= ms(30_000) && took < ms(30_100), "{took:?}");
    let silence = tokio::time::timeout(Duration::from_secs(3600), pods.next()).await;
    assert!(silence.is_err(), "nothing more happens: {silence:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_wakes_a_sleeping_watch_immediately() {
    let cluster = cluster(SimConfig::default());
    let mut stream = cluster.watch(&Scope::complete_objects(gvk("ConfigMap")), "").await.unwrap();
    assert!(matches!(stream.next().await, Some(Ok(WatchEvent::Bookmark(_)))));
    let watcher = tokio::spawn(async move { stream.next().await });
    tokio::task::yield_now().await;
    let started = Instant::now();
    cluster.apply(request(&config_map("web", json!({})), SSA)).await.unwrap();
    assert!(
        matches!(watcher.await.unwrap(), Some(Ok(WatchEvent::Applied(object))) if object.name() == "web")
    );
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn calls_have_latency_and_can_be_dropped() {
    let cluster = cluster(SimConfig { latency: ms(100), ..SimConfig::default() });
    let started = Instant::now();
    cluster.apply(request(&config_map("web", json!({})), SSA)).await.unwrap();
    assert_eq!(started.elapsed(), ms(100));
    // A call dropped before half of the latency was never received. A call dropped later was executed, but
    // its response is lost.
    for (name, patience, done) in [("early", 49, false), ("late", 51, true)] {
        let call = cluster.apply(request(&config_map(name, json!({})), SSA));
        assert!(tokio::time::timeout(ms(patience), call).await.is_err());
        let found = cluster.get(&gvk("ConfigMap"), "default", name).await.unwrap();
        assert_eq!(found.is_some(), done, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_an_error() {
    let cluster = cluster(SimConfig { history: 2, ..SimConfig::default() });
    let mut stream = cluster.watch(&Scope::complete_objects(gvk("ConfigMap")), "1").await.unwrap();
    for number in 0..4 {
        cluster.apply(request(&config_map("web", json!({"n": number.to_string()})), SSA)).await.unwrap();
    }
    assert!(stream.next().await.unwrap().is_err());
    assert!(stream.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn many_watchers_see_the_same_events() {
    let cluster = cluster(SimConfig::default());
    let mut watchers = Vec::new();
    for _ in 0..20 {
        watchers.push(cluster.watch(&Scope::complete_objects(gvk("Pod")), "").await.unwrap());
    }
    cluster.apply(request(&workload("StatefulSet", "db", "db:1", json!({})), SSA)).await.unwrap();
    cluster.delete(delete_request("StatefulSet", "db", Propagation::Foreground)).await.unwrap();
    cluster.apply(request(&workload("Job", "m", "m:1", json!({})), SSA)).await.unwrap();
    let mut views = Vec::new();
    for watcher in watchers {
        let view = watcher.take_until(tokio::time::sleep(ms(60_000))).collect::<Vec<_>>().await;
        views.push(view);
    }
    assert!(views.iter().all(|view| view == &views[0] && view.len() > 3));
    assert_eq!(cluster.next_due(), None);
    assert!(
        cluster
            .watch(&Scope::complete_objects(gvk("Pod")), "")
            .await
            .unwrap()
            .next()
            .now_or_never()
            .is_some()
    );
}
