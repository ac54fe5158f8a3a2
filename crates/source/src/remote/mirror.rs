//! Mirrors of remote repositories: bare repositories without history in the state directory. They may be
//! deleted at any time and are recreated on demand.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use gix::{ObjectId, ThreadSafeRepository};
use sha2::{Digest as _, Sha256};

use super::{Problem, RemoteLimits};
use crate::error::git_error_text;
use crate::open_cache::RepositoryHandle;
use crate::{Address, SourceError};

/// Minimum growth before a mirror is recreated, as a multiple of its size after the first fetch.
const GROWTH_FACTOR_MIN: u64 = 4;
/// File that lists the fetched commits. Git treats them as having no parents.
const COMMITS_FILE: &str = "shallow";
/// File with the mirror's size after the first fetch, in bytes.
const FIRST_SIZE_FILE: &str = "tidegate-first";
/// Suffix of an incomplete mirror.
pub(crate) const NEW_SUFFIX: &str = "new";
/// Suffix of the folder for a repository's Git LFS objects, next to the mirror.
pub(super) const LFS_SUFFIX: &str = "lfs";

/// Folder for packs within a mirror.
const PACKS: &str = "objects/pack";
/// Prefix of an incomplete pack or index.
const TEMPORARY_PREFIX: &str = ".tmp";

/// Number of digits in the name of a mirror.
const DIGITS: usize = 32;

pub(super) fn mirror_name(address: &Address) -> String {
    let mut name = tidegate_model::Digest(Sha256::digest(address.key().as_bytes()).into()).to_string();
    name.truncate(DIGITS);
    name
}

/// Deletes all mirrors in a folder except for those of `kept`. The deleted mirrors must not be in use.
pub(crate) fn delete_unused<'a>(mirrors: &Path, kept: impl IntoIterator<Item = &'a Address>) {
    let kept: BTreeSet<String> = kept.into_iter().map(mirror_name).collect();
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        let beside =
            [NEW_SUFFIX, LFS_SUFFIX].into_iter().find_map(|end| file.strip_suffix(end)?.strip_suffix('.'));
        let own = beside.unwrap_or(&file);
        let is_mirror = own.len() == DIGITS && own.chars().all(|c| c.is_ascii_hexdigit());
        if !is_mirror || kept.contains(own) {
            continue;
        }
        match remove_folder(&entry.path()) {
            Ok(()) => tracing::info!(mirror = %own, "removed an unused repository mirror"),
            Err(error) => {
                tracing::warn!(mirror = %own, %error, "failed to remove an unused repository mirror")
            }
        }
    }
}

/// Deletes partial packs and incomplete mirrors left behind by a process killed during a fetch. No mirror may
/// be in use.
pub(crate) fn delete_unfinished(mirrors: &Path) {
    let inside =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ends = |path: &Path| path.extension().is_some_and(|end| end == NEW_SUFFIX);
    for mirror in inside(mirrors) {
        let removed = if ends(&mirror) {
            remove_folder(&mirror)
        } else {
            let halves = inside(&mirror.join(PACKS)).filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY_PREFIX))
            });
            let names = inside(&mirror).filter(|path| ends(path));
            halves.chain(names).try_for_each(fs::remove_file)
        };
        if let Err(error) = removed {
            tracing::warn!(mirror = %mirror.display(), %error, "failed to remove the leftovers of an interrupted fetch");
        }
    }
}

pub(crate) struct Mirror {
    folder: PathBuf,
    handle: RepositoryHandle,
    address: String,
    limits: RemoteLimits,
    /// Lock held for writing while the mirror is deleted or replaced.
    swap_lock: RwLock<()>,
}

impl Mirror {
    pub fn new(mirrors: &Path, address: &Address, limits: RemoteLimits) -> Self {
        let folder = mirrors.join(mirror_name(address));
        let opened = RepositoryHandle::new(folder.clone());
        Self { folder, handle: opened, address: address.to_string(), limits, swap_lock: RwLock::default() }
    }

    /// Returns true if the mirror has a commit and all its files.
    pub fn has(&self, commit: ObjectId) -> bool {
        let _shared = self.swap_lock.read().unwrap_or_else(PoisonError::into_inner);
        // Commits are recorded after their objects, so an unrecorded commit may be incomplete. Bypass the
        // cache, which would hide damage on disk.
        let is_there = |git: gix::Repository| git.find_commit(commit).is_ok();
        self.commits().contains(&commit) && self.handle.open_independent().is_ok_and(is_there)
    }

    fn commits(&self) -> Vec<ObjectId> {
        let text = fs::read_to_string(self.folder.join(COMMITS_FILE)).unwrap_or_default();
        text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect()
    }

    /// Returns the fetched commit that starts with a prefix, or `None` if there isn't exactly one.
    pub fn complete(&self, prefix: &str) -> Option<ObjectId> {
        let commits = self.commits();
        let mut found = commits.into_iter().filter(|id| id.to_string().starts_with(prefix));
        found.next().filter(|_| found.next().is_none())
    }

