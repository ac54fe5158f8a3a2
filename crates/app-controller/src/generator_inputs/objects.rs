//! Secrets, ConfigMaps and other objects that generators refer to. They are read from files or, if no files
//! are specified, from a cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tidegate_cluster::{Cluster, ClusterError, Detail, Scope};
use tidegate_model::argo::control_namespace;
use tidegate_model::{Discovery, Gvk, Object};
use tokio::runtime::Handle;

use crate::RepositoryFiles;

/// Timeout for a single response from the cluster.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sources of objects.
pub struct ObjectSources<'w> {
    /// Secrets and ConfigMaps in files.
    pub files: Option<&'w RepositoryFiles>,
    /// The cluster, or `None` if no cluster is used.
    pub cluster: Option<&'w dyn Cluster>,
    /// Namespace of the control plane.
    pub control_namespace: &'w str,
}

impl ObjectSources<'_> {
    /// Returns a Secret or ConfigMap, or `None` if it doesn't exist. Errors name the object but never quote
    /// its content.
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Object>, String> {
        if let Some(files) = self.files
            && let Some(found) = find_in_files(files, kind, namespace, name)?
        {
            return Ok(Some(found));
        }
        match self.cluster {
            Some(_) => self.get(&Gvk::new("", "v1", kind), namespace, name),
            None if self.files.is_some() => Ok(None),
            None => Err(format!(
                "{kind} {namespace}/{name} not found; pass a file that contains it with --secrets PATH"
            )),
        }
    }

    /// Returns a value from a Secret. Errors never quote the Secret's content.
    pub fn secret_value(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
        let mut found = self.secret_values(namespace, name, &[key])?;
        found.remove(key).ok_or_else(|| format!("Secret {namespace}/{name} has no key {key}"))
    }

    /// Returns the values of these keys in a Secret, omitting keys that don't exist. Errors never quote the
    /// Secret's content.
    pub fn secret_values(
        &self,
        namespace: &str,
        name: &str,
        keys: &[&str],
    ) -> Result<BTreeMap<String, String>, String> {
        let secret = self.find("Secret", namespace, name)?;
        let secret = secret.ok_or_else(|| format!("Secret {namespace}/{name} not found"))?;
        let mut found = BTreeMap::new();
        for key in keys {
            let text = |section: &str| {
                secret.as_value().get(section).and_then(|section| section.get(key)).and_then(Value::as_str)
            };
            let value = match (text("stringData"), text("data")) {
                (Some(text), _) => text.to_owned(),
                (None, Some(encoded)) => {
                    let compact: String = encoded.split_ascii_whitespace().collect();
                    let decoded =
                        STANDARD.decode(compact).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                    decoded.ok_or_else(|| {
                        format!("key {key} in Secret {namespace}/{name} is not base64-encoded text")
                    })?
                }
                (None, None) => continue,
            };
            found.insert((*key).to_owned(), value);
        }
        Ok(found)
    }

    fn cluster(&self) -> Result<&dyn Cluster, String> {
        self.cluster.ok_or_else(|| {
            "the generator must read resources from a cluster, but this command is not connected to one; use \
             `tidegate serve`"
                .to_owned()
        })
    }

    /// Returns an object from the cluster.
    pub fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, String> {
        let named = format!("{} {namespace}/{name}", gvk.kind);
        wait_for_cluster(&format!("cannot read {named}"), self.cluster()?.get(gvk, namespace, name))
    }

    /// Returns all objects of a kind in a namespace.
    pub fn list(&self, gvk: &Gvk, namespace: &str) -> Result<Vec<Object>, String> {
        let scope = Scope { gvk: gvk.clone(), namespace: Some(namespace.to_owned()), detail: Detail::Full };
        let failed = format!("cannot list {} objects in namespace {namespace}", gvk.kind);
        wait_for_cluster(&failed, self.cluster()?.list(&scope)).map(|listing| listing.objects)
    }

    /// Returns the cluster's API discovery data.
    pub fn discover(&self) -> Result<Discovery, String> {
        wait_for_cluster("cannot list the API resources of the cluster", self.cluster()?.discover())
    }
}

fn find_in_files(
    files: &RepositoryFiles,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, String> {
    let mut found = None;
    let is_it = |object: &Object| {
        let home = if object.namespace().is_empty() { control_namespace() } else { object.namespace() };
        object.group().is_empty() && object.kind() == kind && object.name() == name && home == namespace
    };
    files
        .for_each_object(|object| {
            if is_it(object) {
                found = Some(object.clone());
            }
            Ok(())
        })
        .map_err(|error| error.to_string())?;
    Ok(found)
}

fn wait_for_cluster<T>(
    failed: &str,
    request: impl Future<Output = Result<T, ClusterError>>,
) -> Result<T, String> {
    let runtime = Handle::try_current().map_err(|error| format!("{failed}: {error}"))?;
    match runtime.block_on(async { tokio::time::timeout(RESPONSE_TIMEOUT, request).await }) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{failed}: {}", error.message)),
        Err(_) => {
            Err(format!("{failed}: the cluster did not respond within {} s", RESPONSE_TIMEOUT.as_secs()))
        }
    }
}
