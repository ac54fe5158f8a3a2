//! Replaces pointers with stored content while a commit is read, recording missing objects.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::LfsError;
use super::pointer::{Oid, Pointer};
use super::store::Store;
use crate::{Address, SourceError};

/// File that may name the repository's LFS server.
pub(crate) const CONFIG: &str = ".lfsconfig";

/// A missing object, and the first file that points to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub file: String,
    pub pointer: Pointer,
}

/// Objects encountered during one read of a commit.
#[derive(Default)]
struct EncounteredObjects {
    missing: BTreeMap<Oid, Missing>,
    /// Total size of the missing objects, in bytes.
    bytes: u64,
    /// Objects in use by this read, which must not be evicted yet.
    used: BTreeSet<Oid>,
}

/// Lookup that replaces pointers with the content of their objects.
pub(crate) struct Lookup<'l> {
    store: &'l Store,
    repository: String,
    encountered: RefCell<EncounteredObjects>,
}

impl<'l> Lookup<'l> {
    pub(super) fn new(store: &'l Store, repository: &Address) -> Self {
        Self { store, repository: repository.to_string(), encountered: RefCell::default() }
    }

    /// Starts a new read of a commit.
    pub fn start_reading(&self) {
        *self.encountered.borrow_mut() = EncounteredObjects::default();
    }

    /// Returns the content of a file, or of the object it points to. If the object is missing, records it and
    /// returns the pointer itself; the caller must fetch the object and read again. `bytes_max` limits the
    /// size of a file, and of all missing objects together.
    pub fn content(&self, file: &str, held: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, SourceError> {
        let Some(pointer) = Pointer::parse(&held) else { return Ok(held) };
        if pointer.is_extended {
            let (repository, file) = (self.repository.clone(), file.to_owned());
            return Err(LfsError::Extended { repository, file }.into());
        }
        let limit = |what| SourceError::Limit { path: file.to_owned(), limit: bytes_max, what };
        if pointer.size > bytes_max {
            return Err(limit("bytes in one file"));
        }
        let mut met = self.encountered.borrow_mut();
        if let Some(content) = self.store.read(pointer.oid) {
            met.used.insert(pointer.oid);
            return if has_size(&content, pointer.size) {
                Ok(content)
            } else {
                Err(self.size_mismatch(file, pointer, &content))
            };
        }
        let missing = || Missing { file: file.to_owned(), pointer };
        if !met.missing.contains_key(&pointer.oid) {
            met.bytes = met.bytes.saturating_add(pointer.size);
            met.missing.insert(pointer.oid, missing());
        }
        if met.bytes > bytes_max {
            return Err(limit("bytes of other Git LFS files"));
        }
        Ok(held)
    }

    /// Returns the error for an object with a different size than its pointer says.
    fn size_mismatch(&self, file: &str, pointer: Pointer, content: &[u8]) -> SourceError {
        let found = format!("the object has {} bytes instead of {}", content.len(), pointer.size);
        let (repository, file, oid) = (self.repository.clone(), file.to_owned(), pointer.oid.to_string());
        LfsError::Mismatch { repository, file, oid, found }.into()
    }

    /// Returns true if no object was missing.
    pub fn is_complete(&self) -> bool {
        self.encountered.borrow().missing.is_empty()
    }

    /// Returns the missing objects, sorted by file.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> = self.encountered.borrow().missing.values().cloned().collect();
        missing.sort_by(|one, other| one.file.cmp(&other.file));
        missing
    }

    /// Returns the objects used by this read.
    pub(super) fn used(&self) -> Ref<'_, BTreeSet<Oid>> {
        Ref::map(self.encountered.borrow(), |met| &met.used)
    }

    /// Returns the error for objects still missing after the last fetch.
    pub fn too_many_rounds(&self, rounds: usize) -> SourceError {
        let file = self.missing().into_iter().next().map(|one| one.file).unwrap_or_default();
        LfsError::TooManyRounds { repository: self.repository.clone(), file, rounds }.into()
    }
}

/// Returns true if the content has the given size.
pub(super) fn has_size(content: &[u8], size: u64) -> bool {
    u64::try_from(content.len()).is_ok_and(|length| length == size)
}
