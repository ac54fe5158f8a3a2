//! Catalog of a server's kinds.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_model::{Discovery, GroupKind, Gvk, KindInfo};

/// API resource that serves a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Name used in URL paths.
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    /// True if objects can be listed.
    pub(crate) listable: bool,
    /// True if the kind has a status subresource, so that writes to the object ignore its status.
    pub(crate) has_status_subresource: bool,
}

/// Kind in one group and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServedKind {
    pub(crate) kind: String,
    pub(crate) resource: Resource,
}

/// Catalog of the readable kinds on a server.
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

    /// Returns a kind in its preferred version.
    pub(crate) fn find_preferred(&self, kind: &GroupKind) -> Option<(Gvk, Arc<Resource>)> {
        let gvk = Gvk::new(&kind.group, self.discovery.get(kind)?.versions.first()?, &kind.kind);
        Some((gvk.clone(), self.get(&gvk)?))
    }

    /// Returns every kind once, in its preferred version.
    pub(crate) fn preferred_kinds(&self) -> impl Iterator<Item = (Gvk, Arc<Resource>)> {
        self.discovery.kinds.keys().filter_map(|kind| self.find_preferred(kind))
    }

    /// Adds the kinds in a group version. Preferred versions must be added first.
    pub(crate) fn add(&mut self, group: &str, version: &str, served: Vec<ServedKind>) {
        for ServedKind { kind, resource } in served {
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

    /// Adds a served group version with unknown kinds.
    pub(crate) fn add_unknown_version(&mut self, group: &str, version: &str) {
        self.discovery.unavailable_versions.insert((group.to_owned(), version.to_owned()));
    }

    /// Replaces the kinds in a group version.
    pub(crate) fn replace(&mut self, group: &str, version: &str, served: Vec<ServedKind>) {
        self.discovery.unavailable_versions.remove(&(group.to_owned(), version.to_owned()));
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

    fn served_kind(kind: &str, plural: &str) -> ServedKind {
        let resource = Resource {
            plural: plural.to_owned(),
            namespaced: true,
            listable: true,
            has_status_subresource: false,
        };
        ServedKind { kind: kind.to_owned(), resource }
    }

    fn versions_of(catalog: &Catalog, kind: &str) -> Vec<String> {
        catalog
            .discovery()
            .get(&GroupKind::new("x", kind))
            .map_or_else(Vec::new, |info| info.versions.clone())
    }

    #[test]
    fn versions_stay_in_preferred_order_and_are_replaced_separately() {
        let mut catalog = Catalog::default();
        catalog.add("x", "v1", vec![served_kind("A", "as"), served_kind("B", "bs")]);
        catalog.add("x", "v1beta1", vec![served_kind("A", "as"), served_kind("A", "others")]);
        assert_eq!(versions_of(&catalog, "A"), ["v1", "v1beta1"]);
        assert_eq!(catalog.get(&Gvk::new("x", "v1beta1", "A")).unwrap().plural, "as");

        catalog.replace("x", "v1", vec![served_kind("A", "anew"), served_kind("C", "cs")]);
        assert_eq!(versions_of(&catalog, "A"), ["v1", "v1beta1"]);
        assert_eq!(catalog.get(&Gvk::new("x", "v1", "A")).unwrap().plural, "anew");
        assert!(versions_of(&catalog, "B").is_empty());
        assert_eq!(versions_of(&catalog, "C"), ["v1"]);

        catalog.remove(&Gvk::new("x", "v1", "A"));
        assert_eq!(versions_of(&catalog, "A"), ["v1beta1"]);
        assert_eq!(
            catalog.preferred_kinds().map(|(gvk, _)| gvk.to_string()).collect::<Vec<_>>(),
            ["x/v1beta1 A", "x/v1 C"]
        );
    }
}
