//! What a manifest must be before it is compared with anything: cleaned, named, in a namespace that takes it.

use serde_json::{Value, json};
use tidegate_model::{Object, ObjectKey};

use super::json::{base64, drop_nulls, gvk_of, is_deleting, key_of, text};
use super::schema::Schema;
use super::{SimState, kinds, refuse};
use crate::ClusterError;

/// Fields of `metadata` that only the server writes.
const SERVER_FIELDS: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// A manifest ready to be written.
pub(crate) struct Prepared {
    pub(crate) key: ObjectKey,
    pub(crate) schema: Schema,
    /// Without what only the server writes, without nulls, in its namespace.
    pub(crate) manifest: Object,
    /// `metadata.resourceVersion` of the manifest, empty when none: a precondition of a replacement.
    pub(crate) expected_revision: String,
    /// `metadata.uid` of the manifest, empty when none: a precondition too.
    pub(crate) expected_uid: String,
}

impl SimState {
    pub(crate) fn prepare(&self, object: &Object) -> Result<Prepared, ClusterError> {
        let gvk = gvk_of(object);
        let namespaced = self.namespaced(&gvk)?;
        let mut manifest = object.clone();
        let expected_revision = text(object, &["metadata", "resourceVersion"]).to_owned();
        let expected_uid = text(object, &["metadata", "uid"]).to_owned();
        manifest.fields_mut().values_mut().for_each(drop_nulls);
        manifest.fields_mut().retain(|_, value| !value.is_null());
        let custom = self.kinds.is_custom(&gvk.group_kind());
        for field in SERVER_FIELDS {
            if field != "generateName" || !text(object, &["metadata", "name"]).is_empty() {
                manifest.metadata_mut().remove(field);
            }
        }
        // Empty ones are not written by a server either.
        for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
            let value = manifest.metadata_mut().get(field);
            if value.is_some_and(|value| *value == json!({}) || *value == json!([])) {
                manifest.metadata_mut().remove(field);
            }
        }
        if self.kinds.status_is_apart(&gvk.group_kind()) {
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
            return Err(refuse::bad_request("an empty namespace may not be set during creation"));
        }
        Ok(Prepared { key, schema, manifest, expected_revision, expected_uid })
    }

    /// Refuses a creation in a namespace that is not there, or on its way out.
    pub(crate) fn check_namespace(&self, key: &ObjectKey) -> Result<(), ClusterError> {
        if !key.namespace.is_empty() {
            let namespace = self.find(&ObjectKey::new("", "Namespace", "", &key.namespace));
            let namespace = namespace.ok_or_else(|| refuse::namespace_missing(&key.namespace))?;
            if is_deleting(&namespace.object) {
                return Err(refuse::namespace_terminating(key));
            }
        }
        if let Some(definition) = self.kinds.definition(&key.group_kind()).and_then(|key| self.find(&key))
            && definition.object.is_deleting()
        {
            return Err(refuse::forbidden(
                key,
                "create not allowed while custom resource definition is terminating",
            ));
        }
        Ok(())
    }

    /// Completes a `generateName`, and checks that the object has a proper name.
    pub(crate) fn name(&mut self, prepared: &mut Prepared, may_generate: bool) -> Result<(), ClusterError> {
        let prefix = text(&prepared.manifest, &["metadata", "generateName"]);
        if prepared.key.name.is_empty() && !prefix.is_empty() && may_generate {
            let name = format!("{prefix}{}", self.rng.suffix(5));
            prepared.manifest.set_name(name.as_str());
            prepared.key.name = name;
        }
        check_name(&prepared.key)
    }
}

/// `stringData` is write-only: the server keeps it encoded in `data`.
fn encode_string_data(secret: &mut Object) {
    if let Some(Value::Object(texts)) = secret.fields_mut().remove("stringData") {
        let data = secret.section_mut("data");
        for (name, value) in texts {
            if let Value::String(text) = value {
                data.insert(name, base64(text.as_bytes()).into());
            }
        }
    }
}

/// The longest name of an object: that of a DNS subdomain.
const NAME_BYTES_MAX: usize = 253;
/// The longest name of a Namespace or a Service: that of a DNS label.
const LABEL_BYTES_MAX: usize = 63;

fn check_name(key: &ObjectKey) -> Result<(), ClusterError> {
    let name = key.name.as_str();
    if name.is_empty() {
        return Err(refuse::invalid(key, "metadata.name: Required value: name is required"));
    }
    // Access rules have free names: only what would break a URL path is refused.
    if key.group == "rbac.authorization.k8s.io" {
        let broken = name == "." || name == ".." || name.contains(['/', '%']);
        return if broken {
            Err(wrong_name(key, "may not be '.', '..', or contain '/' or '%'"))
        } else {
            Ok(())
        };
    }
    let label = matches!((key.group.as_str(), key.kind.as_str()), ("", "Namespace" | "Service"));
    let longest = if label { LABEL_BYTES_MAX } else { NAME_BYTES_MAX };
    if name.len() > longest {
        return Err(wrong_name(key, &format!("must be no more than {longest} bytes")));
    }
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part_ok = |part: &str| {
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part.chars().all(|c| alphanumeric(c) || c == '-')
    };
    let good = if label { part_ok(name) } else { name.split('.').all(part_ok) };
    if !good {
        return Err(wrong_name(
            key,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        ));
    }
    Ok(())
}

fn wrong_name(key: &ObjectKey, why: &str) -> ClusterError {
    refuse::invalid(key, &format!("metadata.name: Invalid value: {:?}: {why}", key.name))
}

/// Whether a key names an object whose `spec` or `status` matter to the cluster itself.
pub(crate) fn is_namespace(key: &ObjectKey) -> bool {
    key.kind == "Namespace" && key.group.is_empty()
}

/// Whether an object of this kind counts its versions in `metadata.generation`.
pub(crate) fn counts_generations(key: &ObjectKey) -> bool {
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
