//! What is asked of the API.

use form_urlencoded::byte_serialize;
use http::Method;
use serde_json::Value;
use tidegate_model::reason_line;

/// A request.
pub(super) struct Asking {
    pub method: Method,
    pub path: String,
    query: String,
    pub body: Option<Value>,
}

impl Asking {
    fn new(method: Method, path: &str, body: Option<Value>) -> Self {
        Self { method, path: path.to_owned(), query: String::new(), body }
    }

    /// A question.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, None)
    }

    /// Something to be done.
    pub fn post(path: &str, body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    /// Something to be deleted.
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    /// With a parameter.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let between = if self.query.is_empty() { '?' } else { '&' };
        self.query.push(between);
        self.query
            .extend(byte_serialize(name.as_bytes()).chain(["="]).chain(byte_serialize(value.as_bytes())));
        self
    }

    /// With why it is wanted, as it is recorded, where somebody has said it: a server of an earlier version takes no reason.
    pub fn because(self, reason: &str) -> Self {
        let reason = reason_line(reason);
        if reason.is_empty() { self } else { self.with("reason", &reason) }
    }

    /// Path and query.
    pub fn target(&self) -> String {
        format!("{}{}", self.path, self.query)
    }

    /// Whether it may be asked again without harm.
    pub fn is_question(&self) -> bool {
        self.method == Method::GET
    }
}

/// A text as a part of a path.
pub(super) fn part(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let coded = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(coded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_stays_where_it_belongs() {
        for (text, expected) in [
            ("shop", "shop"),
            ("a.b-c", "a.b-c"),
            ("../x", "..%2Fx"),
            ("a?b#c", "a%3Fb%23c"),
            ("a b\r\n", "a%20b%0D%0A"),
            ("ä", "%C3%A4"),
        ] {
            assert_eq!(part(text), expected);
        }
        let asking = Asking::delete("/a").because(" \u{200b}").because(" a\nb ");
        assert_eq!(asking.target(), "/a?reason=a+b");
        let asking = Asking::get("/a").with("name", "x&y=z").with("limit", "1");
        assert_eq!(asking.target(), "/a?name=x%26y%3Dz&limit=1");
        assert_eq!(Asking::delete("/a").target(), "/a");
    }
}
