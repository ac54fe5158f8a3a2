//! Functions that depend on letter case and word boundaries.

use std::sync::LazyLock;

use regex::Regex;

use super::{Builtin, Ty, fixed, str_at};
use crate::value::Val;

const STR: &[Ty] = &[Ty::Str];

pub(super) const SPRIG: &[Builtin] = &[
    fixed("title", STR, |_, values| Ok(Val::str(title(str_at(values, 0))))),
    fixed("untitle", STR, |_, values| Ok(Val::str(untitle(str_at(values, 0))))),
    fixed("nospace", STR, |_, values| {
        let text = str_at(values, 0);
        let kept: String = bytes(text).filter(|c| !c.is_whitespace()).collect();
        // Without whitespace, the string is returned unchanged instead of being decoded as Latin-1.
        Ok(Val::str(if kept.chars().count() == text.len() { text } else { &kept }))
    }),
    fixed("initials", STR, |_, values| {
        let letters: String = bytes(str_at(values, 0)).collect();
        Ok(Val::str(letters.split_whitespace().filter_map(|word| word.chars().next()).collect::<String>()))
    }),
    fixed("swapcase", STR, |_, values| Ok(Val::str(swap_case(str_at(values, 0))))),
    fixed("snakecase", STR, |_, values| Ok(Val::str(join_words(str_at(values, 0), '_')))),
    fixed("kebabcase", STR, |_, values| Ok(Val::str(join_words(str_at(values, 0), '-')))),
    fixed("camelcase", STR, |_, values| Ok(Val::str(to_camel(str_at(values, 0))))),
];

/// Decodes each byte as one character, because sprig's library treats strings as Latin-1.
fn bytes(text: &str) -> impl Iterator<Item = char> {
    text.bytes().map(char::from)
}

fn title(text: &str) -> String {
    let mut before = ' ';
    text.chars()
        .flat_map(|character| {
            let begins =
                !before.is_alphanumeric() && before != '_' && (before.is_ascii() || before.is_whitespace());
            before = character;
            let upper = begins.then(|| to_upper(character));
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

fn swap_case(text: &str) -> String {
    text.chars()
        .flat_map(|character| {
            let lower = character.is_uppercase().then(|| character.to_lowercase());
            let upper = character.is_lowercase().then(|| to_upper(character));
            let same = (lower.is_none() && upper.is_none()).then_some(character);
            lower.into_iter().flatten().chain(upper.into_iter().flatten()).chain(same)
        })
        .collect()
}

/// Class of a character, used to find word boundaries. Parts of a string also have a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Upper-case letters. A part of this class is either an upper-case letter followed by lower-case
    /// letters, or several upper-case letters.
    Upper,
    /// Lower-case letters and letters without case.
    Letters,
    Digits,
    Connectors,
    Punctuation,
    /// Symbols, and letters in scripts without spaces between words.
    Other,
}

static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
static PUNCTUATION: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());

fn is_in(set: &LazyLock<Option<Regex>>, character: char) -> bool {
    set.as_ref().is_some_and(|set| set.is_match(character.encode_utf8(&mut [0; 4])))
}

/// Returns true for a Chinese character. Such scripts don't put spaces between words.
fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{4d85}' | '\u{4e00}'..='\u{9fcc}' | '\u{20000}'..='\u{2b81d}')
}

fn class(character: char) -> Class {
    match character {
        '-' | '_' => Class::Connectors,
        'A'..='Z' => Class::Upper,
        'a'..='z' => Class::Letters,
        c if c.is_whitespace() => Class::Connectors,
        c if c.is_numeric() => Class::Digits,
        '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' => Class::Other,
        c if c.is_ascii_punctuation() || is_in(&PUNCTUATION, c) => Class::Punctuation,
        c if !is_in(&LETTER, c) || is_ideograph(c) => Class::Other,
        c if c.is_uppercase() => Class::Upper,
        _ => Class::Letters,
    }
}

