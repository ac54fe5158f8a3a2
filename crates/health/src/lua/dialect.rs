//! Translation of Lua 5.1 syntax for the interpreter before a script is loaded. Line numbers don't change, so
//! errors point to the correct line.
//!
//! - A backslash before a character that doesn't need escaping is ignored (`"a\.b"` is `a.b`). Lua 5.2
//!   rejects such strings, or gives the escape a new meaning (`\x41` and `\z`).
//! - A function with `...` also gets its extra values in `arg`, and their number in `arg.n`.

use std::borrow::Cow;

/// Code at the start of functions with `...`, in scripts that mention `arg`.
const ARG_DEFINITION: &str = " local arg={n=select(\"#\",...),...}; ";

/// Returns a script in the interpreter's syntax.
pub(super) fn translated(script: &str) -> Cow<'_, str> {
    let names_arg = words(script).any(|word| word == "arg");
    if !names_arg && !script.contains('\\') {
        return Cow::Borrowed(script);
    }
    let mut reader = Translator {
        rest: script,
        output: String::with_capacity(script.len()),
        header: Header::None,
        mentions_arg: names_arg,
    };
    while !reader.rest.is_empty() {
        reader.translate_token();
    }
    Cow::Owned(reader.output)
}

fn is_word_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

fn words(script: &str) -> impl Iterator<Item = &str> {
    script.split(|character| !is_word_character(character))
}

/// Position within the header of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    None,
    /// After the keyword `function`.
    Name,
    /// Inside the parameter list. True once `...` has been seen.
    Parameters(bool),
}

struct Translator<'s> {
    rest: &'s str,
    output: String,
    header: Header,
    mentions_arg: bool,
}

impl Translator<'_> {
    /// Copies the given number of bytes unchanged.
    fn copy(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.output.push_str(taken);
        self.rest = rest;
    }

    fn translate_token(&mut self) {
        if let Some(comment) = self.rest.strip_prefix("--") {
            let length = 2 + long_bracket_length(comment)
                .unwrap_or_else(|| comment.find('\n').unwrap_or(comment.len()));
            return self.copy(length);
        }
        if let Some(length) = long_bracket_length(self.rest) {
            return self.copy(length);
        }
        let Some(first) = self.rest.chars().next() else { return };
        match first {
            '"' | '\'' => self.translate_string(first),
            first if is_word_character(first) => {
                let length =
                    self.rest.find(|character| !is_word_character(character)).unwrap_or(self.rest.len());
                if self.rest.get(..length) == Some("function") {
                    self.header = Header::Name;
                }
                self.copy(length);
            }
            _ => {
                self.translate_sign(first);
            }
        }
    }

    fn translate_sign(&mut self, first: char) {
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
        self.copy(if dots { 3 } else { first.len_utf8() });
        if ends && self.mentions_arg {
            self.output.push_str(ARG_DEFINITION);
        }
    }

    /// Translates a quoted string. An unterminated string ends with its line, and the interpreter rejects it.
    fn translate_string(&mut self, mark: char) {
        self.copy(mark.len_utf8());
        while let Some(character) = self.rest.chars().next() {
            if character == '\\' {
                let escaped = self.rest.get(1..).and_then(|after| after.chars().next());
                match escaped {
                    Some(
                        'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' | '"' | '\'' | '\n' | '\r' | '0'..='9',
                    ) => self.copy(2),
                    Some(other) => {
                        self.rest = self.rest.get(1..).unwrap_or_default();
                        self.copy(other.len_utf8());
                    }
                    None => self.copy(1),
                }
                continue;
            }
            self.copy(character.len_utf8());
            if character == mark || character == '\n' {
                return;
            }
        }
    }
}

/// Returns the length of a leading string in long brackets, such as `[[…]]` or `[==[…]==]`.
fn long_bracket_length(text: &str) -> Option<usize> {
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
    fn only_syntax_that_differs_in_lua_5_1_is_changed() {
        for (script, expected) in [
            (r#"return "a\.b", 'v(\d)'"#, r#"return "a.b", 'v(d)'"#),
            (r#""\n\\\"\065\'" '\x41\z'"#, r#""\n\\\"\065\'" 'x41z'"#),
            (r"[[\.]] [==[ ]] \. ]==] -- '\.'", r"[[\.]] [==[ ]] \. ]==] -- '\.'"),
            ("--[[ '\\. ]] '\\.'", "--[[ '\\. ]] '.'"),
            ("-- '\n'\\.'", "-- '\n'.'"),
            ("a[b] = '\\-'", "a[b] = '-'"),
            ("'a\\\nb\\é'", "'a\\\nbé'"),
            // An unterminated string is left unchanged.
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
            let expected = script.replacen(head, &format!("{head}{ARG_DEFINITION}"), 1);
            assert_eq!(translated(script), expected, "{script}");
        }
        for script in ["function f(a) return g(...), arg end", "local arg = {...} f(...)", "arg = (...)"] {
            assert_eq!(translated(script), script);
        }
    }
}
