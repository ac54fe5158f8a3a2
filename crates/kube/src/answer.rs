//! What an answer of the server means: an object, or a [`ClusterError`] in the words a user of kubectl knows.

use std::time::Duration;

use bytes::Bytes;
use http::header::WARNING;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_cluster::{ClusterError, ErrorKind};
use tidegate_model::{Gvk, Object};

use crate::lean::Lean;
use crate::paths::Target;

/// The most that is shown of a body which is not what Kubernetes answers.
const WORDS_MAX: usize = 1024;

/// A server that fails after so long has waited for something behind it.
const STALLED_AFTER: Duration = Duration::from_secs(4);
/// So much of what a server warns of is kept, for one object.
const WARNINGS_MAX: usize = 8;

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The `Retry-After` header.
    pub(crate) retry_after: Option<Duration>,
    /// The `Warning` headers: what was deprecated, or is against a policy that only warns.
    pub(crate) warnings: Vec<String>,
    /// The `ETag` header: what is sent with the same tag is the same.
    pub(crate) tag: Option<HeaderValue>,
    /// How long it took.
    pub(crate) took: Duration,
    pub(crate) body: Bytes,
}

/// What a call was about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) gvk: Option<&'a Gvk>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Bytes of the manifest that was sent.
    pub(crate) sent: usize,
}

impl<'a> From<&Target<'a>> for About<'a> {
    fn from(target: &Target<'a>) -> Self {
        Self { gvk: Some(target.gvk), namespace: target.namespace, name: target.name, sent: 0 }
    }
}

/// `Status`, as the server sends it for everything that did not succeed.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) status: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) code: Option<u16>,
    pub(crate) details: Option<Details>,
}

/// What a `Status` is about.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Details {
    name: Option<String>,
    kind: Option<String>,
    causes: Option<Vec<Cause>>,
    retry_after_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cause {
    reason: Option<String>,
    message: Option<String>,
    field: Option<String>,
}

impl Answer {
    /// The body of a success, decoded.
    pub(crate) fn decode<T: DeserializeOwned>(&self, about: About<'_>) -> Result<T, ClusterError> {
        if !self.status.is_success() {
            return Err(self.refusal(about));
        }
        serde_json::from_slice(&self.body).map_err(|error| not_understood(about, &error.to_string()))
    }

    /// The object of a success.
    pub(crate) fn object(&self, about: About<'_>) -> Result<Object, ClusterError> {
        let value: Value = self.decode(about)?;
        Object::try_from(value).map_err(|error| not_understood(about, &error.to_string()))
    }

    /// The same; which fields each manager owns stays text.
    pub(crate) fn lean_object(&self, about: About<'_>) -> Result<Object, ClusterError> {
        let Lean(fields) = self.decode(about)?;
        Object::try_from(Value::Object(fields)).map_err(|error| not_understood(about, &error.to_string()))
    }

    /// Whether it is what Kubernetes says of one request. A server that has too much to do refuses at its door, in plain
    /// text; a kind whose objects it has yet to read, or a budget of disruptions, it refuses with a `Status`.
    pub(crate) fn is_about_the_request(&self) -> bool {
        serde_json::from_slice::<Status>(&self.body).is_ok_and(|status| status.status.is_some())
    }

    /// How long the server asks to wait before the same is asked again: in a header, or in its words alone.
    pub(crate) fn asked_to_wait(&self) -> Option<Duration> {
        let words = || serde_json::from_slice::<Status>(&self.body).ok()?.retry_after();
        self.retry_after.or_else(|| if self.status.is_success() { None } else { words() })
    }

    /// What the server refuses with, as an error that says which call it was.
    pub(crate) fn refusal(&self, about: About<'_>) -> ClusterError {
        let mut status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        // Some servers leave the code out of the body, and proxies answer in HTML.
        status.code = Some(self.status.as_u16());
        if status.message.as_deref().is_none_or(str::is_empty) {
            status.message = Some(words(self.status, &self.body));
            status.reason = None;
            status.details = None;
        }
        let mut error = status.error(about);
        if let ErrorKind::TooManyRequests { retry_after } = &mut error.kind {
            *retry_after = self.asked_to_wait().or(*retry_after);
        }
        if error.kind == ErrorKind::Server && self.took >= STALLED_AFTER {
            error.kind = ErrorKind::Stalled;
        }
        error
    }
}

/// The texts of `Warning` headers: `299 - "policy/v1beta1 PodDisruptionBudget is deprecated"`.
pub(crate) fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values =
        headers.get_all(WARNING).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let mut texts: Vec<String> = values.filter_map(warning).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    texts.truncate(WARNINGS_MAX);
    texts
}

/// The quoted text after code and agent.
fn warning(value: &str) -> Option<String> {
    let quoted = value.split_once(' ')?.1.split_once(' ')?.1.trim_start().strip_prefix('"')?;
    let (mut text, mut signs) = (String::new(), quoted.chars());
    while text.len() < WORDS_MAX {
        match signs.next()? {
            '"' => break,
            '\\' => text.push(signs.next()?),
            sign => text.push(sign),
        }
    }
    Some(text)
}

fn words(status: StatusCode, body: &Bytes) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(WORDS_MAX).collect();
    if text.is_empty() { format!("the server answered {status}") } else { format!("{text} ({status})") }
}

fn not_understood(about: About<'_>, why: &str) -> ClusterError {
    let what = about.gvk.map(|gvk| format!(" for {gvk} {}", about.name)).unwrap_or_default();
    ClusterError::new(ErrorKind::Server, format!("cannot read the server's answer{what}: {why}"))
}

/// The words for a kind that is not served.
pub(crate) fn unknown_kind(gvk: &Gvk) -> ClusterError {
    let words = format!(
        "no matches for kind {:?} in version {:?}: ensure CRDs are installed first",
        gvk.kind,
        gvk.api_version()
    );
    ClusterError::new(ErrorKind::UnknownKind, words)
}

