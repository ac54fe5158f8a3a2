//! The data of a case: a map with the keys that its template knows, and values of every kind of JSON.

use serde_json::{Map, Value, json};

use crate::choices::Choices;

/// The keys of the data, and of maps in it.
pub const KEYS: [&str; 12] = ["a", "name", "n", "f", "t", "z", "l", "m", "u", "deep", "Big", "key-x"];

pub const TEXTS: [&str; 20] = [
    "web",
    "",
    "a",
    "Hello World",
    "grün ☃",
    "日本語",
    "1",
    "-7",
    "1.5",
    "true",
    "a,b,c",
    "apps/guestbook/dev",
    "1.2.3",
    "line1\nline2\t|",
    "<a href='x'>&\"</a>",
    "e\u{301}\u{1f600}",
    "  padded  ",
    "0x1F",
    "dGlkZQ==",
    "{\"a\":[1,2.5,null]}",
];

const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "3",
    "1.5",
    "-0.25",
    "1234567",
    "1e21",
    "1e-7",
    "100000000000000000000",
    "-0.0",
    "2147483648",
    "0.1",
    "20",
];

pub fn data(choices: &mut Choices) -> Value {
    let mut fields = Map::new();
    for key in KEYS {
        let value = match key {
            "l" => list(choices, 2),
            "m" | "deep" => map(choices, 2),
            "n" | "f" | "Big" => number(choices),
            "t" => Value::Bool(choices.below(2) == 0),
            "z" => Value::Null,
            _ => text(choices),
        };
        // Any key may be missing, or be of another kind.
        match choices.below(12) {
            10 => drop(fields.insert(key.to_owned(), any(choices, 2))),
            11 => {}
            _ => drop(fields.insert(key.to_owned(), value)),
        }
    }
    Value::Object(fields)
}

fn any(choices: &mut Choices, depth: usize) -> Value {
    match choices.below(if depth == 0 { 4 } else { 6 }) {
        0 => text(choices),
        1 => number(choices),
        2 => Value::Bool(choices.below(2) == 0),
        3 => Value::Null,
        4 => list(choices, depth - 1),
        _ => map(choices, depth - 1),
    }
}

fn text(choices: &mut Choices) -> Value {
    json!(choices.one(&TEXTS))
}

fn number(choices: &mut Choices) -> Value {
    serde_json::from_str(choices.one(&NUMBERS)).unwrap()
}

fn list(choices: &mut Choices, depth: usize) -> Value {
    let is_mixed = choices.once_in(3);
    let length = choices.below(4);
    (0..length).map(|_| if is_mixed { any(choices, depth) } else { text(choices) }).collect()
}

fn map(choices: &mut Choices, depth: usize) -> Value {
    let length = choices.below(4);
    let entry = |_| (choices.one(&KEYS).to_owned(), any(choices, depth));
    Value::Object((0..length).map(entry).collect())
}
