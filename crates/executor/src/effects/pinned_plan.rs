//! A stored plan pinned to an operation, and the check that the cluster still matches it.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidegate_model::{
    Digest, INVALID_PLAN_MESSAGE, LiveObject, OUTDATED_PLAN_MESSAGE, Object, ObjectKey, Plan, PlanApproval,
    StoredPlanRef, SyncRequest, Timestamp,
};
use tidegate_planner::{Comparer, Drift, PlanManifests, PlanResult, StoredObservation, find_drift};

use super::comparison::index_by_key;

/// Maximum number of changes listed in a message.
const NAMED_CHANGES_MAX: usize = 10;

/// A stored plan that an operation must execute exactly as stored, or not at all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PinnedPlan {
    pub(super) hash: Digest,
    pub(super) made_at: Timestamp,
    pub(super) plan: Plan,
    pub(super) manifests: Vec<Object>,
    pub(super) sights: Vec<StoredObservation>,
    pub(super) allow_drift: bool,
    pub(super) approvals: Vec<PlanApproval>,
}

impl PinnedPlan {
    /// Returns the reference to this plan for the log.
    pub fn to_reference(&self) -> StoredPlanRef {
        StoredPlanRef { hash: self.hash, made_at: self.made_at, approvals: self.approvals.clone() }
    }

    /// Returns the creation time of the plan.
    pub fn created_at(&self) -> Timestamp {
        self.made_at
    }

    /// Replaces a plan just made from the current cluster with the stored plan, if the two are equal.
    pub(super) fn replace_plan(
        self,
        planned: &mut PlanResult,
        request: &SyncRequest,
        live: &[LiveObject],
    ) -> Result<(), OutdatedPlan> {
        let Self { hash, plan, manifests, sights, allow_drift, .. } = self;
        let (comparer, _) = Comparer::new(&request.ignore_differences, &request.tracking);
        let by_key = index_by_key(live);
        let kept = PlanManifests { plan: &plan, manifests: &manifests };
        let now = PlanManifests { plan: &planned.plan, manifests: &planned.manifests };
        let live = |key: &ObjectKey| by_key.get(key).map(|live| live.unpack());
        let drift = find_drift(&comparer, kept, &sights, now, live);
        if !drift.related.is_empty() || (!allow_drift && !drift.is_empty()) {
            return Err(OutdatedPlan { plan: hash, drift });
        }
        Ok(())
    }
}

/// Error for a stored plan that doesn't match the cluster anymore.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct OutdatedPlan {
    /// Hash of the plan.
    pub plan: Digest,
    /// Changes in the cluster since the plan was made.
    pub drift: Drift,
}

impl fmt::Display for OutdatedPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan.short();
        let all = if self.drift.related.is_empty() { &self.drift.unrelated } else { &self.drift.related };
        let changes: Vec<&str> = all.iter().take(NAMED_CHANGES_MAX).map(String::as_str).collect();
        let more = match all.len().saturating_sub(NAMED_CHANGES_MAX) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let changes = changes.join("; ");
        if self.drift.related.is_empty() {
            write!(
                f,
                "{OUTDATED_PLAN_MESSAGE}{plan} was created, in fields that the plan does not cover: \
                 {changes}{more}; allow these changes with `tidegate sync --allow-drift` or `tidegate app \
                 sync --allow-drift`, or create a new plan"
            )
        } else {
            write!(f, "plan {plan}{INVALID_PLAN_MESSAGE}{changes}{more}; create a new plan")
        }
    }
}
