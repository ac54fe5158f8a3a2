//! A tree with data to text, with the words of Go's `text/template` for what goes wrong.

mod calls;

use std::rc::Rc;

use crate::funcs::Function;
use crate::node::{Branch, Command, Node, Number, Operand, Pipe, What};
use crate::parse::Trees;
use crate::quote::quoted;
use crate::value::{Elem, Val};
use crate::{ExecError, Limits, MissingKey, format};

/// What one rendering needs to know.
pub(crate) struct Setting<'t> {
    pub(crate) name: &'t str,
    pub(crate) text: &'t str,
    pub(crate) trees: &'t Trees,
    pub(crate) missing_key: MissingKey,
    pub(crate) limits: Limits,
    pub(crate) now: Option<i64>,
    pub(crate) function: &'t dyn Fn(&str) -> Option<Function>,
}

/// Renders the template called like the whole text; and says how many steps it took.
pub(crate) fn execute(setting: &Setting<'_>, data: Val) -> (Result<String, ExecError>, usize) {
    let mut run = Run {
        setting,
        tree: setting.name.to_owned(),
        place: None,
        variables: vec![("$".to_owned(), Got::plain(data.clone()))],
        text: String::new(),
        steps: setting.limits.steps,
        depth: 0,
    };
    let Some(nodes) = setting.trees.get(setting.name) else {
        let message = format!(
            "template: {0}: {1} is an incomplete or empty template",
            setting.name,
            quoted(setting.name)
        );
        return (Err(ExecError { message }), 0);
    };
    let ran = run.walk(&Got::plain(data), nodes);
    let taken = setting.limits.steps - run.steps;
    (ran.map(|_| run.text), taken)
}

/// A value, and whether Go would hold it as `interface {}`, which shows in errors.
#[derive(Clone, Debug)]
struct Got {
    value: Val,
    is_interface: bool,
}

impl Got {
    fn plain(value: Val) -> Self {
        Self { value, is_interface: false }
    }

    /// What is in a list or map: nothing at all is null there.
    fn of(value: Val, elem: Elem) -> Self {
        let value = if matches!(value, Val::Absent) { Val::Nil } else { value };
        Self { value, is_interface: elem == Elem::Any }
    }

    /// Go holds a null as an interface without a value; outside of one there is nothing.
    fn dug(self) -> Self {
        match self.value {
            Val::Nil => Self::plain(Val::Absent),
            value => Self::plain(value),
        }
    }

    fn type_name(&self) -> &'static str {
        if self.is_interface { "interface {}" } else { self.value.type_name() }
    }
}

/// How a list of nodes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Run<'s, 't> {
    setting: &'s Setting<'t>,
    /// The template at work.
    tree: String,
    /// Where in the text, and the node there.
    place: Option<(usize, String)>,
    variables: Vec<(String, Got)>,
    text: String,
    steps: usize,
    depth: usize,
}

type Ran<T> = Result<T, ExecError>;

