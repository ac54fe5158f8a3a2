//! Comparison of parsed documents with the results of `sigs.k8s.io/yaml`, the YAML library of kubectl and
//! Argo CD.
//!
//! `tests/data/sigs.jsonl` contains one document per line, along with its value as JSON or the error.
//! `scripts/template-table/make` writes the file. If `TIDEGATE_GO_TEMPLATES` is the path of the reference
//! program (`scripts/template-table/program --fetch` builds it), the test also compares random documents.
//! With `TIDEGATE_REQUIRE_GO_TEMPLATES=1`, the test fails without the program.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]
#![allow(clippy::cast_possible_truncation, missing_docs, reason = "test code")]

#[path = "../../../gotmpl/tests/differential/program.rs"]
mod program;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::{Value, json};
use tidegate_yaml::{Limits, parse_value};

const CASES: u64 = 20_000;

/// Scalars with surprising values, and parts of such scalars.
const SCALARS: [&str; 72] = [
    "0755",
    "0o755",
    "0O17",
    "0x1F",
    "0X1f",
    "0b101",
    "0B1",
    "1_000",
    "_1",
    "1__0",
    "08",
    "09.5",
    "0",
    "-0",
    "+1",
    "-0755",
    "+0x1",
    "00",
    "yes",
    "Yes",
    "YES",
    "yEs",
    "no",
    "No",
    "NO",
    "on",
    "On",
    "ON",
    "off",
    "Off",
    "OFF",
    "y",
    "Y",
    "n",
    "N",
    "true",
    "True",
    "TRUE",
    "tRue",
    "false",
    "False",
    "~",
    "null",
    "Null",
    "NULL",
    "nUll",
    ".5",
    "-.5",
    "+.5",
    "5.",
    "1e3",
    "1E3",
    "1e+3",
    "1.5e-7",
    "1e21",
    "1e400",
    ".inf",
    "-.Inf",
    ".nan",
    "1:30",
    "190:20:30",
    "2001-12-14",
    "2001-12-14t21:59:43.10-05:00",
    "12345678901234567890",
    "123456789012345678901234567890",
    "-9223372036854775808",
    "97e83412",
    "1.2.3",
    "0x",
    "0b2",
    "685_230.15",
    "a b",
];
const KEYS: [&str; 12] = ["a", "b", "c", "1", "0x1F", "true", "no", "1.5", "'q'", "\"d\"", "k-x", "0755"];
const TAGS: [&str; 6] = ["!!str ", "!!int ", "!!float ", "!!bool ", "!!null ", "! "];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("documents_hold_what_sigs_yaml_says", table),
        program::trial("random_documents_hold_what_sigs_yaml_says", random),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Converts every number to a float, because templates represent all numbers as floats.
fn floats(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(floats).collect(),
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, floats(value))).collect(),
        other => other,
    }
}

/// Returns the difference between the two results for a document, if any.
fn difference(case: &Value) -> Option<String> {
    let text = case["yaml"].as_str().unwrap();
    let here = parse_value(text, &Limits::default()).map(floats).map_err(|problem| problem.to_string());
    let go = match case["output"].as_str() {
        Some(output) => Ok(floats(parse_value(output, &Limits::default()).unwrap())),
        None => Err(case["error"].as_str().unwrap().to_owned()),
    };
    // Tidegate rejects these documents intentionally; see docs/reference/differences-from-argo-cd.md.
    let is_refused_here = |reason: &String| {
        ["duplicate key", "the end of the document", "!!binary", "`:` is not allowed here"]
            .iter()
            .any(|known| reason.contains(known))
    };
    match (&here, &go) {
        (Ok(here), Ok(go)) if here == go => None,
        (Err(_), Err(_)) => None,
        (Err(reason), Ok(_)) if is_refused_here(reason) => None,
        _ => Some(format!("{text:?}\n      Go: {go:?}\n    here: {here:?}")),
    }
}

fn report(differences: &[String], count: usize) -> Result<(), Failed> {
    if differences.is_empty() {
        return Ok(());
    }
    let shown: Vec<&str> = differences.iter().take(20).map(String::as_str).collect();
    Err(Failed::from(format!("{} of {count} documents differ:\n{}", differences.len(), shown.join("\n"))))
}

fn table() -> Result<(), Failed> {
    let cases: Vec<Value> =
        include_str!("../data/sigs.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(cases.len() >= 50, "only {} documents", cases.len());
    let differences: Vec<String> = cases.iter().filter_map(difference).collect();
    report(&differences, cases.len())
}

fn random(program: &str) -> Result<(), Failed> {
    let first: u64 = std::env::var("TIDEGATE_GO_SEED").map_or(1, |seed| seed.parse().unwrap());
    let count: u64 = std::env::var("TIDEGATE_GO_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let mut questions = String::new();
    for seed in first..first + count {
        let mut random = Rng(seed);
        let _ = writeln!(questions, "{}", json!({ "yaml": document(&mut random) }));
    }
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let answers = String::from_utf8(child.wait_with_output()?.stdout)?;
    writer.join().unwrap()?;
    let cases: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(cases.len() as u64, count, "Go has not processed all documents");
    let differences: Vec<String> = cases.iter().filter_map(difference).collect();
    let read = cases.iter().filter(|case| case["output"].is_string()).count();
    println!("{} documents compared; Go rejects {} of them", cases.len(), cases.len() - read);
    assert!(read * 2 > cases.len(), "Go rejects more than half of the documents, so too little is compared");
    report(&differences, cases.len())
}

/// Random number generator (SplitMix64).
struct Rng(u64);

impl Rng {
    fn next_below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 16) as usize % count
    }

    fn choose<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.next_below(all.len())]
    }
}

/// Returns a scalar: one of `SCALARS`, characters of numbers in any order, or a quoted text.
fn scalar(random: &mut Rng) -> String {
    match random.next_below(8) {
        0 => {
            let parts = ["0", "1", "7", "9", "_", ".", "e", "E", "+", "-", "x", "o", "b", "a", "f", ":"];
            let length = 1 + random.next_below(6);
            (0..length).map(|_| random.choose(&parts)).collect()
        }
        1 => format!("'{}'", random.choose(&SCALARS)),
        2 => format!("\"{}\"", random.choose(&SCALARS)),
        3 if random.next_below(4) == 0 => format!("{}{}", random.choose(&TAGS), random.choose(&SCALARS)),
        _ => random.choose(&SCALARS).to_owned(),
    }
}

fn document(random: &mut Rng) -> String {
    match random.next_below(4) {
        0 => scalar(random),
        1 => format!("[{}, {}]", scalar(random), scalar(random)),
        _ => {
            let mut fields = BTreeMap::new();
            for _ in 0..=random.next_below(4) {
                let key = random.choose(&KEYS);
                let value = match random.next_below(6) {
                    0 => format!("\n  - {}\n  - {}", scalar(random), scalar(random)),
                    1 => format!("\n  {}: {}", random.choose(&KEYS), scalar(random)),
                    2 => format!("{{x: {}}}", scalar(random)),
                    3 => format!("|\n  {}", scalar(random)),
                    _ => scalar(random),
                };
                fields.insert(key, value);
            }
            fields.into_iter().fold(String::new(), |text, (key, value)| format!("{text}{key}: {value}\n"))
        }
    }
}
