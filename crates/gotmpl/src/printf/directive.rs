//! Formatting of a single value by a `printf` directive.

use crate::format::{format_plain, go_syntax};
use crate::printf::floats;
use crate::quote::{quote_char, quote_char_ascii, quote_string, quote_string_ascii};
use crate::value::Val;

/// A `printf` directive such as `%-8.3f`, without its verb: flags, width and precision.
#[derive(Clone, Debug, Default)]
pub(super) struct Directive {
    pub(super) plus: bool,
    pub(super) minus: bool,
    pub(super) sharp: bool,
    pub(super) space: bool,
    pub(super) zero: bool,
    pub(super) width: Option<usize>,
    pub(super) precision: Option<usize>,
    /// Maximum size of a formatted list or map, in bytes. A longer result would exceed the limit of `printf`
    /// anyway.
    pub(super) bytes_max: usize,
}

impl Directive {
    pub(super) fn set_flags(&mut self, flags: &str) {
        self.plus = flags.contains('+');
        self.minus = flags.contains('-');
        self.sharp = flags.contains('#');
        self.space = flags.contains(' ');
        self.zero = flags.contains('0');
    }

    pub(super) fn print(&self, verb: char, value: &Val) -> String {
        match verb {
            'T' => return self.pad(value.type_name().to_owned(), false),
            'v' if self.sharp => return self.pad(go_syntax(value), false),
            // With the `v` verb, the plus flag affects only struct fields, and template values aren't
            // structs.
            'v' if self.plus => return Self { plus: false, ..self.clone() }.print(verb, value),
            'p' => return self.bad_verb_message(verb, value),
            _ => {}
        }
        let printed = match value {
            Val::Absent | Val::Nil if verb == 'v' => return self.pad("<nil>".to_owned(), false),
            Val::Absent | Val::Nil => return format!("%!{verb}(<nil>)"),
            Val::Bool(value) if matches!(verb, 't' | 'v') => Some(self.pad(value.to_string(), false)),
            Val::Bool(_) => None,
            Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
                value.integer().and_then(|number| self.integer(verb, number))
            }
            Val::Float(number) => self.float(verb, *number),
            Val::Str(text) => self.text(verb, text),
            Val::Version(version) => self.text(verb, &version.to_string()),
            Val::Time(time) => self.text(verb, &time.to_go_text()),
            Val::List(list) => {
                let items = list.items.iter().map(|item| self.print_element(verb, item));
                return format!("[{}]", self.join_spaced(items));
            }
            Val::Map(map) => {
                let entries = map.entries();
                let items = entries.iter().map(|(key, item)| {
                    format!(
                        "{}:{}",
                        self.print(verb, &Val::str(key.as_str())),
                        self.print_element(verb, item)
                    )
                });
                return format!("map[{}]", self.join_spaced(items));
            }
        };
        printed.unwrap_or_else(|| self.bad_verb_message(verb, value))
    }

    /// Formats elements, separated by spaces, up to the size limit.
    fn join_spaced(&self, items: impl Iterator<Item = String>) -> String {
        let mut text = String::new();
        for (number, item) in items.enumerate() {
            if text.len() > self.bytes_max {
                break;
            }
            if number > 0 {
                text.push(' ');
            }
            text.push_str(&item);
        }
        text
    }

    /// Formats an element of a list or map. All verbs print nil the same way.
    fn print_element(&self, verb: char, value: &Val) -> String {
        if value.is_null() { "<nil>".to_owned() } else { self.print(verb, value) }
    }

    /// Returns Go's message for a value that a verb can't print.
    fn bad_verb_message(&self, verb: char, value: &Val) -> String {
        let printed = match value {
            Val::Int(_) | Val::Int64(_) | Val::Uint8(_) | Val::Uint64(_) => {
                value.integer().and_then(|number| self.integer('v', number))
            }
            Val::Float(number) => self.float('v', *number),
            Val::Str(text) => self.text('v', text),
            Val::Bool(value) => Some(self.pad(value.to_string(), false)),
            _ => None,
        };
        let printed = printed.unwrap_or_else(|| format_plain(value));
        format!("%!{verb}({}={printed})", value.type_name())
    }

    fn pad(&self, text: String, is_number: bool) -> String {
        let missing = self.width.unwrap_or_default().saturating_sub(text.chars().count());
        if missing == 0 {
            return text;
        }
        if self.minus {
            return format!("{text}{}", " ".repeat(missing));
        }
        if self.zero {
            let sign = text.chars().next().filter(|sign| is_number && matches!(sign, '+' | '-' | ' '));
            let digits = sign.map_or(text.as_str(), |sign| text.get(sign.len_utf8()..).unwrap_or_default());
            let sign = sign.map(String::from).unwrap_or_default();
            return format!("{sign}{}{digits}", "0".repeat(missing));
        }
        format!("{}{text}", " ".repeat(missing))
    }

    fn with_spaces(&self) -> Self {
        Self { zero: false, ..self.clone() }
    }

    fn sign_text(&self, negative: bool) -> &'static str {
        match (negative, self.plus, self.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    fn integer(&self, verb: char, value: i128) -> Option<String> {
        let size = value.unsigned_abs();
        let (digits, prefix) = match verb {
            'd' | 'v' => (size.to_string(), ""),
            'b' => (format!("{size:b}"), "0b"),
            'o' | 'O' => (format!("{size:o}"), "0"),
            'x' => (format!("{size:x}"), "0x"),
            'X' => (format!("{size:X}"), "0X"),
            'c' => return Some(self.pad(character(value).to_string(), false)),
            'q' if self.plus => return Some(self.pad(quote_char_ascii(character(value)), false)),
            'q' => return Some(self.pad(quote_char(character(value)), false)),
            'U' => return Some(self.with_spaces().pad(self.code_point(value), false)),
            _ => return None,
        };
        if self.precision == Some(0) && value == 0 {
            return Some(self.with_spaces().pad(String::new(), false));
        }
        let sign = self.sign_text(value < 0);
        // As in Go, zeros fill the width before the prefix is added, so the result may be wider than
        // requested.
        let filled = if self.zero { self.width.map(|width| width.saturating_sub(sign.len())) } else { None };
        let least = self.precision.or(filled).unwrap_or_default();
        let digits = format!("{}{digits}", "0".repeat(least.saturating_sub(digits.len())));
        let prefix = match verb {
            'O' if self.sharp && !digits.starts_with('0') => "0o0",
            'O' => "0o",
            'o' if digits.starts_with('0') => "",
            _ if self.sharp => prefix,
            _ => "",
        };
        Some(self.with_spaces().pad(format!("{sign}{prefix}{digits}"), false))
    }

    fn code_point(&self, value: i128) -> String {
        let least = self.precision.unwrap_or_default().max(4);
        let code = format!("U+{:0>least$}", format!("{:X}", value.rem_euclid(1 << 64)));
        let shown = u32::try_from(value).ok().and_then(char::from_u32).filter(|_| self.sharp);
        match shown.filter(|shown| quote_string(&shown.to_string()).chars().count() == 3) {
            Some(shown) => format!("{code} '{shown}'"),
            None => code,
        }
    }

    fn float(&self, verb: char, value: f64) -> Option<String> {
        let mut digits = floats::digits(verb, value.abs(), self.precision)?;
        let is_number = value.is_finite();
        if self.sharp && is_number && verb != 'b' {
            digits = floats::with_point(verb, &digits, self.precision);
        }
        let digits = digits.trim_start_matches('+');
        let is_negative = value.is_sign_negative() && !value.is_nan();
        let sign = if value == f64::INFINITY && !self.space { "+" } else { self.sign_text(is_negative) };
        let padded = Self { zero: self.zero && is_number, ..self.clone() };
        Some(padded.pad(format!("{sign}{digits}"), is_number))
    }

    fn text(&self, verb: char, text: &str) -> Option<String> {
        let cut: String = match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        let can_be_raw =
            || !cut.contains(|c: char| matches!(c, '`' | '\u{feff}') || (c.is_ascii_control() && c != '\t'));
        let printed = match verb {
            's' | 'v' => cut,
            'q' if self.sharp && can_be_raw() => format!("`{cut}`"),
            'q' if self.plus => quote_string_ascii(&cut),
            'q' => quote_string(&cut),
            'x' | 'X' => self.hexadecimal(text, verb == 'X'),
            _ => return None,
        };
        Some(self.pad(printed, false))
    }

    /// Formats the bytes of a string.
    fn hexadecimal(&self, text: &str, is_upper: bool) -> String {
        let prefix = match (self.sharp && !text.is_empty() && self.precision != Some(0), is_upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        let shown = |byte: u8| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
        let bytes: Vec<String> = text.bytes().take(self.precision.unwrap_or(usize::MAX)).map(shown).collect();
        let separator = if self.space { format!(" {prefix}") } else { String::new() };
        format!("{prefix}{}", bytes.join(&separator))
    }
}

fn character(value: i128) -> char {
    u32::try_from(value).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}
