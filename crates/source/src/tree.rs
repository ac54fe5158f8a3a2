//! Access to the folders and files of a commit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use gix::objs::tree::EntryKind;
use gix::{ObjectId, Repository};

use crate::error::git_error_text;
use crate::lfs::Lookup;
use crate::{Address, SourceError};

/// Limits for the folder of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of files and folders.
    pub entries: u64,
    /// Maximum nesting depth of folders.
    pub depth: u64,
    /// Maximum total size of the manifests, in bytes.
    pub bytes: u64,
    /// Maximum number of links followed in a row.
    pub links: u64,
}

impl Default for Limits {
    /// Returns limits far beyond the largest folders in use.
    fn default() -> Self {
        Self { entries: 100_000, depth: 64, bytes: 64 << 20, links: 8 }
    }
}

/// An entry in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    /// Path relative to the listed folder.
    pub path: String,
    pub id: ObjectId,
    pub kind: EntryKind,
}

impl TreeEntry {
    pub fn is_link(&self) -> bool {
        self.kind == EntryKind::Link
    }
}

/// Minimum number of entries for caching a folder. Reading a smaller folder is as fast as a cache lookup.
const CACHED_ENTRIES_MIN: usize = 64;
/// Maximum number of folders in the cache.
const CACHED_FOLDERS_MAX: usize = 8;
/// Maximum number of entries in a cached folder.
const CACHED_ENTRIES_MAX: usize = 50_000;

/// Cache of large folders. Many Applications often share a parent folder, which every lookup reads. Tree
/// objects are immutable, so entries never become stale.
#[derive(Default)]
pub(crate) struct TreeCache(Mutex<VecDeque<(ObjectId, Arc<CachedFolder>)>>);

/// Entries of a folder in Git's order.
struct CachedFolder {
    entries: Vec<TreeEntry>,
    /// Position of each entry by name. In a malformed tree with repeated names, the first entry wins.
    index: HashMap<String, usize>,
}

impl CachedFolder {
    fn find(&self, name: &str) -> Option<TreeEntry> {
        self.index.get(name).and_then(|at| self.entries.get(*at)).cloned()
    }
}

impl TreeCache {
    fn find(&self, tree: ObjectId) -> Option<Arc<CachedFolder>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(id, _)| *id == tree).map(|(_, folder)| Arc::clone(folder))
    }

    fn insert(&self, tree: ObjectId, entries: &[TreeEntry]) {
        if !(CACHED_ENTRIES_MIN..=CACHED_ENTRIES_MAX).contains(&entries.len()) {
            return;
        }
        let mut places = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            places.entry(entry.path.clone()).or_insert(at);
        }
        let folder = Arc::new(CachedFolder { entries: entries.to_vec(), index: places });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CACHED_FOLDERS_MAX {
            kept.pop_front();
        }
        kept.push_back((tree, folder));
    }
}

/// Reader for the folders and files of a commit. Follows links.
pub(crate) struct CommitReader<'r> {
    pub git: &'r Repository,
    pub repository: &'r Address,
    pub trees: &'r TreeCache,
    pub commit: &'r str,
    /// Root tree of the commit.
    pub root: ObjectId,
    pub limits: &'r Limits,
    /// Replaces Git LFS pointers with the content of their objects. `None` if Git LFS is disabled.
    pub lfs: Option<&'r Lookup<'r>>,
}

