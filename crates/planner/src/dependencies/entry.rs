//! Entries of the `tidegate.dev/depends-on` annotation.

use std::fmt;

use tidegate_model::{ObjectKey, ResourceSelector, annotations};

/// An object that an annotation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DependencyEntry(ResourceSelector);

/// Entry that Tidegate can't use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnsupportedEntry {
    #[error(
        "invalid entry {0:?} in the {name} annotation: use GROUP:KIND:NAMESPACE/NAME, or GROUP:KIND:NAME for \
         cluster-scoped objects, with an empty GROUP for core kinds",
        name = annotations::DEPENDS_ON
    )]
    Malformed(String),
    #[error(
        "the {name} annotation is empty; add an object, or remove the annotation",
        name = annotations::DEPENDS_ON
    )]
    Empty,
    #[error(
        "entry {0:?} in the {name} annotation is optional, and Tidegate cannot wait for optional objects yet; \
         remove the question mark if the object is in the manifests, or the entry if it is not",
        name = annotations::DEPENDS_ON
    )]
    Optional(String),
    #[error(
        "entry {0:?} in the {name} annotation selects objects by labels, and Tidegate cannot wait for selected \
         objects yet; name an object in the manifests, or depend on a hook that waits for the selected objects",
        name = annotations::DEPENDS_ON
    )]
    Selector(String),
}

impl DependencyEntry {
    /// Returns the keys that the entry can refer to, the most specific one first.
    pub(super) fn keys(&self, dependent_namespace: &str) -> Vec<ObjectKey> {
        let ResourceSelector { group, kind, namespace, name } = &self.0;
        let named = ObjectKey::new(group, kind, namespace, name);
        if !namespace.is_empty() || dependent_namespace.is_empty() {
            return vec![named];
        }
        vec![named, ObjectKey::new(group, kind, dependent_namespace, name)]
    }
}

impl fmt::Display for DependencyEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Formats a key as an entry.
pub(super) fn format_key(key: &ObjectKey) -> String {
    ResourceSelector::from(key.clone()).to_string()
}

/// Parses an annotation.
pub(super) fn parse_entries(declared: &str) -> Vec<Result<DependencyEntry, UnsupportedEntry>> {
    let entries: Vec<_> = split_entries(declared).into_iter().map(parse_entry).collect();
    if entries.is_empty() { vec![Err(UnsupportedEntry::Empty)] } else { entries }
}

/// Splits an annotation at the commas outside of braces.
fn split_entries(declared: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    let is_separator = |c: char| {
        match c {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    declared.split(is_separator).map(str::trim).filter(|entry| !entry.is_empty()).collect()
}

fn parse_entry(text: &str) -> Result<DependencyEntry, UnsupportedEntry> {
    let (named, is_optional) = text.strip_suffix('?').map_or((text, false), |named| (named, true));
    let malformed = || UnsupportedEntry::Malformed(text.to_owned());
    let selector: ResourceSelector = named.parse().map_err(|_| malformed())?;
    let ResourceSelector { group, kind, namespace, name } = &selector;
    if name.starts_with("*{") && name.ends_with('}') && name.contains('=') {
        return Err(UnsupportedEntry::Selector(text.to_owned()));
    }
    // A name may contain a colon, such as that of a built-in ClusterRole.
    let is_plain = |part: &str| !part.contains(|c: char| c.is_whitespace() || "/*?{}".contains(c));
    let has_namespace = !named.contains('/') || !namespace.is_empty();
    if ![group, kind, namespace, name].into_iter().all(|part| is_plain(part)) || !has_namespace {
        return Err(malformed());
    }
    if is_optional {
        return Err(UnsupportedEntry::Optional(text.to_owned()));
    }
    Ok(DependencyEntry(selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_parsed() {
        let parsed = |text: &str| -> Vec<String> {
            let entries = parse_entries(text).into_iter();
            entries
                .map(|entry| entry.map_or_else(|error| error.to_string(), |entry| entry.to_string()))
                .collect()
        };
        assert_eq!(
            parsed(" apps:Deployment:shop/db , :ConfigMap:shop/settings,,:Namespace:shop,"),
            ["apps:Deployment:shop/db", ":ConfigMap:shop/settings", ":Namespace:shop"]
        );
        assert_eq!(parsed("rbac.authorization.k8s.io:ClusterRole:system:node")[0].split(':').count(), 4);
        for malformed in [
            "db",
            "Deployment:db",
            "apps::shop/db",
            ":ConfigMap:",
            ":ConfigMap:/a",
            ":ConfigMap:a/b/c",
            ":ConfigMap:a b",
            ":ConfigMap:*",
            ":Pod:shop/*{app}",
            "?",
        ] {
            assert!(
                parsed(malformed)[0].starts_with("invalid entry"),
                "{malformed}: {:?}",
                parsed(malformed)
            );
        }
        for (text, part) in [
            (" , ", "annotation is empty"),
            (":ConfigMap:shop/settings?", "remove the question mark"),
            ("apps:Deployment:shop/*{app=db,tier=a}", "selects objects by labels"),
        ] {
            let parsed = parsed(text);
            assert!(parsed.len() == 1 && parsed[0].contains(part), "{parsed:?}");
        }
    }

    #[test]
    fn a_name_without_a_namespace_can_be_in_the_namespace_of_the_dependent() {
        let entry = parse_entries(":ConfigMap:a").remove(0).unwrap();
        let names = |namespace| entry.keys(namespace).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names("shop"), ["ConfigMap a", "ConfigMap shop/a"]);
        assert_eq!(names(""), ["ConfigMap a"]);
    }
}
