//! What was fetched of a repository: a bare repository in the state directory, without history. It can be lost at any time;
//! what is wanted is fetched again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use gix::{ObjectId, ThreadSafeRepository};
use sha2::{Digest as _, Sha256};

use super::{Problem, RemoteLimits};
use crate::error::reason;
use crate::lfs::ENDING;
use crate::opened::Opened;
use crate::{Address, SourceError};

/// A mirror is not smaller than so many times its first fetch when it is made anew for its size.
const GROWTH: u64 = 4;
/// The names of the commits that were fetched, in Git's own file for commits whose parents are not there.
const COMMITS: &str = "shallow";
/// How many bytes the first fetch had.
const FIRST: &str = "tidegate-first";
/// A mirror that is being made, and is not one yet.
pub(crate) const NEW: &str = "new";

/// Where the packs are.
const PACKS: &str = "objects/pack";
/// What the name of a pack or index begins with that is being written.
const HALF: &str = ".tmp";

/// Digits of the name of a mirror.
const DIGITS: usize = 32;

/// The name of the mirror of a repository.
pub(super) fn name(address: &Address) -> String {
    let mut name = tidegate_model::Digest(Sha256::digest(address.key().as_bytes()).into()).to_string();
    name.truncate(DIGITS);
    name
}

/// Removes all mirrors in a folder but those of these repositories; of the others nobody may use any.
pub(crate) fn sweep<'a>(mirrors: &Path, kept: impl IntoIterator<Item = &'a Address>) {
    let kept: BTreeSet<String> = kept.into_iter().map(name).collect();
    for entry in fs::read_dir(mirrors).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        let beside = [NEW, ENDING].into_iter().find_map(|end| file.strip_suffix(end)?.strip_suffix('.'));
        let own = beside.unwrap_or(&file);
        let is_mirror = own.len() == DIGITS && own.chars().all(|c| c.is_ascii_hexdigit());
        if !is_mirror || kept.contains(own) {
            continue;
        }
        match remove(&entry.path()) {
            Ok(()) => tracing::info!(mirror = %own, "the mirror of a repository that nobody uses is removed"),
            Err(error) => {
                tracing::warn!(mirror = %own, %error, "a mirror that nobody uses cannot be removed")
            }
        }
    }
}

/// Removes what a process that was killed had begun: halves of packs, and mirrors that are none yet. Nobody may be at work on any.
pub(crate) fn sweep_begun(mirrors: &Path) {
    let inside =
        |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let ends = |path: &Path| path.extension().is_some_and(|end| end == NEW);
    for mirror in inside(mirrors) {
        let removed = if ends(&mirror) {
            remove(&mirror)
        } else {
            let halves = inside(&mirror.join(PACKS))
                .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(HALF)));
            let names = inside(&mirror).filter(|path| ends(path));
            halves.chain(names).try_for_each(fs::remove_file)
        };
        if let Err(error) = removed {
            tracing::warn!(mirror = %mirror.display(), %error, "what a fetch had begun cannot be removed");
        }
    }
}

pub(crate) struct Mirror {
    folder: PathBuf,
    opened: Opened,
    address: String,
    limits: RemoteLimits,
    /// Held for writing where objects may vanish.
    swap: RwLock<()>,
}

impl Mirror {
    pub fn new(mirrors: &Path, address: &Address, limits: RemoteLimits) -> Self {
        let folder = mirrors.join(name(address));
        let opened = Opened::new(folder.clone());
        Self { folder, opened, address: address.to_string(), limits, swap: RwLock::default() }
    }

    /// Whether a commit is there, and with it all of its files.
    pub fn has(&self, commit: ObjectId) -> bool {
        let _shared = self.swap.read().unwrap_or_else(PoisonError::into_inner);
        // The name is written after the objects, which may be half there without it.
        // Opened for this: what is damaged would be found only when it is opened anew.
        let is_there = |git: gix::Repository| git.find_commit(commit).is_ok();
        self.commits().contains(&commit) && self.opened.once().is_ok_and(is_there)
    }

    fn commits(&self) -> Vec<ObjectId> {
        let text = fs::read_to_string(self.folder.join(COMMITS)).unwrap_or_default();
        text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect()
    }

    /// The only commit that is here and begins so.
    pub fn complete(&self, prefix: &str) -> Option<ObjectId> {
        let commits = self.commits();
        let mut found = commits.into_iter().filter(|id| id.to_string().starts_with(prefix));
        found.next().filter(|_| found.next().is_none())
    }

