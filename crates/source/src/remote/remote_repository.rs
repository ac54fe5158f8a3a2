//! A remote repository: its mirror and its Git LFS objects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use gix::ObjectId;
use gix::objs::Kind;

use super::git_requests::{self, WantedObject};
use super::mirror::{self, Mirror};
use super::{Network, Problem, Singleflight};
use crate::credentials::{AccessSettings, Credentials};
use crate::lfs::{Lfs, LfsSource, Lookup};
use crate::{Address, Refs, RequestKind, SourceError};

/// A remote Git repository.
pub(crate) struct Remote {
    address: Address,
    network: Arc<Network>,
    mirror: Mirror,
    lfs: Lfs,
    /// Cached result of `enables_lfs`, with the credentials it was computed from.
    enables_lfs: Mutex<Option<(Arc<Credentials>, bool)>>,
    fetches: Singleflight<(ObjectId, Result<(), SourceError>)>,
    /// True if loopback addresses are blocked, because only manifests refer to the repository.
    blocks_loopback: AtomicBool,
    /// Last commit refetched because of a damaged mirror. If it is still unreadable, it isn't refetched
    /// again, which would loop forever.
    last_refetched: Mutex<Option<ObjectId>>,
}

impl Remote {
    pub fn new(address: Address, network: Arc<Network>) -> Self {
        let mirror = Mirror::new(&network.mirrors, &address, network.limits);
        let objects = network.mirrors.join(mirror::mirror_name(&address)).with_extension(mirror::LFS_SUFFIX);
        Self {
            lfs: Lfs::new(objects, network.limits.lfs_bytes),
            enables_lfs: Mutex::default(),
            address,
            network,
            mirror,
            fetches: Singleflight::default(),
            blocks_loopback: AtomicBool::new(false),
            last_refetched: Mutex::default(),
        }
    }

    fn error(&self, tried: &str, problem: Problem) -> SourceError {
        SourceError::remote(&self.address, tried, problem)
    }

    fn access(&self) -> Result<AccessSettings, SourceError> {
        self.network.access_to(&self.address, self.blocks_loopback.load(Ordering::Relaxed))
    }

    /// Returns true if the current credentials enable Git LFS for the repository.
    pub fn enables_lfs(&self) -> bool {
        let known = self.network.current_credentials();
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

    /// Returns a lookup to use while reading a commit.
    pub fn lookup(&self) -> Lookup<'_> {
        self.lfs.lookup(&self.address)
    }

    /// Fetches the missing Git LFS objects. The caller must not hold the repository open for reading.
    /// `config` is the repository's `.lfsconfig`.
    pub fn fetch_lfs(&self, config: Option<&[u8]>, lookup: &Lookup<'_>) -> Result<(), SourceError> {
        let from = LfsSource { address: &self.address, network: &self.network, access: &self.access()? };
        self.lfs.fetch(&from, config, lookup)
    }

    /// Sets whether loopback addresses are blocked.
    pub fn set_blocks_loopback(&self, is_barred: bool) {
        self.blocks_loopback.store(is_barred, Ordering::Relaxed);
    }

    /// Lists the refs of the repository.
    pub fn list(&self) -> Result<Refs, SourceError> {
        let access = self.access()?;
        let list = |access: &AccessSettings| {
            let attempt = self.network.attempts.start(self.network.limits.list_refs);
            git_requests::list_refs(&self.address, access, &self.network, &attempt)
        };
        let listed = self
            .network
            .listener
            .run_and_report(&self.address, RequestKind::ListRefs, || self.network.with_token(&access, list));
        listed.map_err(|problem| self.error("cannot list branches and tags", problem))
    }

    fn fetch(&self, commit: ObjectId) -> Result<(), SourceError> {
        loop {
            let (known, fetched) = self.fetches.run(|| (commit, self.fetch_now(commit)));
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
        let tried = format!("cannot fetch commit {commit}");
        let fetch = self.fetch_into(WantedObject { id: commit, kind: Kind::Commit })?;
        self.mirror.add(commit, fetch).map_err(|problem| self.error(&tried, problem))
    }

    /// Returns a function that fetches a commit or a tag into a repository, given the commits it already has.
    fn fetch_into(
        &self,
        wanted: WantedObject,
    ) -> Result<impl Fn(&gix::Repository, &[ObjectId]) -> Result<(), Problem>, SourceError> {
        let access = self.access()?;
        Ok(move |git: &gix::Repository, known: &[ObjectId]| {
            let fetch = |access: &AccessSettings| {
                let attempt = self.network.attempts.start(self.network.limits.fetch);
                git_requests::fetch_object(&self.address, access, &self.network, &attempt, git, known, wanted)
            };
            self.network
                .listener
                .run_and_report(&self.address, RequestKind::Fetch, || self.network.with_token(&access, fetch))
        })
    }

    /// Returns the fetched commit that starts with a prefix, or `None` if there isn't exactly one.
    pub fn complete(&self, prefix: &str) -> Option<ObjectId> {
        self.mirror.complete(prefix)
    }

    /// Calls a function with a repository that has a commit and all of its files, but not its history.
    pub fn with_commit<T>(
        &self,
        commit: ObjectId,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if !self.mirror.has(commit) {
            self.fetch(commit)?;
        }
        match self.mirror.read(&using) {
            // The commit was fetched before, so the mirror or the remote repository must be damaged.
            Err(SourceError::Read { reason, .. }) if self.can_refetch(commit) => {
                tracing::warn!(repository = %self.address, %reason, "repository mirror is damaged; recreating it");
                self.mirror.clear().map_err(|problem| self.error("cannot recreate the mirror", problem))?;
                self.fetch(commit)?;
                self.mirror.read(&using)
            }
            other => other,
        }
    }

    /// Calls a function with a repository that has a commit and an annotated tag of it.
    pub fn with_tag<T>(
        &self,
        commit: ObjectId,
        tag: ObjectId,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        if !self.with_commit(commit, |git| Ok(git.has_object(tag)))? {
            let fetched = self.mirror.add_object(self.fetch_into(WantedObject { id: tag, kind: Kind::Tag })?);
            fetched.map_err(|problem| self.error(&format!("cannot fetch tag {tag}"), problem))?;
        }
        self.mirror.read(using)
    }

    fn can_refetch(&self, commit: ObjectId) -> bool {
        let mut mended = self.last_refetched.lock().unwrap_or_else(PoisonError::into_inner);
        mended.replace(commit) != Some(commit)
    }
}
