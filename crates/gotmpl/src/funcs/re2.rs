//! Translation of Go's regular expressions to the syntax of the `regex` crate. In that crate, `\w`, `\d`,
//! `\s` and `\b` match all of Unicode, and classes have set operations. Some of Go's literals are special
//! syntax or errors there.

/// Maximum number of repetitions, as in Go.
const REPEAT_MAX: u32 = 1_000;

/// Returns the equivalent expression, or Go's error message. Leaves an expression unchanged if both Go and
/// the `regex` crate reject it.
pub(super) fn translated(pattern: &str) -> Result<String, String> {
    let mut translation = Translation { rest: pattern, output: String::new() };
    // Go rejects a repetition of a repetition, so remember where the preceding one starts.
    let mut repeated: Option<&str> = None;
    while let Some(next) = translation.rest.chars().next() {
        let before = translation.rest;
        let is_repeat = match next {
            '*' | '+' | '?' => {
                translation.copy(1);
                true
            }
            '{' => translation.repeat()?,
            _ => {
                translation.atom(next)?;
                false
            }
        };
        if is_repeat {
            if translation.rest.starts_with('?') {
                translation.copy(1);
            }
            if let Some(first) = repeated {
                let both = first.len() - translation.rest.len();
                return Err(regex_error(
                    "invalid nested repetition operator",
                    first.get(..both).unwrap_or(first),
                ));
            }
        }
        repeated = is_repeat.then_some(before);
    }
    Ok(translation.output)
}

fn regex_error(what: &str, part: &str) -> String {
    format!("{what}: `{part}`")
}

struct Translation<'p> {
    rest: &'p str,
    output: String,
}