    /// Reads what is there.
    pub fn read<T>(
        &self,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let _shared = self.swap.read().unwrap_or_else(PoisonError::into_inner);
        let read = |error: &gix::Error| SourceError::Read {
            repository: self.address.clone(),
            reason: reason(error),
        };
        self.opened.with(using).map_err(|error| read(&error))?
    }

    /// Removes the mirror with all it holds; the next fetch begins it anew.
    pub fn clear(&self) -> Result<(), Problem> {
        let _alone = self.swap.write().unwrap_or_else(PoisonError::into_inner);
        self.opened.replaced();
        remove(&self.folder).map_err(|error| self.failed("removed", &error))
    }

    fn failed(&self, what: &str, error: &io::Error) -> Problem {
        Problem::new(format!("{} cannot be {what}: {error}", self.folder.display()))
            .hint("the state directory needs room, and belongs to this process alone")
    }

    /// Has a commit fetched, into the mirror or into a new one that takes its place. `fetch` is given a repository and the
    /// commits it has.
    pub fn add(
        &self,
        commit: ObjectId,
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let commits = self.commits();
        let is_grown = commits.len() >= self.limits.mirror_fetches || self.is_grown();
        if is_grown {
            tracing::info!(
                repository = self.address,
                "the mirror of a repository has grown and is made anew"
            );
        } else if !commits.is_empty() {
            match self.add_to(&commits, &fetch) {
                Ok(()) => return self.note(&self.folder, &commits, commit),
                Err(problem) if !problem.here => return Err(problem),
                Err(Problem { what, .. }) => {
                    tracing::warn!(
                        repository = self.address,
                        reason = what,
                        "the mirror of a repository is damaged and is made anew"
                    );
                }
            }
        }
        self.make(commit, fetch)
    }

    /// Has something fetched into the mirror that is no commit. Nobody is told that it is there: it may be lost with the mirror.
    pub fn add_beside(
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
        let damaged = |what| Problem { here: true, ..Problem::new(what) };
        let git = self.opened.anew().map_err(|error| damaged(reason(&error)))?;
        // The server leaves out what we say is here.
        if let Some(lost) = commits.iter().find(|id| git.find_commit(**id).is_err()) {
            return Err(damaged(format!("commit {lost} is lost")));
        }
        fetch(&git, commits)
    }

    fn make(
        &self,
        commit: ObjectId,
        fetch: impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let new = self.folder.with_extension(NEW);
        remove(&new).map_err(|error| self.failed("removed", &error))?;
        fs::create_dir_all(&new).map_err(|error| self.failed("made", &error))?;
        let (kind, options) = (gix::create::Kind::Bare, gix::open::Options::isolated());
        let made = ThreadSafeRepository::init_opts(&new, kind, Default::default(), options);
        let made = made
            .map_err(|error| Problem::new(format!("{} cannot be made: {}", new.display(), reason(&error))))?;
        let described = fs::write(new.join("description"), format!("{}\n", self.address));
        described.map_err(|error| self.failed("made", &error))?;
        if let Err(problem) = fetch(&made.to_thread_local(), &[]) {
            let _ = remove(&new);
            return Err(problem);
        }
        self.note(&new, &[], commit)?;
        let first = fs::write(new.join(FIRST), bytes(&new).to_string());
        first.map_err(|error| self.failed("written", &error))?;
        let _alone = self.swap.write().unwrap_or_else(PoisonError::into_inner);
        self.opened.replaced();
        remove(&self.folder).map_err(|error| self.failed("removed", &error))?;
        fs::rename(&new, &self.folder).map_err(|error| self.failed("made", &error))
    }

    /// Writes down that a commit is there.
    fn note(&self, folder: &Path, known: &[ObjectId], commit: ObjectId) -> Result<(), Problem> {
        let mut commits = known.to_vec();
        commits.push(commit);
        commits.sort();
        commits.dedup();
        let text: String = commits.iter().map(|id| format!("{id}\n")).collect();
        let (path, new) = (folder.join(COMMITS), folder.join("shallow.new"));
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| self.failed("written", &error))
    }

    fn is_grown(&self) -> bool {
        let first = fs::read_to_string(self.folder.join(FIRST)).ok();
        let first = first.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or_default();
        bytes(&self.folder) > first.saturating_mul(GROWTH).max(self.limits.mirror_bytes)
    }
}

/// The bytes of all packs.
fn bytes(folder: &Path) -> u64 {
    let packs = fs::read_dir(folder.join(PACKS)).into_iter().flatten().flatten();
    packs.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
