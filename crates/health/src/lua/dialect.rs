//! What Lua 5.1 reads in another way than the interpreter, put into the words of the interpreter before a script is loaded: line
//! by line the same, so that errors name the right line.
//!
//! - A backslash before a character that it does not change is passed over (`"a\.b"` is `a.b`); 5.2 refuses such texts, and
//!   knows `\x41` and `\z`, which 5.1 does not.
//! - A function with `...` has the further values in `arg` as well, with their number in `arg.n`.

use std::borrow::Cow;

/// Put at the beginning of functions with `...`, in scripts that name `arg` at all.
const ARG: &str = " local arg={n=select(\"#\",...),...}; ";

/// A script in the words of the interpreter.
pub(super) fn translated(script: &str) -> Cow<'_, str> {
    let names_arg = words(script).any(|word| word == "arg");
    if !names_arg && !script.contains('\\') {
        return Cow::Borrowed(script);
    }
    let mut reader =
        Reader { rest: script, read: String::with_capacity(script.len()), header: Header::None, names_arg };
    while !reader.rest.is_empty() {
        reader.piece();
    }
    Cow::Owned(reader.read)
}

fn is_of_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn words(script: &str) -> impl Iterator<Item = &str> {
    script.split(|character| !is_of_word(character))
}

/// Where in the head of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    None,
    /// After the word `function`.
    Name,
    /// In its parameters; whether there were three dots.
    Parameters(bool),
}

struct Reader<'s> {
    rest: &'s str,
    read: String,
    header: Header,
    names_arg: bool,
}

impl Reader<'_> {
    /// Takes so many bytes as they are.
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.read.push_str(taken);
        self.rest = rest;
    }

    fn piece(&mut self) {
        if let Some(comment) = self.rest.strip_prefix("--") {
            let length =
                2 + bracketed(comment).unwrap_or_else(|| comment.find('\n').unwrap_or(comment.len()));
            return self.take(length);
        }
        if let Some(length) = bracketed(self.rest) {
            return self.take(length);
        }
        let Some(first) = self.rest.chars().next() else { return };
        match first {
            '"' | '\'' => self.text(first),
            first if is_of_word(first) => {
                let length = self.rest.find(|character| !is_of_word(character)).unwrap_or(self.rest.len());
                if self.rest.get(..length) == Some("function") {
                    self.header = Header::Name;
                }
                self.take(length);
            }
            _ => {
                self.sign(first);
            }
        }
    }

    fn sign(&mut self, first: char) {
        let dots = self.rest.starts_with("...");
        let ends = self.header == Header::Parameters(true) && first == ')';
        self.header = match (self.header, first) {
            (Header::Name, '(') => Header::Parameters(false),
            (Header::Name, '.' | ':') => Header::Name,
            (Header::Parameters(_), ')') => Header::None,
            (Header::Parameters(before), _) => Header::Parameters(before || dots),
            (header, first) if first.is_whitespace() => header,
            _ => Header::None,
        };
        self.take(if dots { 3 } else { first.len_utf8() });
        if ends && self.names_arg {
            self.read.push_str(ARG);
        }
    }

    /// A text between marks; one without an end ends with its line, and is refused by the interpreter.
    fn text(&mut self, mark: char) {
        self.take(mark.len_utf8());
        while let Some(character) = self.rest.chars().next() {
            if character == '\\' {
                let escaped = self.rest.get(1..).and_then(|after| after.chars().next());
                match escaped {
                    Some(
                        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '"' | '\'' | '\n' | '\r' | '0'..='9',
                    ) => self.take(2),
                    Some(other) => {
                        self.rest = self.rest.get(1..).unwrap_or_default();
                        self.take(other.len_utf8());
                    }
                    None => self.take(1),
                }
                continue;
            }
            self.take(character.len_utf8());
            if character == mark || character == '\n' {
                return;
            }
        }
    }
}

/// How long a text in long brackets is that begins here, such as `[[…]]` or `[==[…]==]`.
fn bracketed(text: &str) -> Option<usize> {
    let level = text.strip_prefix('[')?.bytes().take_while(|byte| *byte == b'=').count();
    text.get(1 + level..)?.strip_prefix('[')?;
    let end = format!("]{}]", "=".repeat(level));
    let length = text.find(&end).map(|place| place + end.len());
    Some(length.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_5_1_reads_in_another_way_is_changed() {
        for (script, expected) in [
            (r#"return "a\.b", 'v(\d)'"#, r#"return "a.b", 'v(d)'"#),
            (r#""\n\\\"\065\'" '\x41\z'"#, r#""\n\\\"\065\'" 'x41z'"#),
            (r"[[\.]] [==[ ]] \. ]==] -- '\.'", r"[[\.]] [==[ ]] \. ]==] -- '\.'"),
            ("--[[ '\\. ]] '\\.'", "--[[ '\\. ]] '.'"),
            ("-- '\n'\\.'", "-- '\n'.'"),
            ("a[b] = '\\-'", "a[b] = '-'"),
            ("'a\\\nb\\é'", "'a\\\nbé'"),
            // What is never closed is as it was.
            ("'\\.", "'."),
            ("'\\", "'\\"),
            ("[[ \\.", "[[ \\."),
            ("function f(a, ...) return target end", "function f(a, ...) return target end"),
        ] {
            assert_eq!(translated(script), expected, "{script}");
        }
        for (script, head) in [
            ("function f(...) return arg.n end", "function f(...)"),
            ("local g = function (a, --[[)]] ... )return arg[1]end", "local g = function (a, --[[)]] ... )"),
            ("function a.b:c(x, ...) return arg end", "function a.b:c(x, ...)"),
        ] {
            let expected = script.replacen(head, &format!("{head}{ARG}"), 1);
            assert_eq!(translated(script), expected, "{script}");
        }
        for script in ["function f(a) return g(...), arg end", "local arg = {...} f(...)", "arg = (...)"] {
            assert_eq!(translated(script), script);
        }
    }
}
