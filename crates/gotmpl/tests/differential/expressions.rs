//! Random pipelines, most of which fit where they stand.

use crate::calls::{
    DATES, DURATIONS, ENCODED, FORMATS, FUNCTIONS, Function, JSONS, KINDS, LAYOUTS, REGEXES, URLS, VERSIONS,
};
use crate::choices::Choices;
use crate::data::{KEYS, TEXTS};

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
const COUNTS: [&str; 10] = ["1", "0", "2", "3", "5", "-1", "12", "4", "-3", "20"];
const FIELDS: [&str; 18] = [
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
    ".missing",
    ".m.a",
    ".deep.m.name",
    ".missing.x",
    ".m.missing",
    ".l.x",
    ".name.x",
];

/// A text as Go writes it.
pub fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub struct Expressions<'c> {
    pub choices: &'c mut Choices,
    /// Those that are seen here; the first part of each name tells them apart.
    pub variables: Vec<String>,
    declared: usize,
}

impl<'c> Expressions<'c> {
    pub fn new(choices: &'c mut Choices) -> Self {
        Self { choices, variables: Vec::new(), declared: 0 }
    }

    /// A new variable, or one that hides another.
    pub fn declare(&mut self) -> String {
        self.declared += 1;
        let name = format!("$v{}", self.declared % 4);
        self.variables.push(name.clone());
        name
    }

    /// One that is seen, or `$`; sometimes one that is not there.
    pub fn variable(&mut self) -> String {
        let count = self.variables.len();
        match self.choices.below(count + 1) {
            0 if self.choices.once_in(40) => "$v0".to_owned(),
            0 => "$".to_owned(),
            at => self.variables[count - at].clone(),
        }
    }

