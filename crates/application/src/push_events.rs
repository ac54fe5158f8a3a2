//! Push events from repository servers, and the sources they affect.

use std::collections::BTreeSet;

use tidegate_model::argo::ApplicationSource;

use crate::repository_name::repository_location;
use crate::webhook_events::RepositoryChange;

/// Lists the folders and files whose changes affect an application's manifests.
pub const PATHS_ANNOTATION: &str = "argocd.argoproj.io/manifest-generate-paths";

/// Content of a webhook event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChanges {
    /// Pushes in the event.
    pub pushes: Vec<PushEvent>,
    /// Changes other than pushes, for ApplicationSets.
    pub changes: Vec<RepositoryChange>,
}

impl WebhookChanges {
    /// Returns true if the event has neither pushes nor changes.
    pub fn is_empty(&self) -> bool {
        self.pushes.is_empty() && self.changes.is_empty()
    }
}

/// Push to a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushEvent {
    repository_locations: BTreeSet<String>,
    ref_name: Option<String>,
    /// True if `HEAD` may point to the pushed branch.
    can_be_default_branch: bool,
    /// Changed files. Empty if the list is incomplete.
    files: Vec<String>,
}

impl PushEvent {
    /// Creates a push to the repository with these URLs, to an unknown branch.
    pub fn new<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let places = addresses.into_iter().map(repository_location).collect();
        Self { repository_locations: places, can_be_default_branch: true, ..Self::default() }
    }

    /// Sets the branch or tag by its short or full name. `is_default` is false if `HEAD` is known to point
    /// elsewhere.
    pub fn with_ref(self, name: &str, is_default: bool) -> Self {
        Self { ref_name: Some(short_ref_name(name).to_owned()), can_be_default_branch: is_default, ..self }
    }

    /// Sets the changed files.
    pub fn with_files(self, files: Vec<String>) -> Self {
        Self { files, ..self }
    }

    /// Returns the changed files. Empty if the list is incomplete.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(String::as_str)
    }

    /// Returns true if the push was made to the source's repository, however its URL is spelled.
    pub fn is_to(&self, source: &ApplicationSource) -> bool {
        source.chart.is_empty() && self.repository_locations.contains(&repository_location(&source.repo_url))
    }

    /// Returns true if the push may change the commit that a revision refers to. `allows` checks a version
    /// against a constraint.
    pub fn can_move(&self, revision: &str, allows: impl Fn(&str, &str) -> bool) -> bool {
        match (short_ref_name(revision), &self.ref_name) {
            ("" | "HEAD", _) => self.can_be_default_branch,
            (_, None) => true,
            (revision, Some(name)) => revision == name || allows(revision, name),
        }
    }
}

/// Removes the `refs/heads/` or `refs/tags/` prefix.
fn short_ref_name(name: &str) -> &str {
    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_of(url: &str) -> ApplicationSource {
        ApplicationSource { repo_url: url.to_owned(), ..ApplicationSource::default() }
    }

    #[test]
    fn a_repository_matches_any_spelling_of_its_address() {
        let push = PushEvent::new(["https://example.com/Org/shop", "./repo"]);
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
            assert_eq!(push.is_to(&source_of(url)), expected, "{url}");
        }
        let chart =
            ApplicationSource { chart: "web".to_owned(), ..source_of("https://example.com/org/shop") };
        assert!(!push.is_to(&chart), "charts are not pushed");
        let azure = PushEvent::new(["https://org@dev.azure.com/org/team/_git/shop"]);
        for url in ["https://dev.azure.com/org/team/_git/shop", "git@ssh.dev.azure.com:v3/org/team/shop"] {
            assert!(azure.is_to(&source_of(url)), "{url}");
        }
    }

    #[test]
    fn a_push_moves_the_revisions_that_name_its_ref() {
        let allows = |constraint: &str, version: &str| constraint == "1.*" && version.starts_with("1.");
        let unknown = PushEvent::new(["./repo"]);
        let main = unknown.clone().with_ref("refs/heads/main", true);
        let deep = unknown.clone().with_ref("refs/heads/team/main", false);
        let tag = unknown.clone().with_ref("refs/tags/1.2.0", false);
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
            let moved = [&unknown, &main, &deep, &tag].map(|push| push.can_move(revision, allows));
            assert_eq!(moved, expected, "{revision}");
        }
    }
}
