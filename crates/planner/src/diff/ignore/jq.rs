//! jq path expressions, as far as they can name fields to ignore.
//!
//! jq is a programming language, and programs may run for ever. What names fields needs little of it, so only that is
//! let in: every step goes down into the object, nothing is computed, nothing refers back up, and everything that
//! multiplies work is counted. So the work is bounded by the size of the object, without a clock.

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

/// Bytes of one expression. Real ones have fewer than a hundred.
const LENGTH_MAX: usize = 1_000;
/// Brackets inside each other: reading an expression recurses.
const NESTING_MAX: usize = 32;
/// How often `..` may be in one expression: each may multiply the work by the size of the object.
const DESCENTS_MAX: usize = 2;
/// How many lists may be built in one expression.
const LISTS_MAX: usize = 4;
/// How many ways there may be to the same field, by commas and alternatives.
const WAYS_MAX: usize = 256;
/// Fields that one expression may name in one object.
const PATHS_MAX: usize = 10_000;
/// Memory of one compiled regular expression.
const REGEX_BYTES_MAX: usize = 1 << 18;

/// What an expression may call: name and number of arguments. None of them can loop, or make a value larger than what
/// it was given.
const CALLS: [(&str, usize); 34] = [
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

/// Those of the functions above that neither the core of jaq nor its library has in this form.
const DEFINITIONS: &str = r#"
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

/// Why a jq expression cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    /// It is too long, or nested too deeply.
    #[error("it is too large; at most {LENGTH_MAX} characters and {NESTING_MAX} brackets inside each other")]
    TooLarge,
    /// It is no jq.
    #[error("it is not a jq expression")]
    Syntax,
    /// It uses something that does not name fields.
    #[error(
        "{0} cannot be used to name fields; write a path such as .spec.containers[] | select(.name == \"a\") | .image"
    )]
    NotAPath(String),
    /// It could take very long.
    #[error("it could take too long; use `..`, lists, commas and `//` less often, or several expressions")]
    TooMuchWork,
}

type Filter = jaq_core::Filter<data::JustLut<Val>>;

/// An expression of `jqPathExpressions`, compiled, which names fields and does nothing else.
pub(super) struct Jq(Filter);

impl Jq {
    /// Compiles an expression, when it does no more than name fields.
    pub fn compile(expression: &str) -> Result<Self, JqError> {
        check_size(expression)?;
        let term = load::parse(expression, |parser| parser.term()).ok_or(JqError::Syntax)?;
        let mut cost = Cost::default();
        if cost.ways(&term)? > WAYS_MAX || cost.descents > DESCENTS_MAX || cost.lists > LISTS_MAX {
            return Err(JqError::TooMuchWork);
        }
        // The expression is whole, so its brackets match; the line break ends a comment.
        let code = format!("path({expression}\n)");
        let definitions = load::parse(DEFINITIONS, |parser| parser.defs()).ok_or(JqError::Syntax)?;
        let arena = Arena::default();
        let loader = Loader::new(jaq_core::defs().chain(definitions));
        let modules =
            loader.load(&arena, File { code: code.as_str(), path: () }).map_err(|_| JqError::Syntax)?;
        let functions = jaq_core::funs().chain(jaq_std::base_funs()).chain(jaq_json::funs());
        Compiler::default()
            .with_funs(functions.chain([test()]))
            .compile(modules)
            .map(Self)
            .map_err(|_| JqError::Syntax)
    }

