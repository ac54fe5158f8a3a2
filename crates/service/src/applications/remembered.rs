//! What a comparison has found, for as long as nothing of it changes: then another one costs no request. Everything that it
//! depends on is watched, or compared with what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_application::comparison::Resource;
use tidegate_application::refresh::Level;
use tidegate_executor::effects::ObjectDifference;
use tidegate_health::HealthRules;
use tidegate_model::argo::ConditionType;
use tidegate_model::{Digest, Gvk, ObjectKey, Phase, SyncRequest, Warning};
use tidegate_oplog::{Inventory, Known};
use tidegate_planner::{Target, gates_of, hook_phases_among, is_left_out};
use tokio::time::Instant;

use super::watching::Mark;

/// After so long all is looked at, whatever was told: how a server fills in defaults may change, and what its webhooks say.
const LASTS: Duration = Duration::from_secs(1800);
/// The same for a search that could not look through all kinds: more may be granted, or answer again.
const PARTLY_LASTS: Duration = Duration::from_secs(600);
/// Objects in this group are found under another name later, by a search.
const MOVED_GROUP: &str = "extensions";

/// What the comparisons of one application remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The last one.
    last: Option<Arc<Last>>,
    /// Where the application has objects, by the last search through the cluster.
    searched: Option<Arc<Searched>>,
}

#[derive(Clone, Debug)]
struct Last {
    at: Instant,
    /// All that was told up to then is in it; nothing while that is not known.
    mark: Option<Mark>,
    asked: Digest,
    found: Arc<Found>,
}

/// How much of a cluster was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All that may hold something of the application.
    Whole,
    /// What may be read of it, and that has all there probably is.
    Part,
    /// What may be read of it, and that lacks what the application may have.
    Refused,
}

#[derive(Debug)]
struct Searched {
    at: Instant,
    /// For how long it counts.
    lasts: Duration,
    /// For what: other manifests need another one.
    asked: Digest,
    places: Inventory,
}

/// What comparing has found, before anybody else has a say.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub findings: Vec<Warning>,
    pub resources: Vec<Resource>,
    /// What the cluster refuses.
    pub refused: Vec<(ConditionType, String)>,
    /// What made the manifests of each source.
    pub types: Vec<String>,
    /// In which phases of a deletion hooks would run.
    pub deletion_hooks: BTreeSet<Phase>,
    /// The gates that manifests name, each with one that does.
    pub gates: BTreeMap<String, ObjectKey>,
    /// The manifests that were not compared: hooks.
    pub hooks: Vec<ObjectKey>,
}

impl Found {
    /// What manifests say, whatever the cluster has.
    pub fn of(targets: &[Target], types: Vec<String>, resources: Vec<Resource>) -> Self {
        let objects = || targets.iter().map(|target| &target.object).filter(|object| !is_left_out(object));
        let compared: BTreeSet<(&str, &str, &str)> = resources
            .iter()
            .map(|Resource { status, .. }| {
                (status.group.as_str(), status.kind.as_str(), status.name.as_str())
            })
            .collect();
        let is_hook =
            |key: &ObjectKey| !compared.contains(&(key.group.as_str(), key.kind.as_str(), key.name.as_str()));
        Self {
            findings: Vec::new(),
            refused: Vec::new(),
            types,
            deletion_hooks: hook_phases_among(targets),
            gates: objects()
                .flat_map(|object| gates_of(object).into_iter().map(|gate| (gate, object.key())))
                .collect(),
            hooks: objects().map(tidegate_model::Object::key).filter(is_hook).collect(),
            resources,
        }
    }
}

/// What a comparison is about, as far as it is the application's own: with anything else in it, it is another one.
pub(crate) struct Asked<'a> {
    pub request: &'a SyncRequest,
    pub known: Option<&'a Known>,
    /// The keys of the manifests.
    pub manifests: &'a [Digest],
    /// As whom the cluster is asked; nothing for ourselves.
    pub user: &'a str,
}

