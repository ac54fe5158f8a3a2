//! What the cluster itself says happened: the order of writes, how often each hook was created, and what is left.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tidegate_cluster::sim::{AuditEntry, SimCluster, Verb};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationId, OperationPhase, ResultCode, annotations};

/// What is compared between a run that was disturbed and one that was not.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// First successful write of each kind to each object, in order of execution.
    pub order: Vec<Write>,
    /// How often each object was created.
    pub created: BTreeMap<String, usize>,
    /// How often each object was deleted.
    pub deleted: BTreeMap<String, usize>,
    /// What is in the cluster, without what differs from run to run.
    pub objects: BTreeMap<String, Value>,
    /// How the operation ended.
    pub phase: OperationPhase,
    /// In words.
    pub message: String,
    /// The results: object, code, phase. Not their order of recording within a kind group.
    pub results: BTreeMap<String, (Option<ResultCode>, Option<OperationPhase>)>,
}

/// A write that was done, as an audit tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What kind of write.
    pub verb: Verb,
    /// Whether the object was created by it.
    pub created: bool,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub object: String,
}

impl From<&AuditEntry> for Done {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            verb: entry.verb,
            created: entry.code == 201,
            kind: entry.kind.clone(),
            object: format!("{}/{}", entry.namespace, entry.name),
        }
    }
}

/// A write, as far as its order matters: writes of one kind group go out at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// Create or update, delete, or a finalizer patch.
    pub what: &'static str,
    /// Kind.
    pub kind: String,
    /// Namespace and name.
    pub object: String,
}

/// Collects the witness of an operation.
pub fn witness(cluster: &SimCluster, operation: OperationId, view: &OperationView) -> Witness {
    let audit = cluster.audit();
    let own: Vec<&AuditEntry> = audit
        .iter()
        .filter(|entry| entry.operation_id == Some(operation) && !entry.dry_run && entry.code < 300)
        // How often a claim is renewed depends on the time.
        .filter(|entry| entry.kind != "Lease")
        .collect();
    let count = |matches: &dyn Fn(&AuditEntry) -> bool| {
        let mut counts = BTreeMap::new();
        for entry in own.iter().filter(|entry| matches(entry)) {
            *counts.entry(name(entry)).or_insert(0) += 1;
        }
        counts
    };
    Witness {
        order: order(&own.iter().map(|entry| Done::from(*entry)).collect::<Vec<_>>()),
        created: count(&|entry| entry.code == 201),
        deleted: count(&|entry| entry.verb == Verb::Delete),
        objects: cluster
            .objects()
            .iter()
            .filter(|object| object.kind() != "Lease")
            .map(|object| (object.key().to_string(), essence(object)))
            .collect(),
        phase: view.phase,
        message: view.message.clone(),
        results: view
            .resources
            .iter()
            .map(|result| {
                let key =
                    format!("{} {}/{} {}", result.kind, result.namespace, result.name, result.sync_phase);
                (key, (result.status, result.hook_phase))
            })
            .collect(),
    }
}

fn name(entry: &AuditEntry) -> String {
    format!("{} {}/{}", entry.kind, entry.namespace, entry.name)
}

/// First writes, in order; runs of writes of the same kind and verb are sorted, because they go out at once.
pub fn order(entries: &[Done]) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for entry in entries {
        let what = match entry.verb {
            Verb::Delete => "delete",
            Verb::Patch => "patch",
            Verb::Apply | Verb::Create | Verb::Update if entry.created => "create",
            Verb::Apply | Verb::Create | Verb::Update => "apply",
        };
        let write = Write { what, kind: entry.kind.clone(), object: entry.object.clone() };
        // An apply that is repeated, or that follows our own creation, changes nothing.
        let repeated = what == "apply"
            && writes.iter().any(|earlier| {
                ["create", "apply"].contains(&earlier.what)
                    && earlier.kind == write.kind
                    && earlier.object == write.object
            });
        if !repeated && (what == "create" || !writes.contains(&write)) {
            writes.push(write);
        }
    }
    let mut start = 0;
    while start < writes.len() {
        let same = |write: &&Write| write.what == writes[start].what && write.kind == writes[start].kind;
        let end = start + writes[start..].iter().take_while(same).count();
        writes[start..end].sort();
        start = end;
    }
    writes
}

/// An object without what differs from run to run: identity, versions, times, generated names of children.
fn essence(object: &Object) -> Value {
    let mut value = object.as_value().clone();
    value.as_object_mut().unwrap().remove("status");
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
            "ownerReferences",
            "deletionTimestamp",
        ] {
            metadata.remove(field);
        }
        if let Some(all) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            all.remove(annotations::OPERATION_ID);
        }
        metadata.retain(|_, value| *value != Value::Object(Map::new()));
    }
    value
}
