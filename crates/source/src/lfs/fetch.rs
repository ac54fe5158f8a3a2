//! Fetches missing Git LFS objects in batches.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use http::Uri;
use http::header::AUTHORIZATION;
use tidegate_web::redirect_target;

use super::batch::{Action, LfsObjectError, OBJECTS_MAX};
use super::endpoint::{Endpoint, LfsConnections, http_address};
use super::lookup::{Lookup, Missing, has_size};
use super::pointer::Oid;
use super::store::Store;
use super::{LfsError, PUSH_HINT, config};
use crate::credentials::AccessSettings;
use crate::remote::{Network, Problem};
use crate::{Address, SourceError};

/// Advice if the failure may be temporary.
const RETRY_HINT: &str = "the next comparison will try again";

/// Git LFS objects of one repository.
pub(crate) struct Lfs {
    store: Store,
    /// Lock that serializes fetches, because one may provide objects that the next caller needs.
    fetch_lock: Mutex<()>,
}

/// Repository and access settings for fetching objects.
pub(crate) struct LfsSource<'f> {
    pub address: &'f Address,
    pub network: &'f Network,
    pub access: &'f AccessSettings,
}

impl Lfs {
    pub fn new(folder: PathBuf, bytes_max: u64) -> Self {
        Self { store: Store::new(folder, bytes_max), fetch_lock: Mutex::default() }
    }

    /// Returns a lookup to use while reading a commit.
    pub fn lookup(&self, repository: &Address) -> Lookup<'_> {
        Lookup::new(&self.store, repository)
    }

    /// Fetches the objects found missing while reading a commit. `config` is the repository's `.lfsconfig`.
    pub fn fetch(
        &self,
        from: &LfsSource<'_>,
        config: Option<&[u8]>,
        lookup: &Lookup<'_>,
    ) -> Result<(), SourceError> {
        let _alone = self.fetch_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = lookup.missing();
        let missing: Vec<&Missing> = missing.iter().filter(|one| !self.store.has(one.pointer.oid)).collect();
        let Some((first, others)) = missing.split_first() else { return Ok(()) };
        let repository = || from.address.to_string();
        let named = config
            .map(|config| config::configured_server(config, http_address(from.address).as_ref()))
            .transpose();
        let named = named.map_err(|reason| LfsError::Config { repository: repository(), reason })?.flatten();
        let bytes = missing.iter().map(|one| one.pointer.size).fold(0, u64::saturating_add);
        self.store.make_room(bytes, &lookup.used());
        let fetched = from.network.with_token(from.access, |access| {
            let ways = LfsConnections::new(from.address, from.network, access, bytes);
            self.fetch_with(&ways, named.as_ref(), &missing)
        });
        fetched.map_err(|problem| {
            let files = match others.len() {
                0 => first.file.clone(),
                more => format!("{} and {more} more", first.file),
            };
            let (reason, hint) = problem.into_message_and_hint();
            LfsError::Server { repository: repository(), files, reason, hint }
        })?
    }

    /// Requests the objects' locations in batches and downloads each object. The outer error concerns all
    /// objects.
    fn fetch_with(
        &self,
        ways: &LfsConnections<'_>,
        named: Option<&Uri>,
        missing: &[&Missing],
    ) -> Result<Result<(), SourceError>, Problem> {
        let endpoint = ways.endpoint(named)?;
        for some in missing.chunks(OBJECTS_MAX) {
            let mut found = ways.request_batch(&endpoint, some)?;
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
        ways: &LfsConnections<'_>,
        endpoint: &Endpoint,
        one: &Missing,
        given: Option<Result<Action, LfsObjectError>>,
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
            Some(Err(LfsObjectError { code, message })) => {
                let said = ways.access.mask_secrets(format!("the server returned {code}: {message}"));
                return Err(wrong(said, PUSH_HINT).into());
            }
            None => {
                let reason = "the server's response does not contain the object".to_owned();
                return Err(wrong(reason, PUSH_HINT).into());
            }
        };
        let content = fetch_content(ways, &endpoint.base, &action, one.pointer.size).map_err(|problem| {
            let (reason, hint) = problem.into_message_and_hint();
            wrong(reason, if hint.is_empty() { RETRY_HINT } else { hint })
        })?;
        verify_content(ways.address, one, &content)?;
        self.store.put(one.pointer.oid, &content)
    }
}

/// Downloads an object without verifying its content.
fn fetch_content(
    ways: &LfsConnections<'_>,
    from: &Uri,
    action: &Action,
    size: u64,
) -> Result<Vec<u8>, Problem> {
    let to =
        redirect_target(from, &action.href).map_err(|misled| Problem::new(format!("the server {misled}")))?;
    let shows = !action.is_authenticated && !action.headers.contains_key(AUTHORIZATION);
    let bytes =
        usize::try_from(size).map_err(|_| Problem::new("the object is too large for this machine"))?;
    ways.link_to(&to, shows)?.download_object(&to, &action.headers, bytes)
}

/// Fails if the content doesn't match its pointer.
fn verify_content(address: &Address, one: &Missing, content: &[u8]) -> Result<(), LfsError> {
    let size = one.pointer.size;
    let found = if has_size(content, size) {
        match Oid::hash_content(content) {
            oid if oid == one.pointer.oid => return Ok(()),
            oid => format!("the server sent content with SHA-256 {oid} instead of {}", one.pointer.oid),
        }
    } else if u64::try_from(content.len()).is_ok_and(|length| length < size) {
        format!("the server sent {} bytes instead of {size}", content.len())
    } else {
        format!("the server sent more than {size} bytes")
    };
    let (repository, file, oid) = (address.to_string(), one.file.clone(), one.pointer.oid.to_string());
    Err(LfsError::Mismatch { repository, file, oid, found })
}
