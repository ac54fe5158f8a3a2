//! A Git repository, with its refs and the content of its commits.

use std::sync::Arc;

use gix::ObjectId;
use gix::objs::Kind;

use crate::address::AddressKind;
use crate::error::git_error_text;
use crate::file_access::FileAccess as _;
use crate::lfs::{CONFIG, Lookup, ROUNDS_MAX};
use crate::observations::SharedObservations;
use crate::open_cache::RepositoryHandle;
use crate::refs::TAGS;
use crate::remote::{Network, Remote};
use crate::tree::{CommitReader, Limits, TreeCache};
use crate::{Address, Refs, SourceError, refs};

/// Minimum number of digits in an abbreviated commit.
const COMMIT_PREFIX_MIN: usize = 7;

/// A Git repository and its latest observation.
pub struct Repository {
    address: Address,
    store: Store,
    trees: TreeCache,
    observations: SharedObservations<Observation>,
}

/// Access to the objects of the repository.
enum Store {
    Local(RepositoryHandle),
    Remote(Box<Remote>),
}

/// Result of an observation.
#[derive(Clone, PartialEq)]
struct Observation {
    refs: Result<Arc<Refs>, SourceError>,
    /// True if Git LFS is enabled, which affects the content of files.
    enables_lfs: bool,
}

/// An annotated tag.
pub(crate) struct Tag {
    /// Name of the tag, without `refs/tags/`.
    pub name: String,
    pub id: ObjectId,
}

/// A file with manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path in the repository.
    pub path: String,
    /// Content, as stored in the repository or as rendered by Helm or Kustomize.
    pub content: Vec<u8>,
}

impl Repository {
    /// Opens the repository at an address. `url` is the `repoURL` for messages. Without a network, remote
    /// repositories are an error.
    pub(crate) fn open(
        address: &Address,
        url: &str,
        network: Option<&Arc<Network>>,
    ) -> Result<Self, SourceError> {
        let store = match (address.kind(), network) {
            (AddressKind::Local(path), _) => {
                let opened = RepositoryHandle::new(path.clone());
                opened.open_current().map_err(|error| SourceError::NoRepository {
                    url: url.to_owned(),
                    path: path.clone(),
                    reason: git_error_text(&error),
                })?;
                Store::Local(opened)
            }
            (_, Some(network)) => Store::Remote(Box::new(Remote::new(address.clone(), Arc::clone(network)))),
            (_, None) => return Err(address.remote_access_disabled()),
        };
        let (trees, observations) = Default::default();
        Ok(Self { address: address.clone(), store, trees, observations })
    }

