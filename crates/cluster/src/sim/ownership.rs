//! Who owns which fields of an object: `metadata.managedFields`.

use serde_json::{Value, json};
use tidegate_model::Object;

use super::fields::{Fields, describe, disputed, drop_path, keep_present, subtract, unite};
use super::schema::Schema;

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

/// All shares of an object, as they are recorded: one entry for each manager and way of writing.
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
    share.get("fieldsV1").and_then(Value::as_object)
}

fn fields_mut(share: &mut Value) -> Option<&mut Fields> {
    share.get_mut("fieldsV1").and_then(Value::as_object_mut)
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

    /// Whether a share is somebody else's. The same manager by another way of writing is not somebody else.
    fn differs(&self, share: &Value) -> bool {
        text(share, "manager") != self.manager
    }
}

impl Owners {
    /// Takes the shares out of an object.
    pub(crate) fn take(object: &mut Object) -> Self {
        match object.metadata_mut().remove("managedFields") {
            Some(Value::Array(shares)) => Self(shares),
            _ => Self::default(),
        }
    }

    /// Records the shares in an object.
    pub(crate) fn put(self, object: &mut Object) {
        if !self.0.is_empty() {
            object.metadata_mut().insert("managedFields".to_owned(), self.0.into());
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
            let shares = self.0.iter_mut().filter(|share| text(share, "manager") == dispute.manager);
            for fields in shares.filter_map(fields_mut) {
                dispute.paths.iter().for_each(|path| drop_path(fields, path));
            }
        }
    }

    /// What a manager wrote by other ways than server-side apply becomes the writer's.
    pub(crate) fn adopt(&mut self, writer: Writer<'_>, manager: &str) {
        let theirs = Writer { manager, operation: Operation::Update, ..writer };
        let Some(position) = self.0.iter().position(|share| theirs.owns(share)) else { return };
        let mut share = self.0.remove(position);
        let Some(taken) = fields_mut(&mut share).map(std::mem::take) else { return };
        match self.0.iter_mut().find(|share| writer.owns(share)).and_then(fields_mut) {
            Some(mine) => unite(mine, taken),
            None => self.0.push(writer.share(taken)),
        }
    }

    /// Records what the writer owns from now on. What is gone from the object belongs to nobody.
    pub(crate) fn record(&mut self, schema: Schema, writer: Writer<'_>, mine: Fields, object: &Value) {
        for share in self.0.iter_mut().filter(|share| !writer.owns(share)) {
            let ours = !writer.differs(share);
            let Some(fields) = fields_mut(share) else { continue };
            if ours {
                subtract(fields, &mine);
            }
            keep_present(schema, fields, object, "");
        }
        self.0.retain(|share| writer.owns(share) || fields(share).is_some_and(|fields| !fields.is_empty()));
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
