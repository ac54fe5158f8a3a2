//! What the servers of repositories tell: which sources a push is about.

use std::collections::BTreeSet;

use tidegate_model::argo::ApplicationSource;

use crate::hosted::News;
use crate::repository_names::place;

/// Names the folders and files by which the manifests of an application change.
pub const PATHS_ANNOTATION: &str = "argocd.argoproj.io/manifest-generate-paths";

/// What the server of a repository tells at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What was pushed.
    pub pushes: Vec<Push>,
    /// What else has changed, or for others.
    pub news: Vec<News>,
}

impl Told {
    /// Whether it is about nothing.
    pub fn is_empty(&self) -> bool {
        self.pushes.is_empty() && self.news.is_empty()
    }
}

/// Something that was pushed to a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    places: BTreeSet<String>,
    name: Option<String>,
    /// Whether it is what `HEAD` means, as far as anybody knows.
    is_default: bool,
    /// The files that have changed; empty where nobody knows them all.
    files: Vec<String>,
}

impl Push {
    /// To the repository of these addresses; nobody knows where to.
    pub fn to<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let places = addresses.into_iter().map(place).collect();
        Self { places, is_default: true, ..Self::default() }
    }

    /// To a branch or a tag, by its name or in full; `is_default` unless it is known that `HEAD` is another branch.
    pub fn of(self, name: &str, is_default: bool) -> Self {
        Self { name: Some(plain(name).to_owned()), is_default, ..self }
    }

    /// Of these files and no others.
    pub fn changing(self, files: Vec<String>) -> Self {
        Self { files, ..self }
    }

    /// The files that have changed; empty where nobody knows them all.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Whether it is to the repository of a source, however the address of that is written.
    pub fn is_to(&self, source: &ApplicationSource) -> bool {
        source.chart.is_empty() && self.places.contains(&place(&source.repo_url))
    }

    /// Whether a revision may mean something else by it. `allows` says whether a constraint allows a version.
    pub fn moves(&self, revision: &str, allows: impl Fn(&str, &str) -> bool) -> bool {
        match (plain(revision), &self.name) {
            ("" | "HEAD", _) => self.is_default,
            (_, None) => true,
            (revision, Some(name)) => revision == name || allows(revision, name),
        }
    }
}

/// A branch or a tag without what git puts before its name.
fn plain(name: &str) -> &str {
    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str) -> ApplicationSource {
        ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() }
    }

    #[test]
    fn a_repository_is_the_same_however_it_is_reached() {
        let push = Push::to(["https://example.com/Org/shop", "./repo"]);
        for (url, expected) in [
            ("https://example.com/org/shop", true),
            ("https://me@Example.com:8443/org/shop.git", true),
            ("http://example.com/org/shop/", true),
            ("git@example.com:org/shop.git", true),
            ("ssh://git@example.com:2222/org/shop", true),
            ("ssh://git@ssh.example.com:443/org/shop", true),
            ("git@altssh.example.com:org/shop", true),
            ("https://example.com/org/shop%2egit", true),
            ("./repo/", true),
            ("./other", false),
            ("https://example.com/org/shop2", false),
            ("https://example.com/org", false),
            ("https://example.com/org/shop/sub", false),
            ("https://example.org/org/shop", false),
            ("https://example.com@evil.example/org/shop", false),
            ("file:///example.com/org/shop", false),
            ("", false),
        ] {
            assert_eq!(push.is_to(&source(url)), expected, "{url}");
        }
        let chart = ApplicationSource { chart: "web".to_owned(), ..source("https://example.com/org/shop") };
        assert!(!push.is_to(&chart), "charts are not pushed");
        let azure = Push::to(["https://org@dev.azure.com/org/team/_git/shop"]);
        for url in ["https://dev.azure.com/org/team/_git/shop", "git@ssh.dev.azure.com:v3/org/team/shop"] {
            assert!(azure.is_to(&source(url)), "{url}");
        }
    }

    #[test]
    fn a_revision_is_moved_by_a_push_to_what_it_names() {
        let allows = |constraint: &str, version: &str| constraint == "1.*" && version.starts_with("1.");
        let unknown = Push::to(["./repo"]);
        let main = unknown.clone().of("refs/heads/main", true);
        let deep = unknown.clone().of("refs/heads/team/main", false);
        let tag = unknown.clone().of("refs/tags/1.2.0", false);
        let commit = "0123456789012345678901234567890123456789";
        for (revision, expected) in [
            ("", [true, true, false, false]),
            ("HEAD", [true, true, false, false]),
            ("main", [true, true, false, false]),
            ("refs/heads/main", [true, true, false, false]),
            ("team/main", [true, false, true, false]),
            ("1.2.0", [true, false, false, true]),
            ("refs/tags/1.2.0", [true, false, false, true]),
            ("1.*", [true, false, false, true]),
            ("2.*", [true, false, false, false]),
            (commit, [true, false, false, false]),
        ] {
            let moved = [&unknown, &main, &deep, &tag].map(|push| push.moves(revision, allows));
            assert_eq!(moved, expected, "{revision}");
        }
    }
}
