//! Dependencies between applications, which delay their syncs and deletions.
//!
//! `tidegate.dev/depends-on` lists other applications. An operation doesn't start until all of them are
//! Synced and Healthy at their current spec, and an application isn't deleted while another depends on it.

use std::collections::BTreeSet;

use tidegate_model::HealthStatus;
use tidegate_model::argo::{Application, ApplicationSource, SyncStatusCode};

use crate::AppKey;
use crate::refresh;
use crate::sources::{Sources, revisions_of_fields};

/// Lists an application's dependencies: `NAMESPACE/NAME, …`, or names in the application's own namespace.
pub const DEPENDS_ON: &str = tidegate_model::annotations::DEPENDS_ON;
/// Maximum number of applications to search for a cycle, and of dependencies per application.
const DEPENDENCIES_MAX: usize = 10_000;

/// Returns true if an application's dependency on `other` may delay the deletion of `other`, and may reveal
/// the messages of `other` in addition to its status. An application only affects its own namespace, unless
/// it is in the control plane's. Otherwise, permission to write Applications in one namespace would give
/// access to others.
pub fn affects(application: &AppKey, other: &AppKey) -> bool {
    application.namespace == other.namespace || application.is_in_control_plane()
}

/// Returns the dependencies of an application.
pub fn dependencies_of(application: &Application) -> BTreeSet<AppKey> {
    let own = AppKey::of(application);
    let given = application.annotation(DEPENDS_ON).unwrap_or_default();
    let text = given.split(',').map(str::trim).filter(|word| !word.is_empty());
    let names = text.map(|word| match word.split_once('/') {
        Some((namespace, name)) => {
            AppKey { namespace: namespace.trim().to_owned(), name: name.trim().to_owned() }
        }
        None => AppKey { namespace: own.namespace.clone(), name: word.to_owned() },
    });
    names.take(DEPENDENCIES_MAX).collect()
}

/// Returns a dependency cycle that starts and ends at an application, if there is one. `depend` returns the
/// dependencies of an application.
pub fn find_cycle(start: &AppKey, depend: impl Fn(&AppKey) -> BTreeSet<AppKey>) -> Option<Vec<AppKey>> {
    // Depth-first search without recursion, because a chain of dependencies may be long.
    let mut seen = BTreeSet::new();
    let mut path: Vec<(AppKey, Vec<AppKey>)> =
        vec![(start.clone(), depend(start).into_iter().rev().collect())];
    while let Some((_, left)) = path.last_mut() {
        let Some(next) = left.pop() else {
            path.pop();
            continue;
        };
        if next == *start {
            let mut cycle: Vec<AppKey> = path.into_iter().map(|(name, _)| name).collect();
            cycle.push(next);
            return Some(cycle);
        }
        if seen.len() < DEPENDENCIES_MAX && seen.insert(next.clone()) {
            let onwards = depend(&next).into_iter().rev().collect();
            path.push((next, onwards));
        }
    }
    None
}

/// Formats a cycle as `a → b → a`.
pub fn format_cycle(cycle: &[AppKey]) -> String {
    cycle.iter().map(AppKey::to_string).collect::<Vec<_>>().join(" → ")
}

/// Returns the revisions that an application is about to deploy, and that its dependencies must have deployed
/// too. Empty if a user chose a commit or a rollback, because the dependencies may then be at any revision.
/// `found` contains the revisions resolved for the operation after the last comparison.
pub fn revisions_to_deploy(application: &Application, found: Option<&[String]>) -> Vec<String> {
    let asked = application.operation.as_ref();
    let named = asked.and_then(|asked| asked.sync.as_ref());
    let named = named.map(|sync| revisions_of_fields(&sync.revision, &sync.revisions)).unwrap_or_default();
    let is_automated = asked.is_some_and(|asked| asked.initiated_by.automated);
    match &application.status.sync {
        _ if !named.is_empty() => {
            if is_automated {
                named
            } else {
                Vec::new()
            }
        }
        Some(sync) => {
            found.map_or_else(|| revisions_of_fields(&sync.revision, &sync.revisions), <[String]>::to_vec)
        }
        None => found.map(<[String]>::to_vec).unwrap_or_default(),
    }
}