    /// Calls a function with the mirror's repository.
    pub fn read<T>(
        &self,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let _shared = self.swap_lock.read().unwrap_or_else(PoisonError::into_inner);
        let read = |error: &gix::Error| SourceError::Read {
            repository: self.address.clone(),
            reason: git_error_text(error),
        };
        self.handle.use_cached(using).map_err(|error| read(&error))?
    }

    /// Deletes the mirror. The next fetch recreates it.
    pub fn clear(&self) -> Result<(), Problem> {
        let _alone = self.swap_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.handle.invalidate();
        remove_folder(&self.folder).map_err(|error| self.io_problem("remove", &error))
    }

    fn io_problem(&self, what: &str, error: &io::Error) -> Problem {
        Problem::new(format!("cannot {what} {}: {error}", self.folder.display())).with_hint(
            "check that the disk with the state directory is not full and that no other process is \
             modifying the directory",
        )
    }

    /// Fetches a commit into the mirror, or into a new one that replaces it. `fetch` takes a repository and
    /// the commits it already has.
    pub fn add(
        &self,
        commit: ObjectId,
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let commits = self.commits();
        let is_grown = commits.len() >= self.limits.mirror_fetches || self.is_oversized();
        if is_grown {
            tracing::info!(repository = self.address, "repository mirror has grown too large; recreating it");
        } else if !commits.is_empty() {
            match self.add_to(&commits, &fetch) {
                Ok(()) => return self.record_commit(&self.folder, &commits, commit),
                Err(problem) if !problem.can_be_local => return Err(problem),
                Err(Problem { message: what, .. }) => {
                    tracing::warn!(
                        repository = self.address,
                        reason = what,
                        "repository mirror is damaged; recreating it"
                    );
                }
            }
        }
        self.create(commit, fetch)
    }

    /// Fetches an object other than a commit. The mirror doesn't record it, so it may be lost when the mirror
    /// is recreated.
    pub fn add_object(
        &self,
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        self.add_to(&self.commits(), fetch)
    }

    fn add_to(
        &self,
        commits: &[ObjectId],
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let damaged = |what| Problem { can_be_local: true, ..Problem::new(what) };
        let git = self.handle.open_current().map_err(|error| damaged(git_error_text(&error)))?;
        // The server omits whatever the client announces, so all announced commits must exist.
        if let Some(lost) = commits.iter().find(|id| git.find_commit(**id).is_err()) {
            return Err(damaged(format!("commit {lost} is missing")));
        }
        fetch(&git, commits)
    }

    fn create(
        &self,
        commit: ObjectId,
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let new = self.folder.with_extension(NEW_SUFFIX);
        remove_folder(&new).map_err(|error| self.io_problem("remove", &error))?;
        fs::create_dir_all(&new).map_err(|error| self.io_problem("create", &error))?;
        let (kind, options) = (gix::create::Kind::Bare, gix::open::Options::isolated());
        let made = ThreadSafeRepository::init_opts(&new, kind, Default::default(), options);
        let made = made.map_err(|error| {
            Problem::new(format!("cannot create {}: {}", new.display(), git_error_text(&error)))
        })?;
        let described = fs::write(new.join("description"), format!("{}\n", self.address));
        described.map_err(|error| self.io_problem("create", &error))?;
        if let Err(problem) = fetch(&made.to_thread_local(), &[]) {
            let _ = remove_folder(&new);
            return Err(problem);
        }
        self.record_commit(&new, &[], commit)?;
        let first = fs::write(new.join(FIRST_SIZE_FILE), pack_bytes(&new).to_string());
        first.map_err(|error| self.io_problem("write", &error))?;
        let _alone = self.swap_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.handle.invalidate();
        remove_folder(&self.folder).map_err(|error| self.io_problem("remove", &error))?;
        fs::rename(&new, &self.folder).map_err(|error| self.io_problem("create", &error))
    }

    fn record_commit(&self, folder: &Path, known: &[ObjectId], commit: ObjectId) -> Result<(), Problem> {
        let mut commits = known.to_vec();
        commits.push(commit);
        commits.sort();
        commits.dedup();
        let text: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let (path, new) = (folder.join(COMMITS_FILE), folder.join("shallow.new"));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| self.io_problem("write", &error))
    }

    fn is_oversized(&self) -> bool {
        let first = fs::read_to_string(self.folder.join(FIRST_SIZE_FILE)).ok();
        let first = first.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or_default();
        pack_bytes(&self.folder) > first.saturating_mul(GROWTH_FACTOR_MIN).max(self.limits.mirror_bytes)
    }
}

/// Returns the total size of the packs, in bytes.
fn pack_bytes(folder: &Path) -> u64 {
    let packs = fs::read_dir(folder.join(PACKS)).into_iter().flatten().flatten();
    packs.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
