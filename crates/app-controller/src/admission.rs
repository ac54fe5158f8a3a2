//! Checks an Application's specification, cluster and project before each comparison and each operation. Each
//! write is checked separately.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_application::comparison::ComparedResource;
use tidegate_application::operation::{self, OperationRefusal};
use tidegate_application::project::project_name;
use tidegate_application::sources::Sources;
use tidegate_executor::{Clock as _, SystemClock, Targets};
use tidegate_model::argo::{Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{Discovery, ObjectKey, ProjectPolicy, SyncRequest};
use tidegate_planner::spec_problems;

use super::destinations::{DestinationError, ResolvedDestination};
use super::manifests::RevisionLookup;
use super::operation_start::{StartError, allow_fetched, check_options, operation_targets};
use super::shared_state::SharedState;

/// Maximum number of rejected objects to list in a message.
const REFUSALS_NAMED_MAX: usize = 10;

/// Returns the destination of an Application's objects and the project policy for its operations. Fails with
/// the reason if the Application can't be managed, regardless of its manifests.
pub fn admit(
    shared: &SharedState,
    application: &Application,
) -> Result<(ResolvedDestination, ProjectPolicy), DestinationError> {
    let problems: Vec<String> =
        spec_problems(&application.spec).into_iter().map(|problem| problem.message).collect();
    if !problems.is_empty() {
        return Err(DestinationError::Invalid(problems.join("; ")));
    }
    let mut place = shared.destinations.resolve(&application.spec.destination)?;
    let policy = shared.projects.policy(application, &place)?;
    if !policy.user.is_empty() {
        // A comparison's dry runs impersonate the same user as the writes.
        let acting = place.cluster.as_user(&policy.user);
        place.cluster = acting.map_err(|error| DestinationError::Invalid(error.message))?;
    }
    Ok((place, policy))
}

/// Stage of a sync at which it is admitted. Every stage checks the permissions again, because time passes in
/// between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A plan is created. Its revisions come from this observation of the repositories.
    Plan(RevisionLookup),
    /// The operation's revisions are resolved, before it gets an ID.
    Preparation,
    /// The engine receives the operation, whose revisions are commits.
    Start,
}

/// Sync that may continue.
pub struct AdmittedSync {
    pub place: ResolvedDestination,
    pub policy: ProjectPolicy,
    pub sources: Sources,
    /// Commits to deploy, one per source.
    pub revisions: Vec<String>,
}

/// Checks everything about a sync that doesn't depend on its manifests.
pub async fn check(
    shared: &SharedState,
    application: &Application,
    request: &OperationRequest,
    stage: Stage,
) -> Result<AdmittedSync, StartError> {
    let refused = |refusal: OperationRefusal| StartError::Refused(refusal.to_string());
    let sources = operation::operation_sources(application, request).map_err(refused)?;
    let requested = operation::operation_revisions(request, &sources).map_err(refused)?;
    let (place, policy) = admit(shared, application)?;
    if stage == Stage::Preparation {
        check_windows(shared, application, &place, &policy)?;
    }
    if stage != Stage::Start {
        check_options(request).map_err(StartError::Refused)?;
    }
    let lookup = match stage {
        Stage::Plan(lookup) => Some(lookup),
        Stage::Preparation => Some(RevisionLookup::NewObservation),
        Stage::Start => None,
    };
    let (revisions, names) = match lookup {
        Some(lookup) => {
            let resolving = shared.resolve_revisions(application, &sources, requested.clone(), lookup);
            (resolving.await.map_err(StartError::Refused)?, requested)
        }
        None => (requested, operation::revision_names(request)),
    };
    check_signatures(shared, application, &sources, &revisions, names).await.map_err(StartError::Refused)?;
    Ok(AdmittedSync { place, policy, sources, revisions })
}

