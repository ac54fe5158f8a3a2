//! jq path expressions, restricted to those that select fields to ignore.
//!
//! jq is a programming language, and its programs can run forever. Selecting fields takes only a small part
//! of it, so only that part is accepted: every step descends into the object, values are never computed,
//! references never point back up, and everything that multiplies the work is counted. The work is therefore
//! bounded by the object's size, and no timeout is needed.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Term};
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::native::{Filter as Native, unary, v};
use jaq_core::path::Part;
use jaq_core::{Compiler, Ctx, Error, Vars, data, unwrap_valr};
use jaq_json::{Num, Val};
use jaq_std::ValT as _;
use serde_json::Value;

use super::super::path::{Path, Step};

/// Maximum length of an expression in bytes. Real ones stay below a hundred.
const LENGTH_MAX: usize = 1_000;
/// Maximum nesting depth of brackets, because the parser is recursive.
const NESTING_MAX: usize = 32;
/// Maximum number of `..` operators in an expression. Each can multiply the work by the size of the object.
const DESCENTS_MAX: usize = 2;
/// Maximum number of list constructors in an expression.
const LISTS_MAX: usize = 4;
/// Maximum number of ways that commas and alternatives can reach the same field.
const BRANCHES_MAX: usize = 256;
/// Maximum number of fields that an expression may select in one object.
const PATHS_MAX: usize = 10_000;
/// Maximum memory of a compiled regular expression in bytes.
const REGEX_BYTES_MAX: usize = 1 << 18;

/// Functions allowed in an expression, with their arity. None can loop or return a value larger than its
/// input.
const ALLOWED_FUNCTIONS: [(&str, usize); 34] = [
    ("all", 0),
    ("all", 1),
    ("all", 2),
    ("any", 0),
    ("any", 1),
    ("any", 2),
    ("arrays", 0),
    ("ascii_downcase", 0),
    ("contains", 1),
    ("empty", 0),
    ("endswith", 1),
    ("false", 0),
    ("first", 0),
    ("first", 1),
    ("getpath", 1),
    ("has", 1),
    ("isempty", 1),
    ("keys", 0),
    ("last", 0),
    ("last", 1),
    ("length", 0),
    ("ltrimstr", 1),
    ("not", 0),
    ("null", 0),
    ("objects", 0),
    ("recurse", 0),
    ("rtrimstr", 1),
    ("select", 1),
    ("startswith", 1),
    ("strings", 0),
    ("test", 1),
    ("true", 0),
    ("type", 0),
    ("values", 0),
];

/// Allowed functions that jaq lacks or defines differently.
const FUNCTION_DEFINITIONS: &str = r#"
def null: [][0];
def keys: keys_unsorted | sort;
def type:
  if . == null then "null" elif . == true or . == false then "boolean" elif . < "" then "number"
  elif . < [] then "string" elif . < {} then "array" else "object" end;
def values: select(. != null);
def strings: select(type == "string");
def arrays: select(type == "array");
def objects: select(type == "object");
"#;

/// Reason for rejecting a jq expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// The expression is too long or nested too deeply.
    #[error("too large; use at most {LENGTH_MAX} characters and {NESTING_MAX} levels of brackets")]
    TooLarge,
    /// The expression is not valid jq.
    #[error("not valid jq")]
    Syntax,
    /// The expression contains something that doesn't select fields.
    #[error(
        "{0} cannot select fields; use a path such as .spec.containers[] | select(.name == \"a\") | .image"
    )]
    NotAPath(String),
    /// Evaluating the expression could take too long.
    #[error(
        "evaluation could take too long; use `..`, lists, commas and `//` less often, or split the expression into \
         several expressions"
    )]
    TooMuchWork,
}

type JqFilter = jaq_core::Filter<data::JustLut<Val>>;

/// Compiled `jqPathExpressions` entry. It can only select fields.
pub(super) struct Jq(JqFilter);

