//! Reading the tree of a commit.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use gix::objs::tree::EntryKind;
use gix::{ObjectId, Repository};

use crate::error::reason;
use crate::lfs::Lookup;
use crate::{Address, SourceError};

/// How much of a folder is read before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and folders that are looked at.
    pub entries: u64,
    /// Folders inside each other.
    pub depth: u64,
    /// Bytes of all manifests.
    pub bytes: u64,
    /// Links that lead to links.
    pub links: u64,
}

impl Default for Limits {
    /// Room for the largest folders in use many times over.
    fn default() -> Self {
        Self { entries: 100_000, depth: 64, bytes: 64 << 20, links: 8 }
    }
}

/// Something in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path below the folder that is listed.
    pub path: String,
    pub id: ObjectId,
    pub kind: EntryKind,
}

impl Entry {
    pub fn is_link(&self) -> bool {
        self.kind == EntryKind::Link
    }
}

/// Folders of fewer entries are read as fast as they are found here.
const LARGE: usize = 64;
/// So many large folders are kept.
const KEPT: usize = 8;
/// Folders of more entries are not kept.
const TOO_LARGE: usize = 50_000;

/// The large folders that were read last. Many applications have their folders beside each other, and each has to be found
/// among them; what a folder holds never changes, a commit that changes it has another.
#[derive(Default)]
pub(crate) struct Trees(Mutex<VecDeque<(ObjectId, Arc<Folder>)>>);

/// What is in a folder, in Git's order.
struct Folder {
    entries: Vec<Entry>,
    /// Where each is among them. Of two of one name, which only a broken tree has, the first.
    places: HashMap<String, usize>,
}

impl Folder {
    fn find(&self, name: &str) -> Option<Entry> {
        self.places.get(name).and_then(|at| self.entries.get(*at)).cloned()
    }
}

impl Trees {
    fn find(&self, tree: ObjectId) -> Option<Arc<Folder>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(id, _)| *id == tree).map(|(_, folder)| Arc::clone(folder))
    }

    fn keep(&self, tree: ObjectId, entries: &[Entry]) {
        if !(LARGE..=TOO_LARGE).contains(&entries.len()) {
            return;
        }
        let mut places = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            places.entry(entry.path.clone()).or_insert(at);
        }
        let folder = Arc::new(Folder { entries: entries.to_vec(), places });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((tree, folder));
    }
}

/// Reads the folders and files of one commit, and follows its links.
pub(crate) struct Reader<'r> {
    pub git: &'r Repository,
    pub repository: &'r Address,
    pub trees: &'r Trees,
    pub commit: &'r str,
    /// The tree of the commit's top folder.
    pub root: ObjectId,
    pub limits: &'r Limits,
    /// What gives files the content that Git LFS keeps of them, where that is wanted.
    pub lfs: Option<&'r Lookup<'r>>,
}

