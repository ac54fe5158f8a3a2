//! Fuzzing by mutation of valid input: bytes and documents are changed at random and fed to a parser, which
//! may reject them but must not panic, hang or exhaust memory.
//!
//! The quick form always tries the same cases. `TIDEGATE_FUZZ_CASES=N` tries N new ones and prints the seed,
//! and `TIDEGATE_FUZZ_SEED=N` repeats the cases of a seed.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::effort;

const CASES: u64 = 1_000;
const CASES_LONG: u64 = 20_000;
/// Seed of the quick form.
const SEED: u64 = 1;
/// Maximum length of the input in bytes.
const BYTES_MAX: usize = 64 << 10;
/// Maximum number of changes per case.
const CHANGES_MAX: u64 = 6;
/// Timeout for a case. Even on a busy machine, only a hang takes longer.
const CASE_TIMEOUT: Duration = Duration::from_secs(120);
/// Memory limit in KiB for all fuzz targets in a process together.
const MEMORY_MAX_KIB: u64 = 2 << 20;
/// Stack size of the runtime's threads, which parse the input, in bytes.
const STACK_BYTES: usize = 2 << 20;
/// Difficult text for parsers.
const PITFALLS: [&str; 24] = [
    "",
    "\0",
    "\u{feff}",
    "\r\n",
    "\u{2028}",
    "💥",
    "../",
    "..",
    "/",
    "//",
    "%00",
    "{{",
    "}}",
    "*",
    "**",
    "[",
    "]",
    "\\",
    "-1",
    "18446744073709551616",
    "1e999",
    "NaN",
    "null",
    "~",
];

/// Splitmix64 random number generator.
struct FuzzRng(u64);

impl FuzzRng {
    fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `number`, which must be greater than 0.
    fn below(&mut self, number: usize) -> usize {
        usize::try_from(self.next_number() % (number.max(1) as u64)).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Fuzzes a target with changed bytes.
pub fn fuzz_bytes(name: &str, seeds: &[&[u8]], text: &[&str], target: impl Fn(&[u8]) + Send + Sync) {
    let text: Vec<&str> = PITFALLS.iter().chain(text).copied().collect();
    let make = |dice: &mut FuzzRng| mutate_bytes(dice, seeds, &text);
    run_cases(name, make, |input| String::from_utf8_lossy(input).into_owned(), |input| target(input));
}

/// Fuzzes a target with changed documents.
pub fn fuzz_documents(name: &str, seeds: &[Value], text: &[&str], target: impl Fn(&Value) + Send + Sync) {
    let text: Vec<&str> = PITFALLS.iter().chain(text).copied().collect();
    let make = |dice: &mut FuzzRng| mutate_document(dice, seeds, &text);
    run_cases(name, make, Value::to_string, target);
}

#[expect(clippy::disallowed_methods, reason = "the duration is printed only")]
fn run_cases<T: Send>(
    name: &str,
    make: impl Fn(&mut FuzzRng) -> T + Send + Sync,
    show: impl Fn(&T) -> String + Send + Sync,
    target: impl Fn(&T) + Send + Sync,
) {
    let cases = effort::rounds("TIDEGATE_FUZZ_CASES", CASES, CASES_LONG);
    let seed = match (std::env::var("TIDEGATE_FUZZ_SEED"), std::env::var_os("TIDEGATE_FUZZ_CASES")) {
        (Ok(seed), _) => seed.parse().expect("TIDEGATE_FUZZ_SEED is a number"),
        (Err(_), Some(_)) => RandomState::new().build_hasher().finish() % 1_000_000,
        (Err(_), None) => SEED,
    };
    let (tell, told) = mpsc::channel::<String>();
    thread::scope(|scope| {
        // Only exiting the process stops a hanging target.
        scope.spawn(move || {
            let mut last = String::new();
            loop {
                match told.recv_timeout(CASE_TIMEOUT) {
                    Ok(input) => last = input,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("fuzz {name}, seed {seed}: no end after {CASE_TIMEOUT:?} of: {last}");
                        std::process::abort();
                    }
                }
            }
        });
        let working = thread::Builder::new().name(format!("fuzz {name}")).stack_size(STACK_BYTES);
        let work = move || {
            let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
            for case in 0..cases {
                let mut dice = FuzzRng(seed.wrapping_mul(0x1234_5678_9abc_def1).wrapping_add(case));
                let input = make(&mut dice);
                let story = || format!("fuzz {name}, seed {seed}, case {case}: {}", show(&input));
                tell.send(format!("case {case}: {}", show(&input))).unwrap();
                let began = Instant::now();
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
                    eprintln!("{}", story());
                    resume_unwind(panic);
                }
                slowest = slowest.max(began.elapsed());
                let peak = peak_kib();
                assert!(peak <= MEMORY_MAX_KIB, "{peak} KiB exceed the limit: {}", story());
            }
            let took = begin.elapsed();
            println!("fuzz {name}, seed {seed}: {cases} cases in {took:?}, the slowest in {slowest:?}");
        };
        working.spawn_scoped(scope, work).unwrap();
    });
}

