//! Who has which objects, and what is watched for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_cluster::{Detail, Scope};
use tidegate_model::{Gvk, ObjectKey};
use tokio::task::AbortHandle;

use crate::applications::store::AppKey;
use crate::applications::view::View;

/// Who has which objects, and what is watched for that.
#[derive(Default)]
pub(super) struct Index {
    pub owners: BTreeMap<ObjectKey, BTreeSet<AppKey>>,
    /// Who has objects in a namespace, and how many: of thousands, few have any in one.
    pub namespaces: BTreeMap<String, BTreeMap<AppKey, usize>>,
    pub applications: BTreeMap<AppKey, Cares>,
    pub watched: BTreeMap<Scope, Watched>,
    /// Kinds that may not be watched in all namespaces at once.
    pub narrow: BTreeSet<Gvk>,
    /// Grows with all that is told.
    pub clock: u64,
    /// What else is known of the cluster, for as long as any application has objects there.
    pub view: Option<Arc<View>>,
}

/// What an application cares for.
#[derive(Default)]
pub(super) struct Cares {
    pub objects: BTreeMap<ObjectKey, Gvk>,
    /// What is watched for it: all objects of a kind, or those of a namespace.
    pub scopes: BTreeSet<Scope>,
    /// When it was told of a change last, or has come to care for something else.
    pub told: u64,
}

/// A watch, which ends when it is dropped.
pub(super) struct Watched {
    /// So many applications have such objects.
    pub users: usize,
    /// Changes are seen now.
    pub is_seen: bool,
    pub task: AbortHandle,
    /// Why its objects may not be watched.
    pub forbidden: Option<String>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Index {
    /// Ends those of some watches that nobody needs any more.
    pub fn tidy(&mut self, left: &BTreeSet<Scope>) {
        let is_idle = |watched: &Watched| watched.users == 0;
        let idle: Vec<&Scope> =
            left.iter().filter(|one| self.watched.get(one).is_some_and(is_idle)).collect();
        idle.iter().for_each(|scope| drop(self.watched.remove(scope)));
        if !idle.is_empty() {
            let watched = &self.watched;
            // Whoever has such objects later may be allowed more.
            self.narrow.retain(|gvk| watched.keys().any(|scope| scope.gvk == *gvk));
        }
        if self.applications.is_empty() {
            self.view = None;
        }
    }

    /// Those who have objects that are like this.
    pub fn owners_of(&self, is_meant: impl Fn(&ObjectKey) -> bool) -> BTreeSet<AppKey> {
        let meant = self.owners.iter().filter(|(object, _)| is_meant(object));
        meant.flat_map(|(_, owners)| owners.iter().cloned()).collect()
    }

    /// These are about to be told of a change.
    pub fn note(&mut self, owners: &BTreeSet<AppKey>) {
        self.clock = self.clock.saturating_add(1);
        for owner in owners {
            if let Some(cares) = self.applications.get_mut(owner) {
                cares.told = self.clock;
            }
        }
    }

    /// All who have objects of a scope.
    pub fn owners_in(&self, scope: &Scope) -> BTreeSet<AppKey> {
        let kind = scope.gvk.group_kind();
        let is_there = |object: &ObjectKey| {
            object.group_kind() == kind && scope.namespace.as_ref().is_none_or(|one| *one == object.namespace)
        };
        self.owners_of(is_there)
    }

    /// Where objects are watched.
    pub fn scopes_of(&self, objects: &BTreeMap<ObjectKey, Gvk>) -> BTreeSet<Scope> {
        let scope = |(object, gvk): (&ObjectKey, &Gvk)| {
            let is_narrow = self.narrow.contains(gvk) && !object.namespace.is_empty();
            let namespace = is_narrow.then(|| object.namespace.clone());
            Scope { gvk: gvk.clone(), namespace, detail: Detail::Metadata }
        };
        objects.iter().map(scope).collect()
    }

    /// An application has these objects.
    pub fn add(&mut self, application: &AppKey, objects: &BTreeMap<ObjectKey, Gvk>) {
        for object in objects.keys() {
            self.owners.entry(object.clone()).or_default().insert(application.clone());
            let inside = self.namespaces.entry(object.namespace.clone()).or_default();
            let count = inside.entry(application.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// An application has nothing any more. Returns what was watched for it.
    pub fn forget(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        let left = self.leave(application);
        for object in self.applications.remove(application).unwrap_or_default().objects.into_keys() {
            if let Some(owners) = self.owners.get_mut(&object) {
                owners.remove(application);
                if owners.is_empty() {
                    self.owners.remove(&object);
                }
            }
            if let Some(inside) = self.namespaces.get_mut(&object.namespace) {
                let count = inside.get(application).map_or(0, |count| count.saturating_sub(1));
                match count {
                    0 => drop(inside.remove(application)),
                    count => drop(inside.insert(application.clone(), count)),
                }
                if inside.is_empty() {
                    self.namespaces.remove(&object.namespace);
                }
            }
        }
        left
    }

    /// Nothing is watched for an application any more. Returns what was.
    pub fn leave(&mut self, application: &AppKey) -> BTreeSet<Scope> {
        let cares = self.applications.get_mut(application);
        let left = cares.map(|cares| std::mem::take(&mut cares.scopes)).unwrap_or_default();
        for scope in &left {
            if let Some(watched) = self.watched.get_mut(scope) {
                watched.users = watched.users.saturating_sub(1);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However objects come and go, a namespace has those owners that its objects have.
    #[test]
    fn a_namespace_has_the_owners_of_its_objects() {
        let app = |name: usize| AppKey { namespace: "argocd".to_owned(), name: format!("app-{name}") };
        let object = |number: usize| {
            let gvk = Gvk::new("", "v1", "ConfigMap");
            (ObjectKey::new("", "ConfigMap", format!("ns-{}", number % 3), format!("map-{number}")), gvk)
        };
        let (mut index, mut counted) = (Index::default(), 0_usize);
        for step in 0..60_usize {
            let name = app(step.wrapping_mul(7) % 5);
            index.forget(&name);
            if step % 4 != 3 {
                let objects: BTreeMap<_, _> = (step % 6..step % 11).map(object).collect();
                index.add(&name, &objects);
                let cares = Cares { objects, scopes: BTreeSet::new(), told: 0 };
                index.applications.insert(name, cares);
            }
            let mut expected: BTreeMap<String, BTreeMap<AppKey, usize>> = BTreeMap::new();
            for (object, owner) in
                index.owners.iter().flat_map(|(object, all)| all.iter().map(move |one| (object, one)))
            {
                let count =
                    expected.entry(object.namespace.clone()).or_default().entry(owner.clone()).or_default();
                *count = count.saturating_add(1);
            }
            assert_eq!(index.namespaces, expected, "after step {step}");
            counted = counted.saturating_add(usize::from(expected.len() > 1));
        }
        assert!(counted > 10, "{counted} steps with objects in several namespaces");
        (0..5).for_each(|name| drop(index.forget(&app(name))));
        assert!(index.namespaces.is_empty() && index.owners.is_empty());
    }
}