    /// Something to stand alone in an action.
    pub fn pipeline(&mut self, kind: char, depth: usize) -> String {
        let bare = |text: String| match text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            // Only where both belong together.
            Some(inside) if !inside.contains(['(', ')']) => inside.to_owned(),
            _ => text,
        };
        match self.choices.below(6) {
            0 => self.atom(kind),
            5 if kind == 'a' => {
                let version = self.operand('v', 0);
                let what = self.choices.one(&[
                    "",
                    ".Major",
                    ".Minor",
                    ".Patch",
                    ".Original",
                    ".Prerelease",
                    ".Metadata",
                    ".Nope",
                ]);
                if what.is_empty() {
                    format!("semver {version}")
                } else {
                    format!("(semver {version}){what}")
                }
            }
            _ if depth == 0 => self.atom(kind),
            _ => bare(self.call(kind, depth - 1)),
        }
    }

    /// Something to stand as an argument.
    pub fn operand(&mut self, kind: char, depth: usize) -> String {
        let kind = match kind {
            's' | 'n' | 'b' | 'l' | 'm' if self.choices.once_in(16) => {
                self.choices.one(&["a", "s", "n", "b", "l", "m"]).chars().next().unwrap_or('a')
            }
            '=' => self.choices.one(&["n", "s", "b", "n", "a"]).chars().next().unwrap_or('a'),
            kind => kind,
        };
        let has_calls = matches!(kind, 'a' | 's' | 'n' | 'b' | 'l' | 'm');
        if depth == 0 || !has_calls || self.choices.below(3) == 0 {
            return self.atom(kind);
        }
        self.call(kind, depth - 1)
    }

    /// A value without a call; of maps and lists also new ones.
    pub fn atom(&mut self, kind: char) -> String {
        let quoted = |text: &str| format!("\"{text}\"");
        match kind {
            's' => match self.choices.below(8) {
                0..=3 => literal(self.choices.one(&TEXTS)),
                4 => "`r\\aw`".to_owned(),
                5 => self.variable(),
                _ => self.choices.one(&[".a", ".name", ".u"]).to_owned(),
            },
            'n' => match self.choices.below(4) {
                0 | 1 => self.choices.one(&NUMBERS).to_owned(),
                2 => self.choices.one(&[".n", ".f", ".Big"]).to_owned(),
                _ => format!(
                    "({} {})",
                    self.choices.one(&["int", "int64", "float64"]),
                    self.choices.one(&NUMBERS)
                ),
            },
            // Small, because it may say how much is made; or of the wrong type.
            'c' => match self.choices.below(12) {
                10 => self
                    .choices
                    .one(&["\"1\"", "nil", "true", "1.5", "2.0", "(int64 2)", "\"x\"", "$.z"])
                    .to_owned(),
                11 => "(len .name)".to_owned(),
                _ => self.choices.one(&COUNTS).to_owned(),
            },
            'b' => self.choices.one(&["true", "false", ".t", ".t"]).to_owned(),
            'l' => match self.choices.below(4) {
                0 | 1 => ".l".to_owned(),
                2 => format!("(list {} {})", self.atom('s'), self.atom('a')),
                _ => format!("({} {} | sortAlpha)", self.choices.one(&["keys", "values"]), self.atom('m')),
            },
            'm' => match self.choices.below(5) {
                0 | 1 => self.choices.one(&[".m", ".deep"]).to_owned(),
                2 => "$".to_owned(),
                _ => self.atom('N'),
            },
            'N' => match self.choices.below(3) {
                0 => "dict".to_owned().replace("dict", "(dict)"),
                1 => format!("(dict {} {})", literal(self.choices.one(&KEYS)), self.atom('q')),
                _ => format!(
                    "(dict {} {} {} {})",
                    literal(self.choices.one(&KEYS)),
                    self.atom('q'),
                    literal(self.choices.one(&KEYS)),
                    self.atom('q')
                ),
            },
            'q' => self.choices.one(&["1", "\"x\"", "true", "2.5", "\"\"", "0", "nil"]).to_owned(),
            't' if self.choices.once_in(4) => {
                self.choices.one(&["0", "1700000000", "(int64 86399)"]).to_owned()
            }
            't' | 'T' => format!(
                "(toDate {} {})",
                quoted(self.choices.one(&["2006-01-02", "2006-01-02T15:04:05Z07:00"])),
                quoted(self.choices.one(&DATES))
            ),
            'z' => quoted(self.choices.one(&["UTC", "UTC", ""])),
            'r' => quoted(self.choices.one(&REGEXES)),
            'd' => quoted(self.choices.one(&LAYOUTS)),
            'u' => quoted(self.choices.one(&DURATIONS)),
            'v' => quoted(self.choices.one(&VERSIONS)),
            'k' => quoted(self.choices.one(&KINDS)),
            'p' => quoted(self.choices.one(&FORMATS)),
            'w' => quoted(self.choices.one(&URLS)),
            'j' => quoted(self.choices.one(&JSONS)),
            'e' => quoted(self.choices.one(&ENCODED)),
            _ => self.anything(),
        }
    }

    fn anything(&mut self) -> String {
        match self.choices.below(12) {
            0 => ".".to_owned(),
            1..=5 => self.choices.one(&FIELDS).to_owned(),
            6 => self.variable(),
            7 => format!("{}{}", self.variable(), self.choices.one(&FIELDS)),
            8 if self.choices.once_in(3) => "nil".to_owned(),
            8 => self.atom('b'),
            9 => self.atom('n'),
            10 => self.atom('s'),
            _ => format!(
                "({}){}",
                self.choices.one(&["index .l 0", "first .l", ".m", "$", ".name", ".z", "dict \"a\" 1"]),
                self.choices.one(&FIELDS)
            ),
        }
    }

    /// A call in parentheses.
    fn call(&mut self, kind: char, depth: usize) -> String {
        let fitting: Vec<&Function> = FUNCTIONS
            .iter()
            .filter(|one| one.2 == kind || (kind == 'a' && one.2 != 't' && one.2 != 'V'))
            .collect();
        if fitting.is_empty() {
            return self.atom(kind);
        }
        let (name, parameters, _) = fitting[self.choices.below(fitting.len())];
        let mut arguments = self.arguments(parameters, depth);
        match self.choices.below(40) {
            38 => drop(arguments.pop()),
            39 => arguments.push(self.atom('s')),
            _ => {}
        }
        if self.choices.below(3) == 1
            && let Some(last) = arguments.pop()
        {
            return format!("({last} | {name}{})", joined(&arguments));
        }
        let call = format!("({name}{})", joined(&arguments));
        if self.choices.once_in(12) { call + self.choices.one(&[".a", ".x.y", "._0", ".name"]) } else { call }
    }

    fn arguments(&mut self, parameters: &str, depth: usize) -> Vec<String> {
        let mut arguments = Vec::new();
        let mut last = 'a';
        for parameter in parameters.chars() {
            if parameter == '*' {
                // The one before is there already; none at all, or some more.
                match self.choices.below(4) {
                    3 => drop(arguments.pop()),
                    more => arguments.extend((0..more).map(|_| self.operand(last, depth))),
                }
            } else {
                arguments.push(self.operand(parameter, depth));
                last = parameter;
            }
        }
        arguments
    }
}

fn joined(arguments: &[String]) -> String {
    arguments.iter().map(|argument| format!(" {argument}")).collect()
}
