//! A repository on disk that a thread opens once for all it reads of it at about the same time. Opening it costs little, but
//! closing it costs more the more threads have ever read one, and thousands of applications may be read within seconds.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use gix::Repository;
use gix::odb::store::init::Slots;

/// After so long it is opened anew: what is there may be another one by then.
const LASTS: Duration = Duration::from_secs(1);
/// Room for packs that come while it is open; each place costs time when it is closed.
const PACKS: Slots = Slots::AsNeededByDiskState { multiplier: 1.5, minimum: 6 };

/// What is read of every repository before anything else.
const READ_FIRST: [&str; 2] = ["HEAD", "config"];

/// Distinguishes what stands at a path at one time from what stands there later.
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What this thread has read last: by its number, and when it was opened.
    static LAST: RefCell<Option<(u64, Instant, Repository)>> = const { RefCell::new(None) };
}

/// The way to a repository at a path.
pub(crate) struct Opened {
    path: PathBuf,
    number: AtomicU64,
}

impl Opened {
    pub fn new(path: PathBuf) -> Self {
        Self { path, number: AtomicU64::new(next()) }
    }

    /// Uses it as it is, or was a second ago at most. What has come to it since is found.
    #[expect(clippy::disallowed_methods, reason = "no result depends on how long it stays open")]
    pub fn with<T>(&self, using: impl FnOnce(&Repository) -> T) -> gix::Result<T> {
        let number = self.number.load(Ordering::Acquire);
        // Taken out meanwhile: what is done with it may read others.
        let last = LAST.take().filter(|(its, at, _)| *its == number && at.elapsed() < LASTS);
        let (at, repository) = match last {
            Some((_, at, repository)) => (at, repository),
            None => (Instant::now(), open(&self.path)?),
        };
        let done = using(&repository);
        LAST.set(Some((number, at, repository)));
        Ok(done)
    }

    /// As it is now. It does not stay open: this is asked now and then for as long as somebody wants it, and packs that are removed
    /// take room until then.
    pub fn anew(&self) -> gix::Result<Repository> {
        self.replaced();
        self.once()
    }

    /// As it is now, whatever others go on with.
    pub fn once(&self) -> gix::Result<Repository> {
        open(&self.path)
    }

    /// Something else stands there from now on.
    pub fn replaced(&self) {
        self.number.store(next(), Ordering::Release);
    }
}

fn next() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// `refs/replace` would put other files under a commit, and its signature would stay good.
fn open(path: &Path) -> gix::Result<Repository> {
    for name in READ_FIRST {
        check_file(&path.join(name))?;
        check_file(&path.join(".git").join(name))?;
    }
    let options = gix::open::Options::isolated().config_overrides(["core.useReplaceRefs=false"]);
    Ok(options.object_store_slots(PACKS).open(path)?.into())
}

/// What is there and is no file is not opened: a pipe would be waited for without end.
fn check_file(path: &Path) -> gix::Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(gix::Error::from_error(std::io::Error::other(format!("{} is no file", path.display()))))
        }
        _ => Ok(()),
    }
}
