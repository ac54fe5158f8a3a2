//! Go's `text/template` and the sprig functions, for JSON values. The `gtmpl` crate lacks the sprig
//! functions, Go's error messages, and assignments with `=`
//! (<https://github.com/fiji-flo/gtmpl-rust/issues/27>).
//!
//! ```
//! use tidegate_gotmpl::Engine;
//!
//! let engine = Engine::with_sprig();
//! let template = engine.parse("greeting", "Hello {{ .name | upper }}!")?;
//! assert_eq!(template.render(&serde_json::json!({ "name": "tide" }))?, "Hello TIDE!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Output and error messages match Go's, including positions. Tests compare them with the results of Go for a
//! table of cases. The crate differs from Go where Go's result depends on the machine or on chance:
//!
//! - times are in UTC unless a zone is specified, `Local` means UTC, and the caller sets the current time;
//! - functions with random results or access to the environment (`randAlpha`, `uuidv4`, `genCA`, `env` …)
//!   exist but can't be called, because an Application that uses them would always be out of sync;
//! - strings are UTF-8, so a function that cuts a character in half inserts a replacement character;
//! - steps, output and nesting are [limited](Limits).
//!
//! Modules: `lexer` turns text into tokens, and `parse` turns tokens into the tree defined in `node`.
//! `execute` renders the tree with data. `value` defines template values, `format` prints them, and `funcs`
//! contains the functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

mod compare;
mod execute;
mod format;
mod funcs;
mod lexer;
mod node;
mod parse;
mod printf;
mod quote;
mod semver;
mod time;
mod value;
mod zone;

/// Maximum nesting depth of constructs and parentheses.
const MAX_DEPTH: usize = 200;

/// Behavior for missing map keys, like Go's `missingkey` option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// Prints `<no value>` (`missingkey=default` or `missingkey=invalid`).
    #[default]
    Default,
    /// Returns the zero value of the element type (`missingkey=zero`).
    Zero,
    /// Returns an error (`missingkey=error`).
    Error,
}

/// Error for an option that Go's `Template.Option` doesn't support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown template option {option:?}: use missingkey=default, missingkey=zero or missingkey=error")]
pub struct InvalidOption {
    option: String,
}

impl MissingKey {
    /// Parses an option such as `missingkey=error`.
    pub fn from_option(option: &str) -> Result<Self, InvalidOption> {
        match option {
            "missingkey=default" | "missingkey=invalid" => Ok(Self::Default),
            "missingkey=zero" => Ok(Self::Zero),
            "missingkey=error" => Ok(Self::Error),
            _ => Err(InvalidOption { option: option.to_owned() }),
        }
    }
}

/// Resource limits for one rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of steps. Each node, command and loop iteration counts as one step. In addition, a
    /// function counts as one step per 256 bytes or elements of its result, and per 16 nested values that it
    /// traverses.
    pub steps: usize,
    /// Maximum size, in bytes, of the output and of any intermediate string.
    pub output_bytes: usize,
    /// Maximum depth of nested template calls.
    pub depth: usize,
}

impl Default for Limits {
    /// One million steps, 8 MiB of output, and 200 levels of template calls.
    fn default() -> Self {
        Self { steps: 1_000_000, output_bytes: 8 << 20, depth: 200 }
    }
}

/// A syntax error, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {template}:{line}: {message}")]
pub struct ParseError {
    /// Name of the template.
    pub template: String,
    /// Line number, starting at 1.
    pub line: usize,
    /// Error message without the position.
    pub message: String,
}

/// A rendering error, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExecError {
    message: String,
}

/// A function defined by the caller. It takes JSON values, and returns a JSON value or an error message.
pub type CustomFunction = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// Functions, options and limits for templates.
#[derive(Clone, Default)]
pub struct Engine {
    sprig: bool,
    missing_key: MissingKey,
    limits: Limits,
    now: Option<i64>,
    removed: Vec<&'static str>,
    custom: BTreeMap<String, Arc<CustomFunction>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("sprig", &self.sprig)
            .field("missing_key", &self.missing_key)
            .field("limits", &self.limits)
            .field("own", &self.custom.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine with Go's built-in functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an engine with Go's built-in functions and sprig's functions.
    pub fn with_sprig() -> Self {
        Self { sprig: true, ..Self::default() }
    }

    /// Sets the behavior for missing keys.
    #[must_use]
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        Self { missing_key, ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the current Unix time for functions such as `now` and `ago`, which fail without it.
    #[must_use]
    pub fn now(self, seconds: i64) -> Self {
        Self { now: Some(seconds), ..self }
    }

    /// Removes functions. Templates that use them fail to parse, as if they didn't exist.
    #[must_use]
    pub fn without(mut self, names: &[&'static str]) -> Self {
        self.removed.extend_from_slice(names);
        self
    }

    /// Adds a custom function, which takes any number of arguments.
    #[must_use]
    pub fn function(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.custom.insert(name.into(), Arc::new(function));
        self
    }

    /// Parses a template.
    pub fn parse(&self, name: &str, text: &str) -> Result<Template<'_>, ParseError> {
        let trees = parse::parse(name, text, &|function| self.find(function).is_some())?;
        Ok(Template { engine: self, name: name.to_owned(), text: text.to_owned(), trees })
    }

    fn find(&self, name: &str) -> Option<funcs::Function> {
        if self.removed.contains(&name) {
            return None;
        }
        match self.custom.get(name) {
            Some(own) => Some(funcs::Function::from_custom(own.clone())),
            None => funcs::find(name, self.sprig),
        }
    }
}

/// A parsed template.
#[derive(Debug)]
pub struct Template<'e> {
    engine: &'e Engine,
    name: String,
    text: String,
    trees: parse::Trees,
}

impl Template<'_> {
    /// Renders the template. `data` is the initial value of dot.
    pub fn render(&self, data: &Value) -> Result<String, ExecError> {
        self.render_within(data, self.engine.limits).0
    }

    /// Renders the template with these limits instead of the engine's. Also returns the number of steps used,
    /// so that several renderings can share a limit.
    pub fn render_within(&self, data: &Value, limits: Limits) -> (Result<String, ExecError>, usize) {
        let setting = execute::RenderSettings {
            name: &self.name,
            text: &self.text,
            trees: &self.trees,
            missing_key: self.engine.missing_key,
            limits,
            now: self.engine.now,
            find_function: &|name| self.engine.find(name),
        };
        execute::execute(&setting, value::Val::from_json(data))
    }
}
