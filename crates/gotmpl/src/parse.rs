//! Parser with the same error messages as Go's parser.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lexer::{Keyword, Token, TokenKind, tokenize};
use crate::node::{Branch, Command, Node, Number, Operand, OperandKind, Pipe};
use crate::quote::{quote_string, unquote};
use crate::{MAX_DEPTH, ParseError};

/// Templates defined in one text, by name.
pub(crate) type Trees = BTreeMap<String, Vec<Node>>;

/// Parses template text, including the nested templates that it defines. `name` is the name of the outermost
/// template.
pub(crate) fn parse(name: &str, text: &str, is_function: &dyn Fn(&str) -> bool) -> Result<Trees, ParseError> {
    let (tokens, error) = tokenize(text);
    let mut parser = Parser {
        name,
        tokens,
        error,
        next: 0,
        tokens_read: Cell::new(0),
        variables: vec!["$".to_owned()],
        is_function,
        trees: Trees::new(),
        loops: 0,
        depth: 0,
        action_line: 0,
    };
    let list = parser.parse_top()?;
    parser.add_template(name, list)?;
    Ok(parser.trees)
}

fn is_empty(list: &[Node]) -> bool {
    list.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}

struct Parser<'t> {
    name: &'t str,
    tokens: Vec<Token<'t>>,
    /// Lexer error for the text after the last token.
    error: Option<String>,
    next: usize,
    /// Number of tokens inspected. Go reports errors at the line of the last one.
    tokens_read: Cell<usize>,
    variables: Vec<String>,
    is_function: &'t dyn Fn(&str) -> bool,
    trees: Trees,
    loops: usize,
    depth: usize,
    action_line: usize,
}

type ParseResult<T> = Result<T, ParseError>;

/// Keyword that ended a list of nodes.
enum Ending {
    End,
    Else,
}

/// Result of parsing an action.
enum ParsedItem {
    Node(Node),
    Ending(Ending),
    /// A template definition, which doesn't produce a node.
    Nothing,
}

impl<'t> Parser<'t> {
    fn fail<T>(&self, message: impl Into<String>) -> ParseResult<T> {
        Err(ParseError { template: self.name.to_owned(), line: self.line(), message: message.into() })
    }

    fn line(&self) -> usize {
        let last = self.tokens.get(self.tokens_read.get().saturating_sub(1)).or(self.tokens.last());
        last.map_or(1, |token| token.line)
    }

