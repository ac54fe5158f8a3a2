//! What can be asked of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Discovery, Gvk, LiveObject, Object, ObjectKey, Timestamp, annotations};

use super::SimState;
use super::json::{field, text};
use super::objects::Stored;
use super::ownership::spelled_out;
use crate::{ClusterError, ErrorKind, Listing, LiveQuery};

/// An object that another names as its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) key: ObjectKey,
    pub(crate) uid: String,
}

impl SimState {
    /// The kinds served now.
    pub fn discover(&mut self, now: Timestamp) -> Result<Discovery, ClusterError> {
        self.begin_read(now)?;
        Ok(self.kinds.discovery().clone())
    }

    /// Reads one object; nothing where none is.
    pub fn get(
        &mut self,
        now: Timestamp,
        gvk: &Gvk,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>, ClusterError> {
        self.begin_read(now)?;
        let key = self.key_of(gvk, namespace, name)?;
        Ok(self.find(&key).map(|stored| spelled_out(in_version(&stored.object, gvk))))
    }

    /// All objects of a kind, in all namespaces. With faults it may be a little older than the newest write.
    pub fn list(&mut self, now: Timestamp, gvk: &Gvk) -> Result<Listing, ClusterError> {
        self.begin_read(now)?;
        self.namespaced(gvk)?;
        let kind = gvk.group_kind();
        let behind = self.injector.staleness();
        let mut objects: BTreeMap<ObjectKey, Arc<Object>> =
            self.of_kind(&kind).map(|(key, stored)| (key.clone(), stored.object.clone())).collect();
        let mut revision = self.revision;
        for change in self.history.last(&kind, behind) {
            revision = change.revision.saturating_sub(1);
            let key = change.object.key();
            match &change.before {
                Some(before) => objects.insert(key, before.clone()),
                None => objects.remove(&key),
            };
        }
        let objects = objects.values().map(|object| in_version(object, gvk)).collect();
        Ok(Listing { objects, resource_version: revision.to_string() })
    }

    /// The objects an application owns, and those it names. Names of kinds that are not served are passed over.
    pub fn live(&mut self, now: Timestamp, query: &LiveQuery) -> Result<Vec<LiveObject>, ClusterError> {
        self.begin_read(now)?;
        let mut keys = BTreeSet::new();
        let mut versions = BTreeMap::new();
        for (gvk, namespace, name) in &query.named {
            if let Ok(key) = self.key_of(gvk, namespace, name)
                && self.find(&key).is_some()
            {
                versions.insert(key.clone(), gvk);
                keys.insert(key);
            }
        }
        let named = keys.iter().filter_map(|key| Some(self.find(key)?.object.as_ref()));
        // A real cluster would look at no other places, so this one does not either.
        let places = self.keys_of(&query.inventory);
        let kinds = query.searched_kinds();
        let search = query.search(named);
        let is_looked_at = |key: &ObjectKey, object: &Object| {
            let is_searched = kinds.as_ref().is_none_or(|kinds| kinds.contains(&key.group_kind()));
            places.contains(key) || (is_searched && search.meets(object))
        };
        let is_root = |key: &&ObjectKey| {
            self.find(key).is_some_and(|stored| {
                let object = stored.object.as_ref();
                is_looked_at(key, object) && query.is_root(object)
            })
        };
        let roots: BTreeSet<ObjectKey> = self.marked(query).filter(is_root).cloned().collect();
        keys.extend(roots);
        let found = keys.iter().filter_map(|key| {
            let object = &self.find(key)?.object;
            let as_it_is = versions.get(key).is_none_or(|gvk| is_in_version(object, gvk));
            let asked_for = |gvk: &&Gvk| Arc::new(in_version(object, gvk));
            let other = versions.get(key).filter(|_| !as_it_is).map(asked_for);
            Some(LiveObject::share(other.unwrap_or_else(|| Arc::clone(object))))
        });
        Ok(found.collect())
    }

    /// What may belong to an application, and something besides. Only the usual label is indexed.
    fn marked<'s>(&'s self, query: &'s LiveQuery) -> Box<dyn Iterator<Item = &'s ObjectKey> + 's> {
        if query.tracking.label == annotations::INSTANCE_LABEL {
            Box::new(self.index.tracked(&query.application).chain(self.index.labelled(&query.application)))
        } else {
            Box::new(self.objects.iter().map(|stored| &stored.key))
        }
    }

    /// The places of an inventory, as far as their kinds are served.
    fn keys_of(&self, places: &BTreeSet<(Gvk, String, String)>) -> BTreeSet<ObjectKey> {
        places.iter().filter_map(|(gvk, namespace, name)| self.key_of(gvk, namespace, name).ok()).collect()
    }

    /// The pods of a workload: those it owns, or that belong to what it owns.
    pub fn pods(&mut self, now: Timestamp, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.begin_read(now)?;
        let is_pod = |stored: &&Stored| stored.key.kind == "Pod" && stored.key.group.is_empty();
        let itself = self.find(&owner.key()).filter(|stored| stored.object.uid() == owner.uid());
        let mut found: BTreeMap<&ObjectKey, &Stored> =
            itself.map(|stored| (&stored.key, stored)).into_iter().collect();
        let mut owners = vec![owner.uid()];
        while let Some(uid) = owners.pop() {
            for (key, stored) in self.children(uid) {
                // Owners may name each other.
                if found.insert(key, stored).is_none() {
                    owners.push(stored.object.uid());
                }
            }
        }
        Ok(found.into_values().filter(is_pod).map(|stored| stored.object.as_ref().clone()).collect())
    }

    /// Brings the world up to date, and draws whether the call fails.
    pub(crate) fn begin_read(&mut self, now: Timestamp) -> Result<(), ClusterError> {
        self.advance(now);
        self.injector.read().map_or(Ok(()), |fault| Err(fault.error()))
    }

    /// The owners an object names.
    pub(crate) fn owners(&self, object: &Object) -> Vec<Owner> {
        let references = field(object, &["metadata", "ownerReferences"]).and_then(Value::as_array);
        let owners = references.into_iter().flatten().filter_map(|reference| {
            let text = |name: &str| reference.get(name).and_then(Value::as_str);
            let gvk = Gvk::from_api_version(text("apiVersion")?, text("kind")?);
            let namespaced = self.kinds.discovery().namespaced(&gvk.group_kind()).unwrap_or(true);
            let namespace = if namespaced { object.namespace() } else { "" };
            let key = ObjectKey::new(gvk.group, gvk.kind, namespace, text("name")?);
            Some(Owner { key, uid: text("uid")?.to_owned() })
        });
        owners.collect()
    }
}

/// The object in the version that was asked for. Served versions of a kind have the same fields here.
pub(crate) fn in_version(object: &Object, gvk: &Gvk) -> Object {
    let mut object = object.clone();
    if !is_in_version(&object, gvk) {
        object.fields_mut().insert("apiVersion".to_owned(), gvk.api_version().into());
    }
    object
}

fn is_in_version(object: &Object, gvk: &Gvk) -> bool {
    text(object, &["apiVersion"]) == gvk.api_version()
}

/// A resource version as a number; empty and `0` mean "any".
pub(crate) fn revision_of(text: &str) -> Result<u64, ClusterError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse()
        .map_err(|_| ClusterError::new(ErrorKind::Invalid, format!("invalid resource version: {text:?}")))
}