impl CommitReader<'_> {
    fn error(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.repository.to_string(), reason: git_error_text(error) }
    }

    /// Returns the entries of a folder.
    fn entries(&self, tree: ObjectId) -> Result<Vec<TreeEntry>, SourceError> {
        if let Some(folder) = self.trees.find(tree) {
            return Ok(folder.entries.clone());
        }
        let found = self.git.find_tree(tree).map_err(|error| self.error(&error))?;
        let decoded = found.decode().map_err(|error| self.error(&error))?;
        let entry = |entry: &gix::objs::tree::EntryRef<'_>| TreeEntry {
            path: entry.filename.to_string(),
            id: entry.oid.to_owned(),
            kind: entry.mode.kind(),
        };
        let entries: Vec<TreeEntry> = decoded.entries.iter().map(entry).collect();
        self.trees.insert(tree, &entries);
        Ok(entries)
    }

    /// Returns the entry with this name in a folder.
    fn entry(&self, tree: ObjectId, name: &str) -> Result<Option<TreeEntry>, SourceError> {
        if let Some(folder) = self.trees.find(tree) {
            return Ok(folder.find(name));
        }
        Ok(self.entries(tree)?.into_iter().find(|entry| entry.path == name))
    }

    /// Returns the names of a folder's entries, subfolders included, in Git's order.
    pub fn names(&self, folder: ObjectId) -> Result<Vec<String>, SourceError> {
        Ok(self.entries(folder)?.into_iter().map(|entry| entry.path).collect())
    }

    /// Returns the normalized path and the tree of a folder. Doesn't follow links.
    pub fn folder(&self, path: &str) -> Result<(String, ObjectId), SourceError> {
        let none =
            |found| SourceError::NoFolder { path: path.to_owned(), found, commit: self.commit.to_owned() };
        let Some(plain) = resolve_path("", path) else { return Err(none("outside the repository")) };
        let (mut tree, mut at) = (self.root, String::new());
        for part in path_segments(&plain) {
            at = if at.is_empty() { part.to_owned() } else { format!("{at}/{part}") };
            let found = self.entry(tree, part)?;
            match found {
                Some(TreeEntry { kind: EntryKind::Tree, id, .. }) => tree = id,
                Some(TreeEntry { kind: EntryKind::Commit, .. }) => {
                    return Err(SourceError::Submodule { path: at });
                }
                Some(TreeEntry { kind: EntryKind::Link, .. }) => return Err(none("a link or below a link")),
                Some(_) => return Err(none("a file")),
                None => return Err(none("missing")),
            }
        }
        Ok((plain, tree))
    }

    /// Calls a function with each entry of a folder except subfolders. `recurse` includes the entries of
    /// subfolders.
    fn walk(
        &self,
        folder: ObjectId,
        path: &str,
        recurse: bool,
        mut take: impl FnMut(TreeEntry) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let limit = |limit, what| SourceError::Limit { path: path.to_owned(), limit, what };
        let mut waiting = vec![(String::new(), folder, 1)];
        let mut seen = 0_u64;
        while let Some((prefix, tree, depth)) = waiting.pop() {
            if depth > self.limits.depth {
                return Err(limit(self.limits.depth, "nested folders"));
            }
            for entry in self.entries(tree)? {
                seen = seen.saturating_add(1);
                if seen > self.limits.entries {
                    return Err(limit(self.limits.entries, "files and folders"));
                }
                let below = format!("{prefix}{}", entry.path);
                match entry.kind {
                    EntryKind::Tree if recurse => waiting.push((format!("{below}/"), entry.id, depth + 1)),
                    EntryKind::Tree => {}
                    _ => take(TreeEntry { path: below, ..entry })?,
                }
            }
        }
        Ok(())
    }

    /// Returns the entries of a folder except subfolders, sorted by path. `recurse` includes the entries of
    /// subfolders.
    pub fn list(&self, folder: ObjectId, path: &str, recurse: bool) -> Result<Vec<TreeEntry>, SourceError> {
        let mut listed = Vec::new();
        self.walk(folder, path, recurse, |entry| {
            match entry.kind {
                EntryKind::Commit if recurse => {
                    return Err(SourceError::Submodule { path: join_paths(path, &entry.path) });
                }
                EntryKind::Commit | EntryKind::Tree => return Ok(()),
                EntryKind::Link => {
                    self.target(&join_paths(path, &entry.path), entry.id)?;
                }
                EntryKind::Blob | EntryKind::BlobExecutable => {}
            }
            listed.push(entry);
            Ok(())
        })?;
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// Returns the sorted paths of all files in the commit, except those in submodules.
    pub fn paths(&self) -> Result<Vec<String>, SourceError> {
        let mut paths = Vec::new();
        self.walk(self.root, ".", true, |entry| {
            if entry.kind != EntryKind::Commit {
                paths.push(entry.path);
            }
            Ok(())
        })?;
        paths.sort();
        Ok(paths)
    }

    /// Returns the path that a link points to. Fails if it is outside the repository.
    fn target(&self, path: &str, link: ObjectId) -> Result<String, SourceError> {
        let content = self.blob(path, link)?;
        let target = String::from_utf8_lossy(&content).into_owned();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inside = if target.starts_with('/') { None } else { resolve_path(folder, &target) };
        inside.ok_or_else(|| SourceError::Link { path: path.to_owned(), target })
    }

    /// Returns the content of an entry, following links, or `None` for a link to a folder.
    pub fn content(&self, path: &str, entry: &TreeEntry) -> Result<Option<Vec<u8>>, SourceError> {
        let (at, found) = self.resolve_links(path, entry)?;
        if !matches!(found.kind, EntryKind::Blob | EntryKind::BlobExecutable) {
            return Ok(None);
        }
        let held = self.blob(path, found.id)?;
        match self.lfs {
            Some(lfs) => lfs.content(&at, held, self.limits.bytes).map(Some),
            None => Ok(Some(held)),
        }
    }

    /// Follows the links of an entry to the path and entry of the final target.
    pub fn resolve_links(&self, path: &str, entry: &TreeEntry) -> Result<(String, TreeEntry), SourceError> {
        let (mut at, mut found) = (path.to_owned(), entry.clone());
        let mut left = self.limits.links;
        while found.is_link() {
            let target = self.target(&at, found.id)?;
            let dead = || SourceError::DeadLink { path: path.to_owned(), target: target.clone() };
            left = left.checked_sub(1).ok_or_else(dead)?;
            found = self.lookup(&target)?.ok_or_else(dead)?;
            at = target;
        }
        Ok((at, found))
    }

    /// Returns the tree of the folder at a normalized path, if it exists.
    pub fn find_folder(&self, path: &str) -> Result<Option<ObjectId>, SourceError> {
        let found = self.lookup(path)?;
        Ok(found.filter(|entry| entry.kind == EntryKind::Tree).map(|entry| entry.id))
    }

    /// Returns the entry at a normalized path in the commit, if it exists.
    pub fn lookup(&self, path: &str) -> Result<Option<TreeEntry>, SourceError> {
        let mut found = TreeEntry { path: String::new(), id: self.root, kind: EntryKind::Tree };
        for part in path_segments(path) {
            if found.kind != EntryKind::Tree {
                return Ok(None);
            }
            match self.entry(found.id, part)? {
                Some(entry) => found = entry,
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// Returns the content of a blob. Fails if it is too large.
    fn blob(&self, path: &str, id: ObjectId) -> Result<Vec<u8>, SourceError> {
        let header = self.git.find_header(id).map_err(|error| self.error(&error))?;
        if header.size() > self.limits.bytes {
            let path = path.to_owned();
            return Err(SourceError::Limit { path, limit: self.limits.bytes, what: "bytes in one file" });
        }
        Ok(self.git.find_object(id).map_err(|error| self.error(&error))?.detach().data)
    }
}

/// Joins a folder's path and a path relative to it.
pub(crate) fn join_paths(folder: &str, below: &str) -> String {
    if folder.is_empty() { below.to_owned() } else { format!("{folder}/{below}") }
}

pub(crate) fn path_segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Joins a folder and a path, resolving `.` and `..`. Returns `None` if the result is outside the repository.
pub(crate) fn resolve_path(folder: &str, path: &str) -> Option<String> {
    let mut plain: Vec<&str> = path_segments(folder).collect();
    for part in path_segments(path) {
        match part {
            "." => {}
            ".." => {
                plain.pop()?;
            }
            name => plain.push(name),
        }
    }
    Some(plain.join("/"))
}
