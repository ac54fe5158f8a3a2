//! What is asked in the query of a request, read by the type that describes it.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// The longest query, in bytes: a reason may have 1024 letters, each of which takes up to 12, and codes of providers are long.
const QUERY_MAX: usize = 16 << 10;

/// Nothing is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// How the text of a parameter is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    Text,
    Number,
    Truth,
    /// It may come several times.
    Texts,
}

/// The parameters of a query.
#[derive(Debug)]
pub(crate) struct Question<Q> {
    fields: BTreeMap<String, Reads>,
    /// Somebody else writes it, who may add what they like.
    is_foreign: bool,
    of: PhantomData<fn() -> Q>,
}

impl<Q: JsonSchema + DeserializeOwned> Question<Q> {
    pub fn new() -> Self {
        let schema = schema::<Q>();
        let properties = schema.get("properties").and_then(Value::as_object);
        let fields = properties.into_iter().flatten().map(|(name, schema)| (name.clone(), reads(schema)));
        Self { fields: fields.collect(), is_foreign: false, of: PhantomData }
    }

    /// Of somebody else, who may add what they like.
    pub fn foreign() -> Self {
        Self { is_foreign: true, ..Self::new() }
    }

    /// Reads a query. A parameter that is not known is an error: it would be missed that it has no effect.
    pub fn read(&self, query: Option<&str>) -> Result<Q, Problem> {
        let query = query.unwrap_or_default();
        if query.len() > QUERY_MAX {
            return Err(Problem::bad(format!("the query is longer than {QUERY_MAX} bytes")));
        }
        let mut found = Map::new();
        for (name, text) in form_urlencoded::parse(query.as_bytes()) {
            let Some(reads) = self.fields.get(name.as_ref()) else {
                if self.is_foreign {
                    continue;
                }
                let known: Vec<&str> = self.fields.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none is taken here".to_owned() } else { known.join(", ") };
                return Err(Problem::bad(format!("there is no parameter {name:?}; known are: {known}")));
            };
            let wrong = |wanted| Problem::bad(format!("{name} is {wanted}, and not {text:?}"));
            let value = match reads {
                Reads::Number => text.parse::<i64>().map_err(|_| wrong("a number"))?.into(),
                Reads::Truth => text.parse::<bool>().map_err(|_| wrong("true or false"))?.into(),
                Reads::Text => Value::from(text.as_ref()),
                Reads::Texts => {
                    let all = found.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                    all.as_array_mut().into_iter().for_each(|all| all.push(text.as_ref().into()));
                    continue;
                }
            };
            if found.insert(name.clone().into_owned(), value).is_some() {
                return Err(Problem::bad(format!("{name} is there more than once")));
            }
        }
        serde_path_to_error::deserialize(Value::Object(found))
            .map_err(|error| Problem::bad(format!("the query: {error}")))
    }
}

/// The schema of a query, in one piece.
pub(crate) fn schema<Q: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<Q>()
}

fn reads(schema: &Value) -> Reads {
    let is = |wanted: &str| match schema.get("type") {
        Some(Value::String(kind)) => kind == wanted,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    };
    if is("integer") {
        Reads::Number
    } else if is("boolean") {
        Reads::Truth
    } else if is("array") {
        Reads::Texts
    } else {
        Reads::Text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
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
    struct Asked {
        limit: Option<u16>,
        sort_by: Order,
        is_open: Option<bool>,
        label: Vec<String>,
        name: Option<String>,
    }

    impl Default for Asked {
        fn default() -> Self {
            Self { limit: None, sort_by: Order::Name, is_open: None, label: Vec::new(), name: None }
        }
    }

    #[test]
    fn parameters_are_read_by_their_types() {
        let question = Question::<Asked>::new();
        assert_eq!(question.read(None).unwrap(), Asked::default());
        let found =
            question.read(Some("limit=7&sortBy=health&isOpen=false&label=a%3Db&label=c&name=12")).unwrap();
        let expected = Asked {
            limit: Some(7),
            sort_by: Order::Health,
            is_open: Some(false),
            label: vec!["a=b".to_owned(), "c".to_owned()],
            name: Some("12".to_owned()),
        };
        assert_eq!(found, expected);
        for (query, part) in [
            ("limit=many", "limit is a number"),
            ("limit=-1", "the query"),
            ("limit=70000", "the query"),
            ("isOpen=1", "true or false"),
            ("sortBy=colour", "colour"),
            ("limit=1&limit=2", "more than once"),
            ("page=2", "there is no parameter \"page\"; known are: isOpen, label, limit, name, sortBy"),
            (&"name=x&".repeat(3000), "longer than"),
        ] {
            let problem = question.read(Some(query)).unwrap_err();
            assert!(problem.message.contains(part), "{query:.30}: {}", problem.message);
        }
        let foreign = Question::<Asked>::foreign();
        assert_eq!(foreign.read(Some("session=1&session=2&limit=7")).unwrap().limit, Some(7));
        assert!(foreign.read(Some("limit=1&limit=2")).unwrap_err().message.contains("more than once"));
        assert_eq!(Question::<Nothing>::new().read(Some("")).unwrap(), Nothing {});
        assert!(Question::<Nothing>::new().read(Some("a=b")).unwrap_err().message.contains("none is taken"));
    }
}
