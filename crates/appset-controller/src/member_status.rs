//! Status of an ApplicationSet's Applications for a progressive sync: newest revisions, deployed revisions,
//! and observations.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_app_controller::SharedState;
use tidegate_application::AppKey;
use tidegate_application::machine::Deployments;
use tidegate_application::project::project_name;
use tidegate_application::refresh;
use tidegate_application::rollout_operation::Deployment as Done;
use tidegate_application::sources::{Sources, revisions_of_fields};
use tidegate_applicationset::rollout::{KnownMember, TargetIdentities};
use tidegate_lifecycle::rollout::{DeployedState, MemberObservation, Progress, State, Target};
use tidegate_model::argo::{Application, ConditionType, HealthState, SyncStatus, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationId};

use super::same_manifests::{ChosenTarget, RevisionEquivalence, TargetCandidate};

/// Maximum number of reasons in the description of an unhealthy Application.
const REASONS_MAX: usize = 3;

/// Cached comparisons and observations of an ApplicationSet's Applications.
#[derive(Default)]
pub struct MemberStatusCache {
    /// Revisions with the same manifests.
    equivalence: RevisionEquivalence,
    /// Operation and target of each Application that was Synced and Healthy after that operation.
    observed: BTreeMap<String, (OperationId, Target)>,
}

/// Status of several Applications.
#[derive(Debug, Default, PartialEq)]
pub struct MemberStatuses {
    /// Applications with a complete status, by name.
    pub members: BTreeMap<String, KnownMember>,
    /// Reasons the status of the other Applications is unknown, by name.
    pub unknown: BTreeMap<String, String>,
    /// Reasons manifests couldn't be compared with the target's.
    pub awaited: BTreeMap<String, String>,
}

/// ApplicationSet with the members to observe.
#[derive(Clone, Copy)]
pub(crate) struct ObservedAppSet<'a> {
    pub key: &'a AppKey,
    /// Digests of the generated specs.
    pub targets: &'a TargetIdentities,
    /// Newest rollout of the ApplicationSet.
    pub last: Option<&'a State>,
}

impl MemberStatusCache {
    pub fn new(equivalence: RevisionEquivalence) -> Self {
        Self { equivalence, ..Self::default() }
    }

    /// Returns the status of the participating Applications, based on their generated specs. With `refresh`,
    /// queries each repository once for new revisions; otherwise, uses the last observations.
    pub async fn collect(
        &mut self,
        shared: &Arc<SharedState>,
        set: ObservedAppSet<'_>,
        participants: &[Application],
        refresh: bool,
    ) -> MemberStatuses {
        let of = |one: &Application| (Sources::from_application(one), project_name(one).to_owned());
        let sources = participants.iter().map(of).collect();
        let (resolved, moved) = shared.manifests.resolve_all(sources, refresh).await;
        let takes_part = |name: &str| participants.iter().any(|one| one.metadata.name == name);
        self.observed.retain(|name, _| takes_part(name));
        self.equivalence.retain(takes_part);
        shared.notify_changed_repositories(moved, None);
        let mut found = MemberStatuses::default();
        for (application, resolved) in participants.iter().zip(resolved) {
            let name = &application.metadata.name;
            let live = shared.application_cache.get_with_deployments(&member_key(set.key, name));
            let live = live.as_ref().map(|(live, deployed)| (live.as_ref(), deployed.as_ref()));
            let known = match resolved {
                Ok(newest) => match self.find_target(shared, set, application, newest, live).await {
                    Ok((target, awaited)) => {
                        found.awaited.extend(awaited.map(|reason| (name.clone(), reason)));
                        self.known_member(name, target, live, set.targets, set.last)
                    }
                    Err(reason) => {
                        found.awaited.insert(name.clone(), reason.clone());
                        Err(reason)
                    }
                },
                Err(reason) => Err(reason),
            };
            match known {
                Ok(known) => drop(found.members.insert(name.clone(), known)),
                Err(reason) => drop(found.unknown.insert(name.clone(), reason)),
            }
        }
        found
    }

