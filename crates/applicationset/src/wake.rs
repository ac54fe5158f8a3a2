//! Is what has changed of a set, or of an Application, a reason to look at the set again?

use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_application::pushes::{Push, Told};
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSource, Generator, GitGenerator, ObjectMeta, OperationState,
};

use crate::generators::any;
use crate::hosted;

/// Asks for a set to be generated again; it is taken away when that is done.
pub const REFRESH_ANNOTATION: &str = "argocd.argoproj.io/application-set-refresh";

/// What follows from a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wake {
    /// Nothing.
    Nothing,
    /// Its status, and what is under way for it, are looked at.
    Status,
    /// It is generated, and its Applications are compared with that.
    Reconcile,
}

/// Whether somebody asks for a set to be generated again.
pub fn is_refresh_asked(set: &ApplicationSet) -> bool {
    set.metadata.annotations.contains_key(REFRESH_ANNOTATION)
}

/// What follows from a change of a set itself. Its status is our own word, and no news.
pub fn of_set(before: Option<&ApplicationSet>, now: Option<&ApplicationSet>) -> Wake {
    let (Some(before), Some(now)) = (before, now) else { return Wake::Reconcile };
    let (old, new) = (&before.metadata, &now.metadata);
    let is_same = before.spec == now.spec
        && old.uid == new.uid
        && old.labels == new.labels
        && others(old) == others(new)
        && (is_held(new) || !is_held(old))
        && old.deletion_timestamp == new.deletion_timestamp;
    // That it is no longer asked for is our own doing.
    let is_done = is_refresh_asked(before) && !is_refresh_asked(now);
    let without = |set: &ApplicationSet| {
        let mut annotations = set.metadata.annotations.clone();
        if is_done {
            annotations.remove(REFRESH_ANNOTATION);
        }
        annotations
    };
    if is_same && without(before) == without(now) { Wake::Nothing } else { Wake::Reconcile }
}

/// That our own finalizer was added is our own doing; that it was taken away is not.
fn is_held(one: &ObjectMeta) -> bool {
    one.finalizers.iter().any(|finalizer| finalizer == RESOURCES_FINALIZER)
}

fn others(one: &ObjectMeta) -> Vec<&String> {
    one.finalizers.iter().filter(|finalizer| *finalizer != RESOURCES_FINALIZER).collect()
}

/// What follows for its set from a change of an Application. That it is there now is mostly our own doing.
pub fn of_application(before: Option<&Application>, now: Option<&Application>) -> Wake {
    let (before, now) = match (before, now) {
        (Some(before), Some(now)) => (before, now),
        (None, Some(_)) => return Wake::Status,
        (_, None) => return Wake::Reconcile,
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
        Wake::Reconcile
    } else if stands(before) != stands(now) {
        Wake::Status
    } else {
        Wake::Nothing
    }
}

/// Whether what a server of repositories tells may change what the generators of a set say, those within others included.
/// `allows` says whether a constraint allows a version. What is a template may be any; what a plugin goes by, nobody knows.
pub fn is_told(set: &ApplicationSet, told: &Told, allows: &dyn Fn(&str, &str) -> bool) -> bool {
    any(&set.spec.generators, &|generator| match generator {
        Generator::Git(git) => told.pushes.iter().any(|push| is_pushed(git, push, allows)),
        Generator::ScmProvider(scm) => told.news.iter().any(|news| hosted::is_of_provider(scm, news)),
        Generator::PullRequest(requests) => {
            told.news.iter().any(|news| hosted::is_of_requests(requests, news))
        }
        Generator::Plugin(_) => !told.is_empty(),
        _ => false,
    })
}

fn is_pushed(git: &GitGenerator, push: &Push, allows: &dyn Fn(&str, &str) -> bool) -> bool {
    let source = ApplicationSource { repo_url: git.repo_url.clone(), ..ApplicationSource::default() };
    let may_be = |text: &str, is: bool| is || text.contains("{{");
    may_be(&git.repo_url, push.is_to(&source)) && may_be(&git.revision, push.moves(&git.revision, allows))
}

/// What of its status is of interest to a set: its health, what it was compared with and how that ended, and its operation.
fn stands(application: &Application) -> impl PartialEq {
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
