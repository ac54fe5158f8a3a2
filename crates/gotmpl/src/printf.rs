//! The `printf` function, which formats arguments like Go's `fmt.Sprintf`.

use std::fmt::Write as _;

use crate::format::format_plain;
use crate::printf::directive::Directive;
use crate::value::Val;

mod directive;
mod floats;

/// Maximum number in a format string. Also applies to widths and precisions passed as arguments.
const NUMBER_MAX: usize = 1_000_000;

/// Formats arguments. Returns an error if the result would be longer than `room` bytes.
pub(crate) fn printf(format: &str, arguments: &[Val], room: usize) -> Result<String, String> {
    let mut printer = Printer {
        rest: format,
        arguments,
        next: 0,
        is_indexed: false,
        has_valid_indexes: true,
        bytes_max: room,
    };
    let mut text = String::new();
    while let Some((before, after)) = printer.rest.split_once('%') {
        text.push_str(before);
        printer.rest = after;
        let is_ended = printer.format_directive(&mut text)?;
        if text.len() > room {
            return Err(too_long(room));
        }
        if is_ended {
            return Ok(text + &printer.unused_arguments_message());
        }
    }
    Ok(text + printer.rest + &printer.unused_arguments_message())
}

fn too_long(room: usize) -> String {
    format!("the string would be longer than {room} bytes")
}

/// A number in a format string.
enum FormatNumber {
    None,
    Some(usize),
    /// The number is too large. Like Go, the printer ignores the rest of the format string.
    TooLarge,
}

struct Printer<'f> {
    rest: &'f str,
    arguments: &'f [Val],
    /// Index of the next argument.
    next: usize,
    /// True if a directive has selected an argument by index. Unused arguments are then not reported.
    is_indexed: bool,
    /// True if all indexes in the current directive refer to existing arguments.
    has_valid_indexes: bool,
    bytes_max: usize,
}

impl Printer<'_> {
    fn take_if(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Formats the directive that follows a `%`. Returns true if the format string ends inside the directive.
    fn format_directive(&mut self, text: &mut String) -> Result<bool, String> {
        let mut directive = Directive { bytes_max: self.bytes_max, ..Directive::default() };
        self.has_valid_indexes = true;
        let flags = self.rest.len() - self.rest.trim_start_matches(['+', '-', '#', ' ', '0']).len();
        let (flags, rest) = self.rest.split_at(flags);
        self.rest = rest;
        directive.set_flags(flags);
        let mut is_numbered = self.read_argument_index();
        if self.take_if('*') {
            let (width, is_negative) = self.read_number_argument(text, "%!(BADWIDTH)");
            directive.width = width;
            directive.minus |= is_negative;
            is_numbered = false;
        } else {
            directive.width = self.read_number();
            self.has_valid_indexes &= !(is_numbered && directive.width.is_some());
        }
        if self.rest.len() > 1 && self.take_if('.') {
            self.has_valid_indexes &= !is_numbered;
            is_numbered = self.read_argument_index();
            directive.precision = if self.take_if('*') {
                is_numbered = false;
                let (precision, is_negative) = self.read_number_argument(text, "%!(BADPREC)");
                if is_negative {
                    text.push_str("%!(BADPREC)");
                }
                precision.filter(|_| !is_negative)
            } else {
                Some(self.read_number().unwrap_or_default())
            };
        }
        if !is_numbered {
            self.read_argument_index();
        }
        directive.zero &= !directive.minus;
        if directive.width.max(directive.precision).is_some_and(|size| size > self.bytes_max) {
            return Err(too_long(self.bytes_max));
        }
        let mut rest = self.rest.chars();
        let Some(verb) = rest.next() else {
            text.push_str("%!(NOVERB)");
            return Ok(true);
        };
        self.rest = rest.as_str();
        self.print(verb, &directive, text);
        Ok(false)
    }

    fn print(&mut self, verb: char, directive: &Directive, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self.arguments.get(self.next) {
            _ if verb == '%' => write!(text, "%"),
            _ if !self.has_valid_indexes => write!(text, "%!{verb}(BADINDEX)"),
            None => write!(text, "%!{verb}(MISSING)"),
            Some(value) => {
                self.next += 1;
                write!(text, "{}", directive.print(verb, value))
            }
        };
    }

    /// Reads an argument index such as `[2]`. Returns false if there is no index or its syntax is invalid.
    fn read_argument_index(&mut self) -> bool {
        if !self.rest.starts_with('[') {
            return false;
        }
        self.is_indexed = true;
        let inside = self.rest.get(1..).unwrap_or_default();
        let Some((number, rest)) = inside.split_once(']').filter(|_| self.rest.len() > 2) else {
            self.rest = inside;
            self.has_valid_indexes = false;
            return false;
        };
        self.rest = rest;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let number = match read_number(number).0 {
            FormatNumber::Some(number) if is_number => number,
            _ => {
                self.has_valid_indexes = false;
                return false;
            }
        };
        match number.checked_sub(1).filter(|index| *index < self.arguments.len()) {
            Some(index) => self.next = index,
            None => self.has_valid_indexes = false,
        }
        true
    }

    /// Reads a number. If the number is too large, the rest of the format string is ignored.
    fn read_number(&mut self) -> Option<usize> {
        let (number, rest) = read_number(self.rest);
        self.rest = rest;
        match number {
            FormatNumber::Some(number) => Some(number),
            FormatNumber::None => None,
            FormatNumber::TooLarge => {
                self.rest = "";
                None
            }
        }
    }

    /// Reads the width or precision for a `*` from an argument. Returns the number, and true if it is
    /// negative.
    fn read_number_argument(&mut self, text: &mut String, bad: &str) -> (Option<usize>, bool) {
        let value = self.arguments.get(self.next);
        self.next += usize::from(value.is_some());
        let number = match value {
            Some(value) => value.integer().and_then(|number| i64::try_from(number).ok()),
            None => None,
        };
        let Some(number) = number else {
            text.push_str(bad);
            return (None, false);
        };
        let size = usize::try_from(number.unsigned_abs()).ok().filter(|size| *size <= NUMBER_MAX);
        if size.is_none() {
            text.push_str(bad);
        }
        (size, size.is_some() && number < 0)
    }

    /// Returns Go's message about unused arguments, or an empty string.
    fn unused_arguments_message(&self) -> String {
        let left = self.arguments.get(self.next..).unwrap_or_default();
        if self.is_indexed || left.is_empty() {
            return String::new();
        }
        let shown = |value: &Val| match value {
            Val::Absent | Val::Nil => "<nil>".to_owned(),
            _ => format!("{}={}", value.type_name(), format_plain(value)),
        };
        format!("%!(EXTRA {})", left.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

/// Splits text into the number that it starts with and the rest.
fn read_number(text: &str) -> (FormatNumber, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let mut number = FormatNumber::None;
    for digit in digits.bytes().map(|digit| usize::from(digit.saturating_sub(b'0'))) {
        number = match number {
            FormatNumber::None => FormatNumber::Some(digit),
            FormatNumber::Some(number) if number <= NUMBER_MAX => FormatNumber::Some(number * 10 + digit),
            _ => return (FormatNumber::TooLarge, rest),
        };
    }
    (number, rest)
}