    fn peek(&self) -> Token<'t> {
        self.tokens_read.set(self.tokens_read.get().max(self.next.saturating_add(1)));
        let end = Token { kind: TokenKind::End, offset: 0, text: "", line: 1 };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next = self.next.saturating_add(1).min(self.tokens.len());
        token
    }

    fn unread(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    fn skip_space(&mut self) {
        while self.peek().kind == TokenKind::Space {
            self.next = self.next.saturating_add(1);
        }
    }

    fn peek_word(&mut self) -> Token<'t> {
        self.skip_space();
        self.peek()
    }

    fn take_word(&mut self) -> Token<'t> {
        self.skip_space();
        self.take()
    }

    fn unexpected<T>(&self, token: Token<'t>, context: &str) -> ParseResult<T> {
        match &self.error {
            Some(error) if token.kind == TokenKind::End => {
                if self.action_line != 0 && self.action_line != token.line {
                    let began = if error.ends_with(" action") { " started" } else { " in action started" };
                    return self.fail(format!("{error}{began} at {}:{}", self.name, self.action_line));
                }
                self.fail(error.clone())
            }
            _ => self.fail(format!("unexpected {token} in {context}")),
        }
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> ParseResult<Token<'t>> {
        let token = self.take_word();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    /// Parses the top level of a template, up to the end of the text.
    fn parse_top(&mut self) -> ParseResult<Vec<Node>> {
        let mut list = Vec::new();
        loop {
            if self.peek().kind == TokenKind::End && self.error.is_none() {
                return Ok(list);
            }
            match self.parse_item()? {
                ParsedItem::Node(node) => list.push(node),
                ParsedItem::Nothing => {}
                ParsedItem::Ending(Ending::End) => return self.fail("unexpected {{end}}"),
                ParsedItem::Ending(Ending::Else) => return self.fail("unexpected {{else}}"),
            }
        }
    }

    /// Parses the body of a construct, up to the keyword that ends it.
    fn parse_list(&mut self) -> ParseResult<(Vec<Node>, Ending)> {
        let mut list = Vec::new();
        loop {
            if self.peek_word().kind == TokenKind::End && self.error.is_none() {
                return self.fail("unexpected EOF");
            }
            match self.parse_item()? {
                ParsedItem::Node(node) => list.push(node),
                ParsedItem::Nothing => return self.fail("unexpected <define> in command"),
                ParsedItem::Ending(ending) => return Ok((list, ending)),
            }
        }
    }

    fn parse_item(&mut self) -> ParseResult<ParsedItem> {
        let token = self.take_word();
        match token.kind {
            TokenKind::Text => Ok(ParsedItem::Node(Node::Text(token.text.to_owned()))),
            TokenKind::LeftDelim => {
                self.action_line = token.line;
                let item = self.parse_action();
                self.action_line = 0;
                item
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn parse_action(&mut self) -> ParseResult<ParsedItem> {
        let token = self.take_word();
        let TokenKind::Keyword(word) = token.kind else {
            self.unread();
            let pipe = self.parse_pipe("command", TokenKind::RightDelim)?;
            return Ok(ParsedItem::Node(Node::Action(pipe)));
        };
        match word {
            Keyword::End => {
                self.expect(TokenKind::RightDelim, "end")?;
                Ok(ParsedItem::Ending(Ending::End))
            }
            Keyword::Else => {
                if !matches!(self.peek_word().kind, TokenKind::Keyword(Keyword::If | Keyword::With)) {
                    self.expect(TokenKind::RightDelim, "else")?;
                }
                Ok(ParsedItem::Ending(Ending::Else))
            }
            Keyword::If => Ok(ParsedItem::Node(Node::If(self.parse_branch(word)?))),
            Keyword::With => Ok(ParsedItem::Node(Node::With(self.parse_branch(word)?))),
            Keyword::Range => Ok(ParsedItem::Node(Node::Range(self.parse_branch(word)?))),
            Keyword::Template => self.parse_template().map(ParsedItem::Node),
            Keyword::Block => self.parse_block().map(ParsedItem::Node),
            Keyword::Define => self.parse_define(),
            Keyword::Break => self.parse_loop_exit("{{break}}", Node::Break),
            Keyword::Continue => self.parse_loop_exit("{{continue}}", Node::Continue),
        }
    }

    fn parse_loop_exit(&mut self, word: &str, node: Node) -> ParseResult<ParsedItem> {
        let token = self.take_word();
        if token.kind != TokenKind::RightDelim {
            return self.unexpected(token, word);
        }
        if self.loops == 0 {
            return self.fail(format!("{word} outside {{{{range}}}}"));
        }
        Ok(ParsedItem::Node(node))
    }

    fn parse_nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> ParseResult<T>) -> ParseResult<T> {
        if self.depth >= MAX_DEPTH {
            return self.fail(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn parse_branch(&mut self, word: Keyword) -> ParseResult<Box<Branch>> {
        self.parse_nested(|parser| parser.parse_branch_body(word))
    }

    fn parse_branch_body(&mut self, word: Keyword) -> ParseResult<Box<Branch>> {
        let known = self.variables.len();
        let context = match word {
            Keyword::If => "if",
            Keyword::With => "with",
            _ => "range",
        };
        let pipe = self.parse_pipe(context, TokenKind::RightDelim)?;
        let is_loop = usize::from(word == Keyword::Range);
        self.loops += is_loop;
        let (list, ending) = self.parse_list()?;
        self.loops -= is_loop;
        let otherwise = match ending {
            Ending::End => None,
            Ending::Else => Some(self.parse_else(word)?),
        };
        self.variables.truncate(known);
        Ok(Box::new(Branch { pipe, list, otherwise }))
    }

    fn parse_else(&mut self, word: Keyword) -> ParseResult<Vec<Node>> {
        match (word, self.peek().kind) {
            (Keyword::If, TokenKind::Keyword(Keyword::If)) => {
                self.take();
                Ok(vec![Node::If(self.parse_branch(Keyword::If)?)])
            }
            (Keyword::With, TokenKind::Keyword(Keyword::With)) => {
                self.take();
                Ok(vec![Node::With(self.parse_branch(Keyword::With)?)])
            }
            _ => match self.parse_list()? {
                (list, Ending::End) => Ok(list),
                (_, Ending::Else) => self.fail("expected end; found {{else}}"),
            },
        }
    }

    fn parse_template_name(&mut self, context: &str) -> ParseResult<String> {
        let token = self.take_word();
        match token.kind {
            TokenKind::String | TokenKind::RawString => match unquote(token.text) {
                Some(name) => Ok(name),
                None => self.fail("invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }

    fn parse_template(&mut self) -> ParseResult<Node> {
        let at = self.peek_word().offset;
        let name = self.parse_template_name("template clause")?;
        let pipe = match self.take_word().kind {
            TokenKind::RightDelim => None,
            _ => {
                self.unread();
                Some(self.parse_pipe("template clause", TokenKind::RightDelim)?)
            }
        };
        Ok(Node::Template { offset: at, name, pipe })
    }

    fn parse_block(&mut self) -> ParseResult<Node> {
        let at = self.peek_word().offset;
        let name = self.parse_template_name("block clause")?;
        let pipe = self.parse_pipe("block clause", TokenKind::RightDelim)?;
        let line = self.line();
        self.parse_body(&name, "block clause", Some(line))?;
        Ok(Node::Template { offset: at, name, pipe: Some(pipe) })
    }

    fn parse_define(&mut self) -> ParseResult<ParsedItem> {
        if self.depth > 0 {
            let token = Token {
                kind: TokenKind::Keyword(Keyword::Define),
                offset: 0,
                text: "define",
                line: self.line(),
            };
            return self.unexpected(token, "command");
        }
        let name = self.parse_template_name("define clause")?;
        self.expect(TokenKind::RightDelim, "define clause")?;
        self.parse_body(&name, "define clause", None)?;
        Ok(ParsedItem::Nothing)
    }

    /// Parses the body of a template definition, which has no access to the surrounding variables.
    fn parse_body(&mut self, name: &str, context: &str, line: Option<usize>) -> ParseResult<()> {
        let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let loops = std::mem::take(&mut self.loops);
        let (list, ending) = self.parse_nested(Self::parse_list)?;
        self.variables = outer;
        self.loops = loops;
        if matches!(ending, Ending::Else) {
            let message = format!("unexpected {{{{else}}}} in {context}");
            let line = line.unwrap_or_else(|| self.line());
            return Err(ParseError { template: self.name.to_owned(), line, message });
        }
        self.add_template(name, list)
    }

    /// Adds a template. An empty template doesn't replace an existing one, and doesn't prevent a later
    /// definition.
    fn add_template(&mut self, name: &str, list: Vec<Node>) -> ParseResult<()> {
        if self.trees.get(name).is_none_or(|known| is_empty(known)) {
            self.trees.insert(name.to_owned(), list);
        } else if !is_empty(&list) {
            return self.fail(format!("template: multiple definition of template {}", quote_string(name)));
        }
        Ok(())
    }

    fn parse_pipe(&mut self, context: &str, end: TokenKind) -> ParseResult<Pipe> {
        self.parse_nested(|parser| parser.parse_pipe_body(context, end))
    }

    fn parse_pipe_body(&mut self, context: &str, end: TokenKind) -> ParseResult<Pipe> {
        let first = self.peek_word();
        let mut pipe =
            Pipe { offset: first.offset, is_assignment: false, variables: Vec::new(), commands: Vec::new() };
        self.parse_declarations(context, &mut pipe)?;
        loop {
            let token = self.take_word();
            match token.kind {
                kind if kind == end => {
                    self.check_pipe(&pipe, context)?;
                    return Ok(pipe);
                }
                TokenKind::Bool
                | TokenKind::CharConstant
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Identifier
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::RawString
                | TokenKind::String
                | TokenKind::Variable
                | TokenKind::LeftParen => {
                    self.unread();
                    let command = self.parse_command()?;
                    pipe.commands.push(Rc::new(command));
                }
                _ => return self.unexpected(token, context),
            }
        }
    }

    /// Parses declarations: `$x :=`, `$x =` or, in a range, `$i, $x :=`.
    fn parse_declarations(&mut self, context: &str, pipe: &mut Pipe) -> ParseResult<()> {
        loop {
            let variable = self.peek_word();
            if variable.kind != TokenKind::Variable {
                return Ok(());
            }
            let start = self.next;
            self.take();
            let next = self.peek_word();
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipe.is_assignment = next.kind == TokenKind::Assign;
                    self.take();
                    pipe.variables.push(variable.text.to_owned());
                    self.variables.push(variable.text.to_owned());
                    return Ok(());
                }
                TokenKind::Char if next.text == "," => {
                    self.take();
                    pipe.variables.push(variable.text.to_owned());
                    self.variables.push(variable.text.to_owned());
                    if context != "range" || pipe.variables.len() > 1 {
                        return self.fail(format!("too many declarations in {context}"));
                    }
                    match self.peek_word().kind {
                        TokenKind::Variable | TokenKind::RightDelim | TokenKind::RightParen => {}
                        _ => return self.fail("range can only initialize variables"),
                    }
                }
                _ => {
                    self.next = start;
                    return Ok(());
                }
            }
        }
    }

    fn check_pipe(&self, pipe: &Pipe, context: &str) -> ParseResult<()> {
        if pipe.commands.is_empty() {
            return self.fail(format!("missing value for {context}"));
        }
        for (number, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.operands.first().map(|operand| &operand.kind);
            if matches!(
                first,
                Some(
                    OperandKind::Bool(_)
                        | OperandKind::Dot
                        | OperandKind::Nil
                        | OperandKind::Number(_)
                        | OperandKind::Text(..)
                ) | None
            ) {
                return self
                    .fail(format!("non executable command in pipeline stage {}", number.saturating_add(1)));
            }
        }
        Ok(())
    }

    fn parse_command(&mut self) -> ParseResult<Command> {
        let at = self.peek_word().offset;
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            operands.extend(self.parse_operand()?);
            let token = self.take();
            match token.kind {
                TokenKind::Space => continue,
                TokenKind::RightDelim | TokenKind::RightParen => self.unread(),
                TokenKind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if operands.is_empty() {
            return self.fail("empty command");
        }
        Ok(Command { offset: at, operands })
    }

    fn parse_operand(&mut self) -> ParseResult<Option<Operand>> {
        let Some(term) = self.parse_term()? else { return Ok(None) };
        let first = self.peek();
        if first.kind != TokenKind::Field {
            return Ok(Some(term));
        }
        let mut more = Vec::new();
        while self.peek().kind == TokenKind::Field {
            more.push(self.take().text.trim_start_matches('.').to_owned());
        }
        let what = match term.kind {
            OperandKind::Field(mut fields) => {
                fields.append(&mut more);
                OperandKind::Field(fields)
            }
            OperandKind::Variable(mut names) => {
                names.append(&mut more);
                OperandKind::Variable(names)
            }
            OperandKind::Bool(_)
            | OperandKind::Text(..)
            | OperandKind::Number(_)
            | OperandKind::Nil
            | OperandKind::Dot => {
                return self.fail(format!("unexpected . after term {}", quote_string(&term.to_string())));
            }
            _ => OperandKind::Chain(Box::new(term), more),
        };
        Ok(Some(Operand { offset: first.offset, kind: what }))
    }

    fn parse_term(&mut self) -> ParseResult<Option<Operand>> {
        let token = self.take_word();
        let what = match token.kind {
            TokenKind::Identifier => {
                if !(self.is_function)(token.text) {
                    return self.fail(format!("function {} not defined", quote_string(token.text)));
                }
                OperandKind::Identifier(token.text.to_owned())
            }
            TokenKind::Dot => OperandKind::Dot,
            TokenKind::Nil => OperandKind::Nil,
            TokenKind::Variable => {
                if !self.variables.iter().any(|known| known == token.text) {
                    return self.fail(format!("undefined variable {}", quote_string(token.text)));
                }
                OperandKind::Variable(vec![token.text.to_owned()])
            }
            TokenKind::Field => OperandKind::Field(vec![token.text.trim_start_matches('.').to_owned()]),
            TokenKind::Bool => OperandKind::Bool(token.text == "true"),
            TokenKind::CharConstant | TokenKind::Number => match Number::parse(token.text) {
                Ok(number) => OperandKind::Number(number),
                Err(message) => return self.fail(message),
            },
            TokenKind::LeftParen => {
                OperandKind::Pipe(Box::new(self.parse_pipe("parenthesized pipeline", TokenKind::RightParen)?))
            }
            TokenKind::String | TokenKind::RawString => match unquote(token.text) {
                Some(text) => OperandKind::Text(text.into(), token.text.to_owned()),
                None => return self.fail("invalid syntax"),
            },
            _ => {
                self.unread();
                return Ok(None);
            }
        };
        Ok(Some(Operand { offset: token.offset, kind: what }))
    }
}