/// Returns the peak memory usage of this process, or 0 if it is unknown.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn mutate_bytes(dice: &mut FuzzRng, seeds: &[&[u8]], text: &[&str]) -> Vec<u8> {
    let mut input = dice.pick(seeds).to_vec();
    for _ in 0..=dice.next_number() % CHANGES_MAX {
        let at = dice.below(input.len() + 1);
        let end = at + dice.below(input.len() - at + 1).min(1 << dice.below(10));
        match dice.below(8) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = u8::try_from(dice.below(256)).unwrap(),
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let piece = input[at..end].to_vec();
                let to = dice.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            5 => {
                // Repeat a piece of the input several times.
                let piece = input[at..end].to_vec();
                let times = (BYTES_MAX / 4 / piece.len().max(1)).min(1 << dice.below(14));
                input.splice(at..at, piece.repeat(times));
            }
            6 => {
                let other = *dice.pick(seeds);
                let from = dice.below(other.len() + 1);
                let to = from + dice.below(other.len() - from + 1);
                input.splice(at..end, other[from..to].iter().copied());
            }
            _ => drop(input.splice(at..end, dice.pick(text).bytes())),
        }
        input.truncate(BYTES_MAX);
    }
    input
}

fn mutate_document(dice: &mut FuzzRng, seeds: &[Value], words: &[&str]) -> Value {
    let mut document = dice.pick(seeds).clone();
    for _ in 0..=dice.next_number() % CHANGES_MAX {
        let nodes = Nodes::new(&document);
        let from = nodes.values[dice.below(nodes.values.len())].clone();
        let path = nodes.path(dice.below(nodes.values.len()));
        let odd = unexpected_value(dice, words);
        let Some(place) = find_value(&mut document, &path) else { continue };
        match (dice.below(6), place) {
            (0, Value::Object(fields)) => {
                let names: Vec<String> = fields.keys().cloned().collect();
                if !names.is_empty() {
                    fields.remove(dice.pick(&names).as_str());
                }
            }
            (1, Value::Object(fields)) => drop(fields.insert((*dice.pick(words)).to_owned(), from)),
            (0, Value::Array(items)) if !items.is_empty() => {
                let at = dice.below(items.len());
                items.remove(at);
            }
            (1, Value::Array(items)) => items.resize(items.len() + dice.below(40), from),
            (2, place) => *place = from,
            (3, Value::String(text)) => {
                let changed = mutate_bytes(dice, &[text.as_bytes()], words);
                *text = String::from_utf8_lossy(&changed).into_owned();
            }
            (4, Value::String(text)) => *text = (*dice.pick(words)).to_owned(),
            (_, place) => *place = odd,
        }
    }
    document
}

/// Returns an unexpected value.
fn unexpected_value(dice: &mut FuzzRng, text: &[&str]) -> Value {
    let word = *dice.pick(text);
    match dice.below(10) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(i64::MIN),
        3 => json!(u64::MAX),
        4 => json!(1e300),
        5 => json!([]),
        6 => json!({}),
        7 => json!({word: [word]}),
        8 => (0..dice.below(100)).fold(json!(word), |inner, _| json!([inner])),
        _ => json!(word),
    }
}

/// All values of a document, level by level.
struct Nodes<'a> {
    values: Vec<&'a Value>,
    /// Index of each value's parent, and its position there.
    origins: Vec<(usize, usize)>,
}

impl<'a> Nodes<'a> {
    fn new(document: &'a Value) -> Self {
        let (mut values, mut origins, mut at) = (vec![document], vec![(0, 0)], 0);
        while let Some(value) = values.get(at).copied() {
            match value {
                Value::Object(fields) => values.extend(fields.values()),
                Value::Array(items) => values.extend(items),
                _ => {}
            }
            let added = values.len() - origins.len();
            origins.extend((0..added).map(|position| (at, position)));
            at += 1;
        }
        Self { values, origins }
    }

    /// Returns the positions from the root to a value.
    fn path(&self, mut index: usize) -> Vec<usize> {
        let mut path = Vec::new();
        while index > 0 {
            let (parent, position) = self.origins[index];
            path.push(position);
            index = parent;
        }
        path.reverse();
        path
    }
}

fn find_value<'a>(document: &'a mut Value, path: &[usize]) -> Option<&'a mut Value> {
    path.iter().try_fold(document, |value, position| match value {
        Value::Object(fields) => fields.values_mut().nth(*position),
        Value::Array(items) => items.get_mut(*position),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_depends_only_on_the_seed() {
        let make = |seed| mutate_bytes(&mut FuzzRng(seed), &[b"a: 1\n", b"b: [2]\n"], &PITFALLS);
        let all: std::collections::BTreeSet<Vec<u8>> = (0..100).map(make).collect();
        assert_eq!(make(7), make(7));
        assert!(all.len() > 60, "{}", all.len());
        let document = json!({"a": [1, {"b/c": "d"}]});
        let make = |seed| mutate_document(&mut FuzzRng(seed), std::slice::from_ref(&document), &PITFALLS);
        assert_eq!(make(7), make(7));
        assert!((0..100).filter(|seed| make(*seed) != document).count() > 80);
        let nodes = Nodes::new(&document);
        for (index, value) in nodes.values.iter().enumerate() {
            let mut copy = document.clone();
            assert_eq!(find_value(&mut copy, &nodes.path(index)).as_deref(), Some(*value));
        }
        assert_eq!(nodes.values.len(), 5);
    }

    #[test]
    fn a_panic_of_the_target_fails_the_test() {
        let fails = || fuzz_bytes("panicking", &[b"a"], &[], |input| assert!(input.len() > 5, "it is short"));
        assert!(catch_unwind(fails).is_err());
    }
}
