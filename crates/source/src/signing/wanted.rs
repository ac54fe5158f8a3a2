//! Which keys a project wants.

use std::collections::BTreeSet;

use super::key_id::KeyId;
use super::keyring::Good;

/// The keys that a project wants its commits to be signed with.
#[derive(Clone, Debug)]
pub struct Wanted {
    project: String,
    keys: BTreeSet<KeyId>,
}

impl Wanted {
    /// Those of a project, as it writes them.
    ///
    /// # Errors
    ///
    /// One of them is no id of a key: that one.
    pub fn new<'k>(project: &str, keys: impl IntoIterator<Item = &'k str>) -> Result<Self, String> {
        let parse = |text: &str| KeyId::parse(text).ok_or_else(|| text.to_owned());
        let keys = keys.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { project: project.to_owned(), keys })
    }

    /// The name of the project.
    pub(crate) fn project(&self) -> &str {
        &self.project
    }

    /// Whether a signature is with one of them. Who names a public key means all keys that belong to it.
    pub(super) fn has(&self, good: &Good) -> bool {
        self.keys.contains(&good.key) || self.keys.contains(&good.primary)
    }

    /// What is asked for, in words.
    pub(super) fn told(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        format!("project '{}' asks for a signature with {}", self.project, keys.join(" or "))
    }
}