impl<'p> Translation<'p> {
    fn take(&mut self, bytes: usize) -> &'p str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn copy(&mut self, bytes: usize) {
        let taken = self.take(bytes);
        self.output.push_str(taken);
    }

    fn literal(&mut self, character: char) {
        if character.is_alphanumeric() {
            self.output.push(character);
        } else {
            self.output.push_str(&format!("\\x{{{:X}}}", u32::from(character)));
        }
    }

    fn atom(&mut self, next: char) -> Result<(), String> {
        match next {
            '\\' if self.rest.starts_with("\\Q") => {
                self.take(2);
                let end = self.rest.find("\\E").unwrap_or(self.rest.len());
                let text = self.take(end);
                text.chars().for_each(|character| self.literal(character));
                self.take(2);
            }
            '\\' => return self.escape(),
            '[' => return self.class(),
            '(' if self.rest.starts_with("(?") => return self.group(),
            '}' | ']' => {
                self.take(1);
                self.literal(next);
            }
            _ => self.copy(next.len_utf8()),
        }
        Ok(())
    }

    /// Parses a repetition such as `{2}`, `{2,}` or `{2,5}`. Returns false for any other brace, which is a
    /// literal.
    fn repeat(&mut self) -> Result<bool, String> {
        let inside = self.rest.split_once('}').map(|(inside, _)| inside.get(1..).unwrap_or_default());
        let is_number = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|digit| digit.is_ascii_digit())
                && (text == "0" || !text.starts_with('0'))
        };
        let bounds = inside.map(|inside| inside.split_once(',').unwrap_or((inside, inside)));
        let Some((least, most)) =
            bounds.filter(|(least, most)| is_number(least) && (most.is_empty() || is_number(most)))
        else {
            self.take(1);
            self.literal('{');
            return Ok(false);
        };
        let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
        let length = inside.map_or(0, str::len) + 2;
        let is_in_order = most.is_empty() || number(least) <= number(most);
        if number(least) > REPEAT_MAX || !most.is_empty() && number(most) > REPEAT_MAX || !is_in_order {
            return Err(regex_error("invalid repeat count", self.rest.get(..length).unwrap_or_default()));
        }
        self.copy(length);
        Ok(true)
    }

    /// Parses the start of a group that begins with `(?`: a group name or flags.
    fn group(&mut self) -> Result<(), String> {
        let inside = self.rest.get(2..).unwrap_or_default();
        if inside.starts_with("P<") || inside.starts_with('<') {
            let length = self.rest.find('>').map_or(self.rest.len(), |end| end + 1);
            let name = self.rest.get(..length).unwrap_or_default();
            let word = name.trim_start_matches("(?").trim_start_matches('P').trim_matches(['<', '>']);
            if word.is_empty() || !word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(regex_error("invalid named capture", name));
            }
            self.copy(length);
            return Ok(());
        }
        let flags = inside.find(|c| !matches!(c, 'i' | 'm' | 's' | 'U' | '-')).unwrap_or(inside.len());
        let end = inside.get(flags..).and_then(|rest| rest.chars().next());
        let length = 2 + flags + end.map_or(0, char::len_utf8);
        if !matches!(end, Some(':' | ')')) {
            if end.is_none() {
                return Err(regex_error("missing closing )", self.rest));
            }
            let part = self.rest.get(..length).unwrap_or_default();
            return Err(regex_error("invalid or unsupported Perl syntax", part));
        }
        self.copy(length);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest.as_bytes().get(1) {
            None => Err("trailing backslash at end of expression: ``".to_owned()),
            Some(b'A' | b'z') => {
                self.copy(2);
                Ok(())
            }
            Some(b'b' | b'B') => {
                let boundary = self.take(2);
                self.output.push_str(&format!("(?-u:{boundary})"));
                Ok(())
            }
            Some(b'p' | b'P') => {
                self.property();
                Ok(())
            }
            Some(class) => match ascii_class(*class) {
                Some(members) => {
                    self.take(2);
                    let sign = if class.is_ascii_uppercase() { "^" } else { "" };
                    self.output.push_str(&format!("[{sign}{members}]"));
                    Ok(())
                }
                None => {
                    let character = self.character()?;
                    self.literal(character);
                    Ok(())
                }
            },
        }
    }

    /// Parses `\pL` or `\p{Greek}`.
    fn property(&mut self) {
        let length = match self.rest.as_bytes().get(2) {
            Some(b'{') => self.rest.find('}').map_or(self.rest.len(), |end| end + 1),
            _ => 2 + self.rest.get(2..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8),
        };
        self.copy(length);
    }

    /// Parses a character, which may be a literal or an escape.
    fn character(&mut self) -> Result<char, String> {
        let Some(first) = self.rest.chars().next() else { return Err(regex_error("missing closing ]", "")) };
        if first != '\\' {
            self.take(first.len_utf8());
            return Ok(first);
        }
        let whole = self.rest;
        self.take(1);
        let Some(escaped) = self.rest.chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        self.take(escaped.len_utf8());
        let octal = |rest: &str| rest.bytes().take_while(|digit| matches!(digit, b'0'..=b'7')).count();
        let found = match escaped {
            '1'..='7' if octal(self.rest) == 0 => None,
            '0'..='7' => {
                let more = self.take(octal(self.rest).min(2));
                u32::from_str_radix(&format!("{escaped}{more}"), 8).ok().and_then(char::from_u32)
            }
            'x' => self.hexadecimal(),
            'a' => Some('\x07'),
            'f' => Some('\x0c'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\x0b'),
            other if other.is_ascii() && !other.is_ascii_alphanumeric() => Some(other),
            _ => None,
        };
        found.ok_or_else(|| {
            let length = whole.len() - self.rest.len();
            regex_error("invalid escape sequence", whole.get(..length).unwrap_or_default())
        })
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits = match self.rest.strip_prefix('{') {
            Some(inside) => {
                let end = inside.find('}')?;
                self.take(end + 2).trim_matches(['{', '}'])
            }
            None => self.take(2),
        };
        let is_good = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_good).and_then(char::from_u32)
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        self.copy(if whole.starts_with("[^") { 2 } else { 1 });
        let mut is_first = true;
        while is_first || !self.rest.starts_with(']') {
            if self.rest.is_empty() {
                return Err(regex_error("missing closing ]", whole));
            }
            is_first = false;
            self.member()?;
        }
        self.copy(1);
        Ok(())
    }

    /// Parses one item of a character class: a character, a range or a named class.
    fn member(&mut self) -> Result<(), String> {
        if self.rest.starts_with("[:")
            && let Some(end) = self.rest.find(":]")
        {
            self.copy(end + 2);
            return Ok(());
        }
        if self.rest.starts_with("\\p") || self.rest.starts_with("\\P") {
            self.property();
            return Ok(());
        }
        let class = self.rest.strip_prefix('\\').and_then(|rest| rest.bytes().next());
        if let Some((class, members)) = class.and_then(|class| Some((class, ascii_class(class)?))) {
            self.take(2);
            let sign = if class.is_ascii_uppercase() { "^" } else { "" };
            self.output.push_str(&format!("[{sign}{members}]"));
            return Ok(());
        }
        let whole = self.rest;
        let first = self.character()?;
        self.literal(first);
        if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
            self.copy(1);
            let last = self.character()?;
            if last < first {
                let length = whole.len() - self.rest.len();
                return Err(regex_error(
                    "invalid character class range",
                    whole.get(..length).unwrap_or_default(),
                ));
            }
            self.literal(last);
        }
        Ok(())
    }
}

/// Returns the ASCII sets for `\d`, `\s` and `\w`, and for their complements `\D`, `\S` and `\W`.
fn ascii_class(letter: u8) -> Option<&'static str> {
    match letter.to_ascii_lowercase() {
        b'd' => Some("0-9"),
        b's' => Some("\\t\\n\\x0C\\r "),
        b'w' => Some("0-9A-Za-z_"),
        _ => None,
    }
}
