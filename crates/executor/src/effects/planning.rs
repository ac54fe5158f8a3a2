//! Reads the cluster and makes plans.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_cluster::{Cluster, ErrorKind, LiveQuery, LiveResult, SearchScope};
use tidegate_lifecycle::operation::{CallError, NamespaceObservation};
use tidegate_model::{Discovery, LiveObject, ObjectKey, OperationId, SyncRequest, Timestamp, Warning};
use tidegate_oplog::{ApplicationInventory, InventoryChange};
use tidegate_planner::{ONLY_OUT_OF_SYNC, PlanInput, PlanResult, named_objects};

use super::call_errors::call_error;
use super::comparison::{self, ComparisonPurpose};
use super::extensions::warn_of_invalid_health_annotations;
use super::inventory::{self, InventoryPlaces};
use super::mask::Mask;
use super::pinned_plan::OutdatedPlan;
use super::predicted_rejections::predict_rejections;
use super::targets::Targets;
use super::{namespaces, rights, unsearched_kinds};

/// Masks Secret values in a plan.
pub(super) fn mask_plan(mut planned: PlanResult, mask: &Mask) -> PlanResult {
    planned.plan.warnings.iter_mut().for_each(|warning| mask.apply(&mut warning.message));
    for task in &mut planned.plan.tasks {
        mask.apply(&mut task.reason);
        task.error.iter_mut().for_each(|error| mask.apply(error));
    }
    planned
}

/// A plan and its inventory changes.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedPlan {
    /// The plan and its manifests.
    pub planned: PlanResult,
    /// Inventory changes to store before or together with the plan.
    pub inventory: Vec<InventoryChange>,
    /// Namespaces in the manifests that the user may read.
    pub namespaces: Vec<NamespaceObservation>,
    /// True if the plan is that of the comparison that led to the operation.
    pub is_reused: bool,
}

/// Reads the objects in the inventory, searches the cluster if the inventory is incomplete, and makes a plan.
/// The plan is only for display: Secret values in the manifests are masked.
pub async fn plan(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&ApplicationInventory>,
) -> Result<PlanResult, CallError> {
    let mask = targets.mask();
    match prepare_with_live(cluster, operation, request, targets, started_at, known).await {
        Ok((PreparedPlan { mut planned, .. }, live)) => {
            let refusals = predict_rejections(cluster, operation, request, &planned, &live).await;
            planned.plan.warnings.extend(refusals);
            Ok(mask_plan(planned, &mask))
        }
        Err(PlanError::Call(mut error)) => {
            mask.apply(&mut error.message);
            Err(error)
        }
        Err(PlanError::Outdated(moved)) => Err(CallError::permanent(moved.to_string())),
    }
}

/// Reason for not making a plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The cluster couldn't be read.
    #[error("{}", .0.message)]
    Call(CallError),
    /// The operation is pinned to a stored plan, which is outdated.
    #[error(transparent)]
    Outdated(#[from] OutdatedPlan),
}

impl From<CallError> for PlanError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Reads the objects in the inventory, searches the cluster if the inventory is incomplete, and makes a plan.
/// If a stored plan is pinned, returns that plan or an error.
pub async fn prepare(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&ApplicationInventory>,
) -> Result<PreparedPlan, PlanError> {
    prepare_with_live(cluster, operation, request, targets, started_at, known)
        .await
        .map(|(prepared, _)| prepared)
}

/// Like [`prepare`], but also returns the live objects that the plan is based on.
pub(super) async fn prepare_with_live(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    mut targets: Targets,
    started_at: Timestamp,
    known: Option<&ApplicationInventory>,
) -> Result<(PreparedPlan, Vec<LiveObject>), PlanError> {
    let pinned = targets.pinned.take();
    // Use the stored plan's creation time: generated hook names depend on it and must match the stored plan.
    let started_at = pinned.as_ref().map_or(started_at, |pinned| pinned.created_at());
    let PlanDraft { mut planned, live, is_complete, query, namespaces, is_reused, .. } =
        draft_plan(cluster, operation, request, targets, started_at, known).await?;
    let gone = inventory::find_gone_places(cluster, &query, &live).await;
    if request.options.has(ONLY_OUT_OF_SYNC) {
        let (question, doubts) = (ComparisonPurpose::Manifests, comparison::needs_dry_run);
        let compared =
            comparison::compare(cluster, operation, request, &planned, &live, question, doubts).await;
        comparison::apply_results(&mut planned, compared, !request.options.dry_run);
    }
    if let Some(pinned) = pinned {
        pinned.replace_plan(&mut planned, request, &live)?;
    }
    let inventory =
        inventory::plan_changes(&planned, request, known, query.search_scope, is_complete, &live, &gone);
    Ok((PreparedPlan { planned, inventory, namespaces, is_reused }, live))
}

