//! The next version of an object, from the manifest, the live object and the way it is written.

use serde_json::{Map, Value};
use tidegate_model::{Object, ObjectKey};

use super::admission::Prepared;
use super::fields::{Fields, fields_of, keep_changed, keep_present, unite};
use super::merge::{merge, remove_dropped};
use super::ownership::{Operation, Owners, Writer, explain};
use super::refuse;
use super::schema::Schema;
use crate::{ClusterError, ErrorKind};

/// How one write is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Server-side apply.
    Apply { force: bool },
    /// Client-side apply.
    Patch,
    /// Replacement, or creation when nothing is there.
    Put,
    /// Creation only.
    Create,
}

/// Where client-side apply keeps the manifest it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Keeps a manifest in itself, for the next client-side apply.
pub(crate) fn note(manifest: &mut Object) {
    let text = format!("{}\n", manifest.as_value());
    manifest.set_annotation(LAST_APPLIED, text);
}

impl Way {
    pub(crate) fn operation(self) -> Operation {
        if matches!(self, Self::Apply { .. }) { Operation::Apply } else { Operation::Update }
    }

    /// Server-side apply needs to know the name beforehand.
    pub(crate) fn may_generate_names(self) -> bool {
        !matches!(self, Self::Apply { .. })
    }

    /// What happened, as kubectl says it.
    pub(crate) fn message(self, key: &ObjectKey, created: bool, changed: bool, dry_run: bool) -> String {
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
        format!("{} {done}{suffix}", refuse::kubectl_name(key))
    }
}

pub(crate) fn compose(
    way: Way,
    prepared: Prepared,
    existing: Option<&Object>,
    writer: Writer<'_>,
) -> Result<Object, ClusterError> {
    match way {
        Way::Apply { force } => apply(prepared, existing, writer, force),
        Way::Patch => patch(&prepared, existing, writer),
        Way::Put | Way::Create => put(prepared, existing, writer),
    }
}

/// The fields of a manifest that its writer owns: all but those that name the object.
fn owned_fields(key: &ObjectKey, schema: Schema, manifest: &Object) -> Result<Fields, ClusterError> {
    let empty = Map::new();
    let fields = manifest.as_value().as_object().unwrap_or(&empty);
    let mut fields = fields_of(schema, fields).map_err(|bad| refuse::invalid(key, &bad.0))?;
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

/// Puts a manifest over an object.
fn merge_manifest(schema: Schema, object: &mut Object, manifest: &Object) {
    if let Some(fields) = manifest.as_value().as_object() {
        merge(schema, object.fields_mut(), fields);
    }
}

fn apply(
    prepared: Prepared,
    existing: Option<&Object>,
    writer: Writer<'_>,
    force: bool,
) -> Result<Object, ClusterError> {
    let Prepared { key, schema, manifest, .. } = prepared;
    let mine = owned_fields(&key, schema, &manifest)?;
    let Some(existing) = existing else {
        let mut object = manifest;
        record(&mut object, schema, Owners::default(), writer, mine);
        return Ok(object);
    };
    let mut object = existing.clone();
    let mut owners = Owners::take(&mut object);
    let disputes = owners.conflicts(schema, writer, &mine, manifest.as_value(), existing.as_value());
    if !disputes.is_empty() && !force {
        return Err(ClusterError::new(ErrorKind::Conflict, explain(&disputes)));
    }
    owners.take_over(&disputes);
    merge_manifest(schema, &mut object, &manifest);
    if let Some(old) = owners.own(writer) {
        remove_dropped(schema, object.fields_mut(), old, &mine, &owners.others(writer));
    }
    record(&mut object, schema, owners, writer, mine);
    Ok(object)
}

fn patch(prepared: &Prepared, existing: Option<&Object>, writer: Writer<'_>) -> Result<Object, ClusterError> {
    let Prepared { key, schema, .. } = prepared;
    let mut manifest = prepared.manifest.clone();
    note(&mut manifest);
    let mine = owned_fields(key, *schema, &manifest)?;
    let mut object = existing.cloned().unwrap_or_else(|| manifest.clone());
    let mut owners = Owners::default();
    if let Some(existing) = existing {
        owners = Owners::take(&mut object);
        let disputes = owners.conflicts(*schema, writer, &mine, manifest.as_value(), existing.as_value());
        owners.take_over(&disputes);
        merge_manifest(*schema, &mut object, &manifest);
        let last =
            existing.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Object>(text).ok());
        if let Some(last) = last {
            let old = owned_fields(key, *schema, &last)?;
            remove_dropped(*schema, object.fields_mut(), &old, &mine, &[]);
        }
    }
    record(&mut object, *schema, owners, writer, mine);
    Ok(object)
}

/// What a replacement keeps of `metadata`, because only the server writes it.
const KEPT: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
];
/// What a replacement keeps of `spec` when the manifest leaves it out: the server allocated it.
const ALLOCATED: [(&str, &str); 4] = [
    ("Service", "clusterIP"),
    ("PersistentVolumeClaim", "volumeName"),
    ("Pod", "nodeName"),
    ("Namespace", "finalizers"),
];

fn put(prepared: Prepared, existing: Option<&Object>, writer: Writer<'_>) -> Result<Object, ClusterError> {
    let Prepared { key, schema, manifest, .. } = prepared;
    let mut mine = owned_fields(&key, schema, &manifest)
        .or_else(|error| if existing.is_none() { Ok(Fields::new()) } else { Err(error) })?;
    let mut object = manifest;
    let mut owners = Owners::default();
    if let Some(existing) = existing {
        owners = Owners::take(&mut existing.clone());
        let disputes = owners.conflicts(schema, writer, &mine, object.as_value(), existing.as_value());
        owners.take_over(&disputes);
        for field in KEPT {
            if let Some(value) = existing.as_value().pointer(&format!("/metadata/{field}")) {
                object.metadata_mut().insert(field.to_owned(), value.clone());
            }
        }
        if let (Some(status), None) = (existing.pointer("/status"), object.pointer("/status")) {
            let status = status.clone();
            object.fields_mut().insert("status".to_owned(), status);
        }
        for (_, field) in ALLOCATED.iter().filter(|(kind, _)| *kind == key.kind) {
            let allocated = existing.pointer(&format!("/spec/{field}")).cloned();
            if let Some(value) = allocated.filter(|_| object.pointer(&format!("/spec/{field}")).is_none()) {
                object.section_mut("spec").insert((*field).to_owned(), value);
            }
        }
        // Whoever replaces an object owns what it changed, then or before.
        keep_changed(schema, &mut mine, object.as_value(), existing.as_value(), "");
        if let Some(before) = owners.own(writer) {
            let mut before = before.clone();
            keep_present(schema, &mut before, object.as_value(), "");
            unite(&mut mine, before);
        }
    }
    record(&mut object, schema, owners, writer, mine);
    Ok(object)
}

fn record(object: &mut Object, schema: Schema, mut owners: Owners, writer: Writer<'_>, mine: Fields) {
    owners.record(schema, writer, mine, object.as_value());
    owners.put(object);
}
