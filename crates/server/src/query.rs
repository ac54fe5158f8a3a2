//! Query parameters, parsed according to the Rust type that describes them.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::problem::Problem;

/// Maximum length of a query in bytes. A reason may have 1024 characters, and each takes up to 12 bytes when
/// encoded. Some providers also use long authorization codes.
const QUERY_MAX: usize = 16 << 10;

/// A request without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct NoParameters {}

/// Type of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    Text,
    Number,
    Boolean,
    /// A repeatable parameter.
    TextList,
}

/// Parser for a route's query parameters.
#[derive(Debug)]
pub(crate) struct QueryParser<Q> {
    fields: BTreeMap<String, ValueType>,
    /// True if a third party builds the query and may add parameters.
    can_ignore_unknown: bool,
    marker: PhantomData<fn() -> Q>,
}

impl<Q: JsonSchema + DeserializeOwned> QueryParser<Q> {
    pub fn new() -> Self {
        let schema = inline_schema::<Q>();
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields =
            properties.into_iter().flatten().map(|(name, schema)| (name.clone(), value_type(schema)));
        Self { fields: fields.collect(), can_ignore_unknown: false, marker: PhantomData }
    }

    /// Creates a parser for queries built by a third party, which may add parameters.
    pub fn ignoring_unknown() -> Self {
        Self { can_ignore_unknown: true, ..Self::new() }
    }

    /// Parses a query. Rejects unknown parameters instead of silently ignoring them.
    pub fn parse(&self, query: Option<&str>) -> Result<Q, Problem> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_MAX {
            return Err(Problem::bad_request(format!("the query is longer than {QUERY_MAX} bytes")));
        }
        let mut found = Map::new();
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            let Some(reads) = self.fields.get(name.as_ref()) else {
                if self.can_ignore_unknown {
                    continue;
                }
                let known: Vec<&str> = self.fields.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(Problem::bad_request(format!(
                    "unknown parameter {name:?}; supported parameters: {known}"
                )));
            };
            let wrong = |wanted| Problem::bad_request(format!("invalid {name} {text:?}: use {wanted}"));
            let value = match reads {
                ValueType::Number => text.parse::<i64>().map_err(|_| wrong("a number"))?.into(),
                ValueType::Boolean => text.parse::<bool>().map_err(|_| wrong("true or false"))?.into(),
                ValueType::Text => Value::from(text.as_ref()),
                ValueType::TextList => {
                    let all = found.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                    all.as_array_mut().into_iter().for_each(|all| all.push(text.as_ref().into()));
                    continue;
                }
            };
            if found.insert(name.clone().into_owned(), value).is_some() {
                return Err(Problem::bad_request(format!("{name} occurs more than once")));
            }
        }
        serde_path_to_error::deserialize(Value::Object(found))
            .map_err(|error| Problem::bad_request(format!("invalid query: {error}")))
    }
}

/// Returns the schema for a value that counts as set.
fn present_schema() -> Value {
    json!({"not": {"enum": [null, []]}})
}

/// Returns a schema for objects in which both fields are set, for use in `not`.
pub(crate) fn both_schema(one: &str, other: &str) -> Value {
    json!({"required": [one, other], "properties": {one: present_schema(), other: present_schema()}})
}

/// Returns schemas for objects in which exactly one of the two fields is set, for use in `oneOf`.
pub(crate) fn exactly_one_schema(one: &str, other: &str) -> Value {
    let with = |name: &str| json!({"required": [name], "properties": {name: present_schema()}});
    json!([with(one), with(other)])
}

/// Returns a query's schema, without references.
pub(crate) fn inline_schema<Q: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<Q>()
}

fn value_type(schema: &Value) -> ValueType {
    let is = |wanted: &str| match schema.get("type") {
        Some(Value::String(kind)) => kind == wanted,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    };
    if is("integer") {
        ValueType::Number
    } else if is("boolean") {
        ValueType::Boolean
    } else if is("array") {
        ValueType::TextList
    } else {
        ValueType::Text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Order {
        Name,
        Health,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(default, rename_all = "camelCase")]
    struct SampleQuery {
        limit: Option<u16>,
        sort_by: Order,
        is_open: Option<bool>,
        label: Vec<String>,
        name: Option<String>,
    }

    impl Default for SampleQuery {
        fn default() -> Self {
            Self { limit: None, sort_by: Order::Name, is_open: None, label: Vec::new(), name: None }
        }
    }

    #[test]
    fn parameters_are_parsed_by_their_types() {
        let question = QueryParser::<SampleQuery>::new();
        assert_eq!(question.parse(None).unwrap(), SampleQuery::default());
        let found =
            question.parse(Some("limit=7&sortBy=health&isOpen=false&label=a%3Db&label=c&name=12")).unwrap();
        let expected = SampleQuery {
            limit: Some(7),
            sort_by: Order::Health,
            is_open: Some(false),
            label: vec!["a=b".to_owned(), "c".to_owned()],
            name: Some("12".to_owned()),
        };
        assert_eq!(found, expected);
        for (query, part) in [
            ("limit=many", "use a number"),
            ("limit=-1", "invalid query"),
            ("limit=70000", "invalid query"),
            ("isOpen=1", "true or false"),
            ("sortBy=colour", "colour"),
            ("limit=1&limit=2", "more than once"),
            (
                "page=2",
                "unknown parameter \"page\"; supported parameters: isOpen, label, limit, name, sortBy",
            ),
            (&"name=x&".repeat(3000), "longer than"),
        ] {
            let problem = question.parse(Some(query)).unwrap_err();
            assert!(problem.message.contains(part), "{query:.30}: {}", problem.message);
        }
        let foreign = QueryParser::<SampleQuery>::ignoring_unknown();
        assert_eq!(foreign.parse(Some("session=1&session=2&limit=7")).unwrap().limit, Some(7));
        assert!(foreign.parse(Some("limit=1&limit=2")).unwrap_err().message.contains("more than once"));
        assert_eq!(QueryParser::<NoParameters>::new().parse(Some("")).unwrap(), NoParameters {});
        assert!(
            QueryParser::<NoParameters>::new()
                .parse(Some("a=b"))
                .unwrap_err()
                .message
                .contains("supported parameters: none")
        );
    }
}
