//! Random data for a template: a map with the keys that the template uses, and values of every JSON type.

use serde_json::{Map, Value, json};

use crate::choices::Choices;

/// Keys of the data and of its nested maps.
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

/// Returns the data. If `is_careful` is set, the data has all keys, and each value has the expected type.
pub fn data(choices: &mut Choices, is_careful: bool, is_ascii: bool) -> Value {
    let mut fields = Map::new();
    for key in KEYS {
        let value = match key {
            "l" if is_careful => [
                json!(text(choices, is_ascii)),
                json!(text(choices, is_ascii)),
                json!(text(choices, is_ascii)),
            ]
            .into_iter()
            .chain(items(choices, 2, is_ascii))
            .collect(),
            "l" => items(choices, 2, is_ascii).into_iter().collect(),
            "m" | "deep" if is_careful => {
                let mut map = map(choices, 2, is_ascii);
                map["a"] = json!(text(choices, is_ascii));
                map
            }
            "m" | "deep" => map(choices, 2, is_ascii),
            "n" | "f" | "Big" => number(choices),
            "t" => Value::Bool(choices.next_below(2) == 0),
            "z" => Value::Null,
            _ => json!(text(choices, is_ascii)),
        };
        if is_careful {
            fields.insert(key.to_owned(), value);
            continue;
        }
        // Any key may be missing or have a different type.
        match choices.next_below(12) {
            10 => drop(fields.insert(key.to_owned(), any(choices, 2, is_ascii))),
            11 => {}
            _ => drop(fields.insert(key.to_owned(), value)),
        }
    }
    Value::Object(fields)
}

fn any(choices: &mut Choices, depth: usize, is_ascii: bool) -> Value {
    match choices.next_below(if depth == 0 { 4 } else { 6 }) {
        0 => json!(text(choices, is_ascii)),
        1 => number(choices),
        2 => Value::Bool(choices.next_below(2) == 0),
        3 => Value::Null,
        4 => items(choices, depth - 1, is_ascii).into_iter().collect(),
        _ => map(choices, depth - 1, is_ascii),
    }
}

/// Returns a string, which contains only ASCII characters if `is_ascii` is set.
pub fn text(choices: &mut Choices, is_ascii: bool) -> &'static str {
    choices.choose_where(&TEXTS, |text| !is_ascii || text.is_ascii())
}

fn number(choices: &mut Choices) -> Value {
    serde_json::from_str(choices.choose(&NUMBERS)).unwrap()
}

fn items(choices: &mut Choices, depth: usize, is_ascii: bool) -> Vec<Value> {
    let is_mixed = choices.one_in(3);
    let length = choices.next_below(4);
    (0..length)
        .map(|_| if is_mixed { any(choices, depth, is_ascii) } else { json!(text(choices, is_ascii)) })
        .collect()
}

fn map(choices: &mut Choices, depth: usize, is_ascii: bool) -> Value {
    let length = choices.next_below(4);
    let entry = |_| (choices.choose(&KEYS).to_owned(), any(choices, depth, is_ascii));
    Value::Object((0..length).map(entry).collect())
}
