//! Composition of an object's next version from the manifest, the live object and the kind of write.

use serde_json::{Map, Value};
use tidegate_model::{Object, ObjectKey};

use super::admission::{PreparedManifest, SERVER_FIELDS};
use super::api_error;
use super::fields::{Fields, add_fields, fields_of, format_path, repeated, retain_changed, retain_present};
use super::merge::{merge, remove_dropped};
use super::ownership::{FieldOwners, Operation, Writer, format_conflicts};
use super::schema::Schema;
use crate::{ClusterError, ErrorKind};

/// Kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    /// Server-side apply.
    Apply { force: bool },
    /// Client-side apply.
    Patch,
    /// Replacement, or creation if the object does not exist.
    Put,
    /// Creation only.
    Create,
}

/// Annotation with the manifest last applied by client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Stores a manifest in the manifest's own annotation, for the next client-side apply.
pub(crate) fn store_last_applied(manifest: &mut Object) {
    let text = format!("{}\n", manifest.as_value());
    manifest.set_annotation(LAST_APPLIED, text);
}

impl WriteKind {
    pub(crate) fn operation(self) -> Operation {
        if matches!(self, Self::Apply { .. }) { Operation::Apply } else { Operation::Update }
    }

    /// Returns false for server-side apply, which needs to know the name in advance.
    pub(crate) fn can_generate_names(self) -> bool {
        !matches!(self, Self::Apply { .. })
    }

    /// Returns the result message in kubectl's format.
    pub(crate) fn result_message(
        self,
        key: &ObjectKey,
        created: bool,
        changed: bool,
        dry_run: bool,
    ) -> String {
        let done = match self {
            Self::Apply { .. } => "serverside-applied",
            _ if created => "created",
            Self::Put | Self::Create => "replaced",
            Self::Patch if changed => "configured",
            Self::Patch => "unchanged",
        };
        let suffix = if dry_run { " (server dry run)" } else { "" };
        let holds_others = matches!(key.kind.as_str(), "Namespace" | "CustomResourceDefinition");
        if done == "replaced" && holds_others {
            return format!("{}/{} updated{suffix}", key.kind, key.name);
        }
        format!("{} {done}{suffix}", api_error::kubectl_name(key))
    }
}

pub(crate) fn compose_object(
    write_kind: WriteKind,
    prepared: PreparedManifest,
    existing: Option<&Object>,
    writer: Writer<'_>,
) -> Result<Object, ClusterError> {
    match write_kind {
        WriteKind::Apply { force } => compose_apply(prepared, existing, writer, force),
        WriteKind::Patch => compose_patch(&prepared, existing, writer),
        WriteKind::Put | WriteKind::Create => compose_put(prepared, existing, writer),
    }
}

/// Returns the fields in a manifest that its writer owns: all fields except those that identify the object.
fn owned_fields(key: &ObjectKey, schema: Schema, manifest: &Object) -> Result<Fields, ClusterError> {
    let empty = Map::new();
    let fields = manifest.as_value().as_object().unwrap_or(&empty);
    let mut fields = fields_of(schema, fields).map_err(|bad| api_error::invalid(key, &bad.0))?;
    fields.remove("f:apiVersion");
    fields.remove("f:kind");
    if let Some(Value::Object(metadata)) = fields.get_mut("f:metadata") {
        metadata.remove("f:name");
        metadata.remove("f:namespace");
        metadata.remove("f:generateName");
        if metadata.is_empty() {
            fields.remove("f:metadata");
        }
    }
    Ok(fields)
}

/// Merges a manifest into an object.
fn merge_manifest(schema: Schema, object: &mut Object, manifest: &Object) {
    if let Some(fields) = manifest.as_value().as_object() {
        merge(schema, object.fields_mut(), fields);
    }
}

