//! Requests to an API server.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::{Method, Request};
use kube::client::Body;
use tidegate_model::OperationId;

pub(crate) const JSON: &str = "application/json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
const IMPERSONATE_USER: &str = "impersonate-user";
const AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// A request, independent of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query, relative to the server's address.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// ETag of a cached response, so that the server doesn't resend unchanged content.
    pub(crate) known_etag: Option<HeaderValue>,
    /// Operation that requested the call, for the server's audit log.
    pub(crate) operation: Option<OperationId>,
    /// User to impersonate, or `None` for Tidegate's own user.
    pub(crate) user: Option<Arc<str>>,
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            accept: JSON,
            content_type: JSON,
            body: Bytes::new(),
            known_etag: None,
            operation: None,
            user: None,
        }
    }

    pub(crate) fn with_accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn write(
        method: Method,
        path: String,
        content_type: &'static str,
        body: Vec<u8>,
        operation: Option<OperationId>,
    ) -> Self {
        Self { method, content_type, body: body.into(), operation, ..Self::get(path) }
    }

    /// Returns the key for delaying this request.
    pub(crate) fn request_key(&self) -> String {
        let place = self.path.split('?').next().unwrap_or_default();
        format!("{} {place}", self.method)
    }

    pub(crate) fn build_request(&self) -> Result<Request<Body>, http::Error> {
        let agent = match self.operation {
            Some(operation) => HeaderValue::try_from(format!("{AGENT} (operation/{operation})"))?,
            None => HeaderValue::from_static(AGENT),
        };
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path.as_str())
            .header(ACCEPT, self.accept)
            .header(USER_AGENT, agent);
        if let Some(known) = &self.known_etag {
            request = request.header(IF_NONE_MATCH, known);
        }
        if let Some(user) = &self.user {
            request = request.header(IMPERSONATE_USER, HeaderValue::try_from(user.as_ref())?);
        }
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request.body(Body::from(self.body.clone()))
    }
}
