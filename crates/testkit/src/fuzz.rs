//! Wrong input, made from right input: bytes and documents are changed at random, again and again, and given to whoever reads
//! them. They may refuse it, and must not panic, work without end or take memory without bounds.
//!
//! The quick form tries the same cases every time. `TIDEGATE_FUZZ_CASES=N` tries so many of other ones, and prints the seed;
//! `TIDEGATE_FUZZ_SEED=N` repeats them.

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
/// The cases of the quick form.
const SEED: u64 = 1;
/// Input is no longer than this.
const BYTES_MAX: usize = 64 << 10;
/// So often is one case changed, at most.
const CHANGES_MAX: u64 = 6;
/// No case takes this long unless it never ends, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);
/// What all targets of a process together may take.
const MEMORY_MAX_KIB: u64 = 2 << 20;
/// As long as those of the runtime, on which input is read.
const STACK_BYTES: usize = 2 << 20;
/// What readers stumble over.
const WORDS: [&str; 24] = [
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

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below a number, which is above 0.
    fn below(&mut self, number: usize) -> usize {
        usize::try_from(self.next() % (number.max(1) as u64)).unwrap()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Tries changed bytes.
pub fn bytes(name: &str, seeds: &[&[u8]], words: &[&str], target: impl Fn(&[u8]) + Send + Sync) {
    let words: Vec<&str> = WORDS.iter().chain(words).copied().collect();
    let make = |dice: &mut Dice| changed_bytes(dice, seeds, &words);
    try_all(name, make, |input| String::from_utf8_lossy(input).into_owned(), |input| target(input));
}

/// Tries changed documents.
pub fn documents(name: &str, seeds: &[Value], words: &[&str], target: impl Fn(&Value) + Send + Sync) {
    let words: Vec<&str> = WORDS.iter().chain(words).copied().collect();
    let make = |dice: &mut Dice| changed_document(dice, seeds, &words);
    try_all(name, make, Value::to_string, target);
}

#[expect(clippy::disallowed_methods, reason = "how long a case takes is told, and nothing follows from it")]
fn try_all<T: Send>(
    name: &str,
    make: impl Fn(&mut Dice) -> T + Send + Sync,
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
        // Whoever never ends cannot be stopped otherwise than with the process.
        scope.spawn(move || {
            let mut last = String::new();
            loop {
                match told.recv_timeout(PATIENCE) {
                    Ok(input) => last = input,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        eprintln!("fuzz {name}, seed {seed}: no end after {PATIENCE:?} of: {last}");
                        std::process::abort();
                    }
                }
            }
        });
        let working = thread::Builder::new().name(format!("fuzz {name}")).stack_size(STACK_BYTES);
        let work = move || {
            let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
            for case in 0..cases {
                let mut dice = Dice(seed.wrapping_mul(0x1234_5678_9abc_def1).wrapping_add(case));
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
                assert!(peak <= MEMORY_MAX_KIB, "{peak} KiB are too much: {}", story());
            }
            let took = begin.elapsed();
            println!("fuzz {name}, seed {seed}: {cases} cases in {took:?}, the slowest in {slowest:?}");
        };
        working.spawn_scoped(scope, work).unwrap();
    });
}

/// The most memory that this process has ever had. 0 where nobody says.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn changed_bytes(dice: &mut Dice, seeds: &[&[u8]], words: &[&str]) -> Vec<u8> {
    let mut input = dice.pick(seeds).to_vec();
    for _ in 0..=dice.next() % CHANGES_MAX {
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
                // The same again and again.
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
            _ => drop(input.splice(at..end, dice.pick(words).bytes())),
        }
        input.truncate(BYTES_MAX);
    }
    input
}

fn changed_document(dice: &mut Dice, seeds: &[Value], words: &[&str]) -> Value {
    let mut document = dice.pick(seeds).clone();
    for _ in 0..=dice.next() % CHANGES_MAX {
        let paths = pointers(&document);
        let from = document.pointer(dice.pick(&paths).as_str()).cloned().unwrap_or_default();
        let path: String = dice.pick(&paths).clone();
        let odd = odd(dice, words);
        let Some(place) = document.pointer_mut(&path) else { continue };
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
                let changed = changed_bytes(dice, &[text.as_bytes()], words);
                *text = String::from_utf8_lossy(&changed).into_owned();
            }
            (4, Value::String(text)) => *text = (*dice.pick(words)).to_owned(),
            (_, place) => *place = odd,
        }
    }
    document
}

/// What nobody expects there.
fn odd(dice: &mut Dice, words: &[&str]) -> Value {
    let word = *dice.pick(words);
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

/// Where everything of a document is.
fn pointers(document: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut at = 0;
    while let Some(path) = found.get(at).cloned() {
        let below: Vec<String> = match document.pointer(&path) {
            Some(Value::Object(fields)) => {
                fields.keys().map(|name| name.replace('~', "~0").replace('/', "~1")).collect()
            }
            Some(Value::Array(items)) => (0..items.len()).map(|number| number.to_string()).collect(),
            _ => Vec::new(),
        };
        found.extend(below.into_iter().map(|name| format!("{path}/{name}")));
        at += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_input_and_another_one_others() {
        let make = |seed| changed_bytes(&mut Dice(seed), &[b"a: 1\n", b"b: [2]\n"], &WORDS);
        let all: std::collections::BTreeSet<Vec<u8>> = (0..100).map(make).collect();
        assert_eq!(make(7), make(7));
        assert!(all.len() > 60, "{}", all.len());
        let document = json!({"a": [1, {"b/c": "d"}]});
        let make = |seed| changed_document(&mut Dice(seed), std::slice::from_ref(&document), &WORDS);
        assert_eq!(make(7), make(7));
        assert!((0..100).filter(|seed| make(*seed) != document).count() > 80);
    }

    #[test]
    fn a_panic_of_a_target_is_one_of_the_test() {
        let fails = || bytes("panicking", &[b"a"], &[], |input| assert!(input.len() > 5, "it is short"));
        assert!(catch_unwind(fails).is_err());
    }
}
