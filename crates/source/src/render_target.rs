//! The Application and cluster to render manifests for, and the build environment variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_model::argo::ApplicationSource;

/// Target Application and cluster of rendered manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderTarget {
    /// Name of the Application.
    pub name: String,
    /// Instance name for tracking the Application's objects.
    pub instance: String,
    /// Name of the Application's project.
    pub project: String,
    /// Default namespace for the Application's objects.
    pub namespace: String,
    /// Capabilities of the destination cluster.
    pub cluster: ClusterCapabilities,
}

/// Capabilities of the destination cluster. Charts can read them as `.Capabilities`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClusterCapabilities {
    /// No destination cluster, so charts get Helm's default capabilities.
    #[default]
    NoCluster,
    /// The capabilities of the cluster.
    Known(Arc<Capabilities>),
    /// The cluster hasn't been queried yet. Charts that need its capabilities request a query and aren't
    /// rendered.
    NotQueried(CapabilitiesQuery),
    /// The query failed for this reason. Charts that need the capabilities request another query and aren't
    /// rendered.
    Unknown(String, CapabilitiesQuery),
}

/// Flag, shared by its clones, for requesting a query of the cluster's capabilities.
#[derive(Clone, Debug, Default)]
pub struct CapabilitiesQuery(Arc<AtomicBool>);

impl CapabilitiesQuery {
    /// Requests a query.
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if a query has been requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for CapabilitiesQuery {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CapabilitiesQuery {}

/// A cluster's version and the API versions it serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Version of the cluster, such as `v1.36.1`. Empty if unknown.
    pub kube_version: String,
    /// Sorted list of API versions (`monitoring.coreos.com/v1`) and kinds
    /// (`monitoring.coreos.com/v1/ServiceMonitor`).
    pub api_versions: Vec<String>,
}

/// Build environment variables, such as `ARGOCD_APP_NAME`, for one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables(Vec<(&'static str, String)>);

/// Number of digits in an abbreviated commit.
const SHORT_COMMIT_LENGTH: usize = 7;
/// Number of digits in the longer abbreviation of a commit.
const LONGER_COMMIT_LENGTH: usize = 8;

impl Variables {
    pub fn new(purpose: &RenderTarget, source: &ApplicationSource, path: &str, revision: &str) -> Self {
        let short = |digits: usize| revision.chars().take(digits).collect::<String>();
        Self(vec![
            ("ARGOCD_APP_NAME", purpose.instance.clone()),
            ("ARGOCD_APP_NAMESPACE", purpose.namespace.clone()),
            ("ARGOCD_APP_PROJECT_NAME", purpose.project.clone()),
            ("ARGOCD_APP_REVISION", revision.to_owned()),
            ("ARGOCD_APP_REVISION_SHORT", short(SHORT_COMMIT_LENGTH)),
            ("ARGOCD_APP_REVISION_SHORT_8", short(LONGER_COMMIT_LENGTH)),
            ("ARGOCD_APP_SOURCE_REPO_URL", source.repo_url.clone()),
            ("ARGOCD_APP_SOURCE_PATH", path.to_owned()),
            ("ARGOCD_APP_SOURCE_TARGET_REVISION", source.target_revision.clone()),
        ])
    }

    /// Returns true if there is a variable with this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    fn value(&self, name: &str) -> &str {
        match name {
            "$" => "$",
            _ => self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value),
        }
    }

    /// Replaces the variables in a string. As in Go's `os.Expand`, unknown variables become empty, and `$$`
    /// becomes `$`.
    pub fn replace(&self, text: &str) -> String {
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('$') {
            replaced.push_str(before);
            let (name, taken) = parse_variable(after);
            match (name, taken) {
                ("", 0) => replaced.push('$'),
                ("", _) => {}
                (name, _) => replaced.push_str(self.value(name)),
            }
            rest = after.get(taken..).unwrap_or_default();
        }
        replaced.push_str(rest);
        replaced
    }
}

/// Returns the variable name at the start of the text (after `$`), and its length in bytes, including braces.
fn parse_variable(text: &str) -> (&str, usize) {
    let is_special = |c: char| "*#$@!?-".contains(c) || c.is_ascii_digit();
    match text.chars().next() {
        Some('{') => match text.get(1..).and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len().saturating_add(2)),
            None => ("", 1),
        },
        Some(first) if is_special(first) => (text.get(..1).unwrap_or_default(), 1),
        _ => {
            let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
            (text.get(..end).unwrap_or_default(), end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        let purpose = RenderTarget {
            cluster: ClusterCapabilities::NoCluster,
            name: "web".into(),
            instance: "team_web".into(),
            project: "default".into(),
            namespace: "shop".into(),
        };
        let source = ApplicationSource {
            repo_url: "https://example.com/a".into(),
            target_revision: "main".into(),
            ..ApplicationSource::default()
        };
        let variables = Variables::new(&purpose, &source, "app", "0123456789abcdef");
        for (text, expected) in [
            ("no variable", "no variable"),
            ("$ARGOCD_APP_NAME", "team_web"),
            ("a-${ARGOCD_APP_NAMESPACE}-b", "a-shop-b"),
            ("$ARGOCD_APP_REVISION_SHORT/$ARGOCD_APP_REVISION_SHORT_8", "0123456/01234567"),
            ("$ARGOCD_APP_SOURCE_TARGET_REVISION.", "main."),
            ("$HOME$", "$"),
            ("costs 5$$", "costs 5$"),
            ("a$,b", "a$,b"),
            ("${", ""),
            ("${}x", "x"),
            ("ü$ü", "ü$ü"),
            ("$1x", "x"),
        ] {
            assert_eq!(variables.replace(text), expected, "{text}");
        }
    }
}
