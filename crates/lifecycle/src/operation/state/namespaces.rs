//! Namespaces that an operation writes to.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Identity of an object, which tells it apart from earlier and later objects of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectIdentity {
    /// `metadata.uid`, unique per object.
    pub uid: String,
    /// `metadata.resourceVersion` at the time of the observation.
    pub resource_version: String,
}

/// Identities of observed namespaces, by name. Not a map, which would need twenty times as much memory for a
/// single namespace, the usual case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceIdentities(Vec<(String, ObjectIdentity)>);

impl NamespaceIdentities {
    /// Returns the identity of a namespace, if it was observed.
    pub fn get(&self, name: &str) -> Option<&ObjectIdentity> {
        let place = self.position(name).ok()?;
        self.0.get(place).map(|(_, identity)| identity)
    }

    /// Stores the identity of a namespace, replacing any previous one.
    pub(in crate::operation) fn set(&mut self, name: String, identity: ObjectIdentity) {
        match self.position(&name) {
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

    /// Searches the sorted list for a name.
    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(name))
    }
}

impl From<BTreeMap<String, ObjectIdentity>> for NamespaceIdentities {
    fn from(map: BTreeMap<String, ObjectIdentity>) -> Self {
        Self(map.into_iter().collect())
    }
}
