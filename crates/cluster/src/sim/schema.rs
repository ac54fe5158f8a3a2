//! The shape of built-in kinds, as far as writing needs it: which lists are maps in disguise, which maps are one
//! value. Custom kinds have no such knowledge here: their lists are one value each.

use serde_json::{Map, Value};

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is one value.
    Atomic,
    /// A set of texts.
    Set,
    /// Maps with these fields as their key; a missing field has the given default.
    Keyed(&'static [(&'static str, Option<&'static str>)]),
}

/// What is known of the fields of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// A built-in kind.
    BuiltIn,
    /// A custom resource.
    Custom,
}

const NAME: ListKind = ListKind::Keyed(&[("name", None)]);
const UID: ListKind = ListKind::Keyed(&[("uid", None)]);
const TYPE: ListKind = ListKind::Keyed(&[("type", None)]);
const IP: ListKind = ListKind::Keyed(&[("ip", None)]);
const MOUNT_PATH: ListKind = ListKind::Keyed(&[("mountPath", None)]);
const DEVICE_PATH: ListKind = ListKind::Keyed(&[("devicePath", None)]);
const CONTAINER_PORT: ListKind = ListKind::Keyed(&[("containerPort", None), ("protocol", Some("TCP"))]);
const SERVICE_PORT: ListKind = ListKind::Keyed(&[("port", None), ("protocol", Some("TCP"))]);
const SPREAD: ListKind = ListKind::Keyed(&[("topologyKey", None), ("whenUnsatisfiable", None)]);

impl Schema {
    /// How a list field merges. `items` tells container ports and Service ports apart.
    pub(crate) fn list(self, field: &str, items: &[Value]) -> ListKind {
        match (self, field) {
            (_, "finalizers") => ListKind::Set,
            (_, "ownerReferences") => UID,
            (Self::Custom, _) => ListKind::Atomic,
            (
                _,
                "containers"
                | "initContainers"
                | "ephemeralContainers"
                | "env"
                | "volumes"
                | "imagePullSecrets"
                | "webhooks",
            ) => NAME,
            (_, "ports") if items.iter().any(|item| item.get("containerPort").is_some()) => CONTAINER_PORT,
            (_, "ports") if items.iter().any(|item| item.get("port").is_some_and(Value::is_number)) => {
                SERVICE_PORT
            }
            (_, "volumeMounts") => MOUNT_PATH,
            (_, "volumeDevices") => DEVICE_PATH,
            (_, "conditions") => TYPE,
            (_, "hostAliases") => IP,
            (_, "topologySpreadConstraints") => SPREAD,
            _ => ListKind::Atomic,
        }
    }

    /// Whether a map field is one value.
    pub(crate) fn is_atomic_map(self, field: &str) -> bool {
        self == Self::BuiltIn
            && matches!(
                field,
                "selector" | "labelSelector" | "nodeSelector" | "namespaceSelector" | "podSelector"
            )
    }
}

/// The key of an item in a keyed list; `None` when the item lacks a field of it.
pub(crate) fn item_key(item: &Value, fields: &[(&str, Option<&str>)]) -> Option<String> {
    let mut key = Map::new();
    for (field, default) in fields {
        let value = match (item.get(*field), default) {
            (Some(value), _) => value.clone(),
            (None, Some(default)) => Value::from(*default),
            (None, None) => return None,
        };
        key.insert((*field).to_owned(), value);
    }
    Some(format!("k:{}", Value::Object(key)))
}