impl Jq {
    /// Compiles an expression, rejecting anything that does more than select fields.
    pub fn compile(expression: &str) -> Result<Self, JqError> {
        check_size(expression)?;
        let term = load::parse(expression, |parser| parser.term()).ok_or(JqError::Syntax)?;
        let mut cost = WorkEstimate::default();
        if cost.count_paths(&term)? > BRANCHES_MAX || cost.descents > DESCENTS_MAX || cost.lists > LISTS_MAX {
            return Err(JqError::TooMuchWork);
        }
        // The expression was parsed on its own before, so its brackets match. The line break ends a trailing
        // comment.
        let code = format!("path({expression}\n)");
        let definitions = load::parse(FUNCTION_DEFINITIONS, |parser| parser.defs()).ok_or(JqError::Syntax)?;
        let arena = Arena::default();
        let loader = Loader::new(jaq_core::defs().chain(definitions));
        let modules =
            loader.load(&arena, File { code: code.as_str(), path: () }).map_err(|_| JqError::Syntax)?;
        let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
        Compiler::default()
            .with_funs(functions.chain([regex_test_function()]))
            .compile(modules)
            .map(Self)
            .map_err(|_| JqError::Syntax)
    }

    /// Returns the fields that the expression selects in an object, whether or not they exist. As in Argo CD,
    /// an expression that fails selects nothing.
    pub fn paths(&self, object: &Value) -> Vec<Path> {
        let context = Ctx::<data::JustLut<Val>>::new(&self.0.lut, Vars::new([]));
        let found = self.0.id.run((context, to_jq(object))).map(unwrap_valr);
        let paths: Option<Vec<Option<Path>>> =
            found.take(PATHS_MAX).map(|path| path.ok().and_then(|path| to_path(&path, object))).collect();
        paths.unwrap_or_default().into_iter().flatten().collect()
    }
}

fn check_size(expression: &str) -> Result<(), JqError> {
    let mut depth = 0_usize;
    for c in expression.chars() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > NESTING_MAX {
            return Err(JqError::TooLarge);
        }
    }
    if expression.len() > LENGTH_MAX { Err(JqError::TooLarge) } else { Ok(()) }
}

/// Factors that multiply the work of evaluating an expression.
#[derive(Default)]
struct WorkEstimate {
    descents: usize,
    lists: usize,
}