impl Asked<'_> {
    fn whatever_is_known(&self) -> Option<Digest> {
        Asked { known: None, ..*self }.digest()
    }

    /// Whether changes are seen wherever it may have something: what was found is watched. That the namespace goes which its
    /// operations make is seen by what is in it.
    fn is_watched(&self, found: &Found) -> bool {
        let own = self.request.namespace.as_str();
        let seen: BTreeSet<(&str, &str, &str, &str)> = found
            .resources
            .iter()
            .map(|Resource { status, .. }| {
                (status.group.as_str(), status.kind.as_str(), status.namespace.as_str(), status.name.as_str())
            })
            .collect();
        let is_at = |gvk: &Gvk, namespace: &str, name: &str| {
            seen.contains(&(gvk.group.as_str(), gvk.kind.as_str(), namespace, name))
        };
        // What is left of a hook is not compared.
        let is_hook = |gvk: &Gvk, name: &str| {
            found.hooks.iter().any(|one| one.group == gvk.group && one.kind == gvk.kind && one.name == name)
        };
        let is_seen = |(gvk, namespace, name): &(Gvk, String, String)| {
            (gvk.is_namespace() && name == own)
                || is_at(gvk, namespace, name)
                || is_at(gvk, "", name)
                || is_hook(gvk, name)
        };
        let is_made = self.request.options.has("CreateNamespace=true") && !own.is_empty();
        let is_inside = |one: &Resource| one.is_live && one.status.namespace == own;
        let is_own_seen =
            !is_made || seen.contains(&("", "Namespace", "", own)) || found.resources.iter().any(is_inside);
        is_own_seen && self.known.into_iter().flat_map(|known| &known.places).all(is_seen)
    }

    fn digest(&self) -> Option<Digest> {
        let Self { request, known, manifests, user } = self;
        #[derive(Serialize)]
        struct All<'a>(&'a SyncRequest, Option<&'a Known>, &'a [Digest], &'a str);
        let text = serde_json::to_vec(&All(request, *known, manifests, user)).ok()?;
        Some(Digest(Sha256::digest(text).into()))
    }

    /// Whether a comparison finds all that the application has, where that is watched.
    fn is_closed(&self) -> bool {
        self.known.is_some_and(|known| known.searched && !has_moved(&known.places))
            && !self.request.options.adopt
    }
}

fn has_moved(places: &Inventory) -> bool {
    places.iter().any(|(gvk, _, _)| gvk.group == MOVED_GROUP)
}

impl Memory {
    /// What is known of where the application has objects: what its operations have recorded, and the last search.
    pub fn known(&self, recorded: Option<Known>, level: Level, asked: &Asked<'_>) -> Option<Known> {
        let asked = asked.whatever_is_known();
        let searched = self.searched.as_ref().filter(|searched| {
            level <= Level::Latest && searched.at.elapsed() < searched.lasts && Some(searched.asked) == asked
        });
        let Some(searched) = searched else { return recorded };
        let mut known = recorded.unwrap_or_default();
        known.places.extend(searched.places.iter().cloned());
        known.searched = true;
        Some(known)
    }

    /// A search through the cluster has found these objects of the application.
    pub fn search(&mut self, asked: &Asked<'_>, differences: &[ObjectDifference], extent: Extent) {
        let lasts = match extent {
            Extent::Whole => LASTS,
            Extent::Part => PARTLY_LASTS,
            Extent::Refused => {
                self.searched = None;
                return;
            }
        };
        let places: Inventory = differences
            .iter()
            .map(|one| (one.task.gvk.clone(), one.task.namespace.clone(), one.task.name.clone()))
            .collect();
        // What may be another's is found, and told, by each search.
        let is_whole = !has_moved(&places) && !differences.iter().any(|one| one.task.options.found_elsewhere);
        let asked = asked.whatever_is_known().filter(|_| is_whole);
        self.searched = asked.map(|asked| Arc::new(Searched { at: Instant::now(), lasts, asked, places }));
    }

    /// Whether there may be something to go by.
    pub fn may_hold(&self, level: Level, mark: Option<&Mark>) -> bool {
        let is_held = |last: &&Arc<Last>| last.mark.as_ref() == mark && last.at.elapsed() < LASTS;
        level <= Level::Latest && mark.is_some() && self.last.as_ref().filter(is_held).is_some()
    }

    /// What the last comparison has found, if it was about the same and nothing has changed since; see also
    /// [`Memory::may_hold`].
    pub fn found(&self, asked: &Asked<'_>) -> Option<Arc<Found>> {
        let last = self.last.as_ref()?;
        (asked.digest()? == last.asked).then(|| Arc::clone(&last.found))
    }

    /// Remembers what a comparison has found that began at a moment, which may not be known yet; nothing where that does not tell
    /// all.
    pub fn keep(&mut self, asked: &Asked<'_>, mark: Option<Mark>, found: &Arc<Found>, rules: &HealthRules) {
        // A script may ask for the time.
        let is_timeless = |one: &Resource| rules.script(&one.status.group, &one.status.kind).is_none();
        let is_all = asked.is_closed()
            && asked.is_watched(found)
            && found.refused.is_empty()
            && found.resources.iter().all(is_timeless);
        let asked = asked.digest();
        self.last = asked
            .filter(|_| is_all)
            .map(|asked| Arc::new(Last { at: Instant::now(), mark, asked, found: Arc::clone(found) }));
    }

    /// All that was told up to a moment is in what the last comparison has found.
    pub fn holds_up_to(&mut self, mark: Mark) {
        if let Some(last) = &mut self.last {
            Arc::make_mut(last).mark = Some(mark);
        }
    }

    /// The cluster is not as it was.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
