//! Memory-efficient storage of thousands of objects.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{Object, ObjectKey};

/// An object stored as JSON text, which takes a tenth of the memory of the parsed fields.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedObject(PackedForm);

#[derive(Clone, Debug, PartialEq)]
enum PackedForm {
    Text(Box<str>),
    /// An object that is shared with other code, or that JSON text can't represent exactly.
    Unpacked(Arc<Object>),
}

impl PackedObject {
    /// Packs an object. Uses text only if it parses back to the identical object.
    pub fn pack(object: Object) -> Self {
        // Parsing may round a fraction to a neighboring value.
        if has_fraction(object.as_value()) {
            return Self::share(Arc::new(object));
        }
        Self(PackedForm::Text(object.as_value().to_string().into()))
    }

    /// Shares an object that is already in memory elsewhere, without packing it.
    pub fn share(object: Arc<Object>) -> Self {
        Self(PackedForm::Unpacked(object))
    }

    /// Returns the object: parsed from the text, or the shared instance.
    pub fn unpack(&self) -> Arc<Object> {
        match &self.0 {
            PackedForm::Unpacked(object) => Arc::clone(object),
            PackedForm::Text(text) => Arc::new(
                serde_json::from_str(text)
                    .unwrap_or_else(|error| unreachable!("the text was serialized from an object: {error}")),
            ),
        }
    }
}

impl<'de> Deserialize<'de> for PackedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(Self::pack)
    }
}

fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// A packed live object. Its key and UID are accessible without unpacking.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveObject {
    key: ObjectKey,
    uid: Box<str>,
    object: PackedObject,
}

impl LiveObject {
    /// Packs an object. Its key and UID stay accessible.
    pub fn pack(object: Object) -> Self {
        Self { key: object.key(), uid: object.uid().into(), object: PackedObject::pack(object) }
    }

    /// Shares an object that is already in memory elsewhere, without packing it.
    pub fn share(object: Arc<Object>) -> Self {
        Self { key: object.key(), uid: object.uid().into(), object: PackedObject::share(object) }
    }

    /// Returns the object's identity within a cluster.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns `metadata.uid`, empty if unset.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the object: parsed from the text, or the shared instance.
    pub fn unpack(&self) -> Arc<Object> {
        self.object.unpack()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(spec: Value) -> Object {
        let metadata = json!({"name": "a", "namespace": "shop", "uid": "u-1"});
        Object::try_from(
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}),
        )
        .unwrap()
    }

    #[test]
    fn a_packed_object_is_unpacked_unchanged() {
        for spec in [
            json!({}),
            json!({"text": "ü \"quoted\"\n\u{0}", "list": [null, true, {"deep": [[]]}], "": 1}),
            json!({"numbers": [u64::MAX, i64::MIN, 0]}),
            // Fractions don't always survive a round trip through text.
            json!({"fractions": [0.1, 1e300, -0.0, 5e-324, 2.225_073_858_507_201e-308, 0.1 + 0.2]}),
        ] {
            let object = object(spec);
            assert_eq!(*PackedObject::pack(object.clone()).unpack(), object);
            let read: PackedObject = serde_json::from_value(object.clone().into()).unwrap();
            assert_eq!(*read.unpack(), object);
        }
    }

    #[test]
    fn only_exactly_representable_objects_are_packed() {
        let is_text = |spec| matches!(PackedObject::pack(object(spec)).0, PackedForm::Text(_));
        assert!(is_text(json!({"replicas": 3, "paused": false})));
        assert!(!is_text(json!({"weights": [{"share": 0.3}]})));
    }

    #[test]
    fn a_live_object_knows_its_key_without_being_unpacked() {
        let object = object(json!({}));
        for live in [LiveObject::pack(object.clone()), LiveObject::share(Arc::new(object.clone()))] {
            assert_eq!((live.key(), live.uid(), &*live.unpack()), (&object.key(), "u-1", &object));
        }
    }
}
