//! What does an application wait for, before it is synced and before it is deleted?
//!
//! `tidegate.dev/depends-on` names other applications. Its own operation begins when each of them is Synced and Healthy as it
//! is wanted now; it is deleted when none is left that depends on it.

use std::collections::BTreeSet;
use std::fmt;

use tidegate_model::HealthStatus;
use tidegate_model::argo::{Application, ApplicationSource, SyncStatusCode};

use crate::CONTROL_NAMESPACE;
use crate::refresh;
use crate::sources::{Sources, revisions};

/// The applications that have to be there first: `ns/name, …`, or names in its own namespace.
pub const DEPENDS_ON: &str = "tidegate.dev/depends-on";
/// The longest chain that is looked at for a cycle, and the most applications of one.
const DEPENDENCIES_MAX: usize = 10_000;

/// Which application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Name {
    /// That of an application.
    pub fn of(application: &Application) -> Self {
        let metadata = &application.metadata;
        Self { namespace: metadata.home().to_owned(), name: metadata.name.clone() }
    }

    /// Whether what it says of its dependencies counts for another application: that waits with its deletion, and tells it
    /// more than how it stands. Whoever may write Applications into a namespace has a say there; the control plane has it
    /// everywhere.
    pub fn is_heard_by(&self, other: &Self) -> bool {
        self.namespace == other.namespace || self.namespace == CONTROL_NAMESPACE
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            CONTROL_NAMESPACE => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// Those that an application depends on.
pub fn of(application: &Application) -> BTreeSet<Name> {
    let own = Name::of(application);
    let given = application.annotation(DEPENDS_ON).unwrap_or_default();
    let words = given.split(',').map(str::trim).filter(|word| !word.is_empty());
    let names = words.map(|word| match word.split_once('/') {
        Some((namespace, name)) => {
            Name { namespace: namespace.trim().to_owned(), name: name.trim().to_owned() }
        }
        None => Name { namespace: own.namespace.clone(), name: word.to_owned() },
    });
    names.take(DEPENDENCIES_MAX).collect()
}

/// A cycle that an application is part of, from itself to itself; `None` where there is none. `depend` says on whom one
/// depends.
pub fn cycle(start: &Name, depend: impl Fn(&Name) -> BTreeSet<Name>) -> Option<Vec<Name>> {
    // Depth first, without recursion: a chain may be long.
    let mut seen = BTreeSet::new();
    let mut path: Vec<(Name, Vec<Name>)> = vec![(start.clone(), depend(start).into_iter().rev().collect())];
    while let Some((_, left)) = path.last_mut() {
        let Some(next) = left.pop() else {
            path.pop();
            continue;
        };
        if next == *start {
            let mut cycle: Vec<Name> = path.into_iter().map(|(name, _)| name).collect();
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

/// `a → b → a`
pub fn in_words(cycle: &[Name]) -> String {
    cycle.iter().map(Name::to_string).collect::<Vec<_>>().join(" → ")
}

/// The revisions that an application is about to deploy, and that those it depends on are to be at. Nothing where somebody has
/// chosen a commit, or goes back to one: then those it depends on may be anywhere. `found`: what its branch means for the
/// operation, where that was asked since it was compared.
pub fn deploys(application: &Application, found: Option<&[String]>) -> Vec<String> {
    let asked = application.operation.as_ref();
    let named = asked.and_then(|asked| asked.sync.as_ref());
    let named = named.map(|sync| revisions(&sync.revision, &sync.revisions)).unwrap_or_default();
    let is_automated = asked.is_some_and(|asked| asked.initiated_by.automated);
    match &application.status.sync {
        _ if !named.is_empty() => {
            if is_automated {
                named
            } else {
                Vec::new()
            }
        }
        Some(sync) => found.map_or_else(|| revisions(&sync.revision, &sync.revisions), <[String]>::to_vec),
        None => found.map(<[String]>::to_vec).unwrap_or_default(),
    }
}

/// Why an application is not there yet for one that depends on it and deploys these revisions; `None` when it is.
pub fn why_not(dependency: Option<&Application>, of: &Application, deploys: &[String]) -> Option<String> {
    let Some(dependency) = dependency else { return Some("it is not there".to_owned()) };
    let status = &dependency.status;
    let tells = Name::of(of).is_heard_by(&Name::of(dependency));
    if dependency.is_deleting() {
        return Some("it is being deleted".to_owned());
    }
    if dependency.operation.is_some() {
        let message = status.operation_state.as_ref().map(|state| state.message.as_str()).unwrap_or_default();
        let message = if message.is_empty() || !tells { String::new() } else { format!(": {message}") };
        return Some(format!("its operation is not over{message}"));
    }
    let sync = match &status.sync {
        Some(sync) if sync.compared_to.as_ref() == Some(&refresh::compared_to(dependency)) => sync,
        _ => return Some("it was not compared since it changed".to_owned()),
    };
    if sync.status != SyncStatusCode::Synced {
        return Some(format!("it is {}", sync.status));
    }
    let at = revisions(&sync.revision, &sync.revisions);
    if let Some((at, wanted)) = another_commit((dependency, &at), (of, deploys)) {
        let short = |commit: &str| commit.chars().take(7).collect::<String>();
        return Some(format!("it is at {} and is to be at {}", short(&at), short(&wanted)));
    }
    match &status.health {
        Some(health) if health.status == HealthStatus::Healthy => None,
        Some(health) if health.message.is_empty() || !tells => Some(format!("it is {:?}", health.status)),
        Some(health) => Some(format!("it is {:?}: {}", health.status, health.message)),
        None => Some("its health is not known".to_owned()),
    }
}

/// What comes from the same branch is wanted at the same commit: the one it has, and the one that is wanted.
fn another_commit(
    (dependency, at): (&Application, &[String]),
    (of, deploys): (&Application, &[String]),
) -> Option<(String, String)> {
    let (own, others) = (Sources::of(dependency).bare(), Sources::of(of).bare());
    let wanted = |source: &ApplicationSource| {
        let is_same = |(other, _): &(&ApplicationSource, &String)| {
            other.repo_url == source.repo_url
                && other.target_revision == source.target_revision
                && other.chart.is_empty()
                && source.chart.is_empty()
        };
        others.all().iter().zip(deploys).find(is_same).map(|(_, wanted)| wanted.clone())
    };
    let mut both = own.all().iter().zip(at).filter_map(|(source, at)| Some((at.clone(), wanted(source)?)));
    both.find(|(at, wanted)| !wanted.is_empty() && at != wanted)
}

#[cfg(test)]
mod tests {
    use tidegate_model::argo::{ComparedTo, HealthState, OperationRequest, Rest, SyncStatus};

    use super::*;

    fn named(text: &str) -> Name {
        let (namespace, name) = text.split_once('/').unwrap_or((CONTROL_NAMESPACE, text));
        Name { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn application(name: &str, depends_on: &str) -> Application {
        let mut application = Application::default();
        application.metadata.name = name.to_owned();
        application.metadata.annotations.insert(DEPENDS_ON.to_owned(), depends_on.to_owned());
        application
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        let mut application = application("web", " database, ops/queue ,, ops / cache");
        let names =
            |application: &Application| of(application).iter().map(Name::to_string).collect::<Vec<_>>();
        assert_eq!(names(&application), ["database", "ops/cache", "ops/queue"]);
        application.metadata.namespace = "team".to_owned();
        assert_eq!(names(&application), ["ops/cache", "ops/queue", "team/database"]);
        assert!(of(&Application::default()).is_empty());
    }

    #[test]
    fn cycles_are_found_and_named() {
        let graph = |edges: &'static [(&str, &str)]| {
            move |of: &Name| -> BTreeSet<Name> {
                edges.iter().filter(|(from, _)| named(from) == *of).map(|(_, to)| named(to)).collect()
            }
        };
        let found = |start: &str, edges| cycle(&named(start), graph(edges)).map(|cycle| in_words(&cycle));
        assert_eq!(found("a", &[("a", "a")]).as_deref(), Some("a → a"));
        let three = &[("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")];
        assert_eq!(found("a", three).as_deref(), Some("a → b → c → a"));
        assert_eq!(found("b", three).as_deref(), Some("b → c → a → b"));
        assert_eq!(found("x", three), None, "it waits for a cycle, and is in none");
        assert_eq!(
            found("a", &[("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]),
            None,
            "two ways are no cycle"
        );
        let detour = &[("a", "b"), ("b", "d"), ("a", "c"), ("c", "ops/e"), ("ops/e", "a")];
        assert_eq!(found("a", detour).as_deref(), Some("a → c → ops/e → a"));
        // A chain as long as anybody would write it costs no stack.
        let chain = |of: &Name| {
            let next = of.name.parse::<u32>().unwrap() + 1;
            BTreeSet::from([named(&next.to_string())])
        };
        assert_eq!(cycle(&named("0"), chain), None);
    }

    fn ready(revision: &str) -> Application {
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
            rest: Rest::new(),
        });
        dependency
    }

    #[test]
    fn what_is_waited_for_is_said() {
        let mut web = application("web", "database");
        web.spec.source =
            ready("").spec.source.map(|source| ApplicationSource { path: "web".to_owned(), ..source });
        let why = |change: fn(&mut Application)| {
            let mut dependency = ready("aaaaaaaaaa");
            change(&mut dependency);
            why_not(Some(&dependency), &web, &["aaaaaaaaaa".to_owned()])
        };
        assert_eq!(why(|_| {}), None);
        assert_eq!(why_not(None, &web, &[]).as_deref(), Some("it is not there"));
        type Row = (fn(&mut Application), &'static str);
        let table: [Row; 8] = [
            (|one| one.status.sync = None, "it was not compared since it changed"),
            (
                |one| one.status.sync.as_mut().unwrap().compared_to = Some(ComparedTo::default()),
                "it was not compared since it changed",
            ),
            (|one| one.status.sync.as_mut().unwrap().status = SyncStatusCode::OutOfSync, "it is OutOfSync"),
            (
                |one| one.status.sync.as_mut().unwrap().revision = "bbbbbbbbbb".to_owned(),
                "it is at bbbbbbb and is to be at aaaaaaa",
            ),
            (|one| one.status.health.as_mut().unwrap().status = HealthStatus::Degraded, "it is Degraded"),
            (|one| one.status.health = None, "its health is not known"),
            (|one| one.operation = Some(OperationRequest::default()), "its operation is not over"),
            (
                |one| one.metadata.deletion_timestamp = Some(tidegate_model::Timestamp::default().into()),
                "it is being deleted",
            ),
        ];
        for (change, expected) in table {
            assert_eq!(why(change).as_deref(), Some(expected));
        }
        // Another branch has commits of its own.
        if let Some(source) = &mut web.spec.source {
            source.target_revision = "v1".to_owned();
        }
        assert_eq!(why_not(Some(&ready("bbbbbbbbbb")), &web, &["aaaaaaaaaa".to_owned()]), None);
    }

    #[test]
    fn a_commit_that_somebody_has_chosen_is_no_wish_about_others() {
        let mut web = application("web", "database");
        assert!(deploys(&web, None).is_empty(), "nothing was compared");
        web.status.sync = Some(SyncStatus { revision: "newest".to_owned(), ..SyncStatus::default() });
        assert_eq!(deploys(&web, None), ["newest"]);
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
            assert_eq!(deploys(&web, None), expected, "{revision} {automated}");
            assert_eq!(deploys(&web, Some(&found)), newer, "{revision} {automated}");
        }
    }

    #[test]
    fn who_has_no_say_about_an_application_hears_no_more_than_how_it_stands() {
        for (one, other, expected) in [
            ("team/web", "team/database", true),
            ("argocd/web", "team/database", true),
            ("team/web", "argocd/database", false),
            ("team/web", "ops/database", false),
        ] {
            assert_eq!(named(one).is_heard_by(&named(other)), expected, "{one} {other}");
        }
        let mut web = application("web", "argocd/database");
        let mut database = ready("a");
        database.status.health.as_mut().unwrap().status = HealthStatus::Degraded;
        database.status.health.as_mut().unwrap().message = "password is wrong".to_owned();
        let told = |web: &Application| why_not(Some(&database), web, &[]).unwrap();
        assert_eq!(told(&web), "it is Degraded: password is wrong");
        web.metadata.namespace = "team".to_owned();
        assert_eq!(told(&web), "it is Degraded");
    }
}
