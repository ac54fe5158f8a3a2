//! Who owns which fields of an object: `metadata.managedFields`.

use serde_json::{Value, json};
use tidegate_model::Object;

use super::fields::{Fields, describe, disputed, drop_path, keep_present, subtract};
use super::json::list_at;
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

/// One manager's share of an object.
#[derive(Clone, Debug, PartialEq)]
struct Share {
    manager: String,
    operation: String,
    api_version: String,
    time: String,
    fields: Fields,
}

/// All shares of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Owners(Vec<Share>);

/// Who writes, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) operation: Operation,
    pub(crate) api_version: &'a str,
    pub(crate) now: &'a str,
}

impl Owners {
    /// The shares recorded in an object.
    pub(crate) fn read(object: &Object) -> Self {
        let shares = list_at(object, "/metadata/managedFields").iter().filter_map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            let fields = entry.get("fieldsV1")?.as_object()?.clone();
            let (manager, operation, api_version) = (text("manager"), text("operation"), text("apiVersion"));
            Some(Share { manager, operation, api_version, time: text("time"), fields })
        });
        Self(shares.collect())
    }

    /// The shares as they are recorded.
    pub(crate) fn write(&self) -> Value {
        let entries = self.0.iter().map(|share| {
            json!({
                "manager": share.manager,
                "operation": share.operation,
                "apiVersion": share.api_version,
                "time": share.time,
                "fieldsType": "FieldsV1",
                "fieldsV1": share.fields,
            })
        });
        entries.collect()
    }

    /// What this writer owned before.
    pub(crate) fn own(&self, writer: Writer<'_>) -> Option<&Fields> {
        self.0.iter().find(|share| share.is_of(writer)).map(|share| &share.fields)
    }

    /// What everybody else owns. The same manager by another kind of write is not somebody else.
    pub(crate) fn others(&self, writer: Writer<'_>) -> Vec<&Fields> {
        self.0.iter().filter(|share| share.manager != writer.manager).map(|share| &share.fields).collect()
    }

    /// Takes the fields that others own with another value: their paths in words, by owner.
    pub(crate) fn conflicts(
        &self,
        schema: Schema,
        writer: Writer<'_>,
        mine: &Fields,
        applied: &Value,
        live: &Value,
    ) -> Vec<Dispute> {
        let others = self.0.iter().filter(|share| share.manager != writer.manager);
        let disputes = others.filter_map(|share| {
            let paths = disputed(schema, mine, &share.fields, applied, live);
            let (manager, api_version) = (share.manager.clone(), share.api_version.clone());
            (!paths.is_empty()).then_some(Dispute { manager, api_version, paths })
        });
        disputes.collect()
    }

    /// Takes disputed fields away from their owners.
    pub(crate) fn take_over(&mut self, disputes: &[Dispute]) {
        for dispute in disputes {
            for share in self.0.iter_mut().filter(|share| share.manager == dispute.manager) {
                dispute.paths.iter().for_each(|path| drop_path(&mut share.fields, path));
            }
        }
    }

    /// Records what the writer owns from now on. What is gone from the object belongs to nobody.
    pub(crate) fn record(&mut self, schema: Schema, writer: Writer<'_>, mine: Fields, object: &Value) {
        for share in self.0.iter_mut().filter(|share| !share.is_of(writer)) {
            if share.manager == writer.manager {
                subtract(&mut share.fields, &mine);
            }
            keep_present(schema, &mut share.fields, object, "");
        }
        self.0.retain(|share| !share.fields.is_empty() || share.is_of(writer));
        match self.0.iter_mut().find(|share| share.is_of(writer)) {
            Some(share) if share.fields == mine && share.api_version == writer.api_version => {}
            Some(share) => {
                writer.api_version.clone_into(&mut share.api_version);
                writer.now.clone_into(&mut share.time);
                share.fields = mine;
            }
            None => self.0.push(Share {
                manager: writer.manager.to_owned(),
                operation: writer.operation.word().to_owned(),
                api_version: writer.api_version.to_owned(),
                time: writer.now.to_owned(),
                fields: mine,
            }),
        }
    }
}

impl Share {
    fn is_of(&self, writer: Writer<'_>) -> bool {
        self.manager == writer.manager && self.operation == writer.operation.word()
    }
}

/// Fields that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispute {
    manager: String,
    api_version: String,
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
            format!("{word} with {:?} using {}: {}", dispute.manager, dispute.api_version, paths.join(", "))
        })
        .collect();
    let word = if count == 1 { "conflict" } else { "conflicts" };
    format!("Apply failed with {count} {word}: {}", parts.join("; "))
}
