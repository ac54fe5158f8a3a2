//! The case of words.

use super::{Builtin, Ty, f, str_at};
use crate::value::Val;

const STR: &[Ty] = &[Ty::Str];

pub(super) const SPRIG: &[Builtin] = &[
    f("title", STR, |_, values| Ok(Val::str(title(str_at(values, 0))))),
    f("untitle", STR, |_, values| Ok(Val::str(untitle(str_at(values, 0))))),
    f("nospace", STR, |_, values| {
        Ok(Val::str(str_at(values, 0).chars().filter(|c| !c.is_whitespace()).collect::<String>()))
    }),
    f("initials", STR, |_, values| {
        let words = str_at(values, 0).split_whitespace();
        Ok(Val::str(words.filter_map(|word| word.chars().next()).collect::<String>()))
    }),
    f("swapcase", STR, |_, values| Ok(Val::str(swapped(str_at(values, 0))))),
    f("snakecase", STR, |_, values| Ok(Val::str(connected(str_at(values, 0), '_')))),
    f("kebabcase", STR, |_, values| Ok(Val::str(connected(str_at(values, 0), '-')))),
    f("camelcase", STR, |_, values| Ok(Val::str(camel(str_at(values, 0))))),
];

fn title(text: &str) -> String {
    let mut before = ' ';
    text.chars()
        .flat_map(|character| {
            let begins =
                !before.is_alphanumeric() && before != '_' && (before.is_ascii() || before.is_whitespace());
            before = character;
            let upper = begins.then(|| upper(character));
            let same = (!begins).then_some(character);
            upper.into_iter().flatten().chain(same)
        })
        .collect()
}

fn untitle(text: &str) -> String {
    let mut begins = true;
    text.chars()
        .flat_map(|character| {
            let lower = (begins && !character.is_whitespace()).then(|| character.to_lowercase());
            let same = lower.is_none().then_some(character);
            begins = character.is_whitespace();
            lower.into_iter().flatten().chain(same)
        })
        .collect()
}

fn swapped(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let lower = character.is_uppercase().then(|| character.to_lowercase());
            let upper = character.is_lowercase().then(|| upper(character));
            let same = (lower.is_none() && upper.is_none()).then_some(character);
            lower.into_iter().flatten().chain(upper.into_iter().flatten()).chain(same)
        })
        .collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Upper,
    /// Small letters, and all else that is part of a word.
    Other,
    Digit,
    Connector,
}

fn class(character: char) -> Class {
    match character {
        '-' | '_' => Class::Connector,
        c if c.is_whitespace() || c.is_ascii_punctuation() => Class::Connector,
        c if c.is_uppercase() => Class::Upper,
        c if c.is_numeric() => Class::Digit,
        _ => Class::Other,
    }
}

/// Words in small letters with a connector between them. A word begins at a capital, at the last of several capitals, and
/// at digits that small letters follow; other digits belong to the word before them.
fn connected(text: &str, connector: char) -> String {
    let characters: Vec<char> = text.chars().collect();
    let class_at = |index: usize| characters.get(index).map(|character| class(*character));
    let mut written = String::new();
    for (index, character) in characters.iter().enumerate() {
        let before = index.checked_sub(1).and_then(class_at);
        let begins = match (before, class(*character)) {
            (_, Class::Connector) => {
                let is_replaced = matches!(character, '-' | '_') || character.is_whitespace();
                written.push(if is_replaced { connector } else { *character });
                continue;
            }
            (Some(Class::Other | Class::Digit), Class::Upper) => true,
            (Some(Class::Upper), Class::Upper) => class_at(index + 1) == Some(Class::Other),
            (Some(Class::Other | Class::Upper), Class::Digit) => {
                let after = (index..).map(class_at).find(|class| *class != Some(Class::Digit)).flatten();
                after == Some(Class::Other)
            }
            _ => false,
        };
        if begins {
            written.push(connector);
        }
        written.extend(character.to_lowercase());
    }
    written
}

/// Words with a capital each. Of the connectors between two words one goes; those at both ends stay.
fn camel(text: &str) -> String {
    let is_connector = |character: char| matches!(character, '-' | '_') || character.is_whitespace();
    let mut written = String::new();
    let mut held = String::new();
    for character in text.chars() {
        if is_connector(character) {
            held.push(character);
            continue;
        }
        let begins = written.is_empty() || !held.is_empty();
        if !written.is_empty() && !held.is_empty() {
            held.remove(0);
        }
        written.push_str(&std::mem::take(&mut held));
        if begins {
            written.extend(upper(character));
        } else {
            written.extend(character.to_lowercase());
        }
    }
    written + &held
}

/// A capital letter, where it is one character: Go leaves others as they are.
pub(super) fn upper(character: char) -> impl Iterator<Item = char> {
    let mut upper = character.to_uppercase();
    let first = if upper.len() == 1 { upper.next() } else { Some(character) };
    first.into_iter()
}
