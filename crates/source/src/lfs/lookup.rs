//! The content of files while a commit is read, as far as it is kept; what is missing is noted.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::LfsError;
use super::pointer::{Oid, Pointer};
use super::store::Store;
use crate::tree::Limits;
use crate::{Address, SourceError};

/// Where a repository says where its objects are.
pub(crate) const CONFIG: &str = ".lfsconfig";

/// A pointer whose content is not there, and the first file that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub file: String,
    pub pointer: Pointer,
}

/// What one reading of a commit has met.
#[derive(Default)]
struct Met {
    missing: BTreeMap<Oid, Missing>,
    /// Bytes of what is missing.
    bytes: u64,
    /// What was read, and is to stay until all is.
    used: BTreeSet<Oid>,
}

/// Gives the content of pointers.
pub(crate) struct Lookup<'l> {
    store: &'l Store,
    repository: String,
    met: RefCell<Met>,
}

impl<'l> Lookup<'l> {
    pub(super) fn new(store: &'l Store, repository: &Address) -> Self {
        Self { store, repository: repository.to_string(), met: RefCell::default() }
    }

    /// Nothing was met yet.
    pub fn begin(&self) {
        *self.met.borrow_mut() = Met::default();
    }

    /// The content of a file that holds this: the same, or what it points to. Where that is missing it is the same too, and all is
    /// to be read again.
    pub fn content(&self, file: &str, held: Vec<u8>, limits: &Limits) -> Result<Vec<u8>, SourceError> {
        let Some(pointer) = Pointer::parse(&held) else { return Ok(held) };
        if pointer.is_extended {
            let (repository, file) = (self.repository.clone(), file.to_owned());
            return Err(LfsError::Extended { repository, file }.into());
        }
        let limit = |what| SourceError::Limit { path: file.to_owned(), limit: limits.bytes, what };
        if pointer.size > limits.bytes {
            return Err(limit("bytes in one file"));
        }
        let mut met = self.met.borrow_mut();
        if let Some(content) = self.store.read(pointer.oid) {
            met.used.insert(pointer.oid);
            return if is_size(&content, pointer.size) {
                Ok(content)
            } else {
                Err(self.lies(file, pointer, &content))
            };
        }
        let missing = || Missing { file: file.to_owned(), pointer };
        if !met.missing.contains_key(&pointer.oid) {
            met.bytes = met.bytes.saturating_add(pointer.size);
            met.missing.insert(pointer.oid, missing());
        }
        if met.bytes > limits.bytes {
            return Err(limit("bytes of files of Git LFS beside it"));
        }
        Ok(held)
    }

    /// The object is the right one, and has another size than its pointer says.
    fn lies(&self, file: &str, pointer: Pointer, content: &[u8]) -> SourceError {
        let found = format!("its object has {} bytes, and not {}", content.len(), pointer.size);
        let (repository, file, oid) = (self.repository.clone(), file.to_owned(), pointer.oid.to_string());
        LfsError::Mismatch { repository, file, oid, found }.into()
    }

    /// Whether nothing was missing.
    pub fn is_complete(&self) -> bool {
        self.met.borrow().missing.is_empty()
    }

    /// What was missing, by its path.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing: Vec<Missing> = self.met.borrow().missing.values().cloned().collect();
        missing.sort_by(|one, other| one.file.cmp(&other.file));
        missing
    }

    /// What was read.
    pub(super) fn used(&self) -> Ref<'_, BTreeSet<Oid>> {
        Ref::map(self.met.borrow(), |met| &met.used)
    }

    /// Something is missing still, though all of it was fetched.
    pub fn endless(&self, rounds: usize) -> SourceError {
        let file = self.missing().into_iter().next().map(|one| one.file).unwrap_or_default();
        LfsError::Endless { repository: self.repository.clone(), file, rounds }.into()
    }
}

/// Whether a content has so many bytes.
pub(super) fn is_size(content: &[u8], size: u64) -> bool {
    u64::try_from(content.len()).is_ok_and(|length| length == size)
}
