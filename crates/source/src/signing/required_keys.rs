//! Keys that a project accepts for signatures.

use std::collections::BTreeSet;

use super::key_id::KeyId;
use super::keyring::ValidSignature;

/// Keys with one of which a project requires commits to be signed.
#[derive(Clone, Debug)]
pub struct RequiredKeys {
    project: String,
    keys: BTreeSet<KeyId>,
}

impl RequiredKeys {
    /// Parses the keys that a project requires.
    ///
    /// # Errors
    ///
    /// If an entry isn't a key ID, returns the first such entry as the error.
    pub fn new<'k>(project: &str, keys: impl IntoIterator<Item = &'k str>) -> Result<Self, String> {
        let parse = |text: &str| KeyId::parse(text).ok_or_else(|| text.to_owned());
        let keys = keys.into_iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { project: project.to_owned(), keys })
    }

    /// Returns the name of the project.
    pub(crate) fn project(&self) -> &str {
        &self.project
    }

    /// Returns true if a signature was made with one of the keys. The ID of a certificate covers all keys in
    /// the certificate.
    pub(super) fn accepts(&self, good: &ValidSignature) -> bool {
        self.keys.contains(&good.key) || self.keys.contains(&good.primary)
    }

    /// Describes the required keys.
    pub(super) fn describe(&self) -> String {
        let keys: Vec<String> = self.keys.iter().map(ToString::to_string).collect();
        format!("project '{}' requires a signature with {}", self.project, keys.join(" or "))
    }
}