impl Reader<'_> {
    fn wrong(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.repository.to_string(), reason: reason(error) }
    }

    /// What is in a folder, by name.
    fn entries(&self, tree: ObjectId) -> Result<Vec<Entry>, SourceError> {
        if let Some(folder) = self.trees.find(tree) {
            return Ok(folder.entries.clone());
        }
        let found = self.git.find_tree(tree).map_err(|error| self.wrong(&error))?;
        let decoded = found.decode().map_err(|error| self.wrong(&error))?;
        let entry = |entry: &gix::objs::tree::EntryRef<'_>| Entry {
            path: entry.filename.to_string(),
            id: entry.oid.to_owned(),
            kind: entry.mode.kind(),
        };
        let entries: Vec<Entry> = decoded.entries.iter().map(entry).collect();
        self.trees.keep(tree, &entries);
        Ok(entries)
    }

    /// What is in a folder under a name.
    fn entry(&self, tree: ObjectId, name: &str) -> Result<Option<Entry>, SourceError> {
        if let Some(folder) = self.trees.find(tree) {
            return Ok(folder.find(name));
        }
        Ok(self.entries(tree)?.into_iter().find(|entry| entry.path == name))
    }

    /// The names of what is in a folder, folders among them, in Git's order.
    pub fn names(&self, folder: ObjectId) -> Result<Vec<String>, SourceError> {
        Ok(self.entries(folder)?.into_iter().map(|entry| entry.path).collect())
    }

    /// A folder of the commit, under its plain path.
    pub fn folder(&self, path: &str) -> Result<(String, ObjectId), SourceError> {
        let none =
            |found| SourceError::NoFolder { path: path.to_owned(), found, commit: self.commit.to_owned() };
        let Some(plain) = join("", path) else { return Err(none("outside of the repository")) };
        let (mut tree, mut at) = (self.root, String::new());
        for part in parts(&plain) {
            at = if at.is_empty() { part.to_owned() } else { format!("{at}/{part}") };
            let found = self.entry(tree, part)?;
            match found {
                Some(Entry { kind: EntryKind::Tree, id, .. }) => tree = id,
                Some(Entry { kind: EntryKind::Commit, .. }) => {
                    return Err(SourceError::Submodule { path: at });
                }
                Some(Entry { kind: EntryKind::Link, .. }) => return Err(none("a link, or below one,")),
                Some(_) => return Err(none("a file")),
                None => return Err(none("not there")),
            }
        }
        Ok((plain, tree))
    }

    /// Goes through what is in a folder but the folders themselves; through what is in those too, if it is wanted.
    fn walk(
        &self,
        folder: ObjectId,
        path: &str,
        recurse: bool,
        mut take: impl FnMut(Entry) -> Result<(), SourceError>,
    ) -> Result<(), SourceError> {
        let limit = |limit, what| SourceError::Limit { path: path.to_owned(), limit, what };
        let mut waiting = vec![(String::new(), folder, 1)];
        let mut seen = 0_u64;
        while let Some((prefix, tree, depth)) = waiting.pop() {
            if depth > self.limits.depth {
                return Err(limit(self.limits.depth, "folders inside each other"));
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
                    _ => take(Entry { path: below, ..entry })?,
                }
            }
        }
        Ok(())
    }

    /// All that is in a folder but the folders themselves, sorted by path; of the folders in it too, if they are wanted.
    pub fn list(&self, folder: ObjectId, path: &str, recurse: bool) -> Result<Vec<Entry>, SourceError> {
        let mut listed = Vec::new();
        self.walk(folder, path, recurse, |entry| {
            match entry.kind {
                EntryKind::Commit if recurse => {
                    return Err(SourceError::Submodule { path: full(path, &entry.path) });
                }
                EntryKind::Commit | EntryKind::Tree => return Ok(()),
                EntryKind::Link => {
                    self.target(&full(path, &entry.path), entry.id)?;
                }
                EntryKind::Blob | EntryKind::BlobExecutable => {}
            }
            listed.push(entry);
            Ok(())
        })?;
        listed.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(listed)
    }

    /// The paths of all files of the commit, sorted. What is in submodules is not in the commit.
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

    /// Where a link leads to, in the repository.
    fn target(&self, path: &str, link: ObjectId) -> Result<String, SourceError> {
        let content = self.blob(path, link)?;
        let target = String::from_utf8_lossy(&content).into_owned();
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inside = if target.starts_with('/') { None } else { join(folder, &target) };
        inside.ok_or_else(|| SourceError::Link { path: path.to_owned(), target })
    }

    /// The content of an entry, wherever it leads; nothing for a link to a folder, which is no manifest.
    pub fn content(&self, path: &str, entry: &Entry) -> Result<Option<Vec<u8>>, SourceError> {
        let (at, found) = self.follow(path, entry)?;
        if !matches!(found.kind, EntryKind::Blob | EntryKind::BlobExecutable) {
            return Ok(None);
        }
        let held = self.blob(path, found.id)?;
        match self.lfs {
            Some(lfs) => lfs.content(&at, held, self.limits).map(Some),
            None => Ok(Some(held)),
        }
    }

    /// What an entry leads to in the end, and where that is.
    pub fn follow(&self, path: &str, entry: &Entry) -> Result<(String, Entry), SourceError> {
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

    /// The tree of a folder at a plain path; nothing where there is none.
    pub fn find_folder(&self, path: &str) -> Result<Option<ObjectId>, SourceError> {
        let found = self.lookup(path)?;
        Ok(found.filter(|entry| entry.kind == EntryKind::Tree).map(|entry| entry.id))
    }

    /// What is at a plain path of the commit.
    pub fn lookup(&self, path: &str) -> Result<Option<Entry>, SourceError> {
        let mut found = Entry { path: String::new(), id: self.root, kind: EntryKind::Tree };
        for part in parts(path) {
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

    /// The content of the blob of a path, whose size is looked at first.
    fn blob(&self, path: &str, id: ObjectId) -> Result<Vec<u8>, SourceError> {
        let header = self.git.find_header(id).map_err(|error| self.wrong(&error))?;
        if header.size() > self.limits.bytes {
            let path = path.to_owned();
            return Err(SourceError::Limit { path, limit: self.limits.bytes, what: "bytes in one file" });
        }
        Ok(self.git.find_object(id).map_err(|error| self.wrong(&error))?.detach().data)
    }
}

/// A path below a folder of the repository.
pub(crate) fn full(folder: &str, below: &str) -> String {
    if folder.is_empty() { below.to_owned() } else { format!("{folder}/{below}") }
}

pub(crate) fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// A path from a folder on, without `.` and `..`; nothing where it leaves the repository.
pub(crate) fn join(folder: &str, path: &str) -> Option<String> {
    let mut plain: Vec<&str> = parts(folder).collect();
    for part in parts(path) {
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
