//! Glob patterns for names and paths: `*`, `**`, `?`, `[a-z]`, `{a,b}`, with `\` as the escape character. As
//! in Argo CD, `*` and `?` also match slashes unless a separator is set.

/// Maximum number of patterns that a pattern's braces may expand to.
const ALTERNATIVES_MAX: usize = 256;
/// Maximum length of a pattern in characters; longer than any realistic path or URL.
const CHARS_MAX: usize = 4096;
/// Maximum total number of tokens after brace expansion.
const TOKENS_MAX: usize = 16_384;

/// Error returned when a string is not a valid glob pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern {pattern:?}: {reason}")]
pub struct InvalidGlob {
    /// Pattern as the user wrote it.
    pub pattern: String,
    /// Reason the pattern is invalid, such as `a } has no matching {`.
    pub reason: &'static str,
}

/// Glob pattern for names or paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    alternatives: Vec<Vec<Token>>,
    /// Separator that `*` and `?` don't match, but `**` does.
    separator: Option<char>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    AnyChar,
    AnyText,
    /// Two or more stars, which also match separators.
    AnyPath,
    Class {
        is_negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Glob {
    /// Parses a pattern in which `*` and `?` match every character.
    pub fn parse(pattern: &str) -> Result<Self, InvalidGlob> {
        let wrong = |reason| InvalidGlob { pattern: pattern.to_owned(), reason };
        let chars: Vec<char> = pattern.chars().collect();
        if chars.len() > CHARS_MAX {
            return Err(wrong("it is longer than 4096 characters"));
        }
        let mut rest = chars.as_slice();
        let alternatives = parse_alternatives(&mut rest, 0).map_err(wrong)?;
        if alternatives.iter().map(Vec::len).sum::<usize>() > TOKENS_MAX {
            return Err(wrong("its braces expand to patterns that are too long"));
        }
        if rest.is_empty() {
            Ok(Self { alternatives, separator: None })
        } else {
            Err(wrong("a } has no matching {"))
        }
    }

    /// Parses a pattern in which `*` and `?` match every character except the separator.
    pub fn with_separator(pattern: &str, separator: char) -> Result<Self, InvalidGlob> {
        Ok(Self { separator: Some(separator), ..Self::parse(pattern)? })
    }

    /// Returns true if the pattern matches the whole text.
    pub fn matches(&self, text: &str) -> bool {
        let chars: Vec<char> = text.chars().collect();
        self.alternatives.iter().any(|tokens| matches_tokens(tokens, &chars, self.separator))
    }
}

/// Parses up to the end of the pattern or of the current brace alternative.
fn parse_alternatives(rest: &mut &[char], depth: usize) -> Result<Vec<Vec<Token>>, &'static str> {
    let mut read = vec![Vec::new()];
    while let Some((first, after)) = rest.split_first() {
        match first {
            '{' => {
                *rest = after;
                let inside = parse_braces(rest, depth.saturating_add(1))?;
                if read.len().saturating_mul(inside.len()) > ALTERNATIVES_MAX {
                    return Err("its braces expand to more than 256 patterns");
                }
                let join = |before: &Vec<Token>| {
                    let before = before.clone();
                    inside
                        .iter()
                        .map(move |one| [before.as_slice(), one.as_slice()].concat())
                        .collect::<Vec<_>>()
                };
                read = read.iter().flat_map(join).collect();
            }
            '}' | ',' if depth > 0 => break,
            '}' => break,
            _ => {
                let token = parse_token(rest)?;
                read.iter_mut().for_each(|one| one.push(token.clone()));
            }
        }
    }
    Ok(read)
}

fn parse_braces(rest: &mut &[char], depth: usize) -> Result<Vec<Vec<Token>>, &'static str> {
    const UNCLOSED: &str = "a { has no matching }";
    if depth > 8 {
        return Err("its braces are nested deeper than 8 levels");
    }
    let mut inside = Vec::new();
    loop {
        inside.extend(parse_alternatives(rest, depth)?);
        if inside.len() > ALTERNATIVES_MAX {
            return Err("its braces expand to more than 256 patterns");
        }
        let (end, after) = rest.split_first().ok_or(UNCLOSED)?;
        *rest = after;
        if *end == '}' {
            return Ok(inside);
        }
    }
}

fn parse_token(rest: &mut &[char]) -> Result<Token, &'static str> {
    let (first, after) = rest.split_first().ok_or("it ends unexpectedly")?;
    *rest = after;
    Ok(match first {
        '*' => {
            let more = rest.iter().take_while(|next| **next == '*').count();
            *rest = rest.get(more..).unwrap_or_default();
            if more == 0 { Token::AnyText } else { Token::AnyPath }
        }
        '?' => Token::AnyChar,
        '\\' => {
            let (escaped, after) = rest.split_first().ok_or("it ends with a \\")?;
            *rest = after;
            Token::Char(*escaped)
        }
        '[' => parse_class(rest)?,
        other => Token::Char(*other),
    })
}

fn parse_class(rest: &mut &[char]) -> Result<Token, &'static str> {
    const UNCLOSED: &str = "a [ has no matching ]";
    let not = matches!(rest.first(), Some('!' | '^'));
    if not {
        *rest = rest.get(1..).unwrap_or_default();
    }
    let mut ranges = Vec::new();
    loop {
        match *rest {
            [']', after @ ..] if !ranges.is_empty() => {
                *rest = after;
                return Ok(Token::Class { is_negated: not, ranges });
            }
            [from, '-', to, after @ ..] if *to != ']' => {
                ranges.push((*from, *to));
                *rest = after;
            }
            [one, after @ ..] => {
                ranges.push((*one, *one));
                *rest = after;
            }
            [] => return Err(UNCLOSED),
        }
    }
}

