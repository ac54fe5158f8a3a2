use std::fmt;
use std::time::Duration;

/// Why a call to the cluster did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClusterError {
    /// What kind of failure it is; decisions read only this.
    pub kind: ErrorKind,
    /// The cluster's own words, as a user of kubectl would see them.
    pub message: String,
}

/// Kinds of failure, as far as the engine treats them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 404 for an object.
    NotFound,
    /// 404 for a kind: the server does not serve it (yet).
    UnknownKind,
    /// 404 because the namespace is not there.
    NamespaceMissing,
    /// 403 because the namespace is being deleted: nothing new is put there.
    NamespaceTerminating,
    /// 409 on create: an object of that name is there.
    AlreadyExists,
    /// 409: the object changed in between, or a UID precondition did not hold, or a field has another owner.
    Conflict,
    /// 403.
    Forbidden,
    /// 401.
    Unauthorized,
    /// 400 or 422: the object is not valid, or a field is immutable.
    Invalid,
    /// 422: what the object asks for, such as a node port, is allocated to another one, or still to one that has just gone.
    Allocated,
    /// 410: the resource version is too old; list again.
    Gone,
    /// 429, with the wait the server asks for.
    TooManyRequests {
        /// `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// 500: the server failed; the write may or may not have happened.
    Server,
    /// Something behind the server, such as an admission webhook, did not answer in time; the server itself does. The
    /// write may or may not have happened.
    Stalled,
    /// No connection, or 502, 503: the cluster cannot be reached or is not ready. The write may or may not have
    /// happened.
    Unavailable,
    /// No answer, or 504: the write may or may not have happened.
    Timeout,
    /// Not supported by this cluster.
    Unsupported,
}

impl ErrorKind {
    /// Whether the same call may succeed later without anything being changed by a person.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Server | Self::Stalled | Self::Allocated) || self.is_outage()
    }

    /// Whether the cluster takes nothing from us for now, whatever we ask. An operation waits for it to come back.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::TooManyRequests { .. } | Self::Unavailable | Self::Timeout | Self::Unauthorized)
    }
}

impl ClusterError {
    /// A failure with the cluster's words.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
