//! Server responses, decoded into an object or into a [`ClusterError`] with kubectl's terms.

use std::time::Duration;

use bytes::Bytes;
use http::header::WARNING;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_cluster::{ClusterError, ErrorKind, ImmutableField, Refusal};
use tidegate_model::{Gvk, Object};

use crate::compact::CompactObject;
use crate::paths::Target;
use crate::refusal;

/// Maximum length of displayed text from a body in an unknown format.
const BODY_TEXT_MAX: usize = 1024;

/// Minimum duration of a call before a server error is blamed on a dependency, such as a webhook.
const STALLED_AFTER: Duration = Duration::from_secs(4);
/// Maximum number of warnings stored per object.
const WARNINGS_MAX: usize = 8;

/// A complete response.
#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: StatusCode,
    /// Delay from the `Retry-After` header.
    pub(crate) retry_after: Option<Duration>,
    /// `Warning` headers: deprecations, and violations of policies that only warn.
    pub(crate) warnings: Vec<String>,
    /// The `ETag` header. Responses with the same ETag are identical.
    pub(crate) etag: Option<HeaderValue>,
    /// Time from the request to the response.
    pub(crate) duration: Duration,
    pub(crate) body: Bytes,
}

/// Subject of a call, for use in error messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallSubject<'a> {
    pub(crate) gvk: Option<&'a Gvk>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Size of the sent manifest in bytes.
    pub(crate) manifest_bytes: usize,
}

impl<'a> From<&Target<'a>> for CallSubject<'a> {
    fn from(target: &Target<'a>) -> Self {
        Self { gvk: Some(target.gvk), namespace: target.namespace, name: target.name, manifest_bytes: 0 }
    }
}

/// `Status`, the body of every unsuccessful response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) status: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) code: Option<u16>,
    pub(crate) details: Option<Details>,
}

/// Object that a `Status` refers to.
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

impl ApiResponse {
    /// Decodes the body of a successful response.
    pub(crate) fn decode<T: DeserializeOwned>(&self, about: CallSubject<'_>) -> Result<T, ClusterError> {
        if !self.status.is_success() {
            return Err(self.refusal_error(about));
        }
        serde_json::from_slice(&self.body).map_err(|error| decode_error(about, &error.to_string()))
    }

    /// Returns the object in a successful response.
    pub(crate) fn decode_object(&self, about: CallSubject<'_>) -> Result<Object, ClusterError> {
        let value: Value = self.decode(about)?;
        Object::try_from(value).map_err(|error| decode_error(about, &error.to_string()))
    }

    /// Returns the object in a successful response in compact form, with managed fields as text.
    pub(crate) fn decode_compact_object(&self, about: CallSubject<'_>) -> Result<Object, ClusterError> {
        let CompactObject(fields) = self.decode(about)?;
        Object::try_from(Value::Object(fields)).map_err(|error| decode_error(about, &error.to_string()))
    }

    /// Returns true if the server refuses only this request, for example because a kind isn't loaded yet or
    /// because of a disruption budget. The body of such a refusal is a `Status`, whereas an overloaded server
    /// refuses early, in plain text.
    pub(crate) fn is_request_specific(&self) -> bool {
        serde_json::from_slice::<Status>(&self.body).is_ok_and(|status| status.status.is_some())
    }

    /// Returns the delay that the server requests, in a header or just in the message.
    pub(crate) fn requested_delay(&self) -> Option<Duration> {
        let text = || serde_json::from_slice::<Status>(&self.body).ok()?.retry_after();
        self.retry_after.or_else(|| if self.status.is_success() { None } else { text() })
    }

    /// Converts the refusal to an error that describes the call.
    pub(crate) fn refusal_error(&self, about: CallSubject<'_>) -> ClusterError {
        let mut status: Status = serde_json::from_slice(&self.body).unwrap_or_default();
        // Some servers omit the code from the body, and proxies respond with HTML.
        status.code = Some(self.status.as_u16());
        if status.message.as_deref().is_none_or(str::is_empty) {
            status.message = Some(describe_body(self.status, &self.body));
            status.reason = None;
            status.details = None;
        }
        let mut error = status.refusal_error(about);
        if let ErrorKind::TooManyRequests { retry_after } = &mut error.kind {
            *retry_after = self.requested_delay().or(*retry_after);
        }
        if error.kind == ErrorKind::Server && self.duration >= STALLED_AFTER {
            error.kind = ErrorKind::DependencyTimeout;
        }
        error
    }
}