    /// Returns an Application's target, and the reason if its manifests couldn't be compared with the
    /// target's. Newer revisions with the same manifests aren't a new target.
    async fn find_target(
        &self,
        shared: &Arc<SharedState>,
        set: ObservedAppSet<'_>,
        application: &Application,
        newest: Vec<String>,
        live: Option<(&Application, &Deployments)>,
    ) -> Result<(Target, Option<String>), String> {
        let ObservedAppSet { key, targets, last } = set;
        let (name, spec) = (&application.metadata.name, targets.spec_identity(application));
        let known = last.and_then(State::rollout).and_then(|rollout| rollout.members.get(name));
        let known = known.filter(|known| known.progress != Progress::Gone).map(|known| &known.target);
        let deployed = live.filter(|(live, _)| targets.spec_identity(live) == spec);
        let deployed = deployed.and_then(|(_, deployments)| deployments.newest.as_ref());
        let deployed = deployed.map(|done| done.revisions.as_slice());
        let is_ended = last.is_some_and(State::is_finished);
        let candidate = TargetCandidate { application, spec, newest, known, deployed, is_ended };
        let ChosenTarget { revisions, has_new_pairs, awaited } =
            self.equivalence.choose_target(shared, candidate).await?;
        if has_new_pairs {
            shared.application_cache.notify(&member_key(key, name));
        }
        Ok((Target { revisions, spec }, awaited))
    }

    fn known_member(
        &mut self,
        name: &str,
        target: Target,
        live: Option<(&Application, &Deployments)>,
        targets: &TargetIdentities,
        last: Option<&State>,
    ) -> Result<KnownMember, String> {
        // The Application will be created.
        let Some((live, deployments)) = live else {
            self.observed.remove(name);
            return Ok(KnownMember { revisions: target.revisions, deployed: None, completed_by: None });
        };
        if !deployments.is_compared && will_be_compared(live) {
            return Err("it has not been compared with its cluster yet".to_owned());
        }
        let observation = observe_member(live, deployments, targets, &self.equivalence);
        let is_healthy = observation.synced && observation.health == HealthStatus::Healthy;
        if let (Some(operation), Some(deployed)) =
            (observation.operation, observation.deployed.filter(|_| is_healthy))
        {
            self.observed.insert(name.to_owned(), (operation, deployed));
        }
        let spec = targets.spec_identity(live);
        let is_target = |mut there: Target| {
            self.equivalence.map_to_target(name, &mut there);
            there == target
        };
        let is_there = |done: &&Done| is_target(Target { revisions: done.revisions.clone(), spec });
        let was_seen = self.observed.get(name).is_some_and(|(_, seen)| is_target(seen.clone()));
        let was_seen = was_seen || was_observed_healthy(last, name, &target);
        let done_by = deployments.newest.as_ref().filter(is_there).filter(|_| was_seen);
        let done_by = done_by.map(|done| done.operation);
        let before = deployed_before(live, deployments.newest.as_ref());
        let before = before.map(|(operation, revisions)| {
            let there = Target { revisions, spec };
            // Leave out an operation that already deployed the target, so that a rollout to that target can
            // adopt it. The Application may not be Healthy yet.
            let operation = operation.filter(|_| !is_target(there.clone()));
            DeployedState { operation, target: there }
        });
        Ok(KnownMember { revisions: target.revisions, deployed: before, completed_by: done_by })
    }
}

/// Returns an Application's deployed revisions. If another controller synced it before, they come from the
/// history.
fn deployed_before(live: &Application, newest: Option<&Done>) -> Option<(Option<OperationId>, Vec<String>)> {
    let known = newest.map(|done| (Some(done.operation), done.revisions.clone()));
    let told = || {
        live.status.history.last().map(|last| (None, revisions_of_fields(&last.revision, &last.revisions)))
    };
    known.or_else(told).filter(|(_, revisions)| !revisions.is_empty())
}

