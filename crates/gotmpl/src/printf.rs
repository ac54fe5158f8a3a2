//! `printf`: a format, and the values that its directives take one after the other or by number.

use std::fmt::Write as _;

use crate::format::plain;
use crate::printf::directive::Directive;
use crate::value::Val;

mod directive;
mod floats;

/// A number in a format that has become larger than this is not read on, and none of the arguments may be.
const NUMBER_MAX: usize = 1_000_000;

/// `printf`; refused when it would take more bytes than there is room for.
pub(crate) fn printf(format: &str, arguments: &[Val], room: usize) -> Result<String, String> {
    let mut printer = Printer { rest: format, arguments, next: 0, by_number: false, is_good: true, room };
    let mut text = String::new();
    while let Some((before, after)) = printer.rest.split_once('%') {
        text.push_str(before);
        printer.rest = after;
        let is_ended = printer.directive(&mut text)?;
        if text.len() > room {
            return Err(too_long(room));
        }
        if is_ended {
            return Ok(text + &printer.extra());
        }
    }
    Ok(text + printer.rest + &printer.extra())
}

fn too_long(room: usize) -> String {
    format!("a text of more than {room} bytes")
}

/// A number as a format has it.
enum Number {
    None,
    Some(usize),
    /// Go reads no further than this.
    TooLarge,
}

struct Printer<'f> {
    rest: &'f str,
    arguments: &'f [Val],
    /// The next argument.
    next: usize,
    /// Whether any argument was named by its number: then it is not told which are left over.
    by_number: bool,
    /// Whether the numbers of this directive name arguments that are there.
    is_good: bool,
    room: usize,
}

impl Printer<'_> {
    fn took(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// What follows a `%`; true when the format ends in it.
    fn directive(&mut self, text: &mut String) -> Result<bool, String> {
        let mut directive = Directive { room: self.room, ..Directive::default() };
        self.is_good = true;
        let flags = self.rest.len() - self.rest.trim_start_matches(['+', '-', '#', ' ', '0']).len();
        let (flags, rest) = self.rest.split_at(flags);
        self.rest = rest;
        directive.flags(flags);
        let mut is_numbered = self.argument_number();
        if self.took('*') {
            let (width, is_negative) = self.number_argument(text, "%!(BADWIDTH)");
            directive.width = width;
            directive.minus |= is_negative;
            is_numbered = false;
        } else {
            directive.width = self.number();
            self.is_good &= !(is_numbered && directive.width.is_some());
        }
        if self.rest.len() > 1 && self.took('.') {
            self.is_good &= !is_numbered;
            is_numbered = self.argument_number();
            directive.precision = if self.took('*') {
                is_numbered = false;
                let (precision, is_negative) = self.number_argument(text, "%!(BADPREC)");
                if is_negative {
                    text.push_str("%!(BADPREC)");
                }
                precision.filter(|_| !is_negative)
            } else {
                Some(self.number().unwrap_or_default())
            };
        }
        if !is_numbered {
            self.argument_number();
        }
        directive.zero &= !directive.minus;
        if directive.width.max(directive.precision).is_some_and(|size| size > self.room) {
            return Err(too_long(self.room));
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
            _ if !self.is_good => write!(text, "%!{verb}(BADINDEX)"),
            None => write!(text, "%!{verb}(MISSING)"),
            Some(value) => {
                self.next += 1;
                write!(text, "{}", directive.print(verb, value))
            }
        };
    }

    /// `[2]`: the argument to go on with. False when there is none, or it cannot be read.
    fn argument_number(&mut self) -> bool {
        if !self.rest.starts_with('[') {
            return false;
        }
        self.by_number = true;
        let inside = self.rest.get(1..).unwrap_or_default();
        let Some((number, rest)) = inside.split_once(']').filter(|_| self.rest.len() > 2) else {
            self.rest = inside;
            self.is_good = false;
            return false;
        };
        self.rest = rest;
        let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
        let number = match read_number(number).0 {
            Number::Some(number) if is_number => number,
            _ => {
                self.is_good = false;
                return false;
            }
        };
        match number.checked_sub(1).filter(|index| *index < self.arguments.len()) {
            Some(index) => self.next = index,
            None => self.is_good = false,
        }
        true
    }

    /// The digits that come next; when they are too many, the format ends there.
    fn number(&mut self) -> Option<usize> {
        let (number, rest) = read_number(self.rest);
        self.rest = rest;
        match number {
            Number::Some(number) => Some(number),
            Number::None => None,
            Number::TooLarge => {
                self.rest = "";
                None
            }
        }
    }

    /// `*`: a width or precision that is an argument, and whether it is negative.
    fn number_argument(&mut self, text: &mut String, bad: &str) -> (Option<usize>, bool) {
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

    /// What is said of arguments that no directive took.
    fn extra(&self) -> String {
        let left = self.arguments.get(self.next..).unwrap_or_default();
        if self.by_number || left.is_empty() {
            return String::new();
        }
        let shown = |value: &Val| match value {
            Val::Absent | Val::Nil => "<nil>".to_owned(),
            _ => format!("{}={}", value.type_name(), plain(value)),
        };
        format!("%!(EXTRA {})", left.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

/// The digits a text begins with, and what follows them.
fn read_number(text: &str) -> (Number, &str) {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let mut number = Number::None;
    for digit in digits.bytes().map(|digit| usize::from(digit.saturating_sub(b'0'))) {
        number = match number {
            Number::None => Number::Some(digit),
            Number::Some(number) if number <= NUMBER_MAX => Number::Some(number * 10 + digit),
            _ => return (Number::TooLarge, rest),
        };
    }
    (number, rest)
}
