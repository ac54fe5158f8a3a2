//! ConfigMaps of Argo CD that say what `serve` does, where the command does not.

use tidegate_cluster::{Cluster, ClusterError};
use tidegate_model::{Gvk, Object};

use crate::output::Printer;

/// A ConfigMap of this namespace, if one is given and it is there. `about` is what is not followed where it cannot be read.
pub async fn read(
    name: &str,
    config: Option<(&dyn Cluster, &str)>,
    about: &str,
    printer: &Printer,
) -> Option<Object> {
    let (_, namespace) = config?;
    find(name, config).await.unwrap_or_else(|error| {
        printer.warn(&format!(
            "ConfigMap {namespace}/{name} cannot be read, and what it may say of {about} is not followed: {error}"
        ));
        None
    })
}

/// The same, or why it cannot be read.
pub async fn find(name: &str, config: Option<(&dyn Cluster, &str)>) -> Result<Option<Object>, ClusterError> {
    let Some((cluster, namespace)) = config else { return Ok(None) };
    cluster.get(&Gvk::new("", "v1", "ConfigMap"), namespace, name).await
}

/// What a ConfigMap says of a key; an empty text says nothing.
pub fn value<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    let text = object.as_value().pointer("/data")?.get(key)?.as_str()?.trim();
    (!text.is_empty()).then_some(text)
}

/// Tells what of a ConfigMap means nothing.
pub fn tell(object: &Object, problems: &[String], printer: &Printer) {
    for problem in problems {
        printer.warn(&format!("ConfigMap {}/{}: {problem}", object.namespace(), object.name()));
    }
}
