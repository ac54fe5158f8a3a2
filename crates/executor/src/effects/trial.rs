//! Whether the server would take an object if the one of that name were not there, and what it would make of it.
//!
//! The first is answered by a dry run of its creation: that something has its name is what a server finds last, when all
//! else is in order. It says nothing of the second, for which the server is asked about the same object under another name.

use serde_json::Value;
use tidegate_cluster::{Applied, ApplyRequest, Cluster, ClusterError, ErrorKind, WriteMode};
use tidegate_model::Object;

const SUFFIX: &str = "-tidegate-check";
/// Names of CronJobs are the shortest: 52 characters.
const NAME_CHARS_MAX: usize = 52;

/// What the server says of an object that is to be made anew.
#[derive(Debug)]
pub(super) struct Tried {
    /// As the server would make it, where that can be known.
    pub object: Option<Object>,
    pub message: String,
    pub warnings: Vec<String>,
}

impl From<Applied> for Tried {
    fn from(applied: Applied) -> Self {
        let Applied { object, message, warnings, .. } = applied;
        Self { object: Some(object), message, warnings }
    }
}

/// Tries to create an object in the place of the one of its name, in the way of the request. Writes nothing.
pub(super) async fn anew(cluster: &dyn Cluster, request: ApplyRequest) -> Result<Tried, ClusterError> {
    let key = request.object.key();
    match cluster.apply(creation(request.clone())).await {
        // What was in the way has gone.
        Ok(applied) => return Ok(applied.into()),
        Err(error) if error.kind == ErrorKind::AlreadyExists => {}
        Err(refused) => return Err(refused),
    }
    let unknown = Tried { object: None, message: format!("{key} can be created anew"), warnings: Vec::new() };
    Ok(alike(cluster, request).await?.unwrap_or(unknown))
}

/// What the server would make of an object if there were none of its name; `None` where that cannot be known.
pub(super) async fn imagined(cluster: &dyn Cluster, request: ApplyRequest) -> Option<Object> {
    let request = ApplyRequest { mode: WriteMode::Create { client_side: false }, ..request };
    alike(cluster, request).await.ok().flatten()?.object
}

/// The same under another name; `None` where that may not be: a server may refuse just the name.
async fn alike(cluster: &dyn Cluster, request: ApplyRequest) -> Result<Option<Tried>, ClusterError> {
    let name = request.object.name().to_owned();
    let Some(other) = other_name(&request.object) else { return Ok(None) };
    let mut request = tried(request);
    request.object.set_name(other.clone());
    release(&mut request.object);
    match cluster.apply(request.clone()).await {
        Ok(mut applied) => {
            applied.object = rename(applied.object, &other, &name);
            for words in applied.warnings.iter_mut().chain([&mut applied.message]) {
                *words = words.replace(&other, &name);
            }
            Ok(Some(applied.into()))
        }
        // A server that would create it has something against the manifest as one to apply, such as a key given twice.
        Err(refused)
            if matches!(request.mode, WriteMode::Apply { .. })
                && cluster.apply(creation(request)).await.is_ok() =>
        {
            Err(ClusterError::new(refused.kind, refused.message.replace(&other, &name)))
        }
        Err(_) => Ok(None),
    }
}

/// A dry run of the plain creation.
fn creation(request: ApplyRequest) -> ApplyRequest {
    let client_side = match request.mode {
        WriteMode::Create { client_side } => client_side,
        mode => mode == WriteMode::ClientSideApply,
    };
    let mut request = tried(request);
    request.mode = WriteMode::Create { client_side };
    release(&mut request.object);
    request
}

fn tried(request: ApplyRequest) -> ApplyRequest {
    ApplyRequest { dry_run: true, take_over: None, resource_version: String::new(), ..request }
}

/// The object as it would be under its own name, which the server writes into labels too.
fn rename(object: Object, other: &str, name: &str) -> Object {
    fn replace(value: &mut Value, other: &str, name: &str) {
        match value {
            Value::String(text) if text == other => name.clone_into(text),
            Value::Array(items) => items.iter_mut().for_each(|item| replace(item, other, name)),
            Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, other, name)),
            _ => {}
        }
    }
    let mut value = object.as_value().clone();
    replace(&mut value, other, name);
    Object::try_from(value).unwrap_or(object)
}

/// `None` for objects whose name says what they are.
fn other_name(object: &Object) -> Option<String> {
    if matches!(object.kind(), "CustomResourceDefinition" | "APIService") {
        return None;
    }
    let kept: String = object.name().chars().take(NAME_CHARS_MAX - SUFFIX.len()).collect();
    Some(format!("{}{SUFFIX}", kept.trim_end_matches(|c: char| !c.is_ascii_alphanumeric())))
}

/// Leaves out what only one object of the cluster may have: the old one has it.
fn release(object: &mut Object) {
    if !(object.kind() == "Service" && object.group().is_empty() && object.pointer("/spec").is_some()) {
        return;
    }
    let spec = object.section_mut("spec");
    // A Service without an address of its own stays one.
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
    fn other_names_are_valid_where_the_name_was() {
        let long = "backup-of-the-orders-database-before-the-great-migration-of-2026";
        for (kind, name, other) in [
            ("Job", "migrate", Some("migrate-tidegate-check")),
            ("CronJob", long, Some("backup-of-the-orders-database-before-tidegate-check")),
            ("ClusterRole", "system:x", Some("system:x-tidegate-check")),
            ("CustomResourceDefinition", "zars.example.org", None),
        ] {
            let name = other_name(&object(kind, name, json!({})));
            assert_eq!(name.as_deref(), other, "{kind}");
            assert!(name.is_none_or(|name| name.len() <= NAME_CHARS_MAX));
        }
    }

    #[test]
    fn addresses_and_node_ports_are_not_asked_for_twice() {
        let ports = json!([{"port": 80, "nodePort": 30_080}]);
        let given =
            json!({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": ports, "type": "NodePort"});
        for (kind, spec, left) in [
            ("Service", given.clone(), json!({"ports": [{"port": 80}], "type": "NodePort"})),
            ("Service", json!({"clusterIP": "None"}), json!({"clusterIP": "None"})),
            ("Other", given.clone(), given),
        ] {
            let mut object = object(kind, "a", spec);
            release(&mut object);
            assert_eq!(object.pointer("/spec"), Some(&left), "{kind}");
        }
    }
}
