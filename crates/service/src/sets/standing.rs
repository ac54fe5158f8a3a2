//! How the Applications of a set stand, as far as a progressive sync asks: what their sources mean now, what they have, and
//! what is seen of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_application::refresh;
use tidegate_application::running::Deployed as Done;
use tidegate_application::sources::{Sources, revisions};
use tidegate_applicationset::rollout::{Standing, Targets};
use tidegate_lifecycle::rollout::{Deployed, Progress, Sight, State, Target};
use tidegate_model::argo::{Application, ConditionType, SyncStatus, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationId};

use crate::applications::store::AppKey;
use crate::applications::{Deployments, Shared, projects};

/// So many reasons are told of why an Application is not well.
const REASONS_MAX: usize = 3;

/// What was found out of the Applications of a set, and is not asked again.
#[derive(Default)]
pub(crate) struct Standings {
    /// By which operation each was brought to which target, of those that were seen Synced and Healthy since.
    seen: BTreeMap<String, (OperationId, Target)>,
}

/// How Applications stand.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Found {
    /// Those of which all is known that a rollout asks, by name.
    pub standing: BTreeMap<String, Standing>,
    /// Why nothing is known yet of the others.
    pub unknown: BTreeMap<String, String>,
}

impl Standings {
    /// How the Applications stand that take part, by the specification that is generated for them. `look`: their repositories
    /// are asked what is new, each once; otherwise what the last look has found counts. `last`: the newest rollout of the set.
    pub async fn find(
        &mut self,
        shared: &Arc<Shared>,
        (set, targets): (&AppKey, &Targets),
        participants: &[Application],
        last: Option<&State>,
        look: bool,
    ) -> Found {
        let of = |one: &Application| (Sources::of(one), projects::name_of(one).to_owned());
        let sources = participants.iter().map(of).collect();
        let (resolved, moved) = shared.manifests.resolve_all(sources, look).await;
        self.seen.retain(|name, _| participants.iter().any(|one| one.metadata.name == *name));
        shared.tell_moved(moved, None);
        let mut found = Found::default();
        for (application, resolved) in participants.iter().zip(resolved) {
            let name = &application.metadata.name;
            let live = shared.board.sight(&member(set, name));
            let standing = resolved.and_then(|revisions| {
                let target = Target { revisions, spec: targets.spec(application) };
                let live = live.as_ref().map(|(live, deployed)| (live.as_ref(), deployed.as_ref()));
                self.standing(name, target, live, (targets, last))
            });
            match standing {
                Ok(standing) => drop(found.standing.insert(name.clone(), standing)),
                Err(why) => drop(found.unknown.insert(name.clone(), why)),
            }
        }
        found
    }

    fn standing(
        &mut self,
        name: &str,
        target: Target,
        live: Option<(&Application, &Deployments)>,
        (targets, last): (&Targets, Option<&State>),
    ) -> Result<Standing, String> {
        // It is about to be made.
        let Some((live, deployments)) = live else {
            self.seen.remove(name);
            return Ok(Standing { revisions: target.revisions, before: None, done_by: None });
        };
        if !deployments.is_compared && will_be_compared(live) {
            return Err("it was not compared with its cluster yet".to_owned());
        }
        let sight = sight(live, deployments, targets);
        let is_well = sight.synced && sight.health == HealthStatus::Healthy;
        if let (Some(operation), Some(deployed)) = (sight.operation, sight.deployed.filter(|_| is_well)) {
            self.seen.insert(name.to_owned(), (operation, deployed));
        }
        let spec = targets.spec(live);
        let is_there = |done: &&Done| done.revisions == target.revisions && spec == target.spec;
        let was_seen =
            self.seen.get(name).is_some_and(|(_, seen)| *seen == target) || was_healthy(last, name, &target);
        let done_by = deployments.newest.as_ref().filter(is_there).filter(|_| was_seen);
        let done_by = done_by.map(|done| done.operation);
        let before = before(live, deployments.newest.as_ref());
        let before =
            before.map(|(operation, revisions)| Deployed { operation, target: Target { revisions, spec } });
        Ok(Standing { revisions: target.revisions, before, done_by })
    }
}

/// What an Application has. Of one that somebody else has synced before, its history says it.
fn before(live: &Application, newest: Option<&Done>) -> Option<(Option<OperationId>, Vec<String>)> {
    let known = newest.map(|done| (Some(done.operation), done.revisions.clone()));
    let told = || live.status.history.last().map(|last| (None, revisions(&last.revision, &last.revisions)));
    known.or_else(told).filter(|(_, revisions)| !revisions.is_empty())
}

/// Whether the newest rollout has seen an Application at this very target, whatever process that was.
fn was_healthy(last: Option<&State>, name: &str, target: &Target) -> bool {
    let member = last.and_then(State::rollout).and_then(|rollout| rollout.members.get(name));
    member
        .is_some_and(|member| matches!(member.progress, Progress::Healthy { .. }) && member.target == *target)
}

/// Whether what is not known of an Application yet will be: one that is left alone is not waited for.
fn will_be_compared(live: &Application) -> bool {
    let is_wrong =
        |kind: &ConditionType| matches!(kind, ConditionType::InvalidSpecError | ConditionType::UnknownError);
    !refresh::is_skipped(live)
        && !live.is_deleting()
        && !live.status.conditions.iter().any(|condition| is_wrong(&condition.kind))
}

/// The Application of a member, which is beside its set.
pub(super) fn member(set: &AppKey, name: &str) -> AppKey {
    AppKey { namespace: set.namespace.clone(), name: name.to_owned() }
}

/// What an Application is like. Which operation has brought it there is told only where what is shown was compared after that
/// by this process, and with the specification it has now.
pub(super) fn sight(live: &Application, deployments: &Deployments, targets: &Targets) -> Sight {
    let status = &live.status;
    let evidence = deployments.evidence.as_ref().filter(|_| deployments.is_compared);
    let sync = status.sync.as_ref();
    let is_current = sync.is_some_and(|sync| sync.compared_to.as_ref() == Some(&refresh::compared_to(live)));
    let deployed = evidence.filter(|_| is_current);
    let synced = is_current && sync.is_some_and(|sync| is_synced(sync, deployed));
    let health = status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status);
    Sight {
        operation: evidence.map(|done| done.operation),
        deployed: deployed.map(|done| Target { revisions: done.revisions.clone(), spec: targets.spec(live) }),
        synced,
        health,
        message: if synced && health == HealthStatus::Healthy { String::new() } else { why(live) },
    }
}

/// Whether an Application has what was deployed. That it lacks what its branch means by now says nothing of that.
fn is_synced(sync: &SyncStatus, deployed: Option<&Done>) -> bool {
    let compared = || revisions(&sync.revision, &sync.revisions);
    match sync.status {
        SyncStatusCode::Synced => true,
        SyncStatusCode::OutOfSync => deployed.is_some_and(|done| done.revisions != compared()),
        SyncStatusCode::Unknown => false,
    }
}

/// Why an Application is not well.
fn why(live: &Application) -> String {
    let status = &live.status;
    let errors = status.conditions.iter().filter(|condition| condition.kind.is_error());
    let health = status.health.iter().map(|health| &health.message);
    let of_resources = status.resources.iter().filter_map(|one| {
        let health = one.health.as_ref()?;
        let is_bad = !health.message.is_empty() && health.status != HealthStatus::Healthy;
        is_bad.then(|| format!("{} {}: {}", one.kind, one.name, health.message))
    });
    let all = errors.map(|error| error.message.clone()).chain(health.cloned()).chain(of_resources);
    all.filter(|reason| !reason.is_empty()).take(REASONS_MAX).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
