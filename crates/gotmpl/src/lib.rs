//! Go's `text/template` and the functions of sprig, on JSON values.
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
//! What a template prints, and the words of an error, are those of Go, down to the position; a table of cases made by Go
//! itself holds the crate to it. It differs where Go's behaviour depends on the machine or on chance:
//!
//! - times are in UTC unless a zone is named, `Local` is UTC too, and `now` is what the caller says;
//! - functions that draw random numbers, make keys or ask the system (`randAlpha`, `uuidv4`, `genCA`, `env` …) are known
//!   and refuse to be called: a template that says something else at every look can never be up to date;
//! - texts are UTF-8: a function that cuts a character in two leaves a replacement character;
//! - steps, output and nesting are [limited](Limits).
//!
//! Where to look: `lex` text to tokens, `parse` tokens to the tree of `node`, `exec` tree and data to text, `value` what data
//! is, `format` how it is printed, `funcs` the functions.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

mod compare;
mod exec;
mod format;
mod funcs;
mod lex;
mod node;
mod parse;
mod printf;
mod quote;
mod semver;
mod time;
mod value;
mod zone;

/// How deep constructs and parentheses may be nested in a text.
const MAX_DEPTH: usize = 200;

/// What happens at a key that a map does not have: the option `missingkey`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// It prints `<no value>`: `default` and `invalid`.
    #[default]
    Default,
    /// It is the empty value of its type: `zero`.
    Zero,
    /// It is an error: `error`.
    Error,
}

/// An option that Go's `Template.Option` would not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{option:?} is not an option of templates; write missingkey=default, missingkey=zero or missingkey=error"
)]
pub struct InvalidOption {
    option: String,
}

impl MissingKey {
    /// From an option, such as `missingkey=error`.
    pub fn from_option(option: &str) -> Result<Self, InvalidOption> {
        match option {
            "missingkey=default" | "missingkey=invalid" => Ok(Self::Default),
            "missingkey=zero" => Ok(Self::Zero),
            "missingkey=error" => Ok(Self::Error),
            _ => Err(InvalidOption { option: option.to_owned() }),
        }
    }
}

/// What one rendering may use, so that no template can hold up its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes, commands, turns of loops, one for every 256 bytes or elements that a function gives, and one for every 16
    /// values within a value that is looked at as a whole.
    pub steps: usize,
    /// Bytes written, and bytes of any text on the way.
    pub output_bytes: usize,
    /// Templates within templates.
    pub depth: usize,
}

impl Default for Limits {
    /// A million steps, 8 MiB, 200 levels.
    fn default() -> Self {
        Self { steps: 1_000_000, output_bytes: 8 << 20, depth: 200 }
    }
}

/// Why a text is no template, in the words of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {template}:{line}: {message}")]
pub struct ParseError {
    /// Name of the template.
    pub template: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

/// Why a template could not be rendered, in the words of Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExecError {
    message: String,
}

/// A function of the caller's: JSON values in, a JSON value or words about what is wrong out.
pub type HostFunction = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// What templates can do: their functions, options and limits.
#[derive(Clone, Default)]
pub struct Engine {
    sprig: bool,
    missing_key: MissingKey,
    limits: Limits,
    now: Option<i64>,
    hidden: Vec<&'static str>,
    own: BTreeMap<String, Arc<HostFunction>>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("sprig", &self.sprig)
            .field("missing_key", &self.missing_key)
            .field("limits", &self.limits)
            .field("own", &self.own.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// With the functions that every Go template has.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the functions of sprig as well.
    pub fn with_sprig() -> Self {
        Self { sprig: true, ..Self::default() }
    }

    /// With another answer to keys that are not there.
    #[must_use]
    pub fn missing_key(self, missing_key: MissingKey) -> Self {
        Self { missing_key, ..self }
    }

    /// With other limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// With a time for `now` and `ago`, in seconds since 1970; without, they are an error.
    #[must_use]
    pub fn now(self, seconds: i64) -> Self {
        Self { now: Some(seconds), ..self }
    }

    /// Without some functions: a template that names one is refused as if it did not exist.
    #[must_use]
    pub fn without(mut self, names: &[&'static str]) -> Self {
        self.hidden.extend_from_slice(names);
        self
    }

    /// With a function of the caller's, which takes any number of arguments.
    #[must_use]
    pub fn function(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        self.own.insert(name.into(), Arc::new(function));
        self
    }

    /// Parses a text.
    pub fn parse(&self, name: &str, text: &str) -> Result<Template<'_>, ParseError> {
        let trees = parse::parse(name, text, &|function| self.find(function).is_some())?;
        Ok(Template { engine: self, name: name.to_owned(), text: text.to_owned(), trees })
    }

    fn find(&self, name: &str) -> Option<funcs::Function> {
        if self.hidden.contains(&name) {
            return None;
        }
        match self.own.get(name) {
            Some(own) => Some(funcs::Function::of_host(own.clone())),
            None => funcs::find(name, self.sprig),
        }
    }
}

/// A text that was parsed.
#[derive(Debug)]
pub struct Template<'e> {
    engine: &'e Engine,
    name: String,
    text: String,
    trees: parse::Trees,
}

impl Template<'_> {
    /// What it says with some data as its dot.
    pub fn render(&self, data: &Value) -> Result<String, ExecError> {
        self.render_within(data, self.engine.limits).0
    }

    /// The same within limits of its own, and how many steps of them it took: for those who render much, and have a limit
    /// for all of it.
    pub fn render_within(&self, data: &Value, limits: Limits) -> (Result<String, ExecError>, usize) {
        let setting = exec::Setting {
            name: &self.name,
            text: &self.text,
            trees: &self.trees,
            missing_key: self.engine.missing_key,
            limits,
            now: self.engine.now,
            function: &|name| self.engine.find(name),
        };
        exec::execute(&setting, value::Val::from_json(data))
    }
}