/// Returns true if the tokens match the whole text. Tracks the set of possible positions, so the work per
/// character is bounded by the number of tokens.
fn matches_tokens(tokens: &[Token], text: &[char], separator: Option<char>) -> bool {
    let mut places = vec![false; tokens.len()];
    places.insert(0, true);
    skip_stars(tokens, &mut places);
    for found in text {
        let mut next = vec![false; places.len()];
        for (at, token) in tokens.iter().enumerate().filter(|(at, _)| places.get(*at) == Some(&true)) {
            let (to, is_there) = match token {
                Token::AnyPath => (at, true),
                Token::AnyText => (at, separator != Some(*found)),
                one => (at.saturating_add(1), matches_char(one, *found, separator)),
            };
            if let Some(place) = next.get_mut(to).filter(|_| is_there) {
                *place = true;
            }
        }
        skip_stars(tokens, &mut next);
        places = next;
    }
    places.last() == Some(&true)
}

/// Advances past stars, which can match the empty string.
fn skip_stars(tokens: &[Token], places: &mut [bool]) {
    let mut is_before = false;
    for (at, place) in places.iter_mut().enumerate() {
        *place |= is_before;
        is_before = *place && matches!(tokens.get(at), Some(Token::AnyText | Token::AnyPath));
    }
}

fn matches_char(token: &Token, found: char, separator: Option<char>) -> bool {
    match token {
        Token::Char(wanted) => *wanted == found,
        Token::AnyChar | Token::AnyText | Token::AnyPath => separator != Some(found),
        Token::Class { is_negated: not, ranges } => {
            let is_in = ranges.iter().any(|(from, to)| (*from..=*to).contains(&found));
            is_in != *not && separator != Some(found)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*.yaml", vec!["a.yaml", "sub/a.yaml", ".yaml"], vec!["a.yml", "a.yaml.bak"]),
            ("sub/*", vec!["sub/a", "sub/deep/a"], vec!["a", "other/a"]),
            ("{*.yml,*.yaml}", vec!["a.yml", "b.yaml"], vec!["c.json"]),
            ("{a,b{c,d}}.json", vec!["a.json", "bc.json", "bd.json"], vec!["b.json", "cd.json"]),
            ("?.yaml", vec!["a.yaml", "/.yaml"], vec!["ab.yaml", ".yaml"]),
            ("[a-c]*[!0-9]", vec!["ax", "b1x"], vec!["dx", "a1"]),
            ("**/a", vec!["x/a", "x/y/a"], vec!["a"]),
            ("a\\*b", vec!["a*b"], vec!["axb"]),
            ("*a*b*c*", vec!["abc", "xaybzc"], vec!["acb"]),
            ("", vec![""], vec!["a"]),
            ("ü?", vec!["üb"], vec!["u"]),
            ("a,b", vec!["a,b"], vec!["a"]),
        ] {
            let glob = Glob::parse(pattern).unwrap();
            yes.iter().for_each(|path| assert!(glob.matches(path), "{pattern} on {path}"));
            no.iter().for_each(|path| assert!(!glob.matches(path), "{pattern} on {path}"));
        }
    }

    #[test]
    fn stars_do_not_match_separators() {
        for (pattern, yes, no) in [
            ("https://a/*", vec!["https://a/b", "https://a/"], vec!["https://a/b/c", "https://a"]),
            ("https://a/**", vec!["https://a/b", "https://a/b/c", "https://a/"], vec!["https://b/a"]),
            ("https://*/x/*", vec!["https://h/x/y"], vec!["https://h/i/x/y", "https://h/x/y/z"]),
            ("**/x/*/z", vec!["a/x/y/z", "a/x/b/x/y/z", "a/x/x/x/z"], vec!["x/y/z", "a/x/y/w/z"]),
            ("a?c", vec!["abc"], vec!["a/c"]),
            ("a[!b]c", vec!["axc"], vec!["abc", "a/c"]),
            ("*", vec!["", "a"], vec!["a/b"]),
            ("***", vec!["", "a", "a/b"], vec![]),
            ("{a,b/c}/*", vec!["a/x", "b/c/x"], vec!["b/x"]),
        ] {
            let glob = Glob::with_separator(pattern, '/').unwrap();
            yes.iter().for_each(|text| assert!(glob.matches(text), "{pattern} on {text}"));
            no.iter().for_each(|text| assert!(!glob.matches(text), "{pattern} on {text}"));
        }
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        let many = "{a,b}".repeat(9);
        for pattern in ["{a", "a}", "[a", "[]", "a\\", "{a,{b}", many.as_str()] {
            let error = Glob::parse(pattern).unwrap_err();
            assert!(error.to_string().contains("invalid pattern") && error.pattern == pattern, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::parse(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&"a".repeat(5_000).replace("aaaa", "aaab").replace('a', "b")));
    }

    /// Regression test for a fuzzing result: the matcher retried a `*` after a `**` for every combination of
    /// their positions.
    #[test]
    fn no_pattern_takes_long() {
        let text = "a".repeat(1000);
        let glob = Glob::with_separator(&format!("**{}b", "a*".repeat(100)), '/').unwrap();
        assert!(!glob.matches(&text) && glob.matches(&format!("{text}b")));
        assert!(Glob::parse(&"a".repeat(4096)).is_ok() && Glob::parse(&"a".repeat(4097)).is_err());
        assert!(Glob::parse(&format!("{{{}}}{}", "a,".repeat(99), "b".repeat(1000))).is_err());
    }
}
