//! Reading the cluster and planning.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tidegate_cluster::{Cluster, ErrorKind, LiveAnswer, LiveQuery, Reach};
use tidegate_lifecycle::operation::{CallError, NamespaceSight};
use tidegate_model::{LiveObject, Mandate, OperationId, Phase, Plan, SyncRequest, Timestamp, Warning};
use tidegate_oplog::{Inventory, InventoryChange, Known};
use tidegate_planner::{LastRun, PlanInput, Planned, Target, named_objects};

use crate::gates::GateDefinitions;

use super::diff::Question;
use super::extensions::review_health;
use super::failures::call_error;
use super::inventory::{self, Places};
use super::kept::{PinnedPlan, PlanMoved};
use super::mask::Mask;
use super::{comparing, namespaces, rights, unsearched};

/// The manifests of an operation, kept with it from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Targets {
    /// The manifests, with their origins.
    pub targets: Vec<Target>,
    /// What was found while they were read.
    pub warnings: Vec<Warning>,
    /// Gates that every wave has, besides those its resources name.
    #[serde(default)]
    pub gates: Vec<String>,
    /// What the names of gates stand for.
    #[serde(default)]
    pub definitions: GateDefinitions,
    /// What the operation was begun for; nothing where no project has a say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate: Option<Mandate>,
    /// The plan that the operation is to carry out, and no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Box<PinnedPlan>>,
    /// What the application is known to have, besides its manifests: a deletion deletes these objects where they bear its mark.
    #[serde(default, skip_serializing_if = "Inventory::is_empty")]
    pub owned: Inventory,
    /// The last runs of hooks that run only when their inputs have changed. The log says them each time.
    #[serde(skip)]
    pub last_runs: Vec<LastRun>,
}

impl Targets {
    /// Adds the gates that every wave has. What runs after a failure waits for nobody.
    pub fn gate(gates: &[String], plan: &mut Plan) {
        for wave in plan.waves.iter_mut().filter(|wave| wave.phase != Phase::SyncFail) {
            wave.gates.extend_from_slice(gates);
            wave.gates.sort_unstable();
            wave.gates.dedup();
        }
    }

    /// The values of the Secrets among them.
    pub fn mask(&self) -> Mask {
        Mask::of(self.targets.iter().map(|target| &target.object))
    }
}

/// A plan without values of Secrets in its words.
pub(super) fn masked(mut planned: Planned, mask: &Mask) -> Planned {
    planned.plan.warnings.iter_mut().for_each(|warning| mask.hide(&mut warning.message));
    for task in &mut planned.plan.tasks {
        mask.hide(&mut task.reason);
        task.error.iter_mut().for_each(|error| mask.hide(error));
    }
    planned
}

/// A plan, and what it means for the inventory.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepared {
    /// The plan and its manifests.
    pub planned: Planned,
    /// To be kept with the plan, or before it.
    pub inventory: Vec<InventoryChange>,
    /// The namespaces of the manifests, as far as they may be seen.
    pub namespaces: Vec<NamespaceSight>,
}

