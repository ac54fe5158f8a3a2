//! Pages of Applications that are filtered, sorted and limited in size.
//!
//! A page starts after a position in the sort order. Positions are values rather than offsets, so added or
//! removed Applications don't shift them. An Application that exists throughout is listed exactly once,
//! unless its sort value changes.

use std::cmp::Ordering;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::argo::{Application, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationOutcome};

use tidegate_application::AppKey;
use tidegate_application::project::project_name;
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::health_status;

/// Filter for Applications. An Application must match all fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationFilter {
    /// Projects; empty for any project.
    pub projects: Vec<String>,
    /// Sync statuses; empty for any status.
    pub sync: Vec<SyncStatusCode>,
    /// Health statuses; empty for any health.
    pub health: Vec<HealthStatus>,
    /// Outcomes of the current or last operation; empty for any outcome.
    pub operation: Vec<OperationOutcome>,
    /// Part of `NAMESPACE/NAME`, ignoring case; empty for any name.
    pub name: String,
    /// Conditions on labels.
    pub labels: Vec<LabelTerm>,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelTerm {
    key: String,
    /// Required value, or `None` for any value.
    value: Option<String>,
    /// True if the condition is negated.
    is_negated: bool,
}

impl LabelTerm {
    /// Parses comma-separated terms: `KEY`, `!KEY`, `KEY=VALUE` and `KEY!=VALUE`.
    pub fn parse(text: &str) -> Result<Vec<Self>, ServiceError> {
        text.split(',').map(|term| Self::parse_term(term.trim())).collect()
    }

    fn parse_term(term: &str) -> Result<Self, ServiceError> {
        let (key, value, is_negated) = match term.split_once('=') {
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
                "invalid label selector {term:?}: use KEY, !KEY, KEY=VALUE or KEY!=VALUE"
            )));
        }
        Ok(Self { key: key.to_owned(), value: value.map(str::to_owned), is_negated })
    }

    fn matches(&self, application: &Application) -> bool {
        let found = application.metadata.labels.get(&self.key);
        let is_so = found.is_some_and(|found| self.value.as_ref().is_none_or(|wanted| wanted == found));
        is_so != self.is_negated
    }
}

impl ApplicationFilter {
    /// Returns true if the Application matches.
    pub fn matches(&self, application: &Application) -> bool {
        self.has_matching_fields(&AppKey::of(application), application)
    }

    fn has_matching_fields(&self, key: &AppKey, application: &Application) -> bool {
        fn matches_any<T: PartialEq>(wanted: &[T], is: impl FnOnce() -> Option<T>) -> bool {
            wanted.is_empty() || is().is_some_and(|is| wanted.contains(&is))
        }
        let named = || {
            let (namespace, name) = (key.namespace.to_lowercase(), key.name.to_lowercase());
            format!("{namespace}/{name}").contains(&self.name.to_lowercase())
        };
        (self.projects.is_empty() || self.projects.iter().any(|wanted| wanted == project_name(application)))
            && matches_any(&self.sync, || Some(sync_status(application)))
            && matches_any(&self.health, || Some(health_status(application)))
            && matches_any(&self.operation, || operation_outcome(application))
            && (self.name.is_empty() || named())
            && self.labels.iter().all(|term| term.matches(application))
    }
}

/// Sort order of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SortOrder {
    /// Field.
    pub by: OrderBy,
    /// True for the reversed order.
    pub is_reversed: bool,
}

/// Field to sort Applications by. Applications with the same value are sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OrderBy {
    /// Namespace and name.
    #[default]
    Name,
    /// Project.
    Project,
    /// Sync status, OutOfSync first.
    Sync,
    /// Health, worst first.
    Health,
    /// Time of the operation, latest first.
    Operation,
}

/// Position in a sort order, directly after an Application with these values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PagePosition {
    value: String,
    namespace: String,
    name: String,
}

/// A page of Applications, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Applications on the page.
    pub applications: Vec<Arc<Application>>,
    /// Start of the next page, or `None` on the last page.
    pub next: Option<PagePosition>,
    /// Number of matching applications on all pages.
    pub matching: usize,
}

/// Start of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageStart {
    /// After this position in the order.
    After(PagePosition),
    /// After this many Applications, to show a part of a long list. The page shifts if Applications before it
    /// are added or removed.
    Offset(usize),
}

