//! Comparison of this crate with Go's own `text/template` and sprig. Both render the same random templates,
//! and must return the same results and errors.
//!
//! `TIDEGATE_GO_TEMPLATES` is the path of the reference program, which
//! `scripts/template-table/program --fetch` builds. Without the program, the test is reported as ignored, or
//! fails if `TIDEGATE_REQUIRE_GO_TEMPLATES=1` is set. The default cases are always the same.
//! `TIDEGATE_GO_CASES=N` tests N random cases instead, and `TIDEGATE_GO_SEED=N` repeats a single case. If
//! results differ, the test prints the case, as a row for the table, and its seed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]
#![allow(clippy::cast_possible_truncation, missing_docs, reason = "test code")]

mod atoms;
mod calls;
mod choices;
mod data;
mod error_differences;
mod expressions;
mod grammar;
mod program;
mod reference;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed};
use serde_json::{Value, json};
use tidegate_gotmpl::{Engine, MissingKey};

use crate::choices::Choices;
use crate::reference::Reference;

const CASES: &str = "TIDEGATE_GO_CASES";
const SEED: &str = "TIDEGATE_GO_SEED";

const CASES_QUICK: u64 = 2_000;
/// Number of cases in the long form, which CI uses. They take a few seconds.
const CASES_LONG: u64 = 4_000;
/// First seed of the default cases.
const FIRST: u64 = 1;
/// Maximum number of attempts at minimizing a failing case.
const ATTEMPTS: usize = 1_000;
/// Number of cases in one request to the reference program.
const BATCH: usize = 500;
/// Maximum number of differences to report.
const DIFFERENCES_MAX: usize = 20;

type RenderResult = Result<String, String>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trial = program::trial("random_templates_say_what_go_says", compare);
    libtest_mimic::run(&arguments, vec![trial]).exit_code()
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("invalid {name} {text:?}: use a number")))
}

/// Returns the seeds to try.
fn seeds() -> std::ops::Range<u64> {
    if let Some(seed) = number(SEED) {
        return seed..seed + 1;
    }
    if let Some(cases) = number(CASES) {
        let first = RandomState::new().build_hasher().finish() >> 16;
        return first..first + cases;
    }
    let is_long = std::env::var_os("TIDEGATE_LONG_TESTS").is_some_and(|value| value == "1");
    FIRST..FIRST + if is_long { CASES_LONG } else { CASES_QUICK }
}

fn compare(program: &str) -> Result<(), Failed> {
    let seeds = seeds();
    println!("{} cases from {SEED}={}", seeds.end - seeds.start, seeds.start);
    let mut reference = Reference::start(program)?;
    let mut differences = Vec::new();
    let (mut tried, mut refused) = (0, 0);
    let seeds: Vec<u64> = seeds.collect();
    for seeds in seeds.chunks(BATCH) {
        let cases: Vec<Value> = seeds.iter().map(|seed| case(&mut Choices::from_seed(*seed))).collect();
        let answers = reference.render(&cases);
        tried += seeds.len();
        refused += answers.iter().filter(|answer| answer.is_err()).count();
        for ((seed, case), go) in seeds.iter().zip(&cases).zip(&answers) {
            if !error_differences::is_same(&rendered(case), go) && differences.len() < DIFFERENCES_MAX {
                differences.push(smallest_difference(*seed, &mut reference));
                println!("{}", differences.last().unwrap());
            }
        }
        if differences.len() == DIFFERENCES_MAX {
            break;
        }
    }
    println!("{tried} cases compared; Go rejects {refused} of them");
    if seeds.len() >= BATCH && refused * 2 > tried {
        return Err(Failed::from("Go rejects more than half of the cases, so too little is compared"));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Failed::from(format!("{} of {tried} cases differ:\n{}", differences.len(), differences.join("\n"))))
}

/// Minimizes a case with a difference and returns a description of the minimized case.
fn smallest_difference(seed: u64, reference: &mut Reference) -> String {
    let mut ask = |case: &Value| reference.render(std::slice::from_ref(case)).remove(0);
    let mut choices = Choices::from_seed(seed);
    case(&mut choices);
    let smallest = choices::minimize(choices.into_choices(), ATTEMPTS, |made| {
        let case = case(&mut Choices::replay(made.to_vec()));
        !error_differences::is_same(&rendered(&case), &ask(&case))
    });
    let case = case(&mut Choices::replay(smallest));
    let (go, here) = (ask(&case), rendered(&case));
    format!("{SEED}={seed}\n    case: {case}\n      Go: {go:?}\n    here: {here:?}")
}

/// Returns a random case as a row for the table, without its result.
fn case(choices: &mut Choices) -> Value {
    let is_careful = !choices.one_in(4);
    let is_ascii = choices.next_below(2) == 0;
    let option = choices.choose(&["", "", "zero", "error", "default", "invalid"]);
    let template = grammar::template(choices, is_careful, is_ascii);
    let mut case = json!({ "template": template, "data": data::data(choices, is_careful, is_ascii) });
    if !option.is_empty() {
        case["missingkey"] = json!(option);
    }
    case
}

fn rendered(case: &Value) -> RenderResult {
    let option = case["missingkey"].as_str().unwrap_or("default");
    let missing_key = MissingKey::from_option(&format!("missingkey={option}")).unwrap();
    let engine = Engine::with_sprig().missing_key(missing_key);
    let template =
        engine.parse("base", case["template"].as_str().unwrap()).map_err(|error| error.to_string())?;
    template.render(&case["data"]).map_err(|error| error.to_string())
}
