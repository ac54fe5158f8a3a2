//! The operation that deletes an application: where the hooks of its deletion are read, and what the engine is asked.

use std::sync::Arc;

use tidegate_application::deletion::{self, is_resources_finalizer};
use tidegate_application::sources::{Sources, revisions};
use tidegate_application::{instance_name, operation};
use tidegate_executor::effects::{self, NO_OPERATION};
use tidegate_executor::{Clock as _, SystemClock, Targets, WINDOW};
use tidegate_model::argo::Application;
use tidegate_model::{Cascade, OperationId, Plan, SyncRequest};
use tidegate_planner::hooks_among;

use super::admission::signed;
use super::places::Place;
use super::recorded;
use super::shared::{Look, Shared};
use crate::last::{self, LastSync};

/// The commits whose hooks run, none where there are none, and the id of the operation. Nothing is begun.
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    application: &Application,
) -> Result<(Vec<String>, OperationId), String> {
    let place = place(shared, application)?;
    let (revisions, _) = manifests(shared, application, &place, Vec::new()).await?;
    let id = shared.engine.next_id().await.map_err(|error| error.to_string())?;
    Ok((revisions, id))
}

/// What the engine is asked.
pub(crate) async fn work(
    shared: &Arc<Shared>,
    application: &Application,
) -> Result<(SyncRequest, Targets), String> {
    let asked = application.operation.clone().unwrap_or_default();
    let place = place(shared, application)?;
    let sync = asked.sync.clone().unwrap_or_default();
    let known = revisions(&sync.revision, &sync.revisions);
    let (_, mut targets) = manifests(shared, application, &place, known).await?;
    // What it deletes is asked about as any other write is; sync windows are none of its business.
    let mut mandate = shared.projects.unchecked(application, &place)?;
    if hooks_among(&targets.targets) == 0 {
        // Nothing of a repository is written then: that a project permits it no more keeps nothing from going.
        mandate.repositories.clear();
    }
    targets.mandate = Some(mandate);
    targets.owned = deletion::owned(application);
    targets.gates.retain(|gate| !gate.starts_with(WINDOW));
    let Place { destination, namespace, .. } = place;
    let request = deletion::request(application, &asked, (destination, namespace));
    Ok((request.map_err(|error: operation::Refused| error.to_string())?, targets))
}

/// What a deletion would do now. Nothing is begun.
pub(crate) async fn plan(
    shared: &Arc<Shared>,
    application: &Application,
    cascade: Cascade,
) -> Result<Plan, String> {
    let asked = deletion::operation(application, cascade);
    let place = place(shared, application)?;
    let (_, mut targets) = manifests(shared, application, &place, Vec::new()).await?;
    targets.owned = deletion::owned(application);
    let Place { destination, namespace, cluster, .. } = place;
    let request = deletion::request(application, &asked, (destination, namespace));
    let request = request.map_err(|error: operation::Refused| error.to_string())?;
    let known = recorded::inventory(shared, &request).await;
    let now = SystemClock.now();
    let planning = effects::plan(cluster.as_ref(), NO_OPERATION, &request, targets, now, known.as_ref());
    let planned = planning.await.map_err(|error| format!("it cannot be planned: {}", error.message))?;
    Ok(planned.plan)
}

fn place(shared: &Shared, application: &Application) -> Result<Place, String> {
    shared.places.resolve(&application.spec.destination).map_err(|none| none.to_string())
}

/// The manifests with the hooks, and their commits: of the repositories as they are now, or as they were `known`, so that a
/// hook that was mended there is taken; where these cannot be read, those of the last sync, which the log keeps.
async fn manifests(
    shared: &Arc<Shared>,
    application: &Application,
    place: &Place,
    known: Vec<String>,
) -> Result<(Vec<String>, Targets), String> {
    let problem = match read(shared, application, place, known).await {
        Ok(found) => return Ok(found),
        Err(problem) => problem,
    };
    let (log, name, destination) =
        (Arc::clone(&shared.log), instance_name(application), place.destination.clone());
    let looking = tokio::task::spawn_blocking(move || last::find(&log, &destination, &name)).await;
    let last = looking.map_err(|fault| fault.to_string())?.map_err(|error| error.to_string())?;
    let problem = match last {
        Some(LastSync { request, targets, is_deletion: false, .. }) => {
            let revisions = operation::revisions_of(&request);
            // Nobody may have asked for signatures when that was synced.
            match signed(shared, application, (&Sources::of(application), &revisions), Vec::new()).await {
                Ok(()) => return Ok((revisions, targets)),
                Err(unsigned) => unsigned,
            }
        }
        _ => format!("the log has no sync of it, and its manifests cannot be read: {problem}"),
    };
    // It never had hooks that anybody knows of.
    if application.metadata.finalizers.iter().all(|one| is_harmless(one)) {
        return Ok((Vec::new(), Targets::default()));
    }
    Err(format!("the hooks of its deletion are not known: {problem}"))
}

/// Whether a finalizer does not ask for hooks.
fn is_harmless(finalizer: &str) -> bool {
    is_resources_finalizer(finalizer) || !deletion::is_own_finalizer(finalizer)
}

async fn read(
    shared: &Arc<Shared>,
    application: &Application,
    place: &Place,
    known: Vec<String>,
) -> Result<(Vec<String>, Targets), String> {
    let sources = Sources::of(application);
    if sources.all().is_empty() {
        return Err("it has no source".to_owned());
    }
    let revisions = match known.len() == sources.all().len() {
        true => known,
        false => shared.resolve(application, (&sources, sources.wanted()), Look::New).await?,
    };
    // Hooks of what is not signed do not run.
    signed(shared, application, (&sources, &revisions), Vec::new()).await?;
    let made = shared.manifests_of((application, place), &sources, &revisions).await?;
    let (targets, definitions) = (made.targets.as_ref().clone(), shared.gates.read().await);
    Ok((revisions, Targets { targets, definitions, ..Targets::default() }))
}