impl WorkEstimate {
    /// Counts the ways an expression can reach the same value. Rejects anything that does more than select
    /// fields.
    fn count_paths(&mut self, term: &Term<&str>) -> Result<usize, JqError> {
        let refused = |what: &str| Err(JqError::NotAPath(what.to_owned()));
        Ok(match term {
            Term::Id | Term::Num(_) => 1,
            Term::Recurse => self.add_descent(),
            Term::Str(None, parts) if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) => 1,
            Term::Str(..) => return refused("a formatted or interpolated string"),
            Term::Arr(None) => 1,
            Term::Arr(Some(items)) => {
                self.lists += 1;
                self.count_paths(items)?
            }
            Term::Obj(fields) if fields.is_empty() => 1,
            Term::Obj(_) => return refused("an object construction"),
            Term::Neg(inner) => self.count_paths(inner)?,
            Term::BinOp(left, operator, right) => {
                let (left, right) = (self.count_paths(left)?, self.count_paths(right)?);
                match operator {
                    BinaryOp::Comma | BinaryOp::Alt => left.saturating_add(right),
                    BinaryOp::Pipe(None) | BinaryOp::Or | BinaryOp::And | BinaryOp::Cmp(_) => {
                        left.saturating_mul(right)
                    }
                    BinaryOp::Pipe(Some(_)) => return refused("a variable"),
                    BinaryOp::Math(_) => return refused("arithmetic"),
                    _ => return refused("an assignment"),
                }
            }
            Term::TryCatch(tried, caught) => {
                let caught = caught.as_ref().map_or(Ok(0), |caught| self.count_paths(caught))?;
                self.count_paths(tried)?.saturating_add(caught)
            }
            Term::IfThenElse(branches, otherwise) => self.count_branches(branches, otherwise.as_deref())?,
            Term::Call(name, arguments) => self.count_call(name, arguments)?,
            Term::Path(start, path) => {
                let mut ways = self.count_paths(start)?;
                for (part, _) in &path.0 {
                    match part {
                        Part::Index(index) => ways = ways.saturating_mul(self.count_paths(index)?),
                        Part::Range(None, None) => {}
                        Part::Range(..) => return refused("a slice of an array"),
                    }
                }
                ways
            }
            Term::Label(..) | Term::Break(_) => return refused("a label"),
            Term::Fold(..) => return refused("reduce or foreach"),
            Term::Def(..) => return refused("a function definition"),
            Term::Var(_) => return refused("a variable"),
        })
    }

    fn add_descent(&mut self) -> usize {
        self.descents += 1;
        1
    }

    fn count_branches(
        &mut self,
        branches: &[(Term<&str>, Term<&str>)],
        otherwise: Option<&Term<&str>>,
    ) -> Result<usize, JqError> {
        let mut ways = otherwise.map_or(Ok(1), |term| self.count_paths(term))?;
        for (condition, consequence) in branches {
            ways = ways
                .saturating_add(self.count_paths(condition)?.saturating_mul(self.count_paths(consequence)?));
        }
        Ok(ways)
    }

    fn count_call(&mut self, name: &str, arguments: &[Term<&str>]) -> Result<usize, JqError> {
        if !ALLOWED_FUNCTIONS.contains(&(name, arguments.len())) {
            return Err(JqError::NotAPath(format!("{name}/{}", arguments.len())));
        }
        if name == "recurse" {
            self.add_descent();
        }
        arguments
            .iter()
            .try_fold(1, |ways: usize, argument| Ok(ways.saturating_mul(self.count_paths(argument)?)))
    }
}

/// Returns the function `regex_test_function(regex)`, with bounded memory use.
fn regex_test_function() -> jaq_core::native::Fun<data::JustLut<Val>> {
    let test: Native<jaq_core::RunPtr<data::JustLut<Val>>> = ("test", v(1), |cv| {
        unary(cv, |text: Val, pattern: Val| {
            let pattern = String::from_utf8_lossy(pattern.try_as_utf8_bytes()?).into_owned();
            let regex = regex_bites::bytes::RegexBuilder::new(&pattern)
                .size_limit(REGEX_BYTES_MAX)
                .build()
                .map_err(Error::str)?;
            Ok(Val::from(regex.is_match(text.try_as_utf8_bytes()?)))
        })
    });
    jaq_core::native::run::<data::JustLut<Val>>(test)
}

fn to_jq(value: &Value) -> Val {
    match value {
        Value::Null => Val::Null,
        Value::Bool(value) => Val::from(*value),
        Value::Number(number) => Val::Num(Num::from_dec_str(&number.to_string())),
        Value::String(text) => Val::from(text.clone()),
        Value::Array(items) => items.iter().map(to_jq).collect(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (Val::from(name.clone()), to_jq(value)));
            Val::obj(fields.collect())
        }
    }
}

