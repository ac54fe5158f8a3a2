use std::collections::{BTreeMap, HashMap};

use super::Limits;
use super::ProblemCause;
use super::maps::{Entry, unique_fields};
use super::node::{Content, Node};
use super::scanner::Scanner;
use super::token::{Token, unexpected};
use super::{Document, Problem, resolve};

/// Composes tokens into nodes, and expands aliases and merge keys.
pub(super) struct Composer<'t, 'l> {
    scanner: Scanner<'t>,
    limits: &'l Limits,
    /// Anchored nodes, each with its number of values.
    anchors: HashMap<&'t str, (Node, usize)>,
    /// Tag handles and their prefixes.
    handles: BTreeMap<&'t str, String>,
    duplicates: Vec<Problem>,
    nodes: usize,
    expanded: usize,
    depth: usize,
}

/// Position of a node. Determines if the node may be empty or a list without indentation.
#[derive(Clone, Copy, PartialEq)]
enum NodePosition {
    Flow,
    Block,
    /// Value of a key in a block map. A list may start at the column of the key.
    BlockValue,
}

/// Key of a map: either a name or the merge key `<<`.
enum MapKey {
    Name(String),
    Merge,
}

impl<'t, 'l> Composer<'t, 'l> {
    pub fn new(text: &'t str, limits: &'l Limits) -> Self {
        Self {
            scanner: Scanner::new(text),
            limits,
            anchors: HashMap::new(),
            handles: BTreeMap::new(),
            duplicates: Vec::new(),
            nodes: 0,
            expanded: 0,
            depth: 0,
        }
    }

    pub fn compose_document(mut self) -> Result<Document, Problem> {
        let mut directives = false;
        while let (Token::TagDirective(..) | Token::VersionDirective, _) = self.scanner.peek()? {
            directives = true;
            if let (Token::TagDirective(handle, prefix), _) = self.scanner.take()? {
                self.handles.insert(handle, prefix);
            }
        }
        match self.scanner.peek()? {
            (Token::DocumentStart, _) => {
                self.scanner.take()?;
            }
            (_, line) if directives => {
                return Err(Problem::syntax(line, "`---` is missing after the directives"));
            }
            _ => {}
        }
        let node = match self.scanner.peek()? {
            (Token::DocumentStart | Token::DocumentEnd | Token::End, line) => Self::empty_node(line),
            _ => self.compose_node(NodePosition::Block)?,
        };
        if let (Token::DocumentEnd, _) = self.scanner.peek()? {
            self.scanner.take()?;
        }
        match self.scanner.peek()? {
            (Token::End, _) => Ok(Document { node, duplicates: self.duplicates }),
            (token, line) => Err(Problem::syntax(line, unexpected(token, "the end of the document"))),
        }
    }

    fn empty_node(line: u64) -> Node {
        Node { line, content: Content::Scalar(serde_json::Value::Null) }
    }