/// A plan from manifests and live objects only, without dry runs.
pub(super) struct PlanDraft {
    pub planned: PlanResult,
    /// Live objects that the plan is based on.
    pub live: Vec<LiveObject>,
    /// True if the whole requested scope was searched.
    pub is_complete: bool,
    /// Query for the live objects.
    pub query: LiveQuery,
    /// Namespaces in the manifests that the user may read.
    pub namespaces: Vec<NamespaceObservation>,
    /// Findings of the planner alone.
    pub findings: Vec<Warning>,
    /// Other inputs of the planner.
    pub inventory: BTreeSet<ObjectKey>,
    pub unchanged_hooks: BTreeSet<ObjectKey>,
    pub terminating_namespaces: BTreeSet<String>,
    pub discovery: Discovery,
    /// True if the plan is that of a comparison.
    pub is_reused: bool,
}

/// Reads the cluster and makes a plan, without dry runs. Executes the plan of a comparison instead, if the
/// cluster and all other inputs are still the same.
pub(super) async fn draft_plan(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    mut targets: Targets,
    started_at: Timestamp,
    known: Option<&ApplicationInventory>,
) -> Result<PlanDraft, CallError> {
    let compared = targets.compared.take();
    let discovery = cluster.discover().await.map_err(|error| call_error(&error))?;
    let mut places = known
        .map_or_else(InventoryPlaces::default, |known| inventory::resolve_places(&known.places, &discovery));
    let search_scope = inventory::search_scope(request, known, &places);
    let namespaces = tidegate_planner::operation_namespaces(request, &targets.targets, &discovery);
    let mut query = LiveQuery {
        application: request.application.clone(),
        tracking: request.tracking.clone(),
        named: named_objects(request, &targets.targets, &discovery, started_at),
        inventory: std::mem::take(&mut places.served),
        search_scope,
        namespaces: namespaces.iter().chain([&request.namespace]).cloned().collect(),
    };
    if search_scope != SearchScope::KnownObjects {
        let owned = inventory::owned_places(request, &targets, &discovery);
        places.keys.extend(owned.keys);
        query.inventory.extend(owned.served);
    }
    let unchanged_hooks =
        tidegate_planner::unchanged_hooks(request, &targets.targets, &discovery, &targets.last_runs);
    let input = |live, terminating_namespaces| PlanInput {
        operation,
        request,
        started_at,
        targets: targets.targets,
        live,
        inventory: &places.keys,
        unchanged_hooks: &unchanged_hooks,
        terminating_namespaces,
        discovery: &discovery,
        is_offline: false,
    };
    let LiveResult { objects: live, incomplete_searches } = match cluster.list_live(&query).await {
        Ok(answer) => answer,
        Err(error) if error.kind == ErrorKind::Forbidden => {
            let blind = tidegate_planner::plan(input(&[], &BTreeSet::new())).plan;
            return Err(rights::forbidden_read_error(cluster, &blind.tasks, &error).await);
        }
        Err(error) => return Err(call_error(&error)),
    };
    let namespaces = namespaces::observe_namespaces(cluster, namespaces.iter().map(String::as_str)).await;
    let terminating_namespaces: BTreeSet<String> = namespaces
        .iter()
        .filter(|observation| observation.is_terminating)
        .map(|observation| observation.name.clone())
        .collect();
    let input = input(&live, &terminating_namespaces);
    let reused = compared.and_then(|compared| Arc::unwrap_or_clone(compared).into_operation_plan(&input));
    let is_reused = reused.is_some();
    let mut planned = reused.unwrap_or_else(|| tidegate_planner::plan(input));
    let findings = planned.plan.warnings.clone();
    planned.plan.warnings.splice(0..0, targets.warnings);
    let is_known = known.is_some_and(|known| known.searched && !places.has_moved_objects);
    unsearched_kinds::report_unsearched_kinds(
        request,
        &query,
        &incomplete_searches,
        is_known,
        &mut planned.plan,
    );
    warn_of_invalid_health_annotations(&mut planned);
    Targets::add_gates(&targets.gates, &mut planned.plan);
    Ok(PlanDraft {
        planned,
        live,
        is_complete: incomplete_searches.is_empty(),
        query,
        namespaces,
        findings,
        inventory: places.keys,
        unchanged_hooks,
        terminating_namespaces,
        discovery,
        is_reused,
    })
}
