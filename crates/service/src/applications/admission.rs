//! May an application do what it asks for? Its specification, its cluster and its project have a say, before it is compared
//! and before its operation begins; what is written is asked about again.

use std::collections::BTreeSet;

use tidegate_application::comparison::Resource;
use tidegate_application::sources::Sources;
use tidegate_model::argo::{Application, ConditionType, SyncStatusCode};
use tidegate_model::{Discovery, Mandate, ObjectKey};

use super::checking::check;
use super::places::{NoPlace, Place};
use super::projects;
use super::shared::Shared;

/// So many refusals of the project are told.
const REFUSALS_MAX: usize = 10;

/// Where the objects of an application go, and what its operations are begun for; or why it cannot be served, whatever its
/// manifests are.
pub(crate) fn admit(shared: &Shared, application: &Application) -> Result<(Place, Mandate), NoPlace> {
    check(application).map_err(NoPlace::Wrong)?;
    let mut place = shared.places.resolve(&application.spec.destination)?;
    let mandate = shared.projects.mandate(application, &place)?;
    if !mandate.user.is_empty() {
        // What a comparison has the server try, it tries as whoever would write it.
        let acting = place.cluster.as_user(&mandate.user);
        place.cluster = acting.map_err(|error| NoPlace::Wrong(error.message))?;
    }
    Ok((place, mandate))
}

/// Refuses commits that are not signed as the project wants them. `names` are the revisions they were asked for by.
pub(crate) async fn signed(
    shared: &Shared,
    application: &Application,
    (sources, commits): (&Sources, &[String]),
    names: Vec<String>,
) -> Result<(), String> {
    let project = projects::name_of(application);
    let wanted = shared.projects.signers(project)?;
    shared.manifests.check_signed((sources, project), commits, (names, wanted)).await
}

/// Resources that the project does not permit are not known to be as they should: nothing is synced because of them.
pub(crate) fn refuse_resources(
    shared: &Shared,
    mandate: &Mandate,
    resources: &mut [Resource],
) -> Vec<(ConditionType, String)> {
    let mut refused = BTreeSet::new();
    for Resource { status, .. } in resources {
        let key = ObjectKey::new(&status.group, &status.kind, &status.namespace, &status.name);
        if let Some(refusal) = shared.projects.refusal(mandate, &key, !key.namespace.is_empty()) {
            status.status = Some(SyncStatusCode::Unknown);
            refused.insert(refusal);
        }
    }
    told(refused, mandate).map(|message| (ConditionType::ComparisonError, message)).collect()
}

/// Why a sync would fail at its hooks, which are not compared; nothing where that is not certain.
pub(crate) fn refuse_hooks(shared: &Shared, mandate: &Mandate, hooks: &[ObjectKey]) -> Option<String> {
    let known = Discovery::built_in();
    let mut refused = BTreeSet::new();
    for hook in hooks {
        let mut key = hook.clone();
        if key.namespace.is_empty() {
            key.namespace.clone_from(&mandate.target.namespace);
        }
        let refusal = |namespaced| shared.projects.refusal(mandate, &key, namespaced);
        refused.extend(match known.namespaced(&key.group_kind()) {
            Some(namespaced) => refusal(namespaced),
            None => refusal(true).filter(|_| refusal(false).is_some()),
        });
    }
    let told: Vec<String> = told(refused, mandate).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn told(refused: BTreeSet<String>, mandate: &Mandate) -> impl Iterator<Item = String> {
    let more = refused.len().saturating_sub(REFUSALS_MAX);
    let more = (more > 0)
        .then(|| format!("{more} more kinds or names are not permitted in project {}", mandate.project));
    refused.into_iter().take(REFUSALS_MAX).chain(more)
}
