//! Which application is meant, and what is said where none is, or several are.

use tidegate_cluster::{Detail, Scope};

use super::{Direct, Resource};
use crate::applications::store::AppKey;
use crate::applications::store::kubernetes::Applications;
use crate::applications::store::kubernetes::site::kind;
use crate::error::ServiceError;

/// A name that is so many letters from another may be a slip of it.
const SLIP: usize = 2;
/// Names of so many letters and more are part of others by no accident.
const PART_MIN: usize = 3;
/// So many others are named.
const NAMED_MAX: usize = 5;

impl Direct {
    /// The applications that a name means: those of the namespaces that are looked at, or of the one it names.
    ///
    /// # Errors
    ///
    /// The cluster serves none, or does not let us read them.
    pub async fn find(&self, name: &str) -> Result<Vec<Resource>, ServiceError> {
        let mut found = Vec::new();
        for key in self.meant(name).await? {
            found.extend(self.get(&key).await?);
        }
        Ok(found)
    }

    /// The only application that a name means.
    ///
    /// # Errors
    ///
    /// There is none, or there are several; or the cluster does not let us read it.
    pub async fn one(&self, name: &str) -> Result<Resource, ServiceError> {
        let mut found = self.find(name).await?;
        match (found.pop(), found.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                found.push(last);
                let names: Vec<String> = found.iter().map(Resource::full_name).collect();
                Err(bad(format!(
                    "there are several applications {name}: {}; write NAMESPACE/NAME",
                    names.join(", ")
                )))
            }
            (None, _) => Err(self.absent(name).await),
        }
    }

    async fn meant(&self, text: &str) -> Result<Vec<AppKey>, ServiceError> {
        let key =
            |namespace: &str, name: &str| AppKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Ok(match text.split_once('/') {
            Some((namespace, name)) => vec![key(namespace, name)],
            None if self.site.reach.namespaces.is_empty() => {
                let mut all = self.keys(None).await?;
                all.retain(|one| one.name == text);
                all
            }
            None => self.site.reach.namespaces.iter().map(|namespace| key(namespace, text)).collect(),
        })
    }

    /// The applications of a namespace, or of all; without what they are.
    async fn keys(&self, namespace: Option<String>) -> Result<Vec<AppKey>, ServiceError> {
        let scope = Scope { gvk: kind::<Applications>(), namespace, detail: Detail::Metadata };
        let mut keys: Vec<AppKey> = self.list(&scope).await?.iter().map(AppKey::of_object).collect();
        keys.sort();
        Ok(keys)
    }

    /// There is no application of this name: where there is one, or what others are called like it.
    pub async fn absent(&self, text: &str) -> ServiceError {
        let (namespace, name) = text.split_once('/').unzip();
        let (name, place) = (
            name.unwrap_or(text),
            namespace.map_or_else(|| self.place(), |namespace| format!("namespace {namespace}")),
        );
        let known = self.known(namespace).await;
        let full = |key: &AppKey| format!("{}/{}", key.namespace, key.name);
        let named = |keep: &dyn Fn(&AppKey) -> bool| {
            let names = known.iter().filter(|key| keep(key)).map(full);
            names.take(NAMED_MAX).collect::<Vec<_>>().join(", ")
        };
        let (same, near) = (named(&|key| key.name == name), named(&|key| is_near(&key.name, name)));
        bad(match (same.as_str(), near.as_str()) {
            ("", "") => format!(
                "there is no application {name} in {place}; `tidegate app list` shows those there are"
            ),
            ("", near) => format!("there is no application {name} in {place}; did you mean {near}?"),
            (same, _) => format!("there is no application {name} in {place}; there is {same}, write it so"),
        })
    }

    /// Those of all namespaces, or as far as they may be read.
    async fn known(&self, namespace: Option<&str>) -> Vec<AppKey> {
        if let Ok(all) = self.keys(None).await {
            return all;
        }
        let own = self.site.reach.namespaces.iter().map(String::as_str);
        let mut known = Vec::new();
        for namespace in namespace.into_iter().chain(own) {
            known.extend(self.keys(Some(namespace.to_owned())).await.unwrap_or_default());
        }
        known.sort();
        known.dedup();
        known
    }
}

fn is_near(name: &str, meant: &str) -> bool {
    let shortest = name.len().min(meant.len());
    let is_part = shortest >= PART_MIN && (name.contains(meant) || meant.contains(name));
    is_part || shortest > SLIP && strsim::damerau_levenshtein(name, meant) <= SLIP
}

fn bad(message: String) -> ServiceError {
    ServiceError::BadInput { message }
}
