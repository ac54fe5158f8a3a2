use serde_json::{Map, Value};
use tidegate_model::{TreeNode, ValueTree};

/// A value and its line.
#[derive(Clone, Debug)]
pub struct Node {
    /// Line within the document, starting at 1.
    pub line: u64,
    /// Value of the node.
    pub content: Content,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub enum Content {
    /// A scalar.
    Scalar(Value),
    /// Elements in document order.
    List(Vec<Node>),
    /// Fields in document order, with unique names.
    Map(Vec<(String, Node)>),
}

impl ValueTree for Node {
    fn node(&self) -> TreeNode<'_, Self> {
        match &self.content {
            Content::Scalar(value) => TreeNode::Scalar(value),
            Content::List(items) => TreeNode::List(Box::new(items.iter())),
            Content::Map(fields) => {
                TreeNode::Map(Box::new(fields.iter().map(|(name, node)| (name.as_str(), node))))
            }
        }
    }
}

impl Node {
    /// Returns a field of a map.
    pub fn get(&self, field: &str) -> Option<&Self> {
        match &self.content {
            Content::Map(fields) => fields.iter().find(|(name, _)| name == field).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Returns the text of a string node, or an empty string for any other value.
    pub fn text(&self) -> &str {
        match &self.content {
            Content::Scalar(Value::String(text)) => text,
            _ => "",
        }
    }

    /// Returns the line of the deepest existing node on a path such as `metadata.annotations.example.com/a`.
    /// Keys may contain dots.
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

    /// Returns the number of values in the node, including the node itself and all keys. The size limits use
    /// the same count.
    pub fn count(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 1,
            Content::List(items) => items.iter().map(Self::count).sum::<usize>() + 1,
            Content::Map(fields) => fields.iter().map(|(_, node)| node.count() + 1).sum::<usize>() + 1,
        }
    }

    /// Converts the node to a JSON value without lines.
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