/// Parses the texts of `Warning` headers, such as `299 - "policy/v1beta1 PodDisruptionBudget is deprecated"`.
pub(crate) fn parse_warnings(headers: &HeaderMap) -> Vec<String> {
    let values =
        headers.get_all(WARNING).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
    let mut texts: Vec<String> = values.filter_map(parse_warning).filter(|text| !text.is_empty()).collect();
    texts.dedup();
    texts.truncate(WARNINGS_MAX);
    texts
}

/// Returns the quoted text after the code and the agent.
fn parse_warning(value: &str) -> Option<String> {
    let quoted = value.split_once(' ')?.1.split_once(' ')?.1.trim_start().strip_prefix('"')?;
    let (mut text, mut signs) = (String::new(), quoted.chars());
    while text.len() < BODY_TEXT_MAX {
        match signs.next()? {
            '"' => break,
            '\\' => text.push(signs.next()?),
            sign => text.push(sign),
        }
    }
    Some(text)
}

fn describe_body(status: StatusCode, body: &Bytes) -> String {
    let text = String::from_utf8_lossy(body);
    let text: String = text.trim().chars().take(BODY_TEXT_MAX).collect();
    if text.is_empty() { format!("the server returned {status}") } else { format!("{text} ({status})") }
}

fn decode_error(about: CallSubject<'_>, reason: &str) -> ClusterError {
    let subject = about.gvk.map(|gvk| format!(" for {gvk} {}", about.name)).unwrap_or_default();
    ClusterError::new(ErrorKind::Server, format!("cannot parse the server's response{subject}: {reason}"))
}

/// Returns the error for a kind that isn't served.
pub(crate) fn unknown_kind_error(gvk: &Gvk) -> ClusterError {
    let text = format!(
        "no matches for kind {:?} in version {:?}: ensure CRDs are installed first",
        gvk.kind,
        gvk.api_version()
    );
    ClusterError::new(ErrorKind::UnknownKind, text)
}

impl Status {
    /// Converts the server's refusal to an error that describes the call.
    pub(crate) fn refusal_error(&self, about: CallSubject<'_>) -> ClusterError {
        let message = self.message.as_deref().unwrap_or_default();
        if self.code == Some(404) {
            return self.not_found_error(about, message);
        }
        if self.is_too_large(message) {
            return too_large_error(about, message);
        }
        let kind = self.error_kind(message);
        if kind == ErrorKind::Conflict
            && let Some(owners) = self.describe_field_owners()
        {
            return ClusterError::new(kind, owners);
        }
        match kind {
            ErrorKind::Invalid => self.invalid_error(message),
            _ => ClusterError::new(kind, message),
        }
    }

    /// Returns the error for a refused manifest. Omits the server's dump of immutable fields' values.
    fn invalid_error(&self, message: &str) -> ClusterError {
        if let Some(refusal) = refusal::parse_typed_patch(message) {
            return ClusterError::new(ErrorKind::Invalid, refusal::join_lines(message)).with_refusal(refusal);
        }
        if refusal::has_unknown_fields(message) {
            return ClusterError::new(ErrorKind::Invalid, message).with_refusal(Refusal::StrictDecoding);
        }
        let mut fields: Vec<ImmutableField> = Vec::new();
        // Omit the manifest's other errors, which may only be consequences of the immutable fields.
        let mut text: Vec<String> = Vec::new();
        for cause in self.causes() {
            let (Some(field), Some(message)) = (cause.field.as_deref(), cause.message.as_deref()) else {
                continue;
            };
            if let Some(found) =
                refusal::parse_immutable_field(field, message).filter(|found| !fields.contains(found))
            {
                text.push(format!("{field}: {}", refusal::strip_values(message)));
                fields.push(found);
            }
        }
        let subject = message.split_once(" is invalid: ").map(|(subject, _)| subject);
        let Some(subject) = subject.filter(|_| !fields.is_empty()) else {
            return ClusterError::new(ErrorKind::Invalid, message);
        };
        let message = format!("{subject} is invalid: {}", text.join("; "));
        ClusterError::new(ErrorKind::Invalid, message).with_refusal(Refusal::ImmutableFields(fields))
    }

