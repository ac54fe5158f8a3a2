//! Repositories that are reached over the network.
//!
//! ```text
//! Remote ── look ───▶ talk::list  ─┐
//!   │                              ├─▶ Transport: http (hyper) or ssh (a program) ─▶ server
//!   └── with_commit ▶ talk::fetch ─┘
//!            │ absent? fetch it alone, without its history
//!            ▼
//!         Mirror (a bare repository in the state directory)
//! ```
//!
//! Everything a server sends has a limit of time and of bytes, and ends when the process wants to end.

mod attempt;
mod http;
mod issued;
mod mirror;
mod relay;
pub(crate) mod ssh;
mod talk;
mod turn;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use gix::ObjectId;
use gix::objs::Kind;
use tidegate_web::{Barred, Clock};

use crate::credentials::{Access, AzureWorkload, Credentials};
use crate::lfs::{self, Lfs, Lookup};
use crate::{Address, Listener, Refs, RequestKind, SourceError};
pub(crate) use attempt::{Attempt, Attempts, Over};
pub(crate) use http::{Fetched, Link};
pub(crate) use issued::Tokens;
use mirror::Mirror;
pub(crate) use mirror::{NEW, sweep, sweep_begun};
pub(crate) use turn::Turn;

/// How much patience there is with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Time for a connection.
    pub connect: Duration,
    /// Time until an answer begins.
    pub answer: Duration,
    /// Time in which nothing comes.
    pub silence: Duration,
    /// Time for all of a look at the names.
    pub look: Duration,
    /// Time for all of fetching a commit.
    pub fetch: Duration,
    /// Bytes of the list of all branches and tags, as it is sent.
    pub names_bytes: u64,
    /// Bytes of the objects of a commit, as they are sent.
    pub pack_bytes: u64,
    /// Bytes of one object, unpacked.
    pub object_bytes: usize,
    /// Times that a server may send us on.
    pub redirects: u32,
    /// A mirror is made anew when it has more bytes than this and than four times those of its first fetch.
    pub mirror_bytes: u64,
    /// A mirror is made anew when it was fetched into so often.
    pub mirror_fetches: usize,
    /// Bytes of the objects of Git LFS that are kept of one repository; more only where they are read at one time.
    pub lfs_bytes: u64,
}

impl Default for RemoteLimits {
    /// Room for the largest repositories of manifests; a server that answers at all answers within these.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            silence: Duration::from_secs(60),
            look: Duration::from_secs(120),
            fetch: Duration::from_secs(15 * 60),
            names_bytes: 64 << 20,
            pack_bytes: 1 << 30,
            object_bytes: 64 << 20,
            redirects: 5,
            mirror_bytes: 64 << 20,
            mirror_fetches: 64,
            lfs_bytes: 256 << 20,
        }
    }
}

/// What went wrong on the way to a server. Holds nothing that is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    what: String,
    hint: &'static str,
    /// What we have may be the cause as well as what the server sends.
    here: bool,
    /// A server does not accept what was shown to it.
    is_refused: bool,
}

impl Problem {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), hint: "", here: false, is_refused: false }
    }

    /// In words, and what to do about it.
    pub fn words(self) -> (String, &'static str) {
        (self.what, self.hint)
    }

    /// What to do about it.
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl SourceError {
    /// What went wrong with a server.
    pub(crate) fn remote(address: &Address, tried: &str, problem: Problem) -> Self {
        Self::Remote {
            repository: address.to_string(),
            tried: tried.to_owned(),
            reason: problem.what,
            hint: problem.hint,
        }
    }
}

/// What all repositories over the network share.
pub(crate) struct Network {
    /// The folder in which each repository has its mirror.
    pub mirrors: std::path::PathBuf,
    pub credentials: RwLock<Arc<Credentials>>,
    pub limits: RemoteLimits,
    /// The program that is asked for SSH.
    pub ssh: std::path::PathBuf,
    /// Whether servers may have link-local addresses.
    pub link_local: bool,
    pub attempts: Attempts,
    pub trust: tidegate_web::Trust,
    /// Passwords that are good for a while.
    pub tokens: Tokens,
    pub clock: Clock,
    /// The identity of Azure that this process has.
    pub azure: AzureWorkload,
    pub listener: Listener,
}

impl Network {
    /// Which addresses are not asked with an access.
    pub fn barred(&self, access: &Access) -> Barred {
        Barred { link_local: !self.link_local, loopback: access.bars_loopback }
    }

    /// How a server beside that of a repository may be reached.
    pub fn elsewhere(&self, access: &Access, host: &str) -> Access {
        let known = self.credentials.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.elsewhere(access, host)
    }
}

/// A repository over the network.
pub(crate) struct Remote {
    address: Address,
    network: Arc<Network>,
    mirror: Mirror,
    lfs: Lfs,
    /// Whether that is used, by what these said.
    enables_lfs: Mutex<Option<(Arc<Credentials>, bool)>>,
    fetches: Turn<(ObjectId, Result<(), SourceError>)>,
    /// Addresses of this machine are not asked: manifests alone name this repository.
    bars_loopback: AtomicBool,
    /// Commits whose objects were fetched again because they could not be read; not for ever.
    mended: Mutex<Option<ObjectId>>,
}

