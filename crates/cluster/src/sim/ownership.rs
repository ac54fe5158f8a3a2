//! Who owns which fields of an object: `metadata.managedFields`.
//!
//! In the objects of the cluster each share is JSON text: as a map it would be most of what a small object takes in memory,
//! and only a write asks for it.

use serde_json::{Value, json};
use tidegate_model::{HandOver, Object};

use super::fields::{Fields, describe, disputed, drop_path, keep_present, unite};
use super::schema::Schema;

const MANAGED: &str = "managedFields";
const FIELDS: &str = "fieldsV1";

/// How a manager writes: `Apply` is server-side apply, `Update` everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// All shares of an object, spelled out: one entry for each manager and way of writing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners(Vec<Value>);

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    pub(crate) api_version: &'a str,
    pub(crate) now: &'a str,
}

fn text<'a>(share: &'a Value, field: &str) -> &'a str {
    share.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn fields(share: &Value) -> Option<&Fields> {
    share.get(FIELDS).and_then(Value::as_object)
}

fn fields_mut(share: &mut Value) -> Option<&mut Fields> {
    share.get_mut(FIELDS).and_then(Value::as_object_mut)
}

/// The fields of a share as JSON text.
fn shorten(share: &mut Value) {
    if let Some(fields) = share.get_mut(FIELDS).filter(|fields| fields.is_object()) {
        *fields = fields.to_string().into();
    }
}

/// The fields of a share as a map.
fn spell_out(share: &mut Value) {
    let Some(fields) = share.get_mut(FIELDS) else { return };
    if let Some(map) = fields.as_str().and_then(|text| serde_json::from_str(text).ok()) {
        *fields = map;
    }
}

fn each_share(object: &mut Object, change: fn(&mut Value)) {
    if let Some(Value::Array(shares)) = object.metadata_mut().get_mut(MANAGED) {
        shares.iter_mut().for_each(change);
    }
}

/// The object as a user sees it.
pub(crate) fn spelled_out(mut object: Object) -> Object {
    each_share(&mut object, spell_out);
    object
}

/// The object as the cluster holds it.
pub(crate) fn shortened(mut object: Object) -> Object {
    each_share(&mut object, shorten);
    object
}

impl Writer<'_> {
    fn owns(&self, share: &Value) -> bool {
        text(share, "manager") == self.manager && text(share, "operation") == self.operation.word()
    }

    /// The share of this writer with these fields.
    fn share(&self, fields: Fields) -> Value {
        json!({
            "manager": self.manager,
            "operation": self.operation.word(),
            "apiVersion": self.api_version,
            "time": self.now,
            "fieldsType": "FieldsV1",
            "fieldsV1": Value::Object(fields),
        })
    }

    /// Whether a share is somebody else's; the same manager by another way of writing is somebody else.
    fn differs(&self, share: &Value) -> bool {
        !self.owns(share)
    }
}

impl Owners {
    /// Takes the shares out of an object.
    pub(crate) fn take(object: &mut Object) -> Self {
        match object.metadata_mut().remove(MANAGED) {
            Some(Value::Array(mut shares)) => {
                shares.iter_mut().for_each(spell_out);
                Self(shares)
            }
            _ => Self::default(),
        }
    }

    /// Records the shares in an object.
    pub(crate) fn put(mut self, object: &mut Object) {
        if !self.0.is_empty() {
            self.0.iter_mut().for_each(shorten);
            object.metadata_mut().insert(MANAGED.to_owned(), self.0.into());
        }
    }

    /// What this writer owned before.
    pub(crate) fn own(&self, writer: Writer<'_>) -> Option<&Fields> {
        self.0.iter().find(|share| writer.owns(share)).and_then(fields)
    }

    /// What everybody else owns.
    pub(crate) fn others(&self, writer: Writer<'_>) -> Vec<&Fields> {
        self.0.iter().filter(|share| writer.differs(share)).filter_map(fields).collect()
    }

