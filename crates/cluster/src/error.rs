use std::fmt;
use std::time::Duration;

/// Error returned by a call to a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClusterError {
    /// Category of the error. The engine's decisions depend only on this field.
    pub kind: ErrorKind,
    /// Message from the cluster, as kubectl would show it.
    pub message: String,
    /// Details of the refusal, if the message could be parsed.
    pub refusal: Option<Box<Refusal>>,
}

/// Details of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Fields of an existing object that cannot be changed.
    ImmutableFields(Vec<ImmutableField>),
    /// Fields that server-side apply does not know, such as
    /// `.spec.template.spec.containers[name="a"].colour`.
    UnknownFields(Vec<String>),
    /// The object contains fields that its kind does not have. The server refuses them in every write mode.
    StrictDecoding,
    /// Several list items have the same key, so server-side apply cannot tell them apart.
    DuplicateItems,
}

/// A field that cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImmutableField {
    /// Path of the field, such as `spec.template`.
    pub field: String,
    /// Nested fields that can be changed, such as `spec.containers[*].image`.
    pub mutable_subfields: Vec<String>,
}

/// Categories of errors that the engine treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// 404: the object does not exist.
    NotFound,
    /// 404: the server does not serve the kind, or does not serve it yet.
    UnknownKind,
    /// 404: the namespace does not exist.
    NamespaceMissing,
    /// 403: the namespace is being deleted and accepts no new objects.
    NamespaceTerminating,
    /// 409 on create: an object with that name already exists.
    AlreadyExists,
    /// 409: the object has changed, a UID precondition failed, or a field has another owner.
    Conflict,
    /// 403: the request is not permitted.
    Forbidden,
    /// 401: the request is not authenticated.
    Unauthorized,
    /// 400 or 422: the object is invalid, or a field is immutable.
    Invalid,
    /// 422: a requested resource, such as a node port, is still allocated to another object or to a deleted
    /// object.
    AlreadyAllocated,
    /// 410: the resource version is too old. The objects must be listed again.
    Gone,
    /// 429: the server is receiving too many requests.
    TooManyRequests {
        /// Delay from the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// 500: the server failed. The write may or may not have happened.
    Server,
    /// A dependency of the server, such as an admission webhook, timed out, although the server itself
    /// responds. The write may or may not have happened.
    DependencyTimeout,
    /// Connection failure, 502 or 503: the cluster is unreachable or not ready. The write may or may not have
    /// happened.
    Unavailable,
    /// Timeout or 504. The write may or may not have happened.
    Timeout,
    /// The cluster does not support the call.
    Unsupported,
}

impl ErrorKind {
    /// Returns true if a retry may succeed without human intervention.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Server | Self::DependencyTimeout | Self::AlreadyAllocated) || self.is_outage()
    }

    /// Returns true if the cluster rejects every call. An operation then waits for the cluster to recover.
    pub fn is_outage(self) -> bool {
        matches!(self, Self::TooManyRequests { .. } | Self::Unavailable | Self::Timeout | Self::Unauthorized)
    }
}

impl ClusterError {
    /// Creates an error with the cluster's message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), refusal: None }
    }

    /// Adds details of the refusal.
    #[must_use]
    pub fn with_refusal(self, refusal: Refusal) -> Self {
        Self { refusal: Some(Box::new(refusal)), ..self }
    }

    /// Returns true if client-side apply may succeed where server-side apply was refused.
    pub fn should_try_client_side_apply(&self) -> bool {
        matches!(self.refusal.as_deref(), Some(Refusal::UnknownFields(_) | Refusal::DuplicateItems))
    }

    /// Returns the fields that cannot be changed.
    pub fn immutable_fields(&self) -> &[ImmutableField] {
        match self.refusal.as_deref() {
            Some(Refusal::ImmutableFields(fields)) => fields,
            _ => &[],
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
