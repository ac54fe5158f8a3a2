//! Subset of JSON Schema that the API description uses. An unknown keyword is an error, so that no part stays
//! unchecked.

use serde_json::{Map, Value};

/// Schemas by name.
pub struct Schemas<'a>(&'a Map<String, Value>);

impl<'a> Schemas<'a> {
    pub fn of(description: &'a Value) -> Self {
        Self(description["components"]["schemas"].as_object().unwrap())
    }

    /// Checks a value against its schema.
    #[track_caller]
    pub fn check(&self, schema: &Value, value: &Value, place: &str) {
        if let Err(problem) = self.find(schema, value, place) {
            panic!("{problem}\n{value:#}");
        }
    }

    fn find(&self, schema: &Value, value: &Value, place: &str) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            other => return Err(format!("{place}: {other} is not a schema")),
        };
        for (word, says) in schema {
            let fits = match word.as_str() {
                "$ref" => {
                    let name = says.as_str().unwrap().strip_prefix("#/components/schemas/").unwrap();
                    let named =
                        self.0.get(name).ok_or_else(|| format!("{place}: {name} is not described"))?;
                    self.find(named, value, place)?;
                    true
                }
                "type" => match says {
                    Value::String(kind) => has_type(kind, value),
                    kinds => {
                        kinds.as_array().unwrap().iter().any(|kind| has_type(kind.as_str().unwrap(), value))
                    }
                },
                "enum" => says.as_array().unwrap().contains(value),
                "const" => says == value,
                "anyOf" => says.as_array().unwrap().iter().any(|one| self.find(one, value, place).is_ok()),
                "oneOf" => {
                    says.as_array().unwrap().iter().filter(|one| self.find(one, value, place).is_ok()).count()
                        == 1
                }
                "allOf" => {
                    says.as_array().unwrap().iter().try_for_each(|one| self.find(one, value, place))?;
                    true
                }
                "required" => {
                    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    !value.is_object() || says.as_array().unwrap().iter().all(has)
                }
                "properties" | "additionalProperties" | "items" => {
                    self.inside(word, says, schema, value, place)?;
                    true
                }
                "minimum" => value.as_f64().is_none_or(|number| number >= says.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= says.as_f64().unwrap()),
                "title" | "description" | "format" | "default" | "x-kubernetes-preserve-unknown-fields" => {
                    true
                }
                other => return Err(format!("{place}: what does {other} mean?")),
            };
            if !fits {
                return Err(format!("{place}: {value} is not {word} {says}"));
            }
        }
        Ok(())
    }

    fn inside(
        &self,
        word: &str,
        says: &Value,
        schema: &Map<String, Value>,
        value: &Value,
        place: &str,
    ) -> Result<(), String> {
        let named = schema.get("properties").and_then(Value::as_object);
        match (word, value) {
            ("items", Value::Array(entries)) => {
                entries.iter().try_for_each(|entry| self.find(says, entry, &format!("{place}[]")))
            }
            ("properties", Value::Object(fields)) => {
                let named = says
                    .as_object()
                    .unwrap()
                    .iter()
                    .filter_map(|(name, says)| Some((name, says, fields.get(name)?)));
                named
                    .into_iter()
                    .try_for_each(|(name, says, field)| self.find(says, field, &format!("{place}.{name}")))
            }
            ("additionalProperties", Value::Object(fields)) => {
                let others =
                    fields.iter().filter(|(name, _)| named.is_none_or(|named| !named.contains_key(*name)));
                others.into_iter().try_for_each(|(name, field)| match says {
                    Value::Bool(false) => Err(format!("{place}: {name} is not described")),
                    says => self.find(says, field, &format!("{place}.{name}")),
                })
            }
            _ => Ok(()),
        }
    }
}

fn has_type(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}
