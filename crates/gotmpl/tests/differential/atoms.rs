//! Random expressions without function calls, both valid and invalid.

use crate::calls::{
    DATES, DURATIONS, ENCODED, ENCODED32, FORMATS, JSONS, KINDS, LAYOUTS, REGEXES, URLS, VERSIONS, ZONES,
};
use crate::data::{self, KEYS};
use crate::expressions::{Expressions, literal};

const NUMBERS: [&str; 24] = [
    "1",
    "0",
    "-1",
    "2",
    "7",
    "3.0",
    "2.5",
    "-0.75",
    "1e3",
    "1e21",
    "1e-7",
    "0x1F",
    "0b101",
    "0o17",
    "017",
    "1_000",
    "'a'",
    "'\\n'",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "123456789",
    ".5",
    "+3",
];
/// Literals for counts. Templates without intentional errors use only the positive numbers and 0.
const COUNTS: [&str; 10] = ["1", "0", "2", "3", "5", "-1", "12", "4", "-3", "20"];
/// Number of valid fields at the start of `FIELDS`. Only templates with intentional errors use the other
/// fields.
const GOOD_FIELDS: usize = 13;
const FIELDS: [&str; 19] = [
    ".a",
    ".name",
    ".n",
    ".f",
    ".t",
    ".z",
    ".l",
    ".m",
    ".u",
    ".deep",
    ".Big",
    ".m.a",
    ".deep.a",
    ".missing",
    ".deep.m.name",
    ".missing.x",
    ".m.missing",
    ".l.x",
    ".name.x",
];

const ANY_COUNT: [&str; 8] = ["\"1\"", "nil", "true", "1.5", "2.0", "(int64 2)", "\"x\"", "$.z"];

fn is_regex(text: &str) -> bool {
    !matches!(text, "(" | "a**" | "(?x)a" | "x{2,1}")
}

fn is_json(text: &str) -> bool {
    !matches!(text, "nul" | "{" | "[1," | "1e400")
}

fn is_url(text: &str) -> bool {
    !matches!(text, "://x" | "http://h/%zz")
}

fn is_version(text: &str) -> bool {
    matches!(text, "1.2.3" | "v2" | "1.2.3-beta.1+b5" | "0.0.1")
}