    /// Fields that others own with another value.
    pub(crate) fn conflicts(
        &self,
        schema: Schema,
        writer: Writer<'_>,
        mine: &Fields,
        applied: &Value,
        live: &Value,
    ) -> Vec<Dispute> {
        let disputes = self.0.iter().filter(|share| writer.differs(share)).filter_map(|share| {
            let paths = disputed(schema, mine, fields(share)?, applied, live);
            let manager = text(share, "manager").to_owned();
            let updates = text(share, "operation") == Operation::Update.word();
            let api_version = updates.then(|| text(share, "apiVersion").to_owned());
            (!paths.is_empty()).then_some(Dispute { manager, api_version, paths })
        });
        disputes.collect()
    }

    /// Takes disputed fields away from their owners.
    pub(crate) fn take_over(&mut self, disputes: &[Dispute]) {
        for dispute in disputes {
            let shares = self.0.iter_mut().filter(|share| dispute.is_with(share));
            for fields in shares.filter_map(fields_mut) {
                dispute.paths.iter().for_each(|path| drop_path(fields, path));
            }
        }
    }

    /// What a manager wrote by other ways than server-side apply becomes the writer's, but for what stays its own. Whether
    /// there was anything.
    pub(crate) fn adopt(&mut self, object: &Object, writer: Writer<'_>, manager: &str) -> bool {
        let theirs = Writer { manager, operation: Operation::Update, ..writer };
        let Some(position) = self.0.iter().position(|share| theirs.owns(share)) else { return false };
        let Some(theirs) = self.0.get_mut(position).and_then(fields_mut) else { return false };
        let HandOver { taken, left } = HandOver::of(object, manager, theirs);
        if taken.is_empty() {
            return false;
        }
        *theirs = left;
        if theirs.is_empty() {
            self.0.remove(position);
        }
        match self.0.iter_mut().find(|share| writer.owns(share)).and_then(fields_mut) {
            Some(mine) => unite(mine, taken),
            None => self.0.push(writer.share(taken)),
        }
        true
    }

    /// Records what the writer owns from now on. What is gone from the object belongs to nobody.
    pub(crate) fn record(&mut self, schema: Schema, writer: Writer<'_>, mine: Fields, object: &Value) {
        for share in self.0.iter_mut().filter(|share| writer.differs(share)) {
            let Some(fields) = fields_mut(share) else { continue };
            keep_present(schema, fields, object, "");
        }
        self.0.retain(|share| writer.owns(share) || fields(share).is_some_and(|fields| !fields.is_empty()));
        if mine.is_empty() && writer.operation == Operation::Update {
            return self.0.retain(|share| writer.differs(share));
        }
        let known = self.0.iter_mut().find(|share| writer.owns(share));
        if known.as_ref().is_some_and(|share| {
            fields(share) == Some(&mine) && text(share, "apiVersion") == writer.api_version
        }) {
            return;
        }
        let share = writer.share(mine);
        match known {
            Some(known) => *known = share,
            None => self.0.push(share),
        }
    }
}

/// Fields that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispute {
    manager: String,
    /// Named for those who do not apply: what they wrote may have been another version.
    api_version: Option<String>,
    paths: Vec<Vec<String>>,
}

impl Dispute {
    fn is_with(&self, share: &Value) -> bool {
        let updates = text(share, "operation") == Operation::Update.word();
        text(share, "manager") == self.manager && updates == self.api_version.is_some()
    }
}

/// The conflict in the words of kubectl.
pub(crate) fn explain(disputes: &[Dispute]) -> String {
    let count: usize = disputes.iter().map(|dispute| dispute.paths.len()).sum();
    let parts: Vec<String> = disputes
        .iter()
        .map(|dispute| {
            let paths: Vec<String> = dispute.paths.iter().map(|path| describe(path)).collect();
            let word = if paths.len() == 1 { "conflict" } else { "conflicts" };
            let using = dispute.api_version.as_ref().map(|version| format!(" using {version}"));
            format!("{word} with {:?}{}: {}", dispute.manager, using.unwrap_or_default(), paths.join(", "))
        })
        .collect();
    let word = if count == 1 { "conflict" } else { "conflicts" };
    format!("Apply failed with {count} {word}: {}", parts.join("; "))
}
