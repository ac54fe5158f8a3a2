//! Must an application be compared again?

use std::time::Duration;

use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ComparedTo};

use crate::credentials::bare;

/// Asks for a comparison: `normal`, or `hard`, which forgets what was made of the same manifests before.
pub const REFRESH_ANNOTATION: &str = "argocd.argoproj.io/refresh";
/// Says that an application is to be left alone.
pub const SKIP_ANNOTATION: &str = "argocd.argoproj.io/skip-reconcile";

/// With what an application is compared, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// With the revision it was compared with last: only the cluster has changed.
    Recent,
    /// With what its revision means by the last look at the repository.
    Latest,
    /// With what its revision means now.
    Forced,
    /// As [`Level::Forced`], and nothing that was kept is used.
    Hard,
}

/// Says that an application is ours, beside an Argo CD: what would have it left alone is then for that one.
pub const MANAGED_LABEL: &str = "tidegate.dev/managed";

/// Whether an application is left alone: its annotation says so, in a word for yes, and it is not labelled as ours.
pub fn is_skipped(application: &Application) -> bool {
    if application.metadata.labels.get(MANAGED_LABEL).is_some_and(|managed| managed == "true") {
        return false;
    }
    let value = application.annotation(SKIP_ANNOTATION).unwrap_or_default();
    ["1", "t", "T", "true", "TRUE", "True"].contains(&value)
}

/// Why nothing is done with an application that is left alone; `None` for all others.
pub fn left_alone(application: &Application) -> Option<String> {
    let name = &application.metadata.name;
    let says = || format!("is left alone, as its annotation {SKIP_ANNOTATION} says");
    is_skipped(application).then(|| match application.is_deleting() {
        true => format!(
            "application {name} is to be deleted, and {} until then; take that away, or write \"false\" there: where its file is gone, put that back without the annotation, and remove it again",
            says()
        ),
        false => format!("application {name} {}; take that away, or write \"false\" there", says()),
    })
}

/// What a comparison of the application as it is now is made with; credentials are no part of it.
pub fn compared_to(application: &Application) -> ComparedTo {
    let spec = &application.spec;
    ComparedTo {
        source: spec.source.as_ref().filter(|_| spec.sources.is_empty()).map(bare),
        sources: spec.sources.iter().map(bare).collect(),
        destination: spec.destination.clone(),
        ignore_differences: spec.ignore_differences.clone(),
        ..ComparedTo::default()
    }
}

/// A comparison has answered the request of an annotation that it began with. One that has come since, or has become another, is
/// about what may be newer than what was compared: it stays, and is answered by the next.
pub fn answered(application: &mut Application, began_with: Option<&str>) {
    if application.annotation(REFRESH_ANNOTATION) == began_with {
        application.metadata.annotations.remove(REFRESH_ANNOTATION);
    }
}

/// Whether a comparison is due, by Argo CD's rules in their order; `asked` is what was asked for meanwhile. A comparison is
/// old after `every`; zero means never.
pub fn needed(
    application: &Application,
    asked: Option<Level>,
    now: Timestamp,
    every: Duration,
) -> Option<Level> {
    match application.annotation(REFRESH_ANNOTATION) {
        Some("hard") => return Some(Level::Hard),
        Some(_) => return Some(asked.map_or(Level::Forced, |asked| asked.max(Level::Forced))),
        None => {}
    }
    let status = &application.status;
    let before = status.sync.as_ref().and_then(|sync| sync.compared_to.as_ref());
    let current = compared_to(application);
    let is_new =
        before.is_none_or(|before| (&before.source, &before.sources) != (&current.source, &current.sources));
    if is_new {
        return Some(asked.map_or(Level::Forced, |asked| asked.max(Level::Forced)));
    }
    let is_old = status.reconciled_at.is_none_or(|at| !every.is_zero() && at.moment() + every <= now);
    let is_elsewhere = before.is_some_and(|before| before.destination != current.destination);
    let ignores_other = before.is_some_and(|before| before.ignore_differences != current.ignore_differences);
    if is_old || is_elsewhere || ignores_other || has_other_namespace(application) {
        return Some(asked.map_or(Level::Latest, |asked| asked.max(Level::Latest)));
    }
    asked
}

/// When it is looked at again because its last comparison is old then. What is old already is being compared, or whatever keeps it
/// from that says when it does not any more: there is no moment to wait for.
pub fn due_at(application: &Application, now: Timestamp, every: Duration) -> Option<Timestamp> {
    const MARGIN: Duration = Duration::from_secs(1);
    let compared = application.status.reconciled_at?.moment();
    let due = compared + every + MARGIN;
    (!every.is_zero() && due > now).then_some(due)
}

/// The namespace is to bear something else than at the last sync.
fn has_other_namespace(application: &Application) -> bool {
    let policy = application.spec.sync_policy.as_ref();
    let wanted = policy.and_then(|policy| policy.managed_namespace_metadata.as_ref());
    let result = application.status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    result.is_some_and(|result| result.managed_namespace_metadata.as_ref() != wanted)
}
