//! Finds Applications by name, and explains why a name matches none or is ambiguous.

use tidegate_application::AppKey;
use tidegate_cluster::{Detail, Scope};
use tidegate_state::error::ServiceError;
use tidegate_stores::applications::kubernetes::ApplicationKind;
use tidegate_stores::applications::kubernetes::resource_client::managed_kind;

use super::{DirectClient, Resource};

/// Maximum edit distance at which a name counts as a possible typo.
const EDIT_DISTANCE_MAX: usize = 2;
/// Minimum length of a name for partial matches.
const PARTIAL_NAME_MIN: usize = 3;
/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 5;

impl DirectClient {
    /// Returns the Applications that match a name. If the name has no namespace, searches the selected
    /// namespaces.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster doesn't have the kind or denies access.
    pub async fn find(&self, name: &str) -> Result<Vec<Resource>, ServiceError> {
        let mut found = Vec::new();
        for key in self.matching_keys(name).await? {
            found.extend(self.get(&key).await?);
        }
        AppKey::retain_resolved(&mut found, Resource::key, name);
        Ok(found)
    }

    /// Returns the only Application that matches a name.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no match or more than one, or if the cluster denies access.
    pub async fn find_one(&self, name: &str) -> Result<Resource, ServiceError> {
        let mut found = self.find(name).await?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                found.push(last);
                let names: Vec<String> = found.iter().map(Resource::full_name).collect();
                Err(bad_input_error(format!(
                    "several applications are named {name}: {}; use NAMESPACE/NAME",
                    names.join(", ")
                )))
            }
            (None, _) => Err(self.not_found_error(name).await),
        }
    }

    async fn matching_keys(&self, text: &str) -> Result<Vec<AppKey>, ServiceError> {
        let key =
            |namespace: &str, name: &str| AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(match text.split_once('/') {
            Some((namespace, name)) => vec![key(namespace, name)],
            None if self.resource_client.scope.namespaces.is_empty() => {
                let mut all = self.list_keys(None).await?;
                all.retain(|one| one.name == text);
                all
            }
            None => {
                self.resource_client.scope.namespaces.iter().map(|namespace| key(namespace, text)).collect()
            }
        })
    }

    /// Returns the keys of the Applications in a namespace, or in all namespaces.
    async fn list_keys(&self, namespace: Option<String>) -> Result<Vec<AppKey>, ServiceError> {
        let scope = Scope { gvk: managed_kind::<ApplicationKind>(), namespace, detail: Detail::Metadata };
        let mut keys: Vec<AppKey> = self.list_objects(&scope).await?.iter().map(AppKey::of_object).collect();
        keys.sort();
        Ok(keys)
    }

    /// Returns the error for an Application that doesn't exist. It suggests Applications with the same or a
    /// similar name.
    pub async fn not_found_error(&self, text: &str) -> ServiceError {
        let (namespace, name) = text.split_once('/').unzip();
        let (name, place) = (
            name.unwrap_or(text),
            namespace
                .map_or_else(|| self.describe_namespaces(), |namespace| format!("namespace {namespace}")),
        );
        let known = self.visible_keys(namespace).await;
        let full = |key: &AppKey| format!("{}/{}", key.namespace, key.name);
        let named = |keep: &dyn Fn(&AppKey) -> bool| {
            let names = known.iter().filter(|key| keep(key)).map(full);
            names.take(SUGGESTIONS_MAX).collect::<Vec<_>>().join(", ")
        };
        let (same, near) = (named(&|key| key.name == name), named(&|key| is_similar(&key.name, name)));
        bad_input_error(match (same.as_str(), near.as_str()) {
            ("", "") => {
                format!("application {name} not found in {place}; `tidegate app list` lists all applications")
            }
            ("", near) => format!("application {name} not found in {place}; did you mean {near}?"),
            (same, _) => format!("application {name} not found in {place}; did you mean {same}?"),
        })
    }

    /// Returns the keys of the Applications that the user may read.
    async fn visible_keys(&self, namespace: Option<&str>) -> Vec<AppKey> {
        if let Ok(all) = self.list_keys(None).await {
            return all;
        }
        let own = self.resource_client.scope.namespaces.iter().map(String::as_str);
        let mut known = Vec::new();
        for namespace in namespace.into_iter().chain(own) {
            known.extend(self.list_keys(Some(namespace.to_owned())).await.unwrap_or_default());
        }
        known.sort();
        known.dedup();
        known
    }
}

fn is_similar(name: &str, other: &str) -> bool {
    let shortest = name.len().min(other.len());
    let is_part = shortest >= PARTIAL_NAME_MIN && (name.contains(other) || other.contains(name));
    is_part || shortest > EDIT_DISTANCE_MAX && strsim::damerau_levenshtein(name, other) <= EDIT_DISTANCE_MAX
}

fn bad_input_error(message: String) -> ServiceError {
    ServiceError::BadInput { message }
}