/// Splits a string into parts, each of a single class. If several upper-case letters are followed by
/// lower-case letters, the last upper-case letter becomes the start of the lower-case part.
fn split_parts(text: &str) -> Vec<(Class, String)> {
    let mut parts: Vec<(Class, String)> = Vec::new();
    let mut capitals = 0;
    for character in text.chars() {
        let class = class(character);
        match parts.last_mut() {
            Some((Class::Upper, word)) if class == Class::Letters && capitals > 1 => {
                let begin = word.pop();
                parts.push((Class::Upper, begin.into_iter().chain([character]).collect()));
                capitals = 0;
                continue;
            }
            Some((Class::Upper, word)) if class == Class::Letters => {
                word.push(character);
                capitals = 0;
                continue;
            }
            // `-` and `_` after punctuation are part of the punctuation.
            Some((Class::Punctuation, word)) if matches!(character, '-' | '_') => {
                word.push(character);
                continue;
            }
            Some((last, word)) if *last == class && (class != Class::Upper || capitals > 0) => {
                word.push(character);
            }
            _ => {
                parts.push((class, character.to_string()));
                capitals = 0;
            }
        }
        capitals += usize::from(class == Class::Upper);
    }
    parts
}

/// Joins lower-case words with a connector. Digits before lower-case letters start a new word. Other digits
/// are part of the preceding word.
fn join_words(text: &str, connector: char) -> String {
    let parts = split_parts(text);
    let class_at = |at: usize| parts.get(at).map(|(class, _)| *class);
    let separates = |at: usize| {
        class_at(at).is_some_and(|class| !matches!(class, Class::Connectors | Class::Punctuation))
    };
    let goes_on = |at: usize| matches!(class_at(at), Some(Class::Letters | Class::Digits));
    let mut written = String::new();
    let mut at = 0;
    while let Some((class, word)) = parts.get(at) {
        push_part(&mut written, *class, word, connector);
        at += 1;
        match class {
            Class::Connectors | Class::Punctuation => continue,
            Class::Upper | Class::Letters | Class::Other if class_at(at) == Some(Class::Digits) => {
                if class_at(at + 1) == Some(Class::Letters) {
                    written.push(connector);
                } else if let Some((_, digits)) = parts.get(at) {
                    // No lower-case letters follow, so these digits complete the current word.
                    written.push_str(digits);
                    at += 1;
                }
            }
            _ => {}
        }
        let begins_with_digits = *class == Class::Digits || class_at(at) == Some(Class::Digits);
        while begins_with_digits && goes_on(at) {
            written.push_str(parts.get(at).map_or("", |(_, word)| word));
            at += 1;
        }
        if separates(at) {
            written.push(connector);
        }
    }
    written
}

fn push_part(written: &mut String, class: Class, part: &str, connector: char) {
    match class {
        Class::Connectors => written.extend(part.chars().map(|_| connector)),
        Class::Upper => written.extend(part.chars().filter_map(|letter| letter.to_lowercase().next())),
        _ => written.push_str(part),
    }
}

/// Capitalizes each word. Removes the last connector between two words, and keeps connectors at the beginning
/// and at the end.
fn to_camel(text: &str) -> String {
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
            held.pop();
        }
        written.push_str(&std::mem::take(&mut held));
        if begins {
            written.extend(to_upper(character));
        } else {
            written.extend(character.to_lowercase());
        }
    }
    if written.is_empty() {
        // If the string consists only of connectors, sprig repeats the last one.
        held.extend(held.chars().next_back());
    }
    written + &held
}

/// Converts a character to upper case. Like Go, leaves the character unchanged if the upper-case form has
/// several characters.
pub(super) fn to_upper(character: char) -> impl Iterator<Item = char> {
    let mut upper = character.to_uppercase();
    let first = if upper.len() == 1 { upper.next() } else { Some(character) };
    first.into_iter()
}
