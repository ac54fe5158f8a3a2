//! The operation that deletes an Application: the source of its deletion hooks, and the request sent to the
//! engine.

use std::sync::Arc;

use tidegate_application::deletion::{self, is_resources_finalizer};
use tidegate_application::sources::{Sources, revisions_of_fields};
use tidegate_application::{instance_name, operation};
use tidegate_executor::effects::{self, NO_OPERATION};
use tidegate_executor::{Clock as _, SystemClock, Targets, WINDOW_PREFIX};
use tidegate_model::argo::Application;
use tidegate_model::{OperationId, Plan, SyncRequest};
use tidegate_planner::count_deletion_hooks;
use tidegate_state::last_sync::{self, LastSync};

use super::admission::check_signatures;
use super::destinations::ResolvedDestination;
use super::manifests::RevisionLookup;
use super::messages::DeletionOptions;
use super::operation_history;
use super::shared_state::SharedState;

/// Returns the commits with the deletion hooks (empty without hooks) and the operation ID, without starting
/// the operation.
pub async fn prepare(
    shared: &Arc<SharedState>,
    application: &Application,
) -> Result<(Vec<String>, OperationId), String> {
    let place = resolve_destination(shared, application)?;
    let (revisions, _) = match application.operation.as_ref().is_none_or(deletion::runs_hooks) {
        true => hook_manifests(shared, application, &place, Vec::new()).await?,
        // The manifests aren't needed, so they don't have to be readable.
        false => Default::default(),
    };
    let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
    Ok((revisions, id))
}

/// Returns the request that is sent to the engine.
pub async fn engine_request(
    shared: &Arc<SharedState>,
    application: &Application,
) -> Result<(SyncRequest, Targets), String> {
    let requested = application.operation.clone().unwrap_or_default();
    let place = resolve_destination(shared, application)?;
    let sync = requested.sync.clone().unwrap_or_default();
    let known = revisions_of_fields(&sync.revision, &sync.revisions);
    let mut targets = match deletion::runs_hooks(&requested) {
        true => hook_manifests(shared, application, &place, known).await?.1,
        false => Targets::default(),
    };
    // Deletions are checked like any other write, except that sync windows don't apply.
    let mut policy = shared.projects.unchecked_policy(application, &place)?;
    if count_deletion_hooks(&targets.targets) == 0 {
        // A deletion without hooks doesn't write anything from a repository, so it must not fail because a
        // repository is no longer permitted.
        policy.repositories.clear();
    }
    targets.mandate = Some(policy);
    targets.owned = deletion::owned_objects(application);
    targets.gates.retain(|gate| !gate.starts_with(WINDOW_PREFIX));
    let ResolvedDestination { destination, namespace, .. } = place;
    let request = deletion::deletion_request(application, &requested, destination, namespace);
    Ok((request.map_err(|error: operation::OperationRefusal| error.to_string())?, targets))
}

/// Returns the plan for a deletion without starting it.
pub async fn deletion_plan(
    shared: &Arc<SharedState>,
    application: &Application,
    options: DeletionOptions,
) -> Result<Plan, String> {
    let mut requested = deletion::deletion_operation(application, options.cascade);
    if options.no_hooks {
        deletion::skip_hooks(&mut requested);
    }
    let place = resolve_destination(shared, application)?;
    let mut targets = match (
        hook_manifests(shared, application, &place, Vec::new()).await,
        deletion::runs_hooks(&requested),
    ) {
        (Ok((_, targets)), _) => targets,
        // Hooks that won't run don't have to be readable.
        (Err(_), false) => Targets::default(),
        (Err(problem), true) => return Err(problem),
    };
    targets.owned = deletion::owned_objects(application);
    let ResolvedDestination { destination, namespace, cluster, .. } = place;
    let request = deletion::deletion_request(application, &requested, destination, namespace);
    let request = request.map_err(|error: operation::OperationRefusal| error.to_string())?;
    let inventory = operation_history::inventory(shared, &request).await;
    let now = SystemClock.now();
    let planning = effects::plan(cluster.as_ref(), NO_OPERATION, &request, targets, now, inventory.as_ref());
    let planned = planning.await.map_err(|error| format!("cannot plan the deletion: {}", error.message))?;
    Ok(planned.plan)
}

fn resolve_destination(
    shared: &SharedState,
    application: &Application,
) -> Result<ResolvedDestination, String> {
    shared.destinations.resolve(&application.spec.destination).map_err(|none| none.to_string())
}

/// Returns the manifests with the hooks, and their commits. Reads the repositories at the `known` commits or,
/// if there are none, at the current commits, where a hook may have been fixed. Falls back to the manifests
/// of the last sync in the log.
async fn hook_manifests(
    shared: &Arc<SharedState>,
    application: &Application,
    place: &ResolvedDestination,
    known: Vec<String>,
) -> Result<(Vec<String>, Targets), String> {
    let problem = match read_hooks(shared, application, place, known).await {
        Ok(found) => return Ok(found),
        Err(problem) => problem,
    };
    let (log, name, destination) =
        (Arc::clone(&shared.log), instance_name(application), place.destination.clone());
    let looking =
        tokio::task::spawn_blocking(move || last_sync::find_in_log(&log, &destination, &name)).await;
    let last = looking.map_err(|fault| fault.to_string())?.map_err(|error| error.to_string())?;
    let problem = match last {
        Some(LastSync { request, targets, is_deletion: false, .. }) => {
            let revisions = operation::deployed_revisions(&request);
            // The project may not have required signatures at the time of that sync.
            let sources = Sources::from_application(application);
            match check_signatures(shared, application, &sources, &revisions, Vec::new()).await {
                Ok(()) => return Ok((revisions, targets)),
                Err(unsigned) => unsigned,
            }
        }
        _ => {
            format!(
                "the log contains no sync of the application, and its manifests cannot be read: {problem}"
            )
        }
    };
    // The finalizers don't request hooks, so the deletion continues without hooks.
    if application.metadata.finalizers.iter().all(|one| needs_no_hooks(one)) {
        return Ok((Vec::new(), Targets::default()));
    }
    Err(format!("the application's deletion hooks are unknown: {problem}"))
}

/// Returns true if a finalizer doesn't request hooks.
fn needs_no_hooks(finalizer: &str) -> bool {
    is_resources_finalizer(finalizer) || !deletion::is_own_finalizer(finalizer)
}

async fn read_hooks(
    shared: &Arc<SharedState>,
    application: &Application,
    place: &ResolvedDestination,
    known: Vec<String>,
) -> Result<(Vec<String>, Targets), String> {
    let sources = Sources::from_application(application);
    if sources.as_slice().is_empty() {
        return Err("the application has no source".to_owned());
    }
    let revisions = match known.len() == sources.as_slice().len() {
        true => known,
        false => {
            let (named, lookup) = (sources.target_revisions(), RevisionLookup::NewObservation);
            shared.resolve_revisions(application, &sources, named, lookup).await?
        }
    };
    // Hooks that lack a required signature must not run.
    check_signatures(shared, application, &sources, &revisions, Vec::new()).await?;
    let manifests = shared.render_manifests(application, place, &sources, &revisions).await?;
    let (targets, definitions) = (manifests.targets.as_ref().clone(), shared.gates.read().await);
    Ok((revisions, Targets { targets, definitions, ..Targets::default() }))
}
