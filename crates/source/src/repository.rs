//! Repositories, each looked at once for all who use it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use gix::ObjectId;
use tidegate_model::argo::ApplicationSource;

use crate::address::Place;
use crate::charts::ChartRepository;
use crate::error::reason;
use crate::origin::{self, Origin};
use crate::remote::{Network, Remote};
use crate::tree::{Limits, Reader};
use crate::{Address, Credentials, Refs, RemoteLimits, SourceError, refs, remote};

/// The fewest digits by which a commit may be named.
const SHORTEST_COMMIT: usize = 7;

/// How repositories over the network are reached.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The folder of their mirrors. It belongs to this process alone.
    pub mirrors: PathBuf,
    /// What they are asked with.
    pub credentials: Credentials,
    /// How much patience there is.
    pub limits: RemoteLimits,
    /// The program that is asked for SSH.
    pub ssh: PathBuf,
    /// Whether servers may have link-local addresses, where clouds keep services for their machines.
    pub link_local: bool,
}

impl Reach {
    /// With mirrors in a folder, and nothing else said.
    pub fn new(mirrors: PathBuf) -> Self {
        let (credentials, limits) = (Credentials::default(), RemoteLimits::default());
        Self { mirrors, credentials, limits, ssh: PathBuf::from("ssh"), link_local: false }
    }
}

/// The repositories in use, each known once however many use it.
#[derive(Default)]
pub struct Repositories {
    known: Mutex<BTreeMap<Address, Arc<Repository>>>,
    charts: Mutex<BTreeMap<Address, Arc<ChartRepository>>>,
    /// Nothing where none over the network are reached.
    network: Option<Arc<Network>>,
}

impl Repositories {
    /// Those on this machine, and those that are reached over the network.
    pub fn new(reach: Reach) -> Self {
        let Reach { mirrors, credentials, limits, ssh, link_local } = reach;
        // A process that was killed may have left keys.
        remote::ssh::sweep(&mirrors);
        let credentials = RwLock::new(Arc::new(credentials));
        let (attempts, trust) = Default::default();
        let network = Network { mirrors, credentials, limits, ssh, link_local, attempts, trust };
        Self { network: Some(Arc::new(network)), ..Self::default() }
    }

    /// The repository of a `repoURL`; relative ones are relative to `base`.
    pub fn open(&self, url: &str, base: &Path) -> Result<Arc<Repository>, SourceError> {
        let address = Address::parse(url, base)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(repository) = known.get(&address) {
            return Ok(Arc::clone(repository));
        }
        let store = match (address.place(), &self.network) {
            (Place::Local(path), _) => {
                local(path).map_err(|error| SourceError::NoRepository {
                    url: url.to_owned(),
                    path: path.clone(),
                    reason: reason(&error),
                })?;
                Store::Local(path.clone())
            }
            (_, Some(network)) => Store::Remote(Box::new(Remote::new(address.clone(), Arc::clone(network)))),
            (_, None) => {
                let (url, what) = (address.to_string(), "a repository over the network");
                return Err(SourceError::Address { url, what });
            }
        };
        let repository = Arc::new(Repository { address: address.clone(), store, seen: Mutex::default() });
        known.insert(address, Arc::clone(&repository));
        Ok(repository)
    }

    /// Where a source is from; relative addresses are relative to `base`.
    pub fn origin(&self, source: &ApplicationSource, base: &Path) -> Result<Origin, SourceError> {
        if !origin::is_chart(source) {
            return self.open(&source.repo_url, base).map(Origin::Git);
        }
        let address = origin::address(source, base)?;
        let Some(network) = &self.network else {
            let (url, what) = (address.to_string(), "a repository over the network");
            return Err(SourceError::Address { url, what });
        };
        let mut known = self.charts.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(ChartRepository::new(address.clone(), Arc::clone(network)));
        Ok(Origin::Charts(Arc::clone(known.entry(address.clone()).or_insert_with(new))))
    }

    /// All that are known.
    pub fn all(&self) -> Vec<Origin> {
        let git = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(Arc::clone)
            .collect::<Vec<_>>();
        let charts = self
            .charts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .map(Arc::clone)
            .collect::<Vec<_>>();
        git.into_iter().map(Origin::Git).chain(charts.into_iter().map(Origin::Charts)).collect()
    }

    /// Asks with these credentials from now on.
    pub fn set_credentials(&self, credentials: Credentials) {
        if let Some(network) = &self.network {
            let mut known = network.credentials.write().unwrap_or_else(PoisonError::into_inner);
            if **known != credentials {
                *known = Arc::new(credentials);
            }
        }
    }

    /// Ends all that servers are asked for, now and from now on: their answers come as errors.
    pub fn stop(&self) {
        if let Some(network) = &self.network {
            network.attempts.stop();
        }
    }
}

