//! Additional sealed folders in a state directory, encrypted with the log's key.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate_model::Digest;

use crate::blobs::BlobStore;
use crate::{LogError, LogKey, key};

/// A folder of sealed content, for data that must not be on disk as plaintext. Content is looked up by a
/// keyed digest, and is durable once stored.
pub struct SealedFolder(BlobStore);

impl std::fmt::Debug for SealedFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedFolder").finish_non_exhaustive()
    }
}

impl SealedFolder {
    /// Opens the folder `name` in a state directory, creating it if necessary. `given` takes precedence over
    /// the key in the directory. Returns `None` if the directory doesn't have a key yet: only opening the log
    /// creates it.
    pub fn open(directory: &Path, name: &str, given: Option<LogKey>) -> Result<Option<Self>, LogError> {
        let Some(key) = key::load_key_for_reading(directory, given)? else { return Ok(None) };
        Ok(Some(Self(BlobStore::open(directory.join(name), key)?)))
    }

    /// Stores content and returns its name.
    pub fn put(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.0.put(content)
    }

    /// Reads content. If the content is damaged or the key is wrong, the error names the file.
    pub fn get(&self, name: Digest) -> Result<Vec<u8>, LogError> {
        self.0.get(name)
    }

    /// Returns the names of all content.
    pub fn names(&self) -> Result<BTreeSet<Digest>, LogError> {
        self.0.names()
    }

    /// Returns the encrypted bytes of content, for a copy to a log with the same key.
    pub fn sealed(&self, name: Digest) -> Result<Vec<u8>, LogError> {
        self.0.sealed(name)
    }

    /// Stores encrypted bytes from a log with the same key. Existing content stays as it is.
    pub fn put_sealed(&self, name: Digest, sealed: &[u8]) -> Result<(), LogError> {
        self.0.put_sealed(name, sealed)
    }

    /// Removes all content not in `keep`.
    pub fn retain(&self, keep: &BTreeSet<Digest>) -> Result<(), LogError> {
        self.0.retain(keep).map(drop)
    }
}