/// Converts a jq path. Returns `None` if the value isn't a path, and `Some(None)` if the path counts from the
/// end of a list that is missing or too short.
fn to_path(path: &Val, object: &Value) -> Option<Option<Path>> {
    let Val::Arr(steps) = path else { return None };
    let mut path = Path::default();
    for step in steps.iter() {
        let step = match step {
            Val::TStr(name) => Step::Field(String::from_utf8(name.to_vec()).ok()?),
            Val::Num(_) => {
                let index = step.as_isize()?;
                let from_end = || path.get(object)?.as_array()?.len().checked_sub(index.unsigned_abs());
                let place = usize::try_from(index).ok().or_else(from_end);
                let Some(place) = place else { return Some(None) };
                Step::Item(place)
            }
            _ => return None,
        };
        path.0.push(step);
    }
    Some(Some(path))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named_paths(expression: &str) -> Vec<String> {
        let object = json!({"spec": {"replicas": 3, "containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "K"}]}, {"name": "b", "image": "y:2"}]},
            "webhooks": [{"clientConfig": {"caBundle": "x"}}, {"clientConfig": {}}], "data": {"a.b/c": "1"}});
        let jq = Jq::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        jq.paths(&object).iter().map(Path::to_string).collect()
    }

    #[test]
    fn expressions_name_fields() {
        for (expression, paths) in [
            (".spec.replicas", &["/spec/replicas"][..]),
            (".spec.missing.below", &["/spec/missing/below"]),
            (".spec.containers[].image", &["/spec/containers/0/image", "/spec/containers/1/image"]),
            (r#".spec.containers[] | select(.name == "b")"#, &["/spec/containers/1"]),
            (r#".spec.containers[] | select(.image | test("^x:")).image"#, &["/spec/containers/0/image"]),
            (r#".spec.containers[1:][]?"#, &[]),
            (
                r#".spec.containers[] | select(any(.env[]?; .name == "K")) | .env"#,
                &["/spec/containers/0/env"],
            ),
            (
                ".webhooks[]?.clientConfig.caBundle",
                &["/webhooks/0/clientConfig/caBundle", "/webhooks/1/clientConfig/caBundle"],
            ),
            (r#".data["a.b/c"]"#, &["/data/a.b~1c"]),
            (".spec.containers[-1].image", &["/spec/containers/1/image"]),
            (".spec.containers[-2, -3].image", &["/spec/containers/0/image"]),
            (".spec.containers | last | .image", &["/spec/containers/1/image"]),
            (".spec.containers[0].env[-1].name", &["/spec/containers/0/env/0/name"]),
            (".spec.missing[-1], .spec.replicas", &["/spec/replicas"]),
            (
                r#".. | select(type == "object" and has("caBundle")) | .caBundle"#,
                &["/webhooks/0/clientConfig/caBundle"],
            ),
            (".spec.replicas, .data # both", &["/spec/replicas", "/data"]),
            (r#"if .spec.replicas > 2 then .spec.replicas else empty end"#, &["/spec/replicas"]),
            (r#"getpath(["spec", "replicas"])"#, &["/spec/replicas"]),
            (".spec.nothing[].image", &[]),
            (".spec.replicas[]", &[]),
        ] {
            if expression.contains("1:") {
                assert!(Jq::compile(expression).is_err());
                continue;
            }
            assert_eq!(named_paths(expression), paths, "{expression}");
        }
    }

    #[test]
    fn non_path_and_expensive_expressions_are_rejected() {
        for expression in [
            "",
            ".spec.",
            ".a) | (.b",
            "def f: f; f",
            "[range(1000000000000)]",
            "repeat(.)",
            "recurse(.)",
            "until(false; .)",
            "reduce .[] as $x (0; . + $x)",
            ". as $x | $x",
            "env",
            "now",
            "input",
            ".a + .a",
            r#""\(.)\(.)""#,
            "del(.a)",
            ".a = 1",
            ".. | .. | ..",
            "[[[[[.]]]]]",
            "(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)|(.,.)",
            "$__loc__",
            "halt",
            "error",
        ] {
            assert!(Jq::compile(expression).is_err(), "{expression}");
        }
        assert!(matches!(Jq::compile(&"(".repeat(40)), Err(JqError::TooLarge)));
        assert!(matches!(Jq::compile(&".a|".repeat(400)), Err(JqError::TooLarge)));
    }

    #[test]
    fn large_regular_expressions_are_rejected() {
        assert!(
            named_paths(r#".spec.containers[] | select(.name | test("((a{1000}){1000}){1000}"))"#).is_empty()
        );
    }
}
