//! Execution of a template's syntax tree with data. Error messages match those of Go's `text/template`.

mod calls;

use std::rc::Rc;

use crate::funcs::Function;
use crate::node::{Branch, Command, Node, Number, Operand, OperandKind, Pipe};
use crate::parse::Trees;
use crate::quote::quote_string;
use crate::value::{Elem, Val};
use crate::{ExecError, Limits, MissingKey, format};

/// Settings for one rendering.
pub(crate) struct RenderSettings<'t> {
    pub(crate) name: &'t str,
    pub(crate) text: &'t str,
    pub(crate) trees: &'t Trees,
    pub(crate) missing_key: MissingKey,
    pub(crate) limits: Limits,
    pub(crate) now: Option<i64>,
    pub(crate) find_function: &'t dyn Fn(&str) -> Option<Function>,
}

/// Renders the template named in the settings. Returns the text and the number of steps used.
pub(crate) fn execute(setting: &RenderSettings<'_>, data: Val) -> (Result<String, ExecError>, usize) {
    let mut run = Executor {
        setting,
        tree: setting.name.to_owned(),
        position: None,
        variables: vec![("$".to_owned(), TypedValue::concrete(data.clone()))],
        text: String::new(),
        steps: setting.limits.steps,
        depth: 0,
    };
    let Some(nodes) = setting.trees.get(setting.name) else {
        let message = format!(
            "template: {0}: {1} is an incomplete or empty template",
            setting.name,
            quote_string(setting.name)
        );
        return (Err(ExecError { message }), 0);
    };
    let ran = run.execute_nodes(&TypedValue::concrete(data), nodes);
    let taken = setting.limits.steps - run.steps;
    (ran.map(|_| run.text), taken)
}

/// A value, with a flag if Go stores it as `interface {}`. The flag affects error messages.
#[derive(Clone, Debug)]
struct TypedValue {
    value: Val,
    is_interface: bool,
}

impl TypedValue {
    fn concrete(value: Val) -> Self {
        Self { value, is_interface: false }
    }

    /// Wraps an element of a list or map. A missing element becomes null.
    fn from_element(value: Val, elem: Elem) -> Self {
        let value = if matches!(value, Val::Absent) { Val::Nil } else { value };
        Self { value, is_interface: elem == Elem::Any }
    }

    /// Converts null to a missing value. In Go, null is an interface without a value.
    fn unwrap_null(self) -> Self {
        match self.value {
            Val::Nil => Self::concrete(Val::Absent),
            value => Self::concrete(value),
        }
    }

    fn type_name(&self) -> &'static str {
        if self.is_interface { "interface {}" } else { self.value.type_name() }
    }
}

/// Reason the execution of a list of nodes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Normal,
    Break,
    Continue,
}

struct Executor<'s, 't> {
    setting: &'s RenderSettings<'t>,
    /// The template being executed.
    tree: String,
    /// Byte offset in the template, and the text of the node there.
    position: Option<(usize, String)>,
    variables: Vec<(String, TypedValue)>,
    text: String,
    steps: usize,
    depth: usize,
}

type ExecResult<T> = Result<T, ExecError>;

impl Executor<'_, '_> {
    fn fail<T>(&self, message: impl AsRef<str>) -> ExecResult<T> {
        let message = message.as_ref();
        let own = self.setting.name;
        let Some((at, context)) = &self.position else {
            return Err(ExecError { message: format!("template: {own}: {message}") });
        };
        let before = self.setting.text.get(..*at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rfind('\n').map_or(*at, |end| at - end - 1);
        let tree = quote_string(&self.tree);
        Err(ExecError {
            message: format!("template: {own}:{line}:{column}: executing {tree} at <{context}>: {message}"),
        })
    }

    fn set_position(&mut self, place: usize, node: &impl std::fmt::Display) {
        self.position = Some((place, node.to_string()));
    }

    fn take_step(&mut self) -> ExecResult<()> {
        self.take_steps(1)
    }

    fn take_steps(&mut self, steps: usize) -> ExecResult<()> {
        match self.steps.checked_sub(steps) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => self.fail(format!("the template needs more than {} steps", self.setting.limits.steps)),
        }
    }

