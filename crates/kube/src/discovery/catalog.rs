//! The kinds of a server as a value.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo};

/// How objects of a kind are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// The name in paths.
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// Whether all of them can be asked for.
    pub(crate) listable: bool,
    /// Whether the status is written at a place of its own, and ignored with the rest of the object.
    pub(crate) status_apart: bool,
}

/// One kind of one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Served {
    pub(crate) kind: String,
    pub(crate) resource: Resource,
}

/// The kinds that objects can be had of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    resources: HashMap<Gvk, Arc<Resource>>,
    discovery: Discovery,
}

impl Catalog {
    pub(crate) fn get(&self, gvk: &Gvk) -> Option<Arc<Resource>> {
        self.resources.get(gvk).cloned()
    }

    pub(crate) fn discovery(&self) -> Discovery {
        self.discovery.clone()
    }

    /// A kind in its preferred version.
    pub(crate) fn newest(&self, kind: &GroupKind) -> Option<(Gvk, Arc<Resource>)> {
        let gvk = Gvk::new(&kind.group, self.discovery.get(kind)?.versions.first()?, &kind.kind);
        Some((gvk.clone(), self.get(&gvk)?))
    }

    /// Every kind once, in its preferred version.
    pub(crate) fn preferred(&self) -> impl Iterator<Item = (Gvk, Arc<Resource>)> {
        self.discovery.kinds.keys().filter_map(|kind| self.newest(kind))
    }

    /// Adds what a version of a group serves. Versions come preferred first.
    pub(crate) fn add(&mut self, group: &str, version: &str, served: Vec<Served>) {
        for Served { kind, resource } in served {
            let gvk = Gvk::new(group, version, &kind);
            let namespaced = resource.namespaced;
            if self.resources.contains_key(&gvk) {
                continue;
            }
            self.resources.insert(gvk, Arc::new(resource));
            let info = self.discovery.kinds.entry(GroupKind::new(group, kind));
            let info = info.or_insert_with(|| KindInfo { versions: Vec::new(), namespaced });
            if !info.versions.iter().any(|known| known == version) {
                info.versions.push(version.to_owned());
            }
        }
    }

    /// A version of a group is served, and nobody knows by what kinds.
    pub(crate) fn add_silent(&mut self, group: &str, version: &str) {
        self.discovery.silent.insert((group.to_owned(), version.to_owned()));
    }

    /// Says what a version of a group serves now.
    pub(crate) fn replace(&mut self, group: &str, version: &str, served: Vec<Served>) {
        self.discovery.silent.remove(&(group.to_owned(), version.to_owned()));
        let old: Vec<Gvk> = self
            .resources
            .keys()
            .filter(|gvk| gvk.group == group && gvk.version == version)
            .cloned()
            .collect();
        for gvk in old {
            if served.iter().all(|now| now.kind != gvk.kind) {
                self.remove(&gvk);
            } else {
                self.resources.remove(&gvk);
            }
        }
        self.add(group, version, served);
    }

    pub(crate) fn remove(&mut self, gvk: &Gvk) {
        self.resources.remove(gvk);
        let kind = gvk.group_kind();
        if let Some(info) = self.discovery.kinds.get_mut(&kind) {
            info.versions.retain(|version| *version != gvk.version);
            if info.versions.is_empty() {
                self.discovery.kinds.remove(&kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(kind: &str, plural: &str) -> Served {
        let resource =
            Resource { plural: plural.to_owned(), namespaced: true, listable: true, status_apart: false };
        Served { kind: kind.to_owned(), resource }
    }

    fn versions(catalog: &Catalog, kind: &str) -> Vec<String> {
        catalog
            .discovery()
            .get(&GroupKind::new("x", kind))
            .map_or_else(Vec::new, |info| info.versions.clone())
    }

    #[test]
    fn versions_are_kept_preferred_first_and_replaced_one_at_a_time() {
        let mut catalog = Catalog::default();
        catalog.add("x", "v1", vec![served("A", "as"), served("B", "bs")]);
        catalog.add("x", "v1beta1", vec![served("A", "as"), served("A", "others")]);
        assert_eq!(versions(&catalog, "A"), ["v1", "v1beta1"]);
        assert_eq!(catalog.get(&Gvk::new("x", "v1beta1", "A")).unwrap().plural, "as");

        catalog.replace("x", "v1", vec![served("A", "anew"), served("C", "cs")]);
        assert_eq!(versions(&catalog, "A"), ["v1", "v1beta1"]);
        assert_eq!(catalog.get(&Gvk::new("x", "v1", "A")).unwrap().plural, "anew");
        assert!(versions(&catalog, "B").is_empty());
        assert_eq!(versions(&catalog, "C"), ["v1"]);

        catalog.remove(&Gvk::new("x", "v1", "A"));
        assert_eq!(versions(&catalog, "A"), ["v1beta1"]);
        assert_eq!(
            catalog.preferred().map(|(gvk, _)| gvk.to_string()).collect::<Vec<_>>(),
            ["x/v1beta1 A", "x/v1 C"]
        );
    }
}