/// Returns the reason a dependency isn't ready for an application that deploys these revisions, or `None` if
/// it is.
pub fn dependency_delay(
    dependency: Option<&Application>,
    of: &Application,
    deploys: &[String],
) -> Option<String> {
    let Some(dependency) = dependency else { return Some("it does not exist".to_owned()) };
    let status = &dependency.status;
    let tells = affects(&AppKey::of(of), &AppKey::of(dependency));
    if dependency.is_deleting() {
        return Some("it is being deleted".to_owned());
    }
    if dependency.operation.is_some() {
        let message = status.operation_state.as_ref().map(|state| state.message.as_str()).unwrap_or_default();
        let message = if message.is_empty() || !tells { String::new() } else { format!(": {message}") };
        return Some(format!("its operation is still running{message}"));
    }
    let sync = match &status.sync {
        Some(sync) if sync.compared_to.as_ref() == Some(&refresh::compared_to(dependency)) => sync,
        _ => return Some("it has not been compared since it changed".to_owned()),
    };
    if sync.status != SyncStatusCode::Synced {
        return Some(format!("it is {}", sync.status));
    }
    let at = revisions_of_fields(&sync.revision, &sync.revisions);
    if let Some((at, wanted)) = mismatched_commits(dependency, &at, of, deploys) {
        let short = |commit: &str| commit.chars().take(7).collect::<String>();
        return Some(format!("it is at {} and should be at {}", short(&at), short(&wanted)));
    }
    match &status.health {
        Some(health) if health.status == HealthStatus::Healthy => None,
        Some(health) if health.message.is_empty() || !tells => Some(format!("it is {:?}", health.status)),
        Some(health) => Some(format!("it is {:?}: {}", health.status, health.message)),
        None => Some("its health is unknown".to_owned()),
    }
}

/// Returns the deployed and the required commit if a dependency that follows the same branch is at the wrong
/// commit.
fn mismatched_commits(
    dependency: &Application,
    at: &[String],
    of: &Application,
    deploys: &[String],
) -> Option<(String, String)> {
    let (own, others) = (
        Sources::from_application(dependency).without_credentials(),
        Sources::from_application(of).without_credentials(),
    );
    let wanted = |source: &ApplicationSource| {
        let is_same = |(other, _): &(&ApplicationSource, &String)| {
            other.repo_url == source.repo_url
                && other.target_revision == source.target_revision
                && other.chart.is_empty()
                && source.chart.is_empty()
        };
        others.as_slice().iter().zip(deploys).find(is_same).map(|(_, wanted)| wanted.clone())
    };
    let mut both =
        own.as_slice().iter().zip(at).filter_map(|(source, at)| Some((at.clone(), wanted(source)?)));
    both.find(|(at, wanted)| !wanted.is_empty() && at != wanted)
}

#[cfg(test)]
mod tests {
    use tidegate_model::argo::{ComparedTo, HealthState, OperationRequest, SyncStatus, UnknownFields};

    use super::*;

    fn application(name: &str, depends_on: &str) -> Application {
        let mut application = Application::default();
        application.metadata.name = name.to_owned();
        application.metadata.annotations.insert(DEPENDS_ON.to_owned(), depends_on.to_owned());
        application
    }

    #[test]
    fn dependency_names_are_parsed() {
        let mut application = application("web", " database, ops/queue ,, ops / cache");
        let names = |application: &Application| {
            dependencies_of(application).iter().map(AppKey::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&application), ["database", "ops/cache", "ops/queue"]);
        application.metadata.namespace = "team".to_owned();
        assert_eq!(names(&application), ["ops/cache", "ops/queue", "team/database"]);
        assert!(dependencies_of(&Application::default()).is_empty());
    }