fn compose_apply(
    prepared: PreparedManifest,
    existing: Option<&Object>,
    writer: Writer<'_>,
    force: bool,
) -> Result<Object, ClusterError> {
    let PreparedManifest { key, schema, manifest, .. } = prepared;
    let mine = owned_fields(&key, schema, &manifest)?;
    if let Some((item, list)) = repeated(&mine).as_deref().and_then(<[String]>::split_last) {
        let item = format_path(std::slice::from_ref(item));
        return Err(api_error::repeated(&key, &manifest.gvk(), &format_path(list), &item));
    }
    let Some(existing) = existing else {
        let mut object = manifest;
        record_ownership(&mut object, schema, FieldOwners::default(), writer, mine);
        return Ok(object);
    };
    let mut object = existing.clone();
    let mut owners = FieldOwners::take_from(&mut object);
    let disputes = owners.find_conflicts(schema, writer, &mine, manifest.as_value(), existing.as_value());
    if !disputes.is_empty() && !force {
        return Err(ClusterError::new(ErrorKind::Conflict, format_conflicts(&disputes)));
    }
    owners.take_over(&disputes);
    merge_manifest(schema, &mut object, &manifest);
    if let Some(old) = owners.own_fields(writer) {
        remove_dropped(schema, object.fields_mut(), old, &mine, &owners.other_fields(writer));
    }
    record_ownership(&mut object, schema, owners, writer, mine);
    Ok(object)
}

fn compose_patch(
    prepared: &PreparedManifest,
    existing: Option<&Object>,
    writer: Writer<'_>,
) -> Result<Object, ClusterError> {
    let PreparedManifest { key, schema, .. } = prepared;
    let mut manifest = prepared.manifest.clone();
    store_last_applied(&mut manifest);
    let mine = owned_fields(key, *schema, &manifest)?;
    let mut object = existing.cloned().unwrap_or_else(|| manifest.clone());
    let mut owners = FieldOwners::default();
    if let Some(existing) = existing {
        owners = FieldOwners::take_from(&mut object);
        let disputes =
            owners.find_conflicts(*schema, writer, &mine, manifest.as_value(), existing.as_value());
        owners.take_over(&disputes);
        merge_manifest(*schema, &mut object, &manifest);
        let last =
            existing.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Object>(text).ok());
        if let Some(last) = last {
            let old = owned_fields(key, *schema, &last)?;
            remove_dropped(*schema, object.fields_mut(), &old, &mine, &[]);
        }
    }
    record_ownership(&mut object, *schema, owners, writer, mine);
    Ok(object)
}

/// Fields of `spec` that a replacement preserves if the manifest omits them, because the server allocated
/// their values.
const ALLOCATED_SPEC_FIELDS: [(&str, &str); 4] = [
    ("Service", "clusterIP"),
    ("PersistentVolumeClaim", "volumeName"),
    ("Pod", "nodeName"),
    ("Namespace", "finalizers"),
];

fn compose_put(
    prepared: PreparedManifest,
    existing: Option<&Object>,
    writer: Writer<'_>,
) -> Result<Object, ClusterError> {
    let PreparedManifest { key, schema, manifest, .. } = prepared;
    let mut mine = owned_fields(&key, schema, &manifest)
        .or_else(|error| if existing.is_none() { Ok(Fields::new()) } else { Err(error) })?;
    let mut object = manifest;
    let mut owners = FieldOwners::default();
    if let Some(existing) = existing {
        owners = FieldOwners::take_from(&mut existing.clone());
        let disputes = owners.find_conflicts(schema, writer, &mine, object.as_value(), existing.as_value());
        owners.take_over(&disputes);
        for field in SERVER_FIELDS {
            if let Some(value) = existing.as_value().pointer(&format!("/metadata/{field}")) {
                object.metadata_mut().insert(field.to_owned(), value.clone());
            }
        }
        if let (Some(status), None) = (existing.pointer("/status"), object.pointer("/status")) {
            let status = status.clone();
            object.fields_mut().insert("status".to_owned(), status);
        }
        for (_, field) in ALLOCATED_SPEC_FIELDS.iter().filter(|(kind, _)| *kind == key.kind) {
            let allocated = existing.pointer(&format!("/spec/{field}")).cloned();
            if let Some(value) = allocated.filter(|_| object.pointer(&format!("/spec/{field}")).is_none()) {
                object.section_mut("spec").insert((*field).to_owned(), value);
            }
        }
        // A manager that replaces an object owns the fields that this replacement or its earlier writes have
        // changed.
        retain_changed(schema, &mut mine, object.as_value(), existing.as_value(), "");
        if let Some(before) = owners.own_fields(writer) {
            let mut before = before.clone();
            retain_present(schema, &mut before, object.as_value(), "");
            add_fields(&mut mine, before);
        }
    }
    record_ownership(&mut object, schema, owners, writer, mine);
    Ok(object)
}

fn record_ownership(
    object: &mut Object,
    schema: Schema,
    mut owners: FieldOwners,
    writer: Writer<'_>,
    mine: Fields,
) {
    owners.record(schema, writer, mine, object.as_value());
    owners.store_in(object);
}
