//! Objects that are held by the thousand, as little of each in memory as may be.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{Object, ObjectKey};

/// An object that is held until it is needed: as JSON text, which takes a tenth of the memory its fields take one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct PackedObject(Form);

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Text(Box<str>),
    /// Somebody else holds it anyway, or its text would not say all.
    Whole(Arc<Object>),
}

impl PackedObject {
    /// Keeps an object as text where that text gives the very same object again.
    pub fn pack(object: Object) -> Self {
        // A fraction may be read as the number next to it.
        if has_fraction(object.as_value()) {
            return Self::share(Arc::new(object));
        }
        Self(Form::Text(object.as_value().to_string().into()))
    }

    /// Takes part in holding an object that somebody else holds as it is.
    pub fn share(object: Arc<Object>) -> Self {
        Self(Form::Whole(object))
    }

    /// The object: made anew from the text, or the one that is shared.
    pub fn unpack(&self) -> Arc<Object> {
        match &self.0 {
            Form::Whole(object) => Arc::clone(object),
            Form::Text(text) => Arc::new(
                serde_json::from_str(text)
                    .unwrap_or_else(|error| unreachable!("the text was made from an object: {error}")),
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

/// An object as it is in the cluster, and what is asked of it all the time.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveObject {
    key: ObjectKey,
    uid: Box<str>,
    object: PackedObject,
}

impl LiveObject {
    /// Packs an object; its key and UID stay at hand.
    pub fn pack(object: Object) -> Self {
        Self { key: object.key(), uid: object.uid().into(), object: PackedObject::pack(object) }
    }

    /// Takes part in holding an object that somebody else holds as it is.
    pub fn share(object: Arc<Object>) -> Self {
        Self { key: object.key(), uid: object.uid().into(), object: PackedObject::share(object) }
    }

    /// Identity within a cluster.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// `metadata.uid`, empty when unset.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The object: made anew from its text, or the one that is shared.
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
    fn what_was_packed_comes_back() {
        for spec in [
            json!({}),
            json!({"text": "ü \"quoted\"\n\u{0}", "list": [null, true, {"deep": [[]]}], "": 1}),
            json!({"numbers": [u64::MAX, i64::MIN, 0]}),
            // Texts of fractions are not always read as they were written.
            json!({"fractions": [0.1, 1e300, -0.0, 5e-324, 2.225_073_858_507_201e-308, 0.1 + 0.2]}),
        ] {
            let object = object(spec);
            assert_eq!(*PackedObject::pack(object.clone()).unpack(), object);
            let read: PackedObject = serde_json::from_value(object.clone().into()).unwrap();
            assert_eq!(*read.unpack(), object);
        }
    }

    #[test]
    fn only_texts_that_say_all_are_packed() {
        let is_text = |spec| matches!(PackedObject::pack(object(spec)).0, Form::Text(_));
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
