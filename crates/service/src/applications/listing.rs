//! Pages of applications: those that are wanted, in an order, so many at a time.
//!
//! A page begins after a place in the order, which is known by the values there and not by a number: so what comes and goes
//! in between moves nothing. By name, each application that is there all the time comes once; in another order, each that
//! does not change in what is ordered by.

use std::cmp::Ordering;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationPhase};

use super::store::AppKey;
use crate::error::ServiceError;
use crate::lines::{health, project};

/// Which applications are wanted; all that are not excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of one of these projects; empty for any.
    pub projects: Vec<String>,
    /// That stand like this to their manifests; empty for any.
    pub sync: Vec<SyncStatusCode>,
    /// That do as well; empty for any.
    pub health: Vec<HealthStatus>,
    /// Whose operation, under way or the last, stands like this; empty for any.
    pub operation: Vec<OperationPhase>,
    /// That have this in `NAMESPACE/NAME`; empty for any.
    pub name: String,
    /// Whose labels are so.
    pub labels: Vec<LabelTerm>,
}

/// What is asked of labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTerm {
    key: String,
    /// `None` for any.
    value: Option<String>,
    /// It is not to be so.
    is_not: bool,
}

impl LabelTerm {
    /// Reads `KEY`, `!KEY`, `KEY=VALUE` and `KEY!=VALUE`, and several with commas between them.
    pub fn parse(text: &str) -> Result<Vec<Self>, ServiceError> {
        text.split(',').map(|term| Self::parse_one(term.trim())).collect()
    }

    fn parse_one(term: &str) -> Result<Self, ServiceError> {
        let (key, value, is_not) = match term.split_once('=') {
            Some((key, value)) => {
                let value = value.strip_prefix('=').unwrap_or(value);
                match key.strip_suffix('!') {
                    Some(key) => (key, Some(value), true),
                    None => (key, Some(value), false),
                }
            }
            None => match term.strip_prefix('!') {
                Some(key) => (key, None, true),
                None => (term, None, false),
            },
        };
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if key.is_empty() || !is_plain(key) || !value.is_none_or(is_plain) {
            return Err(ServiceError::refused(format!(
                "{term:?} asks nothing of a label; write KEY, !KEY, KEY=VALUE or KEY!=VALUE"
            )));
        }
        Ok(Self { key: key.to_owned(), value: value.map(str::to_owned), is_not })
    }

    fn holds(&self, application: &Application) -> bool {
        let found = application.metadata.labels.get(&self.key);
        let is_so = found.is_some_and(|found| self.value.as_ref().is_none_or(|wanted| wanted == found));
        is_so != self.is_not
    }
}

impl Wanted {
    /// Whether this is one of them.
    pub fn wants(&self, application: &Application) -> bool {
        self.is(&AppKey::of(application), application)
    }

    fn is(&self, key: &AppKey, application: &Application) -> bool {
        fn any<T: PartialEq>(wanted: &[T], is: impl FnOnce() -> Option<T>) -> bool {
            wanted.is_empty() || is().is_some_and(|is| wanted.contains(&is))
        }
        let named = || {
            let (namespace, name) = (key.namespace.to_lowercase(), key.name.to_lowercase());
            format!("{namespace}/{name}").contains(&self.name.to_lowercase())
        };
        (self.projects.is_empty() || self.projects.iter().any(|wanted| wanted == project(application)))
            && any(&self.sync, || Some(sync(application)))
            && any(&self.health, || Some(health(application)))
            && any(&self.operation, || operation(application))
            && (self.name.is_empty() || named())
            && self.labels.iter().all(|term| term.holds(application))
    }
}

/// What applications are ordered by; those that are the same in it, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderBy {
    /// Namespace and name.
    #[default]
    Name,
    /// Project.
    Project,
    /// OutOfSync first.
    Sync,
    /// The worst first.
    Health,
    /// The operation that began last, first.
    Operation,
}

/// A place in an order: after an application as it was then.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    value: String,
    namespace: String,
    name: String,
}

/// Some applications, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// They themselves.
    pub applications: Vec<Arc<Application>>,
    /// Where the next page begins; nothing where this is the last one.
    pub next: Option<Place>,
    /// How many applications are wanted, on all pages.
    pub matching: usize,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begins {
    /// After a place in the order.
    After(Place),
    /// After so many. What comes and goes before them moves it; whoever looks at a part of a long list asks so.
    Behind(usize),
}