impl Expressions<'_> {
    /// Returns one of the given strings in quotes, a valid one if the template must not contain errors.
    fn text_of(&mut self, all: &[&str], is_good: fn(&str) -> bool) -> String {
        let is_careful = self.is_careful;
        format!("\"{}\"", self.choices.choose_where(all, |one| !is_careful || is_good(one)))
    }

    /// Returns an expression for a field of the data. In a template without intentional errors, the
    /// expression is valid even if dot isn't the data.
    fn field(&mut self, all: &[&str]) -> String {
        let field = self.choices.choose(all);
        let from_root = if self.is_careful { !self.dot_is_root } else { self.choices.one_in(8) };
        if from_root { format!("${field}") } else { field.to_owned() }
    }

    /// Returns an expression of this kind without other function calls. Maps and lists may be created in
    /// place.
    pub fn atom(&mut self, kind: char) -> String {
        let any = |_: &str| true;
        match kind {
            's' => match self.choices.next_below(8) {
                0..=3 => literal(data::text(self.choices, self.is_ascii)),
                4 => "`r\\aw`".to_owned(),
                5 => self.variable_of('s'),
                _ => self.field(&[".a", ".name", ".u"]),
            },
            'n' => match self.choices.next_below(4) {
                0 | 1 => self.number(),
                2 => self.field(&[".n", ".f", ".Big"]),
                _ => format!("({} {})", self.choices.choose(&["int", "int64", "float64"]), self.number()),
            },
            // Counts are small, because they may determine the size of the output. Some have the wrong type.
            'c' => match self.choices.next_below(12) {
                10 if !self.is_careful => self.choices.choose(&ANY_COUNT).to_owned(),
                11 => "(len \"four\")".to_owned(),
                _ => self.count(),
            },
            'x' => self.part(&["0", "1"]),
            'y' => self.part(&["2", "3", "1"]),
            'D' => self.part(&["1", "7", "-3", "2.5", "1e3", "(int64 4)"]),
            'b' => match self.choices.next_below(4) {
                0 => self.field(&[".t"]),
                1 => self.variable_of('b'),
                _ => self.choices.choose(&["true", "false"]).to_owned(),
            },
            'l' => match self.choices.next_below(5) {
                0 | 1 => self.field(&[".l"]),
                2 => format!("(list {} {})", self.atom('s'), self.atom('a')),
                3 => self.variable_of('l'),
                _ => format!("({} {} | sortAlpha)", self.choices.choose(&["keys", "values"]), self.atom('m')),
            },
            'L' if self.choices.next_below(2) == 0 => self.field(&[".l"]),
            'L' => format!("(list {} {} {})", self.atom('s'), self.atom('a'), self.atom('n')),
            'S' => self.choices.choose(&["\"abc\"", "\"a,b,c\"", "\"Hello World\""]).to_owned(),
            'm' => match self.choices.next_below(6) {
                0 | 1 => self.field(&[".m", ".deep"]),
                2 => "$".to_owned(),
                3 => self.variable_of('m'),
                _ => self.atom('N'),
            },
            'N' => match self.choices.next_below(3) {
                0 => "(dict)".to_owned(),
                1 => format!("(dict {} {})", literal(self.choices.choose(&KEYS)), self.atom('q')),
                _ => format!(
                    "(dict {} {} {} {})",
                    literal(self.choices.choose(&KEYS)),
                    self.atom('q'),
                    literal(self.choices.choose(&KEYS)),
                    self.atom('q')
                ),
            },
            'C' if self.choices.next_below(3) == 0 => format!("(deepCopy {})", self.field(&[".m", ".deep"])),
            'C' => self.atom('N'),
            'U' => format!("(urlParse {})", self.text_of(&URLS, is_url)),
            'q' => self.choices.choose(&["1", "\"x\"", "true", "2.5", "\"\"", "0", "nil"]).to_owned(),
            't' if self.choices.one_in(4) => {
                self.choices.choose(&["0", "1700000000", "(int64 86399)"]).to_owned()
            }
            't' | 'T' => format!(
                "(toDate \"{}\" \"{}\")",
                self.choices.choose(&["2006-01-02", "2006-01-02T15:04:05Z07:00"]),
                self.choices.choose(&DATES)
            ),
            'z' => self.text_of(&ZONES, any),
            'r' => self.text_of(&REGEXES, is_regex),
            'd' => self.text_of(&LAYOUTS, any),
            'u' => self.text_of(&DURATIONS, |text| text != "x"),
            'v' => self.text_of(&VERSIONS, is_version),
            'k' => self.text_of(&KINDS, any),
            'p' => self.text_of(&FORMATS, any),
            'w' => self.text_of(&URLS, is_url),
            'j' => self.text_of(&JSONS, is_json),
            'e' => self.text_of(&ENCODED, any),
            'E' => self.text_of(&ENCODED32, any),
            _ => self.anything(),
        }
    }

    fn number(&mut self) -> String {
        let is_careful = self.is_careful;
        // The excluded number overflows.
        self.choices.choose_where(&NUMBERS, |one| !is_careful || one != "9223372036854775808").to_owned()
    }

    fn count(&mut self) -> String {
        let is_careful = self.is_careful;
        self.choices.choose_where(&COUNTS, |one| !is_careful || !one.starts_with('-')).to_owned()
    }

    /// Returns one of the valid options. In a template with intentional errors, sometimes returns any other
    /// value.
    fn part(&mut self, good: &[&str]) -> String {
        if !self.is_careful && self.choices.one_in(4) {
            self.atom('c')
        } else {
            self.choices.choose(good).to_owned()
        }
    }

    fn anything(&mut self) -> String {
        if self.is_careful {
            return match self.choices.next_below(12) {
                0 => ".".to_owned(),
                1..=6 => self.field(FIELDS.get(..GOOD_FIELDS).unwrap_or(&FIELDS)),
                7 => self.variable_of('a'),
                8 => self.atom('b'),
                9 => self.atom('n'),
                10 => self.atom('s'),
                _ => {
                    format!("({})", self.choices.choose(&["first $.l", "$.m", "index $.l 1", "dict \"a\" 1"]))
                }
            };
        }
        match self.choices.next_below(12) {
            0 => ".".to_owned(),
            1..=5 => self.field(&FIELDS),
            6 => self.variable_of('a'),
            7 => format!("{}{}", self.variable_of('a'), self.choices.choose(&FIELDS)),
            8 if self.choices.one_in(3) => "nil".to_owned(),
            8 => self.atom('b'),
            9 => self.atom('n'),
            10 => self.atom('s'),
            _ => format!(
                "({}){}",
                self.choices.choose(&["index .l 0", "first .l", ".m", "$", ".name", ".z", "dict \"a\" 1"]),
                self.choices.choose(&FIELDS)
            ),
        }
    }
}
