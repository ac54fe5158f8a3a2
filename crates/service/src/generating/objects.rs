//! Secrets, ConfigMaps and other objects that generators name: of files, where there are any, or else of a cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tidegate_cluster::{Cluster, ClusterError, Detail, Scope};
use tidegate_model::argo::CONTROL_NAMESPACE;
use tidegate_model::{Discovery, Gvk, Object};
use tokio::runtime::Handle;

use crate::applications::RepositoryFiles;

/// How long the cluster may take for one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Where objects are found.
pub(crate) struct Objects<'w> {
    pub files: Option<&'w RepositoryFiles>,
    /// Nothing where none is asked.
    pub cluster: Option<&'w dyn Cluster>,
    /// The namespace of the control plane.
    pub home: &'w str,
}

impl Objects<'_> {
    /// A Secret or a ConfigMap; nothing where it is not there. The error names it, and shows nothing of it.
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Result<Option<Object>, String> {
        if let Some(files) = self.files
            && let Some(found) = in_files(files, kind, namespace, name)?
        {
            return Ok(Some(found));
        }
        match self.cluster {
            Some(_) => self.get(&Gvk::new("", "v1", kind), namespace, name),
            None if self.files.is_some() => Ok(None),
            None => Err(format!(
                "{kind} {namespace}/{name} is not known here; name a file that holds it with --secrets PATH"
            )),
        }
    }

    /// A value of a Secret. The error shows nothing of it.
    pub fn secret_value(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
        let mut found = self.secret_values(namespace, name, &[key])?;
        found.remove(key).ok_or_else(|| format!("there is no key {key} in Secret {namespace}/{name}"))
    }

    /// Those of the keys of a Secret that are there. The error shows nothing of it.
    pub fn secret_values(
        &self,
        namespace: &str,
        name: &str,
        keys: &[&str],
    ) -> Result<BTreeMap<String, String>, String> {
        let secret = self.find("Secret", namespace, name)?;
        let secret = secret.ok_or_else(|| format!("there is no Secret {namespace}/{name}"))?;
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
                        format!("key {key} of Secret {namespace}/{name} is not text in base64")
                    })?
                }
                (None, None) => continue,
            };
            found.insert((*key).to_owned(), value);
        }
        Ok(found)
    }

    fn cluster(&self) -> Result<&dyn Cluster, String> {
        self.cluster.ok_or_else(|| "resources of clusters cannot be asked here".to_owned())
    }

    /// One object of the cluster.
    pub fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, String> {
        let named = format!("{} {namespace}/{name}", gvk.kind);
        wait(&format!("{named} cannot be read"), self.cluster()?.get(gvk, namespace, name))
    }

    /// All objects of a kind in a namespace.
    pub fn list(&self, gvk: &Gvk, namespace: &str) -> Result<Vec<Object>, String> {
        let scope = Scope { gvk: gvk.clone(), namespace: Some(namespace.to_owned()), detail: Detail::Full };
        let failed = format!("objects of kind {} in namespace {namespace} cannot be listed", gvk.kind);
        wait(&failed, self.cluster()?.list(&scope)).map(|listing| listing.objects)
    }

    /// The kinds that the cluster serves.
    pub fn kinds(&self) -> Result<Discovery, String> {
        wait("the cluster's kinds cannot be listed", self.cluster()?.discover())
    }
}

fn in_files(
    files: &RepositoryFiles,
    kind: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<Object>, String> {
    let mut found = None;
    let is_it = |object: &Object| {
        let home = if object.namespace().is_empty() { CONTROL_NAMESPACE } else { object.namespace() };
        object.group().is_empty() && object.kind() == kind && object.name() == name && home == namespace
    };
    files
        .each(|object| {
            if is_it(object) {
                found = Some(object.clone());
            }
            Ok(())
        })
        .map_err(|error| error.to_string())?;
    Ok(found)
}

fn wait<T>(failed: &str, asked: impl Future<Output = Result<T, ClusterError>>) -> Result<T, String> {
    let runtime = Handle::try_current().map_err(|error| format!("{failed}: {error}"))?;
    match runtime.block_on(async { tokio::time::timeout(ANSWER_WITHIN, asked).await }) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{failed}: {}", error.message)),
        Err(_) => Err(format!("{failed}: the cluster did not answer within {} s", ANSWER_WITHIN.as_secs())),
    }
}