/// Reads the cluster, at the places of the inventory and as far as it does not suffice, and plans. For a plan that is only
/// shown: no value of a Secret among the manifests is in its words.
pub async fn plan(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<Planned, CallError> {
    let mask = targets.mask();
    let prepared = prepare(cluster, operation, request, targets, started_at, known).await;
    match prepared {
        Ok(prepared) => Ok(masked(prepared.planned, &mask)),
        Err(NotPlanned::Call(mut error)) => {
            mask.hide(&mut error.message);
            Err(error)
        }
        Err(NotPlanned::Moved(moved)) => Err(CallError::permanent(moved.to_string())),
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// The cluster could not be read.
    #[error("{}", .0.message)]
    Call(CallError),
    /// The operation is to carry out a kept plan, which does not fit any more.
    #[error(transparent)]
    Moved(#[from] PlanMoved),
}

impl From<CallError> for NotPlanned {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// Reads the cluster, at the places of the inventory and as far as it does not suffice, and plans. Where a plan is pinned, it
/// is that one or none.
pub async fn prepare(
    cluster: &dyn Cluster,
    operation: OperationId,
    request: &SyncRequest,
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<Prepared, NotPlanned> {
    let asked = (operation, request);
    prepare_with(cluster, asked, targets, started_at, known).await.map(|(prepared, _)| prepared)
}

/// The same, with the live objects that the plan was made with.
pub(super) async fn prepare_with(
    cluster: &dyn Cluster,
    asked: (OperationId, &SyncRequest),
    mut targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<(Prepared, Vec<LiveObject>), NotPlanned> {
    let request = asked.1;
    let pinned = targets.pinned.take();
    // The names of its generated hooks are those of the kept plan.
    let started_at = pinned.as_ref().map_or(started_at, |pinned| pinned.made_at());
    let Drawn { mut planned, live, is_whole, query, namespaces } =
        draw(cluster, asked, targets, started_at, known).await?;
    let gone = inventory::gone(cluster, &query, &live).await;
    if request.options.has("ApplyOutOfSyncOnly=true") {
        let doubts = (Question::Manifests, comparing::is_in_doubt);
        let compared = comparing::compare(cluster, asked, &planned, &live, doubts).await;
        comparing::take_in(&mut planned, compared, !request.options.dry_run);
    }
    if let Some(pinned) = pinned {
        pinned.take_place(&mut planned, request, &live)?;
    }
    let inventory = inventory::begun(&planned, request, known, (query.reach, is_whole, &live), &gone);
    Ok((Prepared { planned, inventory, namespaces }, live))
}

/// The plan as the manifests and the live objects alone give it.
pub(super) struct Drawn {
    pub planned: Planned,
    /// The live objects it was made with.
    pub live: Vec<LiveObject>,
    /// The cluster was searched as far as that was asked for.
    pub is_whole: bool,
    /// How they were asked for.
    pub query: LiveQuery,
    /// The namespaces of the manifests, as far as they may be seen.
    pub namespaces: Vec<NamespaceSight>,
}

/// Reads the cluster and plans, without asking what the server would change.
pub(super) async fn draw(
    cluster: &dyn Cluster,
    (operation, request): (OperationId, &SyncRequest),
    targets: Targets,
    started_at: Timestamp,
    known: Option<&Known>,
) -> Result<Drawn, CallError> {
    let discovery = cluster.discover().await.map_err(|error| call_error(&error))?;
    let mut places = known.map_or_else(Places::default, |known| inventory::served(&known.places, &discovery));
    let reach = inventory::reach(request, known, &places);
    let namespaces = tidegate_planner::namespaces(request, &targets.targets, &discovery);
    let mut query = LiveQuery {
        application: request.application.clone(),
        tracking: request.tracking.clone(),
        named: named_objects(request, &targets.targets, &discovery, started_at),
        inventory: std::mem::take(&mut places.served),
        reach,
        namespaces: namespaces.iter().chain([&request.namespace]).cloned().collect(),
    };
    if reach != Reach::Places {
        let owned = inventory::owned(request, &targets, &discovery);
        places.keys.extend(owned.keys);
        query.inventory.extend(owned.served);
    }
    let unchanged =
        tidegate_planner::unchanged_hooks(request, &targets.targets, &discovery, &targets.last_runs);
    let plan = |live: &[LiveObject], terminating: &BTreeSet<String>| {
        tidegate_planner::plan(PlanInput {
            operation,
            request,
            started_at,
            targets: targets.targets,
            live,
            known: &places.keys,
            unchanged: &unchanged,
            terminating,
            discovery: &discovery,
            offline: false,
        })
    };
    let LiveAnswer { objects: live, unsearched } = match cluster.live(&query).await {
        Ok(answer) => answer,
        Err(error) if error.kind == ErrorKind::Forbidden => {
            let blind = plan(&[], &BTreeSet::new()).plan;
            return Err(rights::beside(cluster, &blind.tasks, &error).await);
        }
        Err(error) => return Err(call_error(&error)),
    };
    let namespaces = namespaces::look_at(cluster, namespaces.iter().map(String::as_str)).await;
    let terminating: BTreeSet<String> =
        namespaces.iter().filter(|sight| sight.terminating).map(|sight| sight.name.clone()).collect();
    let mut planned = plan(&live, &terminating);
    planned.plan.warnings.splice(0..0, targets.warnings);
    let is_known = known.is_some_and(|known| known.searched && !places.moved);
    unsearched::review(request, &query, (&unsearched, is_known), &mut planned.plan);
    review_health(&mut planned);
    Targets::gate(&targets.gates, &mut planned.plan);
    Ok(Drawn { planned, live, is_whole: unsearched.is_empty(), query, namespaces })
}
