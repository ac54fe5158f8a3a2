use serde_json::Value;
use tidegate_model::Object;

use super::quantity;

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
const CONTAINER_PORT: &[&str] = &["containerPort", "protocol"];
const SERVICE_PORT: &[&str] = &["port", "protocol"];

/// How the objects of one kind are compared.
pub(super) struct Comparison<'t> {
    kind: &'t str,
    built_in: bool,
}

impl<'t> Comparison<'t> {
    /// The rules for the kind of an object.
    pub fn of(target: &'t Object) -> Self {
        Self { kind: target.kind(), built_in: BUILT_IN_GROUPS.contains(&target.group()) }
    }

    /// The path of the first given field that a live map does not have as given.
    pub fn fields<'v>(
        &self,
        given: impl Iterator<Item = (&'v String, &'v Value)>,
        live: &Value,
        quantity: bool,
    ) -> Option<String> {
        for (name, wanted) in given {
            let quantity = quantity || QUANTITY_FIELDS.contains(&name.as_str());
            let difference = match (wanted, live.get(name)) {
                (Value::Array(wanted), Some(Value::Array(live))) => self.list(name, wanted, live, quantity),
                (wanted, live) => self.value(wanted, live, quantity),
            };
            if let Some(path) = difference {
                return Some(format!("/{name}{path}"));
            }
        }
        None
    }

    /// The path of the first difference inside a value; empty when the value itself is the difference.
    pub fn value(&self, wanted: &Value, live: Option<&Value>, quantity: bool) -> Option<String> {
        let same = match (wanted, live) {
            (Value::Null, _) => true,
            (Value::Object(given), Some(live @ Value::Object(_))) => {
                return self.fields(given.iter(), live, quantity);
            }
            (Value::Array(wanted), Some(Value::Array(live))) => return self.items(wanted, live, quantity),
            (wanted, None | Some(Value::Null)) => self.means_nothing(wanted),
            (wanted, Some(live)) => {
                wanted == live
                    || same_number(wanted, live)
                    || (quantity && self.built_in && quantity::same(wanted, live))
            }
        };
        (!same).then(String::new)
    }

    /// Whether leaving a value out means the same.
    fn means_nothing(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(map) => map.values().all(|value| self.means_nothing(value)),
            Value::Array(items) => items.is_empty(),
            Value::Bool(value) => self.built_in && !value,
            Value::Number(value) => self.built_in && value.as_f64() == Some(0.0),
            Value::String(value) => self.built_in && value.is_empty(),
        }
    }

    fn list(&self, name: &str, wanted: &[Value], live: &[Value], quantity: bool) -> Option<String> {
        let Some(keys) = self.keys(name, wanted) else { return self.items(wanted, live, quantity) };
        for (index, item) in wanted.iter().enumerate() {
            let path = match live.iter().find(|other| same_item(keys, item, |key| other.get(key))) {
                Some(other) => self.value(item, Some(other), quantity),
                None => Some(String::new()),
            };
            if let Some(path) = path {
                return Some(format!("/{index}{path}"));
            }
        }
        None
    }

    /// The fields that tell the items of a list apart, if they have any.
    fn keys(&self, name: &str, wanted: &[Value]) -> Option<&'static [&'static str]> {
        if !self.built_in || !wanted.iter().all(Value::is_object) {
            return None;
        }
        if name == "ports" {
            let has = |field: &str| wanted.iter().all(|port| port.get(field).is_some());
            return match self.kind {
                "Service" => has("port").then_some(SERVICE_PORT),
                _ => has("containerPort").then_some(CONTAINER_PORT),
            };
        }
        KEYED_LISTS.iter().find(|(list, _)| *list == name).map(|(_, keys)| *keys)
    }

    /// Lists that belong to one writer as a whole.
    fn items(&self, wanted: &[Value], live: &[Value], quantity: bool) -> Option<String> {
        if wanted.len() != live.len() {
            return Some(String::new());
        }
        wanted.iter().zip(live).enumerate().find_map(|(index, (item, other))| {
            let path = self.value(item, Some(other), quantity)?;
            Some(format!("/{index}{path}"))
        })
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
