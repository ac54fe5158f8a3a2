//! Field ownership of objects: `metadata.managedFields`.
//!
//! In stored objects, each manager's entry is JSON text. A map would account for most of a small object's
//! memory, and only writes need it.

use serde_json::{Value, json};
use tidegate_model::{FieldHandover, Object, can_be_taken_over};

use super::fields::{Fields, add_fields, conflicting_paths, format_path, remove_path, retain_present};
use super::schema::Schema;

const MANAGED_FIELDS: &str = "managedFields";
const FIELDS_V1: &str = "fieldsV1";

/// Type of a write: `Apply` is server-side apply, and `Update` is any other write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// All ownership entries of an object, decoded to maps: one entry per manager and type of write.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FieldOwners(Vec<Value>);

/// The manager that is writing, and the time of the write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    pub(crate) api_version: &'a str,
    pub(crate) now: &'a str,
}

fn entry_text<'a>(share: &'a Value, field: &str) -> &'a str {
    share.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn entry_fields(share: &Value) -> Option<&Fields> {
    share.get(FIELDS_V1).and_then(Value::as_object)
}

fn entry_fields_mut(share: &mut Value) -> Option<&mut Fields> {
    share.get_mut(FIELDS_V1).and_then(Value::as_object_mut)
}

/// Converts the fields in an entry to JSON text.
fn encode_fields(share: &mut Value) {
    if let Some(fields) = share.get_mut(FIELDS_V1).filter(|fields| fields.is_object()) {
        *fields = fields.to_string().into();
    }
}

/// Converts the fields in an entry to a map.
fn decode_fields(share: &mut Value) {
    let Some(fields) = share.get_mut(FIELDS_V1) else { return };
    if let Some(map) = fields.as_str().and_then(|text| serde_json::from_str(text).ok()) {
        *fields = map;
    }
}

/// Returns the object in the form that clients receive, with decoded field maps.
pub(crate) fn with_decoded_fields(mut object: Object) -> Object {
    if let Some(Value::Array(shares)) = object.metadata_mut().get_mut(MANAGED_FIELDS) {
        shares.iter_mut().for_each(decode_fields);
    }
    object
}

impl Writer<'_> {
    fn is_owner(&self, share: &Value) -> bool {
        entry_text(share, "manager") == self.manager
            && entry_text(share, "operation") == self.operation.as_str()
    }

    /// Returns this writer's entry with the given fields.
    fn new_entry(&self, fields: Fields) -> Value {
        json!({
            "manager": self.manager,
            "operation": self.operation.as_str(),
            "apiVersion": self.api_version,
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": Value::Object(fields),
        })
    }

    /// Returns true if an entry belongs to another writer. The same manager counts as another writer if its
    /// type of write differs.
    fn is_other_writer(&self, share: &Value) -> bool {
        !self.is_owner(share)
    }
}

impl FieldOwners {
    /// Removes the entries from an object and returns them.
    pub(crate) fn take_from(object: &mut Object) -> Self {
        match object.metadata_mut().remove(MANAGED_FIELDS) {
            Some(Value::Array(mut shares)) => {
                shares.iter_mut().for_each(decode_fields);
                Self(shares)
            }
            _ => Self::default(),
        }
    }

    /// Stores the entries in an object.
    pub(crate) fn store_in(mut self, object: &mut Object) {
        if !self.0.is_empty() {
            self.0.iter_mut().for_each(encode_fields);
            object.metadata_mut().insert(MANAGED_FIELDS.to_owned(), self.0.into());
        }
    }

    /// Returns the fields that this writer currently owns.
    pub(crate) fn own_fields(&self, writer: Writer<'_>) -> Option<&Fields> {
        self.0.iter().find(|share| writer.is_owner(share)).and_then(entry_fields)
    }

    /// Returns the fields that all other writers own.
    pub(crate) fn other_fields(&self, writer: Writer<'_>) -> Vec<&Fields> {
        self.0.iter().filter(|share| writer.is_other_writer(share)).filter_map(entry_fields).collect()
    }

