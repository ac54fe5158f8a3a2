//! Dry runs for an object that must be recreated. They predict whether the server would accept the object,
//! and the resulting object.
//!
//! Servers report a name conflict only after all other checks. A dry run of the creation therefore shows
//! whether the server would accept the object, but doesn't return the result. To predict it, another dry run
//! creates the same object under another name.

use serde_json::Value;
use tidegate_cluster::{ApplyRequest, ApplyResult, Cluster, ClusterError, ErrorKind, WriteMode};
use tidegate_model::Object;

const NAME_SUFFIX: &str = "-tidegate-check";
/// Maximum length of a name in characters. CronJobs have the lowest limit of all kinds.
const NAME_CHARS_MAX: usize = 52;

/// The server's prediction for an object that must be recreated.
#[derive(Debug)]
pub(super) struct RecreationPrediction {
    /// Resulting object, if predictable.
    pub object: Option<Object>,
    pub message: String,
    pub warnings: Vec<String>,
    /// True if the object would be applied on the client side, because the server doesn't support server-side
    /// apply for its kind.
    pub is_client_side: bool,
}

impl From<ApplyResult> for RecreationPrediction {
    fn from(applied: ApplyResult) -> Self {
        let ApplyResult { object, message, warnings, .. } = applied;
        Self { object: Some(object), message, warnings, is_client_side: false }
    }
}

/// Sends a dry run that creates an object in place of the existing one, in the write mode of the request.
/// Doesn't write to the cluster.
pub(super) async fn dry_run_recreation(
    cluster: &dyn Cluster,
    request: ApplyRequest,
) -> Result<RecreationPrediction, ClusterError> {
    let key = request.object.key();
    match cluster.apply(creation_dry_run(request.clone())).await {
        // The object has been deleted in the meantime, so the creation doesn't conflict.
        Ok(applied) => return Ok(applied.into()),
        Err(error) if error.kind == ErrorKind::AlreadyExists => {}
        Err(refused) => return Err(refused),
    }
    let message = format!("{key} can be recreated");
    let unknown = RecreationPrediction { object: None, message, warnings: Vec::new(), is_client_side: false };
    Ok(dry_run_renamed(cluster, request).await?.unwrap_or(unknown))
}

/// Predicts the object that would be created under a free name, or returns `None` if that is impossible.
pub(super) async fn predict_as_new(cluster: &dyn Cluster, request: ApplyRequest) -> Option<Object> {
    let request = ApplyRequest { mode: WriteMode::Create { client_side: false }, ..request };
    dry_run_renamed(cluster, request).await.ok().flatten()?.object
}

/// Sends the dry run under another name, or returns `None` if the object can't be renamed. The server may
/// reject the other name even if it would accept the original object.
async fn dry_run_renamed(
    cluster: &dyn Cluster,
    request: ApplyRequest,
) -> Result<Option<RecreationPrediction>, ClusterError> {
    let name = request.object.name().to_owned();
    let Some(other) = similar_name(&request.object) else { return Ok(None) };
    let mut request = as_dry_run(request);
    request.object.set_name(other.clone());
    remove_unique_fields(&mut request.object);
    match cluster.apply(request.clone()).await {
        Ok(mut applied) => {
            applied.object = restore_name(applied.object, &other, &name);
            for text in applied.warnings.iter_mut().chain([&mut applied.message]) {
                *text = text.replace(&other, &name);
            }
            Ok(Some(applied.into()))
        }
        // The server would create the object, but rejects an apply of the manifest, for example because of a
        // duplicate key.
        Err(refused)
            if matches!(request.mode, WriteMode::Apply { .. })
                && cluster.apply(creation_dry_run(request)).await.is_ok() =>
        {
            let message = refused.message.replace(&other, &name);
            Err(ClusterError { message, ..refused })
        }
        Err(_) => Ok(None),
    }
}

/// Converts the request to a dry run of the creation only.
fn creation_dry_run(request: ApplyRequest) -> ApplyRequest {
    let client_side = match request.mode {
        WriteMode::Create { client_side } => client_side,
        mode => mode == WriteMode::ClientSideApply,
    };
    let mut request = as_dry_run(request);
    request.mode = WriteMode::Create { client_side };
    remove_unique_fields(&mut request.object);
    request
}

fn as_dry_run(request: ApplyRequest) -> ApplyRequest {
    ApplyRequest { dry_run: true, take_over: Vec::new(), resource_version: String::new(), ..request }
}

/// Restores the object's own name in the prediction, including in labels set by the server.
fn restore_name(object: Object, other: &str, name: &str) -> Object {
    fn replace_name(value: &mut Value, other: &str, name: &str) {
        match value {
            Value::String(text) if text == other => name.clone_into(text),
            Value::Array(items) => items.iter_mut().for_each(|item| replace_name(item, other, name)),
            Value::Object(fields) => fields.values_mut().for_each(|field| replace_name(field, other, name)),
            _ => {}
        }
    }
    let mut value = object.as_value().clone();
    replace_name(&mut value, other, name);
    Object::try_from(value).unwrap_or(object)
}

/// Returns a similar name for an object, or `None` for kinds with meaningful names.
fn similar_name(object: &Object) -> Option<String> {
    if matches!(object.kind(), "CustomResourceDefinition" | "APIService") {
        return None;
    }
    let kept: String = object.name().chars().take(NAME_CHARS_MAX - NAME_SUFFIX.len()).collect();
    Some(format!("{}{NAME_SUFFIX}", kept.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())))
}

/// Removes fields that must be unique in the cluster: the old object still uses their values.
fn remove_unique_fields(object: &mut Object) {
    if !(object.kind() == "Service" && object.group().is_empty() && object.pointer("/spec").is_some()) {
        return;
    }
    let spec = object.section_mut("spec");
    // Keep `None`, so that a headless Service remains headless.
    if spec.get("clusterIP").is_some_and(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    if let Some(ports) = spec.get_mut("ports").and_then(|ports| ports.as_array_mut()) {
        for port in ports.iter_mut().filter_map(|port| port.as_object_mut()) {
            port.remove("nodePort");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str, name: &str, spec: Value) -> Object {
        let spec = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
        Object::try_from(spec).unwrap()
    }

    #[test]
    fn similar_names_are_valid_where_the_name_was() {
        let long = "backup-of-the-orders-database-before-the-great-migration-of-2026";
        for (kind, name, other) in [
            ("Job", "migrate", Some("migrate-tidegate-check")),
            ("CronJob", long, Some("backup-of-the-orders-database-before-tidegate-check")),
            ("ClusterRole", "system:x", Some("system:x-tidegate-check")),
            ("CustomResourceDefinition", "zars.example.org", None),
        ] {
            let name = similar_name(&object(kind, name, json!({})));
            assert_eq!(name.as_deref(), other, "{kind}");
            assert!(name.is_none_or(|name| name.len() <= NAME_CHARS_MAX));
        }
    }

    #[test]
    fn addresses_and_node_ports_are_not_requested_twice() {
        let ports = json!([{"port": 80, "nodePort": 30_080}]);
        let given =
            json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": ports, "type": "NodePort"});
        for (kind, spec, left) in [
            ("Service", given.clone(), json!({"ports": [{"port": 80}], "type": "NodePort"})),
            ("Service", json!({"clusterIP": "None"}), json!({"clusterIP": "None"})),
            ("Other", given.clone(), given),
        ] {
            let mut object = object(kind, "a", spec);
            remove_unique_fields(&mut object);
            assert_eq!(object.pointer("/spec"), Some(&left), "{kind}");
        }
    }
}
