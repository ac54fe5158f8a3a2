//! Random templates that are meaningful: statements, scopes and nested templates.
//!
//! Three out of four templates are careful: they don't contain intentional errors. A template ends at its
//! first error, and most calls with random arguments fail, so other templates test little after that point.
//!
//! The grammar excludes some constructs, because Go doesn't guarantee their results or because this crate
//! differs intentionally (docs/reference/differences-from-argo-cd.md):
//! - templates that call each other endlessly, and counts that would exhaust the memory, because this crate
//!   has limits;
//! - the order of `keys` and `values`, which is random in Go but always sorted here;
//! - addresses: `%p`, and the printed form of versions in lists.

use crate::choices::Choices;
use crate::expressions::{Expressions, literal};

const PLAIN: [&str; 12] = ["x", " ", "\n", "", "a b\n", "  \n  ", "grün ☃", "{", "}", "\t-\t", "'\"`", "<&>"];

/// Maximum nesting of statements.
const DEPTH: usize = 3;

pub fn template(choices: &mut Choices, is_careful: bool, is_ascii: bool) -> String {
    let expressions = Expressions::new(choices, is_careful, is_ascii);
    let mut grammar = Grammar { expressions, in_range: false, blocks: 0, defined: 0 };
    // Each template calls only preceding templates, so that rendering terminates.
    let mut text = String::new();
    for number in 0..grammar.below(3) {
        let body = grammar.template_body(DEPTH - 1);
        let (open, close) = (grammar.open(), grammar.close());
        text +=
            &format!("{open}define {name}{close}{body}{{{{end}}}}", name = literal(&format!("t{number}")));
        grammar.defined = number + 1;
    }
    text + &grammar.statements(DEPTH)
}

struct Grammar<'c> {
    expressions: Expressions<'c>,
    in_range: bool,
    blocks: usize,
    defined: usize,
}