    fn count_values(&mut self, line: u64, values: usize) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(values);
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let what = format!("more than {} values", self.limits.nodes);
        Err(Problem::new(line, ProblemCause::TooMuch { what }))
    }

    fn compose_node(&mut self, place: NodePosition) -> Result<Node, Problem> {
        let (mut anchor, mut tag, mut first_line) = (None, None, None);
        loop {
            let (token, line) = self.scanner.peek()?;
            match token {
                Token::Alias(name) => {
                    let name = *name;
                    self.scanner.take()?;
                    return self.expand_alias(name, line);
                }
                Token::Anchor(name) if anchor.is_none() => {
                    anchor = Some(*name);
                    self.scanner.take()?;
                }
                Token::Tag(handle, suffix) if tag.is_none() => {
                    let full = Self::resolve_tag(&self.handles, handle, suffix, line)?;
                    tag = Some(full);
                    self.scanner.take()?;
                }
                _ => break,
            }
            first_line.get_or_insert(line);
        }
        let node = self.compose_content(place, tag.as_deref(), first_line)?;
        if let Some(name) = anchor {
            // The stored copy counts toward the limit like any other value, so nested anchors can't exhaust
            // the memory.
            let count = node.count();
            self.count_values(node.line, count)?;
            self.anchors.insert(name, (node.clone(), count));
        }
        Ok(node)
    }

    fn resolve_tag(
        handles: &BTreeMap<&str, String>,
        handle: &str,
        suffix: &str,
        line: u64,
    ) -> Result<String, Problem> {
        let prefix = match (handles.get(handle), handle) {
            (Some(prefix), _) => prefix.as_str(),
            (None, "!") => "!",
            (None, "!!") => resolve::YAML_TAGS,
            (None, "") => "",
            (None, _) => {
                return Err(Problem::syntax(
                    line,
                    format!("undefined tag handle {handle:?}; declare it with `%TAG`"),
                ));
            }
        };
        Ok(format!("{prefix}{suffix}"))
    }

    fn expand_alias(&mut self, name: &str, line: u64) -> Result<Node, Problem> {
        let Some((node, count)) = self.anchors.get(name) else {
            let message = format!("undefined alias *{name}; put quotes around a string that begins with `*`");
            return Err(Problem::syntax(line, message));
        };
        let (node, count) = (Node { line, content: node.content.clone() }, *count);
        self.expanded = self.expanded.saturating_add(count);
        if self.expanded > self.limits.alias_expansion {
            let what = format!("more than {} values", self.limits.alias_expansion);
            return Err(Problem::new(line, ProblemCause::AliasBomb { what }));
        }
        self.count_values(line, count)?;
        Ok(node)
    }

    /// Reads the node after its anchor and tag, if any. `first_line` is the first line of the anchor or tag.
    fn compose_content(
        &mut self,
        place: NodePosition,
        tag: Option<&str>,
        first_line: Option<u64>,
    ) -> Result<Node, Problem> {
        let (token, line) = self.scanner.peek()?;
        match token {
            Token::BlockEntry if place == NodePosition::BlockValue => {
                self.compose_nested(line, Self::compose_indentless_list)
            }
            Token::Scalar { .. } => self.compose_scalar(tag),
            Token::FlowSequence => self.compose_flow(Self::compose_flow_list),
            Token::FlowMapping => self.compose_flow(Self::compose_flow_map),
            Token::BlockSequence if place != NodePosition::Flow => {
                self.compose_flow(Self::compose_block_list)
            }
            Token::BlockMapping if place != NodePosition::Flow => self.compose_flow(Self::compose_block_map),
            token => match first_line {
                Some(line) => {
                    self.count_values(line, 1)?;
                    Ok(Node { line, content: Content::Scalar(scalar_value("", true, tag, line)?) })
                }
                None => Err(Problem::syntax(line, unexpected(token, "a value"))),
            },
        }
    }

    fn compose_scalar(&mut self, tag: Option<&str>) -> Result<Node, Problem> {
        let (token, line) = self.scanner.take()?;
        self.count_values(line, 1)?;
        let Token::Scalar { text, plain } = token else { return Ok(Self::empty_node(line)) };
        Ok(Node { line, content: Content::Scalar(scalar_value(&text, plain, tag, line)?) })
    }

    fn compose_flow(&mut self, inside: fn(&mut Self) -> Result<Content, Problem>) -> Result<Node, Problem> {
        let (_, line) = self.scanner.take()?;
        self.compose_nested(line, inside)
    }

    fn compose_nested(
        &mut self,
        line: u64,
        inside: fn(&mut Self) -> Result<Content, Problem>,
    ) -> Result<Node, Problem> {
        self.count_values(line, 1)?;
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(Problem::new(line, ProblemCause::TooDeep { limit: self.limits.depth }));
        }
        let content = inside(self)?;
        self.depth -= 1;
        Ok(Node { line, content })
    }

    /// Reads the next node, or returns an empty one if `is_end` returns true for the next token.
    fn node_unless(&mut self, place: NodePosition, is_end: fn(&Token<'_>) -> bool) -> Result<Node, Problem> {
        // An empty node has the line of the preceding token.
        let line = self.scanner.taken_line;
        if is_end(self.scanner.peek()?.0) {
            self.count_values(line, 1)?;
            return Ok(Self::empty_node(line));
        }
        self.compose_node(place)
    }

    /// Consumes the next token if it equals `wanted`.
    fn take_if(&mut self, wanted: &Token<'_>) -> Result<bool, Problem> {
        let found = self.scanner.peek()?.0 == wanted;
        if found {
            self.scanner.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: &Token<'_>, name: &str) -> Result<(), Problem> {
        if self.take_if(wanted)? {
            return Ok(());
        }
        let (token, line) = self.scanner.peek()?;
        Err(Problem::syntax(line, unexpected(token, name)))
    }

    fn compose_block_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.take_if(&Token::BlockEntry)? {
            let is_end = |token: &Token<'_>| matches!(token, Token::BlockEntry | Token::BlockEnd);
            items.push(self.node_unless(NodePosition::Block, is_end)?);
        }
        self.expect(&Token::BlockEnd, "`- ` with the same indentation as the list's other entries")?;
        Ok(Content::List(items))
    }

    fn compose_indentless_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.take_if(&Token::BlockEntry)? {
            let is_end = |token: &Token<'_>| {
                matches!(token, Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd)
            };
            items.push(self.node_unless(NodePosition::Block, is_end)?);
        }
        Ok(Content::List(items))
    }

    fn compose_block_map(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::Key | Token::Value | Token::BlockEnd);
        let mut entries = Vec::new();
        while self.take_if(&Token::Key)? {
            let (key, line) = self.compose_key(NodePosition::BlockValue, is_end)?;
            let value = self.compose_value(NodePosition::BlockValue, is_end)?;
            self.add(&mut entries, key, line, value)?;
        }
        self.expect(&Token::BlockEnd, "a key with the same indentation as the map's other keys")?;
        Ok(Content::Map(unique_fields(entries, &mut self.duplicates)))
    }

    fn compose_flow_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while !self.take_if(&Token::FlowSequenceEnd)? {
            if !items.is_empty() {
                self.expect(&Token::FlowEntry, "`,` or `]`")?;
                if self.take_if(&Token::FlowSequenceEnd)? {
                    break;
                }
            }
            let (_, line) = self.scanner.peek()?;
            let item = if self.take_if(&Token::Key)? {
                self.compose_nested(line, Self::compose_pair)?
            } else {
                self.compose_node(NodePosition::Flow)?
            };
            items.push(item);
        }
        Ok(Content::List(items))
    }

    /// Reads a single-entry map inside a list, written without braces: `[a: 1]`.
    fn compose_pair(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::FlowEntry | Token::FlowSequenceEnd);
        let is_key_end =
            |token: &Token<'_>| matches!(token, Token::Value | Token::FlowEntry | Token::FlowSequenceEnd);
        let mut entries = Vec::new();
        let (key, line) = self.compose_key(NodePosition::Flow, is_key_end)?;
        let value = self.compose_value(NodePosition::Flow, is_end)?;
        self.add(&mut entries, key, line, value)?;
        Ok(Content::Map(unique_fields(entries, &mut self.duplicates)))
    }

    fn compose_flow_map(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::FlowEntry | Token::FlowMappingEnd);
        let is_key_end =
            |token: &Token<'_>| matches!(token, Token::Value | Token::FlowEntry | Token::FlowMappingEnd);
        let mut entries = Vec::new();
        let mut first = true;
        while !self.take_if(&Token::FlowMappingEnd)? {
            if !first {
                self.expect(&Token::FlowEntry, "`,` or `}`")?;
                if self.take_if(&Token::FlowMappingEnd)? {
                    break;
                }
            }
            first = false;
            let (key, line, value) = if self.take_if(&Token::Key)? {
                let (key, line) = self.compose_key(NodePosition::Flow, is_key_end)?;
                (key, line, self.compose_value(NodePosition::Flow, is_end)?)
            } else {
                let (key, line) = self.compose_key(NodePosition::Flow, |_| false)?;
                self.count_values(line, 1)?;
                (key, line, Self::empty_node(line))
            };
            self.add(&mut entries, key, line, value)?;
        }
        Ok(Content::Map(unique_fields(entries, &mut self.duplicates)))
    }

    /// Reads the value of a key, or returns an empty node if there is none.
    fn compose_value(
        &mut self,
        place: NodePosition,
        is_end: fn(&Token<'_>) -> bool,
    ) -> Result<Node, Problem> {
        if self.take_if(&Token::Value)? {
            return self.node_unless(place, is_end);
        }
        let line = self.scanner.taken_line;
        self.count_values(line, 1)?;
        Ok(Self::empty_node(line))
    }

    fn compose_key(
        &mut self,
        place: NodePosition,
        is_end: fn(&Token<'_>) -> bool,
    ) -> Result<(MapKey, u64), Problem> {
        let (token, line) = self.scanner.peek()?;
        if let Token::Scalar { text, plain } = token {
            // Fast path: nearly every key is a scalar without a tag or an anchor, and doesn't need a node.
            let (is_merge, text) = (*plain && text == "<<", text.clone());
            let key = resolve::resolve_scalar(&text, *plain, None).and_then(resolve::to_key);
            self.scanner.take()?;
            self.count_values(line, 1)?;
            let key = key.map_err(|cause| Problem::new(line, cause))?;
            return Ok((if is_merge { MapKey::Merge } else { MapKey::Name(key) }, line));
        }
        let is_merge = matches!(token, Token::Tag("!!", suffix) if suffix == "merge");
        let node = self.node_unless(place, is_end)?;
        match node.content {
            _ if is_merge => Ok((MapKey::Merge, line)),
            Content::Scalar(value) => {
                let scalar = match value {
                    serde_json::Value::String(text) => resolve::Scalar::Text(text),
                    serde_json::Value::Null => resolve::Scalar::Null,
                    other => resolve::Scalar::Text(other.to_string()),
                };
                let key = resolve::to_key(scalar).map_err(|cause| Problem::new(line, cause))?;
                Ok((MapKey::Name(key), line))
            }
            _ => Err(Problem::syntax(line, "a key must be a string, not a list or map")),
        }
    }

    fn add(&mut self, entries: &mut Vec<Entry>, key: MapKey, line: u64, node: Node) -> Result<(), Problem> {
        let maps = match (key, node) {
            (MapKey::Name(key), node) => {
                entries.push(Entry { key, line, node, is_merged: false });
                return Ok(());
            }
            (MapKey::Merge, Node { content: Content::List(items), .. }) => items,
            (MapKey::Merge, node) => vec![node],
        };
        // A later entry overrides an earlier one, so iterate in reverse: the first map in the list takes
        // precedence.
        for map in maps.into_iter().rev() {
            let Content::Map(fields) = map.content else {
                return Err(Problem::syntax(line, "the value of `<<` must be a map or a list of maps"));
            };
            entries.extend(fields.into_iter().map(|(key, node)| Entry { key, line, node, is_merged: true }));
        }
        Ok(())
    }
}

fn scalar_value(text: &str, plain: bool, tag: Option<&str>, line: u64) -> Result<serde_json::Value, Problem> {
    resolve::resolve_scalar(text, plain, tag)
        .and_then(resolve::to_json)
        .map_err(|cause| Problem::new(line, cause))
}
