//! Schemas of built-in kinds, limited to the information that writes need: keyed lists and atomic maps. The
//! schemas of custom kinds are unknown, so their lists are treated as atomic.

use serde_json::{Map, Value};

/// Merge type of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// The list is a single value.
    Atomic,
    /// The list is a set of strings.
    Set,
    /// The items are maps, and these fields form their key. A missing field has its default value.
    Keyed(&'static [(&'static str, Option<&'static str>)]),
}

/// Schema information about the fields of a kind.
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
const TOPOLOGY_SPREAD: ListKind = ListKind::Keyed(&[("topologyKey", None), ("whenUnsatisfiable", None)]);

impl Schema {
    /// Returns the merge type of a list field. `items` distinguishes container ports from Service ports.
    pub(crate) fn list_kind(self, field: &str, items: &[Value]) -> ListKind {
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
            (_, "topologySpreadConstraints") => TOPOLOGY_SPREAD,
            _ => ListKind::Atomic,
        }
    }

    /// Returns true if a map field is atomic.
    pub(crate) fn is_atomic_map(self, field: &str) -> bool {
        self == Self::BuiltIn
            && matches!(
                field,
                "selector" | "labelSelector" | "nodeSelector" | "namespaceSelector" | "podSelector"
            )
    }
}

/// Returns an item's key in a keyed list. `None` if the item lacks one of the key fields.
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
