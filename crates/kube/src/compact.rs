//! Compact objects, with managed fields as JSON text (`fieldsV1`). As maps, they would take up most of a
//! small object's memory, and they are rarely needed.

use std::fmt::{self, Formatter};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tidegate_model::{InvalidObject, describe_json_type};

/// Object with managed fields as JSON text.
#[derive(Debug)]
pub(crate) struct CompactObject(pub(crate) Map<String, Value>);

impl<'de> Deserialize<'de> for CompactObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Place::Object.deserialize(deserializer)? {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(D::Error::custom(InvalidObject::NotAMap { found: describe_json_type(&other) })),
        }
    }
}

/// Position of a value within an object.
#[derive(Clone, Copy)]
enum Place {
    Object,
    Metadata,
    Managers,
    Manager,
    /// Fields owned by one manager.
    Fields,
    Elsewhere,
}

impl Place {
    fn child(self, field: &str) -> Self {
        match (self, field) {
            (Self::Object, "metadata") => Self::Metadata,
            (Self::Metadata, "managedFields") => Self::Managers,
            (Self::Manager, "fieldsV1") => Self::Fields,
            _ => Self::Elsewhere,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Place {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self {
            Self::Elsewhere => Value::deserialize(deserializer),
            Self::Fields => {
                let mut text = String::new();
                JsonText(&mut text).deserialize(deserializer)?;
                text.shrink_to_fit();
                Ok(Value::String(text))
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Place {
    type Value = Value;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("a part of an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(field) = fields.next_key::<String>()? {
            let value = fields.next_value_seed(self.child(&field))?;
            map.insert(field, value);
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let place = if matches!(self, Self::Managers) { Self::Manager } else { Self::Elsewhere };
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(place)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
}

/// Serializes a value as JSON.
struct JsonText<'t>(&'t mut String);

impl JsonText<'_> {
    fn write<E: Error>(self, value: &impl serde::Serialize) -> Result<(), E> {
        self.0.push_str(&serde_json::to_string(value).map_err(E::custom)?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for JsonText<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonText<'_> {
    type Value = ();

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    /// Writes a map, usually with nested maps. Names are written verbatim unless JSON requires escaping.
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut sign = '{';
        while let Some(name) = fields.next_key::<String>()? {
            self.0.push(sign);
            JsonText(self.0).write(&name)?;
            self.0.push(':');
            fields.next_value_seed(JsonText(self.0))?;
            sign = ',';
        }
        self.0.push_str(if sign == '{' { "{}" } else { "}" });
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut list: Vec<Value> = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        self.write(&list)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.write(&())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.write(&value)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.write(&value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compact_value(value: &Value) -> Value {
        serde_json::from_str::<CompactObject>(&value.to_string()).map(|lean| lean.0.into()).unwrap()
    }

    #[test]
    fn only_fields_of_managers_become_text_with_the_same_content() {
        let fields = json!({
            ".": {}, "f:data": {"f:a": {}, "f:\"quoted\"\n": {}}, "k:{\"port\":80}": {".": {}, "f:port": {}},
            "v:[1]": {}, "odd": [1, {"b": null}, 2.5, -3], "none": null, "yes": true, "text": "ü",
        });
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "fieldsV1": {"top": 1}, "managedFields": [{"fieldsV1": {}}],
            "metadata": {
                "name": "a", "labels": {"fieldsV1": "x"}, "deletionGracePeriodSeconds": 30, "x": null,
                "managedFields": [
                    {"manager": "m", "operation": "Apply", "time": "t", "fieldsV1": fields},
                    {"manager": "n", "fieldsV1": {}}, {"manager": "none"}, 7, null,
                ],
            },
            "data": {"managedFields": "[]", "n": "1"},
        });
        let read = compact_value(&object);
        let text = read["metadata"]["managedFields"][0]["fieldsV1"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), fields);
        object["metadata"]["managedFields"][0]["fieldsV1"] = text.into();
        object["metadata"]["managedFields"][1]["fieldsV1"] = "{}".into();
        assert_eq!(read, object);
    }

    #[test]
    fn other_values_are_refused_and_invalid_metadata_is_kept() {
        for odd in [json!(null), json!([]), json!(1), json!("text"), json!(1.5), json!(true), json!(-1)] {
            assert!(serde_json::from_str::<CompactObject>(&odd.to_string()).is_err(), "{odd}");
            for object in [json!({"metadata": odd}), json!({"metadata": {"managedFields": odd}})] {
                assert_eq!(compact_value(&object), object);
            }
        }
    }
}