impl Remote {
    pub fn new(address: Address, network: Arc<Network>) -> Self {
        let mirror = Mirror::new(&network.mirrors, &address, network.limits);
        let objects = network.mirrors.join(mirror::name(&address)).with_extension(lfs::ENDING);
        Self {
            lfs: Lfs::new(objects, network.limits.lfs_bytes),
            enables_lfs: Mutex::default(),
            address,
            network,
            mirror,
            fetches: Turn::default(),
            bars_loopback: AtomicBool::new(false),
            mended: Mutex::default(),
        }
    }

    fn wrong(&self, tried: &str, problem: Problem) -> SourceError {
        SourceError::remote(&self.address, tried, problem)
    }

    fn access(&self) -> Result<Access, SourceError> {
        let known = self.network.credentials.read().unwrap_or_else(PoisonError::into_inner).clone();
        let bars_loopback = self.bars_loopback.load(Ordering::Relaxed);
        Ok(Access { bars_loopback, ..known.access(&self.address)? })
    }

    /// Whether files that Git LFS keeps are fetched, as its Secrets say now.
    pub fn enables_lfs(&self) -> bool {
        let known = self.network.credentials.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut last = self.enables_lfs.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, enables)) if Arc::ptr_eq(of, &known) => *enables,
            _ => {
                let enables = known.enables_lfs(&self.address);
                *last = Some((known, enables));
                enables
            }
        }
    }

    /// Gives the content of files that Git LFS keeps, as far as it was fetched.
    pub fn lookup(&self) -> Lookup<'_> {
        self.lfs.lookup(&self.address)
    }

    /// Fetches what was missing. Nobody may be reading the repository meanwhile. `config` is its own word on where that is.
    pub fn fetch_lfs(&self, config: Option<&[u8]>, lookup: &Lookup<'_>) -> Result<(), SourceError> {
        let from = lfs::Source { address: &self.address, network: &self.network, access: &self.access()? };
        self.lfs.fetch(&from, config, lookup)
    }

    /// Whether addresses of this machine are not asked from now on.
    pub fn bar_loopback(&self, is_barred: bool) {
        self.bars_loopback.store(is_barred, Ordering::Relaxed);
    }

    /// Asks the server for its names.
    pub fn list(&self) -> Result<Refs, SourceError> {
        let access = self.access()?;
        let list = |access: &Access| {
            let attempt = self.network.attempts.begin(self.network.limits.look);
            talk::list(&self.address, access, &self.network, &attempt)
        };
        let asked = (&self.address, RequestKind::Names);
        let listed = self.network.listener.tell(asked, || self.network.asking(&access, list));
        listed.map_err(|problem| self.wrong("its branches and tags cannot be listed", problem))
    }

    fn fetch(&self, commit: ObjectId) -> Result<(), SourceError> {
        loop {
            let (known, fetched) = self.fetches.take(|| (commit, self.fetch_now(commit)));
            let (for_commit, result) = known;
            if fetched || for_commit == commit {
                return result;
            }
        }
    }

    fn fetch_now(&self, commit: ObjectId) -> Result<(), SourceError> {
        if self.mirror.has(commit) {
            return Ok(());
        }
        let tried = format!("commit {commit} cannot be fetched");
        let fetch = self.fetching((commit, Kind::Commit))?;
        self.mirror.add(commit, fetch).map_err(|problem| self.wrong(&tried, problem))
    }

    /// Fetches a commit or a tag into a repository that has some commits already.
    fn fetching(
        &self,
        wanted: (ObjectId, Kind),
    ) -> Result<impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>, SourceError> {
        let access = self.access()?;
        Ok(move |git: &gix::Repository, known: &[ObjectId]| {
            let fetch = |access: &Access| {
                let attempt = self.network.attempts.begin(self.network.limits.fetch);
                talk::fetch((&self.address, access), &self.network, &attempt, (git, known), wanted)
            };
            let asked = (&self.address, RequestKind::Objects);
            self.network.listener.tell(asked, || self.network.asking(&access, fetch))
        })
    }

    /// The only commit that was fetched and begins so.
    pub fn complete(&self, prefix: &str) -> Option<ObjectId> {
        self.mirror.complete(prefix)
    }

    /// Uses a repository that has a commit with all of its files; its history is not there.
    pub fn with_commit<T>(
        &self,
        commit: ObjectId,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if !self.mirror.has(commit) {
            self.fetch(commit)?;
        }
        match self.mirror.read(&using) {
            // It was fetched, so it was there: the mirror is damaged, or the repository itself is.
            Err(SourceError::Read { reason, .. }) if self.may_mend(commit) => {
                tracing::warn!(repository = %self.address, %reason, "the mirror of a repository is damaged and is made anew");
                self.mirror
                    .clear()
                    .map_err(|problem| self.wrong("its mirror cannot be made anew", problem))?;
                self.fetch(commit)?;
                self.mirror.read(&using)
            }
            other => other,
        }
    }

    /// The same, with a tag of the commit, which is an object of its own.
    pub fn with_tag<T>(
        &self,
        (commit, tag): (ObjectId, ObjectId),
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if !self.with_commit(commit, |git| Ok(git.has_object(tag)))? {
            let fetched = self.mirror.add_beside(self.fetching((tag, Kind::Tag))?);
            fetched.map_err(|problem| self.wrong(&format!("tag {tag} cannot be fetched"), problem))?;
        }
        self.mirror.read(using)
    }

    fn may_mend(&self, commit: ObjectId) -> bool {
        let mut mended = self.mended.lock().unwrap_or_else(PoisonError::into_inner);
        mended.replace(commit) != Some(commit)
    }
}
