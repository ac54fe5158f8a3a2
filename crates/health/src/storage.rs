//! PersistentVolumeClaim.

use tidegate_model::{Health, HealthStatus, Object};

use crate::fields::Node;
use crate::verdict::{Verdict, degraded, healthy, progressing, require_version, unknown};

pub(crate) fn volume_claim(object: &Object) -> Verdict {
    require_version(object, &["v1"], "v1")?;
    let node = Node::for_object(object);
    let volume = match node.text("spec.volumeName")? {
        "" => String::new(),
        name => format!(" {name}"),
    };
    match node.text("status.phase")? {
        "Bound" => healthy(format!("Bound to volume{volume}")),
        "Pending" => progressing("Waiting for a volume"),
        "Lost" => degraded(format!("Volume{volume} is lost")),
        "" => unknown("Claim has no phase"),
        other => unknown(format!("Unrecognized claim phase {other:?}")),
    }
}

/// Annotation with the scheduler's node for a claim that is bound only when its first consumer starts.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Returns the storage class of a claim without a volume or a selected node. If the class binds volumes only
/// for a consumer, nothing happens to the claim until a Pod uses it.
pub fn unbound_class(claim: &Object) -> Option<&str> {
    let is_unbound = (claim.group(), claim.kind()) == ("", "PersistentVolumeClaim")
        && claim.text("/status/phase") == "Pending"
        && claim.text("/spec/volumeName").is_empty()
        && claim.annotation(SELECTED_NODE).is_none();
    Some(claim.text("/spec/storageClassName")).filter(|class| is_unbound && !class.is_empty())
}

/// Returns true if a storage class creates volumes only for claims in use by a Pod.
pub fn binds_with_consumer(class: &Object) -> bool {
    class.text("/volumeBindingMode") == "WaitForFirstConsumer"
}

/// Returns the health of a claim that waits for its first consumer. It counts as Healthy, since a wave could
/// otherwise wait for a Pod in a later wave.
pub fn waits_for_consumer() -> Health {
    Health::new(HealthStatus::Healthy, "Waiting for a Pod to use the claim")
}
