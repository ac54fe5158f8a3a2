//! Base URLs of APIs, and URLs of requests.

use http::Uri;

use crate::problem::Problem;

/// Base URL of an API, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    text: String,
    uri: Uri,
}

impl Base {
    /// Parses a URL from a configuration field. Errors name the field.
    pub fn new(field: &str, text: &str) -> Result<Self, Problem> {
        let wrong = |reason: &str| {
            Problem::new(format!("invalid {field}: {reason}; use a URL such as https://git.example.com"))
        };
        let text = text.trim().trim_end_matches('/');
        // The parser's message may contain a password, so don't include it.
        let uri: Uri = text.parse().map_err(|_| wrong("not a URL"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("a user or password is not allowed"));
        }
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(wrong("not an http:// or https:// URL"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("a query or a fragment is not allowed"));
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    /// Appends `tail` to the path, unless the path already ends with it.
    pub fn with_suffix(self, tail: &str) -> Self {
        if self.text.ends_with(tail) {
            return self;
        }
        let text = format!("{}{tail}", self.text);
        let uri = text.parse().unwrap_or_else(|_| self.uri.clone());
        Self { text, uri }
    }

    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the URL of an API path.
    pub fn join(&self, path: &str, query: &str) -> Result<Uri, Problem> {
        let mark = if query.is_empty() { "" } else { "?" };
        let text = format!("{}{path}{mark}{query}", self.text);
        text.parse().map_err(|_| Problem::new(format!("{}{path} is not a valid URL", self.text)))
    }
}

/// Encodes a name as a single path segment.
pub(crate) fn encode_segment(what: &str, name: &str) -> Result<String, Problem> {
    match name {
        "" | "." | ".." => {
            Err(Problem::new(format!("invalid {what} {name:?}: it must not be empty, `.` or `..`")))
        }
        name => Ok(percent_encode(name)),
    }
}

/// Encodes a path in a repository for use in a URL.
pub(crate) fn encode_path(path: &str) -> Result<String, Problem> {
    let parts: Result<Vec<_>, _> =
        path.trim_matches('/').split('/').map(|one| encode_segment("path segment", one)).collect();
    Ok(parts?.join("/"))
}

/// Percent-encodes all characters with a special meaning in URLs.
pub(crate) fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte))
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_apis() {
        for (text, expected) in [
            ("https://git.example.com/", Ok("https://git.example.com")),
            (" http://127.0.0.1:3000/git/ ", Ok("http://127.0.0.1:3000/git")),
            ("git.example.com", Err("not an http")),
            ("ftp://git.example.com", Err("not an http")),
            ("https://me:hunter2@git.example.com", Err("password")),
            ("https://git.example.com/?token=hunter2", Err("query or a fragment")),
            ("https://hunter2 /", Err("not a URL")),
        ] {
            match (Base::new("api", text), expected) {
                (Ok(base), Ok(expected)) => assert_eq!(base.text(), expected),
                (Err(problem), Err(expected)) => {
                    assert!(problem.message.contains(expected), "{text}: {problem:?}");
                    assert!(!problem.message.contains("hunter2"), "{problem:?}");
                }
                (got, _) => unreachable!("{text}: {got:?}"),
            }
        }
        let base = Base::new("api", "https://a/x/").unwrap().with_suffix("/api/v4").with_suffix("/api/v4");
        assert_eq!(base.join("/groups", "page=2").unwrap().to_string(), "https://a/x/api/v4/groups?page=2");
    }

    #[test]
    fn names_stay_one_path_segment() {
        assert_eq!(encode_segment("group", "a/b c%?#ü").unwrap(), "a%2Fb%20c%25%3F%23%C3%BC");
        assert_eq!(encode_path("/charts/a b/").unwrap(), "charts/a%20b");
        for name in ["", ".", ".."] {
            assert!(encode_segment("group", name).is_err(), "{name:?}");
        }
        assert!(encode_path("charts/../../secret").is_err());
        assert!(encode_path("charts//a").is_err());
    }
}
