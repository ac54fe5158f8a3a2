//! Tokens to a tree, with the words of Go's parser for what is wrong.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lex::{Kind, Token, Word, tokens};
use crate::node::{Branch, Command, Node, Number, Operand, Pipe, What};
use crate::quote::{quoted, unquoted};
use crate::{MAX_DEPTH, ParseError};

/// The templates of one text, by name.
pub(crate) type Trees = BTreeMap<String, Vec<Node>>;

/// Parses a text, whose own name is `name`, and the templates defined in it.
pub(crate) fn parse(name: &str, text: &str, is_function: &dyn Fn(&str) -> bool) -> Result<Trees, ParseError> {
    let (tokens, error) = tokens(text);
    let mut parser = Parser {
        name,
        tokens,
        error,
        next: 0,
        read: Cell::new(0),
        variables: vec!["$".to_owned()],
        is_function,
        trees: Trees::new(),
        loops: 0,
        depth: 0,
        action_line: 0,
    };
    let list = parser.top()?;
    parser.add(name, list)?;
    Ok(parser.trees)
}

fn is_empty(list: &[Node]) -> bool {
    list.iter().all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}

struct Parser<'t> {
    name: &'t str,
    tokens: Vec<Token<'t>>,
    /// What the lexer stumbled over, behind the last token.
    error: Option<String>,
    next: usize,
    /// How many tokens were looked at: Go counts what is wrong to the line of the last of them.
    read: Cell<usize>,
    variables: Vec<String>,
    is_function: &'t dyn Fn(&str) -> bool,
    trees: Trees,
    loops: usize,
    depth: usize,
    action_line: usize,
}

type Parsed<T> = Result<T, ParseError>;

/// How a list of nodes ended.
enum Ending {
    End,
    Else,
}

/// What an action was.
enum Item {
    Node(Node),
    Ending(Ending),
    /// A definition, which leaves nothing in its place.
    Nothing,
}

