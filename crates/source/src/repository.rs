//! A Git repository: what its names mean, and what is in its commits.

use std::sync::Arc;

use gix::ObjectId;
use gix::objs::Kind;

use crate::address::Place;
use crate::error::reason;
use crate::files::Files as _;
use crate::lfs::{CONFIG, Lookup, ROUNDS_MAX};
use crate::looks::Looks;
use crate::opened::Opened;
use crate::refs::TAGS;
use crate::remote::{Network, Remote};
use crate::tree::{Limits, Reader, Trees};
use crate::{Address, Refs, SourceError, refs};

/// The fewest digits by which a commit may be named.
const SHORTEST_COMMIT: usize = 7;

/// A repository, and what was seen of it.
pub struct Repository {
    address: Address,
    store: Store,
    trees: Trees,
    looks: Looks<Seen>,
}

/// Where its objects are.
enum Store {
    Local(Opened),
    Remote(Box<Remote>),
}

/// What the last look has shown.
#[derive(Clone, PartialEq)]
struct Seen {
    refs: Result<Arc<Refs>, SourceError>,
    /// Files mean something else with it.
    enables_lfs: bool,
}

/// A tag that is an object of its own.
pub(crate) struct Tag {
    /// Without what stands before the names of tags.
    pub name: String,
    pub id: ObjectId,
}

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is in the repository.
    pub path: String,
    /// Its bytes, as they were found or as a program made them.
    pub content: Vec<u8>,
}

impl Repository {
    /// The repository of an address, the `url` that was asked for. Of those over the network only with a network.
    pub(crate) fn open(
        address: &Address,
        url: &str,
        network: Option<&Arc<Network>>,
    ) -> Result<Self, SourceError> {
        let store = match (address.place(), network) {
            (Place::Local(path), _) => {
                let opened = Opened::new(path.clone());
                opened.anew().map_err(|error| SourceError::NoRepository {
                    url: url.to_owned(),
                    path: path.clone(),
                    reason: reason(&error),
                })?;
                Store::Local(opened)
            }
            (_, Some(network)) => Store::Remote(Box::new(Remote::new(address.clone(), Arc::clone(network)))),
            (_, None) => return Err(address.unreached()),
        };
        let (trees, looks) = Default::default();
        Ok(Self { address: address.clone(), store, trees, looks })
    }

    /// The `repoURL` that it was opened for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Whether addresses of this machine are not asked on the way to it from now on.
    pub(crate) fn bar_loopback(&self, is_barred: bool) {
        if let Store::Remote(remote) = &self.store {
            remote.bar_loopback(is_barred);
        }
    }

