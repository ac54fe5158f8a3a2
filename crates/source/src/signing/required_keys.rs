//! Keys that a project accepts for signed commits.

use std::collections::BTreeSet;

use super::key_id::KeyId;
use super::keyring::ValidSignature;

/// Keys that a project accepts. Each deployed commit must be signed with one of them.
#[derive(Clone, Debug)]
pub struct RequiredKeys {
    project: String,
    keys: BTreeSet<KeyId>,
}

impl RequiredKeys {
    /// Parses a project's list of key IDs.
    ///
    /// # Errors
    ///
    /// Returns the first entry that isn't a key ID.
    pub fn new<'k>(project: &str, keys: impl IntoIterator<Item = &'k str>) -> Result<Self, String> {
        let parse = |text: &str| KeyId::parse(text).ok_or_else(|| text.to_owned());
        let keys = keys.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { project: project.to_owned(), keys })
    }

    /// Returns the name of the project.
    pub(crate) fn project(&self) -> &str {
        &self.project
    }

    /// Returns true if the signature was made with an accepted key. A listed primary key covers all keys of
    /// its certificate.
    pub(super) fn accepts(&self, good: &ValidSignature) -> bool {
        self.keys.contains(&good.key) || self.keys.contains(&good.primary)
    }

    /// Describes the required keys for a message.
    pub(super) fn describe(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        format!("project '{}' requires a signature with {}", self.project, keys.join(" or "))
    }
}
