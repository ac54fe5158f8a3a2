//! Argo CD's ConfigMaps with defaults for `serve`.

use tidegate_cluster::{Cluster, ClusterError};
use tidegate_model::{Gvk, Object};

use crate::output::Printer;

/// Returns a ConfigMap in the namespace, or `None` without a namespace or ConfigMap. If the ConfigMap can't
/// be read, warns that the settings described by `about` are ignored.
pub async fn read_config_map(
    name: &str,
    config: Option<(&dyn Cluster, &str)>,
    about: &str,
    printer: &Printer,
) -> Option<Object> {
    let (_, namespace) = config?;
    find_config_map(name, config).await.unwrap_or_else(|error| {
        printer.warn(&format!(
            "cannot read the ConfigMap {namespace}/{name}, so its settings for {about} are ignored: {error}"
        ));
        None
    })
}

/// Returns the ConfigMap, or the error from reading it.
pub async fn find_config_map(
    name: &str,
    config: Option<(&dyn Cluster, &str)>,
) -> Result<Option<Object>, ClusterError> {
    let Some((cluster, namespace)) = config else { return Ok(None) };
    cluster.get(&Gvk::new("", "v1", "ConfigMap"), namespace, name).await
}

/// Returns a key's value. An empty string counts as missing.
pub fn get_value<'o>(object: &'o Object, key: &str) -> Option<&'o str> {
    let text = object.as_value().pointer("/data")?.get(key)?.as_str()?.trim();
    (!text.is_empty()).then_some(text)
}

/// Prints the invalid values in a ConfigMap.
pub fn print_problems(object: &Object, problems: &[String], printer: &Printer) {
    for problem in problems {
        printer.warn(&format!("ConfigMap {}/{}: {problem}", object.namespace(), object.name()));
    }
}
