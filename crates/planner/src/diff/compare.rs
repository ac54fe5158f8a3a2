use serde_json::Value;
use tidegate_model::Object;

use super::path::{Path, Step};
use super::quantity;
use crate::kinds::is_application;

/// Groups whose types are compiled into Kubernetes: the server drops zero values, rewrites quantities and merges some
/// lists by key. Custom kinds keep what was written.
const BUILT_IN_GROUPS: [&str; 21] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "extensions",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Fields of built-in kinds that the server does not store when they are zero, false or empty. Other such fields may
/// differ from absent ones: `automountServiceAccountToken: false` is not the same as none.
const ZERO_IS_ABSENT: [&str; 13] = [
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "initialDelaySeconds",
    "minReadySeconds",
    "paused",
    "preserveUnknownFields",
    "publishNotReadyAddresses",
    "readOnly",
    "stdin",
    "stdinOnce",
    "tty",
    "value",
];

/// Fields that hold quantities, themselves or in the maps below them.
const QUANTITY_FIELDS: [&str; 13] = [
    "averageValue",
    "capacity",
    "default",
    "defaultRequest",
    "divisor",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "requests",
    "sizeLimit",
];

/// Lists whose items are told apart by these fields, so that other writers may add items of their own.
const KEYED_LISTS: [(&str, &[&str]); 11] = [
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
    ("webhooks", &["name"]),
];
/// Lists of Argo CD's Applications whose items are told apart by these fields. They are whole lists to whoever compares them.
const LISTS_OF_APPLICATIONS: [(&str, &[&str]); 8] = [
    ("env", &["name"]),
    ("extVars", &["name"]),
    ("fileParameters", &["name"]),
    ("info", &["name"]),
    ("parameters", &["name"]),
    ("replicas", &["name"]),
    ("sources", &["repoURL", "chart", "path", "ref"]),
    ("tlas", &["name"]),
];
const CONTAINER_PORT: &[&str] = &["containerPort", "protocol"];
const SERVICE_PORT: &[&str] = &["port", "protocol"];

/// How the objects of one kind are compared.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'t> {
    kind: &'t str,
    built_in: bool,
    /// Items of an Application's lists are found by what tells them apart.
    finds_items: bool,
}

impl<'t> Comparison<'t> {
    /// The rules for the kind of an object.
    pub fn of(target: &'t Object) -> Self {
        Self { kind: target.kind(), built_in: BUILT_IN_GROUPS.contains(&target.group()), finds_items: false }
    }

    /// The same for whoever only looks for the place of something in another object of the kind.
    pub fn to_find(target: &'t Object) -> Self {
        Self { finds_items: is_application(target.group(), target.kind()), ..Self::of(target) }
    }

    /// Whether a field holds quantities.
    pub fn is_quantity(&self, name: &str) -> bool {
        self.built_in && QUANTITY_FIELDS.contains(&name)
    }

    /// Whether leaving a field out means the same as giving it this value.
    pub fn means_nothing(&self, name: &str, value: &Value) -> bool {
        let zero = self.built_in && ZERO_IS_ABSENT.contains(&name);
        match value {
            Value::Null => true,
            Value::Object(_) => false,
            Value::Array(items) => self.built_in && items.is_empty(),
            Value::Bool(value) => zero && !value,
            Value::Number(value) => zero && value.as_f64() == Some(0.0),
            Value::String(value) => zero && value.is_empty(),
        }
    }

    /// Whether two values that are neither maps nor lists mean the same.
    pub fn is_same(&self, one: &Value, other: &Value, quantity: bool) -> bool {
        one == other || same_number(one, other) || (quantity && quantity::same(one, other))
    }

    /// The fields that tell the items of a list apart, if they have any.
    pub fn keys(&self, name: &str, items: &[Value]) -> Option<&'static [&'static str]> {
        if !items.iter().all(Value::is_object) {
            return None;
        }
        if self.finds_items {
            return LISTS_OF_APPLICATIONS.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys);
        }
        if !self.built_in {
            return None;
        }
        if name == "ports" {
            let has = |field: &str| items.iter().all(|port| port.get(field).is_some());
            return match self.kind {
                "Service" => has("port").then_some(SERVICE_PORT),
                _ => has("containerPort").then_some(CONTAINER_PORT),
            };
        }
        KEYED_LISTS.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys)
    }

    /// The place in `to` that stands for a place in `from`: items of keyed lists are found by their keys. The place
    /// itself need not be there, the items above it must be.
    pub fn counterpart(&self, path: &Path, from: &Value, to: &Value) -> Option<Path> {
        let (mut from, mut to) = (Some(from), Some(to));
        let mut list = "";
        let mut found = Path::default();
        for step in &path.0 {
            let place = match step {
                Step::Field(name) => {
                    list = name;
                    (from, to) = (from.and_then(|from| from.get(name)), to.and_then(|to| to.get(name)));
                    step.clone()
                }
                Step::Item(index) => {
                    let items = from.and_then(Value::as_array)?;
                    let others = to.and_then(Value::as_array)?;
                    let place = match self.keys(list, items) {
                        Some(keys) => {
                            let item = items.get(*index)?;
                            others.iter().position(|other| same_item(keys, item, |key| other.get(key)))?
                        }
                        None => *index,
                    };
                    (from, to) = (items.get(*index), others.get(place));
                    Step::Item(place)
                }
            };
            found.0.push(place);
        }
        Some(found)
    }
}

/// Whether an item of a keyed list is the one with these keys. A key that is not given matches any value, since the
/// server filled it in; only the protocol of a port is known to become TCP.
pub(super) fn same_item<'v>(keys: &[&str], item: &Value, other: impl Fn(&str) -> Option<&'v Value>) -> bool {
    keys.iter().all(|key| match (item.get(*key), other(key)) {
        (Some(one), other) => {
            other.is_some_and(|other| one == other) || (other.is_none() && is_tcp(key, Some(one)))
        }
        (None, other) => *key != "protocol" || other.is_none() || is_tcp(key, other),
    })
}

fn is_tcp(key: &str, value: Option<&Value>) -> bool {
    key == "protocol" && value.and_then(Value::as_str) == Some("TCP")
}

fn same_number(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => false,
    }
}