/// Returns true if the newest rollout has seen an Application Healthy at this target, possibly in an earlier
/// process.
fn was_observed_healthy(last: Option<&State>, name: &str, target: &Target) -> bool {
    let member = last.and_then(State::rollout).and_then(|rollout| rollout.members.get(name));
    member
        .is_some_and(|member| matches!(member.progress, Progress::Healthy { .. }) && member.target == *target)
}

/// Returns true if the Application has no status yet but will get one. An Application that is never compared
/// must not block its rollout.
fn will_be_compared(live: &Application) -> bool {
    let is_wrong =
        |kind: &ConditionType| matches!(kind, ConditionType::InvalidSpecError | ConditionType::UnknownError);
    !refresh::is_skipped(live)
        && !live.is_deleting()
        && !live.status.conditions.iter().any(|condition| is_wrong(&condition.kind))
}

/// Returns a member's key. Members are in the same namespace as their ApplicationSet.
pub(super) fn member_key(set: &AppKey, name: &str) -> AppKey {
    AppKey { namespace: set.namespace.clone(), name: name.to_owned() }
}

/// Returns the observation of an Application. It includes the operation that deployed the Application only if
/// this process has since compared it with its current spec.
pub(super) fn observe_member(
    live: &Application,
    deployments: &Deployments,
    targets: &TargetIdentities,
    same: &RevisionEquivalence,
) -> MemberObservation {
    let status = &live.status;
    let evidence = deployments.evidence.as_ref().filter(|_| deployments.is_compared);
    let sync = status.sync.as_ref();
    let is_current = sync.is_some_and(|sync| sync.compared_to.as_ref() == Some(&refresh::compared_to(live)));
    let deployed = evidence.filter(|_| is_current);
    let synced = is_current && sync.is_some_and(|sync| is_synced(sync, deployed));
    let health = status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status);
    let in_words_of_target = |done: &Done| {
        let mut target = Target { revisions: done.revisions.clone(), spec: targets.spec_identity(live) };
        same.map_to_target(&live.metadata.name, &mut target);
        target
    };
    MemberObservation {
        operation: evidence.map(|done| done.operation),
        deployed: deployed.map(in_words_of_target),
        synced,
        health,
        message: if synced && health == HealthStatus::Healthy {
            String::new()
        } else {
            describe_unhealthy(live)
        },
    }
}

/// Returns true if an Application is in sync with the deployed revisions. Newer commits on its branch don't
/// count.
fn is_synced(sync: &SyncStatus, deployed: Option<&Done>) -> bool {
    let compared = || revisions_of_fields(&sync.revision, &sync.revisions);
    match sync.status {
        SyncStatusCode::Synced => true,
        SyncStatusCode::OutOfSync => deployed.is_some_and(|done| done.revisions != compared()),
        SyncStatusCode::Unknown => false,
    }
}

/// Describes why an Application is unhealthy.
fn describe_unhealthy(live: &Application) -> String {
    let status = &live.status;
    let errors = status.conditions.iter().filter(|condition| condition.kind.is_error());
    let health = status.health.as_ref().map(|health| health.message.as_str()).unwrap_or_default();
    let of_resources = status.resources.iter().filter_map(|one| {
        let HealthState { status, message, .. } = one.health.as_ref()?;
        // The Application's message already includes the first resource's.
        let is_new =
            *status != HealthStatus::Healthy && !message.is_empty() && !health.contains(message.as_str());
        is_new.then(|| format!("{} {}: {message}", one.kind, one.name))
    });
    let all = errors.map(|error| error.message.clone()).chain([health.to_owned()]).chain(of_resources);
    all.filter(|reason| !reason.is_empty()).take(REASONS_MAX).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