    /// The fields it names in an object, whether they are there or not. An expression that fails names none, as in
    /// Argo CD.
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

/// What multiplies the work of an expression.
#[derive(Default)]
struct Cost {
    descents: usize,
    lists: usize,
}

impl Cost {
    /// In how many ways an expression may come to one and the same value; refuses what does not name fields.
    fn ways(&mut self, term: &Term<&str>) -> Result<usize, JqError> {
        let refused = |what: &str| Err(JqError::NotAPath(what.to_owned()));
        Ok(match term {
            Term::Id | Term::Num(_) => 1,
            Term::Recurse => self.descend(),
            Term::Str(None, parts) if parts.iter().all(|part| !matches!(part, StrPart::Term(_))) => 1,
            Term::Str(..) => return refused("a text with a format or an inserted value"),
            Term::Arr(None) => 1,
            Term::Arr(Some(items)) => {
                self.lists += 1;
                self.ways(items)?
            }
            Term::Obj(fields) if fields.is_empty() => 1,
            Term::Obj(_) => return refused("an object that is built"),
            Term::Neg(inner) => self.ways(inner)?,
            Term::BinOp(left, operator, right) => {
                let (left, right) = (self.ways(left)?, self.ways(right)?);
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
                let caught = caught.as_ref().map_or(Ok(0), |caught| self.ways(caught))?;
                self.ways(tried)?.saturating_add(caught)
            }
            Term::IfThenElse(branches, otherwise) => self.branches(branches, otherwise.as_deref())?,
            Term::Call(name, arguments) => self.call(name, arguments)?,
            Term::Path(start, path) => {
                let mut ways = self.ways(start)?;
                for (part, _) in &path.0 {
                    match part {
                        Part::Index(index) => ways = ways.saturating_mul(self.ways(index)?),
                        Part::Range(None, None) => {}
                        Part::Range(..) => return refused("a slice of a list"),
                    }
                }
                ways
            }
            Term::Label(..) | Term::Break(_) => return refused("a label"),
            Term::Fold(..) => return refused("reduce or foreach"),
            Term::Def(..) => return refused("a definition"),
            Term::Var(_) => return refused("a variable"),
        })
    }

    fn descend(&mut self) -> usize {
        self.descents += 1;
        1
    }

    fn branches(
        &mut self,
        branches: &[(Term<&str>, Term<&str>)],
        otherwise: Option<&Term<&str>>,
    ) -> Result<usize, JqError> {
        let mut ways = otherwise.map_or(Ok(1), |term| self.ways(term))?;
        for (condition, consequence) in branches {
            ways = ways.saturating_add(self.ways(condition)?.saturating_mul(self.ways(consequence)?));
        }
        Ok(ways)
    }

    fn call(&mut self, name: &str, arguments: &[Term<&str>]) -> Result<usize, JqError> {
        if !CALLS.contains(&(name, arguments.len())) {
            return Err(JqError::NotAPath(format!("{name}/{}", arguments.len())));
        }
        if name == "recurse" {
            self.descend();
        }
        arguments.iter().try_fold(1, |ways: usize, argument| Ok(ways.saturating_mul(self.ways(argument)?)))
    }
}

/// `test(regex)`, with bounded memory.
fn test() -> jaq_core::native::Fun<data::JustLut<Val>> {
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

/// A path of jq as one of ours: `None` when it is none, `Some(None)` when it counts from the end of a list that is not
/// there or not that long.
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

    fn named(expression: &str) -> Vec<String> {
        let object = json!({"spec": {"replicas": 3, "containers": [
            {"name": "a", "image": "x:1", "env": [{"name": "K"}]}, {"name": "b", "image": "y:2"}]},
            "webhooks": [{"clientConfig": {"caBundle": "x"}}, {"clientConfig": {}}], "data": {"a.b/c": "1"}});
        let jq = Jq::compile(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        jq.paths(&object).iter().map(Path::to_string).collect()
    }

    #[test]
    fn fields_are_named() {
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
            assert_eq!(named(expression), paths, "{expression}");
        }
    }

    #[test]
    fn what_is_not_a_path_or_could_take_long_is_refused() {
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
    fn large_regular_expressions_fail_small() {
        assert!(named(r#".spec.containers[] | select(.name | test("((a{1000}){1000}){1000}"))"#).is_empty());
    }
}
