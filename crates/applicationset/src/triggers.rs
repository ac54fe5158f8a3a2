//! Changes to an ApplicationSet or an Application that trigger a reconciliation.

use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSource, Generator, GitGenerator, ObjectMeta, OperationState,
};

use crate::generators::has_generator;
use crate::webhook_matching;

/// Annotation that requests a reconciliation of an ApplicationSet. The controller removes it afterward.
pub const REFRESH_ANNOTATION: &str = "argocd.argoproj.io/application-set-refresh";

/// Effect of a change on an ApplicationSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReconcileTrigger {
    /// The change has no effect.
    Ignore,
    /// Updates the status and the running rollout or deletion.
    Status,
    /// Generates the Applications and reconciles them.
    Reconcile,
}

/// Returns true if the annotation requests a reconciliation of the ApplicationSet.
pub fn is_refresh_requested(set: &ApplicationSet) -> bool {
    set.metadata.annotations.contains_key(REFRESH_ANNOTATION)
}

/// Returns the effect of a change to an ApplicationSet. Status changes have none, because the controller
/// writes the status itself.
pub fn trigger_of_appset(before: Option<&ApplicationSet>, now: Option<&ApplicationSet>) -> ReconcileTrigger {
    let (Some(before), Some(now)) = (before, now) else { return ReconcileTrigger::Reconcile };
    let (old, new) = (&before.metadata, &now.metadata);
    let is_same = before.spec == now.spec
        && old.uid == new.uid
        && old.labels == new.labels
        && other_finalizers(old) == other_finalizers(new)
        && (has_finalizer(new) || !has_finalizer(old))
        && old.deletion_timestamp == new.deletion_timestamp;
    // The controller itself removes the annotation, so that isn't a change.
    let is_done = is_refresh_requested(before) && !is_refresh_requested(now);
    let without = |set: &ApplicationSet| {
        let mut annotations = set.metadata.annotations.clone();
        if is_done {
            annotations.remove(REFRESH_ANNOTATION);
        }
        annotations
    };
    if is_same && without(before) == without(now) {
        ReconcileTrigger::Ignore
    } else {
        ReconcileTrigger::Reconcile
    }
}

/// Returns true if the finalizer is present. The controller itself adds it; only other clients remove it.
fn has_finalizer(one: &ObjectMeta) -> bool {
    one.finalizers.iter().any(|finalizer| finalizer == RESOURCES_FINALIZER)
}

fn other_finalizers(one: &ObjectMeta) -> Vec<&String> {
    one.finalizers.iter().filter(|finalizer| *finalizer != RESOURCES_FINALIZER).collect()
}

/// Returns the effect of a change to an Application on its ApplicationSet. The controller usually made the
/// change itself.
pub fn trigger_of_application(before: Option<&Application>, now: Option<&Application>) -> ReconcileTrigger {
    let (before, now) = match (before, now) {
        (Some(before), Some(now)) => (before, now),
        (None, Some(_)) => return ReconcileTrigger::Status,
        (_, None) => return ReconcileTrigger::Reconcile,
    };
    let (old, new) = (&before.metadata, &now.metadata);
    let is_same = before.spec == now.spec
        && old.uid == new.uid
        && old.annotations == new.annotations
        && old.labels == new.labels
        && old.finalizers == new.finalizers
        && old.rest == new.rest
        && old.deletion_timestamp == new.deletion_timestamp;
    if !is_same {
        ReconcileTrigger::Reconcile
    } else if relevant_status(before) != relevant_status(now) {
        ReconcileTrigger::Status
    } else {
        ReconcileTrigger::Ignore
    }
}

/// Returns true if a webhook event may change the output of the generators, nested ones included. `allows`
/// checks a version against a constraint. A template expression may match any name, and the inputs of plugins
/// are unknown, so both count as affected.
pub fn is_affected_by_event(
    set: &ApplicationSet,
    webhook: &WebhookChanges,
    allows: &dyn Fn(&str, &str) -> bool,
) -> bool {
    has_generator(&set.spec.generators, &|generator| match generator {
        Generator::Git(git) => webhook.pushes.iter().any(|push| is_affected_by_push(git, push, allows)),
        Generator::ScmProvider(scm) => {
            webhook.changes.iter().any(|news| webhook_matching::matches_provider(scm, news))
        }
        Generator::PullRequest(requests) => {
            webhook.changes.iter().any(|news| webhook_matching::matches_pull_requests(requests, news))
        }
        Generator::Plugin(_) => !webhook.is_empty(),
        _ => false,
    })
}

fn is_affected_by_push(git: &GitGenerator, push: &PushEvent, allows: &dyn Fn(&str, &str) -> bool) -> bool {
    let source = ApplicationSource { repo_url: git.repo_url.clone(), ..ApplicationSource::default() };
    let may_be = |text: &str, is: bool| is || text.contains("{{");
    may_be(&git.repo_url, push.is_to(&source)) && may_be(&git.revision, push.can_move(&git.revision, allows))
}

/// Returns the parts of an Application's status that matter to its ApplicationSet: sync status, health,
/// operation, and time of the comparison.
fn relevant_status(application: &Application) -> impl PartialEq {
    let status = &application.status;
    let sync = status.sync.as_ref().map(|sync| (sync.status, sync.revision.clone(), sync.revisions.clone()));
    let operation = |state: &OperationState| (state.phase, state.started_at, state.finished_at);
    (
        sync,
        status.health.as_ref().map(|health| health.status),
        status.operation_state.as_ref().map(operation),
        status.reconciled_at,
    )
}
