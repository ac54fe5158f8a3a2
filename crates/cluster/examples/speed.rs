//! Write throughput of the simulated cluster: `cargo run --release -p tidegate-cluster --example speed`.
#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]
#![allow(clippy::print_stdout, reason = "the measurement is the output")]

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig, SimState};
use tidegate_cluster::{ApplyRequest, Cluster, WriteMode};
use tidegate_model::{Object, Timestamp};
use tokio::time::Instant;

const WRITES: usize = 200_000;

fn apply_request(number: usize, objects: usize) -> ApplyRequest {
    let object = Object::try_from(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("settings-{}", number % objects), "namespace": "default",
            "annotations": {"argocd.argoproj.io/tracking-id": format!("shop:/ConfigMap:default/settings-{}", number % objects)},
        },
        "data": {"version": (number / objects).to_string(), "url": "https://shop.example.com"},
    }));
    ApplyRequest::new(object.unwrap(), WriteMode::Apply { force: true })
}

async fn measure(name: &str, cluster: &SimCluster, objects: usize) {
    let requests: Vec<ApplyRequest> = (0..WRITES).map(|number| apply_request(number, objects)).collect();
    let started = Instant::now();
    for request in requests {
        cluster.apply(request).await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{name}: {:.0} applies/s", f64::from(u32::try_from(WRITES).unwrap()) / seconds);
}

const DEPLOYMENTS: u32 = 2000;

/// Applies Deployments of three pods each and waits until they are all ready.
fn measure_deployments() {
    let mut now = Timestamp::from_millis(1_795_253_400_000);
    let mut state = SimState::new(SimConfig::default(), now);
    let started = Instant::now();
    for number in 0..DEPLOYMENTS {
        let name = format!("api-{number}");
        let object = Object::try_from(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "api:1"}]},
                },
            },
        }));
        let request = ApplyRequest::new(object.unwrap(), WriteMode::Apply { force: true });
        state.apply(now, request).unwrap();
    }
    now = now + Duration::from_secs(10);
    state.advance(now);
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "deployments until ready: {:.0}/s, {} changes",
        f64::from(DEPLOYMENTS) / seconds,
        state.revision()
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let clock = || Clock::tokio(Timestamp::from_millis(1_795_253_400_000));
    measure("in memory, creations", &SimCluster::in_memory(SimConfig::without_delays(), clock()), WRITES)
        .await;
    measure("in memory, 1,000 objects", &SimCluster::in_memory(SimConfig::without_delays(), clock()), 1000)
        .await;
    measure_deployments();
    let dir = std::env::temp_dir().join(format!("tidegate-speed-{}", std::process::id()));
    let kept = SimCluster::open(&dir, SimConfig::without_delays(), clock()).unwrap();
    measure("on disk, 1,000 objects", &kept, 1000).await;
    let started = Instant::now();
    drop(SimCluster::open(&dir, SimConfig::without_delays(), clock()).unwrap());
    println!("reopening the cluster: {:.1} ms", started.elapsed().as_secs_f64() * 1000.0);
    std::fs::remove_dir_all(&dir).unwrap();
}
