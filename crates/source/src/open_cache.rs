//! Cache of open repositories, with one entry per thread. Thousands of Applications may be read within
//! seconds. Opening a repository is cheap, but closing it gets more expensive with every thread that has read
//! from it.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gix::Repository;
use gix::odb::store::init::Slots;

/// Maximum time to keep a repository open. After that, it is reopened, because it may have been replaced on
/// disk.
const CACHE_LIFETIME: Duration = Duration::from_secs(1);
/// Number of slots for packs added while the repository is open. More slots make closing it slower.
const PACK_SLOTS: Slots = Slots::AsNeededByDiskState { multiplier: 1.5, minimum: 6 };

/// Files read first when opening a repository.
const READ_FIRST: [&str; 2] = ["HEAD", "config"];

/// Next generation number. A repository that replaces another at the same path gets a new number.
static NEXT_GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The repository last used by this thread, with its generation and opening time.
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

    /// Calls a function with the repository. Its refs are at most one second old, but newer objects are
    /// visible.
    #[expect(
        clippy::disallowed_methods,
        reason = "results do not depend on how long the repository stays open"
    )]
    pub fn use_cached<T>(&self, using: impl FnOnce(&Repository) -> T) -> gix::Result<T> {
        let number = self.generation.load(Ordering::Acquire);
        // The function may read other repositories on this thread, so take this entry out of the cache for
        // now.
        let last = LAST.take().filter(|(its, at, _)| *its == number && at.elapsed() < CACHE_LIFETIME);
        let (at, repository) = match last {
            Some((_, at, repository)) => (at, repository),
            None => (Instant::now(), open_repository(&self.path)?),
        };
        let done = using(&repository);
        LAST.set(Some((number, at, repository)));
        Ok(done)
    }

    /// Opens the repository in its current state, for occasional use. Not cached, because open packs take up
    /// disk space even after they have been deleted.
    pub fn open_current(&self) -> gix::Result<Repository> {
        self.invalidate();
        self.open_independent()
    }

    /// Opens the repository in its current state, bypassing the cache.
    pub fn open_independent(&self) -> gix::Result<Repository> {
        open_repository(&self.path)
    }

    /// Invalidates the cached repositories of all threads, after the repository was replaced.
    pub fn invalidate(&self) {
        self.generation.store(next_generation(), Ordering::Release);
    }
}

fn next_generation() -> u64 {
    NEXT_GENERATION.fetch_add(1, Ordering::Relaxed)
}

/// Opens a repository, ignoring `refs/replace`, which could replace the files of a signed commit.
fn open_repository(path: &Path) -> gix::Result<Repository> {
    for name in READ_FIRST {
        check_file(&path.join(name))?;
        check_file(&path.join(".git").join(name))?;
    }
    let options = gix::open::Options::isolated().config_overrides(["core.useReplaceRefs=false"]);
    Ok(options.object_store_slots(PACK_SLOTS).open(path)?.into())
}

/// Fails if the path exists but isn't a regular file. Reading a pipe would block forever.
fn check_file(path: &Path) -> gix::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(gix::Error::from_error(std::io::Error::other(format!("{} is not a file", path.display()))))
        }
        _ => Ok(()),
    }
}