impl<'t> Parser<'t> {
    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError { template: self.name.to_owned(), line: self.line(), message: message.into() })
    }

    fn line(&self) -> usize {
        let last = self.tokens.get(self.read.get().saturating_sub(1)).or(self.tokens.last());
        last.map_or(1, |token| token.line)
    }

    fn peek(&self) -> Token<'t> {
        self.read.set(self.read.get().max(self.next.saturating_add(1)));
        let end = Token { kind: Kind::End, at: 0, text: "", line: 1 };
        self.tokens.get(self.next).or(self.tokens.last()).copied().unwrap_or(end)
    }

    fn take(&mut self) -> Token<'t> {
        let token = self.peek();
        self.next = self.next.saturating_add(1).min(self.tokens.len());
        token
    }

    fn back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    fn skip_space(&mut self) {
        while self.peek().kind == Kind::Space {
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

    fn unexpected<T>(&self, token: Token<'t>, context: &str) -> Parsed<T> {
        match &self.error {
            Some(error) if token.kind == Kind::End => {
                if self.action_line != 0 && self.action_line != token.line {
                    let began = if error.ends_with(" action") { " started" } else { " in action started" };
                    return self.fail(format!("{error}{began} at {}:{}", self.name, self.action_line));
                }
                self.fail(error.clone())
            }
            _ => self.fail(format!("unexpected {token} in {context}")),
        }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token<'t>> {
        let token = self.take_word();
        if token.kind == kind { Ok(token) } else { self.unexpected(token, context) }
    }

    /// Everything up to the end of the text.
    fn top(&mut self) -> Parsed<Vec<Node>> {
        let mut list = Vec::new();
        loop {
            if self.peek().kind == Kind::End && self.error.is_none() {
                return Ok(list);
            }
            match self.item()? {
                Item::Node(node) => list.push(node),
                Item::Nothing => {}
                Item::Ending(Ending::End) => return self.fail("unexpected {{end}}"),
                Item::Ending(Ending::Else) => return self.fail("unexpected {{else}}"),
            }
        }
    }

    /// The inside of a construct, up to its end.
    fn list(&mut self) -> Parsed<(Vec<Node>, Ending)> {
        let mut list = Vec::new();
        loop {
            if self.peek_word().kind == Kind::End && self.error.is_none() {
                return self.fail("unexpected EOF");
            }
            match self.item()? {
                Item::Node(node) => list.push(node),
                Item::Nothing => return self.fail("unexpected <define> in command"),
                Item::Ending(ending) => return Ok((list, ending)),
            }
        }
    }

    fn item(&mut self) -> Parsed<Item> {
        let token = self.take_word();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(token.text.to_owned()))),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action();
                self.action_line = 0;
                item
            }
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.take_word();
        let Kind::Word(word) = token.kind else {
            self.back();
            let pipe = self.pipe("command", Kind::RightDelim)?;
            return Ok(Item::Node(Node::Action(pipe)));
        };
        match word {
            Word::End => {
                self.expect(Kind::RightDelim, "end")?;
                Ok(Item::Ending(Ending::End))
            }
            Word::Else => {
                if !matches!(self.peek_word().kind, Kind::Word(Word::If | Word::With)) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                Ok(Item::Ending(Ending::Else))
            }
            Word::If => Ok(Item::Node(Node::If(self.branch(word)?))),
            Word::With => Ok(Item::Node(Node::With(self.branch(word)?))),
            Word::Range => Ok(Item::Node(Node::Range(self.branch(word)?))),
            Word::Template => self.template().map(Item::Node),
            Word::Block => self.block().map(Item::Node),
            Word::Define => self.define(),
            Word::Break => self.leave("{{break}}", Node::Break),
            Word::Continue => self.leave("{{continue}}", Node::Continue),
        }
    }

    fn leave(&mut self, word: &str, node: Node) -> Parsed<Item> {
        let token = self.take_word();
        if token.kind != Kind::RightDelim {
            return self.unexpected(token, word);
        }
        if self.loops == 0 {
            return self.fail(format!("{word} outside {{{{range}}}}"));
        }
        Ok(Item::Node(node))
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return self.fail(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn branch(&mut self, word: Word) -> Parsed<Box<Branch>> {
        self.deeper(|parser| parser.branch_inside(word))
    }

    fn branch_inside(&mut self, word: Word) -> Parsed<Box<Branch>> {
        let known = self.variables.len();
        let context = match word {
            Word::If => "if",
            Word::With => "with",
            _ => "range",
        };
        let pipe = self.pipe(context, Kind::RightDelim)?;
        let is_loop = usize::from(word == Word::Range);
        self.loops += is_loop;
        let (list, ending) = self.list()?;
        self.loops -= is_loop;
        let otherwise = match ending {
            Ending::End => None,
            Ending::Else => Some(self.otherwise(word)?),
        };
        self.variables.truncate(known);
        Ok(Box::new(Branch { pipe, list, otherwise }))
    }

    fn otherwise(&mut self, word: Word) -> Parsed<Vec<Node>> {
        match (word, self.peek().kind) {
            (Word::If, Kind::Word(Word::If)) => {
                self.take();
                Ok(vec![Node::If(self.branch(Word::If)?)])
            }
            (Word::With, Kind::Word(Word::With)) => {
                self.take();
                Ok(vec![Node::With(self.branch(Word::With)?)])
            }
            _ => match self.list()? {
                (list, Ending::End) => Ok(list),
                (_, Ending::Else) => self.fail("expected end; found {{else}}"),
            },
        }
    }

    fn template_name(&mut self, context: &str) -> Parsed<String> {
        let token = self.take_word();
        match token.kind {
            Kind::String | Kind::RawString => match unquoted(token.text) {
                Some(name) => Ok(name),
                None => self.fail("invalid syntax"),
            },
            _ => self.unexpected(token, context),
        }
    }

    fn template(&mut self) -> Parsed<Node> {
        let at = self.peek_word().at;
        let name = self.template_name("template clause")?;
        let pipe = match self.take_word().kind {
            Kind::RightDelim => None,
            _ => {
                self.back();
                Some(self.pipe("template clause", Kind::RightDelim)?)
            }
        };
        Ok(Node::Template { at, name, pipe })
    }

    fn block(&mut self) -> Parsed<Node> {
        let at = self.peek_word().at;
        let name = self.template_name("block clause")?;
        let pipe = self.pipe("block clause", Kind::RightDelim)?;
        let line = self.line();
        self.body(&name, "block clause", Some(line))?;
        Ok(Node::Template { at, name, pipe: Some(pipe) })
    }

    fn define(&mut self) -> Parsed<Item> {
        if self.depth > 0 {
            let token = Token { kind: Kind::Word(Word::Define), at: 0, text: "define", line: self.line() };
            return self.unexpected(token, "command");
        }
        let name = self.template_name("define clause")?;
        self.expect(Kind::RightDelim, "define clause")?;
        self.body(&name, "define clause", None)?;
        Ok(Item::Nothing)
    }

    /// The body of a template of its own, which sees none of the variables around it.
    fn body(&mut self, name: &str, context: &str, line: Option<usize>) -> Parsed<()> {
        let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let loops = std::mem::take(&mut self.loops);
        let (list, ending) = self.deeper(Self::list)?;
        self.variables = outer;
        self.loops = loops;
        if matches!(ending, Ending::Else) {
            let message = format!("unexpected {{{{else}}}} in {context}");
            let line = line.unwrap_or_else(|| self.line());
            return Err(ParseError { template: self.name.to_owned(), line, message });
        }
        self.add(name, list)
    }

    /// Adds a template; one that holds nothing neither replaces another nor stands in its way.
    fn add(&mut self, name: &str, list: Vec<Node>) -> Parsed<()> {
        if self.trees.get(name).is_none_or(|known| is_empty(known)) {
            self.trees.insert(name.to_owned(), list);
        } else if !is_empty(&list) {
            return self.fail(format!("template: multiple definition of template {}", quoted(name)));
        }
        Ok(())
    }

    fn pipe(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        self.deeper(|parser| parser.pipe_inside(context, end))
    }

    fn pipe_inside(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let first = self.peek_word();
        let mut pipe = Pipe { at: first.at, assigns: false, variables: Vec::new(), commands: Vec::new() };
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.take_word();
            match token.kind {
                kind if kind == end => {
                    self.check(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back();
                    let command = self.command()?;
                    pipe.commands.push(Rc::new(command));
                }
                _ => return self.unexpected(token, context),
            }
        }
    }

    /// `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        loop {
            let variable = self.peek_word();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            let start = self.next;
            self.take();
            let next = self.peek_word();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.take();
                    pipe.variables.push(variable.text.to_owned());
                    self.variables.push(variable.text.to_owned());
                    return Ok(());
                }
                Kind::Char if next.text == "," => {
                    self.take();
                    pipe.variables.push(variable.text.to_owned());
                    self.variables.push(variable.text.to_owned());
                    if context != "range" || pipe.variables.len() > 1 {
                        return self.fail(format!("too many declarations in {context}"));
                    }
                    match self.peek_word().kind {
                        Kind::Variable | Kind::RightDelim | Kind::RightParen => {}
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

    fn check(&self, pipe: &Pipe, context: &str) -> Parsed<()> {
        if pipe.commands.is_empty() {
            return self.fail(format!("missing value for {context}"));
        }
        for (number, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.operands.first().map(|operand| &operand.what);
            if matches!(
                first,
                Some(What::Bool(_) | What::Dot | What::Nil | What::Number(_) | What::Text(..)) | None
            ) {
                return self
                    .fail(format!("non executable command in pipeline stage {}", number.saturating_add(1)));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Parsed<Command> {
        let at = self.peek_word().at;
        let mut operands = Vec::new();
        loop {
            self.skip_space();
            operands.extend(self.operand()?);
            let token = self.take();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.back(),
                Kind::Pipe => {}
                _ => return self.unexpected(token, "operand"),
            }
            break;
        }
        if operands.is_empty() {
            return self.fail("empty command");
        }
        Ok(Command { at, operands })
    }

    fn operand(&mut self) -> Parsed<Option<Operand>> {
        let Some(term) = self.term()? else { return Ok(None) };
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(Some(term));
        }
        let mut more = Vec::new();
        while self.peek().kind == Kind::Field {
            more.push(self.take().text.trim_start_matches('.').to_owned());
        }
        let what = match term.what {
            What::Field(mut fields) => {
                fields.append(&mut more);
                What::Field(fields)
            }
            What::Variable(mut names) => {
                names.append(&mut more);
                What::Variable(names)
            }
            What::Bool(_) | What::Text(..) | What::Number(_) | What::Nil | What::Dot => {
                return self.fail(format!("unexpected . after term {}", quoted(&term.to_string())));
            }
            _ => What::Chain(Box::new(term), more),
        };
        Ok(Some(Operand { at: first.at, what }))
    }

    fn term(&mut self) -> Parsed<Option<Operand>> {
        let token = self.take_word();
        let what = match token.kind {
            Kind::Identifier => {
                if !(self.is_function)(token.text) {
                    return self.fail(format!("function {} not defined", quoted(token.text)));
                }
                What::Identifier(token.text.to_owned())
            }
            Kind::Dot => What::Dot,
            Kind::Nil => What::Nil,
            Kind::Variable => {
                if !self.variables.iter().any(|known| known == token.text) {
                    return self.fail(format!("undefined variable {}", quoted(token.text)));
                }
                What::Variable(vec![token.text.to_owned()])
            }
            Kind::Field => What::Field(vec![token.text.trim_start_matches('.').to_owned()]),
            Kind::Bool => What::Bool(token.text == "true"),
            Kind::CharConstant | Kind::Number => match Number::of(token.text) {
                Ok(number) => What::Number(number),
                Err(message) => return self.fail(message),
            },
            Kind::LeftParen => What::Pipe(Box::new(self.pipe("parenthesized pipeline", Kind::RightParen)?)),
            Kind::String | Kind::RawString => match unquoted(token.text) {
                Some(text) => What::Text(text.into(), token.text.to_owned()),
                None => return self.fail("invalid syntax"),
            },
            _ => {
                self.back();
                return Ok(None);
            }
        };
        Ok(Some(Operand { at: token.at, what }))
    }
}
