use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use tidegate_model::{Seen, Tree};

/// A value of a document with the line it stands on.
#[derive(Debug)]
pub(super) struct Node {
    /// Line inside the document, from 1.
    pub line: u64,
    pub content: Content,
}

/// What a node holds.
#[derive(Debug)]
pub(super) enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Tree for Node {
    fn seen(&self) -> Seen<'_, Self> {
        match &self.content {
            Content::Scalar(value) => Seen::Scalar(value),
            Content::List(items) => Seen::List(Box::new(items.iter())),
            Content::Map(fields) => {
                Seen::Map(Box::new(fields.iter().map(|(name, node)| (name.as_str(), node))))
            }
        }
    }
}

impl Node {
    /// A field of a map.
    pub fn get(&self, field: &str) -> Option<&Self> {
        match &self.content {
            Content::Map(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The text a node holds; empty when it holds something else.
    pub fn text(&self) -> &str {
        match &self.content {
            Content::Scalar(Value::String(text)) => text,
            _ => "",
        }
    }

    /// The line of the deepest node on a path such as `metadata.annotations.example.com/a`, whose keys may hold dots.
    pub fn line_of(&self, path: &str) -> u64 {
        let Content::Map(fields) = &self.content else { return self.line };
        for (name, node) in fields {
            match path.strip_prefix(name.as_str()) {
                Some("") => return node.line,
                Some(rest) => {
                    if let Some(rest) = rest.strip_prefix('.') {
                        return node.line_of(rest);
                    }
                }
                None => {}
            }
        }
        self.line
    }

    /// Number of values, itself and keys included, as the YAML parser counts them.
    pub fn count(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 1,
            Content::List(items) => items.iter().map(Self::count).sum::<usize>() + 1,
            Content::Map(fields) => fields.iter().map(|(_, node)| node.count() + 1).sum::<usize>() + 1,
        }
    }

    /// The value without its lines.
    pub fn into_value(self) -> Value {
        match self.content {
            Content::Scalar(value) => value,
            Content::List(items) => items.into_iter().map(Self::into_value).collect(),
            Content::Map(fields) => {
                let fields: Map<String, Value> =
                    fields.into_iter().map(|(name, node)| (name, node.into_value())).collect();
                Value::Object(fields)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), content: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl ContentVisitor {
    fn scalar<E>(value: impl Into<Value>) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }
}

/// Beyond this a floating-point number no longer holds every whole number.
const LARGEST_EXACT_WHOLE: f64 = 9_007_199_254_740_992.0;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Self::scalar(value)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Self::scalar(value)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Self::scalar(value)
    }

    /// Whole floats become integers (`1.0` is `1`, `1e3` is `1000`), as kubectl's way from YAML to JSON writes them.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Content, E> {
        if value.fract() == 0.0
            && value.abs() < LARGEST_EXACT_WHOLE
            && let Ok(whole) = format!("{value:.0}").parse::<i64>()
        {
            return Self::scalar(whole);
        }
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number must be finite"))?;
        Self::scalar(number)
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Self::scalar(value)
    }

    fn visit_string<E>(self, value: String) -> Result<Content, E> {
        Self::scalar(value)
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Self::scalar(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Self::scalar(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut fields: Vec<(String, Node)> = Vec::new();
        while let Some(key) = map.next_key::<Key>()? {
            fields.push((key.0, map.next_value()?));
        }
        Ok(Content::Map(fields))
    }
}

/// A key, which JSON knows only as text.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = Option::<String>::deserialize(deserializer)?;
        key.map(Self).ok_or_else(|| D::Error::custom("a key must be a text, found nothing"))
    }
}
