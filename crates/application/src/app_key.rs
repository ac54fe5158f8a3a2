//! Names of Applications and ApplicationSets.

use std::fmt;

use tidegate_model::Object;
use tidegate_model::argo::{Application, ApplicationSet, control_namespace, display_name, instance_name};

/// Error for a name that doesn't identify exactly one Application.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No Application has this name.
    #[error("application {name} not found; `tidegate app list` lists all applications")]
    Unknown {
        /// Name that the user entered.
        name: String,
    },
    /// Applications in several namespaces have this name.
    #[error("several applications are named {name}; use NAMESPACE/NAME")]
    Ambiguous {
        /// Name that the user entered.
        name: String,
    },
}

/// Name of an Application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppKey {
    /// Namespace. Defaults to the control plane's namespace.
    pub namespace: String,
    /// Name, unique within the namespace.
    pub name: String,
}

impl AppKey {
    /// Returns the key of an Application.
    pub fn of(application: &Application) -> Self {
        let metadata = &application.metadata;
        Self { namespace: metadata.namespace_or_default().to_owned(), name: metadata.name.clone() }
    }

    /// Returns the key of an ApplicationSet.
    pub fn of_appset(set: &ApplicationSet) -> Self {
        Self { namespace: set.metadata.namespace_or_default().to_owned(), name: set.metadata.name.clone() }
    }

    /// Returns the key of a resource.
    pub fn of_object(object: &Object) -> Self {
        Self { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    /// Parses an Application name, as users write it (`NAMESPACE/NAME`) or as operations do
    /// (`NAMESPACE_NAME`). Without a namespace, the name refers to the control plane's namespace.
    pub fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once(['/', '_']).unwrap_or((control_namespace(), text));
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns `NAMESPACE/NAME`.
    pub fn qualified_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Returns the name that operations use.
    pub fn instance_name(&self) -> String {
        instance_name(&self.namespace, &self.name)
    }

    /// Returns true if the key is in the control plane's namespace, where the name alone identifies a
    /// resource.
    pub fn is_in_control_plane(&self) -> bool {
        self.namespace == control_namespace()
    }

    /// Returns true if namespace and name are valid for objects and files.
    pub fn is_valid(&self) -> bool {
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
            !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.chars().all(plain)
        };
        is_plain(&self.name) && is_plain(&self.namespace)
    }

    /// Returns the only match for the name `text`.
    ///
    /// # Errors
    ///
    /// Fails unless there is exactly one match.
    pub fn single_match<T>(found: impl IntoIterator<Item = T>, text: &str) -> Result<T, NameError> {
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(NameError::Unknown { name: text.to_owned() }),
            _ => Err(NameError::Ambiguous { name: text.to_owned() }),
        }
    }

    /// Returns the keys that a name may refer to. Without a namespace, a key in the control plane's namespace
    /// takes precedence over keys in other namespaces.
    pub fn resolve(keys: impl IntoIterator<Item = Self>, text: &str) -> Vec<Self> {
        let mut found: Vec<Self> = keys.into_iter().filter(|key| key.matches(text)).collect();
        if found.iter().any(Self::is_in_control_plane) && !text.contains('/') {
            found.retain(Self::is_in_control_plane);
        }
        found
    }

    /// Keeps only the resources that a name may refer to; see [`Self::resolve`].
    pub fn retain_resolved<T>(found: &mut Vec<T>, key_of: impl Fn(&T) -> Self, text: &str) {
        let matching = Self::resolve(found.iter().map(&key_of), text);
        found.retain(|one| matching.contains(&key_of(one)));
    }

    /// Returns true if a name entered by a user refers to this Application, with or without a namespace.
    pub fn matches(&self, text: &str) -> bool {
        text.split_once('/')
            .map_or(self.name == text, |(namespace, name)| self.namespace == namespace && self.name == name)
    }
}

impl fmt::Display for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&display_name(&self.namespace, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_name_mean_the_same_application() {
        for (text, shown, instance) in [
            ("shop", "shop", "shop"),
            ("argocd/shop", "shop", "shop"),
            ("apps/shop", "apps/shop", "apps_shop"),
            ("apps_shop", "apps/shop", "apps_shop"),
        ] {
            let key = AppKey::parse(text);
            assert_eq!((key.to_string().as_str(), key.instance_name().as_str()), (shown, instance), "{text}");
        }
    }
}
