//! Determines when an application must be compared.

use std::time::Duration;

use tidegate_model::Timestamp;
use tidegate_model::argo::{Application, ComparedTo};

use crate::credentials::source_without_credentials;

/// Requests a comparison: `normal`, or `hard` to bypass cached manifests.
pub const REFRESH_ANNOTATION: &str = "argocd.argoproj.io/refresh";
/// Annotation that excludes an application from reconciliation.
pub const SKIP_RECONCILE_ANNOTATION: &str = "argocd.argoproj.io/skip-reconcile";

/// Level of a comparison, from lowest to highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefreshLevel {
    /// Compares at the last compared revision, because only the cluster has changed.
    Recent,
    /// Compares at the revision from the last read of the repository.
    Latest,
    /// Compares at the current revision in the repository.
    Forced,
    /// Like [`RefreshLevel::Forced`], but without any caches.
    Hard,
}

/// Label for an application that Tidegate manages alongside Argo CD. With it, the skip annotation applies
/// only to Argo CD.
pub const MANAGED_LABEL: &str = "tidegate.dev/managed";

/// Returns true if an application must be skipped: its skip annotation is true and it isn't labeled
/// [`MANAGED_LABEL`].
pub fn is_skipped(application: &Application) -> bool {
    if application.metadata.labels.get(MANAGED_LABEL).is_some_and(|managed| managed == "true") {
        return false;
    }
    let value = application.annotation(SKIP_RECONCILE_ANNOTATION).unwrap_or_default();
    ["1", "t", "T", "true", "TRUE", "True"].contains(&value)
}

/// Returns the reason an application is skipped, or `None` if it isn't.
pub fn skip_reason(application: &Application) -> Option<String> {
    let name = &application.metadata.name;
    let says = || format!("is skipped because of its {SKIP_RECONCILE_ANNOTATION} annotation");
    is_skipped(application).then(|| match application.is_deleting() {
        true => format!(
            "application {name} is being deleted, but {}; remove the annotation or set it to \"false\" (if \
             the application's file no longer exists, restore the file without the annotation, and delete it \
             again)",
            says()
        ),
        false => format!("application {name} {}; remove the annotation or set it to \"false\"", says()),
    })
}

/// Returns the sources and the destination that the current application is compared with, without
/// credentials.
pub fn compared_to(application: &Application) -> ComparedTo {
    let spec = &application.spec;
    ComparedTo {
        source: spec.source.as_ref().filter(|_| spec.sources.is_empty()).map(source_without_credentials),
        sources: spec.sources.iter().map(source_without_credentials).collect(),
        destination: spec.destination.clone(),
        ignore_differences: spec.ignore_differences.clone(),
        ..ComparedTo::default()
    }
}

/// Removes the refresh annotation if it still has the value from when the comparison started. If it was added
/// or changed since, it stays for the next comparison, because it may refer to a newer state.
pub fn complete_refresh(application: &mut Application, began_with: Option<&str>) {
    if application.annotation(REFRESH_ANNOTATION) == began_with {
        application.metadata.annotations.remove(REFRESH_ANNOTATION);
    }
}

/// Returns the level of the comparison that is due, following Argo CD's rules in Argo CD's order. `asked` is
/// the level requested in the meantime. A comparison becomes outdated after `every`, or never if that is
/// zero.
///
/// [`comparison::apply_comparison`](crate::comparison::apply_comparison) and [`complete_refresh`] clear every
/// reason checked here. After both have run, no comparison is due until the Application changes, a request
/// arrives or `every` has passed.
pub fn due_refresh(
    application: &Application,
    asked: Option<RefreshLevel>,
    now: Timestamp,
    every: Duration,
) -> Option<RefreshLevel> {
    match application.annotation(REFRESH_ANNOTATION) {
        Some("hard") => return Some(RefreshLevel::Hard),
        Some(_) => return Some(asked.map_or(RefreshLevel::Forced, |asked| asked.max(RefreshLevel::Forced))),
        None => {}
    }
    let status = &application.status;
    let before = status.sync.as_ref().and_then(|sync| sync.compared_to.as_ref());
    let current = compared_to(application);
    let is_new =
        before.is_none_or(|before| (&before.source, &before.sources) != (&current.source, &current.sources));
    if is_new {
        return Some(asked.map_or(RefreshLevel::Forced, |asked| asked.max(RefreshLevel::Forced)));
    }
    let is_old = status.reconciled_at.is_none_or(|at| !every.is_zero() && at.timestamp() + every <= now);
    // A comparison records all of these inputs, since otherwise each comparison would immediately trigger
    // another. An OutOfSync status isn't an input: only a sync can resolve it.
    let is_about_other = before != Some(&current);
    if is_old || is_about_other {
        return Some(asked.map_or(RefreshLevel::Latest, |asked| asked.max(RefreshLevel::Latest)));
    }
    asked
}

/// Returns the time at which the last comparison becomes outdated. Returns `None` if it never does, or
/// already is: it is then being repeated, or blocked until the cause is resolved.
pub fn due_at(application: &Application, now: Timestamp, every: Duration) -> Option<Timestamp> {
    const MARGIN: Duration = Duration::from_secs(1);
    let compared = application.status.reconciled_at?.timestamp();
    let due = compared + every + MARGIN;
    (!every.is_zero() && due > now).then_some(due)
}