/// A repository, and what was seen of it. It is opened for each use: that costs little, and what is there may be another
/// one by then.
pub struct Repository {
    address: Address,
    store: Store,
    seen: Mutex<Option<Seen>>,
}

/// Where its objects are.
enum Store {
    Local(PathBuf),
    Remote(Box<Remote>),
}

/// What the last look has shown.
#[derive(Clone, PartialEq)]
struct Seen(Result<Arc<Refs>, SourceError>);

/// A file of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is in the repository.
    pub path: String,
    /// What it holds.
    pub content: Vec<u8>,
}

impl Repository {
    /// Which one it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    fn wrong(&self, error: &gix::Error) -> SourceError {
        SourceError::Read { repository: self.address.to_string(), reason: reason(error) }
    }

    /// Looks at the names again. Says whether what is known of them has changed since the last look.
    ///
    /// # Errors
    ///
    /// They cannot be seen. That is known then: whoever asks what they mean learns of it.
    pub fn look(&self) -> Result<bool, SourceError> {
        let found = match &self.store {
            Store::Local(path) => {
                local(path).and_then(|git| refs::look(&git)).map_err(|error| self.wrong(&error))
            }
            Store::Remote(remote) => remote.look(),
        };
        let found = Seen(found.map(Arc::new));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let moved = seen.as_ref().is_none_or(|seen| *seen != found);
        *seen = Some(found.clone());
        found.0.map(|_| moved)
    }

    /// Looks at the names again. Says whether anything has changed for those who use it, be it that they cannot be seen.
    pub fn look_again(&self) -> bool {
        let before = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match self.look() {
            Ok(moved) => moved,
            Err(error) => before != Some(Seen(Err(error))),
        }
    }

    fn refs(&self) -> Result<Arc<Refs>, SourceError> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(Seen(refs)) = seen() {
            return refs;
        }
        self.look()?;
        seen().map_or_else(|| Ok(Arc::default()), |Seen(refs)| refs)
    }

    /// The commit a revision means by the last look at the names: a commit, the newest tag that a version
    /// constraint allows, a branch, a tag, or the beginning of a commit; `HEAD` where it is empty.
    pub fn resolve(&self, revision: &str) -> Result<String, SourceError> {
        let repository = self.address.to_string();
        let unknown =
            || SourceError::NoRevision { repository: repository.clone(), revision: revision.to_owned() };
        let whole = ObjectId::from_hex(revision.as_bytes()).ok();
        let refs = if whole.is_some() { Arc::default() } else { self.refs()? };
        // A constraint comes before a branch of that name, as in Argo CD.
        let named = whole.or_else(|| refs.newest(revision)).or_else(|| refs.find(revision));
        if named.is_none() && matches!(revision, "" | "HEAD") {
            return Err(SourceError::Empty { repository });
        }
        if named.is_none() && !is_commit(revision) {
            return Err(unknown());
        }
        match &self.store {
            Store::Local(path) => {
                let git = local(path).map_err(|error| self.wrong(&error))?;
                let found = named.map_or_else(|| git.rev_parse_single(revision).map(gix::Id::detach), Ok);
                // A tag may be an object of its own.
                let commit = found.and_then(|id| git.find_object(id)?.peel_to_commit());
                Ok(commit.map_err(|_| unknown())?.id().to_string())
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
            Store::Local(path) => using(&local(path).map_err(|error| self.wrong(&error))?),
            Store::Remote(remote) => {
                let id = ObjectId::from_hex(commit.as_bytes()).map_err(|_| self.no_commit(commit))?;
                remote.with_commit(id, using)
            }
        }
    }

    fn no_commit(&self, commit: &str) -> SourceError {
        SourceError::NoRevision { repository: self.address.to_string(), revision: commit.to_owned() }
    }

    /// Reads a commit.
    pub(crate) fn in_commit<T>(
        &self,
        commit: &str,
        limits: &Limits,
        using: impl Fn(&Reader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.with_commit(commit, |git| {
            let root = ObjectId::from_hex(commit.as_bytes())
                .ok()
                .and_then(|id| git.find_commit(id).ok())
                .and_then(|commit| commit.tree_id().ok().map(gix::Id::detach))
                .ok_or_else(|| self.no_commit(commit))?;
            using(&Reader { git, repository: &self.address, commit, root, limits })
        })
    }
}

fn local(path: &Path) -> gix::Result<gix::Repository> {
    Ok(gix::open::Options::isolated().open(path)?.into())
}

fn is_commit(text: &str) -> bool {
    (SHORTEST_COMMIT..=40).contains(&text.len()) && text.chars().all(|c| c.is_ascii_hexdigit())
}
