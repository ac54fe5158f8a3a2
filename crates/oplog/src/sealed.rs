//! Other folders of a state directory whose content is sealed with the key of its log.

use std::collections::BTreeSet;
use std::path::Path;

use tidegate_model::Digest;

use crate::blobs::BlobStore;
use crate::{LogError, LogKey, key};

/// A folder of sealed content, for whoever keeps something beside the log that must not be on the disk in clear. Content is
/// found by a keyed digest, and is durable when it is kept.
pub struct SealedFolder(BlobStore);

impl std::fmt::Debug for SealedFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedFolder").finish_non_exhaustive()
    }
}

impl SealedFolder {
    /// The folder of this name in a state directory, made where it is not there. `given`: the key, instead of the one in the
    /// directory. `None` where nothing was ever sealed in that directory: opening its log makes a key.
    pub fn open(directory: &Path, name: &str, given: Option<LogKey>) -> Result<Option<Self>, LogError> {
        let Some(key) = key::look(directory, given)? else { return Ok(None) };
        Ok(Some(Self(BlobStore::open(directory.join(name), key)?)))
    }

    /// Keeps content, and gives its name.
    pub fn put(&self, content: &[u8]) -> Result<Digest, LogError> {
        self.0.put(content)
    }

    /// Reads content back; damage and another key are errors that name the file.
    pub fn get(&self, name: Digest) -> Result<Vec<u8>, LogError> {
        self.0.get(name)
    }

    /// Removes all but this.
    pub fn retain(&self, keep: &BTreeSet<Digest>) -> Result<(), LogError> {
        self.0.retain(keep).map(drop)
    }
}
