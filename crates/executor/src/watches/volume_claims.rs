//! PersistentVolumeClaims with a storage class that creates a volume only on first use by a Pod. Until then,
//! the claim remains Pending, and the Pod may be in a later wave.

use tidegate_cluster::Cluster;
use tidegate_health::{
    HealthRules, binds_with_consumer, reports_wait_for_first_consumer, unbound_class, waits_for_consumer,
};
use tidegate_model::{Gvk, HealthStatus, Object, ObservedState};
use tokio::sync::Semaphore;

/// Treats a claim waiting for its first consumer as Healthy, unless the user has defined a rule. `permits`
/// limits concurrent calls to the cluster.
pub(super) async fn apply_storage_class(
    cluster: &dyn Cluster,
    permits: &Semaphore,
    rules: &HealthRules,
    object: &Object,
    observed: ObservedState,
) -> ObservedState {
    let Some(class) = unbound_class(object).filter(|_| is_progressing(&observed)) else { return observed };
    let gvk = Gvk::new("", "v1", "PersistentVolumeClaim");
    if rules.has_user_rule(&gvk) || !is_waiting_for_consumer(cluster, permits, object, class).await {
        return observed;
    }
    observed.with_health(waits_for_consumer(), false)
}

fn is_progressing(observed: &ObservedState) -> bool {
    matches!(observed, ObservedState::Present { health: Some(health), .. } if health.status == HealthStatus::Progressing)
}

/// Returns true if the storage class binds volumes on first use. Falls back to the claim's events if the
/// storage class is unreadable.
async fn is_waiting_for_consumer(
    cluster: &dyn Cluster,
    permits: &Semaphore,
    claim: &Object,
    class: &str,
) -> bool {
    let Ok(_permit) = permits.acquire().await else { return false };
    let storage_class = Gvk::new("storage.k8s.io", "v1", "StorageClass");
    match cluster.get(&storage_class, "", class).await {
        Ok(class) => class.is_some_and(|class| binds_with_consumer(&class)),
        Err(_) => {
            let events = cluster.events(claim).await;
            events.is_ok_and(|events| reports_wait_for_first_consumer(&events))
        }
    }
}
