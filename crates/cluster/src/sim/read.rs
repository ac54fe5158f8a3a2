//! Read calls of the simulated cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Discovery, GroupKind, Gvk, LiveObject, Object, ObjectKey, Timestamp, annotations};

use super::SimState;
use super::json::{field, text_field};
use super::objects::StoredObject;
use super::ownership::with_decoded_fields;
use crate::{ClusterError, ErrorKind, Listing, LiveQuery};

/// An owner reference of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerReference {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
}

impl SimState {
    /// Returns the kinds that the cluster serves.
    pub fn discover(&mut self, now: Timestamp) -> Result<Discovery, ClusterError> {
        self.begin_read(now)?;
        Ok(self.kinds.discovery().clone())
    }

    /// Returns an object, or `None` if it does not exist.
    pub fn get(
        &mut self,
        now: Timestamp,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, ClusterError> {
        self.begin_read(now)?;
        let key = self.object_key(gvk, namespace, name)?;
        Ok(self.find(&key).map(|stored| with_decoded_fields(convert_to_version(&stored.object, gvk))))
    }

    /// Returns all objects of a kind, in all namespaces. If faults are configured, the list may be older than
    /// the newest write.
    pub fn list(&mut self, now: Timestamp, gvk: &Gvk) -> Result<Listing, ClusterError> {
        self.begin_read(now)?;
        self.is_namespaced(gvk)?;
        let kind = gvk.group_kind();
        let behind = self.injector.draw_staleness();
        let mut objects: BTreeMap<ObjectKey, Arc<Object>> =
            self.objects_of_kind(&kind).map(|(key, stored)| (key.clone(), stored.object.clone())).collect();
        let mut revision = self.revision;
        for change in self.history.newest_changes(&kind, behind) {
            revision = change.revision.saturating_sub(1);
            let key = change.object.key();
            match &change.previous {
                Some(before) => objects.insert(key, before.clone()),
                None => objects.remove(&key),
            };
        }
        let objects = objects.values().map(|object| convert_to_version(object, gvk)).collect();
        Ok(Listing { objects, resource_version: revision.to_string() })
    }

    /// Returns an application's objects and the objects that the query lists by name. Skips names of kinds
    /// that aren't served.
    pub fn list_live(&mut self, now: Timestamp, query: &LiveQuery) -> Result<Vec<LiveObject>, ClusterError> {
        self.begin_read(now)?;
        let mut keys = BTreeSet::new();
        let mut versions = BTreeMap::new();
        for (gvk, namespace, name) in &query.named {
            if let Ok(key) = self.object_key(gvk, namespace, name)
                && self.find(&key).is_some()
            {
                versions.insert(key.clone(), gvk);
                keys.insert(key);
            }
        }
        let named = keys.iter().filter_map(|key| Some(self.find(key)?.object.as_ref()));
        // As on a real cluster, consider only objects in the inventory and objects that match the search's
        // kinds and selector.
        let places = self.inventory_keys(&query.inventory);
        let kinds = query.searched_kinds();
        let search = query.tracking_selector(named);
        let is_looked_at = |key: &ObjectKey, object: &Object| {
            let is_searched = kinds.as_ref().is_none_or(|kinds| kinds.contains(&key.group_kind()));
            places.contains(key) || (is_searched && search.matches(object))
        };
        let is_root = |key: &&ObjectKey| {
            self.find(key).is_some_and(|stored| {
                let object = stored.object.as_ref();
                is_looked_at(key, object) && query.is_root(object)
            })
        };
        let roots: BTreeSet<ObjectKey> = self.tracking_candidates(query).filter(is_root).cloned().collect();
        keys.extend(roots);
        let found = keys.iter().filter_map(|key| {
            let object = &self.find(key)?.object;
            let as_it_is = versions.get(key).is_none_or(|gvk| has_version(object, gvk));
            let asked_for = |gvk: &&Gvk| Arc::new(convert_to_version(object, gvk));
            let other = versions.get(key).filter(|_| !as_it_is).map(asked_for);
            Some(LiveObject::share(other.unwrap_or_else(|| Arc::clone(object))))
        });
        Ok(found.collect())
    }

    /// Returns candidates for an application's objects, possibly including objects of other applications.
    /// Only the default label is indexed.
    fn tracking_candidates<'s>(
        &'s self,
        query: &'s LiveQuery,
    ) -> Box<dyn Iterator<Item = &'s ObjectKey> + 's> {
        if query.tracking.label == annotations::INSTANCE_LABEL {
            Box::new(self.index.tracked(&query.application).chain(self.index.labeled(&query.application)))
        } else {
            Box::new(self.objects.iter().map(|stored| &stored.key))
        }
    }