impl Status {
    /// What the refusal means for a call.
    pub(crate) fn error(&self, about: About<'_>) -> ClusterError {
        let message = self.message.as_deref().unwrap_or_default();
        if self.code == Some(404) {
            return self.not_found(about, message);
        }
        if self.too_large(message) {
            return too_large(about, message);
        }
        let kind = self.kind(message);
        if kind == ErrorKind::Conflict
            && let Some(owners) = self.owners()
        {
            return ClusterError::new(kind, owners);
        }
        ClusterError::new(kind, message)
    }

    fn kind(&self, message: &str) -> ErrorKind {
        let reason = self.reason.as_deref().unwrap_or_default();
        let is_cause = |name| self.causes().any(|cause| cause.reason.as_deref() == Some(name));
        if is_cause("ResourceVersionTooLarge") {
            // After the store was restored from a backup: only listing again helps.
            return ErrorKind::Gone;
        }
        match self.code.unwrap_or(500) {
            401 => ErrorKind::Unauthorized,
            403 if is_cause("NamespaceTerminating") => ErrorKind::NamespaceTerminating,
            403 => ErrorKind::Forbidden,
            409 if reason == "AlreadyExists" => ErrorKind::AlreadyExists,
            409 => ErrorKind::Conflict,
            410 => ErrorKind::Gone,
            405 | 406 | 415 | 501 => ErrorKind::Unsupported,
            429 => ErrorKind::TooManyRequests { retry_after: self.retry_after() },
            422 if self.is_allocated() => ErrorKind::Allocated,
            400..=499 => ErrorKind::Invalid,
            // Servers up to 1.2x call it their own failure when a manifest does not fit the kind.
            500 if message.contains("failed to create typed patch object")
                || message.contains("failed to convert new object") =>
            {
                ErrorKind::Invalid
            }
            502 | 503 => ErrorKind::Unavailable,
            504 => ErrorKind::Timeout,
            500 if is_store_failure(message) => ErrorKind::Unavailable,
            _ => ErrorKind::Server,
        }
    }

    /// A port or an address that another object has. The server gives them back a moment after an object has gone.
    fn is_allocated(&self) -> bool {
        let words = |cause: &Cause| {
            cause.message.as_deref().is_some_and(|words| words.ends_with("is already allocated"))
        };
        self.causes().any(words)
    }

    fn causes(&self) -> impl Iterator<Item = &Cause> {
        self.details.iter().filter_map(|details| details.causes.as_ref()).flatten()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.details.as_ref()?.retry_after_seconds.map(Duration::from_secs)
    }

    /// An absent object, namespace, or kind. Only the first two are named by the server.
    fn not_found(&self, about: About<'_>, message: &str) -> ClusterError {
        let named = |field: fn(&Details) -> &Option<String>| {
            self.details.as_ref().and_then(|details| field(details).as_deref()).unwrap_or_default()
        };
        let (kind, name) = (named(|details| &details.kind), named(|details| &details.name));
        let of_namespace = about.gvk.is_some_and(Gvk::is_namespace);
        match about.gvk {
            Some(gvk) if name.is_empty() => unknown_kind(gvk),
            Some(_) if kind == "namespaces" && name == about.namespace && !of_namespace => {
                ClusterError::new(ErrorKind::NamespaceMissing, message)
            }
            _ => ClusterError::new(ErrorKind::NotFound, message),
        }
    }

    fn too_large(&self, message: &str) -> bool {
        self.code == Some(413)
            || self.reason.as_deref() == Some("RequestEntityTooLarge")
            || message.contains("etcdserver: request is too large")
            || message.contains("trying to send message larger than max")
    }

    /// The fields that others own, by owner; `None` when the conflict is of another sort.
    fn owners(&self) -> Option<String> {
        let mut owners: Vec<(&str, Vec<&str>)> = Vec::new();
        for cause in self.causes().filter(|cause| cause.reason.as_deref() == Some("FieldManagerConflict")) {
            let who = cause.message.as_deref()?.strip_prefix("conflict ")?;
            let field = cause.field.as_deref()?;
            match owners.iter_mut().find(|(owner, _)| *owner == who) {
                Some((_, fields)) => fields.push(field),
                None => owners.push((who, vec![field])),
            }
        }
        let word = |count: usize| if count == 1 { "conflict" } else { "conflicts" };
        let count: usize = owners.iter().map(|(_, fields)| fields.len()).sum();
        let parts: Vec<String> = owners
            .iter()
            .map(|(owner, fields)| format!("{} {owner}: {}", word(fields.len()), fields.join(", ")))
            .collect();
        (count > 0).then(|| format!("Apply failed with {count} {}: {}", word(count), parts.join("; ")))
    }
}

/// The server runs, but what it keeps its objects in does not answer. Webhooks fail with similar words.
fn is_store_failure(message: &str) -> bool {
    let signs = ["etcdserver: ", "rpc error: code = Unavailable", "context deadline exceeded"];
    signs.iter().any(|sign| message.contains(sign)) && !message.contains("webhook")
}

fn too_large(about: About<'_>, message: &str) -> ClusterError {
    let what =
        about.gvk.map_or_else(|| "the request".to_owned(), |gvk| format!("{} {:?}", gvk.kind, about.name));
    let words = format!(
        "{what} is too large: the manifest has {}, and an object may have about 1.5 MB where the cluster stores it, \
         managed fields and annotations included ({message})",
        megabytes(about.sent)
    );
    ClusterError::new(ErrorKind::Invalid, words)
}

fn megabytes(bytes: usize) -> String {
    let hundredths = bytes.div_ceil(10_000);
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}