impl Grammar<'_> {
    fn below(&mut self, count: usize) -> usize {
        self.expressions.choices.next_below(count)
    }

    fn once_in(&mut self, count: usize) -> bool {
        self.expressions.choices.one_in(count)
    }

    fn open(&mut self) -> &'static str {
        self.expressions.choices.choose(&["{{", "{{ ", "{{- ", "{{-\n"])
    }

    fn close(&mut self) -> &'static str {
        self.expressions.choices.choose(&["}}", " }}", " -}}", "\t-}}"])
    }

    fn action(&mut self, inside: &str) -> String {
        format!("{}{inside}{}", self.open(), self.close())
    }

    fn end(&mut self) -> String {
        self.action("end")
    }

    /// Returns the body of a nested template. Its only variable is `$`.
    fn template_body(&mut self, depth: usize) -> String {
        let variables = std::mem::take(&mut self.expressions.variables);
        let in_range = std::mem::take(&mut self.in_range);
        let dot_is_root = std::mem::replace(&mut self.expressions.dot_is_root, true);
        let body = self.statements(depth);
        self.expressions.dot_is_root = dot_is_root;
        self.expressions.variables = variables;
        self.in_range = in_range;
        body
    }

    /// Returns statements in a separate scope.
    fn statements(&mut self, depth: usize) -> String {
        let outside = self.expressions.variables.len();
        let count = 1 + self.below(3);
        let text = (0..count).map(|_| self.statement(depth)).collect();
        self.expressions.variables.truncate(outside);
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 9 } else { 19 }) {
            0 => self.expressions.choices.choose(&PLAIN).to_owned(),
            1..=5 => {
                let pipeline = self.expressions.pipeline('a', 3);
                self.action(&pipeline)
            }
            6 => self.declaration(),
            7 => self.assignment(),
            8 => self.small_statement(),
            9..=11 => self.condition(depth),
            12..=14 => self.range(depth),
            15 | 16 => self.with(depth),
            17 => self.call(),
            _ => self.block(depth),
        }
    }

    /// Returns the kind of a new variable's value.
    fn kind(&mut self) -> char {
        self.expressions.choices.choose(&["a", "s", "n", "b", "l", "m"]).chars().next().unwrap_or('a')
    }

    fn declaration(&mut self) -> String {
        let kind = self.kind();
        let pipeline = self.expressions.pipeline(kind, 2);
        let name = self.expressions.declare(kind);
        self.action(&format!("{name} := {pipeline}"))
    }

    fn assignment(&mut self) -> String {
        let Some((name, kind)) = self.expressions.variable() else { return String::new() };
        let pipeline = self.expressions.pipeline(kind, 2);
        self.action(&format!("{name} = {pipeline}"))
    }

    fn small_statement(&mut self) -> String {
        match self.below(5) {
            0 => self
                .expressions
                .choices
                .choose(&["{{/* comment */}}", "{{- /* a\nb */ -}}", "{{/**/ -}}"])
                .to_owned(),
            1 if self.in_range => self.action("break"),
            2 if self.in_range => self.action("continue"),
            // Both implementations report these errors with the same message.
            3 if !self.expressions.is_careful && self.once_in(4) => self
                .expressions
                .choices
                .choose(&[
                    "{{break}}",
                    "{{end}}",
                    "{{else}}",
                    "{{if}}x{{end}}",
                    "{{ .a",
                    "{{$u}}",
                    "{{nope 1}}",
                    "{{}}",
                    "{{1 | 2}}",
                    "{{.a = 1}}",
                    "{{(.a}}",
                    "{{\"a}}",
                    "{{$}}{{$ := 1}}",
                    "{{.a..b}}",
                    "{{1a}}",
                    "{{'ab'}}",
                    "{{nil}}",
                    "{{template \"t\" 1 2}}",
                    "{{range $a, $b, $c := .l}}{{end}}",
                    "{{define \"x\"}}",
                    "{{else if .a}}",
                    "{{if .a}}{{else}}{{else}}{{end}}",
                    "{{ .a | }}",
                    "{{ | .a}}",
                    "{{.a}} }}",
                    "{{- .a -}}-{{-1}}",
                ])
                .to_owned(),
            _ => "\n  ".to_owned(),
        }
    }

    /// Returns a condition, which may declare a variable that is visible up to the end of the statement.
    fn condition_with_variable(&mut self) -> String {
        let kind = if self.below(2) == 0 { 'b' } else { 'a' };
        let pipeline = self.expressions.pipeline(kind, 2);
        if self.once_in(4) {
            return format!("{} := {pipeline}", self.expressions.declare(kind));
        }
        pipeline
    }

    fn condition(&mut self, depth: usize) -> String {
        let outside = self.expressions.variables.len();
        let tested = self.condition_with_variable();
        let mut text = self.action(&format!("if {tested}")) + &self.statements(depth - 1);
        while self.once_in(4) {
            let tested = self.condition_with_variable();
            text += &self.action(&format!("else if {tested}"));
            text += &self.statements(depth - 1);
        }
        if self.below(2) == 1 {
            text += &self.action("else");
            text += &self.statements(depth - 1);
        }
        self.expressions.variables.truncate(outside);
        text + &self.end()
    }

    fn with(&mut self, depth: usize) -> String {
        let outside = self.expressions.variables.len();
        let tested = self.condition_with_variable();
        let mut text = self.action(&format!("with {tested}")) + &self.statements_with_other_dot(depth - 1);
        if self.once_in(4) {
            let tested = self.condition_with_variable();
            text += &self.action(&format!("else with {tested}"));
            text += &self.statements_with_other_dot(depth - 1);
        }
        if self.below(2) == 1 {
            text += &self.action("else");
            text += &self.statements(depth - 1);
        }
        self.expressions.variables.truncate(outside);
        text + &self.end()
    }

    /// Returns statements within which dot has a different value.
    fn statements_with_other_dot(&mut self, depth: usize) -> String {
        let dot_is_root = std::mem::take(&mut self.expressions.dot_is_root);
        let text = self.statements(depth);
        self.expressions.dot_is_root = dot_is_root;
        text
    }

    fn range(&mut self, depth: usize) -> String {
        let outside = self.expressions.variables.len();
        let is_careful = self.expressions.is_careful;
        let kinds = ["l", "m", "c", "a", "s"];
        let kind =
            self.expressions.choices.choose_where(&kinds, |kind| !is_careful || !matches!(kind, "a" | "s"));
        let kind = kind.chars().next().unwrap_or('l');
        // A value of any kind might be a large number, which would make the loop too long.
        let over =
            if kind == 'a' { self.expressions.operand('q', 0) } else { self.expressions.pipeline(kind, 1) };
        let head = match self.below(4) {
            1 => format!("{} := {over}", self.expressions.declare('a')),
            2 if kind != 'c' || !is_careful => {
                let names = (self.expressions.declare('a'), self.expressions.declare('a'));
                format!("{}, {} := {over}", names.0, names.1)
            }
            3 => match self.expressions.variable() {
                Some((name, kind)) if !is_careful || kind == 'a' => format!("{name} = {over}"),
                _ => over,
            },
            _ => over,
        };
        let outer = std::mem::replace(&mut self.in_range, true);
        let mut text = self.action(&format!("range {head}")) + &self.statements_with_other_dot(depth - 1);
        self.in_range = outer;
        if self.once_in(3) {
            text += &self.action("else");
            text += &self.statements(depth - 1);
        }
        self.expressions.variables.truncate(outside);
        text + &self.end()
    }

    fn call(&mut self) -> String {
        let name = match self.below(self.defined + 1) {
            number if number < self.defined => literal(&format!("t{number}")),
            _ if !self.expressions.is_careful && self.once_in(6) => literal("unknown"),
            _ => return String::new(),
        };
        let data = if self.expressions.is_careful {
            " $".to_owned()
        } else if self.once_in(3) {
            String::new()
        } else {
            format!(" {}", self.expressions.pipeline('a', 1))
        };
        self.action(&format!("template {name}{data}"))
    }

    fn block(&mut self, depth: usize) -> String {
        self.blocks += 1;
        let name = literal(&format!("b{}", self.blocks));
        let pipeline =
            if self.expressions.is_careful { "$".to_owned() } else { self.expressions.pipeline('a', 1) };
        let body = self.template_body(depth - 1);
        self.action(&format!("block {name} {pipeline}")) + &body + &self.end()
    }
}
