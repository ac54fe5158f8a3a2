//! Cache of open repositories, with one entry per thread. It exists because thousands of Applications may be
//! read within seconds. Opening a repository is cheap, but closing it becomes more expensive with the number
//! of threads that have read from it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gix::Repository;
use gix::odb::store::init::Slots;

/// Maximum time that an open repository is cached. The repository is then reopened, because the repository on
/// disk may have been replaced.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);
/// Number of slots for packs that are added while the repository is open. With more slots, closing the
/// repository takes longer.
const PACK_SLOTS: Slots = Slots::AsNeededByDiskState { multiplier: 1.5, minimum: 6 };

/// Files that are read first when a repository is opened.
const READ_FIRST: [&str; 2] = ["HEAD", "config"];

/// Next generation number. A repository that replaces another one at the same path has a different number.
static NEXT_GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The repository that this thread used last, preceded by its generation number and the time at which it
    /// was opened.
    static LAST: RefCell<Option<(u64, Instant, Repository)>> = const { RefCell::new(None) };
}

/// Access to the repository at a path.
pub(crate) struct RepositoryHandle {
    path: PathBuf,
    generation: AtomicU64,
}

impl RepositoryHandle {
    pub fn new(path: PathBuf) -> Self {
        Self { path, generation: AtomicU64::new(next_generation()) }
    }

    /// Calls a function with the repository. The state of its refs is at most one second old, and newer
    /// objects are also available.
    #[expect(
        clippy::disallowed_methods,
        reason = "results do not depend on how long the repository stays open"
    )]
    pub fn use_cached<T>(&self, using: impl FnOnce(&Repository) -> T) -> gix::Result<T> {
        let number = self.generation.load(Ordering::Acquire);
        // The function may read other repositories in this thread, so remove the repository from the cache
        // while it is in use.
        let last = LAST.take().filter(|(its, at, _)| *its == number && at.elapsed() < CACHE_LIFETIME);
        let (at, repository) = match last {
            Some((_, at, repository)) => (at, repository),
            None => (Instant::now(), open_repository(&self.path)?),
        };
        let done = using(&repository);
        LAST.set(Some((number, at, repository)));
        Ok(done)
    }

    /// Opens the repository in its current state, for occasional use. The result isn't cached, because open
    /// packs occupy disk space even after they have been deleted.
    pub fn open_current(&self) -> gix::Result<Repository> {
        self.invalidate();
        self.open_independent()
    }

    /// Opens the repository in its current state. The cache isn't affected.
    pub fn open_independent(&self) -> gix::Result<Repository> {
        open_repository(&self.path)
    }

    /// Invalidates the cached repositories of all threads. Called when the repository is replaced.
    pub fn invalidate(&self) {
        self.generation.store(next_generation(), Ordering::Release);
    }
}

fn next_generation() -> u64 {
    NEXT_GENERATION.fetch_add(1, Ordering::Relaxed)
}

/// Opens a repository. `refs/replace` is ignored, because it could replace the files of a signed commit.
fn open_repository(path: &Path) -> gix::Result<Repository> {
    for name in READ_FIRST {
        check_file(&path.join(name))?;
        check_file(&path.join(".git").join(name))?;
    }
    let options = gix::open::Options::isolated().config_overrides(["core.useReplaceRefs=false"]);
    Ok(options.object_store_slots(PACK_SLOTS).open(path)?.into())
}

/// Returns an error unless the path is a regular file or doesn't exist. Reading a pipe would block forever.
fn check_file(path: &Path) -> gix::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(gix::Error::from_error(std::io::Error::other(format!("{} is not a file", path.display()))))
        }
        _ => Ok(()),
    }
}