    fn wrong(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.address.to_string(), reason: reason(error) }
    }

    /// Looks at the names. Says whether what is known of them has changed since the last look: whoever was there before the first
    /// has seen nothing else.
    ///
    /// # Errors
    ///
    /// They cannot be seen. That is known then: whoever asks what they mean learns of it.
    pub fn look(&self) -> Result<bool, SourceError> {
        let (before, found) = self.looks.look(|_| self.see());
        let moved = before.is_some_and(|before| before != found);
        found.refs.map(|_| moved)
    }

    /// Looks at the names again. Says whether anything has changed for those who use it, be it that they cannot be seen.
    pub fn look_again(&self) -> bool {
        let (before, found) = self.looks.look(|_| self.see());
        before.map_or(found.refs.is_err(), |before| before != found)
    }

    fn see(&self) -> Seen {
        let refs = match &self.store {
            Store::Local(opened) => {
                opened.anew().and_then(|git| refs::look(&git)).map_err(|error| self.wrong(&error))
            }
            Store::Remote(remote) => remote.list(),
        };
        Seen { refs: refs.map(Arc::new), enables_lfs: self.enables_lfs() }
    }

    fn refs(&self) -> Result<Arc<Refs>, SourceError> {
        self.looks.last().unwrap_or_else(|| self.looks.look(|_| self.see()).1).refs
    }

    /// The commit a revision means by the last look at the names: a commit, the newest tag that a version
    /// constraint allows, a branch, a tag, or the beginning of a commit; `HEAD` where it is empty.
    pub fn resolve(&self, revision: &str) -> Result<String, SourceError> {
        // A constraint comes before a branch of that name, as in Argo CD.
        self.resolve_as(revision, |refs| refs.newest(revision).or_else(|| refs.find(revision)))
    }

    /// The commit that Git itself fetches by a name: a commit, a tag, or else a branch; `HEAD` where it is empty.
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
        let refs = if whole.is_some() { Arc::default() } else { self.refs()? };
        let named = whole.or_else(|| find(&refs));
        if named.is_none() && matches!(revision, "" | "HEAD") {
            return Err(SourceError::Empty { repository });
        }
        if named.is_none() && !is_commit(revision) {
            return Err(unknown());
        }
        match &self.store {
            Store::Local(opened) => {
                let commit = opened.with(|git| {
                    let found = named.map_or_else(|| git.rev_parse_single(revision).map(gix::Id::detach), Ok);
                    // A tag may be an object of its own.
                    let commit = found.and_then(|id| git.find_object(id)?.peel_to_commit());
                    commit.map(|commit| commit.id().to_string())
                });
                commit.map_err(|error| self.wrong(&error))?.map_err(|_| unknown())
            }
            // What the server names is a commit already; whether another is there shows when it is fetched.
            Store::Remote(remote) => {
                let begun = revision.to_ascii_lowercase();
                let found = named.or_else(|| refs.complete(&begun)).or_else(|| remote.complete(&begun));
                found
                    .map(|id| id.to_string())
                    .ok_or_else(|| SourceError::NoShortCommit { repository, revision: revision.to_owned() })
            }
        }
    }

    /// Uses a repository that has a commit with all of its files.
    fn with_commit<T>(
        &self,
        commit: &str,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match &self.store {
            Store::Local(opened) => opened.with(using).map_err(|error| self.wrong(&error))?,
            Store::Remote(remote) => {
                let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.no_commit(commit))?;
                remote.with_commit(id, using)
            }
        }
    }

    /// The first of some revisions that means an annotated tag of a commit.
    pub(crate) fn annotated(&self, commit: &str, revisions: &[&str]) -> Result<Option<Tag>, SourceError> {
        let of = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.no_commit(commit))?;
        let is_name = |revision: &&&str| !matches!(**revision, "" | "HEAD") && !is_whole(revision);
        for revision in revisions.iter().filter(is_name) {
            let refs = self.refs()?;
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
                    let found = opened.with(|git| git.find_object(id).is_ok_and(is_of));
                    found.map_err(|error| self.wrong(&error))?.then_some(id)
                }
            };
            if let Some(id) = tag {
                let name = whole.strip_prefix(TAGS).unwrap_or(&whole).to_owned();
                return Ok(Some(Tag { name, id }));
            }
        }
        Ok(None)
    }

    /// Uses a repository that has a commit, and a tag of it.
    pub(crate) fn with_object<T>(
        &self,
        commit: &str,
        tag: Option<&Tag>,
        using: impl Fn(&gix::Repository) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        match (&self.store, tag) {
            (Store::Remote(remote), Some(tag)) => {
                let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.no_commit(commit))?;
                remote.with_tag((id, tag.id), using)
            }
            _ => self.with_commit(commit, using),
        }
    }

    pub(crate) fn no_commit(&self, commit: &str) -> SourceError {
        SourceError::NoRevision { repository: self.address.to_string(), revision: commit.to_owned() }
    }

    /// Has one commit read. `using` may be called twice: a damaged mirror is made anew in between.
    pub(crate) fn in_commit<T>(
        &self,
        commit: &str,
        limits: &Limits,
        using: impl Fn(&Reader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.in_commit_as((commit, self.enables_lfs()), limits, using)
    }

    /// The same, with the content of files that Git LFS keeps, or with their pointers as they are. `using` is called again for what
    /// had to be fetched: what comes of it before is of no use.
    pub(crate) fn in_commit_as<T>(
        &self,
        (commit, enables_lfs): (&str, bool),
        limits: &Limits,
        using: impl Fn(&Reader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        let Store::Remote(remote) = &self.store else { return self.reading((commit, None), limits, using) };
        if !enables_lfs {
            return self.reading((commit, None), limits, using);
        }
        let lookup = remote.lookup();
        for _ in 0..ROUNDS_MAX {
            let done = self.reading((commit, Some(&lookup)), limits, |reader| {
                lookup.begin();
                using(reader)
            });
            // What is missing may be the cause of other errors.
            if lookup.is_complete() || matches!(done, Err(SourceError::Lfs(_) | SourceError::Limit { .. })) {
                return done;
            }
            let config = self.reading((commit, None), limits, |reader| reader.file(CONFIG))?;
            remote.fetch_lfs(config.as_deref(), &lookup)?;
        }
        Err(lookup.endless(ROUNDS_MAX))
    }

    /// Whether files that Git LFS keeps are fetched.
    pub(crate) fn enables_lfs(&self) -> bool {
        matches!(&self.store, Store::Remote(remote) if remote.enables_lfs())
    }

    fn reading<T>(
        &self,
        (commit, lfs): (&str, Option<&Lookup<'_>>),
        limits: &Limits,
        using: impl Fn(&Reader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.with_commit(commit, |git| {
            let root = ObjectId::from_hex(commit.as_bytes())
                .ok()
                .and_then(|id| git.find_commit(id).ok())
                .and_then(|commit| commit.tree_id().ok().map(gix::Id::detach))
                .ok_or_else(|| self.no_commit(commit))?;
            let (repository, trees) = (&self.address, &self.trees);
            using(&Reader { git, repository, trees, commit, root, limits, lfs })
        })
    }
}

fn is_whole(text: &str) -> bool {
    text.len() == 40 && is_commit(text)
}

fn is_commit(text: &str) -> bool {
    (SHORTEST_COMMIT..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}
