//! Which namespaces an operation writes into.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Which of all objects that have, or had, the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// `metadata.uid`, which no two objects share.
    pub uid: String,
    /// `metadata.resourceVersion` when it was seen.
    pub resource_version: String,
}

/// Which namespaces were seen, by name. Most operations write into one, for which a map would take twenty times as much
/// memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenNamespaces(Vec<(String, Identity)>);

impl SeenNamespaces {
    /// One of them, if it was seen.
    pub fn get(&self, name: &str) -> Option<&Identity> {
        let place = self.place(name).ok()?;
        self.0.get(place).map(|(_, identity)| identity)
    }

    /// One was seen; another of that name is forgotten.
    pub(in crate::operation) fn set(&mut self, name: String, identity: Identity) {
        match self.place(&name) {
            Ok(place) => {
                self.0.iter_mut().skip(place).take(1).for_each(|(_, known)| *known = identity.clone())
            }
            Err(place) => {
                self.0.reserve_exact(1);
                self.0.insert(place, (name, identity));
            }
        }
    }

    pub(in crate::operation) fn clear(&mut self) {
        self.0.clear();
    }

    /// They are in order of their names.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }
}

impl From<BTreeMap<String, Identity>> for SeenNamespaces {
    fn from(map: BTreeMap<String, Identity>) -> Self {
        Self(map.into_iter().collect())
    }
}
