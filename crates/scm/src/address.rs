//! Addresses: of an API as it is written down, and of what is asked there.

use http::Uri;

use crate::problem::Problem;

/// The address of an API, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    text: String,
    uri: Uri,
}

impl Base {
    /// One that is written down.
    pub fn new(field: &str, text: &str) -> Result<Self, Problem> {
        let wrong =
            |why: &str| Problem::new(format!("{field}: {why}; write one such as https://git.example.com"));
        let text = text.trim().trim_end_matches('/');
        // What is wrong with it may be a password.
        let uri: Uri = text.parse().map_err(|_| wrong("it is no address"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("a user or password does not belong there"));
        }
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(wrong("it is no http:// or https:// address"));
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(wrong("it has more than a path"));
        }
        Ok(Self { text: text.to_owned(), uri })
    }

    /// With something at the end of its path, unless it ends so already.
    pub fn ending(self, tail: &str) -> Self {
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

    /// What is below it.
    pub fn at(&self, path: &str, query: &str) -> Result<Uri, Problem> {
        let mark = if query.is_empty() { "" } else { "?" };
        let text = format!("{}{path}{mark}{query}", self.text);
        text.parse().map_err(|_| Problem::new(format!("{}{path} is no address that can be asked", self.text)))
    }
}

/// A name as one part of a path.
pub(crate) fn part(what: &str, name: &str) -> Result<String, Problem> {
    match name {
        "" | "." | ".." => Err(Problem::new(format!("{what} {name:?} is no name"))),
        name => Ok(encoded(name)),
    }
}

/// A path in a repository, as one of an address.
pub(crate) fn inside(path: &str) -> Result<String, Problem> {
    let parts: Result<Vec<_>, _> =
        path.trim_matches('/').split('/').map(|one| part("a part of a path,", one)).collect();
    Ok(parts?.join("/"))
}

/// Everything that could mean something else in an address, by its number.
pub(crate) fn encoded(text: &str) -> String {
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
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_apis() {
        for (text, expected) in [
            ("https://git.example.com/", Ok("https://git.example.com")),
            (" http://127.0.0.1:3000/git/ ", Ok("http://127.0.0.1:3000/git")),
            ("git.example.com", Err("no http")),
            ("ftp://git.example.com", Err("no http")),
            ("https://me:hunter2@git.example.com", Err("password")),
            ("https://git.example.com/?token=hunter2", Err("more than a path")),
            ("https://hunter2 /", Err("no address")),
        ] {
            match (Base::new("api", text), expected) {
                (Ok(base), Ok(expected)) => assert_eq!(base.text(), expected),
                (Err(problem), Err(expected)) => {
                    assert!(problem.words.contains(expected), "{text}: {problem:?}");
                    assert!(!problem.words.contains("hunter2"), "{problem:?}");
                }
                (got, _) => unreachable!("{text}: {got:?}"),
            }
        }
        let base = Base::new("api", "https://a/x/").unwrap().ending("/api/v4").ending("/api/v4");
        assert_eq!(base.at("/groups", "page=2").unwrap().to_string(), "https://a/x/api/v4/groups?page=2");
    }

    #[test]
    fn names_stay_one_part_of_a_path() {
        assert_eq!(part("group", "a/b c%?#ü").unwrap(), "a%2Fb%20c%25%3F%23%C3%BC");
        assert_eq!(inside("/charts/a b/").unwrap(), "charts/a%20b");
        for name in ["", ".", ".."] {
            assert!(part("group", name).is_err(), "{name:?}");
        }
        assert!(inside("charts/../../secret").is_err());
        assert!(inside("charts//a").is_err());
    }
}
