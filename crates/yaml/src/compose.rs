use std::collections::{BTreeMap, HashMap};

use super::Cause;
use super::Limits;
use super::maps::{Entry, fields};
use super::node::{Content, Node};
use super::scanner::Scanner;
use super::token::{Token, unexpected};
use super::{Document, Problem, resolve};

/// Puts tokens together to nodes, with aliases and merge keys expanded.
pub(super) struct Composer<'t, 'l> {
    scanner: Scanner<'t>,
    limits: &'l Limits,
    /// Values named by an anchor, with how many values they hold.
    anchors: HashMap<&'t str, (Node, usize)>,
    /// What the handles of tags stand for.
    handles: BTreeMap<&'t str, String>,
    duplicates: Vec<Problem>,
    nodes: usize,
    expanded: usize,
    depth: usize,
}

/// Where a node stands: some may be left out, and a list need not be indented everywhere.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Flow,
    Block,
    /// The value of a key, whose list may stand at the column of the key.
    BlockValue,
}

/// What a key says: a name, or that the maps behind it are to be merged.
enum Key {
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

    pub fn document(mut self) -> Result<Document, Problem> {
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
                return Err(Problem::syntax(line, "`---` is missing after the `%` lines"));
            }
            _ => {}
        }
        let node = match self.scanner.peek()? {
            (Token::DocumentStart | Token::DocumentEnd | Token::End, line) => Self::empty(line),
            _ => self.node(Place::Block)?,
        };
        if let (Token::DocumentEnd, _) = self.scanner.peek()? {
            self.scanner.take()?;
        }
        match self.scanner.peek()? {
            (Token::End, _) => Ok(Document { node, duplicates: self.duplicates }),
            (token, line) => Err(Problem::syntax(line, unexpected(token, "the end of the document"))),
        }
    }

    fn empty(line: u64) -> Node {
        Node { line, content: Content::Scalar(serde_json::Value::Null) }
    }

    fn count(&mut self, line: u64, values: usize) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(values);
        if self.nodes <= self.limits.nodes {
            return Ok(());
        }
        let what = format!("more than {} values", self.limits.nodes);
        Err(Problem::new(line, Cause::TooMuch { what }))
    }

    fn node(&mut self, place: Place) -> Result<Node, Problem> {
        let (mut anchor, mut tag, mut first_line) = (None, None, None);
        loop {
            let (token, line) = self.scanner.peek()?;
            match token {
                Token::Alias(name) => {
                    let name = *name;
                    self.scanner.take()?;
                    return self.alias(name, line);
                }
                Token::Anchor(name) if anchor.is_none() => {
                    anchor = Some(*name);
                    self.scanner.take()?;
                }
                Token::Tag(handle, suffix) if tag.is_none() => {
                    let full = Self::full_tag(&self.handles, handle, suffix, line)?;
                    tag = Some(full);
                    self.scanner.take()?;
                }
                _ => break,
            }
            first_line.get_or_insert(line);
        }
        let node = self.content(place, tag.as_deref(), first_line)?;
        if let Some(name) = anchor {
            // The copy is a value like any other: nested anchors cannot fill the memory.
            let count = node.count();
            self.count(node.line, count)?;
            self.anchors.insert(name, (node.clone(), count));
        }
        Ok(node)
    }

    fn full_tag(
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
                return Err(Problem::syntax(line, format!("no `%TAG` line says what {handle:?} is")));
            }
        };
        Ok(format!("{prefix}{suffix}"))
    }

    fn alias(&mut self, name: &str, line: u64) -> Result<Node, Problem> {
        let Some((node, count)) = self.anchors.get(name) else {
            let message =
                format!("the alias *{name} stands for no value before it; put quotes around a text");
            return Err(Problem::syntax(line, message));
        };
        let (node, count) = (Node { line, content: node.content.clone() }, *count);
        self.expanded = self.expanded.saturating_add(count);
        if self.expanded > self.limits.alias_expansion {
            let what = format!("more than {} values", self.limits.alias_expansion);
            return Err(Problem::new(line, Cause::AliasBomb { what }));
        }
        self.count(line, count)?;
        Ok(node)
    }

    /// A node behind its anchor and tag, which began on `first_line`.
    fn content(&mut self, place: Place, tag: Option<&str>, first_line: Option<u64>) -> Result<Node, Problem> {
        let (token, line) = self.scanner.peek()?;
        match token {
            Token::BlockEntry if place == Place::BlockValue => self.nested(line, Self::indentless_list),
            Token::Scalar { .. } => self.scalar(tag),
            Token::FlowSequence => self.opened(Self::flow_list),
            Token::FlowMapping => self.opened(Self::flow_map),
            Token::BlockSequence if place != Place::Flow => self.opened(Self::block_list),
            Token::BlockMapping if place != Place::Flow => self.opened(Self::block_map),
            token => match first_line {
                Some(line) => {
                    self.count(line, 1)?;
                    Ok(Node { line, content: Content::Scalar(value("", true, tag, line)?) })
                }
                None => Err(Problem::syntax(line, unexpected(token, "a value"))),
            },
        }
    }

    fn scalar(&mut self, tag: Option<&str>) -> Result<Node, Problem> {
        let (token, line) = self.scanner.take()?;
        self.count(line, 1)?;
        let Token::Scalar { text, plain } = token else { return Ok(Self::empty(line)) };
        Ok(Node { line, content: Content::Scalar(value(&text, plain, tag, line)?) })
    }

    fn opened(&mut self, inside: fn(&mut Self) -> Result<Content, Problem>) -> Result<Node, Problem> {
        let (_, line) = self.scanner.take()?;
        self.nested(line, inside)
    }

    fn nested(
        &mut self,
        line: u64,
        inside: fn(&mut Self) -> Result<Content, Problem>,
    ) -> Result<Node, Problem> {
        self.count(line, 1)?;
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(Problem::new(line, Cause::TooDeep { limit: self.limits.depth }));
        }
        let content = inside(self)?;
        self.depth -= 1;
        Ok(Node { line, content })
    }

    /// The node that comes next, or nothing where one of these tokens stands.
    fn node_unless(&mut self, place: Place, is_end: fn(&Token<'_>) -> bool) -> Result<Node, Problem> {
        // What is left out stands behind the token before it.
        let line = self.scanner.taken_line;
        if is_end(self.scanner.peek()?.0) {
            self.count(line, 1)?;
            return Ok(Self::empty(line));
        }
        self.node(place)
    }

    /// Takes the next token if it is the one.
    fn takes(&mut self, wanted: &Token<'_>) -> Result<bool, Problem> {
        let found = self.scanner.peek()?.0 == wanted;
        if found {
            self.scanner.take()?;
        }
        Ok(found)
    }

    fn expect(&mut self, wanted: &Token<'_>, name: &str) -> Result<(), Problem> {
        if self.takes(wanted)? {
            return Ok(());
        }
        let (token, line) = self.scanner.peek()?;
        Err(Problem::syntax(line, unexpected(token, name)))
    }

    fn block_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.takes(&Token::BlockEntry)? {
            let is_end = |token: &Token<'_>| matches!(token, Token::BlockEntry | Token::BlockEnd);
            items.push(self.node_unless(Place::Block, is_end)?);
        }
        self.expect(&Token::BlockEnd, "`- ` at the column of the list")?;
        Ok(Content::List(items))
    }

    fn indentless_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while self.takes(&Token::BlockEntry)? {
            let is_end = |token: &Token<'_>| {
                matches!(token, Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd)
            };
            items.push(self.node_unless(Place::Block, is_end)?);
        }
        Ok(Content::List(items))
    }

    fn block_map(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::Key | Token::Value | Token::BlockEnd);
        let mut entries = Vec::new();
        while self.takes(&Token::Key)? {
            let key = self.key(Place::BlockValue, is_end)?;
            let value = self.value(Place::BlockValue, is_end)?;
            self.add(&mut entries, key, value)?;
        }
        self.expect(&Token::BlockEnd, "a key at the column of the map")?;
        Ok(Content::Map(fields(entries, &mut self.duplicates)))
    }

    fn flow_list(&mut self) -> Result<Content, Problem> {
        let mut items = Vec::new();
        while !self.takes(&Token::FlowSequenceEnd)? {
            if !items.is_empty() {
                self.expect(&Token::FlowEntry, "`,` or `]`")?;
                if self.takes(&Token::FlowSequenceEnd)? {
                    break;
                }
            }
            let (_, line) = self.scanner.peek()?;
            let item = if self.takes(&Token::Key)? {
                self.nested(line, Self::pair)?
            } else {
                self.node(Place::Flow)?
            };
            items.push(item);
        }
        Ok(Content::List(items))
    }

    /// A map of one entry in a list: `[a: 1]`.
    fn pair(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::FlowEntry | Token::FlowSequenceEnd);
        let is_key_end =
            |token: &Token<'_>| matches!(token, Token::Value | Token::FlowEntry | Token::FlowSequenceEnd);
        let mut entries = Vec::new();
        let key = self.key(Place::Flow, is_key_end)?;
        let value = self.value(Place::Flow, is_end)?;
        self.add(&mut entries, key, value)?;
        Ok(Content::Map(fields(entries, &mut self.duplicates)))
    }

    fn flow_map(&mut self) -> Result<Content, Problem> {
        let is_end = |token: &Token<'_>| matches!(token, Token::FlowEntry | Token::FlowMappingEnd);
        let is_key_end =
            |token: &Token<'_>| matches!(token, Token::Value | Token::FlowEntry | Token::FlowMappingEnd);
        let mut entries = Vec::new();
        let mut first = true;
        while !self.takes(&Token::FlowMappingEnd)? {
            if !first {
                self.expect(&Token::FlowEntry, "`,` or `}`")?;
                if self.takes(&Token::FlowMappingEnd)? {
                    break;
                }
            }
            first = false;
            let (key, value) = if self.takes(&Token::Key)? {
                (self.key(Place::Flow, is_key_end)?, self.value(Place::Flow, is_end)?)
            } else {
                let key = self.key(Place::Flow, |_| false)?;
                let line = key.1;
                self.count(line, 1)?;
                (key, Self::empty(line))
            };
            self.add(&mut entries, key, value)?;
        }
        Ok(Content::Map(fields(entries, &mut self.duplicates)))
    }

    /// The value of a key, if it has one.
    fn value(&mut self, place: Place, is_end: fn(&Token<'_>) -> bool) -> Result<Node, Problem> {
        if self.takes(&Token::Value)? {
            return self.node_unless(place, is_end);
        }
        let line = self.scanner.taken_line;
        self.count(line, 1)?;
        Ok(Self::empty(line))
    }

    fn key(&mut self, place: Place, is_end: fn(&Token<'_>) -> bool) -> Result<(Key, u64), Problem> {
        let (token, line) = self.scanner.peek()?;
        if let Token::Scalar { text, plain } = token {
            // Nearly every key is a plain text: no node is made of it.
            let (is_merge, text) = (*plain && text == "<<", text.clone());
            let key = resolve::scalar(&text, *plain, None).and_then(resolve::key);
            self.scanner.take()?;
            self.count(line, 1)?;
            let key = key.map_err(|cause| Problem::new(line, cause))?;
            return Ok((if is_merge { Key::Merge } else { Key::Name(key) }, line));
        }
        let is_merge = matches!(token, Token::Tag("!!", suffix) if suffix == "merge");
        let node = self.node_unless(place, is_end)?;
        match node.content {
            _ if is_merge => Ok((Key::Merge, line)),
            Content::Scalar(value) => {
                let scalar = match value {
                    serde_json::Value::String(text) => resolve::Scalar::Text(text),
                    serde_json::Value::Null => resolve::Scalar::Null,
                    other => resolve::Scalar::Text(other.to_string()),
                };
                let key = resolve::key(scalar).map_err(|cause| Problem::new(line, cause))?;
                Ok((Key::Name(key), line))
            }
            _ => Err(Problem::syntax(line, "a key must be a text, not a list or map")),
        }
    }

    fn add(&mut self, entries: &mut Vec<Entry>, key: (Key, u64), node: Node) -> Result<(), Problem> {
        let line = key.1;
        let maps = match (key.0, node) {
            (Key::Name(key), node) => {
                entries.push(Entry { key, line, node, merged: false });
                return Ok(());
            }
            (Key::Merge, Node { content: Content::List(items), .. }) => items,
            (Key::Merge, node) => vec![node],
        };
        // The first map of a list wins.
        for map in maps.into_iter().rev() {
            let Content::Map(fields) = map.content else {
                return Err(Problem::syntax(line, "`<<` merges a map, or a list of maps"));
            };
            entries.extend(fields.into_iter().map(|(key, node)| Entry { key, line, node, merged: true }));
        }
        Ok(())
    }
}

fn value(text: &str, plain: bool, tag: Option<&str>, line: u64) -> Result<serde_json::Value, Problem> {
    resolve::scalar(text, plain, tag).and_then(resolve::value).map_err(|cause| Problem::new(line, cause))
}
