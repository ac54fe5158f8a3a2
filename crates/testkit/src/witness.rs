//! Evidence from the cluster: the order of writes, the number of creations of each hook, and the remaining
//! objects.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tidegate_cluster::sim::{AuditEntry, SimCluster, Verb};
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Object, OperationId, OperationPhase, ResultCode, annotations};

/// Data that must be the same in disturbed and undisturbed runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// First successful write of each kind to each object, in execution order.
    pub order: Vec<Write>,
    /// Number of creations of each object.
    pub creations: BTreeMap<String, usize>,
    /// Number of deletions of each object.
    pub deletions: BTreeMap<String, usize>,
    /// Objects in the cluster, without data that differs between runs.
    pub objects: BTreeMap<String, Value>,
    /// Final phase of the operation.
    pub phase: OperationPhase,
    /// Final message.
    pub message: String,
    /// Results by object: code and phase. Independent of the recording order within a kind group.
    pub results: BTreeMap<String, (Option<ResultCode>, Option<OperationPhase>)>,
}

/// An executed write, from an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedWrite {
    /// Kind of the write.
    pub verb: Verb,
    /// True if the write created the object.
    pub is_created: bool,
    /// Kind of the object.
    pub kind: String,
    /// Namespace and name.
    pub object: String,
}

impl From<&AuditEntry> for ExecutedWrite {
    fn from(entry: &AuditEntry) -> Self {
        Self {
            verb: entry.verb,
            is_created: entry.code == 201,
            kind: entry.kind.clone(),
            object: format!("{}/{}", entry.namespace, entry.name),
        }
    }
}

/// Write, reduced to what its order depends on. Writes in the same kind group are concurrent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Write {
    /// Creation or update, deletion, or a patch of finalizers.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: String,
    /// Namespace and name.
    pub object: String,
}

/// Collects an operation's witness.
pub fn collect_witness(cluster: &SimCluster, operation: OperationId, view: &OperationView) -> Witness {
    let audit = cluster.audit();
    let own: Vec<&AuditEntry> = audit
        .iter()
        .filter(|entry| entry.operation_id == Some(operation) && !entry.dry_run && entry.code < 300)
        // The number of claim renewals depends on timing.
        .filter(|entry| entry.kind != "Lease")
        .collect();
    let count = |matches: &dyn Fn(&AuditEntry) -> bool| {
        let mut counts = BTreeMap::new();
        for entry in own.iter().filter(|entry| matches(entry)) {
            *counts.entry(object_name(entry)).or_insert(0) += 1;
        }
        counts
    };
    Witness {
        order: order_writes(&own.iter().map(|entry| ExecutedWrite::from(*entry)).collect::<Vec<_>>()),
        creations: count(&|entry| entry.code == 201),
        deletions: count(&|entry| entry.verb == Verb::Delete),
        objects: cluster
            .objects()
            .iter()
            .filter(|object| object.kind() != "Lease")
            .map(|object| (object.key().to_string(), normalize_object(object)))
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

fn object_name(entry: &AuditEntry) -> String {
    format!("{} {}/{}", entry.kind, entry.namespace, entry.name)
}

/// Returns the first writes, in order. Consecutive writes of the same kind and verb are sorted, because they
/// are concurrent.
pub fn order_writes(entries: &[ExecutedWrite]) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    for entry in entries {
        let what = match entry.verb {
            Verb::Delete => "delete",
            Verb::Patch => "patch",
            Verb::Apply | Verb::Create | Verb::Update if entry.is_created => "create",
            Verb::Apply | Verb::Create | Verb::Update => "apply",
        };
        let write = Write { verb: what, kind: entry.kind.clone(), object: entry.object.clone() };
        // A repeated apply, or one after the operation's own creation, doesn't change anything.
        let repeated = what == "apply"
            && writes.iter().any(|earlier| {
                ["create", "apply"].contains(&earlier.verb)
                    && earlier.kind == write.kind
                    && earlier.object == write.object
            });
        if !repeated && (what == "create" || !writes.contains(&write)) {
            writes.push(write);
        }
    }
    let mut start = 0;
    while start < writes.len() {
        let same = |write: &&Write| write.verb == writes[start].verb && write.kind == writes[start].kind;
        let end = start + writes[start..].iter().take_while(same).count();
        writes[start..end].sort();
        start = end;
    }
    writes
}

/// Returns an object without data that differs between runs: identity, versions, times, and generated names
/// of dependents.
fn normalize_object(object: &Object) -> Value {
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
