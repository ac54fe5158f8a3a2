//! Wait reasons from Events about objects. Unused volume claims don't block a wave.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tidegate_cluster::sim::SimConfig;
use tidegate_cluster::{Cluster as _, ErrorKind};
use tidegate_executor::Engine;
use tidegate_model::{Gvk, Object, OperationId, OperationPhase};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    CallOutcome, FaultyCluster, Log, builder, config, external_write, submit, wait_for_end, wait_until,
    with_time_limit,
};

/// Returns a storage class, a volume claim of that class without a volume, and a ConfigMap in the next wave.
fn storage_manifests(mode: &str) -> String {
    format!(
        "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata:\n  name: lazy\n  annotations: \
         {{argocd.argoproj.io/sync-wave: \"-1\"}}\nprovisioner: csi.example.org\nvolumeBindingMode: {mode}\n---\n\
         apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n  annotations: \
         {{sim.tidegate.dev/outcome: never-ready}}\nspec:\n  storageClassName: lazy\n  accessModes: \
         [ReadWriteOnce]\n  resources: {{requests: {{storage: 1Gi}}}}\n---\n{}",
        config("next", 1, &[])
    )
}

/// Creates an Event about an object, like a controller.
async fn create_event(
    cluster: &FaultyCluster,
    gvk: &Gvk,
    name: &str,
    (kind, reason, message, at): (&str, &str, &str, &str),
) {
    let found = with_time_limit(async {
        loop {
            if let Some(found) = cluster.sim.get(gvk, "default", name).await.unwrap() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let event = json!({"apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": message,
        "metadata": {"name": format!("{name}.{}", reason.to_lowercase()), "namespace": "default"}, "lastTimestamp": at,
        "involvedObject": {"kind": gvk.kind, "name": name, "namespace": "default", "uid": found.await.uid()}});
    cluster.sim.apply(external_write(Object::try_from(event).unwrap())).await.unwrap();
}

fn claim_gvk() -> Gvk {
    Gvk::new("", "v1", "PersistentVolumeClaim")
}

async fn start_sync(cluster: &Arc<FaultyCluster>, mode: &str) -> (Engine, OperationId) {
    let engine = builder(cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&storage_manifests(mode))).await;
    (engine, id)
}

/// The situation of Argo CD's issue 12840.
#[tokio::test(start_paused = true)]
async fn a_claim_waiting_for_its_first_consumer_does_not_block_its_wave() {
    let cluster = FaultyCluster::reliable();
    let (engine, id) = start_sync(&cluster, "WaitForFirstConsumer").await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    assert_eq!(cluster.creations_of("next"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_volume_blocks_its_wave_and_names_the_reason() {
    let cluster = FaultyCluster::reliable();
    let (engine, id) = start_sync(&cluster, "Immediate").await;
    wait_until(&engine, id, |_, reason| reason.contains("Waiting for a volume")).await;
    let earlier = ("Warning", "ProvisioningFailed", "no space left", "2026-01-01T00:00:00Z");
    create_event(&cluster, &claim_gvk(), "data", earlier).await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("Waiting for a volume: ProvisioningFailed: no space left")
    })
    .await;
    // The newest warning counts. Events of other types are ignored.
    let later = ("Warning", "QuotaExceeded", "2Gi of 2Gi used", "2026-01-01T00:01:00Z");
    create_event(&cluster, &claim_gvk(), "data", later).await;
    create_event(
        &cluster,
        &claim_gvk(),
        "data",
        ("Normal", "Provisioning", "trying", "2026-01-01T00:02:00Z"),
    )
    .await;
    wait_until(&engine, id, |_, reason| {
        reason.contains("Waiting for a volume: QuotaExceeded: 2Gi of 2Gi used")
    })
    .await;
    assert_eq!(cluster.creations_of("next"), 0);
}

/// The user's role may not permit reading storage classes.
#[tokio::test(start_paused = true)]
async fn without_access_to_the_class_the_events_of_its_claim_are_read() {
    let cluster = FaultyCluster::new(SimConfig::default(), |verb, name| match (verb, name) {
        ("get", "lazy") => CallOutcome::Refuse(ErrorKind::Forbidden),
        _ => CallOutcome::Answer,
    });
    let (engine, id) = start_sync(&cluster, "WaitForFirstConsumer").await;
    wait_until(&engine, id, |_, reason| reason.contains("Waiting for a volume")).await;
    let event = ("Normal", "WaitForFirstConsumer", "waiting for first consumer", "2026-01-01T00:00:00Z");
    create_event(&cluster, &claim_gvk(), "data", event).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn without_access_to_events_the_wait_continues_after_one_refusal() {
    let call_count = Arc::new(AtomicUsize::new(0));
    let cluster = {
        let call_count = Arc::clone(&call_count);
        FaultyCluster::new(SimConfig::default(), move |verb, _| match verb {
            "events" => {
                call_count.fetch_add(1, Ordering::SeqCst);
                CallOutcome::Refuse(ErrorKind::Forbidden)
            }
            _ => CallOutcome::Answer,
        })
    };
    let (engine, id) = start_sync(&cluster, "Immediate").await;
    wait_until(&engine, id, |_, reason| reason.contains("Waiting for a volume")).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(call_count.load(Ordering::SeqCst), 1);
    wait_until(&engine, id, |_, reason| {
        reason.contains("Waiting for a volume") && !reason.contains("volume:")
    })
    .await;
}
