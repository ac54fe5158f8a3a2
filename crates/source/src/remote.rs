//! Access to remote Git repositories.
//!
//! ```text
//! Remote ── list ───────▶ list_refs    ─┐
//!   │                                   ├─▶ Transport: http (hyper) or ssh (a program) ─▶ server
//!   └── with_commit ────▶ fetch_commit ─┘
//!            │ missing? fetch only this commit, without history
//!            ▼
//!         Mirror (a bare repository in the state directory)
//! ```
//!
//! The time and the size of all responses are limited. When the process shuts down, requests are canceled.

mod attempt;
mod git_requests;
mod http;
mod mirror;
mod proxy_relay;
mod remote_repository;
mod singleflight;
pub(crate) mod ssh;
mod temporary_tokens;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate_web::{BlockedAddresses, Clock};

use crate::credentials::{AccessSettings, AzureWorkload, Credentials};
use crate::{Address, Listener, SourceError};
pub(crate) use attempt::{Attempt, AttemptEnd, Attempts};
pub(crate) use http::{CompleteResponse, Link};
pub(crate) use mirror::{NEW_SUFFIX, delete_unfinished, delete_unused};
pub(crate) use remote_repository::Remote;
pub(crate) use singleflight::Singleflight;
pub(crate) use temporary_tokens::Tokens;

/// Limits for requests to a repository's server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteLimits {
    /// Maximum time to establish a connection.
    pub connect: Duration,
    /// Maximum time until a response starts.
    pub response: Duration,
    /// Maximum time without receiving data.
    pub idle: Duration,
    /// Maximum time to list refs.
    pub list_refs: Duration,
    /// Maximum time to fetch a commit.
    pub fetch: Duration,
    /// Maximum size of the response that lists refs, in bytes.
    pub names_bytes: u64,
    /// Maximum size of the response that contains a commit's objects, in bytes.
    pub pack_bytes: u64,
    /// Maximum size of an unpacked object, in bytes.
    pub object_bytes: usize,
    /// Maximum number of redirects for one request.
    pub redirects: u32,
    /// Size in bytes below which mirrors are never recreated because of growth. Larger ones are recreated
    /// once they exceed four times their size after the first fetch.
    pub mirror_bytes: u64,
    /// Number of fetches after which a mirror is recreated.
    pub mirror_fetches: usize,
    /// Maximum total size of a repository's stored Git LFS objects, in bytes. Exceeded if objects in use at
    /// the same time need more.
    pub lfs_bytes: u64,
}

impl Default for RemoteLimits {
    /// Returns limits that suffice for slow servers and the largest manifest repositories.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            response: Duration::from_secs(60),
            idle: Duration::from_secs(60),
            list_refs: Duration::from_secs(120),
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

/// Error for a failed request. Its message contains no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    message: String,
    hint: &'static str,
    /// True if local data rather than the server's response may be at fault.
    can_be_local: bool,
    /// True if the server rejected the credentials.
    is_refused: bool,
}

impl Problem {
    pub fn new(what: impl Into<String>) -> Self {
        Self { message: what.into(), hint: "", can_be_local: false, is_refused: false }
    }

    /// Returns the message and the advice on fixing the problem.
    pub fn into_message_and_hint(self) -> (String, &'static str) {
        (self.message, self.hint)
    }

    /// Sets the advice for fixing the problem.
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl SourceError {
    /// Creates the error for a failed request. `tried` describes the action.
    pub(crate) fn remote(address: &Address, tried: &str, problem: Problem) -> Self {
        Self::Remote {
            repository: address.to_string(),
            tried: tried.to_owned(),
            reason: problem.message,
            hint: problem.hint,
        }
    }
}

/// Resources shared by all remote repositories.
pub(crate) struct Network {
    /// Folder for the mirrors.
    pub mirrors: std::path::PathBuf,
    pub credentials: RwLock<Arc<Credentials>>,
    pub limits: RemoteLimits,
    /// Path of the SSH program.
    pub ssh: std::path::PathBuf,
    /// True if servers may have link-local addresses.
    pub allows_link_local: bool,
    pub attempts: Attempts,
    pub trust: tidegate_web::SystemTrust,
    /// Cached temporary tokens.
    pub tokens: Tokens,
    pub clock: Clock,
    /// Azure workload identity of this process.
    pub azure: AzureWorkload,
    pub listener: Listener,
}

impl Network {
    /// Returns the types of addresses that connections must not use.
    pub fn blocked_addresses(&self, access: &AccessSettings) -> BlockedAddresses {
        BlockedAddresses { link_local: !self.allows_link_local, loopback: access.blocks_loopback }
    }

    pub fn current_credentials(&self) -> Arc<Credentials> {
        self.credentials.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the access settings for a repository.
    pub fn access_to(&self, address: &Address, blocks_loopback: bool) -> Result<AccessSettings, SourceError> {
        Ok(AccessSettings { blocks_loopback, ..self.current_credentials().access_to(address)? })
    }

    /// Returns the access settings for a server other than the repository's own.
    pub fn access_to_other_host(&self, access: &AccessSettings, host: &str) -> AccessSettings {
        self.current_credentials().access_to_other_host(access, host)
    }
}
