//! Rollout progress of Deployments, StatefulSets, DaemonSets and ReplicaSets.

use tidegate_model::Object;

use crate::HealthError;
use crate::fields::{Condition, Node};
use crate::verdict::{Verdict, degraded, first_non_blank, healthy, progressing, require_version, suspended};

pub(crate) fn deployment(object: &Object) -> Verdict {
    require_version(object, &["v1"], "apps/v1")?;
    let node = Node::for_object(object);
    if node.boolean("spec.paused")? {
        return suspended("Deployment is paused");
    }
    if let Some(waiting) = outdated_status(object)? {
        return progressing(waiting);
    }
    // The condition's status doesn't matter: the reason alone shows that the deadline has passed.
    let late = |condition: &Condition<'_>| {
        condition.kind == "Progressing" && condition.reason == "ProgressDeadlineExceeded"
    };
    if node.conditions()?.iter().any(late) {
        return degraded(format!("Deployment {:?} exceeded its progress deadline", object.name()));
    }
    let wanted = node.integer("spec.replicas")?;
    let updated = node.count("status.updatedReplicas")?;
    let total = node.count("status.replicas")?;
    let available = node.count("status.availableReplicas")?;
    match wanted {
        Some(wanted) if updated < wanted => {
            progressing(format!("Waiting for rollout: {updated} of {wanted} replicas updated"))
        }
        _ if total > updated => progressing(format!(
            "Waiting for rollout: {} old replicas pending termination",
            total.saturating_sub(updated)
        )),
        _ if available < updated => {
            progressing(format!("Waiting for rollout: {available} of {updated} replicas available"))
        }
        _ => healthy(format!("{available} of {updated} replicas available")),
    }
}

pub(crate) fn replica_set(object: &Object) -> Verdict {
    require_version(object, &["v1"], "apps/v1")?;
    if let Some(waiting) = outdated_status(object)? {
        return progressing(waiting);
    }
    let node = Node::for_object(object);
    if let Some(failure) = node.conditions()?.iter().find(|condition| condition.is_true("ReplicaFailure")) {
        return degraded(first_non_blank(&[failure.message, failure.reason, "Replicas cannot be created"]));
    }
    let available = node.count("status.availableReplicas")?;
    match node.integer("spec.replicas")? {
        Some(wanted) if available < wanted => {
            progressing(format!("Waiting for rollout: {available} of {wanted} replicas available"))
        }
        _ => healthy(format!("{available} replicas available")),
    }
}

pub(crate) fn stateful_set(object: &Object) -> Verdict {
    require_version(object, &["v1"], "apps/v1")?;
    let node = Node::for_object(object);
    if node.count("status.observedGeneration")? == 0 {
        return progressing("Waiting for the controller to observe the StatefulSet");
    }
    if let Some(waiting) = outdated_status(object)? {
        return progressing(waiting);
    }
    let ready = node.count("status.readyReplicas")?;
    let updated = node.count("status.updatedReplicas")?;
    let wanted = node.integer("spec.replicas")?;
    if let Some(wanted) = wanted.filter(|wanted| ready < *wanted) {
        return progressing(format!("Waiting for rollout: {ready} of {wanted} replicas ready"));
    }
    let strategy = node.text("spec.updateStrategy.type")?;
    if strategy == "RollingUpdate" && node.has("spec.updateStrategy.rollingUpdate")? {
        return partitioned_rollout(node, wanted, updated, ready);
    }
    if strategy != "OnDelete" {
        let (newest, current) = (node.text("status.updateRevision")?, node.text("status.currentRevision")?);
        if newest != current {
            return progressing(format!("Waiting for rollout: {updated} replicas at revision {newest}"));
        }
    }
    healthy(format!("{ready} replicas ready"))
}

/// Returns the health of a rolling update with a partition. The replicas below it keep their revision, so
/// revisions aren't compared.
fn partitioned_rollout(node: Node<'_>, wanted: Option<i64>, updated: i64, ready: i64) -> Verdict {
    if let (Some(wanted), Some(partition)) =
        (wanted, node.integer("spec.updateStrategy.rollingUpdate.partition")?)
    {
        let share = wanted.saturating_sub(partition);
        if updated < share {
            return progressing(format!(
                "Waiting for partitioned rollout: {updated} of {share} replicas updated"
            ));
        }
    }
    healthy(format!("{ready} replicas ready, {updated} updated"))
}

pub(crate) fn daemon_set(object: &Object) -> Verdict {
    require_version(object, &["v1"], "apps/v1")?;
    if let Some(waiting) = outdated_status(object)? {
        return progressing(waiting);
    }
    let node = Node::for_object(object);
    let desired = node.count("status.desiredNumberScheduled")?;
    let available = node.count("status.numberAvailable")?;
    if node.text("spec.updateStrategy.type")? == "OnDelete" {
        return healthy(format!("{available} of {desired} nodes available"));
    }
    let updated = node.count("status.updatedNumberScheduled")?;
    if updated < desired {
        return progressing(format!("Waiting for rollout: {updated} of {desired} nodes updated"));
    }
    if available < desired {
        return progressing(format!("Waiting for rollout: {available} of {desired} nodes available"));
    }
    healthy(format!("{available} of {desired} nodes available"))
}

/// Returns the message for a status that is about an older spec.
pub(crate) fn outdated_status(object: &Object) -> Result<Option<String>, HealthError> {
    let observed = Node::for_object(object).count("status.observedGeneration")?;
    let generation = object.generation();
    Ok((generation > observed).then(|| {
        format!(
            "Waiting for the controller to observe generation {generation}; it has observed generation {observed}"
        )
    }))
}
