//! Reading the cluster and planning.

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Cluster, LiveQuery};
use tidegate_lifecycle::operation::CallError;
use tidegate_model::{OperationId, SyncRequest, Timestamp, Warning};
use tidegate_planner::{PlanInput, Planned, Target, named_objects};

use super::call_error;

/// The manifests of an operation, kept with it from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// The manifests, with their origins.
    pub targets: Vec<Target>,
    /// What was found while they were read.
    pub warnings: Vec<Warning>,
}

/// Reads the cluster and plans.
pub async fn plan(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    targets: &Targets,
    started_at: Timestamp,
) -> Result<Planned, CallError> {
    let discovery = cluster.discover().await.map_err(|error| call_error(&error))?;
    let named = named_objects(request, &targets.targets, &discovery, started_at);
    let query = LiveQuery { application: request.application.clone(), named, inventory: None };
    let live = cluster.live(&query).await.map_err(|error| call_error(&error))?;
    let mut planned = tidegate_planner::plan(&PlanInput {
        operation,
        request,
        started_at,
        targets: &targets.targets,
        live: &live,
        discovery: &discovery,
        offline: false,
    });
    planned.plan.warnings.splice(0..0, targets.warnings.iter().cloned());
    Ok(planned)
}
