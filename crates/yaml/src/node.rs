use serde_json::{Map, Value};
use tidegate_model::{Seen, Tree};

/// A value of a document with the line it stands on.
#[derive(Clone, Debug)]
pub struct Node {
    /// Line inside the document, from 1.
    pub line: u64,
    /// What it is.
    pub content: Content,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Content {
    /// Anything but a list or a map.
    Scalar(Value),
    /// Values in their order.
    List(Vec<Node>),
    /// Fields in their order, each name once.
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

    /// Number of values, itself and keys included, as the limits count them.
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
