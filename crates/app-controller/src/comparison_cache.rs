//! Cache of comparison results. Each input of a comparison is either watched or compared with its previous
//! value. If none has changed, the cached result is returned without sending any requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_application::comparison::ComparedResource;
use tidegate_application::refresh::RefreshLevel;
use tidegate_executor::effects::ObjectDifference;
use tidegate_health::HealthRules;
use tidegate_model::argo::ConditionType;
use tidegate_model::{Digest, Gvk, ObjectKey, Phase, SyncRequest, Warning};
use tidegate_oplog::{ApplicationInventory, Inventory};
use tidegate_planner::{Target, deletion_hook_phases, gates_of_object, is_excluded_from_sync};
use tokio::time::Instant;

use super::watches::WatchPosition;

/// Maximum age of a result. Server defaults and webhook responses can change without an event.
const RESULT_AGE_MAX: Duration = Duration::from_secs(1800);
/// Maximum age of an incomplete search. More kinds may have become readable since.
const PARTIAL_SEARCH_AGE_MAX: Duration = Duration::from_secs(600);
/// API group whose objects have moved to other groups, where a later search finds them.
const MOVED_GROUP: &str = "extensions";

/// Cached results for one Application.
#[derive(Clone, Debug, Default)]
pub struct ComparisonCache {
    /// Last result.
    last_result: Option<Arc<CachedResult>>,
    /// The Application's objects found by the last search of the cluster.
    last_search: Option<Arc<CachedSearch>>,
}

#[derive(Clone, Debug)]
struct CachedResult {
    at: Instant,
    /// Position of the last watch event that the result includes, if known.
    mark: Option<WatchPosition>,
    input_digest: Digest,
    findings: Arc<ComparisonFindings>,
}

/// Extent of a search of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchExtent {
    /// All kinds that may contain objects of the Application.
    Complete,
    /// All readable kinds. They probably contain all of the Application's objects.
    Partial,
    /// All readable kinds. Some of the kinds that the Application may use aren't readable.
    Denied,
}

#[derive(Debug)]
struct CachedSearch {
    at: Instant,
    /// Maximum age.
    max_age: Duration,
    /// Digest of the input. Different manifests require a new search.
    input_digest: Digest,
    locations: Inventory,
}

/// Result of a comparison before project checks and other checks are applied.
#[derive(Clone, Debug)]
pub struct ComparisonFindings {
    pub warnings: Vec<Warning>,
    pub resources: Vec<ComparedResource>,
    /// Changes that the cluster rejected.
    pub rejections: Vec<(ConditionType, String)>,
    /// Type of each source.
    pub types: Vec<String>,
    /// Deletion phases that have hooks.
    pub deletion_hooks: BTreeSet<Phase>,
    /// Gates that the manifests use, each with a manifest that uses the gate.
    pub gates: BTreeMap<String, ObjectKey>,
    /// Manifests that aren't compared because they are hooks.
    pub hooks: Vec<ObjectKey>,
}

impl ComparisonFindings {
    /// Creates findings from the manifests and the compared resources.
    pub fn from_resources(targets: &[Target], types: Vec<String>, resources: Vec<ComparedResource>) -> Self {
        let objects =
            || targets.iter().map(|target| &target.object).filter(|object| !is_excluded_from_sync(object));
        let compared: BTreeSet<(&str, &str, &str)> = resources
            .iter()
            .map(|ComparedResource { status, .. }| {
                (status.group.as_str(), status.kind.as_str(), status.name.as_str())
            })
            .collect();
        let is_hook =
            |key: &ObjectKey| !compared.contains(&(key.group.as_str(), key.kind.as_str(), key.name.as_str()));
        Self {
            warnings: Vec::new(),
            rejections: Vec::new(),
            types,
            deletion_hooks: deletion_hook_phases(targets),
            gates: objects()
                .flat_map(|object| gates_of_object(object).into_iter().map(|gate| (gate, object.key())))
                .collect(),
            hooks: objects().map(tidegate_model::Object::key).filter(is_hook).collect(),
            resources,
        }
    }
}

/// Input that a comparison takes from the Application. A cached result is only valid for the same input.
pub struct ComparisonInput<'a> {
    pub request: &'a SyncRequest,
    pub inventory: Option<&'a ApplicationInventory>,
    /// Keys of the manifests.
    pub manifests: &'a [Digest],
    /// Impersonated user; empty if no user is impersonated.
    pub user: &'a str,
}