    /// Returns the address of the repository.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn set_blocks_loopback(&self, is_barred: bool) {
        if let Store::Remote(remote) = &self.store {
            remote.set_blocks_loopback(is_barred);
        }
    }

    fn error(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.address.to_string(), reason: git_error_text(error) }
    }

    /// Observes the refs. Returns true if they have changed since the last observation, and false the first
    /// time.
    ///
    /// # Errors
    ///
    /// Returns an error if the refs can't be read. Until the next observation, `resolve` returns the same
    /// error.
    pub fn observe(&self) -> Result<bool, SourceError> {
        let (before, found) = self.observations.observe(|_| self.observe_refs());
        let moved = before.is_some_and(|before| before != found);
        found.refs.map(|_| moved)
    }

    /// Observes the refs. Returns true if they or the repository's availability have changed since the last
    /// observation.
    pub fn observe_availability(&self) -> bool {
        let (before, found) = self.observations.observe(|_| self.observe_refs());
        before.map_or(found.refs.is_err(), |before| before != found)
    }

    fn observe_refs(&self) -> Observation {
        let refs = match &self.store {
            Store::Local(opened) => opened
                .open_current()
                .and_then(|git| refs::read_refs(&git))
                .map_err(|error| self.error(&error)),
            Store::Remote(remote) => remote.list(),
        };
        Observation { refs: refs.map(Arc::new), enables_lfs: self.enables_lfs() }
    }

    fn last_refs(&self) -> Result<Arc<Refs>, SourceError> {
        self.observations.last().unwrap_or_else(|| self.observations.observe(|_| self.observe_refs()).1).refs
    }

    /// Resolves a revision to a commit, as of the latest observation. A revision is a commit (possibly
    /// abbreviated), a branch, a tag, or a version constraint, which selects the newest matching tag. Empty
    /// means `HEAD`.
    pub fn resolve(&self, revision: &str) -> Result<String, SourceError> {
        // As in Argo CD, version constraints take precedence over branches of the same name.
        self.resolve_as(revision, |refs| refs.newest(revision).or_else(|| refs.find(revision)))
    }

    /// Resolves a name as Git does: as a commit, a tag or a branch, in this order. Empty means `HEAD`.
    pub(crate) fn resolve_name(&self, name: &str) -> Result<String, SourceError> {
        self.resolve_as(name, |refs| refs.find_as_git(name))
    }

    fn resolve_as(
        &self,
        revision: &str,
        find: impl Fn(&Refs) -> Option<ObjectId>,
    ) -> Result<String, SourceError> {
        let repository = self.address.to_string();
        let unknown =
            || SourceError::NoRevision { repository: repository.clone(), revision: revision.to_owned() };
        let whole = ObjectId::from_hex(revision.as_bytes()).ok();
        let refs = if whole.is_some() { Arc::default() } else { self.last_refs()? };
        let named = whole.or_else(|| find(&refs));
        if named.is_none() && matches!(revision, "" | "HEAD") {
            return Err(SourceError::Empty { repository });
        }
        if named.is_none() && !is_commit_prefix(revision) {
            return Err(unknown());
        }
        match &self.store {
            Store::Local(opened) => {
                let commit = opened.use_cached(|git| {
                    let found = named.map_or_else(|| git.rev_parse_single(revision).map(gix::Id::detach), Ok);
                    // An annotated tag still has to be peeled to its commit.
                    let commit = found.and_then(|id| git.find_object(id)?.peel_to_commit());
                    commit.map(|commit| commit.id().to_string())
                });
                commit.map_err(|error| self.error(&error))?.map_err(|_| unknown())
            }
            // The server lists the commits of annotated tags. Any other object might not be a commit;
            // fetching it then fails.
            Store::Remote(remote) => {
                let started = revision.to_ascii_lowercase();
                let found = named.or_else(|| refs.complete(&started)).or_else(|| remote.complete(&started));
                found
                    .map(|id| id.to_string())
                    .ok_or_else(|| SourceError::NoShortCommit { repository, revision: revision.to_owned() })
            }
        }
    }

    /// Calls a function with a repository that has a commit and all of its files.
    fn with_commit<T>(
        &self,
        commit: &str,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match &self.store {
            Store::Local(opened) => opened.use_cached(using).map_err(|error| self.error(&error))?,
            Store::Remote(remote) => {
                let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.commit_not_found(commit))?;
                remote.with_commit(id, using)
            }
        }
    }

    /// Returns the first of the given revisions that is an annotated tag of the commit.
    pub(crate) fn find_annotated_tag(
        &self,
        commit: &str,
        revisions: &[&str],
    ) -> Result<Option<Tag>, SourceError> {
        let of = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.commit_not_found(commit))?;
        let is_name = |revision: &&&str| !matches!(**revision, "" | "HEAD") && !is_full_commit(revision);
        for revision in revisions.iter().filter(is_name) {
            let refs = self.last_refs()?;
            let Some((whole, id)) = refs.tag(revision).and_then(|whole| {
                let id = refs.names.get(&whole).copied()?;
                Some((whole, id))
            }) else {
                continue;
            };
            let tag = match &self.store {
                Store::Remote(_) => refs.tags.get(&whole).copied().filter(|_| id == of),
                Store::Local(opened) => {
                    let is_of = |object: gix::Object<'_>| {
                        object.kind == Kind::Tag
                            && object.peel_to_commit().is_ok_and(|found| found.id() == of)
                    };
                    let found = opened.use_cached(|git| git.find_object(id).is_ok_and(is_of));
                    found.map_err(|error| self.error(&error))?.then_some(id)
                }
            };
            if let Some(id) = tag {
                let name = whole.strip_prefix(TAGS).unwrap_or(&whole).to_owned();
                return Ok(Some(Tag { name, id }));
            }
        }
        Ok(None)
    }

    /// Calls a function with a repository that has a commit and, if given, an annotated tag of it.
    pub(crate) fn with_object<T>(
        &self,
        commit: &str,
        tag: Option<&Tag>,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match (&self.store, tag) {
            (Store::Remote(remote), Some(tag)) => {
                let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.commit_not_found(commit))?;
                remote.with_tag(id, tag.id, using)
            }
            _ => self.with_commit(commit, using),
        }
    }

    pub(crate) fn commit_not_found(&self, commit: &str) -> SourceError {
        SourceError::NoRevision { repository: self.address.to_string(), revision: commit.to_owned() }
    }

    /// Calls a function with a commit, and again if a damaged mirror had to be recreated.
    pub(crate) fn with_reader<T>(
        &self,
        commit: &str,
        limits: &Limits,
        using: impl Fn(&CommitReader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.with_reader_and_lfs(commit, self.enables_lfs(), limits, using)
    }

    /// Calls a function with a commit. If Git LFS objects turn out to be missing, fetches them, discards the
    /// result and calls the function again.
    pub(crate) fn with_reader_and_lfs<T>(
        &self,
        commit: &str,
        enables_lfs: bool,
        limits: &Limits,
        using: impl Fn(&CommitReader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let Store::Remote(remote) = &self.store else {
            return self.read_with_lfs(commit, None, limits, using);
        };
        if !enables_lfs {
            return self.read_with_lfs(commit, None, limits, using);
        }
        let lookup = remote.lookup();
        for _ in 0..ROUNDS_MAX {
            let done = self.read_with_lfs(commit, Some(&lookup), limits, |reader| {
                lookup.start_reading();
                using(reader)
            });
            // Missing objects may have caused other errors, so fetch them before giving up.
            if lookup.is_complete() || matches!(done, Err(SourceError::Lfs(_) | SourceError::Limit { .. })) {
                return done;
            }
            let config = self.read_with_lfs(commit, None, limits, |reader| reader.read_file(CONFIG))?;
            remote.fetch_lfs(config.as_deref(), &lookup)?;
        }
        Err(lookup.too_many_rounds(ROUNDS_MAX))
    }

    /// Returns true if Git LFS is enabled.
    pub(crate) fn enables_lfs(&self) -> bool {
        matches!(&self.store, Store::Remote(remote) if remote.enables_lfs())
    }

    fn read_with_lfs<T>(
        &self,
        commit: &str,
        lfs: Option<&Lookup<'_>>,
        limits: &Limits,
        using: impl Fn(&CommitReader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.with_commit(commit, |git| {
            let root = ObjectId::from_hex(commit.as_bytes())
                .ok()
                .and_then(|id| git.find_commit(id).ok())
                .and_then(|commit| commit.tree_id().ok().map(gix::Id::detach))
                .ok_or_else(|| self.commit_not_found(commit))?;
            let (repository, trees) = (&self.address, &self.trees);
            using(&CommitReader { git, repository, trees, commit, root, limits, lfs })
        })
    }
}

fn is_full_commit(text: &str) -> bool {
    text.len() == 40 && is_commit_prefix(text)
}

fn is_commit_prefix(text: &str) -> bool {
    (COMMIT_PREFIX_MIN..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}
