//! Which repository a `repoURL` means.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::SourceError;

/// A repository on this machine. The same repository has the same address, however it was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(PathBuf);

impl Address {
    /// Reads a `repoURL`. Relative paths are those of `base`, the folder in which the application is written down.
    pub fn parse(url: &str, base: &Path) -> Result<Self, SourceError> {
        let unsupported = |what| SourceError::Address { url: url.to_owned(), what };
        let path = match url.split_once("://") {
            Some(("file", rest)) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(unsupported("a file address with a host"));
                }
                PathBuf::from(path)
            }
            Some(("http" | "https", _)) => return Err(unsupported("Git by HTTPS")),
            Some(("ssh" | "git+ssh", _)) => return Err(unsupported("Git by SSH")),
            Some(("oci", _)) => return Err(unsupported("an OCI registry")),
            Some(_) => return Err(unsupported("this kind of address")),
            None if url.starts_with('/') => PathBuf::from(url),
            None if [".", ".."].contains(&url) || url.starts_with("./") || url.starts_with("../") => {
                base.join(url)
            }
            None if url.contains('@') && url.contains(':') => return Err(unsupported("Git by SSH")),
            None => return Err(unsupported("this kind of address")),
        };
        // What is not there is told when it is opened, under the name it was asked for.
        Ok(Self(std::fs::canonicalize(&path).unwrap_or(path)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.display())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_one_address() {
        let folder = tempfile::tempdir().unwrap();
        let repository = folder.path().join("repo");
        std::fs::create_dir(&repository).unwrap();
        let expected = Address(std::fs::canonicalize(&repository).unwrap());
        let absolute = repository.display().to_string();
        let base = folder.path();
        for url in [absolute.clone(), format!("file://{absolute}"), "./repo".into(), "./repo/../repo/".into()]
        {
            assert_eq!(Address::parse(&url, base).unwrap(), expected, "{url}");
        }
        assert_eq!(Address::parse(".", &repository).unwrap(), expected);
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (url, named) in [
            ("https://example.com/a.git", "HTTPS"),
            ("http://example.com/a.git", "HTTPS"),
            ("git@example.com:a.git", "SSH"),
            ("ssh://git@example.com/a.git", "SSH"),
            ("oci://example.com/a", "OCI"),
            ("file://server/a", "host"),
            ("git://example.com/a", "this kind"),
            ("repo", "this kind"),
            ("", "this kind"),
        ] {
            let error = Address::parse(url, Path::new("/")).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains("not supported yet"), "{url}: {error}");
        }
    }
}