impl Run<'_, '_> {
    fn fail<T>(&self, message: impl AsRef<str>) -> Ran<T> {
        let message = message.as_ref();
        let own = self.setting.name;
        let Some((at, context)) = &self.place else {
            return Err(ExecError { message: format!("template: {own}: {message}") });
        };
        let before = self.setting.text.get(..*at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rfind('\n').map_or(*at, |end| at - end - 1);
        let tree = quoted(&self.tree);
        Err(ExecError {
            message: format!("template: {own}:{line}:{column}: executing {tree} at <{context}>: {message}"),
        })
    }

    fn at(&mut self, place: usize, node: &impl std::fmt::Display) {
        self.place = Some((place, node.to_string()));
    }

    fn step(&mut self) -> Ran<()> {
        self.take(1)
    }

    fn take(&mut self, steps: usize) -> Ran<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => self.fail(format!("it takes more than {} steps", self.setting.limits.steps)),
        }
    }

    fn write(&mut self, text: &str) -> Ran<()> {
        if self.text.len().saturating_add(text.len()) > self.setting.limits.output_bytes {
            return self.fail(format!("it writes more than {} bytes", self.setting.limits.output_bytes));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn walk(&mut self, dot: &Got, nodes: &[Node]) -> Ran<Flow> {
        for node in nodes {
            self.step()?;
            let flow = match node {
                Node::Text(text) => {
                    self.write(text)?;
                    Flow::On
                }
                Node::Action(pipe) => {
                    self.action(dot, pipe)?;
                    Flow::On
                }
                Node::If(branch) => self.branch(dot, branch, false)?,
                Node::With(branch) => self.branch(dot, branch, true)?,
                Node::Range(branch) => self.range(dot, branch)?,
                Node::Template { at, name, pipe } => {
                    self.template(dot, *at, name, pipe.as_ref())?;
                    Flow::On
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn action(&mut self, dot: &Got, pipe: &Pipe) -> Ran<()> {
        let got = self.pipe(dot, pipe)?;
        if !pipe.variables.is_empty() {
            return Ok(());
        }
        match got.value {
            Val::Absent | Val::Nil => self.write("<no value>"),
            value => {
                self.weigh(&value, true)?;
                self.write(&format::plain(&value))
            }
        }
    }

    fn branch(&mut self, dot: &Got, branch: &Branch, sets_dot: bool) -> Ran<Flow> {
        let known = self.variables.len();
        let got = self.pipe(dot, &branch.pipe)?;
        let flow = if got.value.is_true() {
            self.walk(if sets_dot { &got } else { dot }, &branch.list)?
        } else {
            match &branch.otherwise {
                Some(list) => self.walk(dot, list)?,
                None => Flow::On,
            }
        };
        self.variables.truncate(known);
        Ok(flow)
    }

    fn range(&mut self, dot: &Got, branch: &Branch) -> Ran<Flow> {
        let known = self.variables.len();
        let got = self.pipe(dot, &branch.pipe)?;
        let items: Vec<(Val, Got)> = match got.value {
            Val::List(list) => {
                let items = list.items.iter().enumerate();
                items.map(|(index, item)| (Val::count(index), Got::of(item.clone(), list.elem))).collect()
            }
            Val::Map(map) => {
                let items = map.entries().into_iter();
                items.map(|(key, item)| (Val::str(key), Got::of(item, map.elem))).collect()
            }
            Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
                return self.count(dot, branch, &got.value, known);
            }
            Val::Absent | Val::Nil => Vec::new(),
            other => return self.fail(format!("range can't iterate over {}", format::plain(&other))),
        };
        // What stands for no turn at all may end the loop around this one, or this one.
        let mut flow = Flow::On;
        if items.is_empty() {
            // There the variables still hold what there was to go through.
            flow = self.otherwise(dot, branch)?;
        }
        for (key, item) in items {
            if self.turn(branch, key, item)? == Flow::Break {
                break;
            }
        }
        self.variables.truncate(known);
        Ok(flow)
    }

    /// A range over a number counts up to it, in its type.
    fn count(&mut self, dot: &Got, branch: &Branch, value: &Val, known: usize) -> Ran<Flow> {
        let count = value.integer().unwrap_or_default();
        if branch.pipe.variables.len() > 1 {
            return self.fail(format!("can't use {count} to iterate over more than one variable"));
        }
        let flow = if count <= 0 { self.otherwise(dot, branch)? } else { Flow::On };
        for number in 0..count {
            let number = match value {
                Val::Int64(_) => i64::try_from(number).map(Val::Int64).unwrap_or(Val::Nil),
                Val::Uint8(_) => u8::try_from(number).map(Val::Uint8).unwrap_or(Val::Nil),
                Val::Uint64(_) => u64::try_from(number).map(Val::Uint64).unwrap_or(Val::Nil),
                _ => i64::try_from(number).map(Val::Int).unwrap_or(Val::Nil),
            };
            if self.turn(branch, number.clone(), Got::plain(number))? == Flow::Break {
                break;
            }
        }
        self.variables.truncate(known);
        Ok(flow)
    }

    /// In place of a loop without turns: a `break` there leaves that loop, a `continue` goes on with the one around it.
    fn otherwise(&mut self, dot: &Got, branch: &Branch) -> Ran<Flow> {
        let Some(list) = &branch.otherwise else { return Ok(Flow::On) };
        let known = self.variables.len();
        let flow = self.walk(dot, list)?;
        self.variables.truncate(known);
        Ok(if flow == Flow::Break { Flow::On } else { flow })
    }

    /// One turn of a loop.
    fn turn(&mut self, branch: &Branch, key: Val, item: Got) -> Ran<Flow> {
        self.step()?;
        let known = self.variables.len();
        let set = |run: &mut Self, name: &str, got: Got| -> Ran<()> {
            if branch.pipe.assigns {
                return run.assign(name, got);
            }
            if let Some((_, value)) = run.variables.iter_mut().rev().find(|(known, _)| known == name) {
                *value = got;
            }
            Ok(())
        };
        match branch.pipe.variables.as_slice() {
            [] => {}
            [value] => set(self, value, item.clone())?,
            [index, value, ..] => {
                set(self, index, Got::plain(key))?;
                set(self, value, item.clone())?;
            }
        }
        let flow = self.walk(&item, &branch.list)?;
        self.variables.truncate(known);
        Ok(flow)
    }

    fn template(&mut self, dot: &Got, at: usize, name: &str, pipe: Option<&Pipe>) -> Ran<()> {
        let written = match pipe {
            Some(pipe) => format!("{{{{template {} {pipe}}}}}", quoted(name)),
            None => format!("{{{{template {}}}}}", quoted(name)),
        };
        self.at(at, &written);
        let Some(nodes) = self.setting.trees.get(name) else {
            return self.fail(format!("template {} not defined", quoted(name)));
        };
        if self.depth >= self.setting.limits.depth {
            return self.fail(format!("exceeded maximum template depth ({})", self.setting.limits.depth));
        }
        let inner = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Got::plain(Val::Absent),
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), inner.clone())]);
        let tree = std::mem::replace(&mut self.tree, name.to_owned());
        self.depth += 1;
        self.walk(&inner, nodes)?;
        self.depth -= 1;
        self.tree = tree;
        self.variables = variables;
        Ok(())
    }

    fn assign(&mut self, name: &str, got: Got) -> Ran<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, value)) => {
                *value = got;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn pipe(&mut self, dot: &Got, pipe: &Pipe) -> Ran<Got> {
        self.at(pipe.at, pipe);
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.command(dot, command, value)?.dug());
        }
        let value = value.unwrap_or_else(|| Got::plain(Val::Absent));
        for variable in &pipe.variables {
            if pipe.assigns {
                self.assign(variable, value.clone())?;
            } else {
                self.variables.push((variable.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Got, command: &Rc<Command>, last: Option<Got>) -> Ran<Got> {
        self.step()?;
        let Some((first, arguments)) = command.operands.split_first() else {
            return self.fail("empty command");
        };
        match &first.what {
            What::Identifier(name) => {
                return self.call(dot, name, first, command.at, command.as_ref(), arguments, last);
            }
            What::Field(fields) => {
                self.at(first.at, first);
                return self.fields(dot.clone(), fields, !arguments.is_empty() || last.is_some());
            }
            What::Variable(_) | What::Chain(..) => {
                self.at(first.at, first);
                return self.operand(dot, first, !arguments.is_empty() || last.is_some());
            }
            _ => {}
        }
        self.at(first.at, first);
        if !arguments.is_empty() || last.is_some() {
            return self.fail(format!("can't give argument to non-function {first}"));
        }
        match &first.what {
            What::Nil => self.fail("nil is not a command"),
            _ => self.operand(dot, first, false),
        }
    }

    /// The value of an operand that is not a function with arguments.
    fn operand(&mut self, dot: &Got, operand: &Operand, has_arguments: bool) -> Ran<Got> {
        self.at(operand.at, operand);
        match &operand.what {
            What::Dot => Ok(dot.clone()),
            What::Nil => Ok(Got::plain(Val::Nil)),
            What::Bool(value) => Ok(Got::plain(Val::Bool(*value))),
            What::Number(number) => self.constant(number),
            What::Text(text, _) => Ok(Got::plain(Val::Str(text.clone()))),
            What::Field(fields) => self.fields(dot.clone(), fields, has_arguments),
            What::Variable(names) => {
                let (name, fields) =
                    names.split_first().map_or(("", names.as_slice()), |(name, rest)| (name, rest));
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let Some(value) = found.map(|(_, value)| value.clone()) else {
                    return self.fail(format!("undefined variable: {name}"));
                };
                if fields.is_empty() && has_arguments {
                    return self.fail(format!("can't give argument to non-function {operand}"));
                }
                self.fields(value, fields, has_arguments)
            }
            What::Chain(inner, fields) => {
                if matches!(inner.what, What::Nil) {
                    return self.fail(format!("indirection through explicit nil in {operand}"));
                }
                let value = self.operand(dot, inner, false)?;
                self.fields(value, fields, has_arguments)
            }
            What::Pipe(pipe) => self.pipe(dot, pipe),
            What::Identifier(name) => self.call(dot, name, operand, operand.at, operand, &[], None),
        }
    }

    fn constant(&mut self, number: &Number) -> Ran<Got> {
        if number.is_float() {
            return Ok(Got::plain(Val::Float(number.float.unwrap_or_default())));
        }
        match (number.int, number.uint) {
            (Some(int), _) => Ok(Got::plain(Val::Int(int))),
            (None, Some(_)) => self.fail(format!("{} overflows int", number.text)),
            _ => Ok(Got::plain(Val::Float(number.float.unwrap_or_default()))),
        }
    }

    fn fields(&mut self, start: Got, fields: &[String], has_arguments: bool) -> Ran<Got> {
        let mut got = start;
        for (number, field) in fields.iter().enumerate() {
            let is_last = number + 1 == fields.len();
            got = self.field(got, field, is_last && has_arguments)?;
        }
        Ok(got)
    }

    fn field(&mut self, receiver: Got, field: &str, has_arguments: bool) -> Ran<Got> {
        match &receiver.value {
            Val::Absent => match self.setting.missing_key {
                MissingKey::Error => self.fail(format!("nil data; no entry for key {}", quoted(field))),
                _ => Ok(Got::plain(Val::Absent)),
            },
            Val::Nil => self.fail(format!("nil pointer evaluating {}.{field}", receiver.type_name())),
            Val::Map(map) => {
                if has_arguments {
                    return self.fail(format!("{field} is not a method but has arguments"));
                }
                match (map.get(field), self.setting.missing_key) {
                    (Some(value), _) => Ok(Got::of(value, map.elem)),
                    (None, MissingKey::Default) => Ok(Got::plain(Val::Absent)),
                    (None, MissingKey::Zero) if map.elem == Elem::Str => Ok(Got::plain(Val::str(""))),
                    (None, MissingKey::Zero) => Ok(Got::of(Val::Nil, Elem::Any)),
                    (None, MissingKey::Error) => {
                        self.fail(format!("map has no entry for key {}", quoted(field)))
                    }
                }
            }
            Val::Version(version) => match field {
                "Major" => Ok(Got::plain(Val::Uint64(version.major))),
                "Minor" => Ok(Got::plain(Val::Uint64(version.minor))),
                "Patch" => Ok(Got::plain(Val::Uint64(version.patch))),
                "Prerelease" => Ok(Got::plain(Val::str(version.prerelease.as_str()))),
                "Metadata" => Ok(Got::plain(Val::str(version.metadata.as_str()))),
                "Original" => Ok(Got::plain(Val::str(version.original.as_str()))),
                "String" => Ok(Got::plain(Val::str(version.to_string()))),
                _ => self.fail(format!("can't evaluate field {field} in type {}", receiver.type_name())),
            },
            _ => self.fail(format!("can't evaluate field {field} in type {}", receiver.type_name())),
        }
    }
}