    #[test]
    fn cycles_are_found_and_named() {
        let graph = |edges: &'static [(&str, &str)]| {
            move |of: &AppKey| -> BTreeSet<AppKey> {
                edges
                    .iter()
                    .filter(|(from, _)| AppKey::parse(from) == *of)
                    .map(|(_, to)| AppKey::parse(to))
                    .collect()
            }
        };
        let found = |start: &str, edges| {
            find_cycle(&AppKey::parse(start), graph(edges)).map(|cycle| format_cycle(&cycle))
        };
        assert_eq!(found("a", &[("a", "a")]).as_deref(), Some("a → a"));
        let three = &[("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")];
        assert_eq!(found("a", three).as_deref(), Some("a → b → c → a"));
        assert_eq!(found("b", three).as_deref(), Some("b → c → a → b"));
        assert_eq!(found("x", three), None, "the application depends on a cycle without being part of it");
        assert_eq!(
            found("a", &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]),
            None,
            "two paths are not a cycle"
        );
        let detour = &[("a", "b"), ("b", "d"), ("a", "c"), ("c", "ops/e"), ("ops/e", "a")];
        assert_eq!(found("a", detour).as_deref(), Some("a → c → ops/e → a"));
        // A very long chain must not overflow the stack.
        let chain = |of: &AppKey| {
            let next = of.name.parse::<u32>().unwrap() + 1;
            BTreeSet::from([AppKey::parse(&next.to_string())])
        };
        assert_eq!(find_cycle(&AppKey::parse("0"), chain), None);
    }

    fn ready_application(revision: &str) -> Application {
        let mut dependency = application("database", "");
        dependency.spec.source = Some(ApplicationSource {
            repo_url: "https://example.com/fleet".to_owned(),
            target_revision: "main".to_owned(),
            path: "database".to_owned(),
            ..ApplicationSource::default()
        });
        dependency.status.sync = Some(SyncStatus {
            status: SyncStatusCode::Synced,
            compared_to: Some(refresh::compared_to(&dependency)),
            revision: revision.to_owned(),
            ..SyncStatus::default()
        });
        dependency.status.health = Some(HealthState {
            status: HealthStatus::Healthy,
            message: String::new(),
            last_transition_time: None,
            rest: UnknownFields::new(),
        });
        dependency
    }

    #[test]
    fn the_awaited_dependency_is_reported() {
        let mut web = application("web", "database");
        web.spec.source = ready_application("")
            .spec
            .source
            .map(|source| ApplicationSource { path: "web".to_owned(), ..source });
        let reason = |change: fn(&mut Application)| {
            let mut dependency = ready_application("aaaaaaaaaa");
            change(&mut dependency);
            dependency_delay(Some(&dependency), &web, &["aaaaaaaaaa".to_owned()])
        };
        assert_eq!(reason(|_| {}), None);
        assert_eq!(dependency_delay(None, &web, &[]).as_deref(), Some("it does not exist"));
        type Row = (fn(&mut Application), &'static str);
        let table: [Row; 8] = [
            (|one| one.status.sync = None, "it has not been compared since it changed"),
            (
                |one| one.status.sync.as_mut().unwrap().compared_to = Some(ComparedTo::default()),
                "it has not been compared since it changed",
            ),
            (|one| one.status.sync.as_mut().unwrap().status = SyncStatusCode::OutOfSync, "it is OutOfSync"),
            (
                |one| one.status.sync.as_mut().unwrap().revision = "bbbbbbbbbb".to_owned(),
                "it is at bbbbbbb and should be at aaaaaaa",
            ),
            (|one| one.status.health.as_mut().unwrap().status = HealthStatus::Degraded, "it is Degraded"),
            (|one| one.status.health = None, "its health is unknown"),
            (|one| one.operation = Some(OperationRequest::default()), "its operation is still running"),
            (
                |one| one.metadata.deletion_timestamp = Some(tidegate_model::Timestamp::default().into()),
                "it is being deleted",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(reason(change).as_deref(), Some(expected));
        }
        // Different branches have different commits.
        if let Some(source) = &mut web.spec.source {
            source.target_revision = "v1".to_owned();
        }
        assert_eq!(
            dependency_delay(Some(&ready_application("bbbbbbbbbb")), &web, &["aaaaaaaaaa".to_owned()]),
            None
        );
    }

    #[test]
    fn a_requested_commit_does_not_bind_dependencies() {
        let mut web = application("web", "database");
        assert!(revisions_to_deploy(&web, None).is_empty(), "there was no comparison");
        web.status.sync = Some(SyncStatus { revision: "newest".to_owned(), ..SyncStatus::default() });
        assert_eq!(revisions_to_deploy(&web, None), ["newest"]);
        let operation = |revision: &str, automated: bool| {
            let mut asked = OperationRequest::default();
            asked.initiated_by.automated = automated;
            asked.sync.get_or_insert_default().revision = revision.to_owned();
            Some(asked)
        };
        let found = ["found".to_owned()];
        for (revision, automated, expected, newer) in [
            ("", false, &["newest"][..], &["found"][..]),
            ("decided", true, &["decided"], &["decided"]),
            ("chosen", false, &[], &[]),
        ] {
            web.operation = operation(revision, automated);
            assert_eq!(revisions_to_deploy(&web, None), expected, "{revision} {automated}");
            assert_eq!(revisions_to_deploy(&web, Some(&found)), newer, "{revision} {automated}");
        }
    }

    #[test]
    fn unrelated_applications_see_only_the_status() {
        for (one, other, expected) in [
            ("team/web", "team/database", true),
            ("argocd/web", "team/database", true),
            ("team/web", "argocd/database", false),
            ("team/web", "ops/database", false),
        ] {
            assert_eq!(affects(&AppKey::parse(one), &AppKey::parse(other)), expected, "{one} {other}");
        }
        let mut web = application("web", "argocd/database");
        let mut database = ready_application("a");
        database.status.health.as_mut().unwrap().status = HealthStatus::Degraded;
        database.status.health.as_mut().unwrap().message = "password is wrong".to_owned();
        let told = |web: &Application| dependency_delay(Some(&database), web, &[]).unwrap();
        assert_eq!(told(&web), "it is Degraded: password is wrong");
        web.metadata.namespace = "team".to_owned();
        assert_eq!(told(&web), "it is Degraded");
    }
}