impl ComparisonInput<'_> {
    fn search_digest(&self) -> Option<Digest> {
        ComparisonInput { inventory: None, ..*self }.digest()
    }

    /// Returns true if watches report all relevant changes. This requires a watch for every object in
    /// `found`. If an operation creates the namespace, watches for the namespace's objects also reveal its
    /// deletion.
    fn is_watched(&self, found: &ComparisonFindings) -> bool {
        let own = self.request.namespace.as_str();
        let seen: BTreeSet<(&str, &str, &str, &str)> = found
            .resources
            .iter()
            .map(|ComparedResource { status, .. }| {
                (status.group.as_str(), status.kind.as_str(), status.namespace.as_str(), status.name.as_str())
            })
            .collect();
        let is_at = |gvk: &Gvk, namespace: &str, name: &str| {
            seen.contains(&(gvk.group.as_str(), gvk.kind.as_str(), namespace, name))
        };
        // Objects left behind by hooks aren't compared.
        let is_hook = |gvk: &Gvk, name: &str| {
            found.hooks.iter().any(|one| one.group == gvk.group && one.kind == gvk.kind && one.name == name)
        };
        let is_seen = |(gvk, namespace, name): &(Gvk, String, String)| {
            (gvk.is_namespace() && name == own)
                || is_at(gvk, namespace, name)
                || is_at(gvk, "", name)
                || is_hook(gvk, name)
        };
        let is_created = self.request.options.has("CreateNamespace=true") && !own.is_empty();
        let is_inside = |one: &ComparedResource| one.is_live && one.status.namespace == own;
        let is_namespace_watched = !is_created
            || seen.contains(&("", "Namespace", "", own))
            || found.resources.iter().any(is_inside);
        is_namespace_watched && self.inventory.into_iter().flat_map(|known| &known.places).all(is_seen)
    }

    fn digest(&self) -> Option<Digest> {
        let Self { request, inventory, manifests, user } = self;
        #[derive(Serialize)]
        struct All<'a>(&'a SyncRequest, Option<&'a ApplicationInventory>, &'a [Digest], &'a str);
        let text = serde_json::to_vec(&All(request, *inventory, manifests, user)).ok()?;
        Some(Digest(Sha256::digest(text).into()))
    }

    /// Returns true if the comparison covers all of the Application's objects, provided that the objects are
    /// watched.
    fn is_complete(&self) -> bool {
        self.inventory.is_some_and(|known| known.searched && !has_moved_groups(&known.places))
            && !self.request.options.adopt
    }
}

fn has_moved_groups(places: &Inventory) -> bool {
    places.iter().any(|(gvk, _, _)| gvk.group == MOVED_GROUP)
}

impl ComparisonCache {
    /// Returns the Application's known objects, based on recorded operations and the last search.
    pub fn known_objects(
        &self,
        recorded: Option<ApplicationInventory>,
        level: RefreshLevel,
        input: &ComparisonInput<'_>,
    ) -> Option<ApplicationInventory> {
        let input = input.search_digest();
        let searched = self.last_search.as_ref().filter(|searched| {
            level <= RefreshLevel::Latest
                && searched.at.elapsed() < searched.max_age
                && Some(searched.input_digest) == input
        });
        let Some(searched) = searched else { return recorded };
        let mut known = recorded.unwrap_or_default();
        known.places.extend(searched.locations.iter().cloned());
        known.searched = true;
        Some(known)
    }

    /// Records the objects found by a search of the cluster.
    pub fn record_search(
        &mut self,
        input: &ComparisonInput<'_>,
        differences: &[ObjectDifference],
        extent: SearchExtent,
    ) {
        let max_age = match extent {
            SearchExtent::Complete => RESULT_AGE_MAX,
            SearchExtent::Partial => PARTIAL_SEARCH_AGE_MAX,
            SearchExtent::Denied => {
                self.last_search = None;
                return;
            }
        };
        let locations: Inventory = differences
            .iter()
            .map(|one| (one.task.gvk.clone(), one.task.namespace.clone(), one.task.name.clone()))
            .collect();
        // Without a search, a comparison can't report objects that may belong to another Application, so a
        // search that found any isn't cached.
        let is_whole =
            !has_moved_groups(&locations) && !differences.iter().any(|one| one.task.options.found_elsewhere);
        let input = input.search_digest().filter(|_| is_whole);
        self.last_search = input.map(|input_digest| {
            Arc::new(CachedSearch { at: Instant::now(), max_age, input_digest, locations })
        });
    }

    /// Returns true if the last result may still be valid.
    pub fn can_be_valid(&self, level: RefreshLevel, mark: Option<&WatchPosition>) -> bool {
        let is_held =
            |last: &&Arc<CachedResult>| last.mark.as_ref() == mark && last.at.elapsed() < RESULT_AGE_MAX;
        level <= RefreshLevel::Latest && mark.is_some() && self.last_result.as_ref().filter(is_held).is_some()
    }

    /// Returns the last result if it was based on the same input. The caller must check
    /// [`ComparisonCache::can_be_valid`] first.
    pub fn find(&self, input: &ComparisonInput<'_>) -> Option<Arc<ComparisonFindings>> {
        let last = self.last_result.as_ref()?;
        (input.digest()? == last.input_digest).then(|| Arc::clone(&last.findings))
    }

    /// Caches the result of a comparison that started at `mark`, if known. Clears the cache instead if
    /// watches don't cover the result.
    pub fn store(
        &mut self,
        input: &ComparisonInput<'_>,
        mark: Option<WatchPosition>,
        found: &Arc<ComparisonFindings>,
        rules: &HealthRules,
    ) {
        // Health can change over time if a script uses the current time or a grace period ends.
        let is_timeless = |one: &ComparedResource| {
            one.health_changes_at.is_none() && rules.script(&one.status.group, &one.status.kind).is_none()
        };
        let is_all = input.is_complete()
            && input.is_watched(found)
            && found.rejections.is_empty()
            && found.resources.iter().all(is_timeless);
        let input = input.digest();
        self.last_result = input.filter(|_| is_all).map(|input_digest| {
            Arc::new(CachedResult { at: Instant::now(), mark, input_digest, findings: Arc::clone(found) })
        });
    }

    /// Records that the last result includes all watch events up to `mark`.
    pub fn extend_to(&mut self, mark: WatchPosition) {
        if let Some(last) = &mut self.last_result {
            Arc::make_mut(last).mark = Some(mark);
        }
    }

    /// Clears the result, because the cluster has changed.
    pub fn clear(&mut self) {
        self.last_result = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