    fn write(&mut self, text: &str) -> ExecResult<()> {
        if self.text.len().saturating_add(text.len()) > self.setting.limits.output_bytes {
            return self
                .fail(format!("the template produces more than {} bytes", self.setting.limits.output_bytes));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn execute_nodes(&mut self, dot: &TypedValue, nodes: &[Node]) -> ExecResult<Flow> {
        for node in nodes {
            self.take_step()?;
            let flow = match node {
                Node::Text(text) => {
                    self.write(text)?;
                    Flow::Normal
                }
                Node::Action(pipe) => {
                    self.execute_action(dot, pipe)?;
                    Flow::Normal
                }
                Node::If(branch) => self.execute_branch(dot, branch, false)?,
                Node::With(branch) => self.execute_branch(dot, branch, true)?,
                Node::Range(branch) => self.execute_range(dot, branch)?,
                Node::Template { offset: at, name, pipe } => {
                    self.execute_template(dot, *at, name, pipe.as_ref())?;
                    Flow::Normal
                }
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if flow != Flow::Normal {
                return Ok(flow);
            }
        }
        Ok(Flow::Normal)
    }

    fn execute_action(&mut self, dot: &TypedValue, pipe: &Pipe) -> ExecResult<()> {
        let got = self.evaluate_pipe(dot, pipe)?;
        if !pipe.variables.is_empty() {
            return Ok(());
        }
        match got.value {
            Val::Absent | Val::Nil => self.write("<no value>"),
            value => {
                self.check_argument_size(&value, true)?;
                self.write(&format::format_plain(&value))
            }
        }
    }

    fn execute_branch(&mut self, dot: &TypedValue, branch: &Branch, sets_dot: bool) -> ExecResult<Flow> {
        let known = self.variables.len();
        let got = self.evaluate_pipe(dot, &branch.pipe)?;
        let flow = if got.value.is_true() {
            self.execute_nodes(if sets_dot { &got } else { dot }, &branch.list)?
        } else {
            match &branch.otherwise {
                Some(list) => self.execute_nodes(dot, list)?,
                None => Flow::Normal,
            }
        };
        self.variables.truncate(known);
        Ok(flow)
    }

    fn execute_range(&mut self, dot: &TypedValue, branch: &Branch) -> ExecResult<Flow> {
        let known = self.variables.len();
        let got = self.evaluate_pipe(dot, &branch.pipe)?;
        let items: Vec<(Val, TypedValue)> = match got.value {
            Val::List(list) => {
                let items = list.items.iter().enumerate();
                items
                    .map(|(index, item)| {
                        (Val::count(index), TypedValue::from_element(item.clone(), list.elem))
                    })
                    .collect()
            }
            Val::Map(map) => {
                let items = map.entries().into_iter();
                items.map(|(key, item)| (Val::str(key), TypedValue::from_element(item, map.elem))).collect()
            }
            Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
                return self.execute_count(dot, branch, &got.value, known);
            }
            Val::Absent | Val::Nil => Vec::new(),
            other => return self.fail(format!("range can't iterate over {}", format::format_plain(&other))),
        };
        // A `continue` in the else branch of a range affects the enclosing loop, so return it to that loop.
        let mut flow = Flow::Normal;
        if items.is_empty() {
            // The loop variables keep the value of the range expression.
            flow = self.execute_else(dot, branch)?;
        }
        for (key, item) in items {
            if self.execute_iteration(branch, key, item)? == Flow::Break {
                break;
            }
        }
        self.variables.truncate(known);
        Ok(flow)
    }

    /// Iterates over a number `n` by counting from 0 to `n - 1`. The counter has the number's type.
    fn execute_count(
        &mut self,
        dot: &TypedValue,
        branch: &Branch,
        value: &Val,
        known: usize,
    ) -> ExecResult<Flow> {
        let count = value.integer().unwrap_or_default();
        if branch.pipe.variables.len() > 1 {
            return self.fail(format!("can't use {count} to iterate over more than one variable"));
        }
        let flow = if count <= 0 { self.execute_else(dot, branch)? } else { Flow::Normal };
        for number in 0..count {
            let number = match value {
                Val::Int64(_) => i64::try_from(number).map(Val::Int64).unwrap_or(Val::Nil),
                Val::Uint8(_) => u8::try_from(number).map(Val::Uint8).unwrap_or(Val::Nil),
                Val::Uint64(_) => u64::try_from(number).map(Val::Uint64).unwrap_or(Val::Nil),
                _ => i64::try_from(number).map(Val::Int).unwrap_or(Val::Nil),
            };
            if self.execute_iteration(branch, number.clone(), TypedValue::concrete(number))? == Flow::Break {
                break;
            }
        }
        self.variables.truncate(known);
        Ok(flow)
    }

    /// Executes the else branch of a range. A `break` ends only this branch, whereas a `continue` continues
    /// the enclosing loop.
    fn execute_else(&mut self, dot: &TypedValue, branch: &Branch) -> ExecResult<Flow> {
        let Some(list) = &branch.otherwise else { return Ok(Flow::Normal) };
        let known = self.variables.len();
        let flow = self.execute_nodes(dot, list)?;
        self.variables.truncate(known);
        Ok(if flow == Flow::Break { Flow::Normal } else { flow })
    }

    /// Executes one loop iteration.
    fn execute_iteration(&mut self, branch: &Branch, key: Val, item: TypedValue) -> ExecResult<Flow> {
        self.take_step()?;
        let known = self.variables.len();
        let set = |run: &mut Self, name: &str, got: TypedValue| -> ExecResult<()> {
            if branch.pipe.is_assignment {
                return run.assign_variable(name, got);
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
                set(self, index, TypedValue::concrete(key))?;
                set(self, value, item.clone())?;
            }
        }
        let flow = self.execute_nodes(&item, &branch.list)?;
        self.variables.truncate(known);
        Ok(flow)
    }

    fn execute_template(
        &mut self,
        dot: &TypedValue,
        at: usize,
        name: &str,
        pipe: Option<&Pipe>,
    ) -> ExecResult<()> {
        let written = match pipe {
            Some(pipe) => format!("{{{{template {} {pipe}}}}}", quote_string(name)),
            None => format!("{{{{template {}}}}}", quote_string(name)),
        };
        self.set_position(at, &written);
        let Some(nodes) = self.setting.trees.get(name) else {
            return self.fail(format!("template {} not defined", quote_string(name)));
        };
        if self.depth >= self.setting.limits.depth {
            return self.fail(format!("exceeded maximum template depth ({})", self.setting.limits.depth));
        }
        let inner = match pipe {
            Some(pipe) => self.evaluate_pipe(dot, pipe)?,
            None => TypedValue::concrete(Val::Absent),
        };
        let variables = std::mem::replace(&mut self.variables, vec![("$".to_owned(), inner.clone())]);
        let tree = std::mem::replace(&mut self.tree, name.to_owned());
        self.depth += 1;
        self.execute_nodes(&inner, nodes)?;
        self.depth -= 1;
        self.tree = tree;
        self.variables = variables;
        Ok(())
    }

    fn assign_variable(&mut self, name: &str, got: TypedValue) -> ExecResult<()> {
        match self.variables.iter_mut().rev().find(|(known, _)| known == name) {
            Some((_, value)) => {
                *value = got;
                Ok(())
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }

    fn evaluate_pipe(&mut self, dot: &TypedValue, pipe: &Pipe) -> ExecResult<TypedValue> {
        self.set_position(pipe.offset, pipe);
        let mut value = None;
        for command in &pipe.commands {
            value = Some(self.evaluate_command(dot, command, value)?.unwrap_null());
        }
        let value = value.unwrap_or_else(|| TypedValue::concrete(Val::Absent));
        for variable in &pipe.variables {
            if pipe.is_assignment {
                self.assign_variable(variable, value.clone())?;
            } else {
                self.variables.push((variable.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn evaluate_command(
        &mut self,
        dot: &TypedValue,
        command: &Rc<Command>,
        last: Option<TypedValue>,
    ) -> ExecResult<TypedValue> {
        self.take_step()?;
        let Some((first, arguments)) = command.operands.split_first() else {
            return self.fail("empty command");
        };
        match &first.kind {
            OperandKind::Identifier(name) => {
                return self.call_function(
                    dot,
                    name,
                    first,
                    command.offset,
                    command.as_ref(),
                    arguments,
                    last,
                );
            }
            OperandKind::Field(fields) => {
                self.set_position(first.offset, first);
                return self.evaluate_fields(dot.clone(), fields, !arguments.is_empty() || last.is_some());
            }
            OperandKind::Variable(_) | OperandKind::Chain(..) => {
                self.set_position(first.offset, first);
                return self.evaluate_operand(dot, first, !arguments.is_empty() || last.is_some());
            }
            _ => {}
        }
        self.set_position(first.offset, first);
        if !arguments.is_empty() || last.is_some() {
            return self.fail(format!("can't give argument to non-function {first}"));
        }
        match &first.kind {
            OperandKind::Nil => self.fail("nil is not a command"),
            _ => self.evaluate_operand(dot, first, false),
        }
    }

    /// Returns the value of an operand that isn't a function call with arguments.
    fn evaluate_operand(
        &mut self,
        dot: &TypedValue,
        operand: &Operand,
        has_arguments: bool,
    ) -> ExecResult<TypedValue> {
        self.set_position(operand.offset, operand);
        match &operand.kind {
            OperandKind::Dot => Ok(dot.clone()),
            OperandKind::Nil => Ok(TypedValue::concrete(Val::Nil)),
            OperandKind::Bool(value) => Ok(TypedValue::concrete(Val::Bool(*value))),
            OperandKind::Number(number) => self.evaluate_number(number),
            OperandKind::Text(text, _) => Ok(TypedValue::concrete(Val::Str(text.clone()))),
            OperandKind::Field(fields) => self.evaluate_fields(dot.clone(), fields, has_arguments),
            OperandKind::Variable(names) => {
                let (name, fields) =
                    names.split_first().map_or(("", names.as_slice()), |(name, rest)| (name, rest));
                let found = self.variables.iter().rev().find(|(known, _)| known == name);
                let Some(value) = found.map(|(_, value)| value.clone()) else {
                    return self.fail(format!("undefined variable: {name}"));
                };
                if fields.is_empty() && has_arguments {
                    return self.fail(format!("can't give argument to non-function {operand}"));
                }
                self.evaluate_fields(value, fields, has_arguments)
            }
            OperandKind::Chain(inner, fields) => {
                if matches!(inner.kind, OperandKind::Nil) {
                    return self.fail(format!("indirection through explicit nil in {operand}"));
                }
                let value = self.evaluate_operand(dot, inner, false)?;
                self.evaluate_fields(value, fields, has_arguments)
            }
            OperandKind::Pipe(pipe) => self.evaluate_pipe(dot, pipe),
            OperandKind::Identifier(name) => {
                self.call_function(dot, name, operand, operand.offset, operand, &[], None)
            }
        }
    }

    fn evaluate_number(&mut self, number: &Number) -> ExecResult<TypedValue> {
        if number.is_float() {
            return Ok(TypedValue::concrete(Val::Float(number.float.unwrap_or_default())));
        }
        match (number.int, number.uint) {
            (Some(int), _) => Ok(TypedValue::concrete(Val::Int(int))),
            (None, Some(_)) => self.fail(format!("{} overflows int", number.text)),
            _ => Ok(TypedValue::concrete(Val::Float(number.float.unwrap_or_default()))),
        }
    }

    fn evaluate_fields(
        &mut self,
        start: TypedValue,
        fields: &[String],
        has_arguments: bool,
    ) -> ExecResult<TypedValue> {
        let mut got = start;
        for (number, field) in fields.iter().enumerate() {
            let is_last = number + 1 == fields.len();
            got = self.evaluate_field(got, field, is_last && has_arguments)?;
        }
        Ok(got)
    }

    fn evaluate_field(
        &mut self,
        receiver: TypedValue,
        field: &str,
        has_arguments: bool,
    ) -> ExecResult<TypedValue> {
        match &receiver.value {
            Val::Absent => match self.setting.missing_key {
                MissingKey::Error => self.fail(format!("nil data; no entry for key {}", quote_string(field))),
                _ => Ok(TypedValue::concrete(Val::Absent)),
            },
            Val::Nil => self.fail(format!("nil pointer evaluating {}.{field}", receiver.type_name())),
            Val::Map(map) => {
                if has_arguments {
                    return self.fail(format!("{field} is not a method but has arguments"));
                }
                match (map.get(field), self.setting.missing_key) {
                    (Some(value), _) => Ok(TypedValue::from_element(value, map.elem)),
                    (None, MissingKey::Default) => Ok(TypedValue::concrete(Val::Absent)),
                    (None, MissingKey::Zero) if map.elem == Elem::Str => {
                        Ok(TypedValue::concrete(Val::str("")))
                    }
                    (None, MissingKey::Zero) => Ok(TypedValue::from_element(Val::Nil, Elem::Any)),
                    (None, MissingKey::Error) => {
                        self.fail(format!("map has no entry for key {}", quote_string(field)))
                    }
                }
            }
            Val::Version(version) => match field {
                "Major" => Ok(TypedValue::concrete(Val::Uint64(version.major))),
                "Minor" => Ok(TypedValue::concrete(Val::Uint64(version.minor))),
                "Patch" => Ok(TypedValue::concrete(Val::Uint64(version.patch))),
                "Prerelease" => Ok(TypedValue::concrete(Val::str(version.prerelease.as_str()))),
                "Metadata" => Ok(TypedValue::concrete(Val::str(version.metadata.as_str()))),
                "Original" => Ok(TypedValue::concrete(Val::str(version.original.as_str()))),
                "String" => Ok(TypedValue::concrete(Val::str(version.to_string()))),
                _ => self.fail(format!("can't evaluate field {field} in type {}", receiver.type_name())),
            },
            _ => self.fail(format!("can't evaluate field {field} in type {}", receiver.type_name())),
        }
    }
}
