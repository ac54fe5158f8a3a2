//! Fetching what was missing, all at once.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use http::Uri;
use http::header::AUTHORIZATION;
use tidegate_web::follow;

use super::batch::{Action, OBJECTS_MAX, Refusal};
use super::endpoint::{Endpoint, Ways, origin};
use super::lookup::{Lookup, Missing, is_size};
use super::pointer::Oid;
use super::store::Store;
use super::{LfsError, PUSH, config};
use crate::credentials::Access;
use crate::remote::{Network, Problem};
use crate::{Address, SourceError};

/// What to do where nothing is known to be wrong with the object itself.
const AGAIN: &str = "it is tried again at the next comparison";

/// What Git LFS keeps of one repository.
pub(crate) struct Lfs {
    store: Store,
    /// One fetches at a time: what others miss may be there then.
    turn: Mutex<()>,
}

/// Where it is fetched from.
pub(crate) struct Source<'f> {
    pub address: &'f Address,
    pub network: &'f Network,
    pub access: &'f Access,
}

impl Lfs {
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { store: Store::new(folder, bytes_max), turn: Mutex::default() }
    }

    /// Gives the content of a repository's files, as far as it is here.
    pub fn lookup(&self, repository: &Address) -> Lookup<'_> {
        Lookup::new(&self.store, repository)
    }

    /// Fetches what a reading has missed. `config` is what the repository has as `.lfsconfig`.
    pub fn fetch(
        &self,
        from: &Source<'_>,
        config: Option<&[u8]>,
        lookup: &Lookup<'_>,
    ) -> Result<(), SourceError> {
        let _alone = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = lookup.missing();
        let missing: Vec<&Missing> = missing.iter().filter(|one| !self.store.has(one.pointer.oid)).collect();
        let Some((first, others)) = missing.split_first() else { return Ok(()) };
        let repository = || from.address.to_string();
        let named = config.map(|config| config::server(config, origin(from.address).as_ref())).transpose();
        let named = named.map_err(|reason| LfsError::Config { repository: repository(), reason })?.flatten();
        let bytes = missing.iter().map(|one| one.pointer.size).fold(0, u64::saturating_add);
        self.store.make_room(bytes, &lookup.used());
        let fetched = from.network.asking(from.access, |access| {
            let ways = Ways::new(from.address, from.network, access, bytes);
            self.fetch_with(&ways, named.as_ref(), &missing)
        });
        fetched.map_err(|problem| {
            let files = match others.len() {
                0 => first.file.clone(),
                more => format!("{} and {more} more", first.file),
            };
            let (reason, hint) = problem.words();
            LfsError::Server { repository: repository(), files, reason, hint }
        })?
    }

    /// Asks where the objects are, some at a time, and fetches each. The outer error is of all of them.
    fn fetch_with(
        &self,
        ways: &Ways<'_>,
        named: Option<&Uri>,
        missing: &[&Missing],
    ) -> Result<Result<(), SourceError>, Problem> {
        let endpoint = ways.endpoint(named)?;
        for some in missing.chunks(OBJECTS_MAX) {
            let mut found = ways.ask(&endpoint, some)?;
            for one in some {
                let given = found.remove(&one.pointer.oid);
                if let Err(error) = self.fetch_one(ways, &endpoint, one, given) {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    }

    fn fetch_one(
        &self,
        ways: &Ways<'_>,
        endpoint: &Endpoint,
        one: &Missing,
        given: Option<Result<Action, Refusal>>,
    ) -> Result<(), SourceError> {
        let wrong = |reason: String, hint| LfsError::Object {
            repository: ways.address.to_string(),
            file: one.file.clone(),
            oid: one.pointer.oid.to_string(),
            reason,
            hint,
        };
        let action = match given {
            Some(Ok(action)) => action,
            Some(Err(Refusal { code, message })) => {
                let said = ways.access.hide(format!("the server answered {code}: {message}"));
                return Err(wrong(said, PUSH).into());
            }
            None => return Err(wrong("the server says nothing of it".to_owned(), PUSH).into()),
        };
        let content = fetched(ways, &endpoint.base, &action, one.pointer.size).map_err(|problem| {
            let (reason, hint) = problem.words();
            wrong(reason, if hint.is_empty() { AGAIN } else { hint })
        })?;
        check(ways.address, one, &content)?;
        self.store.put(one.pointer.oid, &content)
    }
}

/// The content of an object, whatever it is.
fn fetched(ways: &Ways<'_>, from: &Uri, action: &Action, size: u64) -> Result<Vec<u8>, Problem> {
    let to = follow(from, &action.href).map_err(|misled| Problem::new(format!("the server {misled}")))?;
    let shows = !action.is_authenticated && !action.headers.contains_key(AUTHORIZATION);
    let bytes = usize::try_from(size).map_err(|_| Problem::new("it is larger than this machine can hold"))?;
    ways.to(&to, shows)?.object(&to, &action.headers, bytes)
}

/// Refuses what is not what the pointer says.
fn check(address: &Address, one: &Missing, content: &[u8]) -> Result<(), LfsError> {
    let size = one.pointer.size;
    let found = if is_size(content, size) {
        match Oid::of(content) {
            oid if oid == one.pointer.oid => return Ok(()),
            oid => format!("what its server sends has the SHA-256 {oid}, and not {}", one.pointer.oid),
        }
    } else if u64::try_from(content.len()).is_ok_and(|length| length < size) {
        format!("its server sends {} bytes, and not {size}", content.len())
    } else {
        format!("its server sends more than {size} bytes")
    };
    let (repository, file, oid) = (address.to_string(), one.file.clone(), one.pointer.oid.to_string());
    Err(LfsError::Mismatch { repository, file, oid, found })
}
