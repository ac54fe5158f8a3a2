//! Requests to the API.

use form_urlencoded::byte_serialize;
use http::Method;
use serde_json::Value;
use tidegate_model::normalize_reason;

/// A request to the API.
pub(super) struct ApiRequest {
    pub method: Method,
    pub path: String,
    query: String,
    pub body: Option<Value>,
}

impl ApiRequest {
    fn new(method: Method, path: &str, body: Option<Value>) -> Self {
        Self { method, path: path.to_owned(), query: String::new(), body }
    }

    /// Creates a GET request.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// Creates a POST request.
    pub fn post(path: &str, body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    /// Creates a DELETE request.
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    /// Adds a query parameter.
    pub fn with_parameter(mut self, name: &str, value: &str) -> Self {
        let between = if self.query.is_empty() { '?' } else { '&' };
        self.query.push(between);
        self.query
            .extend(byte_serialize(name.as_bytes()).chain(["="]).chain(byte_serialize(value.as_bytes())));
        self
    }

    /// Adds a non-empty reason to record. Older servers reject this parameter.
    pub fn with_reason(self, reason: &str) -> Self {
        let reason = normalize_reason(reason);
        if reason.is_empty() { self } else { self.with_parameter("reason", &reason) }
    }

    /// Returns the path and query.
    pub fn target(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    /// Returns true if the request can be repeated without side effects.
    pub fn is_idempotent(&self) -> bool {
        self.method == Method::GET
    }
}

/// Encodes the text as a single path segment.
pub(super) fn encode_segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let coded = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(coded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_segments_and_parameters_are_encoded() {
        for (text, expected) in [
            ("shop", "shop"),
            ("a.b-c", "a.b-c"),
            ("../x", "..%2Fx"),
            ("a?b#c", "a%3Fb%23c"),
            ("a b\r\n", "a%20b%0D%0A"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(encode_segment(text), expected);
        }
        let request = ApiRequest::delete("/a").with_reason(" \u{200b}").with_reason(" a\nb ");
        assert_eq!(request.target(), "/a?reason=a+b");
        let request = ApiRequest::get("/a").with_parameter("name", "x&y=z").with_parameter("limit", "1");
        assert_eq!(request.target(), "/a?name=x%26y%3Dz&limit=1");
        assert_eq!(ApiRequest::delete("/a").target(), "/a");
    }
}