    /// Returns the fields that other managers own with a different value.
    pub(crate) fn find_conflicts(
        &self,
        schema: Schema,
        writer: Writer<'_>,
        mine: &Fields,
        applied: &Value,
        live: &Value,
    ) -> Vec<FieldConflict> {
        let disputes = self.0.iter().filter(|share| writer.is_other_writer(share)).filter_map(|share| {
            let paths = conflicting_paths(schema, mine, entry_fields(share)?, applied, live);
            let manager = entry_text(share, "manager").to_owned();
            let updates = entry_text(share, "operation") == Operation::Update.as_str();
            let api_version = updates.then(|| entry_text(share, "apiVersion").to_owned());
            (!paths.is_empty()).then_some(FieldConflict { manager, api_version, paths })
        });
        disputes.collect()
    }

    /// Removes disputed fields from their owners.
    pub(crate) fn take_over(&mut self, disputes: &[FieldConflict]) {
        for dispute in disputes {
            let shares = self.0.iter_mut().filter(|share| dispute.is_with_owner(share));
            for fields in shares.filter_map(entry_fields_mut) {
                dispute.paths.iter().for_each(|path| remove_path(fields, path));
            }
        }
    }

    /// Moves fields from the given managers to the writer, except fields that cannot be taken over. Returns
    /// true if any field was moved.
    pub(crate) fn adopt(&mut self, object: &Object, writer: Writer<'_>, managers: &[String]) -> bool {
        let mut taken = Vec::new();
        for share in &mut self.0 {
            let Some(manager) = managers.iter().find(|manager| can_be_taken_over(share, manager)) else {
                continue;
            };
            let Some(theirs) = entry_fields_mut(share) else { continue };
            let parts = FieldHandover::split(object, manager, theirs);
            if !parts.transferred.is_empty() {
                *theirs = parts.retained;
                taken.push(parts.transferred);
            }
        }
        if taken.is_empty() {
            return false;
        }
        self.0.retain(|share| {
            writer.is_owner(share) || entry_fields(share).is_some_and(|fields| !fields.is_empty())
        });
        for taken in taken {
            match self.0.iter_mut().find(|share| writer.is_owner(share)).and_then(entry_fields_mut) {
                Some(mine) => add_fields(mine, taken),
                None => self.0.push(writer.new_entry(taken)),
            }
        }
        true
    }

    /// Records the new fields of the writer. Fields that the object no longer has lose their owner.
    pub(crate) fn record(&mut self, schema: Schema, writer: Writer<'_>, mine: Fields, object: &Value) {
        for share in self.0.iter_mut().filter(|share| writer.is_other_writer(share)) {
            let Some(fields) = entry_fields_mut(share) else { continue };
            retain_present(schema, fields, object, "");
        }
        self.0.retain(|share| {
            writer.is_owner(share) || entry_fields(share).is_some_and(|fields| !fields.is_empty())
        });
        if mine.is_empty() && writer.operation == Operation::Update {
            return self.0.retain(|share| writer.is_other_writer(share));
        }
        let known = self.0.iter_mut().find(|share| writer.is_owner(share));
        if known.as_ref().is_some_and(|share| {
            entry_fields(share) == Some(&mine) && entry_text(share, "apiVersion") == writer.api_version
        }) {
            return;
        }
        let share = writer.new_entry(mine);
        match known {
            Some(known) => *known = share,
            None => self.0.push(share),
        }
    }
}

/// Fields that another manager owns with a different value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldConflict {
    manager: String,
    /// API version used by the other manager, which may differ from this write's version. `None` for
    /// server-side apply.
    api_version: Option<String>,
    paths: Vec<Vec<String>>,
}

impl FieldConflict {
    fn is_with_owner(&self, share: &Value) -> bool {
        let updates = entry_text(share, "operation") == Operation::Update.as_str();
        entry_text(share, "manager") == self.manager && updates == self.api_version.is_some()
    }
}

/// Formats the conflicts like kubectl.
pub(crate) fn format_conflicts(disputes: &[FieldConflict]) -> String {
    let count: usize = disputes.iter().map(|dispute| dispute.paths.len()).sum();
    let parts: Vec<String> = disputes
        .iter()
        .map(|dispute| {
            let paths: Vec<String> = dispute.paths.iter().map(|path| format_path(path)).collect();
            let word = if paths.len() == 1 { "conflict" } else { "conflicts" };
            let using = dispute.api_version.as_ref().map(|version| format!(" using {version}"));
            format!("{word} with {:?}{}: {}", dispute.manager, using.unwrap_or_default(), paths.join(", "))
        })
        .collect();
    let word = if count == 1 { "conflict" } else { "conflicts" };
    format!("Apply failed with {count} {word}: {}", parts.join("; "))
}