/// A page of the wanted ones among all applications.
pub fn page(
    all: impl IntoIterator<Item = (AppKey, Arc<Application>)>,
    wanted: &Wanted,
    (by, is_reversed): (OrderBy, bool),
    begins: &Begins,
    limit: usize,
) -> Page {
    let (after, skip) = match begins {
        Begins::After(place) => (Some(place), 0),
        Begins::Behind(skip) => (None, *skip),
    };
    let order = |one: &Place, other: &Place| -> Ordering {
        if is_reversed { other.cmp(one) } else { one.cmp(other) }
    };
    let mut matching = 0_usize;
    let mut following: Vec<(Place, Arc<Application>)> = Vec::new();
    for (key, application) in all.into_iter().filter(|(key, application)| wanted.is(key, application)) {
        matching = matching.saturating_add(1);
        let place = Place { value: value(&application, by), namespace: key.namespace, name: key.name };
        if after.is_none_or(|after| order(&place, after).is_gt()) {
            following.push((place, application));
        }
    }
    let limit = limit.max(1);
    if skip >= following.len() {
        following.clear();
    } else if skip > 0 {
        following.select_nth_unstable_by(skip, |(one, _), (other, _)| order(one, other));
        following.drain(..skip);
    }
    let has_more = following.len() > limit;
    if has_more {
        following.select_nth_unstable_by(limit, |(one, _), (other, _)| order(one, other));
        following.truncate(limit);
    }
    following.sort_unstable_by(|(one, _), (other, _)| order(one, other));
    let next = following.last().filter(|_| has_more).map(|(place, _)| place.clone());
    Page { applications: following.into_iter().map(|(_, application)| application).collect(), next, matching }
}

/// What an application is ordered by, as a text that sorts so.
fn value(application: &Application, by: OrderBy) -> String {
    /// From the latest to the earliest.
    fn backwards(moment: i64) -> String {
        format!("{:019}", i64::MAX.saturating_sub(moment.max(0)))
    }
    match by {
        OrderBy::Name => String::new(),
        OrderBy::Project => project(application).to_owned(),
        OrderBy::Sync => match sync(application) {
            SyncStatusCode::OutOfSync => "0",
            SyncStatusCode::Unknown => "1",
            SyncStatusCode::Synced => "2",
        }
        .to_owned(),
        OrderBy::Health => match health(application) {
            HealthStatus::Degraded => "0",
            HealthStatus::Missing => "1",
            HealthStatus::Unknown => "2",
            HealthStatus::Progressing => "3",
            HealthStatus::Suspended => "4",
            HealthStatus::Healthy => "5",
        }
        .to_owned(),
        OrderBy::Operation => {
            let state = application.status.operation_state.as_ref();
            backwards(state.map_or(0, |state| state.started_at.moment().as_millis()))
        }
    }
}

fn sync(application: &Application) -> SyncStatusCode {
    application.status.sync.as_ref().map(|sync| sync.status).unwrap_or_default()
}