    fn error_kind(&self, message: &str) -> ErrorKind {
        let reason = self.reason.as_deref().unwrap_or_default();
        let is_cause = |name| self.causes().any(|cause| cause.reason.as_deref() == Some(name));
        if is_cause("ResourceVersionTooLarge") {
            // The server's store was restored from a backup, so everything must be listed again.
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
            422 if self.is_allocated() => ErrorKind::AlreadyAllocated,
            400..=499 => ErrorKind::Invalid,
            // Older servers (1.2x) report an internal error if a manifest doesn't match its kind's schema.
            500 if message.contains(refusal::TYPED_PATCH)
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

    /// Returns true if another object holds a port or an IP address. The server releases it shortly after
    /// that object is deleted.
    fn is_allocated(&self) -> bool {
        let text = |cause: &Cause| {
            cause.message.as_deref().is_some_and(|text| text.ends_with("is already allocated"))
        };
        self.causes().any(text)
    }

    fn causes(&self) -> impl Iterator<Item = &Cause> {
        self.details.iter().filter_map(|details| details.causes.as_ref()).flatten()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.details.as_ref()?.retry_after_seconds.map(Duration::from_secs)
    }

    /// Returns the error for a missing object, namespace or kind. The server identifies the first two, but
    /// not kinds.
    fn not_found_error(&self, about: CallSubject<'_>, message: &str) -> ClusterError {
        let named = |field: fn(&Details) -> &Option<String>| {
            self.details.as_ref().and_then(|details| field(details).as_deref()).unwrap_or_default()
        };
        let (kind, name) = (named(|details| &details.kind), named(|details| &details.name));
        let of_namespace = about.gvk.is_some_and(Gvk::is_namespace);
        match about.gvk {
            Some(gvk) if name.is_empty() => unknown_kind_error(gvk),
            Some(_) if kind == "namespaces" && name == about.namespace && !of_namespace => {
                ClusterError::new(ErrorKind::NamespaceMissing, message)
            }
            _ => ClusterError::new(ErrorKind::NotFound, message),
        }
    }

    fn is_too_large(&self, message: &str) -> bool {
        self.code == Some(413)
            || self.reason.as_deref() == Some("RequestEntityTooLarge")
            || message.contains("etcdserver: request is too large")
            || message.contains("trying to send message larger than max")
    }

    /// Returns the fields of other managers, grouped by manager. `None` for other conflicts.
    fn describe_field_owners(&self) -> Option<String> {
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

/// Returns true if the server is up but its store isn't responding. Webhooks fail with similar messages.
fn is_store_failure(message: &str) -> bool {
    let signs = ["etcdserver: ", "rpc error: code = Unavailable", "context deadline exceeded"];
    signs.iter().any(|sign| message.contains(sign)) && !message.contains("webhook")
}

fn too_large_error(about: CallSubject<'_>, message: &str) -> ClusterError {
    let subject =
        about.gvk.map_or_else(|| "the request".to_owned(), |gvk| format!("{} {:?}", gvk.kind, about.name));
    let text = format!(
        "{subject} is too large: the manifest is {}, but the cluster stores at most about 1.5 MB per object, \
         including managed fields and annotations ({message})",
        format_megabytes(about.manifest_bytes)
    );
    ClusterError::new(ErrorKind::Invalid, text)
}

fn format_megabytes(bytes: usize) -> String {
    let hundredths = bytes.div_ceil(10_000);
    format!("{}.{:02} MB", hundredths / 100, hundredths % 100)
}