/// Returns a page of the matching Applications.
pub fn page(
    all: impl IntoIterator<Item = (AppKey, Arc<Application>)>,
    filter: &ApplicationFilter,
    SortOrder { by, is_reversed }: SortOrder,
    begins: &PageStart,
    limit: usize,
) -> Page {
    let (after, skip) = match begins {
        PageStart::After(place) => (Some(place), 0),
        PageStart::Offset(skip) => (None, *skip),
    };
    let order = |one: &PagePosition, other: &PagePosition| -> Ordering {
        if is_reversed { other.cmp(one) } else { one.cmp(other) }
    };
    let mut matching = 0_usize;
    let mut following: Vec<(PagePosition, Arc<Application>)> = Vec::new();
    for (key, application) in
        all.into_iter().filter(|(key, application)| filter.has_matching_fields(key, application))
    {
        matching = matching.saturating_add(1);
        let place = PagePosition {
            value: ordering_value(&application, by),
            namespace: key.namespace,
            name: key.name,
        };
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

/// Returns an Application's sort value as sortable text.
fn ordering_value(application: &Application, by: OrderBy) -> String {
    /// Converts a time to text that sorts from the latest to the earliest.
    fn descending(moment: i64) -> String {
        format!("{:019}", i64::MAX.saturating_sub(moment.max(0)))
    }
    match by {
        OrderBy::Name => String::new(),
        OrderBy::Project => project_name(application).to_owned(),
        OrderBy::Sync => match sync_status(application) {
            SyncStatusCode::OutOfSync => "0",
            SyncStatusCode::Unknown => "1",
            SyncStatusCode::Synced => "2",
        }
        .to_owned(),
        OrderBy::Health => match health_status(application) {
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
            descending(state.map_or(0, |state| state.started_at.timestamp().as_millis()))
        }
    }
}

fn sync_status(application: &Application) -> SyncStatusCode {
    application.status.sync.as_ref().map(|sync| sync.status).unwrap_or_default()
}

fn operation_outcome(application: &Application) -> Option<OperationOutcome> {
    let state = application.status.operation_state.as_ref();
    let pending = application.operation.is_some().then_some(OperationOutcome::Running);
    match state {
        Some(state) if pending.is_none() || state.finished_at.is_none() => {
            Some(OperationOutcome::from_phase(state.phase, &state.message))
        }
        _ => pending,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may panic")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use tidegate_model::argo::{HealthState, SyncStatus, UnknownFields};

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
            rest: UnknownFields::new(),
        });
        application.status.sync =
            Some(SyncStatus { status: SyncStatusCode::Synced, ..SyncStatus::default() });
        Arc::new(application)
    }

    type ApplicationMap = BTreeMap<AppKey, Arc<Application>>;

    fn add_application(all: &mut ApplicationMap, name: &str, health: HealthStatus) {
        let application = application(name, health, &[]);
        all.insert(AppKey::of(&application), application);
    }

    fn names(page: &Page) -> Vec<&str> {
        page.applications.iter().map(|one| one.metadata.name.as_str()).collect()
    }

    #[test]
    fn filters_select_the_matching_applications() {
        let mut all = ApplicationMap::new();
        add_application(&mut all, "shop", HealthStatus::Healthy);
        add_application(&mut all, "shop-eu", HealthStatus::Degraded);
        let labelled = application("blog", HealthStatus::Healthy, &[("team", "web"), ("tier", "1")]);
        all.insert(AppKey::of(&labelled), labelled);
        let find = |filter: &ApplicationFilter| {
            let found = page(
                all.clone(),
                filter,
                SortOrder { by: OrderBy::Name, is_reversed: false },
                &PageStart::Offset(0),
                100,
            );
            names(&found).join(",")
        };
        let labels = |text| ApplicationFilter {
            labels: LabelTerm::parse(text).unwrap(),
            ..ApplicationFilter::default()
        };
        assert_eq!(find(&ApplicationFilter::default()), "blog,shop,shop-eu");
        assert_eq!(
            find(&ApplicationFilter { name: "SHOP".to_owned(), ..ApplicationFilter::default() }),
            "shop,shop-eu"
        );
        assert_eq!(
            find(&ApplicationFilter { health: vec![HealthStatus::Degraded], ..ApplicationFilter::default() }),
            "shop-eu"
        );
        assert_eq!(
            find(&ApplicationFilter {
                sync: vec![SyncStatusCode::OutOfSync],
                ..ApplicationFilter::default()
            }),
            ""
        );
        assert_eq!(
            find(&ApplicationFilter {
                operation: vec![OperationOutcome::Running],
                ..ApplicationFilter::default()
            }),
            ""
        );
        assert_eq!(
            find(&ApplicationFilter { projects: vec!["default".to_owned()], ..ApplicationFilter::default() }),
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
    fn the_worst_health_comes_first() {
        let mut all = ApplicationMap::new();
        for (name, health) in [
            ("a", HealthStatus::Healthy),
            ("b", HealthStatus::Degraded),
            ("c", HealthStatus::Progressing),
            ("d", HealthStatus::Degraded),
        ] {
            add_application(&mut all, name, health);
        }
        let first = page(
            all.clone(),
            &ApplicationFilter::default(),
            SortOrder { by: OrderBy::Health, is_reversed: false },
            &PageStart::Offset(0),
            3,
        );
        assert_eq!((names(&first), first.matching), (vec!["b", "d", "c"], 4));
        let next = PageStart::After(first.next.unwrap());
        let second = page(
            all.clone(),
            &ApplicationFilter::default(),
            SortOrder { by: OrderBy::Health, is_reversed: false },
            &next,
            3,
        );
        assert_eq!((names(&second), &second.next), (vec!["a"], &None));
        for (skip, expected) in [(0, "b,d"), (1, "d,c"), (2, "c,a"), (3, "a"), (4, ""), (usize::MAX, "")] {
            let part = page(
                all.clone(),
                &ApplicationFilter::default(),
                SortOrder { by: OrderBy::Health, is_reversed: false },
                &PageStart::Offset(skip),
                2,
            );
            assert_eq!((names(&part).join(","), part.matching), (expected.to_owned(), 4), "{skip}");
            assert_eq!(part.next.is_some(), skip < 2);
        }
        let backwards = page(
            all,
            &ApplicationFilter::default(),
            SortOrder { by: OrderBy::Health, is_reversed: true },
            &PageStart::Offset(0),
            9,
        );
        assert_eq!(names(&backwards), ["a", "c", "d", "b"]);
    }

    /// Reproducible random numbers, generated from a seed.
    struct RandomNumbers(u64);

    impl RandomNumbers {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }
    }

    #[test]
    fn unchanged_applications_are_on_exactly_one_page_despite_other_changes() {
        let kinds = [HealthStatus::Healthy, HealthStatus::Degraded, HealthStatus::Missing];
        for seed in 0..300 {
            let mut draw = RandomNumbers(seed);
            let by = if draw.below(2) == 0 { OrderBy::Name } else { OrderBy::Health };
            let order = SortOrder { by, is_reversed: draw.below(2) == 0 };
            let limit = usize::try_from(draw.below(7)).unwrap() + 1;
            let mut all = ApplicationMap::new();
            for number in 0..draw.below(40) {
                add_application(
                    &mut all,
                    &format!("a{number}"),
                    kinds[usize::try_from(draw.below(3)).unwrap()],
                );
            }
            let mut stays: BTreeSet<String> = all.keys().map(|key| key.name.clone()).collect();
            let (mut names, mut begins) = (Vec::new(), PageStart::Offset(0));
            loop {
                let found = page(all.clone(), &ApplicationFilter::default(), order, &begins, limit);
                assert!(found.applications.len() <= limit && found.matching == all.len());
                names.extend(found.applications.iter().map(|one| one.metadata.name.clone()));
                match found.next {
                    Some(place) => begins = PageStart::After(place),
                    None => break,
                }
                // Add, remove or change an Application between two pages.
                let name = format!("a{}", draw.below(60));
                match draw.below(3) {
                    0 => all.retain(|key, _| key.name != name),
                    _ => add_application(&mut all, &name, kinds[usize::try_from(draw.below(3)).unwrap()]),
                }
                let is_same = by == OrderBy::Name && all.keys().any(|key| key.name == name);
                if !is_same {
                    stays.remove(&name);
                }
            }
            for name in &stays {
                assert_eq!(
                    names.iter().filter(|other| *other == name).count(),
                    1,
                    "seed {seed}: {name} in {names:?}"
                );
            }
            if by == OrderBy::Name {
                let different: BTreeSet<&String> = names.iter().collect();
                assert_eq!(different.len(), names.len(), "seed {seed}: no entry appears twice");
            }
        }
    }
}
