use serde_json::Value;
use tidegate_model::Object;

use super::path::{Path, Step};
use super::quantity;
use crate::known_kinds::is_application;

/// API groups whose types are compiled into Kubernetes. For these, the server drops zero values, normalizes
/// quantities and merges some lists by key. Custom resources are stored as written.
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

/// Fields of built-in kinds that the server doesn't store if they are zero, false or empty. Elsewhere, a zero
/// value can differ from an absent field: `automountServiceAccountToken: false`, for example, isn't the
/// default.
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

/// Fields that hold quantities, directly or in nested maps.
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

/// Lists with items identified by these keys. Other managers may add items.
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
/// Lists in Argo CD Applications with items identified by these keys. Each list is still compared as a whole.
const APPLICATION_LISTS: [(&str, &[&str]); 8] = [
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

/// Comparison rules for one kind.
#[derive(Clone, Copy)]
pub(super) struct ComparisonRules<'t> {
    kind: &'t str,
    is_built_in: bool,
    /// True if items of an Application's lists are matched by key.
    matches_application_items: bool,
}

impl<'t> ComparisonRules<'t> {
    /// Returns the rules for comparing objects of the target's kind.
    pub fn for_kind(target: &'t Object) -> Self {
        Self {
            kind: target.kind(),
            is_built_in: BUILT_IN_GROUPS.contains(&target.group()),
            matches_application_items: false,
        }
    }

    /// Returns the rules for finding a field's counterpart in another object of the same kind.
    pub fn for_locating(target: &'t Object) -> Self {
        Self {
            matches_application_items: is_application(target.group(), target.kind()),
            ..Self::for_kind(target)
        }
    }

    /// Returns true if a field contains quantities.
    pub fn is_quantity(&self, name: &str) -> bool {
        self.is_built_in && QUANTITY_FIELDS.contains(&name)
    }

    /// Returns true if setting this value is the same as omitting the field.
    pub fn is_same_as_absent(&self, name: &str, value: &Value) -> bool {
        let zero = self.is_built_in && ZERO_IS_ABSENT.contains(&name);
        match value {
            Value::Null => true,
            Value::Object(_) => false,
            Value::Array(items) => self.is_built_in && items.is_empty(),
            Value::Bool(value) => zero && !value,
            Value::Number(value) => zero && value.as_f64() == Some(0.0),
            Value::String(value) => zero && value.is_empty(),
        }
    }

    /// Returns true if two scalars are equivalent.
    pub fn is_equal(&self, one: &Value, other: &Value, quantity: bool) -> bool {
        one == other || is_same_number(one, other) || (quantity && quantity::is_same_quantity(one, other))
    }

    /// Returns the fields that identify the items of a list, or `None` if the list is owned as a whole.
    pub fn item_keys(&self, name: &str, items: &[Value]) -> Option<&'static [&'static str]> {
        if !items.iter().all(Value::is_object) {
            return None;
        }
        if self.matches_application_items {
            return APPLICATION_LISTS.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys);
        }
        if !self.is_built_in {
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

    /// Translates a path in `from` to the corresponding path in `to`, matching items of keyed lists by their
    /// keys. The value itself may be missing in `to`, but the list items above it must exist.
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
                    let place = match self.item_keys(list, items) {
                        Some(keys) => {
                            let item = items.get(*index)?;
                            others.iter().position(|other| is_same_item(keys, item, |key| other.get(key)))?
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

/// Returns true if an item of a keyed list has these keys. An absent key matches any value, because the
/// server fills it in. The only default we know is TCP, for a port's protocol.
pub(super) fn is_same_item<'v>(
    keys: &[&str],
    item: &Value,
    other: impl Fn(&str) -> Option<&'v Value>,
) -> bool {
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

fn is_same_number(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other).is_eq(),
        _ => false,
    }
}