/// Rejects a requested sync that a sync window blocks. An automated sync waits in the engine instead.
pub fn check_windows(
    shared: &SharedState,
    application: &Application,
    place: &ResolvedDestination,
    policy: &ProjectPolicy,
) -> Result<(), StartError> {
    let windows = shared.projects.sync_windows(application, &place.target);
    match windows.find_hold(true, SystemClock.now()).filter(|_| !policy.is_automated) {
        Some(hold) => Err(StartError::Refused(hold.sync_error())),
        None => Ok(()),
    }
}

impl AdmittedSync {
    /// Renders the manifests, and returns the request and the targets for the engine.
    pub async fn engine_input(
        &self,
        shared: &Arc<SharedState>,
        application: &Application,
        request: &OperationRequest,
    ) -> Result<(SyncRequest, Targets), StartError> {
        let Self { place, policy, sources, revisions } = self;
        let windows = shared.projects.sync_windows(application, &place.target).stored_form;
        let manifests = shared.render_manifests(application, place, sources, revisions).await?;
        let (destination, namespace) = (place.destination.clone(), place.namespace.clone());
        let request = shared
            .operation_request(application, request, destination, namespace, revisions)
            .map_err(|refusal| StartError::Refused(refusal.to_string()))?;
        let policy = allow_fetched(policy.clone(), &manifests);
        let gates = operation_targets(shared.gates.read().await, windows, policy);
        Ok((request, Targets { targets: manifests.targets.as_ref().clone(), ..gates }))
    }
}

/// Rejects commits without the signatures that the project requires. `names` are the requested revisions.
pub async fn check_signatures(
    shared: &SharedState,
    application: &Application,
    sources: &Sources,
    commits: &[String],
    names: Vec<String>,
) -> Result<(), String> {
    let project = project_name(application);
    let keys = shared.projects.required_keys(project)?;
    shared.manifests.check_signatures(sources, project, commits, names, keys).await
}

/// Marks resources that the project doesn't permit as unknown, so that they never trigger a sync.
pub fn refuse_resources(
    shared: &SharedState,
    policy: &ProjectPolicy,
    resources: &mut [ComparedResource],
) -> Vec<(ConditionType, String)> {
    let mut refused = BTreeSet::new();
    for ComparedResource { status, .. } in resources {
        let key = ObjectKey::new(&status.group, &status.kind, &status.namespace, &status.name);
        if let Some(refusal) = shared.projects.refusal_reason(policy, &key, !key.namespace.is_empty()) {
            status.status = Some(SyncStatusCode::Unknown);
            refused.insert(refusal);
        }
    }
    refusal_messages(refused, policy).map(|message| (ConditionType::ComparisonError, message)).collect()
}

/// Returns the reason why a sync's hooks, which aren't compared, would make the sync fail. Returns `None` if
/// the failure isn't certain.
pub fn refuse_hooks(shared: &SharedState, policy: &ProjectPolicy, hooks: &[ObjectKey]) -> Option<String> {
    let known = Discovery::built_in();
    let mut refused = BTreeSet::new();
    for hook in hooks {
        let mut key = hook.clone();
        if key.namespace.is_empty() {
            key.namespace.clone_from(&policy.target.namespace);
        }
        let refusal = |namespaced| shared.projects.refusal_reason(policy, &key, namespaced);
        refused.extend(match known.namespaced(&key.group_kind()) {
            Some(namespaced) => refusal(namespaced),
            None => refusal(true).filter(|_| refusal(false).is_some()),
        });
    }
    let messages: Vec<String> = refusal_messages(refused, policy).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

fn refusal_messages(refused: BTreeSet<String>, policy: &ProjectPolicy) -> impl Iterator<Item = String> {
    let more = refused.len().saturating_sub(REFUSALS_NAMED_MAX);
    let more = (more > 0)
        .then(|| format!("{more} more violations of the rules of project {} are not listed", policy.project));
    refused.into_iter().take(REFUSALS_NAMED_MAX).chain(more)
}