fn operation(application: &Application) -> Option<OperationPhase> {
    let state = application.status.operation_state.as_ref();
    let asked = application.operation.is_some().then_some(OperationPhase::Running);
    match state {
        Some(state) if asked.is_none() || state.finished_at.is_none() => Some(state.phase),
        _ => asked,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests stop at the first surprise")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tidegate_model::argo::{HealthState, Rest, SyncStatus};

    use super::*;

    fn application(name: &str, health: HealthStatus, labels: &[(&str, &str)]) -> Arc<Application> {
        let mut application = Application::default();
        application.metadata.name = name.to_owned();
        application.metadata.labels =
            labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        application.status.health = Some(HealthState {
            status: health,
            message: String::new(),
            last_transition_time: None,
            rest: Rest::new(),
        });
        application.status.sync =
            Some(SyncStatus { status: SyncStatusCode::Synced, ..SyncStatus::default() });
        Arc::new(application)
    }

    type All = BTreeMap<AppKey, Arc<Application>>;

    fn put(all: &mut All, name: &str, health: HealthStatus) {
        let application = application(name, health, &[]);
        all.insert(AppKey::of(&application), application);
    }

    fn names(page: &Page) -> Vec<&str> {
        page.applications.iter().map(|one| one.metadata.name.as_str()).collect()
    }

    #[test]
    fn what_is_wanted_is_found() {
        let mut all = All::new();
        put(&mut all, "shop", HealthStatus::Healthy);
        put(&mut all, "shop-eu", HealthStatus::Degraded);
        let labelled = application("blog", HealthStatus::Healthy, &[("team", "web"), ("tier", "1")]);
        all.insert(AppKey::of(&labelled), labelled);
        let find = |wanted: &Wanted| {
            let found = page(all.clone(), wanted, (OrderBy::Name, false), &Begins::Behind(0), 100);
            names(&found).join(",")
        };
        let labels = |text| Wanted { labels: LabelTerm::parse(text).unwrap(), ..Wanted::default() };
        assert_eq!(find(&Wanted::default()), "blog,shop,shop-eu");
        assert_eq!(find(&Wanted { name: "SHOP".to_owned(), ..Wanted::default() }), "shop,shop-eu");
        assert_eq!(find(&Wanted { health: vec![HealthStatus::Degraded], ..Wanted::default() }), "shop-eu");
        assert_eq!(find(&Wanted { sync: vec![SyncStatusCode::OutOfSync], ..Wanted::default() }), "");
        assert_eq!(find(&Wanted { operation: vec![OperationPhase::Running], ..Wanted::default() }), "");
        assert_eq!(
            find(&Wanted { projects: vec!["default".to_owned()], ..Wanted::default() }),
            "blog,shop,shop-eu"
        );
        for (text, expected) in [
            ("team", "blog"),
            ("!team", "shop,shop-eu"),
            ("team=web", "blog"),
            ("team==web,tier=1", "blog"),
            ("team=web,tier=2", ""),
            ("team!=web", "shop,shop-eu"),
        ] {
            assert_eq!(find(&labels(text)), expected, "{text}");
        }
        for text in ["", "=web", "team=a b", "a,,b", "team in (a)"] {
            assert!(LabelTerm::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_worst_comes_first_and_backwards_last() {
        let mut all = All::new();
        for (name, health) in [
            ("a", HealthStatus::Healthy),
            ("b", HealthStatus::Degraded),
            ("c", HealthStatus::Progressing),
            ("d", HealthStatus::Degraded),
        ] {
            put(&mut all, name, health);
        }
        let first = page(all.clone(), &Wanted::default(), (OrderBy::Health, false), &Begins::Behind(0), 3);
        assert_eq!((names(&first), first.matching), (vec!["b", "d", "c"], 4));
        let next = Begins::After(first.next.unwrap());
        let second = page(all.clone(), &Wanted::default(), (OrderBy::Health, false), &next, 3);
        assert_eq!((names(&second), &second.next), (vec!["a"], &None));
        for (skip, expected) in [(0, "b,d"), (1, "d,c"), (2, "c,a"), (3, "a"), (4, ""), (usize::MAX, "")] {
            let part =
                page(all.clone(), &Wanted::default(), (OrderBy::Health, false), &Begins::Behind(skip), 2);
            assert_eq!((names(&part).join(","), part.matching), (expected.to_owned(), 4), "{skip}");
            assert_eq!(part.next.is_some(), skip < 2);
        }
        let backwards = page(all, &Wanted::default(), (OrderBy::Health, true), &Begins::Behind(0), 9);
        assert_eq!(names(&backwards), ["a", "c", "d", "b"]);
    }

    /// Numbers from a seed, the same every time.
    struct Draw(u64);

    impl Draw {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    #[test]
    fn what_is_there_all_the_time_comes_once_whatever_else_changes() {
        let kinds = [HealthStatus::Healthy, HealthStatus::Degraded, HealthStatus::Missing];
        for seed in 0..300 {
            let mut draw = Draw(seed);
            let by = if draw.below(2) == 0 { OrderBy::Name } else { OrderBy::Health };
            let order = (by, draw.below(2) == 0);
            let limit = usize::try_from(draw.below(7)).unwrap() + 1;
            let mut all = All::new();
            for number in 0..draw.below(40) {
                put(&mut all, &format!("a{number}"), kinds[usize::try_from(draw.below(3)).unwrap()]);
            }
            let mut stays: BTreeSet<String> = all.keys().map(|key| key.name.clone()).collect();
            let (mut told, mut begins) = (Vec::new(), Begins::Behind(0));
            loop {
                let found = page(all.clone(), &Wanted::default(), order, &begins, limit);
                assert!(found.applications.len() <= limit && found.matching == all.len());
                told.extend(found.applications.iter().map(|one| one.metadata.name.clone()));
                match found.next {
                    Some(place) => begins = Begins::After(place),
                    None => break,
                }
                // Something comes, goes, or changes in what is ordered by.
                let name = format!("a{}", draw.below(60));
                match draw.below(3) {
                    0 => all.retain(|key, _| key.name != name),
                    _ => put(&mut all, &name, kinds[usize::try_from(draw.below(3)).unwrap()]),
                }
                let is_same = by == OrderBy::Name && all.keys().any(|key| key.name == name);
                if !is_same {
                    stays.remove(&name);
                }
            }
            for name in &stays {
                assert_eq!(
                    told.iter().filter(|told| *told == name).count(),
                    1,
                    "seed {seed}: {name} in {told:?}"
                );
            }
            if by == OrderBy::Name {
                let different: BTreeSet<&String> = told.iter().collect();
                assert_eq!(different.len(), told.len(), "seed {seed}: nothing comes twice");
            }
        }
    }
}