    /// Returns the keys of an inventory's objects. Skips kinds that aren't served.
    fn inventory_keys(&self, places: &BTreeSet<(Gvk, String, String)>) -> BTreeSet<ObjectKey> {
        places
            .iter()
            .filter_map(|(gvk, namespace, name)| self.object_key(gvk, namespace, name).ok())
            .collect()
    }

    /// Returns the pods that a workload owns, directly or through other objects.
    pub fn pods(&mut self, now: Timestamp, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.begin_read(now)?;
        let is_pod = |stored: &&StoredObject| stored.key.kind == "Pod" && stored.key.group.is_empty();
        let itself = self.find(&owner.key()).filter(|stored| stored.object.uid() == owner.uid());
        let mut found: BTreeMap<&ObjectKey, &StoredObject> =
            itself.map(|stored| (&stored.key, stored)).into_iter().collect();
        let mut owners = vec![owner.uid()];
        while let Some(uid) = owners.pop() {
            for (key, stored) in self.children(uid) {
                // Visit each object only once, because owner references may form a cycle.
                if found.insert(key, stored).is_none() {
                    owners.push(stored.object.uid());
                }
            }
        }
        Ok(found.into_values().filter(is_pod).map(|stored| stored.object.as_ref().clone()).collect())
    }

    /// Returns the events about an object. The simulation doesn't create events, so it returns only events
    /// written by clients.
    pub fn events(&mut self, now: Timestamp, object: &Object) -> Result<Vec<Object>, ClusterError> {
        self.begin_read(now)?;
        let events = self.objects_of_kind(&GroupKind::new("", "Event")).map(|(_, stored)| &stored.object);
        let is_about = |event: &&Arc<Object>| {
            !object.uid().is_empty() && event.text("/involvedObject/uid") == object.uid()
        };
        Ok(events.filter(is_about).map(|event| event.as_ref().clone()).collect())
    }

    /// Runs due steps and draws a fault for the call.
    pub(crate) fn begin_read(&mut self, now: Timestamp) -> Result<(), ClusterError> {
        self.advance(now);
        self.injector.draw_read_fault().map_or(Ok(()), |fault| Err(fault.error()))
    }

    /// Returns the owner references of an object.
    pub(crate) fn owners(&self, object: &Object) -> Vec<OwnerReference> {
        let references = field(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        let owners = references.into_iter().flatten().filter_map(|reference| {
            let text = |name: &str| reference.get(name).and_then(Value::as_str);
            let gvk = Gvk::from_api_version(text("apiVersion")?, text("kind")?);
            let namespaced = self.kinds.discovery().namespaced(&gvk.group_kind()).unwrap_or(true);
            let namespace = if namespaced { object.namespace() } else { "" };
            let key = ObjectKey::new(gvk.group, gvk.kind, namespace, text("name")?);
            Some(OwnerReference { key, uid: text("uid")?.to_owned() })
        });
        owners.collect()
    }
}

/// Returns the object in the requested API version. In the simulation, all served versions of a kind have the
/// same fields.
pub(crate) fn convert_to_version(object: &Object, gvk: &Gvk) -> Object {
    let mut object = object.clone();
    if !has_version(&object, gvk) {
        object.fields_mut().insert("apiVersion".to_owned(), gvk.api_version().into());
    }
    object
}

fn has_version(object: &Object, gvk: &Gvk) -> bool {
    text_field(object, &["apiVersion"]) == gvk.api_version()
}

/// Parses a resource version. An empty string and `0` mean "any".
pub(crate) fn parse_revision(text: &str) -> Result<u64, ClusterError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse()
        .map_err(|_| ClusterError::new(ErrorKind::Invalid, format!("invalid resource version: {text:?}")))
}
