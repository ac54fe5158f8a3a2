//! What manifests are made for, and the variables by which a source may ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What manifests are made for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// Name of the application.
    pub name: String,
    /// Name under which its objects are tracked.
    pub instance: String,
    /// Name of the application's project.
    pub project: String,
    /// Where its objects go that name no namespace.
    pub namespace: String,
    /// What is known of the cluster where they go.
    pub cluster: Served,
}

/// What charts may ask of a cluster, as `.Capabilities`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Served {
    /// There is none to be asked: they are told what Helm knows by itself.
    #[default]
    NoCluster,
    /// What it serves.
    Known(Arc<Capabilities>),
    /// Nobody has asked it yet: no chart is made that could ask for it, and the question is noted.
    Unasked(Question),
    /// It cannot be asked, and why: no chart is made that could ask for it, and the question is noted.
    Unknown(String, Question),
}

/// Whether somebody wanted to know what a cluster serves. Clones are the same question.
#[derive(Clone, Debug, Default)]
pub struct Question(Arc<AtomicBool>);

impl Question {
    /// Somebody wants to know.
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody wanted to know.
    pub fn was_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PartialEq for Question {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Question {}

/// What a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Its version, as in `v1.36.1`; empty where it says none.
    pub kube_version: String,
    /// Groups and versions (`monitoring.coreos.com/v1`), and with their kinds (`monitoring.coreos.com/v1/ServiceMonitor`), in order.
    pub api_versions: Vec<String>,
}

/// The variables of one source (`ARGOCD_APP_NAME` …).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Variables(Vec<(&'static str, String)>);

/// So many digits of a commit tell it from others.
const SHORT: usize = 7;
/// And so many do it for longer.
const LESS_SHORT: usize = 8;

impl Variables {
    pub fn new(purpose: &Purpose, (url, path, target): (&str, &str, &str), revision: &str) -> Self {
        let short = |digits: usize| revision.chars().take(digits).collect::<String>();
        Self(vec![
            ("ARGOCD_APP_NAME", purpose.instance.clone()),
            ("ARGOCD_APP_NAMESPACE", purpose.namespace.clone()),
            ("ARGOCD_APP_PROJECT_NAME", purpose.project.clone()),
            ("ARGOCD_APP_REVISION", revision.to_owned()),
            ("ARGOCD_APP_REVISION_SHORT", short(SHORT)),
            ("ARGOCD_APP_REVISION_SHORT_8", short(LESS_SHORT)),
            ("ARGOCD_APP_SOURCE_REPO_URL", url.to_owned()),
            ("ARGOCD_APP_SOURCE_PATH", path.to_owned()),
            ("ARGOCD_APP_SOURCE_TARGET_REVISION", target.to_owned()),
        ])
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| *known == name)
    }

    fn value(&self, name: &str) -> &str {
        match name {
            "$" => "$",
            _ => self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value),
        }
    }

    /// A text with the values of the variables in it. As Go's `os.Expand` does it, unknown ones are nothing, and `$$` is `$`.
    pub fn replace(&self, text: &str) -> String {
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('$') {
            replaced.push_str(before);
            let (name, taken) = variable(after);
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

/// The name at the beginning of what follows a `$`, and how many bytes that is.
fn variable(text: &str) -> (&str, usize) {
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
        let purpose = Purpose {
            cluster: Served::NoCluster,
            name: "web".into(),
            instance: "team_web".into(),
            project: "default".into(),
            namespace: "shop".into(),
        };
        let variables =
            Variables::new(&purpose, ("https://example.com/a", "app", "main"), "0123456789abcdef");
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
