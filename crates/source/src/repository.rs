//! Repositories, each looked at once for all who use it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tidegate_model::argo::{ApplicationSource, DirectorySource};

use crate::directory::{self, Wanted};
use crate::error::reason;
use crate::tree::{Limits, Reader};
use crate::{Address, Refs, SourceError, refs};

/// What makes the manifests of a folder that needs nothing to make them.
pub const SOURCE_TYPE: &str = "Directory";
/// The fewest digits by which a commit may be named.
const SHORTEST_COMMIT: usize = 7;

/// The repositories in use, each known once however many use it.
#[derive(Default)]
pub struct Repositories {
    known: Mutex<BTreeMap<Address, Arc<Repository>>>,
}

impl Repositories {
    /// The repository of a `repoURL`; relative ones are relative to `base`.
    pub fn open(&self, url: &str, base: &Path) -> Result<Arc<Repository>, SourceError> {
        let address = Address::parse(url, base)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repository) = known.get(&address) {
            return Ok(Arc::clone(repository));
        }
        let repository = Repository { address: address.clone(), seen: Mutex::default() };
        repository.git().map_err(|error| SourceError::NoRepository {
            url: url.to_owned(),
            path: address.path().to_path_buf(),
            reason: reason(&error),
        })?;
        let repository = Arc::new(repository);
        known.insert(address, Arc::clone(&repository));
        Ok(repository)
    }

    /// All that are known.
    pub fn all(&self) -> Vec<Arc<Repository>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).values().map(Arc::clone).collect()
    }
}

/// A repository, and what was seen of it. It is opened for each use: that costs little, and what is there may be another
/// one by then.
pub struct Repository {
    address: Address,
    seen: Mutex<Option<Arc<Refs>>>,
}

/// The manifests of a source in a commit, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The same content read in the same way has the same key.
    pub key: Digest,
    /// The commit, in hexadecimal.
    pub commit: String,
    root: ObjectId,
    folder: ObjectId,
    path: String,
    wanted: Wanted,
}

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is in the repository.
    pub path: String,
    /// What it holds.
    pub content: Vec<u8>,
}

impl Repository {
    /// Which one it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn git(&self) -> gix::Result<gix::Repository> {
        Ok(gix::open::Options::isolated().open(self.address.path())?.into())
    }

    fn wrong(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.address.to_string(), reason: reason(error) }
    }

    /// Looks at the names again. Says whether any has moved since the last look.
    pub fn look(&self) -> Result<bool, SourceError> {
        let found = self.git().and_then(|git| refs::look(&git)).map_err(|error| self.wrong(&error))?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = seen.as_deref().is_none_or(|seen| *seen != found);
        *seen = Some(Arc::new(found));
        Ok(moved)
    }

    fn refs(&self) -> Result<Arc<Refs>, SourceError> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(refs) = seen() {
            return Ok(refs);
        }
        self.look()?;
        Ok(seen().unwrap_or_default())
    }

    /// The commit a revision means by the last look at the names: a branch, a tag, a commit or the beginning of one; `HEAD`
    /// where it is empty.
    pub fn resolve(&self, revision: &str) -> Result<String, SourceError> {
        let repository = self.address.to_string();
        let unknown =
            || SourceError::NoRevision { repository: repository.clone(), revision: revision.to_owned() };
        let git = self.git().map_err(|error| self.wrong(&error))?;
        let id = match self.refs()?.find(revision) {
            Some(id) => id,
            None if matches!(revision, "" | "HEAD") => return Err(SourceError::Empty { repository }),
            None if !is_commit(revision) => return Err(unknown()),
            None => git.rev_parse_single(revision).map_err(|_| unknown())?.detach(),
        };
        // A tag may be an object of its own.
        let commit = git.find_object(id).and_then(|object| object.peel_to_commit()).map_err(|_| unknown())?;
        Ok(commit.id().to_string())
    }

    /// Finds the manifests of a source in a commit, and refuses what cannot be read.
    pub fn locate(
        &self,
        source: &ApplicationSource,
        commit: &str,
        limits: &Limits,
    ) -> Result<Located, SourceError> {
        directory::check(source)?;
        let git = self.git().map_err(|error| self.wrong(&error))?;
        let root = ObjectId::from_hex(commit.as_bytes())
            .ok()
            .and_then(|id| git.find_commit(id).ok())
            .and_then(|commit| commit.tree_id().ok().map(gix::Id::detach))
            .ok_or_else(|| SourceError::NoRevision {
                repository: self.address.to_string(),
                revision: commit.to_owned(),
            })?;
        let reader = Reader { git: &git, repository: &self.address, commit, root, limits };
        let (path, folder) = reader.folder(&source.path)?;
        directory::detect(&reader, folder)?;
        let directory = source.directory.clone().unwrap_or_default();
        let wanted = Wanted::new(&directory)?;
        let has_links = reader.list(folder, &path, directory.recurse)?.iter().any(|entry| entry.is_link());
        // A link may lead to any other folder of the commit.
        let content = if has_links { root } else { folder };
        Ok(Located {
            key: key(content, &path, &directory),
            commit: commit.to_owned(),
            root,
            folder,
            path,
            wanted,
        })
    }

    /// Reads the files that were located.
    pub fn read(&self, located: &Located, limits: &Limits) -> Result<Vec<File>, SourceError> {
        let Located { commit, root, folder, path, wanted, .. } = located;
        let git = self.git().map_err(|error| self.wrong(&error))?;
        let reader = Reader { git: &git, repository: &self.address, commit, root: *root, limits };
        directory::read(&reader, *folder, path, wanted)
    }
}

fn is_commit(text: &str) -> bool {
    (SHORTEST_COMMIT..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}

fn key(content: ObjectId, path: &str, directory: &DirectorySource) -> Digest {
    let mut hasher = Sha256::new();
    let recurse = if directory.recurse { "recurse" } else { "" };
    for part in [&content.to_string(), path, SOURCE_TYPE, recurse, &directory.include, &directory.exclude] {
        hasher.update(part.as_bytes());
        hasher.update([0]);
    }
    Digest(hasher.finalize().into())
}
