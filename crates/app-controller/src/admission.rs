//! Checks an Application's specification, cluster and project before each comparison and each operation. Each
//! write is checked separately.

use std::collections::BTreeSet;

use tidegate_application::comparison::ComparedResource;
use tidegate_application::sources::Sources;
use tidegate_model::argo::{Application, ConditionType, SyncStatusCode};
use tidegate_model::{Discovery, ObjectKey, ProjectPolicy};
use tidegate_planner::spec_problems;

use super::destinations::{DestinationError, ResolvedDestination};
use super::projects;
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

/// Rejects commits without the signatures that the project requires. `names` are the requested revisions.
pub async fn check_signatures(
    shared: &SharedState,
    application: &Application,
    sources: &Sources,
    commits: &[String],
    names: Vec<String>,
) -> Result<(), String> {
    let project = projects::project_name(application);
    let keys = shared.projects.required_keys(project)?;
    shared.manifests.check_signatures((sources, project), commits, names, keys).await
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
        .then(|| format!("{more} more kinds or names are not permitted in project {}", policy.project));
    refused.into_iter().take(REFUSALS_NAMED_MAX).chain(more)
}
