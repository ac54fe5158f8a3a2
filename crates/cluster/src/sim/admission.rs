//! Prepares a manifest for writing: removes server fields, and checks the name and the namespace.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey};

use super::json::{drop_nulls, encode_base64, gvk_of, is_deleting, key_of, text_field};
use super::schema::Schema;
use super::{SimState, api_error, kinds};
use crate::ClusterError;

/// Fields of `metadata` that only the server writes. A replacement preserves them.
pub(super) const SERVER_FIELDS: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
];

/// A manifest ready to write.
pub(crate) struct PreparedManifest {
    pub(crate) key: ObjectKey,
    pub(crate) schema: Schema,
    /// The manifest without server fields and nulls, and with its namespace.
    pub(crate) manifest: Object,
    /// `metadata.resourceVersion` of the manifest, a precondition for a replacement. Empty if absent.
    pub(crate) expected_revision: String,
    /// `metadata.uid` of the manifest, also a precondition. Empty if absent.
    pub(crate) expected_uid: String,
}

impl SimState {
    pub(crate) fn prepare_manifest(&self, object: &Object) -> Result<PreparedManifest, ClusterError> {
        let gvk = gvk_of(object);
        let namespaced = self.is_namespaced(&gvk)?;
        let mut manifest = object.clone();
        let expected_revision = text_field(object, &["metadata", "resourceVersion"]).to_owned();
        let expected_uid = text_field(object, &["metadata", "uid"]).to_owned();
        manifest.fields_mut().values_mut().for_each(drop_nulls);
        manifest.fields_mut().retain(|_, value| !value.is_null());
        let custom = self.kinds.is_custom(&gvk.group_kind());
        for field in SERVER_FIELDS.into_iter().chain(["managedFields", "selfLink"]) {
            if field != "generateName" || !text_field(object, &["metadata", "name"]).is_empty() {
                manifest.metadata_mut().remove(field);
            }
        }
        // Like a real server, omit empty maps and lists.
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let value = manifest.metadata_mut().get(field);
            if value.is_some_and(|value| *value == json!({}) || *value == json!([])) {
                manifest.metadata_mut().remove(field);
            }
        }
        if self.kinds.has_status_subresource(&gvk.group_kind()) {
            manifest.fields_mut().remove("status");
        }
        if !namespaced {
            manifest.set_namespace("");
        }
        if gvk.kind == "Secret" && gvk.group.is_empty() {
            encode_string_data(&mut manifest);
        }
        let key = key_of(&manifest);
        let schema = if custom { Schema::Custom } else { Schema::BuiltIn };
        if namespaced && key.namespace.is_empty() {
            return Err(api_error::bad_request("an empty namespace may not be set during creation"));
        }
        Ok(PreparedManifest { key, schema, manifest, expected_revision, expected_uid })
    }

    /// Refuses a creation in a namespace that doesn't exist or is being deleted.
    pub(crate) fn check_namespace(&self, key: &ObjectKey) -> Result<(), ClusterError> {
        if !key.namespace.is_empty() {
            let namespace = self.find(&ObjectKey::new("", "Namespace", "", &key.namespace));
            let namespace = namespace.ok_or_else(|| api_error::namespace_missing(&key.namespace))?;
            if is_deleting(&namespace.object) {
                return Err(api_error::namespace_terminating(key));
            }
        }
        if let Some(definition) = self.kinds.definition(&key.group_kind()).and_then(|key| self.find(&key))
            && definition.object.is_deleting()
        {
            return Err(api_error::forbidden(
                key,
                "create not allowed while custom resource definition is terminating",
            ));
        }
        Ok(())
    }

    /// Generates a name if the manifest has a `generateName`, and validates the object's name.
    pub(crate) fn assign_name(
        &mut self,
        prepared: &mut PreparedManifest,
        may_generate: bool,
    ) -> Result<(), ClusterError> {
        let prefix = text_field(&prepared.manifest, &["metadata", "generateName"]);
        if prepared.key.name.is_empty() && !prefix.is_empty() && may_generate {
            let name = format!("{prefix}{}", self.rng.name_suffix(5));
            prepared.manifest.set_name(name.as_str());
            prepared.key.name = name;
        }
        check_name(&prepared.key)
    }
}

/// Encodes the write-only `stringData` and moves it to `data`.
fn encode_string_data(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.fields_mut().remove("stringData") {
        let data = secret.section_mut("data");
        for (name, value) in texts {
            if let Value::String(text) = value {
                data.insert(name, encode_base64(text.as_bytes()).into());
            }
        }
    }
}

/// Maximum length of an object name (DNS subdomain).
const NAME_BYTES_MAX: usize = 253;
/// Maximum length of the name of a Namespace or a Service (DNS label).
const LABEL_BYTES_MAX: usize = 63;

fn check_name(key: &ObjectKey) -> Result<(), ClusterError> {
    let name = key.name.as_str();
    if name.is_empty() {
        return Err(api_error::invalid(key, "metadata.name: Required value: name is required"));
    }
    // Names of RBAC objects are mostly unrestricted. The server refuses only names that would break a URL
    // path.
    if key.group == "rbac.authorization.k8s.io" {
        let broken = name == "." || name == ".." || name.contains(['/', '%']);
        return if broken {
            Err(invalid_name_error(key, "may not be '.', '..', or contain '/' or '%'"))
        } else {
            Ok(())
        };
    }
    let label = matches!((key.group.as_str(), key.kind.as_str()), ("", "Namespace" | "Service"));
    let longest = if label { LABEL_BYTES_MAX } else { NAME_BYTES_MAX };
    if name.len() > longest {
        return Err(invalid_name_error(key, &format!("must be no more than {longest} bytes")));
    }
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part_ok = |part: &str| {
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part.chars().all(|c| alphanumeric(c) || c == '-')
    };
    let good = if label { part_ok(name) } else { name.split('.').all(part_ok) };
    if !good {
        return Err(invalid_name_error(
            key,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ));
    }
    Ok(())
}

fn invalid_name_error(key: &ObjectKey, reason: &str) -> ClusterError {
    api_error::invalid(key, &format!("metadata.name: Invalid value: {:?}: {reason}", key.name))
}

/// Returns true if a key identifies a Namespace.
pub(crate) fn is_namespace(key: &ObjectKey) -> bool {
    key.kind == "Namespace" && key.group.is_empty()
}

/// Returns true if objects of this kind have `metadata.generation`.
pub(crate) fn has_generation(key: &ObjectKey) -> bool {
    match key.group.as_str() {
        "" => matches!(key.kind.as_str(), "Pod" | "ReplicationController"),
        "rbac.authorization.k8s.io"
        | "storage.k8s.io"
        | "scheduling.k8s.io"
        | "coordination.k8s.io"
        | "events.k8s.io" => false,
        "autoscaling" | "discovery.k8s.io" | "apiregistration.k8s.io" => false,
        _ => kinds::is_definition(key) || key.kind != "ControllerRevision",
    }
}
