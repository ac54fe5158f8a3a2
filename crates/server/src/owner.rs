//! Service that owns an operation log, or a part of it.

use http::Uri;

/// Service that owns an operation log, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This service, which handles requests itself. Also a service without a shared log.
    This,
    /// Another service.
    Other {
        /// Name for messages.
        name: String,
        /// URL of its API, if it advertises one.
        address: Option<Uri>,
    },
    /// Unknown, because this service is starting or taking over.
    Changing,
}

impl Owner {
    /// Returns another service as the leader. `address` is the URL of its API. An invalid URL counts as none.
    pub fn other(name: impl Into<String>, address: Option<&str>) -> Self {
        let address = address.and_then(|address| address.parse().ok());
        Self::Other { name: name.into(), address }
    }

    /// Returns true for another service that advertises an address.
    pub(crate) fn has_address(&self) -> bool {
        matches!(self, Self::Other { address: Some(_), .. })
    }
}

/// Parses a URL that consists only of a scheme, a host and an optional port, and removes a trailing slash.
pub fn parse_service_url(text: &str) -> Result<String, String> {
    let expected = || "use http://HOST:PORT or https://HOST:PORT".to_owned();
    let uri: Uri = text.parse().map_err(|_| expected())?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    let has_host = uri
        .authority()
        .is_some_and(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    let is_base = uri.path() == "/" && uri.query().is_none();
    (is_http && has_host && is_base).then(|| text.trim_end_matches('/').to_owned()).ok_or_else(expected)
}
